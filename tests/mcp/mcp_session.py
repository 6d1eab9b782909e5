"""What the MCP tests share: a session without a server, which answers with plain JSON and keeps what it was asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from streams import chat, stream

from streamtools.events import Observation
from streamtools.front import pipeline
from streamtools.mcp import FetchedTools, fetch_tools

NO_ARGUMENTS = {"type": "object", "additionalProperties": False}
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
    "additionalProperties": False,
}


def listed(name: Any, **fields: Any) -> dict[str, Any]:
    """An entry of ``tools/list``."""
    return {"name": name, "inputSchema": NO_ARGUMENTS, **fields}


def text(words: str, **fields: Any) -> dict[str, Any]:
    """An answer to ``tools/call``."""
    return {"content": [{"type": "text", "text": words}], **fields}


class FakeSession:
    """An MCP session that speaks plain JSON.

    Args:
        tools: the one page of its list; or `pages`, each an answer to ``tools/list``, by the order of asking.
        answer: what a call gets: an answer, an exception to raise, or an async function of the arguments.
    """

    def __init__(self, *tools: Any, pages: list[Any] | None = None, answer: Any = None, **caching: Any) -> None:
        self.pages = [{"tools": list(tools), **caching}] if pages is None else pages
        self.answer = text("done") if answer is None else answer
        self.cursors: list[str | None] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.metas: list[Any] = []
        self.gate: anyio.Event | None = None

    @property
    def lists(self) -> int:
        """How often the first page was asked for."""
        return self.cursors.count(None)

    async def list_tools(self, cursor: str | None = None) -> Any:
        self.cursors.append(cursor)
        if self.gate is not None:
            await self.gate.wait()
        page = self.pages[int(cursor) if cursor is not None and cursor.isdecimal() else 0]
        if isinstance(page, Exception):
            raise page
        return page

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        *,
        progress_callback: Callable[[float, float | None, str | None], Awaitable[None]] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Any:
        self.calls.append((name, arguments))
        self.metas.append(meta)
        if isinstance(self.answer, Exception):
            raise self.answer
        return await self.answer(arguments, progress_callback) if callable(self.answer) else self.answer


async def fetched(*tools: Any, **options: Any) -> FetchedTools:
    """The tools of a server that lists these."""
    return await fetch_tools(FakeSession(*tools), server="s", **{"list_timeout": 300, **options})


async def observed(tools: Any, name: str, arguments: str = "{}", **options: Any) -> Observation:
    """What comes of one call in a stream, through the pipeline."""
    async with pipeline(stream(chat([], [("call_1", name, arguments)])), tools=tools, **options) as events:
        (observation,) = [event async for event in events if isinstance(event, Observation)]
    return observation
