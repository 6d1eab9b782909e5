"""Asks the demo's model: requests in, the server's responses out, unread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from streamtools.stages import DEFAULT, text_calls

from .errors import DemoError
from .tools import TOOLS

__all__ = ["IN_TEXT", "WIRES", "Ask", "Messages", "asking", "leaves_text", "paced"]

Messages: TypeAlias = list[dict[str, Any]]

Ask: TypeAlias = Callable[[Messages], Awaitable[Any]]
"""The conversation so far in, the stream of the model's response out."""

PATIENCE_S = 60.0  # a whole answer of the demo's model takes 0.1 s; one of a larger model may take a while

# Where each wire is served; what its requests hold beside the messages and the tools; and, beside that, what keeps the
# server from looking for calls in the text itself: it ends all calls when the response ends, however early they came.
_ENDPOINTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "openai.chat_completions": (
        "/v1/chat/completions", {"stream_options": {"include_usage": True}}, {"tool_choice": "none"}
    ),
    "anthropic.messages": ("/v1/messages", {}, {}),  # its calls cannot be left in the text
}  # fmt: skip


def leaves_text(wire: str) -> bool:
    """Whether the server can be told to leave the calls in the text."""
    return bool(_ENDPOINTS[wire][2])


IN_TEXT = DEFAULT.insert_before("accumulate", text_calls("hermes"))
"""The stages that read the calls of the demo's model in its text: each ends at its own closing marker."""

WIRES = tuple(_ENDPOINTS)
"""The wires that the demo can speak; the first is the default."""


@asynccontextmanager
async def asking(url: str, wire: str, model: str, *, in_text: bool = False) -> AsyncIterator[Ask]:
    """Ask the server at `url` while the block runs. With `in_text`, it leaves the calls in the text.

    Raises:
        DemoError: inside the block: the server does not answer, or hung up.
    """
    import httpx

    path, more, unparsed = _ENDPOINTS[wire]
    request = {"model": model, "tools": [tool.to(wire) for tool in TOOLS], "temperature": 0, "max_tokens": 500} | more
    request |= unparsed if in_text else {}

    # llama.cpp closes a connection after a stream without saying so: one that is used again may be gone.
    each_its_own = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, limits=each_its_own, trust_env=False) as client:

        async def ask(messages: Messages) -> httpx.Response:
            body = request | {"messages": messages, "stream": True}
            return await client.send(client.build_request("POST", path, json=body), stream=True)

        try:
            yield ask
        except httpx.HTTPError as error:
            raise DemoError(f"the model server did not answer: {str(error) or type(error).__name__}") from error


async def paced(stream: Any, pieces_a_second: float) -> AsyncIterator[bytes]:
    """Pass a response on as slowly as a model somewhere else would write it: the demo's own writes a thousand pieces a
    second, and tools would have no time to end under it."""
    lines = stream.aiter_lines() if hasattr(stream, "aiter_lines") else stream
    try:
        async for line in lines:
            yield line if isinstance(line, bytes) else line.encode() + b"\n"
            if line[:5] in ("data:", b"data:"):
                await asyncio.sleep(1 / pieces_a_second)
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
