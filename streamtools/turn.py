"""Holds one model response: its text, calls and observations, and the messages to append.

`TurnBuilder.add` takes events, and a `Turn` comes out: the same from `parse`, from ``events.turn`` and from a replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_origin

from typing_extensions import is_typeddict

from . import events as of
from .errors import ExportError, StreamError
from .events import Event, Observation, TextDelta
from .ground.own import MESSAGES, builder_of, own
from .ground.text import ALWAYS, shown_by
from .parts import FINISHES, NO_CARRY, OUTCOMES, Carry, Finish, Part, ResumePoint, ToolCall, Usage, changed, new_part
from .wires import Wire, find, is_known, meant, names

if TYPE_CHECKING:
    from .content import Media
    from .wires.cited import CitedSource

__all__ = ["TAKEN_BY", "Turn", "TurnBuilder"]

T = TypeVar("T")
_INDEX = attrgetter("index")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One model response with its observations. Read it after the stream has ended; before that it holds only what has
    come so far."""

    wire: str | None = None
    """The name of the wire that was given or detected; None if none was found."""
    model: str | None = None
    response_id: str | None = None
    parts: tuple[Part, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    """In call order. Calls that the provider ran itself are included, with kind ``server``."""
    finish: Finish | None = None
    finish_raw: str | None = None
    complete: bool = field(default=False, metadata=ALWAYS)
    """True if the wire's own terminal marker was seen."""
    usage: Usage | None = None
    usage_raw: Mapping[str, Any] | None = field(default=None, repr=False)
    """The provider's own usage object, which may also contain prices, and counts of searches or seconds."""
    error: StreamError | None = None
    """The error that ended the stream, or None; see `raise_for_error`."""
    resume_from: ResumePoint | None = field(default=None, repr=False, compare=False)
    """The place from which a cut response can be continued, if its wire allows that: ask the provider for the rest, and
    read it with ``continues=turn``."""
    carry: Carry = field(default_factory=lambda: NO_CARRY)
    """The fields that the provider wants in the next request beside the messages, as ``create(..., **turn.carry)``
    sends them: Anthropic's ``container``; the id of a chained answer, after which you send new messages only. Empty
    where there are none."""
    output: Any = field(default=None, repr=False)
    """The answer as a value of the type given with ``output=``; None if the answer does not fit, or no type was given.
    `output_as` returns it typed."""
    output_problem: str | None = None
    """The reason why the answer does not fit the type; None if it fits, or no type was given."""
    warnings: tuple[of.StreamWarning, ...] = ()
    """The deviations that were tolerated, once per code and detail."""
    observations: tuple[Observation, ...] = ()
    """In call order; empty where nothing was dispatched (`parse`)."""
    left_alone: bool = field(default=False, repr=False, compare=False)
    """True with ``start="off"`` and ``"pure"``: another program runs the calls, and `messages` has only those results
    that were observed or given."""
    record: Wire | None = field(default=None, repr=False, compare=False)
    """The wire itself, if it was passed and is not registered, so that its name does not find it."""

    __repr__ = shown_by(
        "wire", "model", "response_id", "reasoning", "text", "refusal", "calls", "finish", "complete", "usage", "error",
        "carry", "output", "output_problem", "warnings", "observations",
    )  # fmt: skip

    @property
    def text(self) -> str:
        """All text, ``""`` when there is none."""
        return self._joined("text")

    @property
    def reasoning(self) -> str:
        """All reasoning, ``""`` when there is none."""
        return self._joined("reasoning")

    @property
    def refusal(self) -> str:
        """The model's refusal, ``""`` when there is none."""
        return self._joined("refusal")

    @property
    def sources(self) -> tuple[CitedSource, ...]:
        """The pages and documents that the answer cites, or that the provider's search found, each once."""
        from .wires.cited import cited_sources, distinct_sources  # few answers name any

        return tuple(distinct_sources(source for part in self.parts for source in cited_sources(part.provider_state)))

    @property
    def files(self) -> tuple[Media, ...]:
        """The images and other files that the model made."""
        from .wires.cited import made_files

        calls = {call.call_id: call for call in self.calls}
        states = (calls[part.call_id].provider_state if part.kind == "call" and part.call_id else part.provider_state
                  for part in self.parts)  # fmt: skip
        return tuple(file for state in states for file in made_files(state))

    def _joined(self, kind: str) -> str:
        return "".join(part.text for part in self.parts if part.kind == kind)

    def output_as(self, kind: type[T]) -> T:
        """Returns `output`, typed as the type that was given with ``output=``.

        Raises:
            ValueError: there is no output; the message contains `output_problem`.
            TypeError: the output is of another type.
        """
        if self.output is None:
            raise ValueError(f"no output: {self.output_problem or 'pass output=, and read it after the stream'}")
        if not isinstance(self.output, dict if is_typeddict(kind) else get_origin(kind) or kind):
            raise TypeError(f"expected an output of {kind.__name__}, got one of {type(self.output).__name__}")
        return cast("T", self.output)

    def raise_for_error(self) -> None:
        """Raises `error` if there is one."""
        if self.error is not None:
            raise self.error

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        """The calls of tools that the provider defines and for which you passed no tool of that name. They still wait
        for an answer, and have no result in `messages`, since any result would be made up."""
        unknown = {one.call_id for one in self.observations if one.outcome == "unknown_tool"}
        return tuple(call for call in self.calls if call.awaits is not None and call.call_id in unknown)

    @property
    def is_draft(self) -> bool:
        """True if the answer broke off before any of its calls began or was decided, so that asking again loses
        nothing. `AgentLoop.messages` omits drafts, since many providers refuse them, or answer with the rest alone."""
        facts = None if self.finish is None else FINISHES[self.finish]
        broke_off = self.error is not None or (not self.complete if facts is None else not facts.is_whole)
        ends = (OUTCOMES[one.outcome] for one in self.observations)
        return broke_off and all(end.may_run_later and not end.frees_claim for end in ends)

    def messages(self, wire: Wire | str | None = None, *, results: Mapping[str, Any] | None = None) -> list[Any]:
        """Returns the messages to append for the next request: the assistant's turn, and one result for every call.

            turn = parse(body)
            messages += turn.messages(results={call.call_id: run(call) for call in turn.calls})

        Args:
            wire: the wire to write for, or its name; by default the turn's own.
            results: the results of calls that you ran yourself, by `call_id`: text for the model, a `ToolResult`, an
                `Observation`, or a value to be written as JSON. Any other call without an observation gets a result
                that says that it was not run. With ``start="off"`` and ``"pure"``, only calls that cannot run (cut or
                invalid) get one, and only where *results* are given.

        Returns:
            Plain dicts in the provider's own shape, ready to send (as Any: each SDK has types of its own). For its own
            wire the turn is written verbatim; a call whose arguments were cut becomes ``{}`` with a result that says
            so. Empty if the model said nothing, or if the answer is ``pending``: the finished one has all of it.

        Raises:
            ExportError: the wire is unknown, or none was given and the wire was never detected.
            ValueError: a result is for no call of the turn, or for a call that has an observation.
            TypeError: a result cannot be written as JSON.
        """
        # A turn that is only read needs no history.
        from .history.calls import history_form, result_of, with_valid_ids
        from .wires.transcript import Answer

        found = self._wire_for(wire)
        observed = self._observed(results)
        if found is None or (self.finish is not None and not FINISHES[self.finish].is_over):
            return []
        own_wire = found.name == self.wire
        ours = [call for call in self.calls if call.kind != "server"]
        if self.left_alone:
            ours = [call for call in ours if call.call_id in observed or (results is not None and call.problem)]
        elif own_wire:
            ours = [call for call in ours if _has_answer(call, observed.get(call.call_id))]
        answer = Answer(
            parts=self.parts,
            calls={call.call_id: call for call in self.calls},
            arguments={call.call_id: history_form(call) for call in self.calls},
            results=tuple(result_of(call, observed.get(call.call_id), found.name) for call in ours),
            finish=self.finish,
            own_wire=own_wire,
        )
        return list(own(found.render(with_valid_ids(answer, found)), MESSAGES))  # pieces go back as they came

    def _observed(self, results: Mapping[str, Any] | None) -> dict[str, Observation]:
        observed = {observation.call_id: observation for observation in self.observations}
        calls = {call.call_id: call for call in self.calls if call.kind != "server"}
        for call_id, value in (results or {}).items():
            if call_id in observed or call_id not in calls:
                problem = "has an observation" if call_id in observed else "is not in this turn"
                raise ValueError(f"results: the call {call_id!r} {problem}; it takes no result")
            from .history.calls import given  # as in `messages`

            observed[call_id] = given(call_id, value, calls[call_id].name)
        return observed

    def _wire_for(self, wire: Wire | str | None) -> Wire | None:
        wanted = wire or self.record or self.wire
        if wanted is None and not self.parts:
            return None
        if wanted is None:
            raise ExportError("the wire of the turn is unknown; name the wire to write for: messages(wire)")
        try:
            return find(wanted)
        except ValueError as error:
            raise ExportError(f"cannot write messages for {wanted!r}; {meant(str(wanted), names())}") from error


def _has_answer(call: ToolCall, seen: Observation | None) -> bool:
    """Returns whether a call's result may stand in a history: nobody's word is made up for a provider that waits."""
    if call.kind == "approval":
        return seen is not None and seen.outcome in ("ok", "denied", "over_budget")
    return call.awaits is None or seen is None or seen.outcome != "unknown_tool"


_new_turn = builder_of(Turn)


class TurnBuilder:
    """Collects events into a `Turn`. Costs one list append per delta; the text is joined once."""

    def __init__(self) -> None:
        self.wire: Wire | str | None = None
        """The wire or its name; None while it is unknown."""
        self._left_alone = False
        self.start: of.StreamStart | None = None
        """The beginning of the response; None before it."""
        self._end: of.StreamEnd | None = None
        self._output: of.OutputEnd | None = None
        self._parts: list[Part | _OpenPart] = []
        self._open: dict[str, _OpenPart] = {}
        self._calls: dict[str, ToolCall | of.ToolCallStart] = {}  # a start until its call has ended
        self.add_text: Callable[[str], None] = self._first_text
        """Takes a delta of text, as `add` takes a `TextDelta`, at the price of a list's append."""
        self.add_reasoning: Callable[[str], None] = self._first_reasoning
        """Takes a delta of reasoning in the same way."""
        self._warnings: dict[tuple[str, str], of.StreamWarning] = {}
        self._observations: dict[str, Observation] = {}

    def begin_as(self, other: TurnBuilder) -> None:
        """Begins the turn like another one, whose answer is discarded."""
        self._left_alone = other._left_alone

    @property
    def has_parts(self) -> bool:
        """True once a part of the answer has come."""
        return bool(self._parts)

    def add(self, event: Event) -> None:
        """Adds one event. Events that do not concern the turn are ignored."""
        take = TAKEN_BY.get(type(event))
        if take is not None:
            take(self, event)

    def add_all(self, events: Iterable[Event]) -> None:
        """Adds events."""
        for event in events:
            if type(event) is TextDelta:
                self.add_text(event.text)
            else:
                self.add(event)

    def build(self) -> Turn:
        """Returns the turn so far, in time linear in its size."""
        start, end, wire = self.start, self._end, self.wire
        may_run = end is not None and end.ended_well
        counting = [call for call in self._calls.values() if getattr(call, "problem", None) != "void"]
        in_order = sorted(counting, key=_INDEX)  # a call may be announced late
        calls = tuple([_so_far(call, may_run) for call in in_order]) if in_order else ()
        return _new_turn(
            wire=(wire.name if isinstance(wire, Wire) else wire) or (start.wire if start else None),
            record=wire if isinstance(wire, Wire) and not is_known(wire) else None,
            model=(end.model if end else None) or (start.model if start else None),
            response_id=(end.response_id if end else None) or (start.response_id if start else None),
            parts=self._ordered_parts(calls),
            calls=calls,
            finish=end.finish if end else None,
            finish_raw=end.finish_raw if end else None,
            complete=end.complete if end else False,
            usage=end.usage if end else None,
            usage_raw=end.usage_raw if end else None,
            error=end.error if end else None,
            resume_from=end.resume_from if end else None,
            carry=(end.carry if end else None) or NO_CARRY,
            output=self._output.value if self._output else None,
            output_problem=self._output.problem if self._output else None,
            warnings=tuple(self._warnings.values()),
            left_alone=self._left_alone,
            observations=tuple([self._observations[c.call_id] for c in calls if c.call_id in self._observations]),
        )

    def _ordered_parts(self, calls: tuple[ToolCall, ...]) -> tuple[Part, ...]:
        in_order, parts = iter(calls), list[Part]()
        for part in self._parts:
            if isinstance(part, _OpenPart):
                part = part.close()
            elif part.kind == "call":
                if getattr(self._calls.get(part.call_id or ""), "problem", None) == "void":
                    continue
                # An interrupt may have come between a call's part and the call, and the event a second time after it.
                if (call := next(in_order, None)) is None:
                    continue
                if call.call_id != part.call_id:
                    part = replace(part, call_id=call.call_id)
            parts.append(part)
        return tuple(parts)

    # -- one method per event that matters --

    def _step_start(self, event: of.StepStart) -> None:
        self._left_alone = not event.dispatches

    def _stream_start(self, event: of.StreamStart) -> None:
        self.start = event

    def _text(self, event: TextDelta) -> None:
        self.add_text(event.text)

    def _first_text(self, text: str) -> None:
        self._begin("text").append(text)

    def _text_end(self, event: of.TextEnd) -> None:
        self._finish("text", event)
        self.add_text = self._first_text

    def _reasoning(self, event: of.ReasoningDelta) -> None:
        self.add_reasoning(event.text)

    def _first_reasoning(self, text: str) -> None:
        self._begin("reasoning").append(text)

    def _reasoning_end(self, event: of.ReasoningEnd) -> None:
        self._finish("reasoning", event)
        self.add_reasoning = self._first_reasoning

    def _refusal(self, event: of.RefusalDelta) -> None:
        (self._open.get("refusal") or self._begin("refusal")).append(event.text)

    def _provider_item(self, event: of.ProviderItem) -> None:
        self._parts.append(Part(kind="provider", provider_state=event.raw))

    def _call_start(self, event: of.ToolCallStart) -> None:
        if event.call_id in self._calls:
            return
        self._parts.append(Part(kind="call", call_id=event.call_id))
        self._calls[event.call_id] = event

    def _call(self, event: of.ToolCallEnd | of.ToolCallValidated) -> None:
        self._calls[event.call.call_id] = event.call

    def _observation(self, event: Observation) -> None:
        self._observations[event.call_id] = event

    def _warning(self, event: of.StreamWarning) -> None:
        self._warnings.setdefault((event.code, event.detail), event)

    def _output_end(self, event: of.OutputEnd) -> None:
        self._output = event

    def _stream_end(self, event: of.StreamEnd) -> None:
        self._end = event

    def _begin(self, kind: Literal["text", "reasoning", "refusal"]) -> _OpenPart:
        part = self._open[kind] = _OpenPart(kind)
        self._parts.append(part)
        if kind == "text":
            self.add_text = part.append
        elif kind == "reasoning":
            self.add_reasoning = part.append
        return part

    def _finish(self, kind: str, end: of.TextEnd | of.ReasoningEnd) -> None:
        part = self._open.pop(kind, None)
        if part is not None:
            part.provider_state = end.provider_state
            if end.whole is not None:
                part.deltas = [end.whole]


def _so_far(call: ToolCall | of.ToolCallStart, may_run: bool) -> ToolCall:
    if isinstance(call, of.ToolCallStart):
        return ToolCall(
            call_id=call.call_id,
            name=call.name,
            call_id_synthesized=call.call_id_synthesized,
            kind=call.kind,
            index=call.index,
            problem="incomplete_json",
        )
    wanted = may_run and call.status == "ready" and call.kind != "server"
    return call if call.dispatchable is wanted else changed(call, dispatchable=wanted)


class _OpenPart:
    __slots__ = ("append", "deltas", "kind", "provider_state")

    def __init__(self, kind: Literal["text", "reasoning", "refusal"]) -> None:
        self.kind: Literal["text", "reasoning", "refusal"] = kind
        self.deltas: list[str] = []
        self.append = self.deltas.append
        self.provider_state: Mapping[str, Any] | None = None

    def close(self) -> Part:
        return new_part(kind=self.kind, text="".join(self.deltas), provider_state=self.provider_state)


TAKEN_BY: Mapping[type[Event], Callable[[TurnBuilder, Any], object]] = {
    of.StepStart: TurnBuilder._step_start,
    of.StreamStart: TurnBuilder._stream_start,
    of.TextStart: lambda turn, _: turn._begin("text"),
    TextDelta: TurnBuilder._text,
    of.TextEnd: TurnBuilder._text_end,
    of.ReasoningStart: lambda turn, _: turn._begin("reasoning"),
    of.ReasoningDelta: TurnBuilder._reasoning,
    of.ReasoningEnd: TurnBuilder._reasoning_end,
    of.RefusalDelta: TurnBuilder._refusal,
    of.ProviderItem: TurnBuilder._provider_item,
    of.ToolCallStart: TurnBuilder._call_start,
    of.ToolCallEnd: TurnBuilder._call,
    of.ToolCallValidated: TurnBuilder._call,
    Observation: TurnBuilder._observation,
    of.StreamWarning: TurnBuilder._warning,
    of.OutputEnd: TurnBuilder._output_end,
    of.StreamEnd: TurnBuilder._stream_end,
}
"""The method that takes an event, by the event's type. Events of other types do not concern the turn."""
