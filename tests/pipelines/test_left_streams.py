"""A stream that is left is let go of: pipeline, turn and body are garbage as soon as its block has been left."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from streams import anthropic

from streamtools import Limits, ToolContext, Turn, pipeline, tool
from streamtools.dispatch import CallPool
from streamtools.events import ApprovalRequested, Event, StepEnd, ToolCallEnd, ToolStarted

pytestmark = pytest.mark.anyio

COUNT = 3  # streams: what is kept is kept of each, what is about to go may be of the last
TEXT = "x" * (1 << 16)


class Body:
    """A source with a long text and a call, which then says nothing more. It can be referred to weakly."""

    def __init__(self, name: str) -> None:
        self.chunks = anthropic([TEXT], calls=[("a", name, "{}")], stop=None)
        self.closed = False

    def __aiter__(self) -> Body:
        return self

    async def __anext__(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        if self.chunks:
            return self.chunks.pop(0)
        await anyio.sleep_forever()
        raise AssertionError("it never ends")

    async def aclose(self) -> None:
        self.closed = True


class Made:
    """The pipelines, runs and bodies that were made, by weak references."""

    def __init__(self) -> None:
        self.references: list[tuple[str, weakref.ref[Any]]] = []

    def add(self, **made: Any) -> None:
        self.references += [(name, weakref.ref(one)) for name, one in made.items()]

    async def alive(self) -> list[str]:
        """What is still there, with turns and events of whichever stream, when nothing runs any more."""
        await anyio.wait_all_tasks_blocked()
        gc.collect()
        told = {type(one).__name__ for one in gc.get_objects() if isinstance(one, (Turn, ToolCallEnd, StepEnd))}
        return sorted(told) + [name for name, reference in self.references if reference() is not None]


@tool(effect="pure")
async def sleep() -> None:
    """Sleep until cancelled."""
    await anyio.sleep_forever()


@tool(effect="pure", timeout=60)
async def in_time() -> None:
    """Sleep until cancelled, or the time is up."""
    await anyio.sleep_forever()


@tool(effect="pure", needs_approval=True)
async def ask_first() -> None:
    """Sleep until cancelled, once it is approved."""
    await anyio.sleep_forever()


@tool(effect="idempotent", retries=9, retry_delay_s=60)
async def fail() -> None:
    """Fail."""
    raise ConnectionError


async def undecided(asked: ApprovalRequested) -> bool:
    await anyio.sleep_forever()
    return True


TOOLS = [sleep, in_time, ask_first, fail]
SITUATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "a call runs": ("sleep", {}),
    "a call runs, in a shared pool": ("sleep", {"pool": CallPool(Limits())}),
    "a tool's timeout is pending": ("in_time", {}),
    "every deadline is pending": ("sleep", {"limits": Limits(first_chunk_timeout=60, step_timeout=60, run_timeout=60)}),
    "an approval is pending": ("ask_first", {}),
    "an approver is asked": ("ask_first", {"approve": undecided}),
    "another attempt is pending": ("fail", {}),
}
WAYS = ("break", "aclose", "cancelled", "raised", "opened", "in a generator")


def until(name: str) -> type[Event]:
    return ApprovalRequested if name == "ask_first" else ToolStarted


async def leave(name: str, how: str, made: Made, ready: Callable[[], bool] = lambda: True, **options: Any) -> None:
    """Reads one stream up to its call, and leaves it in this way."""
    source = Body(name)
    events = pipeline(source, **options)
    made.add(pipeline=events, body=source)

    async def read(given: Any) -> None:
        async for event in given:
            if isinstance(event, until(name)):
                break
        while not ready():
            await anyio.lowlevel.checkpoint()
        assert given.turn.text == TEXT

    async def generated() -> AsyncIterator[None]:
        async with events:
            await read(events)
            yield

    if how == "opened":
        async with anyio.create_task_group() as tasks:
            opened = events.open(tasks)
            await read(opened)
            await opened.aclose()
    elif how == "in a generator":
        generator: Any = generated()
        await anext(generator)
        await generator.aclose()
    else:
        with anyio.CancelScope() as scope:
            try:
                async with events:
                    await read(events)
                    if how == "aclose":
                        await events.aclose()
                    elif how == "cancelled":
                        scope.cancel()
                        await anyio.lowlevel.checkpoint()
                    elif how == "raised":
                        raise ZeroDivisionError
            except ZeroDivisionError:
                pass
    assert source.closed


async def test_a_stream_that_is_left_is_let_go_of() -> None:
    kept = {}
    for number, (situation, (name, options)) in enumerate(SITUATIONS.items()):
        for how in WAYS[number % 3 :: 3]:
            made = Made()
            with anyio.fail_after(20):
                for _ in range(COUNT):
                    await leave(name, how, made, tools=TOOLS, **options)
                kept[situation, how] = await made.alive()
    assert {at: alive for at, alive in kept.items() if alive} == {}


class Blocked:
    """Sync tools that go on in their thread until they are released; one has a context, one a timeout."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.inside = 0

        @tool(effect="pure")
        def block() -> None:
            """Block."""
            self.inside += 1
            self.released.wait(60)

        @tool(effect="pure", timeout=60)
        def report(ctx: ToolContext) -> None:
            """Block, and report then."""
            self.inside += 1
            self.released.wait(60)
            ctx.progress("too late")

        self.tools = [block, report]


@contextmanager
def blocked() -> Iterator[Blocked]:
    tools = Blocked()
    try:
        yield tools
    finally:
        tools.released.set()


async def test_a_stream_that_is_left_while_its_tool_goes_on_in_a_thread_is_let_go_of() -> None:
    for number, name in enumerate(("block", "report")):
        for how in WAYS[number::2]:
            made = Made()
            with blocked() as tools, anyio.fail_after(20):
                for number in range(1, COUNT + 1):
                    await leave(name, how, made, lambda number=number: tools.inside == number, tools=tools.tools)
                assert (name, how, await made.alive()) == (name, how, [])
