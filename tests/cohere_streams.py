"""Response bodies of Cohere's chat, v2 and v1, for tests, composed in its own shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from streams import Call, sse

DONE = b"data: [DONE]\n\n"
USAGE = {
    "billed_units": {"input_tokens": 5, "output_tokens": 3},
    "tokens": {"input_tokens": 70, "output_tokens": 9, "reasoning_tokens": 4},
    "cached_tokens": 48,
}
EMPTY = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
START = {"type": "message-start", "id": "1bbe", "delta": {"message": EMPTY}}


def event(kind: str, index: int | None = None, **message: Any) -> dict[str, Any]:
    """An event of v2 with a part of the message."""
    at = {} if index is None else {"index": index}
    return {"type": kind, **at, **({"delta": {"message": message}} if message else {})}


def block(index: int, *texts: str, kind: str = "text") -> list[dict[str, Any]]:
    """A content block: its start, a delta for each text, its end."""
    start = event("content-start", index, content={"type": kind, kind: ""})
    deltas = [event("content-delta", index, content={kind: text}) for text in texts]
    return [start, *deltas, event("content-end", index)]


def call(index: int, id_: str, name: str, *pieces: str) -> list[dict[str, Any]]:
    """A call: its start, a delta for each piece of its arguments, its end."""
    whole = {"id": id_, "type": "function", "function": {"name": name, "arguments": ""}}
    deltas = [event("tool-call-delta", index, tool_calls={"function": {"arguments": piece}}) for piece in pieces]
    return [event("tool-call-start", index, tool_calls=whole), *deltas, event("tool-call-end", index)]


def plan(*texts: str) -> list[dict[str, Any]]:
    return [event("tool-plan-delta", tool_plan=text) for text in texts]


def citation(index: int, start: int, end: int, text: str) -> list[dict[str, Any]]:
    cited = {"start": start, "end": end, "text": text, "sources": [{"type": "document", "id": "d:0"}]}
    return [event("citation-start", index, citations=cited), event("citation-end", index)]


def end(reason: str | None = "COMPLETE", **more: Any) -> dict[str, Any]:
    return {"type": "message-end", "delta": {"finish_reason": reason, "usage": USAGE, **more}}


def cohere(*events: dict[str, Any], calls: Sequence[Call] = (), finish: str = "COMPLETE") -> list[bytes]:
    """A v2 body, an event an item: the start, the events, whole calls, the end."""
    told = [event for index, (id_, name, text) in enumerate(calls) for event in call(index, id_, name, text)]
    return [*sse([START, *events, *told, end(finish)], named=True), DONE]


# -- v1 ----------------------------------------------------------------------------------------------------------------


def v1(kind: str, **more: Any) -> dict[str, Any]:
    return {"is_finished": kind == "stream-end", "event_type": kind, **more}


def v1_text(*texts: str) -> list[dict[str, Any]]:
    return [v1("text-generation", text=text) for text in texts]


def v1_chunk(**delta: Any) -> dict[str, Any]:
    return v1("tool-calls-chunk", tool_call_delta=delta)


def v1_calls(*calls: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return v1(
        "tool-calls-generation", tool_calls=[{"name": name, "parameters": value} for name, value in calls], **more
    )


def v1_end(text: str = "", reason: str = "COMPLETE", **response: Any) -> dict[str, Any]:
    response = {"text": text, "generation_id": "04f2", "finish_reason": reason, "meta": USAGE, **response}
    return v1("stream-end", finish_reason=reason, response=response)


def cohere_v1(*events: dict[str, Any]) -> list[bytes]:
    """A v1 body, a line an item."""
    return [orjson.dumps(event) + b"\n" for event in (v1("stream-start", generation_id="04f2"), *events)]
