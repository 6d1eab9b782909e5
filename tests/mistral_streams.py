"""Response bodies of Mistral's chat for tests, composed in its own shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streams import Call, sse

DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": "9f1c0d2e4b5a49c8a1b2c3d4e5f60718",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "magistral-small-latest",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **more,
    }


def thinking(*texts: str, **beside: Any) -> dict[str, Any]:
    """A thinking chunk."""
    return {"type": "thinking", "thinking": [{"type": "text", "text": text} for text in texts], **beside}


def mistral(*contents: Any, calls: Sequence[Call] = (), finish: str = "stop") -> list[bytes]:
    """A body, an event an item: a chunk for each content, then one with all calls and the finish."""
    last = {"id": "", "function": {}, "index": 0}
    whole = [
        last | {"id": id_, "function": {"name": name, "arguments": arguments}, "index": index}
        for index, (id_, name, arguments) in enumerate(calls)
    ]
    payloads = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": content}) for content in contents)]
    end = {"tool_calls": whole} if calls else {"content": ""}
    return [*sse([*payloads, chunk(end, finish, usage=USAGE, p="abcdef")]), DONE]
