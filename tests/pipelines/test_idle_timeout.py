"""A source that falls silent ends the stream; whatever comes from it, keep-alives too, counts as a sign of life.

Time is trio's own, which runs as soon as every task waits; one test shows the same on asyncio, with a short timeout.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import pytest
import trio
import trio.testing
from streams import chat, chat_chunk, sse

from streamtools import Limits, Observation, pipeline, tool
from streamtools.errors import TruncatedStream
from streamtools.events import Event, StepEnd, StreamEnd

FOREVER = 10_000_000.0


async def hang(closed: list[str], silence: float = FOREVER) -> AsyncIterator[bytes]:
    try:
        yield sse([chat_chunk({"content": "Hi"})])[0]
        await anyio.sleep(silence)
    finally:
        closed.append("closed")


async def pass_on(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    async for event in events:
        yield event


def on_its_own_time(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))

    run.__name__ = test.__name__
    return run


@pytest.mark.anyio
@pytest.mark.parametrize("transforms", [(), (pass_on,)], ids=["direct", "with a transform"])
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
async def test_silence_is_allowed_up_to_the_limit() -> None:
    for silence, truncated in ((99.0, False), (120.0, True)):
        started = trio.current_time()
        async with pipeline(hang([], silence), limits=Limits(idle_timeout=100.0)) as events:
            with pytest.raises(TruncatedStream) as caught:
                async for _ in events:
                    pass
        assert ("silent" in str(caught.value)) is truncated
        assert trio.current_time() - started <= 112.5, "late by an eighth at most"


@on_its_own_time
async def test_keep_alives_are_signs_of_life() -> None:
    async def alive() -> AsyncIterator[bytes]:
        for _ in range(20):
            await trio.sleep(80)
            yield b": ping\n\n"
        for item in chat(["Hi"], finish="stop"):
            yield item

    async with pipeline(alive(), limits=Limits(idle_timeout=100.0)) as events:
        async for _ in events:
            pass
    assert events.turn.complete


@on_its_own_time
async def test_a_consumer_who_takes_long_is_not_the_sources_silence() -> None:
    async def quick() -> AsyncIterator[bytes]:
        for item in chat(["x"] * 50, finish="stop"):
            yield item

    async with pipeline(quick(), limits=Limits(idle_timeout=10.0, event_buffer=2)) as events:
        async for _ in events:
            await trio.sleep(60)
    assert events.turn.complete


@on_its_own_time
async def test_a_tool_that_runs_long_after_the_stream_is_not_silence() -> None:
    @tool(effect="once")
    async def slow() -> str:
        """Take a minute."""
        await trio.sleep(60)
        return "done"

    limits = Limits(idle_timeout=10.0)
    async with pipeline(chat(calls=[("a", "slow", "{}")]), tools=[slow], limits=limits) as events:
        seen = [event async for event in events if isinstance(event, Observation)]
    assert [observation.outcome for observation in seen] == ["ok"]


@on_its_own_time
async def test_without_a_timeout_a_silent_source_is_waited_for() -> None:
    async with pipeline(hang([], 1_000_000.0), limits=Limits(idle_timeout=None)) as events:
        with pytest.raises(TruncatedStream, match="terminal marker"):
            async for _ in events:
                pass


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
            async with pipeline(source, limits=Limits(idle_timeout=100.0)) as events:
                async for _ in events:
                    pass
            assert events.turn.complete

        trio.run(read, stopped(), clock=clock)


@on_its_own_time
async def test_time_in_which_the_process_was_stopped_is_not_the_sources_silence() -> None:
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)

    async def stopped() -> AsyncIterator[bytes]:
        first, *rest = chat(["Hi"], finish="stop")
        yield first
        await trio.sleep(30)
        clock.jump(1000)
        await trio.sleep(60)  # the server goes on only now
        for item in rest:
            yield item

    async with pipeline(stopped(), limits=Limits(idle_timeout=100.0)) as events:
        async for _ in events:
            pass
    assert events.turn.complete


@on_its_own_time
async def test_a_loop_that_is_always_late_finds_a_silent_source_all_the_same() -> None:
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)

    async def block() -> None:
        while True:
            await trio.sleep(1)
            clock.jump(30)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(block)
        async with pipeline(hang([]), limits=Limits(idle_timeout=100.0)) as events:
            with pytest.raises(TruncatedStream, match="silent"):
                async for _ in events:
                    pass
        nursery.cancel_scope.cancel()


# -- one watch for all streams of an event loop ------------------------------------------------------------------------


async def consume(stream: AsyncIterator[bytes], limits: Limits, ended: dict[str, float], name: str) -> None:
    async with pipeline(stream, limits=limits) as events:
        with pytest.raises(TruncatedStream, match="silent"):
            async for _ in events:
                pass
    ended[name] = trio.current_time()


@on_its_own_time
async def test_the_watch_goes_on_when_the_stream_that_it_began_with_is_left() -> None:
    ended: dict[str, float] = {}
    started = trio.current_time()
    async with trio.open_nursery() as nursery, pipeline(hang([]), limits=Limits(idle_timeout=1000.0)) as first:
        await anext(first)
        for number in range(3):
            nursery.start_soon(consume, hang([]), Limits(idle_timeout=100.0), ended, str(number))
        await trio.sleep(50)
    assert sorted(ended) == ["0", "1", "2"]
    assert all(100 <= at - started <= 165 for at in ended.values()), "late by an eighth after each change of hands"


@on_its_own_time
async def test_a_stream_with_a_short_timeout_is_not_kept_waiting_by_one_with_a_long_one() -> None:
    ended: dict[str, float] = {}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume, hang([]), Limits(idle_timeout=100_000.0), ended, "long")
        await trio.sleep(5)
        started = trio.current_time()
        nursery.start_soon(consume, hang([]), Limits(idle_timeout=8.0), ended, "short")
    assert 8 <= ended["short"] - started <= 9.1
    assert ended["long"] > 100_000


@on_its_own_time
async def test_streams_that_are_cancelled_from_outside_leave_the_others_watched() -> None:
    ended: dict[str, float] = {}
    started = trio.current_time()
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(10):
            async with pipeline(hang([]), limits=Limits(idle_timeout=100.0)) as first:
                nursery.start_soon(consume, hang([]), Limits(idle_timeout=100.0), ended, "other")
                async for _ in first:
                    pass
    assert 100 <= ended["other"] - started <= 130


@on_its_own_time
async def test_a_stream_after_another_is_watched_too() -> None:
    for _ in range(3):
        ended: dict[str, float] = {}
        await consume(hang([]), Limits(idle_timeout=100.0), ended, "it")
        assert ended
