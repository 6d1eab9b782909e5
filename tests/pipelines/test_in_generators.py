"""Pipelines whose block or handle lives in an async generator, which its reader may leave at any time, in any task."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from profiles import every
from streams import chat, exhaust, hanging, stream

from streamtools import Event, Pipeline, TextDelta, agent_loop, pipeline, tool
from streamtools.errors import LocalProtocolError
from streamtools.events import StepEnd
from streamtools.observers import Observer

pytestmark = pytest.mark.anyio

CALLS = chat(["Hi", " there"], [("c1", "stay", "{}")])
TEXT = chat(["one ", "two ", "three"], finish=None)
PATIENCE_S = 20

Words = Callable[[Any], AsyncGenerator[str, None]]


class Ends(Observer):
    """An observer that keeps the ends of steps."""

    event_types = frozenset({StepEnd})

    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def on_event(self, event: Event) -> None:
        assert isinstance(event, StepEnd)
        self.outcomes.append(event.outcome)


async def words_of_a_block(ends: Ends) -> AsyncGenerator[str, None]:
    async with pipeline(hanging(TEXT), observers=[ends]) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                yield event.text


async def words_of_a_loop(ends: Ends) -> AsyncGenerator[str, None]:
    from streamtools import Trajectory

    run = agent_loop(
        lambda *_: hanging(TEXT), [], wire="openai.chat_completions", trajectory=Trajectory(observers=[ends])
    )
    async with run:
        async for event in run:
            if isinstance(event, TextDelta):
                yield event.text


async def words_of_a_block_entered_by_a_function(ends: Ends) -> AsyncGenerator[str, None]:
    async with AsyncExitStack() as stack:
        events = await stack.enter_async_context(pipeline(hanging(TEXT), observers=[ends]))
        async for event in events:
            if isinstance(event, TextDelta):
                yield event.text


each_place = every("words", [words_of_a_block, words_of_a_loop, words_of_a_block_entered_by_a_function])


async def is_not_cancelled() -> bool:
    """Returns whether this task can still wait."""
    with anyio.fail_after(PATIENCE_S):
        await anyio.wait_all_tasks_blocked()
        await anyio.lowlevel.checkpoint()
    return True


@each_place
@pytest.mark.asyncio_only  # trio warns of such a generator
async def test_a_generator_that_was_dropped_is_closed_and_its_reader_not_cancelled(
    anyio_backend: str, words: Words
) -> None:
    ends = Ends()
    generator = words(ends)
    async for _ in generator:
        break
    del generator
    gc.collect()
    assert await is_not_cancelled()
    assert ends.outcomes == ["abandoned"]


@each_place
async def test_two_tasks_take_turns_at_a_generator(words: Words) -> None:
    ends = Ends()
    generator = words(ends)
    got: list[str] = []

    async def read_one() -> None:
        got.append(await generator.__anext__())

    async def close() -> None:
        await generator.aclose()

    with anyio.fail_after(PATIENCE_S):
        for _ in range(3):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read_one)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(close)
    assert got == ["one ", "two ", "three"]
    assert await is_not_cancelled()
    assert ends.outcomes == ["abandoned"]


@pytest.mark.asyncio_only
def test_a_program_that_ends_with_an_open_generator_settles_its_step(anyio_backend: str) -> None:
    ends = Ends()
    kept: list[Any] = []

    async def main() -> None:
        generator = words_of_a_block(ends)
        kept.append(generator)
        await generator.__anext__()

    asyncio.run(main())
    assert ends.outcomes == ["cancelled"]


# -- open, without a group -----------------------------------------------------------------------------------------


@pytest.mark.asyncio_only
async def test_a_pipeline_is_opened_without_a_group_on_asyncio(anyio_backend: str) -> None:
    def stay() -> str:
        """Stays."""
        return "stayed"

    before = asyncio.all_tasks()
    events = pipeline(stream(CALLS), tools=[tool(stay, effect="pure")]).open()
    assert isinstance(events, Pipeline)
    await exhaust(events)
    assert [seen.value for seen in events.turn.observations] == ["stayed"]
    assert asyncio.all_tasks() == before


@pytest.mark.asyncio_only
async def test_an_opened_pipeline_that_was_forgotten_says_so_and_is_closed(anyio_backend: str) -> None:
    ends, before = Ends(), asyncio.all_tasks()
    events = pipeline(hanging(TEXT), observers=[ends]).open()
    await events.__anext__()
    kept = [events]
    del events
    with pytest.warns(ResourceWarning, match="aclose"):
        kept.clear()
    await anyio.wait_all_tasks_blocked()
    assert ends.outcomes == ["abandoned"]
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_on_trio_open_wants_a_nursery_and_says_so(anyio_backend: str) -> None:
    with pytest.raises(TypeError, match="open requires a nursery; write: "):
        pipeline(stream(TEXT)).open()


def test_outside_of_an_event_loop_open_says_where_it_belongs() -> None:
    with pytest.raises(LocalProtocolError, match="no event loop runs here"):
        pipeline(b"").open()
