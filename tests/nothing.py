"""What servers send that says nothing about the response: it keeps a connection alive, or is not known yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from every_wire import FRAMES, said


def new(number: int) -> str:
    """A name that was not there before, and that is too long for the cache of names that orjson has."""
    return f"{number:065}"


def chunk(**delta: Any) -> dict[str, Any]:
    return {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}


def part(**part: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}


def line(**message: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": "", **message}, "done": False}


Vary = Callable[[int], Any]
_CHAT: dict[str, Vary] = {
    "empty text": lambda _: chunk(content=""),
    "an empty delta": lambda _: chunk(),
    "no choices": lambda n: {"id": f"c{n}", "object": "chat.completion.chunk", "choices": []},
    "usage": lambda n: {"choices": [], "usage": {"prompt_tokens": n, "completion_tokens": n, new(n): n}},
    "no calls": lambda _: chunk(tool_calls=[]),
    "another choice": lambda n: {"choices": [{"index": 1 + n, "delta": {"content": "x"}}]},
    "an unknown field": lambda n: chunk(**{new(n): n}),
}
NOTHING: dict[str, dict[str, Vary]] = {
    "openai.chat_completions": _CHAT,
    "mistral.chat": _CHAT,
    "anthropic.messages": {
        "a ping": lambda _: {"type": "ping"},
        "an unknown event": lambda n: {"type": f"new{n}", "data": n},
        "an unknown delta": lambda n: {"type": "content_block_delta", "index": 0, "delta": {"type": f"new{n}"}},
        "empty text": lambda _: {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": ""},
        },
        "a delta of no block": lambda n: {"type": "content_block_delta", "index": n + 9, "delta": {"type": "x"}},
        "the end of no block": lambda n: {"type": "content_block_stop", "index": n + 9},
        "usage": lambda n: {"type": "message_delta", "delta": {}, "usage": {"output_tokens": n, new(n): n}},
    },
    "openai.responses": {
        "a keep-alive": lambda n: {"type": "keepalive", "sequence_number": n},
        "progress": lambda n: {"type": "response.in_progress", "response": {"id": "resp_1", new(n): n}},
        "an unknown event": lambda n: {"type": f"response.new{n}", "data": n},
        "an annotation": lambda n: {
            "type": "response.output_text.annotation.added",
            "output_index": 0,
            "annotation": n,
        },
        "empty text": lambda _: {"type": "response.output_text.delta", "output_index": 0, "delta": ""},
    },
    "gemini.generate_content": {
        "usage": lambda n: {"usageMetadata": {"promptTokenCount": n, new(n): n}},
        "empty text": lambda _: part(text=""),
        "no parts": lambda _: {"candidates": [{"content": {"role": "model"}, "index": 0}]},
        "no candidates": lambda n: {"candidates": [], "modelVersion": f"g{n}"},
        "another candidate": lambda n: {"candidates": [{"content": {"parts": [{"text": "x"}]}, "index": n + 1}]},
        "an unknown payload": lambda n: {new(n): n},
    },
    "cohere.chat": {
        "a prompt": lambda n: {"type": "debug", "prompt": f"p{n}"},
        "an unknown event": lambda n: {"type": f"new{n}"},
        "the end of no block": lambda n: {"type": "content-end", "index": n + 9},
        "an empty plan": lambda _: {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": ""}}},
    },
    "ollama.chat": {
        "empty text": lambda n: line(),
        "empty thinking": lambda n: line(thinking=""),
        "an unknown line": lambda n: {new(n): n},
        "unknown content": lambda n: line(content=[n]),
    },
    "bedrock.converse_stream": {
        "empty text": lambda n: {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": ""}}},
        "an unknown event": lambda n: {f"new{n}": {"a": n}},
        "an unknown delta": lambda n: {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {new(n): n}}},
        "the end of no block": lambda n: {"contentBlockStop": {"contentBlockIndex": n + 9}},
        "a trace": lambda n: {"metadata": {"trace": {"n": n}}},
    },
}
BLANKS: dict[str, dict[str, Callable[[int], bytes]]] = {
    "sse": {
        "a comment": lambda n: b": ping %d\n\n" % n,
        "no data": lambda _: b"data:\n\n",
        "a field": lambda n: b"id: %d\nretry: 1\nnew%d: x\n\n" % (n, n),
        "blank lines": lambda _: b"\r\n\r\n",
    },
    "ndjson": {"blank lines": lambda _: b"\n \n"},
    "json_array": {"white space": lambda _: b" \n"},
    "aws_eventstream": {},
}


def nothings(wire: str, framing: str, name: str) -> Iterator[bytes]:
    """The beginning of a response, then this without end."""
    frame, vary = FRAMES[framing], NOTHING[wire].get(name)
    yield b"".join(frame([*said(wire, text=["Hi"], ends=False), {}])[:-1])
    for number in count():
        yield BLANKS[framing][name](number) if vary is None else frame([{}, vary(number), {}])[1]
