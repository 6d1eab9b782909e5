"""Tells the texts of steps, the model's output and its thoughts, as events.

One step is told at a time. What comes whole between its texts, such as a picture, ends the part; what the step says
after that begins another. The step goes back whole: its state goes with the last of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from typing_extensions import override

from ...errors import ProviderError, RemoteProtocolError
from ...events import Event, ProviderItem, ToolCallFragment
from ...limits import Limits
from ...parts import CallKind, Finish, ResumePoint
from ..decoder import WireDecoder
from ..marks import LEGACY_INTERACTIONS
from ..plain import PlainDelta
from ..reading import named_error, provider_error, read_text, rest_of
from .facts import (
    BEGINS,
    DELTA_FIELDS,
    ERROR_EVENT,
    EVENT_FIELDS,
    FINISHES,
    INTERACTION_FIELDS,
    LEGACY_SCHEMA,
    MEDIA,
    RUNNING,
    SAID_AGAIN,
    SERVER_STEPS,
    STEPS,
    TEXT_FIELDS,
    WHOLE,
    call_kind,
)

__all__ = ["CONTENTS", "InteractionsDecoder", "contents_of", "name_of"]


class StepTexts(WireDecoder):
    """The part of the decoder that tells texts."""

    plain = tuple(
        PlainDelta(
            ("delta", *path),
            {
                (): frozenset({"event_id", "event_type", "index"}),
                ("delta",): frozenset({"type"}),
                ("delta", "content"): frozenset({"type"}),
            },
            varies=frozenset({("event_id",)}),
        )
        for path in (("text",), ("content", "text"), ("arguments",))
    )

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._by_index: dict[object, GrowingStep] = {}  # of this hop
        self._telling: GrowingStep | None = None  # the step whose text is being told
        self._is_resumable = False  # a token has come, so that what follows may be said again
        self._closed_since = 0  # texts that have ended since then

    def _end_step(self, step: GrowingStep) -> None:
        """Lets a step go with the part that tells it; alone if there is none."""
        kept = self.to_keep(step.as_sent())
        state = {"index": step.number} | ({"step": kept} if kept is not None else {})
        if self._telling is step and self._open is not None:
            self._closed_since += self._is_resumable
            self.end_part(state)
        elif step.type == "user_input":
            self.emit_unknown(step.head, "step")
        elif kept is not None and kept:
            self._closed_since += self._is_resumable
            self.out.append(ProviderItem(step.type, state))
        if self._telling is step:
            self._end_telling()

    def _may_keep(self, raw: Mapping[str, Any]) -> bool:
        beside = rest_of(head_of(raw), "type", "id", "name")
        return not beside or self.charge(beside)

    def _begin_text(self, step: GrowingStep, raw: Mapping[str, Any]) -> None:
        self._tell(step, "")
        for place, content in enumerate(contents_of(raw)):
            self._content(step, content)
            if isinstance(content, dict) and content.get("type") == "text":
                self.emit_unread(content, TEXT_FIELDS, "step", CONTENTS[step.type], place)
        if (error := object_of(raw.get("error"))) and self._verdict is None:
            self._verdict = named_error({"error": error})

    def _content(self, step: GrowingStep, content: object) -> None:
        """Takes a content, or a piece of one, of a step that is told as text."""
        type_ = content.get("type") if isinstance(content, dict) else None
        text = object_of(content).get("text")
        if type_ == "text" and isinstance(text, str):
            if text:
                step.text(text)
            self._tell(step, text)
            self.part.sink = step.text
            if (annotations := object_of(content).get("annotations")) is not None:
                self._annotations(step, annotations)
        elif isinstance(content, dict) and (kept := self.to_keep(content)) is not None and self.charge(content):
            self._end_telling()
            step.whole(kept)
            self.out.append(ProviderItem(str(type_), {"index": step.number, "content": kept}))

    def _contents(self, step: GrowingStep, delta: dict[str, Any]) -> None:
        if BEGINS[delta["type"]] == step.type:
            self._content(step, delta.get("content") if step.type == "thought" else delta)
        else:
            self.emit_unknown(delta, "delta")

    def _annotated(self, step: GrowingStep, delta: dict[str, Any]) -> None:
        self._annotations(step, delta.get("annotations"))

    def _annotations(self, step: GrowingStep, annotations: object) -> None:
        if isinstance(annotations, list) and annotations and self.charge(annotations):
            step.annotate(annotations)
            self.emit_unknown({"annotations": annotations}, "delta")

    def _tell(self, step: GrowingStep, text: str) -> None:
        if self._telling is not step:
            self._end_telling()
            self._telling = step
        if step.type == "thought":
            self.emit_reasoning(text)
        else:
            self.emit_text(text)

    def _end_telling(self) -> None:
        self._closed_since += self._is_resumable and self._open is not None
        self.end_part()
        self._telling = None


# -- the decoder -----------------------------------------------------------------------------------------------------

# Interactions stream events in, events out.


class InteractionsDecoder(StepTexts):
    """Decodes one turn: the first interaction of its stream, and those that continue it."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._hops = Hops()
        self._count = 0  # of steps, in all hops
        self._steps: list[GrowingStep] = []  # the same, in their order
        self._since = 0  # the number of the first of this hop
        self._call_count = 0
        self._model: object = None
        self._checkpoint: tuple[int, int] | None = None  # steps begun at the latest token, and pieces of the last one
        self._held: list[GrowingStep] = []  # calls that have stopped since then: their ends wait for the next token
        self._void: dict[tuple[str, str], GrowingStep] = {}  # calls that may be made again, by id and name
        self._token: str | None = None
        self._earlier: dict[str, int] = {}  # token counts of the hops before
        self._has_calls = False
        self._ended = False

    @override
    def feed(self, payload: dict[str, Any]) -> list[Event]:
        kind = read_text(payload.get("event_type"))
        out = self.out = []
        self._payload, self._exact = payload, None
        self._after = read_text(payload.get("event_id")) or self._after
        if self._is_anothers(payload):
            return out
        handler = _HANDLERS.get(kind) if kind is not None else None
        if handler is not None:
            handler(self, payload)
            self.emit_beside(payload, EVENT_FIELDS, "")
        elif kind in LEGACY_INTERACTIONS:
            self.fail(RemoteProtocolError(LEGACY_SCHEMA, kind="legacy_schema"))
        elif error := named_error(payload) if kind == "error" else provider_error(payload):
            self.fail_by(payload, error, ERROR_EVENT)
        else:
            self.warn("unknown_event", str(kind)[: self.limits.max_name_bytes])
            self.emit_unknown(payload)
        return out

    @override
    def after_plain(self, payload: dict[str, Any]) -> None:
        self._after = read_text(payload.get("event_id")) or self._after

    @override
    def after_end(self, payload: dict[str, Any]) -> list[Event] | None:
        out = self.out = []
        return out if self._is_anothers(payload) else None

    def _is_anothers(self, payload: dict[str, Any]) -> bool:
        name = self._hops.other(payload)
        if name:
            self.warn("other_response", name[: self.limits.max_id_bytes])
        return name is not None

    # -- the interaction --

    def _created(self, payload: dict[str, Any]) -> None:
        if not self._hops.begun or self._hops.may_go_on:
            self._begin_hop(payload)
        else:
            self.warn("duplicate_created")
        self._progress(payload)

    def _begin_hop(self, payload: dict[str, Any]) -> None:
        if self._hops.begun:
            self._earlier = dict(self._counts)
            if self._usage_objects:
                self.emit_unknown(self._usage_objects[-1], "interaction.usage")  # of the hop before
            if self._checkpoint is not None:
                self._go_back(*self._checkpoint)
            self._by_index, self._ended, self._finish_raw = {}, False, None
            self._last_id, self._since, self._usage_objects = id_of(payload), self._count, ()
        self._hops.begin(payload)

    def _progress(self, payload: dict[str, Any]) -> Mapping[str, Any]:
        """Takes what an event says of the interaction as a whole, and returns that."""
        interaction = object_of(payload.get("interaction"))
        if not self._started:
            self._model = interaction.get("model") or interaction.get("agent")
            self.emit_start(self._model, interaction.get("id"))
        if not self._hops.begun:
            self._hops.begin(payload)
        self.read_usage(interaction.get("usage"))
        self.emit_beside(interaction, INTERACTION_FIELDS, "interaction")
        return interaction

    def _status_update(self, payload: dict[str, Any]) -> None:
        self._progress(payload)
        self.read_usage(payload.get("usage"))
        if (token := read_text(payload.get("continuation_token"))) is not None and self.charge(token):
            self._confirm()
            self._token, self._hops.may_go_on, self._is_resumable = token, True, True
            last = self._telling
            self._checkpoint = self._count, len(last.texts) if last is not None else 0

    def _completed(self, payload: dict[str, Any]) -> None:
        interaction = self._progress(payload)
        steps = interaction.get("steps")
        if isinstance(steps, list) and steps and not self._by_index:
            self.warn("terminal_backfill")
            for place, raw in enumerate(steps):
                if isinstance(raw, dict) and raw.get("type") != "user_input":
                    self._stop(self._begin(raw, place, ("interaction", "steps", place)))
        self._confirm()
        status = read_text(interaction.get("status"))
        self._finish_raw = "completed" if status is None or status in RUNNING else status
        self._token = read_text(interaction.get("continuation_token"))
        self._ended, self._checkpoint, self._is_resumable, self._astray = True, None, False, None
        if status == "failed":
            self.fail(self._verdict or ProviderError("the provider failed the interaction without saying why"))
        self._close_steps()
        self._hops.may_go_on = status == "requires_continuation"
        self.done = not self._hops.may_go_on

    @override
    def read_usage(self, usage: object) -> None:
        """Keeps the counts of this hop, which come anew with each event, on top of those of the hops before."""
        if isinstance(usage, dict):
            newest: dict[str, int] = {}
            self.usage.read(usage, newest)
            self._counts |= {path: count + self._earlier.get(path, 0) for path, count in newest.items()}
            self._usage_objects = (*self._usage_objects[:1], usage)

    # -- checkpoints --

    def _confirm(self) -> None:
        """Ends the calls that have stopped: nothing up to here is said again."""
        held, self._held = self._held, []
        for step in held:
            self._end_call(step, cut=False)
        self._closed_since = 0

    def _go_back(self, steps: int, pieces: int) -> None:
        """Forgets what was said since the checkpoint, since it is said again."""
        self._checkpoint, self._is_resumable, self._held = None, False, []
        if self._closed_since:
            self.fail(RemoteProtocolError(SAID_AGAIN, kind="said_again"))
            return
        if (telling := self._telling) is not None and self._open is not None:
            stands = "".join(telling.texts[:pieces]) if telling.number < steps else ""
            if stands != "".join(telling.texts):
                self.warn("said_again")
                self.replace_part(stands)
                telling.texts = [stands] if stands else []
        for step in self._by_index.values():
            if step.is_call_of_ours and not step.ended:
                self.warn("said_again")
                self._void[said_of(step.head)] = step
                step.stopped = True
            elif step.number >= steps:
                step.contents = []
        self._close_steps()

    # -- steps --

    def _step_start(self, payload: dict[str, Any]) -> None:
        raw = payload.get("step")
        if not isinstance(raw, dict):
            self.emit_unknown(payload)
            return
        known = self._by_index.get(index := key_of(payload.get("index")))
        if known is not None and not known.stopped:
            if not known.announced and known.type == raw.get("type") and self._may_keep(raw):
                known.announced, known.head = True, head_of(raw)
                self._begin_call(known, raw, ("step",), start=False)
                return
            self.warn("duplicate_step_start")
            if known.head == head_of(raw):
                return
            self._abandon(known)
        self._begin(raw, index, ("step",))

    def _begin(self, raw: dict[str, Any], index: object, path: Path) -> GrowingStep | None:
        """Opens a step; None if it is one too many, which ends the stream."""
        if not self.holds(self._count + 1, "the response") or not self._may_keep(raw):
            return None
        if not self._started:
            self.emit_start(None, None)
        type_ = read_text(raw.get("type")) or ""
        step = self._by_index[index] = GrowingStep(self._count, type_, index, head_of(raw), call_kind(type_, raw))
        step.announced = type_ != "function_call" or path != ("delta",)
        self._count += 1
        self._steps.append(step)
        if step.kind is not None:
            self._begin_call(step, raw, path)
        elif type_ in CONTENTS:
            self._begin_text(step, raw)
        elif type_ not in STEPS:
            self.warn("unknown_step_type", type_[: self.limits.max_name_bytes])
        return step

    def _step_stop(self, payload: dict[str, Any]) -> None:
        step = self._by_index.get(key_of(payload.get("index")))
        self.read_usage(payload.get("usage"))
        if step is None:
            self.warn("stop_without_start")
        else:
            self._stop(step)

    def _stop(self, step: GrowingStep | None) -> None:
        if step is None or step.stopped:
            return
        step.stopped = True
        step.early = step.early or (step.kind is not None and step.announced and self.lacks_arguments(step.index))
        if step.kind is None:
            self._end_step(step)
        elif self._is_resumable and step.is_call_of_ours:
            self._held.append(step)
        else:
            self._closed_since += self._is_resumable
            self._end_call(step, cut=False)

    def _close_steps(self) -> None:
        """Ends what is open at the end of a hop."""
        for step in self._by_index.values():
            if not step.stopped:
                self._abandon(step)

    def _abandon(self, step: GrowingStep) -> None:
        """Ends a step that never stopped: a call in it is cut, even if its arguments parse."""
        if self._ended:
            self.warn("step_without_stop")
        step.stopped = step.cut = True
        if step.kind is None:
            self._end_step(step)
        else:
            self._end_call(step, cut=True)

    # -- deltas --

    def _step_delta(self, payload: dict[str, Any]) -> None:
        delta, index = payload.get("delta"), key_of(payload.get("index"))
        metadata = object_of(payload.get("metadata"))
        self.read_usage(metadata.get("total_usage"))
        self.emit_beside(metadata, frozenset({"total_usage"}), "metadata")
        type_ = read_text(object_of(delta).get("type"))
        if not isinstance(delta, dict) or type_ is None:
            self.emit_unknown(payload)
            return
        step = self._by_index.get(index)
        if type_ == "arguments_delta" and delta.get("arguments") and not (step is not None and step.is_open_call):
            self.lose_arguments(index if index != key_of(None) else None)
        if step is None and (type_begun := BEGINS.get(type_, type_ if type_ in WHOLE else None)) is not None:
            self.warn("step_without_start")
            step = self._begin({"type": type_begun}, index, ("delta",))
        if step is None or (step.stopped and type_ in BEGINS):
            self.warn("delta_after_stop" if step is not None else "unknown_delta", type_[: self.limits.max_name_bytes])
            self.emit_unknown(delta, "delta")
        elif (handler := _DELTAS.get(type_)) is not None:
            handler(self, step, delta)
            if (fields := DELTA_FIELDS.get(type_)) is not None:
                self.emit_unread(delta, fields, "delta")
        elif type_ in WHOLE and type_ == step.type:
            self._repeated(step, delta)
        else:
            self.warn("unknown_delta", type_[: self.limits.max_name_bytes])
            self.emit_unknown(delta, "delta")

    def _signature(self, step: GrowingStep, delta: dict[str, Any]) -> None:
        if self.charge(signature := delta.get("signature")):
            step.head = {**step.head, "signature": signature}
            if step.is_call_of_ours:
                self.out.append(signed(step, self._state(step)))

    def _repeated(self, step: GrowingStep, delta: dict[str, Any]) -> None:
        """Takes a call or a result of the server's, which its delta has whole."""
        if not self.charge(delta):
            return
        step.head = {**step.head, **rest_of(delta, "arguments")}
        if step.kind is None:
            step.head = {**step.head, **delta}
        elif "arguments" in delta:
            step.head["arguments"] = delta["arguments"]
            step.arguments = self.object_text(delta["arguments"], ("delta", "arguments"))

    # -- calls --

    def _begin_call(self, step: GrowingStep, raw: Mapping[str, Any], path: Path, *, start: bool = True) -> None:
        """Announces a call, without `start` one of which deltas came before; one that was begun since the checkpoint
        may be this one, which is made again."""
        self._has_calls = self._has_calls or step.is_call_of_ours
        step.early = step.announced and self.lacks_arguments(step.index)
        if "arguments" in raw and not step.arguments[0]:
            step.arguments = self.object_text(raw["arguments"], (*path, "arguments"))
        again = self._void.pop(said_of(raw), None) if read_text(raw.get("id")) else None
        if again is not None:
            step.number, step.call_number, step.again = again.number, again.call_number, True
            step.early = step.early or again.early
        else:
            if start:
                step.call_number, self._call_count = self._call_count, self._call_count + 1
            self.out.append(begun(step, raw, self._state(step), start=start))

    def _arguments(self, step: GrowingStep, delta: dict[str, Any]) -> None:
        piece = delta.get("arguments")
        if step.kind is None or not isinstance(piece, (str, dict)):
            self.emit_unknown(delta, "delta")
        elif isinstance(piece, dict):
            step.arguments = self.object_text(piece, ("delta", "arguments"))
        elif piece:
            step.grows = True
            if not step.again:
                self.out.append(grown(step, piece))
            elif self.charge(piece):
                step.pieces.append(piece)

    def _end_call(self, step: GrowingStep, *, cut: bool) -> None:
        step.ended = True
        self.out.append(ended(step, self._state(step), cut=cut or step.early))

    def _state(self, step: GrowingStep) -> dict[str, Any]:
        """Returns what goes back with a call: the step without its arguments, if those are ours to write."""
        kept = self.to_keep(rest_of(step.head, "arguments") if step.is_call_of_ours else step.head)
        return {"index": step.number} | ({"step": kept} if kept is not None else {})

    # -- the end --

    @override
    def resume_point(self) -> ResumePoint | None:
        if self._ended or not self._hops.begun or self._checkpoint is not None or self._void:
            return None  # behind a checkpoint it is resumed by a token, and says again what it said
        hops, usage = self._hops, self._usage_objects[-1] if self._usage_objects else None

        strays = [at for at, step in self._by_index.items() if at in (self._astray or ()) and not step.is_open_call]
        told = account(self._model, hops.ids, self._steps, self._since, self._earlier, usage, hops.elsewhere, strays)
        return ResumePoint(response_id=hops.ids[-1], after=self._after, account=tuple(told))

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        for step in self._held:
            self._end_call(step, cut=True)
        self.out += [unsaid(step) for step in self._void.values()]
        self._close_steps()
        if self._token is not None:
            self.out.append(ProviderItem("continuation_token", {"continuation_token": self._token}))
        finish = FINISHES.get(self._finish_raw, "other") if self._finish_raw is not None else None
        return self.normalized(finish, self._has_calls), self._ended


_HANDLERS: dict[str, Callable[[InteractionsDecoder, dict[str, Any]], object]] = {
    "interaction.created": InteractionsDecoder._created,
    "interaction.status_update": InteractionsDecoder._status_update,
    "interaction.completed": InteractionsDecoder._completed,
    "step.start": InteractionsDecoder._step_start,
    "step.delta": InteractionsDecoder._step_delta,
    "step.stop": InteractionsDecoder._step_stop,
}

_DELTAS: dict[str, Callable[[InteractionsDecoder, GrowingStep, dict[str, Any]], None]] = {
    "text": InteractionsDecoder._contents,
    "text_annotation_delta": InteractionsDecoder._annotated,
    "thought_summary": InteractionsDecoder._contents,
    "thought_signature": InteractionsDecoder._signature,
    "arguments_delta": InteractionsDecoder._arguments,
    **dict.fromkeys(MEDIA, InteractionsDecoder._contents),
}


# -- a step that grows -----------------------------------------------------------------------------------------------

# The steps of an interaction while they come: what the API said of one so far, and the step as it goes back.
#
# A step begins with all that is known of it, is continued by deltas of several types, and is over at its stop. Texts
# of one kind that follow one another are one content; a picture or a sound between them begins another.

CONTENTS: dict[str, str] = {"model_output": "content", "thought": "summary"}
"""Steps that are told as text, and the field with their contents."""


@dataclass(slots=True)
class GrowingStep:
    """One step, from its start to its stop."""

    number: int
    """Its place among the steps of the turn, and the label of its call; no other step has it."""
    type: str
    index: object
    """The same as the wire has it, which counts anew in each hop."""
    head: dict[str, Any]
    """As it was announced, and what deltas that repeat it whole have said since; without its contents."""
    kind: CallKind | None = None
    """Who runs the call that it is; None if it is none."""
    contents: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """The pieces of the text that is growing, which is the last of the contents."""
    stopped: bool = False
    cut: bool = False
    """It never stopped, and its interaction is over."""
    # of a call
    call_number: int = 0
    """Its place among the calls of the turn."""
    ended: bool = False
    """It was said to be whole, or cut."""
    arguments: tuple[str, str | None] = ("", None)
    """The arguments that came whole, as text, and what is wrong with them."""
    grows: bool = False
    """Some came in pieces: these count, and what was announced was a placeholder."""
    announced: bool = True
    """Its start came; else it began with a delta, and has neither an id nor a name."""
    early: bool = False
    """Pieces of its arguments may have come before its start, so that it is cut."""
    again: bool = False
    """It is made again, so that its pieces are told at its end."""
    pieces: list[str] = field(default_factory=list)
    """The pieces of arguments that are made again."""

    @property
    def is_open_call(self) -> bool:
        """True for a call that has not stopped."""
        return self.kind is not None and not self.stopped

    @property
    def is_call_of_ours(self) -> bool:
        """True for a call that we run."""
        return self.kind == "function"

    def text(self, piece: str) -> None:
        """Takes a piece of text."""
        if not self.texts:
            self.contents.append({"type": "text"})
        self.texts.append(piece)

    def whole(self, content: dict[str, Any]) -> None:
        """Takes a content that comes whole."""
        self.settle()
        self.contents.append(content)

    def annotate(self, annotations: list[Any]) -> None:
        """Takes citations of the text that is growing, or of the one that grew last."""
        last: dict[str, Any] | None = next((one for one in reversed(self.contents) if one.get("type") == "text"), None)
        if last is None:
            last = {"type": "text", "text": ""}
            self.contents.append(last)
        last.setdefault("annotations", []).extend(annotations)

    def settle(self) -> None:
        """Ends the text that is growing."""
        if self.texts:
            self.contents[-1] = {"type": "text", "text": "".join(self.texts), **rest_of(self.contents[-1], "type")}
            self.texts = []

    def as_sent(self) -> dict[str, Any]:
        """Returns the step as it goes back, with the contents that came so far."""
        self.settle()
        place = CONTENTS.get(self.type)
        return self.head if place is None or not self.contents else {**self.head, place: list(self.contents)}


def object_of(value: object) -> Mapping[str, Any]:
    """Returns the value if it is an object; else an empty one."""
    return value if isinstance(value, Mapping) else {}


def key_of(index: object) -> object:
    """Returns an index as a key of a table, whatever came as one."""
    return index if isinstance(index, int) else str(index)


def head_of(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a step without its contents, which are collected."""
    return rest_of(raw, CONTENTS.get(str(raw.get("type")), ""))


def contents_of(raw: Mapping[str, Any]) -> list[Any]:
    """Returns the contents in a step that is told as text; none if it has none, or is of another type."""
    found = raw.get(CONTENTS.get(str(raw.get("type")), ""))
    return found if isinstance(found, list) else []


# -- steps that are calls --------------------------------------------------------------------------------------------

# Steps that are calls, as fragments for the accumulate stage.

Path: TypeAlias = "tuple[str | int, ...]"


def said_of(raw: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the id and the name of a call."""
    return str(raw.get("id")), str(raw.get("name"))


def name_of(raw: Mapping[str, Any]) -> str | None:
    """Returns the name of the tool that a call is for: its type, where it has no other."""
    type_ = read_text(raw.get("type"))
    return read_text(raw.get("name")) or (type_ if type_ in SERVER_STEPS else None)


def begun(
    step: GrowingStep, raw: Mapping[str, Any], state: Mapping[str, Any], *, start: bool = True
) -> ToolCallFragment:
    """Returns the beginning of a call; without `start`, of one whose arguments have begun."""
    return _fragment(step, id=read_text(raw.get("id")), name=name_of(raw), start=start, provider_state=state)


def grown(step: GrowingStep, text: str) -> ToolCallFragment:
    """Returns more of the arguments."""
    return _fragment(step, arguments=text)


def signed(step: GrowingStep, state: Mapping[str, Any]) -> ToolCallFragment:
    """Returns more of what goes back with the call."""
    return _fragment(step, provider_state=state)


def ended(step: GrowingStep, state: Mapping[str, Any], *, cut: bool) -> ToolCallFragment:
    """Returns the end of a call.

    The placeholder ``{}`` in its start is no proof that a call has no arguments: the end of the response shows whether
    it was cut before they came.
    """
    text, problem = ("".join(step.pieces), None) if step.grows else step.arguments
    if step.again:
        text = text or "{}"
    elif step.is_call_of_ours and text == "{}":
        text = ""
    return _fragment(step, whole=text or None, problem=problem, end=True, cut=cut, provider_state=state)


def unsaid(step: GrowingStep) -> ToolCallFragment:
    """Returns the end of a call that was not made again behind the checkpoint: no history has it."""
    return _fragment(step, end=True, cut=True, provider_state={"unsaid": True})


def _fragment(step: GrowingStep, **said: Any) -> ToolCallFragment:
    awaits = "tool_search_result" if step.is_call_of_ours and step.type == "tool_search_call" else None
    return ToolCallFragment(step.number, kind=step.kind or "function", awaits=awaits, **said)


# -- interactions of one turn ----------------------------------------------------------------------------------------

# Decides which events of a stream belong to the turn that a decoder follows.
#
# Theory of operation. One turn may take several interactions, each with an id of its own: where the API ends one with
# ``requires_continuation``, the client resumes it with a token, and google-genai does so by itself, within one stream.
# Such an interaction is a *hop*. A token may come before an interaction's end, too (``interaction.status_update``): a
# hop that was cut behind one is resumed from there, and what it said since then is said again.
#
# An interaction that begins without either is another turn. The first is followed; the others' events are told apart
# by the id in ``interaction.created``, since those of steps have none, and left out. With ``store: false`` the id is
# ``""``.


class Hops:
    """The interactions of one turn."""

    def __init__(self) -> None:
        self.begun = False
        """True once an event came."""
        self.may_go_on = False
        """The next interaction that begins goes on with this one."""
        self.ids: tuple[str | None, ...] = ()
        """The ids of the first, and of the latest if there are several."""
        self._id: str | None = None
        self.elsewhere: str | None = None
        """The id of another turn, to which events without an id belong now."""
        self._has_others = False

    def begin(self, payload: Mapping[str, Any]) -> None:
        """Begins the first hop, or the next."""
        self.begun, self.may_go_on, self.elsewhere = True, False, None
        self._id = id_of(payload)
        self.ids = (*self.ids[:1], self._id)

    def other(self, payload: Mapping[str, Any]) -> str | None:
        """Returns None if an event belongs to this turn; else the other one's name, which is ``""`` if that was told
        before."""
        id_, begins = id_of(payload), payload.get("event_type") == "interaction.created"
        if not self.begun or (begins and self.may_go_on):
            return None
        if id_ is None:
            return "" if self.elsewhere is not None else None
        if self._id is None and not begins:
            self._id = id_
        self.elsewhere = id_ if id_ != self._id else None
        return None if self.elsewhere is None else self._named(id_)

    def _named(self, id_: str) -> str:
        known, self._has_others = self._has_others, True
        return "" if known else id_


def id_of(payload: Mapping[str, Any]) -> str | None:
    """Returns the id of the interaction that an event names."""
    interaction = payload.get("interaction")
    inner = interaction.get("id") if isinstance(interaction, Mapping) else None
    return read_text(inner) or read_text(payload.get("interaction_id"))


# -- the account of a cut turn ---------------------------------------------------------------------------------------

# An interaction that was cut, as events: what its stream had said, each text in one piece.
#
# A decoder that is fed these stands where the cut one stood. The arguments of a call that was growing are not here:
# they are in the turn.

Told: TypeAlias = "tuple[dict[str, Any], int | None]"
"""An event; and the number of the call whose arguments belong into it."""


def account(
    model: object,
    ids: Sequence[str | None],
    steps: Iterable[GrowingStep],
    since: int,
    earlier: Mapping[str, int],
    usage: Mapping[str, Any] | None,
    elsewhere: str | None,
    strays: Iterable[object] = (),
) -> Iterator[Told]:
    """Yields the events of a turn.

    Args:
        model: its model.
        ids: of its first interaction, and of the one that was cut, if that is another.
        steps: all its steps.
        since: the number of the first step of the one that was cut.
        earlier: the counts of those before, by their names.
        usage: the counts of the one that was cut.
        elsewhere: the id of another turn, whose events came last.
        strays: the places of steps that are over, or are no calls, at which arguments came.
    """
    first, *others = ids
    yield _interaction("created", id=first, model=model, status="in_progress"), None
    for step in steps:
        if others and step.number >= since:
            yield from _next_hop(first, others.pop(), earlier)
        yield from _of_step(step)
    if others:
        yield from _next_hop(first, others.pop(), earlier)
    for index in strays:
        yield _piece({"index": index}, " "), None
    if usage is not None:
        status = {"interaction_id": ids[-1] or "", "status": "in_progress", "usage": dict(usage)}
        yield {"event_type": "interaction.status_update", **status}, None
    if elsewhere is not None:
        yield _interaction("created", id=elsewhere, status="in_progress"), None


def _next_hop(first: str | None, id_: str | None, earlier: Mapping[str, int]) -> Iterator[Told]:
    yield _interaction("completed", id=first, status="requires_continuation", usage=dict(earlier)), None
    yield _interaction("created", id=id_, status="in_progress"), None


def _interaction(event: str, **interaction: Any) -> dict[str, Any]:
    return {"event_type": f"interaction.{event}", "interaction": interaction}


def _of_step(step: GrowingStep) -> Iterator[Told]:
    place = {"index": step.index}
    arguments = list(_arguments(step, place))
    begun = step.announced and not step.early
    if not begun:  # a decoder that is fed this has to find them before the start, too
        yield from arguments or [(_piece(place, " " if step.early else ""), None)]
    if step.announced:
        yield {"event_type": "step.start", **place, "step": dict(step.as_sent())}, None
    if begun:
        yield from arguments
    if step.stopped and not step.cut:
        yield {"event_type": "step.stop", **place}, None


def _arguments(step: GrowingStep, place: Mapping[str, Any]) -> Iterator[Told]:
    text, _ = step.arguments
    if step.grows:
        yield _piece(place), step.call_number
    elif step.is_call_of_ours and text not in ("", "{}"):
        yield _piece(place, text), None


def _piece(place: Mapping[str, Any], *text: str) -> dict[str, Any]:
    arguments = {"arguments": text[0]} if text else {}
    return {"event_type": "step.delta", **place, "delta": {"type": "arguments_delta", **arguments}}
