"""Gives a call its form in a history: an id that the provider takes, arguments that may stand there, and a result."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from ..content import ToolResult
from ..events import Observation
from ..parts import OUTCOMES, Outcome, ToolCall
from ..stages.arguments import arguments_of
from ..wires import Answer, Wire, find
from ..wires.answer_builder import CallNames
from ..wires.media import text_of
from ..wires.transcript import CallResult

__all__ = ["given", "history_form", "object_of", "renamed", "result_of", "stand_ins", "valid_ids", "with_valid_ids"]

_OUTCOMES: Mapping[str, Outcome] = {"truncated": "truncated", "invalid": "invalid", "ready": "skipped"}
"""The outcome that a call without an observation would have had, by its status."""
# Problems of calls whose text came whole; with any other problem, the kept text may be a part that looks like a whole.
_WHOLE_TEXT = frozenset({"invalid_arguments", "missing_name", "name_too_long"})


def given(call_id: str, value: Any, tool_name: str = "") -> Observation:
    """Returns the observation of a call that somebody else ran, from its result: text, a `ToolResult`, or a value that
    is written as JSON. An `Observation` is returned as it is.

    Raises:
        TypeError: the value cannot be written as JSON.
    """
    if isinstance(value, Observation):
        return value
    if isinstance(value, ToolResult):
        outcome: Outcome = "failed" if value.is_error else "ok"
        text = text_of(value.blocks)
        return Observation(call_id=call_id, tool_name=tool_name, outcome=outcome, model_content=text, result=value)
    return Observation(call_id=call_id, tool_name=tool_name, outcome="ok", value=value, model_content=_text(value))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return to_json(value, bytes_mode="base64", inf_nan_mode="null").decode()
    except ValueError as error:
        raise TypeError(f"a result of type {type(value).__name__} cannot be written as JSON; pass a text") from error


def result_of(call: ToolCall, seen: Observation | None, wire: str) -> CallResult:
    """Returns a call's result for the model on a wire: that of its observation, or without one, that the call did not
    run."""
    given = seen.result if seen else None
    return CallResult(
        call_id=call.call_id,
        content=seen.model_content if seen else OUTCOMES[_OUTCOMES[call.status]].to_model,
        is_error=seen is None or seen.outcome != "ok",
        name=call.name,
        blocks=given.blocks if given else (),
        native=given.native.get(wire) if given else None,
    )


def history_form(call: ToolCall) -> tuple[str, dict[str, Any]]:
    """Returns a call's arguments for the next request: always a JSON object, as text and as value.

    Arguments that are an object stay verbatim; those that were only normalised are written anew; those that were cut or
    are no object become ``{}``.
    """
    if call.kind == "custom":
        value: dict[str, Any] = {"input": "" if call.status == "truncated" else call.arguments_text}
        return to_json(value).decode(), value
    if call.arguments is not None:
        return (to_json(call.arguments).decode() if call.normalizations else call.arguments_text), call.arguments
    if call.problem in _WHOLE_TEXT and (found := object_of(call.arguments_text)) is not None:
        return found
    return "{}", {}


def object_of(text: str) -> tuple[str, dict[str, Any]] | None:
    """Returns the object that a text is, or contains with no more than a wrapping around it, and its text; None if it
    is none."""
    found = arguments_of(text)
    if isinstance(found, str):
        return None
    value, steps = found
    return (to_json(value).decode() if steps else text), value


def with_valid_ids(answer: Answer, target: Wire | str) -> Answer:
    """Returns `answer` with ids that `target` accepts; the same object if all are acceptable already.

    An answer that goes back over its own wire keeps the ids that the provider gave, whatever they look like.
    """
    given = {id_ for id_, call in answer.calls.items() if answer.own_wire and not call.call_id_synthesized}
    return renamed(answer, valid_ids(answer.calls, target, keep=given))


def renamed(answer: Answer, ids: Mapping[str, str]) -> Answer:
    """Returns `answer` with other ids, in its calls and its results alike; the same object if nothing changes.

    Args:
        answer: the answer; its results, if any, have the ids of its calls.
        ids: the replacement for each id; an id that is not among them stays.
    """
    if all(ids.get(old, old) == old for old in answer.calls):
        return answer
    return replace(
        answer,
        parts=tuple(
            p if p.call_id is None else replace(p, call_id=ids.get(p.call_id, p.call_id)) for p in answer.parts
        ),
        calls={ids.get(old, old): replace(call, call_id=ids.get(old, old)) for old, call in answer.calls.items()},
        arguments={ids.get(old, old): arguments for old, arguments in answer.arguments.items()},
        results=tuple(replace(r, call_id=ids.get(r.call_id, r.call_id)) for r in answer.results),
    )


def valid_ids(ids: Iterable[str], target: Wire | str, *, keep: Collection[str] = ()) -> dict[str, str]:
    """Maps each id to its form at `target`: itself where it is valid or to be kept, else a name made of its hash.

    The same id always gets the same name, so that the calls of an older turn keep theirs from request to request.
    """
    rule = find(target).call_ids
    wanted = list(ids)
    found = {id_: id_ for id_ in wanted if id_ in keep or rule.takes(id_)}
    taken = set(found)
    for id_ in wanted:
        attempt = 0
        while id_ not in found:
            if (name := rule.replacement(id_, attempt)) not in taken:
                found[id_] = name
                taken.add(name)
            attempt += 1
    return found


def stand_ins(call_id: str, target: Wire | str, known: Container[str]) -> list[str]:
    """Returns those of a history's `known` ids that may stand for a turn's `call_id`: the id itself, its replacement by
    `valid_ids`, and the replacements of the same id where it stands there repeatedly.

    Where a name was taken, `valid_ids` used the next attempt's: so the last of the known names is the id's own.
    """
    rule, names = find(target).call_ids, CallNames()
    found = [call_id] if call_id in known else []
    is_first = True
    while True:
        as_read, attempt = names.name(call_id), 0
        while (name := rule.replacement(as_read, attempt)) in known:
            found.append(name)
            attempt += 1
        if not (is_first or attempt):
            return found
        is_first = False
