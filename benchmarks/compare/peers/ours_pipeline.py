"""`streamtools.pipeline` around an async iterator of bytes: the calls are validated and run."""

from __future__ import annotations

from typing import Any

from streamtools import pipeline

from ...bench_runs import by_us, note
from ...workloads import source
from ..transport import plain_client
from ..work import Answer, Read, Run, save_report

__all__ = ["consume", "loop", "reader"]


def loop(answers: list[list[bytes]]) -> Run:
    client = plain_client(answers)
    return lambda: by_us(client, note)


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
