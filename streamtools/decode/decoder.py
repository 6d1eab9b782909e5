"""Decodes a response body into events: framing, wire and stages in one sans-IO object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, cast

import orjson

from ..errors import LimitExceeded, LocalProtocolError, ProviderError, StreamError, TruncatedStream, WrongWire
from ..events import (
    Event,
    Observation,
    ReasoningDelta,
    StreamEnd,
    StreamWarning,
    TextDelta,
    ToolCallFragment,
    UnknownPayload,
)
from ..framing import Frame
from ..ground.text import excerpt, type_name
from ..limits import Limits
from ..parts import OUTCOMES, ResumePoint
from ..stages import DEFAULT, Deferred, StageList
from ..tools import AnyTools, Toolset
from ..turn import Turn, TurnBuilder
from ..wires import Wire, WireDecoder, detect, find
from ..wires.decoder import NOT_STARTED
from ..wires.plain import GrowingPart, PlainPath
from ..wires.reading import beside_error, malformed, named_error, provider_error
from .body import (
    SLICE_BYTES,
    Body,
    as_items,
    payloads_of,
    rewritten,
    slices,
    tolerant_json,
    unknown_wire,
    weighed,
    wrapped,
)

if TYPE_CHECKING:
    from ..stages import OutputType

_MAX_UNDETECTED = 32  # payloads that may pass before one shows the wire (keep-alives, prompt filters)
_LONG_STREAK = 4  # pieces in a row before anything is learned: the arguments of most calls are over sooner
_KEEPALIVES = ("ping", "keepalive")  # types of payloads that mean nothing on any wire


class StreamDecoder:
    """Decodes one stream without an event loop. Feed it items until `done` or the source ends, then call `finish` once.

    Args:
        wire: the wire of the stream; by default detected from the first payloads.
        tools: tools, functions or bare names.
        stages: the stages between wire and consumer.
        output: the type of the answer; see `streamtools.pipeline`.
        limits: bounds on the stream.
        id_salt: makes generated call ids differ from those of other responses, if the response has no id.
        continues: the turn that this stream continues. `said` then contains the events of that turn.

    Raises:
        ValueError: `wire` is unknown, or the turn cannot be continued; the message says why.
    """

    def __init__(
        self,
        *,
        wire: Wire | str | None = None,
        tools: AnyTools | Toolset = (),
        stages: StageList = DEFAULT,
        output: OutputType | None = None,
        limits: Limits = Limits(),
        id_salt: str = "",
        defer: bool = False,
        continues: Turn | None = None,
    ) -> None:
        if continues is not None:
            wire = resumable(continues)
        self._limits = limits
        self._body = Body(limits)
        self.record = None if wire is None else find(wire)
        """The wire; None while it is unknown."""
        self._wire = None if self.record is None else self.record.new_decoder(limits)
        toolset = tools if isinstance(tools, Toolset) else Toolset(tools)
        if output is not None:
            from ..stages.output import TypedOutput  # most answers have no type

            stages = stages.append(TypedOutput(output))
        self.chain = stages.build(toolset, limits, id_salt, defer=defer)
        """The stages."""
        self.done = False
        """True once the terminal marker or an error was seen: nothing that follows changes the turn."""
        self._plain = PlainPath(()) if self._wire is None else PlainPath(self._wire.plain, self._wire.cursors)
        self._part: GrowingPart | None = None  # what a piece belongs to; None if it belongs to a call
        self._add_arguments: Callable[[Any], Event | None] = _nothing  # takes a piece of the call's arguments
        self._last_plain: dict[str, Any] | bytes | None = None  # the last payload that was decoded so
        self._is_direct = False  # no stage wants the events of pieces
        self._streak = 0  # payloads in a row that gave one piece each
        self.received = 0
        """Size of the input so far, in bytes; payloads that came parsed count with the size of their JSON."""
        self._max_size = limits.max_stream_bytes
        self._seen = False  # some payload came out of the body
        self._is_answer = False  # the payloads are those of a whole answer
        self._looks_like: str | None = None  # the result of detection, where the wire was given
        self._undetected: list[tuple[dict[str, Any], bytes | None]] = []  # payloads from before the wire was known
        self._error: StreamError | None = None
        self._loose = False  # payloads may hold halves of surrogate pairs
        self._deaf = False  # an error ended the stream; items fed after it are ignored
        self._warned: frozenset[str] = frozenset()
        self._finished = False
        self.restored: list[Event] = []
        """The events of all that the turn has which this stream continues, each text in one delta."""
        if continues is not None:
            self._continue(continues)

    def _continue(self, turn: Turn) -> None:
        """Takes what a turn has. Work for a large call is done at once: it was done before, in the same bounds."""

        try:
            for payload in account(turn):
                self._payload(payload, None, self.restored)
                while (deferred := self.deferred) is not None:
                    self.restored += self.resume(deferred.run())
        except StreamError as error:  # the limits are lower now
            self._fail(error, deaf=True)
        if self._wire is not None and self._wire.cursors is not None and turn.resume_from is not None:
            self._wire.cursors.start_after(turn.resume_from.after)
        self.restored += turn.warnings

    @property
    def wire(self) -> str | None:
        """The name of the wire that was given or detected; None while it is unknown."""
        return self.record.name if self.record else None

    @property
    def deferred(self) -> Deferred | None:
        """Work for a large call: call it and pass its result to `resume` before you feed anything else. Nearly always
        None, and always None without ``defer=True``."""
        return self.chain.deferred

    def resume(self, made: Iterable[Event]) -> list[Event]:
        """Continues with the result of the `deferred` work; returns events."""
        out: list[Event] = []
        try:
            self.chain.resume_all(made, out)
        except StreamError as error:
            if self._finished:
                self._end_with(error, out)
                out.extend(self.chain.finish())
            else:
                self._fail(error, deaf=True)
        return out

    def feed(self, item: bytes | str | Mapping[str, Any]) -> list[Event]:
        """Decodes the next item: bytes or text of the body, cut anywhere, or one parsed payload. Returns events.

        Raises:
            LocalProtocolError: after `finish`.
            TypeError: the item has another type.
        """
        out: list[Event] = []
        if self._deaf:
            if self._finished:
                raise LocalProtocolError("StreamDecoder.feed() after finish()")
            return out
        if type(item) is not bytes:
            return self._feed_other(item)
        size = self.received + len(item)
        if size > self._max_size and not self.done:
            return self._last_bytes(item[: self._max_size - self.received], size)
        self.received = size
        try:
            # The hot loop. A payload that adds nothing but a piece is decoded right here, since a call of Python costs
            # as much as comparing the payload; `_plain_event` does the same.
            plain = self._plain
            data: Any
            for data in self._body.feed_payloads(item):
                payload: Any = None
                delta: Event | None = None
                text = None
                surroundings = plain.surroundings
                if surroundings is not None and type(data) is bytes:
                    text = surroundings.piece_of(data)
                if text is None:
                    plain.surroundings = None
                    try:
                        payload = orjson.loads(data)  # a frame is refused like bad JSON
                    except orjson.JSONDecodeError:
                        self._odd_payload(data, out)
                        continue
                    if payload == plain.template and (
                        plain.cursors is None or (payload is not None and plain.cursors.goes_on(payload))
                    ):
                        text = plain.leaf.value
                        if plain.tries:
                            plain.learn_bytes(data, text, payload)
                if text is not None:
                    part = self._part
                    if part is None:
                        delta = self._add_arguments(text)
                    elif type(text) is str and text and (size := part.size + len(text)) <= part.max_size:
                        part.size, kind, sink = size, part.kind, part.sink
                        if sink is not None:
                            sink(text)
                        delta = kind(text)
                if delta is None:
                    if text is not None and plain.cursors is not None:
                        plain.cursors.take_back()
                    self._payload(orjson.loads(data) if payload is None else payload, data, out)
                    plain = self._plain
                else:
                    self._last_plain = data if payload is None else payload
                    if self._is_direct:
                        out.append(delta)
                    else:
                        self.chain.feed_all((delta,), out)
        except StreamError as error:
            self._fail(error, deaf=True)
        return out

    def _feed_other(self, item: bytes | bytearray | memoryview | str | Mapping[str, Any]) -> list[Event]:
        if isinstance(item, str):
            return self.feed(item.encode("utf-8", "surrogatepass"))
        if isinstance(item, (bytes, bytearray, memoryview)):
            return self.feed(bytes(item))
        if not isinstance(item, Mapping):
            raise TypeError(f"a stream yields bytes, str or mappings, not {type(item).__name__}")
        out: list[Event] = []
        try:
            self._mapping(item if type(item) is dict else dict(item), out)
        except StreamError as error:
            self._fail(error, deaf=True)
        return out

    def resume_point(self) -> ResumePoint | None:
        """Returns the place from which you can request the rest of the response, to feed to this decoder; None if the
        wire cannot resume a response, or this one has ended."""
        if self.done or self._deaf or self._wire is None or not self._seen:
            return None
        if self._last_plain is not None:
            self._leave_plain(self._wire)
        return self._wire.resume_point()

    def finish(self, error: StreamError | None = None, *, abandoned: bool = False) -> list[Event]:
        """Ends the stream; returns the last events, including `StreamEnd`.

        Args:
            error: the error that ended the stream, if it did not end by itself.
            abandoned: you do not want the rest, so its absence is no error.
        """
        if self._finished:
            return []
        out: list[Event] = []
        if error is not None:
            self._fail(error)
        elif not self.done and not abandoned:
            self._flush(out)
            if not self._seen:
                self._read_answer(out)
        self._finished = self._deaf = True
        if self._error is None and not abandoned:
            if not self._seen:
                self._error = self._body.what_it_is()
            elif self._wire is None:
                self._error = unknown_wire(self._undetected, self._limits)
            elif self._looks_like is not None and not self._wire.started and self._wire.error is None:
                name = self._wire.name
                is_own = self._looks_like == name
                self._error = malformed(NOT_STARTED) if is_own else WrongWire(name, looks_like=self._looks_like)
        if self._wire is not None and self._seen:
            if self._last_plain is not None:
                self._leave_plain(self._wire)
            answer = self._is_answer
            framed = self._body.began and not answer
            try:
                last = self._wire.finish(framed=framed, error=self._error, abandoned=abandoned, is_answer=answer)
            except Exception as found:
                self._wire.fail(_broken(found, self._wire.name))
                last = [*self._wire.out, StreamEnd(finish="error", error=self._wire.error)]
        else:
            in_band = self._seen and self._error is not None and not isinstance(self._error, TruncatedStream)
            last = [StreamEnd(finish="error" if in_band else None, error=self._error)]
        try:
            self.chain.feed_all(last, out)
        except StreamError as found:  # the call whose arguments came last exceeds a limit
            self._end_with(found, out)
        out.extend(self.chain.finish())
        return out

    def _end_with(self, error: StreamError, out: list[Event]) -> None:
        self._error = self._error or error
        end = (StreamEnd(finish="error", error=self._error),)
        try:
            self.chain.feed_all(end, out)
        except StreamError:  # a stage that holds text back has let go of it at this end, and of as much as before
            self.chain.feed_all(end, out, self.chain.failed_at)

    def _last_bytes(self, item: bytes, size: int) -> list[Event]:
        """Feeds the bytes that the limit still allows; if they do not end the stream, ends it with an error."""
        out = self.feed(item)
        if not self.done:
            out += self.feed(b"")  # only now does the framing raise for anything else that was too large
        if not self.done:
            self._fail(LimitExceeded("max_stream_bytes", limit=self._max_size, value=size))
        self._deaf = True
        return out

    # -- payloads to events --

    def _odd_payload(self, item: bytes | Frame, out: list[Event]) -> None:
        """Takes data that orjson refuses: an end marker, a keep-alive, broken or no JSON; or an "error" event."""
        is_error = isinstance(item, Frame) and item.event == "error"
        data = (item.data if isinstance(item, Frame) else item).strip()
        if isinstance(item, Frame) and item.event == "unframed" and not self.done:
            self._warn("unframed_object", out)
        if self._body.gave_up:
            return
        if not self._seen and self._body.is_lines and tolerant_json(data) is None:
            self._body.give_up()  # an object over several lines, so no JSON lines
        elif data == b"[DONE]":
            self._see()
            if self._wire is not None and not self.done:
                self._leave_plain(self._wire)
                self.chain.feed_all(self._ask(self._wire, out, self._wire.terminate), out)
                self.done = self.done or self._wire.done
        elif not data or data.startswith(b":"):
            self._see()
            if not self.done:
                self._warn("keepalive_data", out)
        elif self.done:
            self._after_done(out)
        elif (payload := tolerant_json(data)) is None:
            self._see()
            text = excerpt(data, self._limits.max_error_excerpt)
            raise ProviderError(text) if is_error else malformed(f"the data of an event is not JSON: {text}")
        elif is_error and isinstance(payload, dict):
            self._see()
            self.chain.feed_all(beside_error(payload), out)
            raise named_error(payload)
        else:
            self._loose = True
            self._payload(payload, data, out)

    def _mapping(self, payload: dict[str, Any], out: list[Event]) -> None:
        """Takes a payload that came parsed: it counts by the size of its JSON, and may contain any value."""
        if (data := wrapped(payload)) is not None:
            self._grow(len(data))
            try:
                self._payload(orjson.loads(data), data, out)
            except orjson.JSONDecodeError:
                self._odd_payload(data, out)
            return
        size, is_loose = weighed(payload)
        self._loose = self._loose or is_loose
        self._grow(size)
        delta = None if self._loose else self._plain_event(payload)
        if delta is None:
            self._payload(payload, None, out)
        else:
            self._last_plain = payload
            self.chain.feed_all((delta,), out)

    def _plain_event(self, payload: dict[str, Any]) -> Event | None:
        try:
            if self._plain.template is None or payload != self._plain.template:
                return None
        except Exception:  # comparing runs code of the program's own values
            return None
        cursors = self._plain.cursors
        if cursors is not None and not cursors.goes_on(payload):
            return None
        text, part, delta = self._plain.leaf.value, self._part, None
        if part is None:
            delta = self._add_arguments(text)
        elif type(text) is str and text and part.size + len(text) <= part.max_size:
            part.size += len(text)
            if part.sink is not None:
                part.sink(text)
            delta = part.kind(text)
        if delta is None and cursors is not None:
            cursors.take_back()
        return delta

    def _grow(self, size: int) -> None:
        self.received += size
        if size > self._limits.max_event_bytes:
            raise LimitExceeded("max_event_bytes", limit=self._limits.max_event_bytes, value=size, where="a payload")
        if self.received > self._max_size and not self.done:
            raise LimitExceeded("max_stream_bytes", limit=self._max_size, value=self.received)

    def _payload(self, payload: Any, raw: bytes | None, out: list[Event]) -> None:
        """Takes any payload that is not just one more piece; `raw` is its JSON text, where it came as that."""
        if raw is not None and self._body.gave_up:
            return
        if self.done:
            self._after_done(out, payload)
            return
        if type(payload) is not dict:
            self._see()
            raise malformed(f"the data of an event is a JSON {type(payload).__name__}, not an object")
        wire = self._wire
        if not self._seen:
            if (answer := rewritten(payload, self.record)) is not None:
                self._take_answer(answer, out)
                return
            is_alive = payload.get("type") in _KEEPALIVES
            if self._body.is_lines and not is_alive and self._name_for(payload) is None:
                self._body.give_up()  # an object that is no payload of a stream, but a whole answer or an error
                return
            self._see()
            self._looks_like = None if wire is None else self._name_for(payload)
            if self._body.is_array:
                self._warn("json_array_stream", out)
        if wire is None:
            wire = self._detect(payload, raw, out)
            if wire is None:
                return
        if self._last_plain is not None:
            self._leave_plain(wire)
        wire.raw = raw
        if self._loose and not wire.loose:
            wire.be_loose()
        events = self._ask(wire, out, wire.feed, payload)
        self.chain.feed_all(events, out)
        self.done = self.done or wire.done
        wire.forget()
        if len(events) == 1 and self.chain.deferred is None:
            self._streak += 1
            if self._streak < _LONG_STREAK or (not wire.needs_each and self._learn_plain(wire, payload, events[0])):
                return
        if self._streak >= _LONG_STREAK:
            self._plain.forget()
        self._streak = 0

    def _ask(self, wire: WireDecoder, out: list[Event], verb: Callable[..., list[Event]], *given: Any) -> list[Event]:
        before = wire.out
        try:
            return verb(*given)
        except Exception as error:
            if wire.out is not before:  # else these are the events of an earlier payload
                self.chain.feed_all(wire.out, out)
            raise _broken(error, wire.name) from error

    def _leave_plain(self, wire: WireDecoder) -> None:
        """Lets the wire know the last payload that it was not asked about."""
        last, self._last_plain = self._last_plain, None
        self._plain.forget()
        if last is not None:
            try:
                wire.after_plain(orjson.loads(last) if isinstance(last, bytes) else last)
            except Exception as error:
                wire.fail(_broken(error, wire.name))

    def _learn_plain(self, wire: WireDecoder, payload: dict[str, Any], event: Event) -> bool:
        """Learns the look of payloads that give nothing but events like this one; False if it gives another."""
        if isinstance(event, ToolCallFragment):
            grow = None if event.name else self.chain.grower(event)
            if grow is not None:
                if self._plain.learn(payload, event.arguments):
                    self._part, self._add_arguments, self._is_direct = None, grow, True
                return True
        elif isinstance(event, (TextDelta, ReasoningDelta)):
            if self._plain.learn(payload, event.text):
                self._part, self._is_direct = wire.part, self.chain.passes(type(event))
            return True
        return False

    def _see(self) -> None:
        if not self._seen:
            self._seen = True
            self._body.settle()

    def _name_for(self, payload: dict[str, Any]) -> str | None:
        given = self.record
        return given.name if given is not None and given.is_own(payload) else detect(payload)

    def _detect(self, payload: dict[str, Any], raw: bytes | None, out: list[Event]) -> WireDecoder | None:
        name = detect(payload)
        if name is None:
            if error := provider_error(payload):
                self.chain.feed_all(beside_error(payload), out)
                raise error
            if payload.get("type") not in _KEEPALIVES:
                self._undetected.append((payload, raw))
            if len(self._undetected) > _MAX_UNDETECTED:
                raise unknown_wire(self._undetected, self._limits)
            return None
        self.record = find(name)
        wire = self._wire = self.record.new_decoder(self._limits)
        self._plain = PlainPath(wire.plain, wire.cursors)
        for early, early_raw in self._undetected:
            wire.raw = early_raw
            self.chain.feed_all(self._ask(wire, out, wire.feed, early), out)
            self.done = self.done or wire.done
        return wire

    def _flush(self, out: list[Event]) -> None:
        """Takes a last block without its blank line: at a clean end of the body it counts, if it is whole."""
        try:
            for frame in self._body.finish():
                if frame.event == "error" or frame.data.strip() == b"[DONE]" or tolerant_json(frame.data) is not None:
                    self._odd_payload(frame.data if frame.event == "message" else frame, out)
        except StreamError as error:
            self._fail(error)

    def _take_answer(self, payloads: list[dict[str, Any]], out: list[Event]) -> None:
        for payload in payloads:
            self._is_answer = True
            self._see()
            self._payload(payload, None, out)

    def _read_answer(self, out: list[Event]) -> None:
        answer = self._body.as_json
        payloads = payloads_of(answer, self.record) if isinstance(answer, dict) else None
        try:
            self._take_answer(payloads or [], out)
        except StreamError as error:
            self._fail(error)

    # -- errors and warnings --

    def _fail(self, error: StreamError, *, deaf: bool = False) -> None:
        self._deaf = self._deaf or deaf
        if self.done:
            return
        self.done = True
        if self._wire is not None:
            self._leave_plain(self._wire)
        if self._wire is not None and self._seen:
            self._wire.fail(error)
            self._error = self._wire.error
        elif self._error is None:
            self._error = error

    def _after_done(self, out: list[Event], payload: dict[str, Any] | None = None) -> None:
        wire = self._wire
        if self._error is not None or (wire is not None and wire.error is not None):
            return
        if wire is not None and self._loose and not wire.loose:
            wire.be_loose()
        try:
            events = wire.after_end(payload) if wire is not None and isinstance(payload, dict) else None
        except Exception:  # it changes nothing any more, and is passed on
            events = None
        if events is None:
            self._warn("data_after_done", out)
        self.chain.feed_all([UnknownPayload(payload)] if events is None and payload else events or (), out)

    def _warn(self, code: str, out: list[Event]) -> None:
        if code not in self._warned:
            self._warned |= {code}
            out.append(StreamWarning(code))


def _broken(error: Exception, wire: str) -> StreamError:
    """Returns the error of a stream whose wire's decoder raised this. What it says may hold values of the peer's, and
    is only among the causes."""
    if isinstance(error, StreamError):
        return error
    at = extract_tb(error.__traceback__)[-1]
    broken = malformed(
        str(error)
        if isinstance(error, LocalProtocolError)
        else f"the decoder of {wire} raised {type_name(error)} (in {at.name}, {Path(at.filename).name}:{at.lineno})"
    )
    broken.__cause__ = error
    return broken


def _nothing(text: Any) -> None:
    """Makes no event: nothing was learned."""


# -- a cut turn that is continued --

# Makes the payloads that say again what a cut turn has, for the stream that goes on with it.
#
# A decoder that is fed these stands where the cut one stood, so that nothing else about the cut stream has to be kept.


def resumable(turn: Turn) -> Wire:
    if turn.wire is None:
        raise ValueError("the turn cannot be continued: its wire is unknown")
    wire = turn.record or find(turn.wire)
    if wire.resumed_arguments is None:
        raise ValueError(f"the turn cannot be continued: {wire.name} has no way to resume a response")
    if turn.resume_from is None:
        why = "it is complete" if turn.complete else "it never began, or its provider ended it with an error"
        raise ValueError(f"the turn cannot be continued: {why}")
    return wire


def account(turn: Turn) -> Iterator[dict[str, Any]]:
    path = resumable(turn).resumed_arguments
    assert path is not None, "the wire resumes"
    assert turn.resume_from is not None, "the turn can be continued"
    texts = {call.index: call.arguments_text for call in turn.calls}
    for payload, number in turn.resume_from.account:
        if number is None:
            yield dict(payload)
        elif text := texts.get(number):
            yield _with_text(payload, path, text)


def settled(turn: Turn) -> dict[str, Observation]:
    return {one.call_id: one for one in turn.observations if not OUTCOMES[one.outcome].may_run_later}


def unsettled(turn: Turn, restored: Iterable[Event], keep: Callable[[Event], None]) -> list[Event]:
    """Returns the events of a turn that is continued but for those of calls whose end stands; `keep` takes these."""
    ends, left = settled(turn), list[Event]()
    for observation in ends.values():
        keep(observation)
    for event in restored:
        if getattr(event, "call_id", None) in ends:
            keep(event)
        else:
            left.append(event)
    return left


def _with_text(payload: Mapping[str, Any], path: Sequence[str], text: str) -> dict[str, Any]:
    first, *rest = path
    return {**payload, first: _with_text(payload[first], rest, text) if rest else text}


def parse(
    body: bytes | Mapping[str, Any] | Iterable[bytes | str | Mapping[str, Any]],
    *,
    wire: Wire | str | None = None,
    tools: AnyTools | Toolset = (),
    stages: StageList = DEFAULT,
    output: OutputType | None = None,
    limits: Limits = Limits(),
    continues: Turn | None = None,
) -> Turn:
    """Reads a whole response and returns the turn: the model's text and its calls.

    Runs no tool, needs no event loop, and raises nothing because of the response's content: see ``turn.error``.

    Args:
        body: the bytes of the response, or its chunks in order, cut anywhere; or its parsed payloads; or a whole answer
            without a stream: its bytes, or a dict.
        wire: the wire of the response; by default detected from the first payloads.
        tools: tools, functions or bare names. Calls get the registered names, and their arguments are validated.
        stages: the stages between wire and turn.
        output: the type of the answer; see `streamtools.pipeline`.
        limits: bounds on the stream.
        continues: a turn that was cut and that this body continues, from ``turn.resume_from`` on. The result is the
            whole turn, with the observations of the given one.

    Raises:
        TypeError: `body` is neither bytes nor an iterable, or is a dict that is no answer.
        ValueError: `wire` is unknown, or the turn cannot be continued.

    >>> turn = parse(b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\\n\\ndata: [DONE]\\n\\n')
    >>> turn.text, turn.finish, turn.complete
    ('Hi', 'stop', True)
    """
    stream = StreamDecoder(wire=wire, tools=tools, stages=stages, output=output, limits=limits, continues=continues)
    if type(body) is not bytes and not isinstance(body, Iterable):
        raise TypeError(
            f"parse reads bytes or an iterable of them, not {type(body).__name__}; pass the content of a response "
            "that was read, and read a stream with pipeline(...)"
        )
    body = as_items(body, wire)
    turn = TurnBuilder()
    turn.add_all(stream.restored)
    turn.add_all(() if continues is None else settled(continues).values())
    for item in cast("Iterable[Any]", (body,) if isinstance(body, (bytes, bytearray, memoryview)) else body):
        if type(item) is bytes and len(item) <= SLICE_BYTES:
            for event in stream.feed(item):  # the same as `add_all`, without a call for each chunk: saves 7 %
                if type(event) is TextDelta:
                    turn.add_text(event.text)
                else:
                    turn.add(event)
            continue
        for part in slices(item):
            turn.add_all(stream.feed(part))
    turn.add_all(stream.finish())
    turn.wire = stream.record
    return turn.build()
