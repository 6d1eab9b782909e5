"""litellm: `acompletion`, and the chunks put together by its `stream_chunk_builder`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import litellm
from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

from ...workloads import CHAT, save_report
from ..transport import KEY, MESSAGES, http_transport, openai_client
from ..work import Answer, Read, Run, value
from .openai_sdk import loop_of


def run_litellm(answers: list[list[bytes]]) -> Run:
    litellm.suppress_debug_info = True
    return loop_of(litellm.acompletion, model="openai/gpt-4o", client=openai_client(*answers), api_key=KEY)


def read_litellm(wire: str, chunks: list[bytes]) -> Read:
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    request = _request(wire, chunks)

    async def read() -> Answer:
        received = [chunk async for chunk in await request()]
        whole: Any = litellm.stream_chunk_builder(received, messages=MESSAGES)
        message = whole.choices[0].message
        calls = [(call.function.name, value(call.function.arguments)) for call in message.tool_calls or ()]
        return Answer(message.content or "", calls)

    return read


def _request(wire: str, chunks: list[bytes]) -> Callable[[], Awaitable[Any]]:
    given: dict[str, Any] = {"messages": MESSAGES, "tools": [save_report.to(CHAT)], "stream": True, "api_key": KEY}
    if wire == CHAT:
        given |= {"model": "openai/gpt-4o", "client": openai_client(chunks)}
    else:
        handler = AsyncHTTPHandler(transport=http_transport("httpx", chunks))
        given |= {"model": "anthropic/claude-sonnet-4-6", "client": handler, "max_tokens": 4096}
    return lambda: litellm.acompletion(**given)
