"""The stored history: what an answer of the model and its calls look like there, and how a turn gets into it.

    {"role": "user", "content": "..."}                                                    content: text, or blocks
    {"role": "assistant", "content": "...", "metadata": {"tool_calls": [...]}}            calls as chat has them
    {"role": "tool", "content": "...", "toolResult": {...}, "metadata": {"tool_call_id": ..., "tool_name": ...}}

What a provider wants back word for word (signatures, encrypted reasoning) is not there: it lives in the native history
and in the `Turn`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from ..events import Observation
from ..history.calls import history_form
from ..parts import ToolCall
from ..turn import Turn
from .attachments import AttachmentStore
from .calls import SanitizedCall, stored_call
from .registry import ToolInteropRegistry
from .results import format_tool_result

__all__ = ["assistant_message", "from_turn", "tool_calls_of"]

JSON: TypeAlias = Mapping[str, Any]


def assistant_message(content: str, tool_calls: Iterable[JSON] = (), *, refusal: str = "") -> dict[str, Any]:
    """An answer of the model as it is stored.

    Args:
        content: what it said.
        tool_calls: its calls in the shape of chat completions, as `ToolInteropRegistry.convert_tool_calls` makes them.
            Of those that were sanitised ``metadata.sanitized`` keeps id and problem, so that nobody runs them after
            the history was stored and loaded (`tool_calls_of`).
        refusal: in which words it refused, for providers that tell that apart.
    """
    calls = list(tool_calls)
    metadata: dict[str, Any] = {"tool_calls": calls} if calls else {}
    sanitized = {str(call.get("id")): call.problem for call in calls if isinstance(call, SanitizedCall)}
    if sanitized:
        metadata["sanitized"] = sanitized
    if refusal:
        metadata["refusal"] = refusal
    return {"role": "assistant", "content": content, **({"metadata": metadata} if metadata else {})}


def tool_calls_of(message: JSON) -> list[dict[str, Any]]:
    """The calls of a stored answer. Those that were sanitised are `SanitizedCall`s again; their text is gone."""
    metadata = _mapping(message.get("metadata"))
    calls, problems = metadata.get("tool_calls"), _mapping(metadata.get("sanitized"))
    given = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    return [_again(call, problems) for call in given]


def _again(call: dict[str, Any], problems: JSON) -> dict[str, Any]:
    problem = problems.get(str(call.get("id")))
    if problem is None or isinstance(call, SanitizedCall):
        return call
    return SanitizedCall(call, raw=None, problem=str(problem))


def from_turn(
    turn: Turn, *, registry: ToolInteropRegistry | None = None, attachments: AttachmentStore | None = None
) -> list[dict[str, Any]]:
    """A turn as it is stored: the answer, and one result for each call that was ours to run. Empty if the model said
    nothing.

    Args:
        turn: from ``events.turn`` or `parse`. A call without an observation gets a result that says that it was not
            run.
        registry: the request's: with it names and arguments are those that the tools' authors gave them, also where a
            provider was told otherwise.
        attachments: where the bytes of results are kept; see `format_tool_result`.
    """
    calls = [call for call in turn.calls if call.kind != "server"]
    if not (turn.text or turn.refusal or calls):
        return []
    observed = {observation.call_id: observation for observation in turn.observations}
    stored = [_call(call) for call in calls]
    if registry is not None:
        stored = [registry.stored_tool_call(call, wire=turn.wire) for call in stored]
    results = [
        _result(call, written[written["type"]]["name"], observed.get(call.call_id), attachments)
        for call, written in zip(calls, stored, strict=True)
    ]
    return [assistant_message(turn.text, stored, refusal=turn.refusal), *results]


def _call(call: ToolCall) -> dict[str, Any]:
    text, value = history_form(call)
    raw = call.kind == "custom"
    written = stored_call(call.call_id, call.name, value["input"] if raw else text, raw=raw)
    same = value["input"] == call.arguments_text if raw else bool(value) or call.arguments is not None
    if call.status == "ready" or (same and call.status != "truncated"):
        return written
    return SanitizedCall(written, raw=call.arguments_text, problem=call.problem or call.status)


def _result(call: ToolCall, name: str, seen: Observation | None, attachments: AttachmentStore | None) -> dict[str, Any]:
    value: Any = seen.model_content if seen else f"Error: the call was not run ({call.problem or 'interrupted'})."
    if seen is not None and seen.result is not None and (seen.result.blocks or seen.result.native):
        value = seen.result
    return format_tool_result(
        value,
        tool_name=name,
        tool_call_id=call.call_id,
        is_error=seen is None or seen.outcome != "ok",
        display=seen.result.display if seen is not None and seen.result is not None else None,
        attachments=attachments,
    )


def _mapping(value: object) -> JSON:
    return value if isinstance(value, Mapping) else {}
