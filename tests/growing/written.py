"""Calls of growing tools, written in pieces on two wires, and tools that note what they read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Annotated, Any

import anyio
import anyio.lowlevel
from pydantic import BaseModel, Field
from streams import Seeing, chat_chunk, sse

from streamtools import Event, Growing, Observation, Tool, ToolContext, pipeline, tool
from streamtools.events import ToolCallEnd, ToolStarted

CALL = {"type": "function"}


def on_chat(pieces: Sequence[str], name: str = "write", index: int = 0, call_id: str = "c0") -> list[bytes]:
    head = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
    more = [{"index": index, "function": {"arguments": piece}} for piece in pieces]
    return sse([chat_chunk({"tool_calls": [piece]}) for piece in (head, *more)])


def chat_end(finish: str = "tool_calls") -> list[bytes]:
    return [sse([chat_chunk({}, finish)])[0] + b"data: [DONE]\n\n"]


def on_anthropic(pieces: Sequence[str], name: str = "write") -> list[bytes]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "c", "usage": {}}
    block = {"type": "tool_use", "id": "c0", "name": name, "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    payloads: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    payloads.append({"type": "content_block_start", "index": 0, "content_block": block})
    payloads += [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    payloads.append({"type": "content_block_stop", "index": 0})
    payloads.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}})
    return sse([*payloads, {"type": "message_stop"}], named=True)


WIRES: dict[str, Callable[..., list[bytes]]] = {
    "chat": lambda pieces, name="write": [*on_chat(pieces, name), *chat_end()],
    "anthropic": on_anthropic,
}


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


async def steadily(
    items: Iterable[bytes | Callable[[], object]], *, hangs: bool = False, then: Exception | None = None
) -> AsyncIterator[bytes]:
    """The items; before each the bodies read. Functions are called in their turn."""
    for item in items:
        for _ in range(8):
            await anyio.lowlevel.checkpoint()
        if isinstance(item, bytes):
            yield item
        else:
            item()
    if hangs:
        await anyio.sleep_forever()
    if then is not None:
        raise then


class Row(BaseModel):
    name: str
    size: int = 0


class Notes:
    """What growing tools have read, and what was left of it."""

    def __init__(self) -> None:
        self.read: list[Any] = []
        self.drafts: set[str] = set()
        self.files: dict[str, str] = {}
        self.aborted = 0

    def tools(self, **options: Any) -> list[Tool[..., Any]]:
        async def publish(path: str, text: str, ctx: ToolContext) -> None:
            self.drafts.remove(ctx.call_id)
            self.files[path] = text

        def drop(ctx: ToolContext) -> None:
            self.drafts.discard(ctx.call_id)
            self.aborted += 1

        @tool(**{"commit": publish, "abort": drop, **options})
        async def write(path: str, text: Growing[str], ctx: ToolContext, mode: str = "new") -> int:
            """Write a file."""
            self.drafts.add(ctx.call_id)
            async for piece in text:
                self.read.append(piece)
                ctx.progress(len(piece))
            return len("".join(self.read))

        @tool(effect="pure")
        async def say(words: Annotated[Growing[str], Field(alias="text", max_length=40)]) -> str:
            """Say it."""
            async for piece in words:
                self.read.append(piece)
            return "said"

        @tool(effect="pure")
        async def rows(of: str, items: Growing[list[Row]]) -> int:
            """Take rows."""
            async for item in items:
                self.read.append(item)
            return len(self.read)

        return [write, say, rows]


async def seen_of(
    items: Iterable[Any], tools: Sequence[Any], **options: Any
) -> tuple[Observation, list[Event], Seeing]:
    seeing, events = Seeing(), list[Event]()
    with anyio.fail_after(10):
        async with pipeline(steadily(items), tools=tools, observers=[seeing], **options) as block:
            async for event in block:
                events.append(event)
    assert len(block.turn.observations) == 1
    return block.turn.observations[0], events, seeing


def began_early(events: Sequence[Event]) -> bool:
    kinds = [type(event) for event in events if isinstance(event, (ToolStarted, ToolCallEnd))]
    return kinds[0] is ToolStarted
