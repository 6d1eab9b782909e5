"""Gives a call its form in a history: the arguments that may stand there, and the result that the model will read."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from ..events import Observation
from ..limits import Limits
from ..parts import ToolCall
from ..stages.finalize import arguments_of
from ..wires.transcript import CallResult

__all__ = ["history_form", "object_of", "result_of"]

_DEFAULT_LIMITS = Limits()

_NOT_RUN = {
    "truncated": "Error: the call was cut before its arguments were complete, so it was not run.",
    "invalid": "Error: the call's arguments were not valid, so it was not run.",
    "ready": "Error: the call was interrupted and has no result.",
}
# Problems of calls whose text came whole; with any other problem, the kept text may be a part that looks like a whole.
_WHOLE_TEXT = frozenset({"invalid_arguments", "missing_name", "name_too_long"})


def result_of(call: ToolCall, seen: Observation | None, wire: str) -> CallResult:
    """Returns a call's result for the model on a wire: that of its observation, or without one, that the call did not
    run."""
    given = seen.result if seen else None
    return CallResult(
        call_id=call.call_id,
        content=seen.model_content if seen else _NOT_RUN[call.status],
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
    found = arguments_of(text, _DEFAULT_LIMITS)
    if isinstance(found, str):
        return None
    value, steps = found
    return (to_json(value).decode() if steps else text), value
