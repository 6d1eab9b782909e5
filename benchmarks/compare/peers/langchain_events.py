"""langchain: the third version of its events, and the message that they end in."""

from __future__ import annotations

from ..work import Answer, Read
from .langchain_sum import answer, model

__all__ = ["reader"]


def reader(wire: str, chunks: list[bytes]) -> Read:
    chat = model(wire, chunks)

    async def read() -> Answer:
        stream = await chat.astream_events("hello", version="v3")
        async for _ in stream:
            pass
        return answer(await stream.output)

    return read
