"""Interactions stream events in, events out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import override

from ...errors import ProviderError, RemoteProtocolError
from ...events import Event, ProviderItem
from ...limits import Limits
from ...parts import Finish, ResumePoint
from ..marks import LEGACY_INTERACTIONS
from ..reading import named_error, provider_error, read_text, rest_of
from . import calls
from .calls import Path, said_of
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
    STEPS,
    WHOLE,
    call_kind,
)
from .hops import Hops, id_of
from .steps import CONTENTS, GrowingStep, head_of, key_of, object_of
from .telling import StepTexts

__all__ = ["InteractionsDecoder"]


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
        if step is None and (begun := BEGINS.get(type_, type_ if type_ in WHOLE else None)) is not None:
            self.warn("step_without_start")
            step = self._begin({"type": begun}, index, ("delta",))
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
                self.out.append(calls.signed(step, self._state(step)))

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
            self.out.append(calls.begun(step, raw, self._state(step), start=start))

    def _arguments(self, step: GrowingStep, delta: dict[str, Any]) -> None:
        piece = delta.get("arguments")
        if step.kind is None or not isinstance(piece, (str, dict)):
            self.emit_unknown(delta, "delta")
        elif isinstance(piece, dict):
            step.arguments = self.object_text(piece, ("delta", "arguments"))
        elif piece:
            step.grows = True
            if not step.again:
                self.out.append(calls.grown(step, piece))
            elif self.charge(piece):
                step.pieces.append(piece)

    def _end_call(self, step: GrowingStep, *, cut: bool) -> None:
        step.ended = True
        self.out.append(calls.ended(step, self._state(step), cut=cut or step.early))

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
        from .told import account  # only of a stream that was cut

        strays = [at for at, step in self._by_index.items() if at in (self._astray or ()) and not step.is_open_call]
        told = account(self._model, hops.ids, self._steps, self._since, self._earlier, usage, hops.elsewhere, strays)
        return ResumePoint(response_id=hops.ids[-1], after=self._after, account=tuple(told))

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        for step in self._held:
            self._end_call(step, cut=True)
        self.out += [calls.unsaid(step) for step in self._void.values()]
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
