"""The base of all decoders: their life cycle, the parts of a message, limits and counts, surrogates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar

from pydantic_core import from_json, to_json

from ..errors import LimitExceeded, LocalProtocolError, StreamError, TruncatedStream
from ..events import (
    Event,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    StreamEnd,
    StreamStart,
    StreamWarning,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallFragment,
    UnknownPayload,
)
from ..ground.text import SurrogateJoiner, deeper_than, one_line, well_formed, well_formed_tree
from ..limits import Limits
from ..parts import Carry, Finish, ResumePoint
from .cursors import EventCursors
from .plain import GrowingPart, PlainDelta
from .reading import (
    ERROR_PAYLOAD,
    NO_COUNTS,
    KnownFields,
    UsageMap,
    label_of,
    place_of,
    provider_error,
    read_text,
    says_something,
    unread,
    weight,
)

NOT_STARTED = "the decoder never called emit_start; begin each response with emit_start(model, response_id)"

_NOTHING: frozenset[tuple[str, str]] = frozenset()  # shared: an empty set takes 216 bytes, a thousand streams have many
_MAX_KEPT_DEPTH = 200  # of what goes back to the provider; orjson writes 254 levels, and the request adds some
_MAX_MOMENT = 64  # characters of a point in time
_MAX_WARNINGS = 64  # of different code or detail in one response; a hostile peer could invent them without end


class WireDecoder(ABC):
    """Decodes one response. Feed it payloads until `done`, then call `finish` once; each returns events.

    It never raises because of the peer's data: an error makes it `done`, and is in the `StreamEnd` of `finish`.
    """

    name: str = ""
    usage: UsageMap = NO_COUNTS
    plain: ClassVar[tuple[PlainDelta, ...]] = ()
    """The forms of payloads that only add a piece of text, reasoning or arguments. Such payloads may be decoded without
    `feed`; without forms, each payload goes through it."""

    cursor: ClassVar[str] = ""
    """The field that identifies an event; empty where events have none."""
    cursor_place: ClassVar[tuple[str, ...]] = ()
    """The fields of an event that give its kind and place."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.done = False  # the terminal marker or an error was seen; what comes after it is not read
        self.error: StreamError | None = None
        self.pending_as: str | None = None
        """The status of a response that the provider still works on; a whole answer may have it."""
        self.raw: bytes | None = None
        """The bytes of the payload being fed, where there are any: numbers can be read again, exactly."""
        self.loose = False  # some payload held half a surrogate pair, or may hold one: see `be_loose`
        self._payload: Any = None  # the payload being read, where it is looked at closely
        self._exact: Any = None  # the same, its numbers exact
        self.out: list[Event] = []
        self._started = False
        self._open: str | None = None  # the part that is being told: "text" or "reasoning"
        self._whole: str | None = None  # of the part that is being told, if its deltas were wrong
        self._part_count = 0
        self.part = GrowingPart(limits.max_text_bytes)
        """The part that grows, for payloads that are decoded without `feed`."""
        self._joiners: dict[str, SurrogateJoiner] = {}
        self._finish_raw: str | None = None
        self.cursors = EventCursors(self.cursor, self.cursor_place) if self.cursor else None
        self._last_id: str | None = None  # of the response, where the start did not have it
        self._last_model: str | None = None  # the one that goes on with the response, where it is another
        self._verdict: StreamError | None = None  # the provider's own, on a response that it did finish
        self._carry: Carry | None = None  # what goes into the next request beside the messages
        self._counts: dict[str, int] = {}  # of tokens, by their path in the wire's usage object
        self._usage_objects: tuple[dict[str, Any], ...] = ()  # the first and the last
        self._warned: frozenset[tuple[str, str]] = _NOTHING

    @property
    def started(self) -> bool:
        """True once a payload was understood."""
        return self._started

    @abstractmethod
    def feed(self, payload: dict[str, Any]) -> list[Event]:
        """Decodes one payload."""

    @property
    def needs_each(self) -> bool:
        """True while `feed` has to see each payload, since a piece may mean more than its text."""
        return self.loose or self.done

    def after_plain(self, payload: dict[str, Any]) -> None:  # noqa: B027 - most wires have nothing there that counts
        """Reads the other fields of the last payload that was decoded without `feed`."""

    def terminate(self) -> list[Event]:
        """Takes the ``[DONE]`` line, which means nothing on most wires, since gateways add it."""
        self.out = []
        return self.out

    def after_end(self, payload: dict[str, Any]) -> list[Event] | None:
        """Takes a payload after the end of the response; returns None if its coming only has to be reported."""
        return None

    def resume_point(self) -> ResumePoint | None:
        """Returns the place at which the response may be resumed; None if it cannot be, or has ended."""
        return None

    @abstractmethod
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        """Closes open parts and calls at the end. Returns the finish, and whether the wire's end marker was seen."""

    def finish(
        self, *, framed: bool = True, error: StreamError | None = None, abandoned: bool = False, is_answer: bool = False
    ) -> list[Event]:
        """Ends the response, because of `error` if there is one. `framed`: the payloads came from a byte stream, so
        that an end-of-stream line is expected; `abandoned`: the rest is not wanted; `is_answer`: the payloads are those
        of a whole answer."""
        self.out = []
        # The first error wins: the provider's own, then the transport's, then a missing end, then the wire's verdict.
        self.error = self.error or error
        resume_from = self.resume_point() if self.error is None or isinstance(self.error, TruncatedStream) else None
        finish, complete = self.close(framed=framed and not abandoned)
        self.close_places(whole=complete and self.error is None)
        self.end_part()
        if abandoned and not self.done:
            complete = False
        elif self.error is None and not complete and is_answer and self.pending_as is not None:
            finish, self._finish_raw = "pending", self.pending_as
        elif self.error is None and not complete:
            said = "answer is not finished" if is_answer else "stream ended before its terminal marker"
            self.error = TruncatedStream(f"the {self.name} {said}")
        if self.error is not None:
            complete = False
            finish = finish if isinstance(self.error, TruncatedStream) else "error"
        elif complete and self._verdict is not None:
            self.error, finish = self._verdict, "error"
        usage = self.usage.usage(self._counts)
        self.out.append(
            StreamEnd(
                finish=finish,
                finish_raw=read_text(self._finish_raw),
                complete=complete,
                error=self.error,
                usage=usage,
                usage_raw={key: value for one in self._usage_objects for key, value in one.items()} or None,
                response_id=self._last_id,
                model=self._last_model,
                resume_from=None if complete else resume_from,
                carry=self._carry,
            )
        )
        self.done = True
        return self.out

    def forget(self) -> None:
        """Releases the payload that was read last."""
        self.raw = self._payload = self._exact = None

    def be_loose(self) -> None:
        """Joins halves of surrogate pairs from now on, since payloads may contain some."""
        self.loose = True

    def fail(self, error: StreamError) -> None:
        """Ends the stream because of `error`; later payloads are not read."""
        if self.error is None:
            self.error = error
        self.done = True

    def fail_by(self, payload: Mapping[str, Any], error: StreamError, fields: KnownFields = ERROR_PAYLOAD) -> None:
        """Ends the stream because of the error that a payload reports, and emits the payload's other fields."""
        self.emit_unread(payload, fields)
        self.fail(error)

    def warn(self, code: str, detail: str = "") -> None:
        """Reports a tolerated deviation once, and a limited number of different ones."""
        if (code, detail) not in self._warned and len(self._warned) < _MAX_WARNINGS:
            self._warned |= {(code, detail)}
            self.out.append(StreamWarning(code, one_line(detail)))

    # -- for the wires --

    def emit_start(self, model: object, response_id: object) -> None:
        """Emits the start of the response, which shows that the payload was understood."""
        self._started = True
        self.out.append(StreamStart(self.name, read_text(model), read_text(response_id)))

    def emit_text(self, text: object) -> None:
        """Emits a delta of text, and begins a text if none is open. Other values are passed on as unknown."""
        if not isinstance(text, str):
            self._emit_no_text(text)
            return
        if self._open != "text":
            self._begin_part("text")
            self.out.append(TextStart())
        if text := self._bounded("text", text):
            self.out.append(TextDelta(text))

    def emit_reasoning(self, text: object) -> None:
        """Emits a delta of reasoning, and begins reasoning if none is open. Other values are passed on as unknown."""
        if not isinstance(text, str):
            self._emit_no_text(text)
            return
        if self._open != "reasoning":
            self._begin_part("reasoning")
            self.out.append(ReasoningStart())
        if text := self._bounded("reasoning", text):
            self.out.append(ReasoningDelta(text))

    def emit_refusal(self, text: object) -> None:
        """Emits a delta of a refusal. Other values are passed on as unknown."""
        if not isinstance(text, str):
            self._emit_no_text(text)
        elif text := self._bounded("refusal", text):
            self.out.append(RefusalDelta(text))

    def emit_call(
        self,
        place: object,
        id: object = None,
        name: object = None,
        arguments: object = "",
        *,
        path: Iterable[str | int] = (),
        start: bool = False,
        end: bool = False,
    ) -> None:
        """Emits a piece of a call: its beginning, more of its arguments, its end, or all of these.

        Args:
            place: the wire's label for the call, which distinguishes it from other open calls. None: the latest call.
            id: the call's id, if the payload contains it.
            name: the tool's name, if the payload contains it.
            arguments: more of their JSON text; or all of them, as an object.
            path: the place of the object in the payload, where its integers are read again exactly.
            start: the wire says that a call begins here.
            end: the wire says that the call is complete.
        """
        if not self._started:
            raise LocalProtocolError(NOT_STARTED)
        text, problem = self.arguments_text(arguments, path)
        label = None if place is None else label_of(place)
        self.out.append(
            ToolCallFragment(label, read_text(id), read_text(name), text, start=start, end=end, problem=problem)
        )

    def arguments_text(self, arguments: object, path: Iterable[str | int]) -> tuple[str, str | None]:
        """Returns arguments of any type as JSON text, and the code of the problem if they cannot be written as such."""
        if isinstance(arguments, str) or arguments is None:
            return arguments or "", None
        return self.object_text(arguments, path)

    def close_places(self, *, whole: bool) -> None:  # noqa: B027 - most wires have no places
        """Ends open calls at the end of the response; `whole`: the response ended as the wire promises."""

    def _emit_no_text(self, value: object) -> None:
        if says_something(value):
            self.emit_unknown(value)

    def _begin_part(self, kind: str) -> None:
        if not self._started:
            raise LocalProtocolError(NOT_STARTED)
        self.end_part()
        self._open, self.part.kind, self.part.sink = kind, _DELTAS[kind], None
        self._part_count += 1
        self.holds(self._part_count, "the response")

    def end_part(self, provider_state: Mapping[str, Any] | None = None) -> None:
        """Ends the open text or reasoning, if there is one; `provider_state` goes back with it in the history."""
        if self._joiners:
            self._flush_joiners()
        if self._open == "text":
            self.out.append(TextEnd(provider_state, self._whole))
        elif self._open == "reasoning":
            self.out.append(ReasoningEnd(provider_state, self._whole))
        self._open = self._whole = None

    def replace_part(self, whole: str) -> None:
        """Replaces all deltas of the open text or reasoning: its end event will contain the whole."""
        if self.charge(whole):
            self._whole = well_formed(whole) if self.loose else whole

    def read_foreign(self, payload: dict[str, Any], fields: KnownFields = ERROR_PAYLOAD, kind: object = "") -> None:
        """Takes a payload that is not an event of the wire: an error, or an unknown payload, which is passed on."""
        if error := provider_error(payload):
            self.fail_by(payload, error, fields)
        else:
            self.warn("unknown_event", str(kind or "")[: self.limits.max_name_bytes])
            self.emit_unknown(payload)

    def emit_unknown(self, raw: object, place: str | None = None) -> None:
        """Emits a piece of the payload that the wire does not know, so that nothing is lost silently."""
        self.out.append(UnknownPayload(raw, place))

    def emit_beside(self, found: Mapping[str, Any], known: AbstractSet[str], place: str) -> None:
        """Emits the unknown fields of an object that are not empty, as one event."""
        if not found.keys() <= known:
            rest = {key: value for key, value in found.items() if key not in known and says_something(value)}
            if rest:
                self.emit_unknown(rest, place)

    def emit_unread(self, found: Mapping[str, Any], fields: KnownFields, *path: str | int) -> bool:
        """Emits the unknown fields of the object at `path` and of the objects inside it, an event for each object;
        returns whether there are any. Emits none if the object itself was just emitted as unknown."""
        last = self.out[-1] if self.out else None
        if isinstance(last, UnknownPayload) and last.raw is found:
            return True
        count = len(self.out)
        for at, rest in unread(found, fields, path):
            self.emit_unknown(rest, place_of(at))
        return len(self.out) > count

    def carry_on(self, name: str, value: object, expires_at: object = None) -> None:
        """Keeps a field for the next request (`Wire.carries`), if the value is a text within the limit on ids."""
        if isinstance(value, str) and 0 < len(value) <= self.limits.max_id_bytes:
            moment = expires_at if isinstance(expires_at, str) and len(expires_at) <= _MAX_MOMENT else None
            self._carry = Carry({name: value}, moment)

    def read_usage(self, usage: object) -> None:
        """Keeps the token counts of a usage object; later counts replace earlier ones. Other values are ignored."""
        if isinstance(usage, dict):
            self.usage.read(usage, self._counts)
            if self._usage_objects:
                self._pass_on_replaced(usage)
            self._usage_objects = (*self._usage_objects[:1], usage)

    def _pass_on_replaced(self, usage: dict[str, Any]) -> None:
        """Emits what the last usage object has and neither the first nor this one, which replaces it."""
        first, last = self._usage_objects[0], self._usage_objects[-1]
        rest = {
            key: value
            for key, value in last.items()
            if (now := usage.get(key, first.get(key))) != value
            and (now is None or not (key in self.usage.names or isinstance(value, (int, float))))
        }
        self.emit_beside(rest, frozenset(), "usage")

    def object_text(self, value: object, path: Iterable[str | int]) -> tuple[str, str | None]:
        """Returns an arguments object as JSON text, and the code of the problem if it cannot be written as such. The
        parser of payloads makes floats of integers from 2**64 on (measured), so the payload is read again, once; `path`
        leads to the object in it."""
        if self._exact is None and self.raw is not None:
            try:
                self._exact = from_json(self.raw, allow_inf_nan=False)
            except ValueError:  # bytes that only the tolerant parser takes: what it made of them is all there is
                self._exact = self._payload
        exact = self._exact
        if exact is not None:
            for key in path:
                exact = exact[key]
        try:
            return to_json(value if exact is None else exact).decode(), None
        except (ValueError, RecursionError):
            return "", "too_deep"

    def to_keep(self, value: Any) -> Any:
        """Returns a part of a payload to be kept for the history; None if it is nested too deeply."""
        if deeper_than(_MAX_KEPT_DEPTH, value):
            self.warn("nested_too_deep")
            return None
        plain = self.raw is not None and not self.loose  # what somebody else parsed may hold NaN
        return value if plain else well_formed_tree(value)

    def holds(self, count: int, where: str) -> bool:
        """Returns whether that many blocks are within the limit; too many end the stream."""
        limit = self.limits.max_open_blocks
        if count > limit:
            self.fail(LimitExceeded("max_open_blocks", limit=limit, where=where))
        return count <= limit

    def normalized(self, finish: Finish | None, has_calls: bool) -> Finish | None:
        """Returns the finish; `tool_calls` where tools were called and the provider says ``stop``."""
        if finish != "stop" or not has_calls:
            return finish
        self.warn("finish_reason_normalized")
        return "tool_calls"

    def charge(self, extra: object) -> bool:
        """Counts data that is kept beside the text (a signature, a citation) as text; False if that is too much."""
        return self._counted(weight(extra))

    def _bounded(self, kind: str, text: str) -> str:
        if not self._counted(len(text)):
            return ""
        if not self.loose:
            return text
        joiner = self._joiners.setdefault(kind, SurrogateJoiner())
        text = joiner.feed(text)
        self._warn_lone(joiner)
        return text

    def _counted(self, size: int) -> bool:
        part = self.part
        part.size += size
        if part.size > part.max_size:
            self.fail(LimitExceeded("max_text_bytes", limit=part.max_size, value=part.size, where="the text"))
        return part.size <= part.max_size

    def _flush_joiners(self) -> None:
        for kind, joiner in self._joiners.items():
            if (rest := joiner.finish()) and (delta := _DELTAS.get(kind)):
                self.out.append(delta(rest))
            self._warn_lone(joiner)
        self._joiners.clear()

    def _warn_lone(self, joiner: SurrogateJoiner) -> None:
        if joiner.lone:
            self.warn("lone_surrogate")


_DELTAS: dict[str, type[TextDelta] | type[ReasoningDelta] | type[RefusalDelta]] = {
    "text": TextDelta,
    "reasoning": ReasoningDelta,
    "refusal": RefusalDelta,
}
