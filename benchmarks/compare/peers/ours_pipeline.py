"""`streamtools.pipeline` around an async iterator of bytes: the calls are validated and run."""

from __future__ import annotations

from typing import Any

from streamtools import pipeline

from ...workloads import source
from ..work import Answer, Read, save_report

__all__ = ["consume", "reader"]


def reader(wire: str, chunks: list[bytes]) -> Read:
    async def read() -> Answer:
        return await consume(source(chunks))

    return read


async def consume(stream: Any) -> Answer:
    """Iterate a pipeline around the stream to its end."""
    async with pipeline(stream, tools=[save_report]) as events:
        async for _ in events:
            pass
    turn = events.turn
    assert all(observation.outcome == "ok" for observation in turn.observations), "every call has run"
    return Answer(turn.text, [(call.name, call.arguments) for call in turn.calls])
