"""Streams that block: the event loop never does, and one thread does all that is done to a stream."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread
from blocking_sources import Held, generator, manager_of_blocking
from streams import chat

from streamtools import Limits, TextDelta, Turn, pipeline
from streamtools.errors import LimitExceeded
from streamtools.sources import open_source

pytestmark = pytest.mark.anyio

BODY = chat(["Hel", "lo"], finish="stop")
HURRIED = Limits(cancel_grace=0.01, max_abandoned_threads=1)

name: ContextVar[str] = ContextVar("name", default="nobody")


async def run(source: Any, limits: Limits = Limits()) -> Turn:
    return await pipeline(source, limits=limits)


async def threads_have_ended() -> None:
    for thread in threading.enumerate():
        if thread.name == "streamtools source":
            await to_thread.run_sync(thread.join, 5)
            assert not thread.is_alive()


async def test_the_event_loop_goes_on_while_the_stream_is_silent() -> None:
    spoken = threading.Event()

    def stream() -> Iterator[bytes]:
        yield from BODY[:2]
        assert spoken.wait(5), "nobody else could run"
        yield from BODY[2:]

    with anyio.fail_after(30):
        async with pipeline(stream()) as events:
            async for event in events:
                if isinstance(event, TextDelta) and event.text == "Hel":
                    await anyio.wait_all_tasks_blocked()
                    spoken.set()
    assert events.turn.text == "Hello"


async def test_nothing_is_pulled_before_it_is_wanted() -> None:
    held = Held(BODY)
    source = open_source(held.pull())
    items = await source.items()
    for pulled, item in enumerate(BODY):
        assert held.pulled == pulled
        assert await items.__anext__() == item
    with pytest.raises(StopAsyncIteration):
        await items.__anext__()
    await source.aclose()


async def test_who_leaves_while_an_item_is_on_its_way_waits_for_it() -> None:
    held, silent, go_on = Held(BODY), threading.Event(), threading.Event()

    def stream() -> Iterator[bytes]:
        try:
            yield from BODY[:2]
            silent.set()
            assert go_on.wait(45)
            yield from BODY[2:]
        finally:
            held.close()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group, pipeline(stream()) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    await to_thread.run_sync(silent.wait, 5)
                    group.start_soon(let_go, go_on, held)
                    break
    assert held.closed == 1
    assert events.turn.warnings == ()


async def let_go(go_on: threading.Event, held: Held) -> None:
    await anyio.wait_all_tasks_blocked()
    assert held.closed == 0
    go_on.set()


class Silent:
    """A stream that says nothing more until it is told to, whatever is done to it."""

    def __init__(self, items: list[bytes]) -> None:
        self.items = iter(items)
        self.silent = threading.Event()
        self.go_on = threading.Event()
        self.closed = threading.Event()

    def __iter__(self) -> Silent:
        return self

    def __next__(self) -> bytes:
        for item in self.items:
            return item
        self.silent.set()
        assert self.go_on.wait(45)
        raise StopIteration

    def close(self) -> None:
        assert self.go_on.is_set(), "closed while it was being read"
        self.closed.set()


async def test_a_silent_stream_is_given_up_after_the_grace_and_closes_when_it_can() -> None:
    await threads_have_ended()  # those that other tests gave up: they are counted in the whole process
    stream = Silent(BODY[:2])
    with anyio.fail_after(30):
        async with pipeline(stream, limits=HURRIED) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    await to_thread.run_sync(stream.silent.wait, 5)
                    break
    assert [warning.code for warning in events.turn.warnings] == ["source_unresponsive"]
    assert not stream.closed.is_set()

    # As long as it hangs, there is no room for another; what does not block needs none.
    unread = Held(BODY)
    with pytest.raises(LimitExceeded, match="max_abandoned_threads=1"):
        await run(generator(unread), HURRIED)
    assert unread.pulled == 0
    assert (await run(BODY, HURRIED)).text == "Hello"
    # The refused one may still be closing, which counts as long as it takes longer than the grace.
    assert (await run(manager_of_blocking(Held(BODY)), Limits(max_abandoned_threads=3))).text == "Hello"

    stream.go_on.set()
    await threads_have_ended()
    assert stream.closed.is_set()
    assert (await run(generator(Held(BODY)), HURRIED)).text == "Hello"


async def test_what_fails_to_close_is_a_warning_and_keeps_nothing_else_open() -> None:
    held = Held(BODY)

    class Broken:
        def __iter__(self) -> Iterator[bytes]:
            return generator(held)

        def close(self) -> None:
            raise OSError("reset")

    turn = await run(Broken())
    assert (turn.text, held.closed) == ("Hello", 1)
    assert [warning.code for warning in turn.warnings] == ["source_close_failed"]


async def test_a_context_manager_that_opens_nothing_to_read_is_refused_and_left() -> None:
    left = []

    @contextmanager
    def opened(stream: Any) -> Iterator[Any]:
        try:
            yield stream
        finally:
            left.append(stream)

    nothing = [42, opened(None), manager_of_blocking(Held(BODY))]
    for stream in nothing:
        with pytest.raises(TypeError, match="which a context manager opened"):
            await run(opened(stream))
    assert left == nothing

    class Client(AbstractContextManager["Client"]):
        def __exit__(self, *raised: object) -> None:
            left.append(self)

    with pytest.raises(TypeError, match="cannot stream from Client; pass the response of a request"):
        await run(Client())
    assert len(left) == 4


async def test_a_stream_that_was_never_begun_is_closed_all_the_same() -> None:
    for stream in (Silent([]), Silent([])):
        stream.go_on.set()
        await open_source(stream).aclose()
        assert stream.closed.is_set()
    for nothing_to_close in (iter([b""]), b"", manager_of_blocking(Held(BODY))):
        await open_source(nothing_to_close).aclose()


async def test_what_stops_the_program_stops_it_also_from_the_streams_thread() -> None:
    class Stop(BaseException):
        pass

    def stream() -> Iterator[bytes]:
        yield BODY[0]
        raise Stop

    with pytest.raises(Stop):
        await run(stream())


def test_a_stream_that_outlives_its_event_loop_ends_its_thread() -> None:
    async def read() -> None:
        items = await open_source(stream).items()
        await items.__anext__()

    stream = Silent([])
    loop = asyncio.new_event_loop()
    reading = loop.create_task(read())
    loop.run_until_complete(loop.run_in_executor(None, stream.silent.wait, 5))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()  # as a program does that is torn down in the middle
    stream.go_on.set()
    for thread in threading.enumerate():
        if thread.name == "streamtools source":
            thread.join(5)
            assert not thread.is_alive()
    reading.get_coro().close()  # or the garbage collector complains


async def test_a_context_manager_may_open_what_is_in_memory() -> None:
    @contextmanager
    def opened(stream: Any) -> Iterator[Any]:
        yield stream

    for stream in (BODY, b"".join(BODY), b"".join(BODY).decode()):
        assert (await run(opened(stream))).text == "Hello"
