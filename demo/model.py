"""Asks the demo's model: requests in, the server's responses out, unread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from .errors import DemoError
from .tools import TOOLS

__all__ = ["WIRES", "Ask", "Messages", "asking"]

Messages: TypeAlias = list[dict[str, Any]]

Ask: TypeAlias = Callable[[Messages], Awaitable[Any]]
"""The conversation so far in, the stream of the model's response out."""

PATIENCE_S = 60.0  # a whole answer of the demo's model takes 0.1 s; one of a larger model may take a while

# Where each wire is served, and what its requests hold beside the messages and the tools.
_ENDPOINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai.chat_completions": ("/v1/chat/completions", {"stream_options": {"include_usage": True}}),
    "anthropic.messages": ("/v1/messages", {}),
}

WIRES = tuple(_ENDPOINTS)
"""The wires that the demo can speak; the first is the default."""


@asynccontextmanager
async def asking(url: str, wire: str, model: str) -> AsyncIterator[Ask]:
    """Ask the server at `url` while the block runs.

    Raises:
        DemoError: inside the block: the server does not answer, or hung up.
    """
    import httpx

    path, more = _ENDPOINTS[wire]
    request = {"model": model, "tools": [tool.to(wire) for tool in TOOLS], "temperature": 0, "max_tokens": 500} | more

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
