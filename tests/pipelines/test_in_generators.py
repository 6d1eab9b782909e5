"""Pipelines whose block or handle lives in an async generator, which its reader may leave at any time, in any task."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from streams import chat, hanging, stream

from streamtools import Event, Observation, TextDelta, agent_loop, pipeline, tool
from streamtools.errors import LocalProtocolError, StreamError
from streamtools.events import StepEnd
from streamtools.pipelines.hosted import OpenPipeline
from streamtools.stages import DEFAULT

pytestmark = pytest.mark.anyio

CALLS = chat(["Hi", " there"], [("c1", "stay", "{}")])
TEXT = chat(["one ", "two ", "three"], finish=None)
PATIENCE_S = 20

Words = Callable[[Any], AsyncGenerator[str, None]]


class Ends:
    """An observer that keeps the ends of steps."""

    event_types = frozenset({StepEnd})

    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def on_event(self, event: Event) -> None:
        assert isinstance(event, StepEnd)
        self.outcomes.append(event.outcome)

    def around_tool(self, call_id: str) -> None:
        return None


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


each_place = pytest.mark.parametrize(
    "words", [words_of_a_block, words_of_a_loop, words_of_a_block_entered_by_a_function]
)


async def is_not_cancelled() -> bool:
    """Returns whether this task can still wait."""
    with anyio.fail_after(PATIENCE_S):
        await anyio.wait_all_tasks_blocked()
        await anyio.lowlevel.checkpoint()
    return True


@each_place
async def test_a_reader_that_breaks_out_of_a_generator_is_not_cancelled(words: Words) -> None:
    ends = Ends()
    async with aclosing(words(ends)) as generator:
        async for word in generator:
            assert word == "one "
            break
    assert await is_not_cancelled()
    assert ends.outcomes == ["abandoned"]


@each_place
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio warns of such a generator
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
async def test_a_readers_exception_comes_out_of_a_generators_loop_unchanged(words: Words) -> None:
    ends = Ends()
    with pytest.raises(KeyError, match="mine"):
        async with aclosing(words(ends)) as generator:
            async for _ in generator:
                raise KeyError("mine")
    assert await is_not_cancelled()
    assert ends.outcomes == ["abandoned"]


@each_place
async def test_an_exception_thrown_into_a_generator_comes_out_unchanged(words: Words) -> None:
    ends = Ends()
    generator = words(ends)
    await generator.__anext__()
    with pytest.raises(KeyError, match="thrown"):
        await generator.athrow(KeyError("thrown"))
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


@each_place
async def test_a_cancelled_reader_cancels_a_generators_pipeline(words: Words) -> None:
    ends = Ends()
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                async with aclosing(words(ends)) as generator:
                    async for word in generator:
                        if word == "three":
                            tasks.cancel_scope.cancel()

            tasks.start_soon(read)
    assert ends.outcomes == ["cancelled"]


async def test_a_call_that_runs_is_cancelled_when_a_generator_is_left() -> None:
    stopped: list[str] = []

    async def stay() -> str:
        """Stays."""
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append("stay")
        raise AssertionError("it sleeps forever")

    async def kinds() -> AsyncIterator[type[Event]]:
        async with pipeline(stream(CALLS), tools=[tool(stay, effect="pure")]) as events:
            async for event in events:
                yield type(event)

    async with aclosing(kinds()) as generator:  # type: ignore[type-var]  # it is a generator
        async for kind in generator:
            if kind.__name__ == "ToolStarted":
                break
    assert stopped == ["stay"]
    assert await is_not_cancelled()


async def test_a_block_in_a_context_manager_made_of_a_generator_works_as_any() -> None:
    @asynccontextmanager
    async def chatting() -> AsyncIterator[Any]:
        async with pipeline(stream(chat(["Hi"], finish="stop"))) as events:
            yield events

    async with chatting() as events:
        text = [event.text async for event in events if isinstance(event, TextDelta)]
    assert text == ["Hi"]
    assert events.turn.text == "Hi"


async def test_a_stream_error_comes_out_of_a_generator() -> None:
    async def words() -> AsyncIterator[str]:
        async with pipeline(stream(TEXT)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    yield event.text

    got: list[str] = []
    with pytest.raises(StreamError):
        async for word in words():
            got.append(word)
    assert got == ["one ", "two ", "three"]


async def test_a_pipeline_in_a_generator_takes_calls_by_hand_and_approvals() -> None:
    @tool(needs_approval=True)
    def stay() -> str:
        """Stays."""
        return "stayed"

    async def observations() -> AsyncIterator[Observation]:
        async with pipeline(stream(CALLS), tools=[stay]) as events:
            async for _ in events:
                pass
            assert events.suspended is not None
            events.approve(events.suspended.calls[0])
            async for event in events:
                if isinstance(event, Observation):
                    yield event

    assert [seen.value async for seen in observations()] == ["stayed"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
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


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_pipeline_is_opened_without_a_group_on_asyncio(anyio_backend: str) -> None:
    def stay() -> str:
        """Stays."""
        return "stayed"

    before = asyncio.all_tasks()
    events = pipeline(stream(CALLS), tools=[tool(stay, effect="pure")]).open()
    assert isinstance(events, OpenPipeline)
    async for _ in events:
        pass
    assert [seen.value for seen in events.turn.observations] == ["stayed"]
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_opened_pipeline_is_closed_in_the_middle(anyio_backend: str) -> None:
    ends, before = Ends(), asyncio.all_tasks()
    events = pipeline(hanging(TEXT), observers=[ends]).open()
    async for event in events:
        if isinstance(event, TextDelta):
            break
    await events.aclose()
    await events.aclose()
    assert ends.outcomes == ["abandoned"]
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
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


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_unforeseen_error_of_an_opened_pipeline_is_raised_at_its_reader(anyio_backend: str) -> None:
    class Broken:
        def feed(self, event: Event) -> list[Event]:
            raise ZeroDivisionError("unforeseen")

        def finish(self) -> list[Event]:
            return []

    events = pipeline(stream(TEXT), stages=DEFAULT.append(Broken)).open()
    with pytest.raises(ZeroDivisionError):
        async for _ in events:
            pass
    await events.aclose()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
def test_the_end_of_the_event_loop_closes_an_opened_pipeline(anyio_backend: str) -> None:
    ends = Ends()
    kept: list[OpenPipeline] = []

    async def main() -> None:
        kept.append(pipeline(hanging(TEXT), observers=[ends]).open())
        await kept[0].__anext__()

    asyncio.run(main())
    assert ends.outcomes == ["cancelled"]
    asyncio.run(kept[0].aclose())


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_on_trio_open_wants_a_nursery_and_says_so(anyio_backend: str) -> None:
    with pytest.raises(TypeError, match="open takes a nursery; write: "):
        pipeline(stream(TEXT)).open()


def test_outside_of_an_event_loop_open_says_where_it_belongs() -> None:
    with pytest.raises(LocalProtocolError, match="no event loop runs here"):
        pipeline(b"").open()
