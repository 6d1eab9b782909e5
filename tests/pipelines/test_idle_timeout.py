"""A source that falls silent ends the stream; whatever comes from it, keep-alives too, counts as a sign of life.

Time is trio's own, which runs as soon as every task waits; one test shows the same on asyncio, with a short timeout.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import pytest
import trio
import trio.testing
from profiles import every
from streams import chat, chat_chunk, pass_on, sse

from streamtools import Limits, pipeline
from streamtools.errors import TruncatedStream
from streamtools.events import StepEnd, StreamEnd

FOREVER = 10_000_000.0


async def hang(closed: list[str], silence: float = FOREVER) -> AsyncIterator[bytes]:
    try:
        yield sse([chat_chunk({"content": "Hi"})])[0]
        await anyio.sleep(silence)
    finally:
        closed.append("closed")


def on_its_own_time(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))

    run.__name__ = test.__name__
    return run


@pytest.mark.anyio
@every("transforms", [(), (pass_on,)])
async def test_a_source_that_falls_silent_is_truncated_and_closed(transforms: tuple[object, ...]) -> None:
    closed: list[str] = []
    ends = []
    with pytest.raises(TruncatedStream, match=r"silent for idle_timeout=0\.01 seconds"):
        async with pipeline(hang(closed), limits=Limits(idle_timeout=0.01), transforms=transforms) as events:
            async for event in events:
                if isinstance(event, (StreamEnd, StepEnd)):
                    ends.append(event)
    assert closed == ["closed"]
    assert events.turn.text == "Hi"
    assert not events.turn.complete
    assert isinstance(events.turn.error, TruncatedStream)
    assert [type(end) for end in ends] == [StreamEnd, StepEnd]
    assert ends[1].outcome == "truncated"


@on_its_own_time
async def test_keep_alives_are_signs_of_life() -> None:
    async def alive() -> AsyncIterator[bytes]:
        for _ in range(20):
            await trio.sleep(80)
            yield b": ping\n\n"
        for item in chat(["Hi"], finish="stop"):
            yield item

    turn = await pipeline(alive(), limits=Limits(idle_timeout=100.0))
    assert turn.complete


def test_a_process_that_was_stopped_reads_first_what_has_come_meanwhile() -> None:
    """The clock jumps, as it does for a process that gets SIGSTOP, at any moment of the silence before."""
    for silence in (0.0, 40.0, 80.0, 99.0):
        clock = trio.testing.MockClock(autojump_threshold=0)

        async def stopped(silence: float = silence, clock: trio.testing.MockClock = clock) -> AsyncIterator[bytes]:
            first, *rest = chat(["Hi"], finish="stop")
            yield first
            await trio.sleep(silence)
            clock.jump(1000)
            for _ in range(10):  # the layers between a socket and its reader
                await trio.lowlevel.checkpoint()
            for item in rest:
                yield item

        async def read(source: AsyncIterator[bytes]) -> None:
            turn = await pipeline(source, limits=Limits(idle_timeout=100.0))
            assert turn.complete

        trio.run(read, stopped(), clock=clock)
