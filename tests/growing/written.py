"""Calls of growing tools, written in pieces on two wires, and tools that note what they read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Annotated, Any

import anyio
import anyio.lowlevel
import orjson
from pydantic import BaseModel, Field
from streams import anthropic, chat_chunk, sse

from streamtools import Event, Growing, Observation, Tool, ToolContext, pipeline, tool
from streamtools.events import ToolCallEnd, ToolStarted


def on_chat(pieces: Sequence[str], name: str = "write", index: int = 0, call_id: str = "c0") -> list[bytes]:
    head = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
    more = [{"index": index, "function": {"arguments": piece}} for piece in pieces]
    return sse([chat_chunk({"tool_calls": [piece]}) for piece in (head, *more)])


def chat_end(finish: str = "tool_calls") -> list[bytes]:
    return [sse([chat_chunk({}, finish)])[0] + b"data: [DONE]\n\n"]


def on_anthropic(pieces: Sequence[str], name: str = "write") -> list[bytes]:
    body = anthropic(calls=[("c0", name, "PIECE")])
    (at,) = [at for at, item in enumerate(body) if b"PIECE" in item]
    return [*body[:at], *(body[at].replace(b'"PIECE"', orjson.dumps(piece)) for piece in pieces), *body[at + 1 :]]


WIRES: dict[str, Callable[..., list[bytes]]] = {
    "chat": lambda pieces, name="write": [*on_chat(pieces, name), *chat_end()],
    "anthropic": on_anthropic,
}


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


async def steadily(items: Iterable[Any], *, hangs: bool = False, then: Exception | None = None) -> AsyncIterator[bytes]:
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

    async def take(self, growing: Growing[Any], ctx: ToolContext = ToolContext()) -> int:
        async for piece in growing:
            self.read.append(piece)
            ctx.progress(1)
        return len(self.read)

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
            return await self.take(text, ctx)

        @tool(effect="pure")
        async def say(words: Annotated[Growing[str], Field(alias="text", max_length=40)]) -> int:
            """Say it."""
            return await self.take(words)

        @tool(effect="pure")
        async def rows(of: str, items: Growing[list[Row]]) -> int:
            """Take rows."""
            return await self.take(items)

        return [write, say, rows]


async def seen_of(items: Iterable[Any], tools: Sequence[Any], **options: Any) -> tuple[Observation, list[Event]]:
    with anyio.fail_after(10):
        async with pipeline(steadily(items), tools=tools, **options) as block:
            events = [event async for event in block]
    (seen,) = block.turn.observations
    return seen, events


def began_early(events: Sequence[Event]) -> bool:
    return next(isinstance(event, ToolStarted) for event in events if isinstance(event, (ToolStarted, ToolCallEnd)))
