"""Response bodies as the two providers send them, the same at every run, and the limit to compare with.

A body is a list of `bytes`, one event of the event stream each. Its fields are those of the real APIs: a chat event
has about 325 bytes around a few characters of text, an Anthropic event about 130.
"""

from __future__ import annotations

import asyncio
import random
import string
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson

__all__ = [
    "ANTHROPIC",
    "CHAT",
    "NEXT_ROUND",
    "WIRES",
    "Pause",
    "arguments",
    "body",
    "limit",
    "pieces",
    "reads",
    "source",
    "text",
]

CHAT = "openai.chat_completions"
ANTHROPIC = "anthropic.messages"
WIRES = (CHAT, ANTHROPIC)

Call = tuple[str, str]  # the tool's name, the arguments as JSON text
Pause = Callable[[], Awaitable[object]]

NEXT_ROUND: Pause = partial(asyncio.sleep, 0)
"""Lets the event loop go round once, as waiting for a socket does."""

_SEED = 1
_LETTERS = string.ascii_letters + string.digits
_PROSE = (
    "a stream of words that nobody has to read but which looks like text with short and long ones in it, so that the "
    "deltas have realistic sizes; naïve “quotes”, 日本語 and → are among them"
)
_WORDS = _PROSE.split()


def limit(chunks: Iterable[bytes]) -> int:
    """What no decoder in Python can beat: join, split at blank lines, `orjson.loads` of each payload. Nothing else.

    Returns how many payloads there were.
    """
    count = 0
    for block in b"".join(chunks).split(b"\n\n"):
        at = block.find(b"data: ")
        if at >= 0 and (data := block[at + 6 :]) != b"[DONE]":
            orjson.loads(data)
            count += 1
    return count


async def source(chunks: Iterable[bytes], pause: Pause | None = None) -> AsyncIterator[bytes]:
    """The chunks, as a network would bring them; `pause` is awaited before each."""
    for chunk in chunks:
        if pause is not None:
            await pause()
        yield chunk


def reads(chunks: Iterable[bytes], size: int) -> list[bytes]:
    """The same bytes in reads of `size`, as a busy socket gives them."""
    whole = b"".join(chunks)
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def text(deltas: int) -> list[str]:
    """That many deltas of prose: mostly a word of up to eight characters."""
    rng = random.Random(_SEED + deltas)
    return [
        " " + rng.choice(_WORDS)[:7] if rng.random() < 0.9 else rng.choice((".", ",", "\n\n", "é"))
        for _ in range(deltas)
    ]


def arguments(size: int) -> str:
    """A call's arguments, `size` characters (1,000 or more) of JSON: half records, half a long string with escapes."""
    rng = random.Random(_SEED + size)
    rows: list[dict[str, Any]] = []
    used = 0
    while used < size // 2:
        rows.append(
            {
                "id": rng.randrange(10**6),
                "name": f"{rng.choice(_WORDS)} {rng.choice(_WORDS)}",
                "score": round(rng.random() * 100, 3),
                "tags": [rng.choice(_WORDS) for _ in range(rng.randrange(4))],
                "done": rng.random() < 0.5,
                "note": None,
            }
        )
        used += len(_json(rows[-1])) + 1
    document = {"path": "report.md", "rows": rows, "content": ""}
    room = size - len(_json(document))
    prose = "".join(rng.choice(_WORDS) + rng.choice((" ", " ", " ", "\n", ' "', "\t")) for _ in range(room // 3 + 1))
    escaped = _json(prose)[1:-1][:room].rstrip("\\")
    document["content"] = "\0"
    return _json(document).replace("\\u0000", escaped + "." * (room - len(escaped)))


def pieces(text: str, size: int = 5) -> list[str]:
    """`text` in deltas of `size` characters."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def body(wire: str, *, text: Sequence[str] = (), calls: Sequence[Call] = (), after: Sequence[str] = ()) -> list[bytes]:
    """A response: text, then calls with their arguments in deltas of five characters, then more text, then the end."""
    return _BODIES[wire](text, calls, after)


def _chat(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    rng = random.Random(_SEED)
    head = {
        "id": "chatcmpl-" + _token(rng, 29),
        "object": "chat.completion.chunk",
        "created": 1763625600,
        "model": "gpt-4o-2024-08-06",
        "service_tier": "default",
        "system_fingerprint": "fp_" + _token(rng, 10),
    }
    out: list[bytes] = []

    def chunk(
        delta: Mapping[str, Any] | None, finish: str | None = None, usage: Mapping[str, int] | None = None
    ) -> None:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        payload = {**head, "choices": [] if delta is None else [choice], "usage": usage}
        out.append(b"data: " + _json({**payload, "obfuscation": _token(rng, rng.randrange(2, 16))}).encode() + b"\n\n")

    chunk({"role": "assistant", "content": "", "refusal": None})
    for delta in text:
        chunk({"content": delta})
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": ""}
        chunk(
            {
                "tool_calls": [
                    {"index": index, "id": "call_" + _token(rng, 24), "type": "function", "function": function}
                ]
            }
        )
        for delta in pieces(arguments):
            chunk({"tool_calls": [{"index": index, "function": {"arguments": delta}}]})
    for delta in after:
        chunk({"content": delta})
    chunk({}, "tool_calls" if calls else "stop")
    chunk(None, usage={"prompt_tokens": 512, "completion_tokens": len(out), "total_tokens": 512 + len(out)})
    return [*out, b"data: [DONE]\n\n"]


def _anthropic(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    rng = random.Random(_SEED)
    out: list[bytes] = []

    def event(kind: str, **fields: Any) -> None:
        padding = " " * rng.randrange(15)  # the API pads its events so that their length tells nothing
        out.append(f"event: {kind}\ndata: {_json({'type': kind, **fields})[:-1]}{padding}}}\n\n".encode())

    def block(index: int, content_block: Mapping[str, Any], deltas: Iterable[Mapping[str, str]]) -> None:
        event("content_block_start", index=index, content_block=content_block)
        for delta in deltas:
            event("content_block_delta", index=index, delta=delta)
        event("content_block_stop", index=index)

    def text_block(index: int, text: Sequence[str]) -> None:
        block(index, {"type": "text", "text": ""}, ({"type": "text_delta", "text": delta} for delta in text))

    message = {"id": "msg_01" + _token(rng, 22), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    event("message_start", message={**message, "content": [], "usage": {"input_tokens": 512, "output_tokens": 2}})
    event("ping")
    if text:
        text_block(0, text)
    first = 1 if text else 0
    for index, (name, arguments) in enumerate(calls, first):
        call = {"type": "tool_use", "id": "toolu_01" + _token(rng, 22), "name": name, "input": {}}
        block(index, call, ({"type": "input_json_delta", "partial_json": delta} for delta in pieces(arguments)))
    if after:
        text_block(first + len(calls), after)
    stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    event("message_delta", delta=stop, usage={"output_tokens": len(out)})
    event("message_stop")
    return out


_BODIES: dict[str, Callable[[Sequence[str], Sequence[Call], Sequence[str]], list[bytes]]] = {
    CHAT: _chat,
    ANTHROPIC: _anthropic,
}


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _token(rng: random.Random, length: int) -> str:
    return "".join(rng.choices(_LETTERS, k=length))
