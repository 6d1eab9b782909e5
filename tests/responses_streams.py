"""Events of the Responses stream, composed in the provider's own shapes."""

from __future__ import annotations

from typing import Any

Payload = dict[str, Any]

CREATED: Payload = {
    "type": "response.created",
    "response": {"id": "resp_1", "model": "m", "status": "in_progress", "output": []},
}


def ended(status: str = "completed", *, output: Any = (), event: str | None = None, **more: Any) -> Payload:
    response = {"id": "resp_1", "status": status, "output": list(output), **more}
    return {"type": f"response.{event or status}", "response": response}


def added(index: Any, item: Any) -> Payload:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: Any, item: Any) -> Payload:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def event(kind: str, index: Any = 0, **more: Any) -> Payload:
    return {"type": f"response.{kind}", "output_index": index, **more}


# -- items -----------------------------------------------------------------------------------------------------------


def function(number: int = 1, arguments: Any = "", **more: Any) -> Payload:
    ids = {"id": f"fc_{number}", "call_id": f"call_{number}"}
    return {"type": "function_call", **ids, "name": "f", "arguments": arguments, **more}


def custom(text: Any = "", **more: Any) -> Payload:
    return {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "f", "input": text, **more}


def message(*content: Any, **more: Any) -> Payload:
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [*content], **more}


def output_text(text: str, **more: Any) -> Payload:
    return {"type": "output_text", "text": text, "annotations": [], **more}


def reasoning(*summary: str, **more: Any) -> Payload:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": parts, **more}


# -- deltas ----------------------------------------------------------------------------------------------------------


def text(index: Any, delta: Any) -> Payload:
    return event("output_text.delta", index, content_index=0, delta=delta)


def arguments(index: Any, delta: Any) -> Payload:
    return event("function_call_arguments.delta", index, delta=delta)


def summary(index: Any, delta: Any, number: int = 0) -> Payload:
    return event("reasoning_summary_text.delta", index, summary_index=number, delta=delta)
