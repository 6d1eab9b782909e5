"""SDK clients that never see a network: their transport hands over a response's chunks from memory."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import Any

KEY = "none"
MESSAGES: Any = [{"role": "user", "content": "hello"}]
_URL = "http://in-memory"


def offline() -> None:
    """Keep libraries from calling home. Before they are imported."""
    os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false"}
    os.environ |= {"OPENAI_AGENTS_DISABLE_TRACING": "1"}


def openai_client(*answers: Sequence[bytes]) -> Any:
    """An `openai.AsyncOpenAI` to which requests are answered as `http_transport` does."""
    import openai

    client = http_client(openai.DefaultAsyncHttpxClient, *answers)
    return openai.AsyncOpenAI(api_key=KEY, base_url=_URL, http_client=client, max_retries=0)


def anthropic_client(chunks: Sequence[bytes]) -> Any:
    """An `anthropic.AsyncAnthropic` to which every request is answered with `chunks`."""
    import anthropic

    client = http_client(anthropic.DefaultAsyncHttpxClient, chunks)
    return anthropic.AsyncAnthropic(api_key=KEY, base_url=_URL, http_client=client, max_retries=0)


def plain_client(answers: Sequence[Sequence[bytes]]) -> Any:
    """A client of httpx that is no SDK's."""
    import httpx

    return httpx.AsyncClient(transport=http_transport("httpx", *answers))


def http_client(kind: Any, *answers: Sequence[bytes]) -> Any:
    """A client of that class, of whichever library it comes from: SDKs use httpx or httpx2."""
    library = next(base.__module__ for base in kind.__mro__ if base.__name__ == "AsyncClient")
    return kind(transport=http_transport(library.partition(".")[0], *answers))


def http_transport(library: str, *answers: Sequence[bytes]) -> Any:
    """A transport for the clients of ``httpx`` or ``httpx2``: a request with results has the next of the answers, which
    have three calls each."""
    httpx = import_module(library)

    class Body(httpx.AsyncByteStream):  # type: ignore[name-defined,misc]  # the library is known at run time only
        """One shot, as a socket is: to iterate it again is to go on where it stopped."""

        def __init__(self, chunks: Sequence[bytes]) -> None:
            self._rest = iter(chunks)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for chunk in self._rest:
                yield chunk

    class Transport(httpx.AsyncBaseTransport):  # type: ignore[name-defined,misc]
        async def handle_async_request(self, request: Any) -> Any:
            headers = {"content-type": "text/event-stream; charset=utf-8"}
            results = len(re.findall(rb'"role": ?"tool"', request.content)) if answers[1:] else 0
            return httpx.Response(200, headers=headers, stream=Body(answers[results // 3]), request=request)

    return Transport()
