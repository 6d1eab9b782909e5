"""Interactions stream events in, events out."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

from typing_extensions import override

from ...errors import ProviderError, RemoteProtocolError
from ...events import Event, ProviderItem, ToolCallFragment
from ...limits import Limits
from ...parts import Finish, ResumePoint
from .. import GrowingDecoder, PlainDelta, list_of, named_error, object_of, read_text, rest_of
from ..growing import GrowingBlock, Role
from ..marks import LEGACY_INTERACTIONS
from ..reading import Path
from . import facts


class GrowingStep(GrowingBlock):
    """One step, from its start to its stop. Texts of one kind that follow one another are one content; a picture or a
    sound between them begins another."""

    __slots__ = ("again", "call_number", "contents", "cut", "early", "ended", "number", "texts")

    def __init__(self, key: object, role: Role, kind: str, head: dict[str, Any], number: int) -> None:
        super().__init__(key, role, kind, head)
        self.number = number  # its place among the steps of the turn; no other step has it
        self.contents: list[dict[str, Any]] = []
        self.texts: list[str] = []  # the pieces of the text that is growing, which is the last of the contents
        self.cut = False  # it never stopped, and its interaction is over
        self.call_number = 0  # its place among the calls of the turn
        self.ended = False  # its call has ended: whether it was whole, or cut
        self.early = False  # arguments came before it, which may be its own
        self.again: list[str] | None = None  # the pieces of a call that is made again: they are shown at its end

    @property
    def is_call_of_ours(self) -> bool:
        return self.role == "call" and facts.call_kind(self.kind, self.head) == "function"

    def text(self, piece: str) -> None:
        if not self.texts:
            self.contents.append({"type": "text"})
        self.texts.append(piece)

    def whole(self, content: dict[str, Any]) -> None:
        self.settle()
        self.contents.append(content)

    def annotate(self, annotations: list[Any]) -> None:
        last: dict[str, Any] | None = next((one for one in reversed(self.contents) if one.get("type") == "text"), None)
        if last is None:
            last = {"type": "text", "text": ""}
            self.contents.append(last)
        last.setdefault("annotations", []).extend(annotations)

    def settle(self) -> None:
        self.contents, self.texts = self._settled(), []

    def _settled(self) -> list[dict[str, Any]]:
        if not self.texts:
            return self.contents
        *before, last = self.contents
        return [*before, {"type": "text", "text": "".join(self.texts), **rest_of(last, "type")}]

    def as_sent(self) -> dict[str, Any]:
        place = facts.CONTENTS.get(self.kind)
        return self.head if place is None or not self.contents else {**self.head, place: list(self._settled())}


class InteractionsDecoder(GrowingDecoder):
    cursor = "event_id"
    cursor_place = ("event_type", "index")
    gives_arguments = True
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
    # of this hop; `new_place` makes no others
    _places: dict[object, GrowingStep]  # type: ignore[assignment]

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._hops = Hops()
        self._steps: list[GrowingStep] = []  # of all hops
        self._since = 0  # the number of the first of this hop
        self._call_count = 0
        self._model: object = None
        self._is_resumable = False  # a token has come, so that what follows may be said again
        self._closed_since = 0  # texts that have ended since then
        self._checkpoint: tuple[int, int] | None = None  # steps begun at the latest token, and pieces of the last one
        self._held: list[GrowingStep] = []  # calls that have stopped since then: their ends wait for the next token
        self._void: dict[tuple[str, str], GrowingStep] = {}  # calls that may be made again, by id and name
        self._token: str | None = None
        self._earlier: dict[str, int] = {}  # token counts of the hops before

    @override
    def feed(self, payload: dict[str, Any]) -> list[Event]:
        kind = read_text(payload.get("event_type"))
        out = self.out = []
        self._payload, self._exact = payload, None
        if self._is_anothers(payload):
            return out
        if self.cursors is not None and self.cursors.comes_again(payload):
            self.warn("event_repeated")
            return out
        handler = self.handlers.get(kind) if kind is not None else None
        if handler is not None:
            handler(self, payload)
            self.emit_beside(payload, facts.EVENT_FIELDS, "")
        elif kind in LEGACY_INTERACTIONS:
            self.fail(RemoteProtocolError(facts.LEGACY_SCHEMA, kind="legacy_schema"))
        elif kind == "error":
            self.fail_by(payload, named_error(payload), facts.ERROR_EVENT)
        else:
            self.read_foreign(payload, facts.ERROR_EVENT, kind)
        return out

    @override
    def after_end(self, payload: dict[str, Any]) -> list[Event] | None:
        out = self.out = []
        return out if self._is_anothers(payload) else None

    def _is_anothers(self, payload: dict[str, Any]) -> bool:
        name = self._hops.other(payload)
        if name:
            self.warn("other_response", name[: self.limits.max_name_bytes])
        return name is not None

    # -- the interaction --

    def _created(self, payload: dict[str, Any]) -> None:
        if not self._hops.begun or self._hops.may_go_on:
            self._begin_hop(payload)
        else:
            self.warn("duplicate_message_start")
        self._progress(payload)

    def _begin_hop(self, payload: dict[str, Any]) -> None:
        if self._hops.begun:
            self._earlier = dict(self._counts)
            if self._usage_objects:
                self.emit_unknown(self._usage_objects[-1], "interaction.usage")  # of the hop before
            if self._checkpoint is not None:
                self._go_back(*self._checkpoint)
            self._places.clear()
            self._stopped, self._finish_raw = False, None
            self._early = self._late = frozenset()
            self._last_id, self._since, self._usage_objects = id_of(payload), len(self._steps), ()
        self._hops.begin(payload)

    def _progress(self, payload: dict[str, Any]) -> Mapping[str, Any]:
        interaction = object_of(payload.get("interaction"))
        if not self._started:
            self._model = interaction.get("model") or interaction.get("agent")
            self.emit_start(self._model, interaction.get("id"))
        if not self._hops.begun:
            self._hops.begin(payload)
        if (status := read_text(interaction.get("status"))) in facts.RUNNING:
            self.pending_as = status
        self.read_usage(interaction.get("usage"))
        self.emit_beside(interaction, facts.INTERACTION_FIELDS, "interaction")
        return interaction

    def _status_update(self, payload: dict[str, Any]) -> None:
        self._progress(payload)
        self.read_usage(payload.get("usage"))
        if (token := read_text(payload.get("continuation_token"))) is not None and self.charge(token):
            self._confirm()
            self._token, self._hops.may_go_on, self._is_resumable = token, True, True
            last = self._current
            self._checkpoint = len(self._steps), len(last.texts) if isinstance(last, GrowingStep) else 0

    def _completed(self, payload: dict[str, Any]) -> None:
        interaction = self._progress(payload)
        self._take_last(list_of(interaction.get("steps")))
        self._confirm()
        status = read_text(interaction.get("status"))
        self._finish_raw = "completed" if status is None or status in facts.RUNNING else status
        self._token = read_text(interaction.get("continuation_token"))
        self._stopped, self._checkpoint, self._is_resumable = True, None, False
        if interaction.get("previous_interaction_id"):  # the program chains its requests
            self.carry_on("previous_interaction_id", interaction.get("id"))
        if status == "failed":
            self.fail(self._verdict or ProviderError("the interaction failed; the provider gave no reason"))
        self.close_places(whole=self.error is None)
        self._hops.may_go_on = status == "requires_continuation"
        self.done = not self._hops.may_go_on

    def _take_last(self, steps: list[Any]) -> None:
        """Takes what only the list at the end has: a step, its text, or its arguments. A step has streamed if one with
        its id has; else, if the next one of its type has."""
        ids = {read_text(object_of(raw).get("id")) for raw in steps} - {None}
        streamed = defaultdict[str | None, deque[GrowingStep]](deque)
        for step in self._places.values():
            id_ = read_text(step.head.get("id"))
            streamed[id_ if id_ in ids else step.kind].append(step)
        for place, raw in enumerate(steps):
            if not isinstance(raw, dict) or raw.get("type") == "user_input":
                continue
            same = streamed[read_text(raw.get("id"))] or streamed[str(raw.get("type"))]
            known, given, path = same.popleft() if same else None, raw.get("arguments"), ("interaction", "steps", place)
            if known is None or (known.kind == "model_output" and not known.contents and facts.contents_of(raw)):
                self.warn("terminal_backfill")
                if (begun := self._begin(raw, ("last", place), path)) is not None:
                    self.end(begun)
            elif given and known.is_call_of_ours and not known.given and (known.is_open or not known.is_grown):
                if not known.is_grown:
                    self.warn("terminal_backfill")
                text, problem = self.object_text(given, (*path, "arguments"))
                self.out.append(ToolCallFragment(known.label, whole=text, end=True, problem=problem))
                known.is_open = False

    @override
    def read_usage(self, usage: object) -> None:
        """Keeps the counts of this hop, which come anew with each event, on top of those of the hops before."""
        if isinstance(usage, dict):
            newest: dict[str, int] = {}
            self.usage.read(usage, newest)
            earlier, known = self._earlier, self._counts
            known |= {path: n + earlier.get(path, 0) for path, n in newest.items() if n or path not in known}
            self._usage_objects = (*self._usage_objects[:1], usage)

    # -- checkpoints --

    def _confirm(self) -> None:
        """Ends the calls that have stopped: nothing up to here is said again."""
        held, self._held = self._held, []
        for step in held:
            self._end_call(step, cut=False, implied=False)
        self._closed_since = 0

    def _go_back(self, steps: int, pieces: int) -> None:
        self._checkpoint, self._is_resumable, self._held = None, False, []
        if self._closed_since:
            self.fail(RemoteProtocolError(facts.SAID_AGAIN, kind="said_again"))
            return
        shown = self._current
        if isinstance(shown, GrowingStep) and self._open is not None:
            stands = "".join(shown.texts[:pieces]) if shown.number < steps else ""
            if stands != "".join(shown.texts):
                self.warn("said_again")
                self.replace_part(stands)
                shown.texts = [stands] if stands else []
        for step in self._places.values():
            if step.is_call_of_ours and not step.ended:
                self.warn("said_again")
                self._void[identity(step.head)] = step
                step.is_open = False
            elif step.number >= steps:
                step.contents = []
        self.close_places(whole=False)

    # -- steps --

    @override
    def new_place(self, key: object, role: Role, kind: str, head: dict[str, Any]) -> GrowingStep:
        step = GrowingStep(key, role, kind, head, len(self._steps))
        step.early = key in self._early and key not in self._places
        self._steps.append(step)
        return step

    @override
    def label_at(self, key: object) -> int | str:
        label = super().label_at(key)
        return label if not self._since else f"{self._since}/{label}"  # indexes count anew in each hop

    def _step_start(self, payload: dict[str, Any]) -> None:
        raw = payload.get("step")
        if not isinstance(raw, dict):
            self.emit_unknown(payload)
        else:
            self._begin(raw, key_of(payload.get("index")), ("step",))

    def _begin(self, raw: dict[str, Any], index: object, path: Path) -> GrowingStep | None:
        head = rest_of(raw, facts.CONTENTS.get(str(raw.get("type")), ""))
        beside = rest_of(head, "type", "id", "name")
        if beside and not self.charge(beside):
            return None
        type_ = read_text(raw.get("type")) or ""
        is_call = facts.call_kind(type_, raw) is not None
        role: Role = "call" if is_call else "item" if type_ not in facts.CONTENTS else "text"
        step = self.begin(index, role, type_, head, id=raw.get("id"))
        if not isinstance(step, GrowingStep):
            return None
        if is_call:
            self._begin_step_of_call(step, raw, path)
        elif type_ in facts.CONTENTS:
            self._begin_text(step, raw)
        elif type_ not in facts.STEPS:
            self.warn("unknown_block_type", type_[: self.limits.max_name_bytes])
        return step

    def _step_stop(self, payload: dict[str, Any]) -> None:
        self.read_usage(payload.get("usage"))
        self.end_at(key_of(payload.get("index")))

    @override
    def end(self, place: GrowingBlock, *, cut: bool = False, implied: bool = False) -> None:
        assert isinstance(place, GrowingStep), "each place is a step"
        place.is_open, place.cut = False, cut
        if place.role != "call":
            self._end_step(place)
        elif self._is_resumable and place.is_call_of_ours and not cut:
            self._held.append(place)
        else:
            self._closed_since += self._is_resumable
            self._end_call(place, cut=cut, implied=implied)

    def _end_step(self, step: GrowingStep) -> None:
        kept = self.to_keep(step.as_sent())
        state = {"index": step.number} | ({"step": kept} if kept is not None else {})
        if self._current is step and self._open is not None:
            self._closed_since += self._is_resumable
            self.end_part(state)
        elif step.kind == "user_input":
            self.emit_unknown(step.head, "step")
        elif kept:
            self._closed_since += self._is_resumable
            self.out.append(ProviderItem(step.kind, state))
        if self._current is step:
            self.leave()

    # -- texts --

    def _begin_text(self, step: GrowingStep, raw: Mapping[str, Any]) -> None:
        self._show(step, "")
        for place, content in enumerate(facts.contents_of(raw)):
            self._content(step, content)
            if isinstance(content, dict) and content.get("type") == "text":
                self.emit_unread(content, facts.TEXT_FIELDS, "step", facts.CONTENTS[step.kind], place)
        if (error := object_of(raw.get("error"))) and self._verdict is None:
            self._verdict = named_error({"error": error})

    def _content(self, step: GrowingStep, content: object) -> None:
        type_ = content.get("type") if isinstance(content, dict) else None
        text = object_of(content).get("text")
        if type_ == "text" and isinstance(text, str):
            if text:
                step.text(text)
            self._show(step, text)
            self.part.sink = step.text
            if (annotations := object_of(content).get("annotations")) is not None:
                self._annotations(step, annotations)
        elif isinstance(content, dict) and (kept := self.to_keep(content)) is not None and self.charge(content):
            self.leave()
            step.whole(kept)
            self.out.append(ProviderItem(str(type_), {"index": step.number, "content": kept}))

    def _contents(self, step: GrowingStep, delta: dict[str, Any]) -> None:
        if facts.BEGINS[delta["type"]] == step.kind:
            self._content(step, delta.get("content") if step.kind == "thought" else delta)
        else:
            self.emit_unknown(delta, "delta")

    def _annotations(self, step: GrowingStep, annotations: object) -> None:
        if isinstance(annotations, list) and annotations and self.charge(annotations):
            step.annotate(annotations)
            self.emit_unknown({"annotations": annotations}, "delta")

    def _show(self, step: GrowingStep, text: str) -> None:
        if self._current is not step:
            self.leave()
            self._current = step
        if step.kind == "thought":
            self.emit_reasoning(text)
        else:
            self.emit_text(text)

    @override
    def leave(self) -> None:
        self._closed_since += self._is_resumable and self._open is not None
        self.end_part()
        self._current = None

    # -- deltas --

    def _step_delta(self, payload: dict[str, Any]) -> None:
        delta, index = payload.get("delta"), key_of(payload.get("index"))
        metadata = object_of(payload.get("metadata"))
        self.read_usage(metadata.get("total_usage"))
        self.emit_beside(metadata, frozenset({"total_usage"}), "metadata")
        type_ = read_text(object_of(delta).get("type"))
        if not isinstance(delta, dict) or type_ is None:
            self.emit_unknown(payload)
        elif type_ == "arguments_delta":
            self._arguments(index, delta)
            self.emit_unread(delta, facts.DELTA_FIELDS[type_], "delta")
        else:
            self._delta(index, type_, delta)

    def _delta(self, index: object, type_: str, delta: dict[str, Any]) -> None:
        step = self._places.get(index)
        if step is None and (begun := facts.BEGINS.get(type_, type_ if type_ in facts.WHOLE else None)) is not None:
            self.warn("delta_without_block")
            step = self._begin({"type": begun}, index, ("delta",))
        if step is None or (not step.is_open and type_ in facts.BEGINS):
            code = "delta_after_stop" if step is not None else "unknown_delta_type"
            self.warn(code, type_[: self.limits.max_name_bytes])
            self.emit_unknown(delta, "delta")
        elif (handler := _DELTAS.get(type_)) is not None:
            handler(self, step, delta)
            if (fields := facts.DELTA_FIELDS.get(type_)) is not None:
                self.emit_unread(delta, fields, "delta")
        elif type_ in facts.WHOLE and type_ == step.kind:
            self._repeated(step, delta)
        else:
            self.warn("unknown_delta_type", type_[: self.limits.max_name_bytes])
            self.emit_unknown(delta, "delta")

    def _signature(self, step: GrowingStep, delta: dict[str, Any]) -> None:
        if self.charge(signature := delta.get("signature")):
            step.head = {**step.head, "signature": signature}
            if step.is_call_of_ours:
                self.out.append(ToolCallFragment(step.label, provider_state=self.state_of_call(step)))

    def _repeated(self, step: GrowingStep, delta: dict[str, Any]) -> None:
        if not self.charge(delta):
            return
        step.head = {**step.head, **(delta if step.role != "call" else rest_of(delta, "arguments"))}
        if step.role == "call" and "arguments" in delta:
            step.head["arguments"] = delta["arguments"]
            step.given = self.object_text(delta["arguments"], ("delta", "arguments"))

    # -- calls --

    def _begin_step_of_call(self, step: GrowingStep, raw: Mapping[str, Any], path: Path) -> None:
        """Announces a call; one that was begun since the checkpoint may be this one, which is made again."""
        kind = facts.call_kind(step.kind, raw)
        assert kind is not None, "it is a call"
        given = self.object_text(raw["arguments"], (*path, "arguments")) if "arguments" in raw else None
        if given == ("{}", None) and kind == "function":
            # The placeholder is no proof that a call has no arguments: the end of the response shows whether it was cut
            # before they came.
            given = None
        again = self._void.pop(identity(raw), None) if read_text(raw.get("id")) else None
        if again is not None:
            step.number, step.label, step.call_number = again.number, again.label, again.call_number
            step.given, step.again = given, []
            return
        step.call_number, self._call_count = self._call_count, self._call_count + 1
        self.begin_call(
            step,
            raw.get("id"),
            facts.name_of(raw),
            kind=kind,
            given=given,
            state=self.state_of_call(step),
            awaits="tool_search_result" if kind == "function" and step.kind == "tool_search_call" else None,
        )

    def _arguments(self, index: object, delta: dict[str, Any]) -> None:
        piece, step = delta.get("arguments"), self._places.get(index)
        place = None if index == key_of(None) else index
        if not isinstance(piece, (str, dict)) or (step is not None and step.is_open and step.role != "call"):
            if piece:
                self.grow_call(place, "", "malformed")
            self.emit_unknown(delta, "delta")
        elif isinstance(piece, dict):
            if step is not None and step.is_open:
                step.given = self.object_text(piece, ("delta", "arguments"))
            else:
                self.grow_call(place, "", "malformed")
        elif piece and step is not None and step.is_open and step.again is not None:
            if self.charge(piece):
                step.again.append(piece)
        elif piece:
            self.grow_call(index if step is not None and step.is_open else place, piece)

    @override
    def _end_call(self, place: GrowingBlock, *, cut: bool, implied: bool) -> None:
        assert isinstance(place, GrowingStep), "each place is a step"
        place.ended = True
        if place.again is None:
            super()._end_call(place, cut=cut, implied=implied)
            return
        given, problem = place.given or ("{}", None)
        whole = "".join(place.again) or given
        state = self.state_of_call(place)
        self.out.append(
            ToolCallFragment(place.label, whole=whole or None, problem=problem, end=True, cut=cut, provider_state=state)
        )

    @override
    def state_of_call(self, place: GrowingBlock) -> dict[str, Any]:
        """Returns what goes back with a call: the step without its arguments, if those are ours to write."""
        assert isinstance(place, GrowingStep), "each place is a step"
        kept = self.to_keep(rest_of(place.head, "arguments") if place.is_call_of_ours else place.head)
        return {"index": place.number} | ({"step": kept} if kept is not None else {})

    # -- the end --

    @override
    def resume_point(self) -> ResumePoint | None:
        if self._stopped or not self._hops.begun or self._checkpoint is not None or self._void:
            return None  # behind a checkpoint it is resumed by a token, and says again what it said
        hops, usage = self._hops, self._usage_objects[-1] if self._usage_objects else None
        lost = self._early - self._places.keys() | self._late
        entries = account(self._model, hops.ids, self._steps, self._since, self._earlier, usage, hops.elsewhere, lost)
        return ResumePoint(
            response_id=hops.ids[-1], after=self.cursors.last if self.cursors else None, account=tuple(entries)
        )

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        for step in self._held:
            self._end_call(step, cut=True, implied=True)
        for step in self._void.values():  # not made again behind the checkpoint: no history has it
            self.out.append(ToolCallFragment(step.label, end=True, cut=True, provider_state={"unsaid": True}))
        self.close_places(whole=False)
        if self._token is not None:
            self.out.append(ProviderItem("continuation_token", {"continuation_token": self._token}))
        finish = facts.FINISHES.get(self._finish_raw, "other") if self._finish_raw is not None else None
        return self.normalized(finish, self._has_calls), self._stopped


InteractionsDecoder.handlers = {
    "interaction.created": InteractionsDecoder._created,
    "interaction.status_update": InteractionsDecoder._status_update,
    "interaction.completed": InteractionsDecoder._completed,
    "step.start": InteractionsDecoder._step_start,
    "step.delta": InteractionsDecoder._step_delta,
    "step.stop": InteractionsDecoder._step_stop,
}

_DELTAS: dict[str, Callable[[InteractionsDecoder, GrowingStep, dict[str, Any]], None]] = {
    "text": InteractionsDecoder._contents,
    "text_annotation_delta": lambda self, step, delta: self._annotations(step, delta.get("annotations")),
    "thought_summary": InteractionsDecoder._contents,
    "thought_signature": InteractionsDecoder._signature,
    **dict.fromkeys(facts.MEDIA, InteractionsDecoder._contents),
}


def key_of(index: object) -> object:
    return index if isinstance(index, int) else str(index)


def identity(raw: Mapping[str, Any]) -> tuple[str, str]:
    return str(raw.get("id")), str(raw.get("name"))


# -- interactions of one turn --

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
    def __init__(self) -> None:
        self.begun = False
        self.may_go_on = False  # the next interaction that begins goes on with this one
        self.ids: tuple[str | None, ...] = ()  # the ids of the first, and of the latest if there are several
        self._id: str | None = None
        self.elsewhere: str | None = None  # the id of another turn, to which events without an id belong now
        self._has_others = False

    def begin(self, payload: Mapping[str, Any]) -> None:
        self.begun, self.may_go_on, self.elsewhere = True, False, None
        self._id = id_of(payload)
        self.ids = (*self.ids[:1], self._id)

    def other(self, payload: Mapping[str, Any]) -> str | None:
        """Returns None if an event belongs to this turn; else the other one's name, ``""`` if told before."""
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
    return read_text(object_of(payload.get("interaction")).get("id")) or read_text(payload.get("interaction_id"))


# -- the account of a cut turn --

# An interaction that was cut, as events: what its stream had brought, each text in one piece.
#
# A decoder that is fed these stands where the cut one stood. The arguments of a call that was growing are not here:
# they are in the turn.

Entry: TypeAlias = "tuple[dict[str, Any], int | None]"
"""An event; and the number of the call whose arguments belong into it."""


def account(
    model: object,
    ids: Sequence[str | None],
    steps: Iterable[GrowingStep],
    since: int,
    earlier: Mapping[str, int],
    usage: Mapping[str, Any] | None,
    elsewhere: str | None,
    lost: AbstractSet[object] = frozenset(),
) -> Iterator[Entry]:
    """Yields the events of a turn whose steps are these; `since` is the number of the first step of the interaction
    that was cut, `earlier` the counts of those before it, `usage` its own, `lost` the indexes of arguments that no open
    call had."""
    first, *others = ids
    yield _interaction("created", id=first, model=model, status="in_progress"), None
    for step in steps:
        if others and step.number >= since:
            yield from _next_hop(first, others.pop(), earlier)
        yield from _of_step(step)
        if step.number >= since and step.key in lost and not (step.role == "call" and step.is_open):
            lost -= {step.key}
            yield _piece({"index": step.key}, {}), None
    if others:
        yield from _next_hop(first, others.pop(), earlier)
    for index in lost:
        yield _piece({"index": index}, {}), None
    if usage is not None:
        status = {"interaction_id": ids[-1] or "", "status": "in_progress", "usage": dict(usage)}
        yield {"event_type": "interaction.status_update", **status}, None
    if elsewhere is not None:
        yield _interaction("created", id=elsewhere, status="in_progress"), None


def _next_hop(first: str | None, id_: str | None, earlier: Mapping[str, int]) -> Iterator[Entry]:
    yield _interaction("completed", id=first, status="requires_continuation", usage=dict(earlier)), None
    yield _interaction("created", id=id_, status="in_progress"), None


def _interaction(event: str, **interaction: Any) -> dict[str, Any]:
    return {"event_type": f"interaction.{event}", "interaction": interaction}


def _of_step(step: GrowingStep) -> Iterator[Entry]:
    place = {"index": step.key}
    arguments = list(_arguments(step, place)) if step.role == "call" else []
    if step.early:  # a decoder that is fed this has to find some of them before the start, too
        yield from arguments
    yield {"event_type": "step.start", **place, "step": dict(step.as_sent())}, None
    if not step.early:
        yield from arguments
    if not step.is_open and not step.cut:
        yield {"event_type": "step.stop", **place}, None


def _arguments(step: GrowingStep, place: Mapping[str, Any]) -> Iterator[Entry]:
    if step.is_grown or step.early:
        yield _piece(place), step.call_number
    elif step.is_call_of_ours and step.given is not None:
        yield _piece(place, step.given[0]), None


def _piece(place: Mapping[str, Any], *arguments: object) -> dict[str, Any]:
    """Returns an event with a piece of arguments; one that is an object is read by nobody without an open call."""
    piece = {"arguments": arguments[0]} if arguments else {}
    return {"event_type": "step.delta", **place, "delta": {"type": "arguments_delta", **piece}}
