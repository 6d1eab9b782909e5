"""Settles a paired history for a provider: every call gets a valid id, an object for arguments, and one result.

Paired steps come in; the same steps leave, as `Settled` answers and prompts, with everything settled that rendering
cannot settle. A step that is right already stays unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from pydantic_core import to_json

from ..content import Text
from ..parts import OUTCOMES, Part, ToolCall
from ..text import well_formed
from ..wires import Answer, Wire
from ..wires.answer_builder import id_as_read
from ..wires.history_rules import HistoryRules
from ..wires.transcript import CallResult, Prompt, Returned, Said
from .calls import object_of, renamed, valid_ids
from .pairing import Exchange

__all__ = ["BadArguments", "HistorySettling", "Settled", "SettledResult", "Step", "as_one", "is_system", "takes_system"]


def is_system(step: object) -> bool:
    """Returns whether a step is a system prompt."""
    return isinstance(step, Prompt) and step.role == "system"


def takes_system(rules: HistoryRules, before: Prompt | Said | None, after: Prompt | Said | None) -> bool:
    """Returns whether a system prompt may stand between these two; an answer stands for itself and its results. None is
    the beginning, or the end."""
    match rules.system_stands:
        case "anywhere":
            return True
        case "not_behind_answer":
            return not isinstance(before, Said)
        case "before_answer":
            return not isinstance(after, Prompt) and (
                _ends_with_the_user(before)
                if isinstance(before, Said)
                else before is not None and not is_system(before)
            )


def as_one(prompts: list[Prompt]) -> Prompt:
    """Joins several system prompts into one; returns the same object if there is only one."""
    if len(prompts) == 1:
        return prompts[0]
    return Prompt(role="system", blocks=tuple(block for prompt in prompts for block in prompt.blocks))


def _ends_with_the_user(said: Said) -> bool:
    """Returns whether an answer's results are the user's message, or it waits for the provider's own tools."""
    last = said.answer.parts[-1] if said.answer.parts else None
    call = said.answer.calls.get(last.call_id) if last is not None and last.call_id is not None else None
    return bool(said.answer.our_calls) or (call is not None and call.kind == "server")


BadArguments: TypeAlias = Literal["empty", "wrap_raw"]

_FILLER = "."
"""Text for a message that has to be there but has nothing to say: no provider takes an empty message."""


@dataclass(frozen=True, slots=True, eq=False)
class SettledResult:
    """A call's result, as it will stand in the history."""

    result: CallResult
    source: Returned | None = None
    """The entry that holds it unchanged; None if it has to be written."""
    given: CallResult | None = None
    """The result as it was read."""


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """An answer with its results, as it will stand in the history."""

    answer: Answer
    """The answer without results: its `results` are empty."""
    source: Said | None
    """The entry that holds it unchanged; None if it has to be written."""
    outcomes: tuple[SettledResult, ...] = ()
    """The results, in call order."""

    @property
    def whole(self) -> Answer:
        """The answer with all its results."""
        return replace(self.answer, results=tuple(outcome.result for outcome in self.outcomes))


Step: TypeAlias = Prompt | Settled


class HistorySettling:
    """Settles the steps of one history for one wire."""

    def __init__(self, wire: Wire, *, last: bool, bad_arguments: BadArguments) -> None:
        self._wire = wire
        self._rules = wire.rules
        self._last = last
        self._bad_arguments = bad_arguments

    def settle(self, steps: Sequence[Prompt | Exchange]) -> list[Step]:
        """Returns the steps, settled, in an order that the wire takes."""
        exchanges = [step for step in steps if isinstance(step, Exchange)]
        ids = self._ids(exchanges)
        settled = (self._exchange(step, ids) if isinstance(step, Exchange) else step for step in steps)
        said = (step for step in settled if isinstance(step, Prompt) or self._says(step))
        return list(self._in_sequence(self._with_system_placed(said)))

    def _ids(self, exchanges: Sequence[Exchange]) -> Mapping[str, str]:
        """Maps each id to its replacement; a call without an id stays without where its own wire needs none."""
        wanted = [(call.call_id, step.said.answer.own_wire) for step in exchanges for call in step.calls]
        optional = self._rules.call_ids_optional
        nameless = [id_ for id_, is_own in wanted if optional and is_own and not id_as_read(id_)]
        return valid_ids([id_ for id_, _ in wanted], self._wire, keep=nameless)

    def _exchange(self, step: Exchange, ids: Mapping[str, str]) -> Settled:
        said = step.said
        answer = self._with_objects(said.answer)
        named = renamed(answer, ids)
        if named is not answer:  # an id that the provider did not give still counts as one
            calls = {id_: replace(call, call_id_synthesized=not id_as_read(id_)) for id_, call in named.calls.items()}
            answer = replace(named, calls=calls)
        is_kept = answer is said.answer and not said.flaws and all(map(self._is_named, step.calls))
        return Settled(answer, said if is_kept else None, tuple(self._outcomes(step, ids)))

    def _outcomes(self, step: Exchange, ids: Mapping[str, str]) -> Iterator[SettledResult]:
        for call in step.calls:
            given, id_ = step.given.get(call.call_id), ids[call.call_id]
            if given is None:
                if self._last or not step.live:
                    result = CallResult(
                        call_id=id_, content=OUTCOMES["skipped"].to_model, is_error=True, name=call.name
                    )
                    yield SettledResult(result)
                continue
            result = given.result
            stays = id_ == call.call_id and not given.source.flaws and self._is_named(call)
            own = id_as_read(id_)
            stays = stays and (result.call_id == own or (self._rules.call_ids_optional and not result.call_id))
            stays = stays and not (self._rules.result_names and result.name not in (None, call.name))
            yield SettledResult(replace(result, call_id=id_, name=call.name), given.source if stays else None, result)

    def _is_named(self, call: ToolCall) -> bool:
        return self._rules.takes_name(call)

    def _with_objects(self, answer: Answer) -> Answer:
        """Returns the answer with objects for all arguments; the same answer if it has them."""
        invalid = {id_: call for id_, call in answer.calls.items() if call.status == "invalid"}
        if not invalid:
            return answer
        arguments = {id_: self._object(call) for id_, call in invalid.items()}
        calls = {
            id_: replace(call, arguments=arguments[id_][1], status="ready", problem=None)
            for id_, call in invalid.items()
        }
        return replace(answer, calls={**answer.calls, **calls}, arguments={**answer.arguments, **arguments})

    def _object(self, call: ToolCall) -> tuple[str, dict[str, Any]]:
        raw = well_formed(call.arguments_text)
        if call.kind == "custom":
            value: dict[str, Any] = {"input": raw}
        elif (found := object_of(raw)) is not None:
            return found
        else:
            value = {"INVALID_JSON": raw} if self._bad_arguments == "wrap_raw" else {}
        return to_json(value).decode(), value

    def _says(self, step: Settled) -> bool:
        """Returns whether anything is left of an answer if it has to be written."""
        return step.source is not None or bool(self._wire.render(step.answer))

    def _with_system_placed(self, steps: Iterable[Step]) -> Iterator[Step]:
        """Yields the steps, with system prompts where the wire takes them: behind the user's next message."""
        held: list[Prompt] = []
        before: Step | None = None
        waits = self._rules.system_stands == "before_answer"  # until the user's last message before the answer
        for step in steps:
            if isinstance(step, Prompt) and is_system(step) and (held or waits or not self._takes_system(before)):
                held.append(step)
                continue
            if isinstance(step, Settled):
                yield from self._released(held, before)
            yield step
            before = step
            if isinstance(step, Prompt) and not waits:
                yield from self._released(held, before)
        yield from self._released(held, before)

    def _released(self, held: list[Prompt], before: Step | None) -> Iterator[Step]:
        if not held:
            return
        if not self._takes_system(before):
            yield Prompt(role="user", blocks=(Text(_FILLER),))
        yield from [as_one(held)] if self._rules.system_stands == "before_answer" else held
        held.clear()

    def _takes_system(self, before: Step | None) -> bool:
        said = Said(answer=before.answer) if isinstance(before, Settled) else before
        return takes_system(self._rules, said, None)

    def _in_sequence(self, steps: Iterable[Step]) -> Iterator[Step]:
        """Yields the steps with fillers where the wire wants a message between them."""
        has_begun, awaits_answer = False, False
        for step in steps:
            if isinstance(step, Prompt):
                if step.role == "user":
                    has_begun = True
                    if awaits_answer:
                        yield _spoken(_FILLER)
                    awaits_answer = False
            else:
                if self._rules.first_user and not has_begun:
                    yield Prompt(role="user", blocks=(Text(_FILLER),))
                has_begun = True
                awaits_answer = self._rules.answer_before_user and bool(step.answer.our_calls)
            yield step


def _spoken(text: str) -> Settled:
    answer = Answer(parts=(Part(kind="text", text=text),), calls={}, arguments={}, results=(), finish="stop")
    return Settled(answer, None)
