"""Who lives how long: sources, tasks, and what a pipeline holds before it is entered and after it was left."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
import trio.testing
from every_wire import BEDROCK, COHERE, OLLAMA, RESPONSES, framed, said
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.trace import StatusCode
from streams import anthropic, chat, chat_chunk, hanging, sse, stream

from streamtools import Event, Limits, Observation, StreamEnd, TextDelta, pipeline, tool
from streamtools.errors import ProviderError, RemoteProtocolError, TruncatedStream
from streamtools.events import RequestFailed, StepEnd, StepStart, StreamStart, ToolStarted
from streamtools.telemetry import Tracing
from streamtools.testing import ScriptedSource

pytestmark = pytest.mark.anyio


def tasks() -> int:
    """Tasks that live."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        return trio.lowlevel.current_statistics().tasks_living


@pytest.fixture
async def nothing_is_left(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """No task, no thread, no unclosed generator, no word in a log."""
    before, threads = tasks(), threading.active_count()
    gc.freeze()  # what was there before: looking through it again and again takes longer than the tests
    try:
        yield
        gc.collect()  # what was not closed warns now, and a warning is an error
    finally:
        gc.unfreeze()
    assert tasks() == before
    assert threading.active_count() <= threads
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


leaves_nothing = pytest.mark.usefixtures("nothing_is_left")


def on_its_own_time(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Time is trio's own, which passes as soon as every task waits."""

    def run() -> None:
        trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))

    run.__name__ = test.__name__
    return run


@tool(effect="pure")
async def double(n: int) -> int:
    """Twice n."""
    return 2 * n


class Sleeper:
    """A tool that sleeps until it is cancelled."""

    def __init__(self) -> None:
        self.inside = anyio.Event()
        self.running = 0

        @tool(effect="pure")
        async def sleep() -> str:
            """Sleep until cancelled."""
            self.running += 1
            self.inside.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.running -= 1
            return "never"

        self.tool = sleep


SLEEPS = anthropic(["Let me see"], [("a", "sleep", "{}")], stop=None)


# -- the source --------------------------------------------------------------------------------------------------


@leaves_nothing
@pytest.mark.parametrize("leave", ["break", "aclose", "raise", "cancel"])
async def test_a_source_that_waits_for_room_is_closed_in_the_task_that_reads_it_and_its_finally_may_await(
    leave: str,
) -> None:
    reads: set[int] = set()
    closes: list[int] = []
    taken = 0

    async def source() -> AsyncIterator[bytes]:
        nonlocal taken
        try:
            for item in chat(["x"] * 1000, finish="stop"):
                taken += 1
                reads.add(anyio.get_current_task().id)
                yield item
        finally:
            for _ in range(3):  # without a shield of its own
                await anyio.lowlevel.checkpoint()
            closes.append(anyio.get_current_task().id)

    with anyio.fail_after(30), anyio.CancelScope() as scope:
        try:
            async with pipeline(source(), limits=Limits(event_buffer=2)) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        break
                await anyio.wait_all_tasks_blocked()  # the reader waits for room: nobody takes anything
                assert 3 <= taken <= 6
                if leave == "aclose":
                    await events.aclose()
                    assert closes == [*reads]
                elif leave == "raise":
                    raise KeyError("mine")
                elif leave == "cancel":
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()
        except KeyError:
            assert leave == "raise"
    assert closes == [*reads]
    assert closes != [anyio.get_current_task().id]
    assert taken <= 6
    assert events.turn.warnings == ()


ENDS = {
    "[DONE]": chat(["Hi"], finish="stop"),
    "message_stop": anthropic(["Hi"], stop="end_turn"),
    RESPONSES: framed(RESPONSES, said(RESPONSES, text=["Hi"])),
    COHERE: framed(COHERE, said(COHERE, text=["Hi"])),
    OLLAMA: framed(OLLAMA, said(OLLAMA, text=["Hi"])),
    BEDROCK: framed(BEDROCK, said(BEDROCK, text=["Hi"])),
}


@leaves_nothing
@pytest.mark.parametrize("marker", ENDS)
async def test_a_server_that_hangs_after_the_end_marker_is_not_waited_for(marker: str) -> None:
    source = ScriptedSource([*ENDS[marker], anyio.Event()])  # an event that nobody sets
    with anyio.fail_after(30):
        async with pipeline(source, limits=Limits(idle_timeout=None)) as events:
            seen = [event async for event in events]
            assert source.closed  # before the block is left
    assert isinstance(seen[-1], StepEnd)
    assert (events.turn.text, events.turn.complete, events.turn.error) == ("Hi", True, None)


PING = b'event: ping\ndata: {"type": "ping"}\n\n'
SIGNS = {
    "a comment": (chat(["Hi"], finish="stop"), b": keep-alive\n\n"),
    "a ping": (anthropic(["Hi"], stop="end_turn"), PING),
    "a piece of an event": (chat(["Hi"], finish="stop"), b":"),
}


@pytest.mark.parametrize("sign", SIGNS)
def test_signs_of_life_keep_a_silent_server_from_being_cut_and_without_them_it_is(sign: str) -> None:
    (first, *rest), alive = SIGNS[sign]

    async def source(times: int) -> AsyncIterator[bytes]:
        yield first
        for _ in range(times):
            await trio.sleep(80)
            yield alive
        await trio.sleep(80 if times else 200)
        for item in rest if alive != b":" else [b"\n\n", *rest]:
            yield item

    @on_its_own_time
    async def kept() -> None:
        async with pipeline(source(10), limits=Limits(idle_timeout=100.0)) as events:
            _ = [event async for event in events]
        assert (events.turn.text, events.turn.complete) == ("Hi", True)

    @on_its_own_time
    async def cut() -> None:
        async with pipeline(source(0), limits=Limits(idle_timeout=100.0)) as events:
            with pytest.raises(TruncatedStream, match="silent"):
                _ = [event async for event in events]

    kept()
    cut()


# -- how far a source may be ahead -------------------------------------------------------------------------------


DELTAS = 100_000
LOOKS = 5  # at the memory, evenly


@leaves_nothing
async def test_a_hundred_thousand_deltas_leave_no_more_behind_than_twenty_thousand() -> None:
    delta = sse([chat_chunk({"content": "x"})])[0]
    held: list[int] = []
    blocks: list[int] = []

    async def source() -> AsyncIterator[bytes]:
        for _ in range(DELTAS):
            yield delta  # without a checkpoint: as fast as it can
        for item in chat(finish="stop"):
            yield item

    taken = 0
    limits = Limits(event_buffer=64)
    async with pipeline(source(), limits=limits) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                taken += 1
                if taken % (DELTAS // LOOKS) == 0:
                    gc.collect()
                    held.append(sum(type(each) is TextDelta for each in gc.get_objects()))
                    blocks.append(sys.getallocatedblocks())
    assert taken == len(events.turn.text) == DELTAS
    assert max(held) <= limits.event_buffer + 2
    later = DELTAS - DELTAS // LOOKS
    assert max(blocks) - blocks[0] < later * 1.02  # the text of each, which the turn keeps, and nothing beside it


async def one_by_one(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    async for event in events:
        yield event


@leaves_nothing
@pytest.mark.parametrize("transforms", [(), (one_by_one,)], ids=["direct", "with a transform"])
@pytest.mark.parametrize("taken", [0, 1, 50])
async def test_a_consumer_that_stalls_stops_the_reading_of_a_source_that_never_ends(
    taken: int, transforms: tuple[Any, ...]
) -> None:
    delta = sse([chat_chunk({"content": "x" * 1000})])[0]
    pulled = 0

    async def source() -> AsyncIterator[bytes]:
        nonlocal pulled
        while True:
            pulled += 1
            yield delta

    limits = Limits(event_buffer=16)
    async with pipeline(source(), limits=limits, transforms=transforms) as events:
        for _ in range(taken):
            await anext(events)
        for _ in range(5):
            await anyio.wait_all_tasks_blocked()
            assert 1 <= pulled <= taken + limits.event_buffer + 2
    assert pulled <= taken + limits.event_buffer + 2


# -- before the block, and without its end -----------------------------------------------------------------------


class Connection:
    """A stream behind a context manager, which knows whether it was opened."""

    def __init__(self) -> None:
        self.opened = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AsyncIterator[bytes]]:
        self.opened += 1
        yield stream(chat(["Hi"], finish="stop"))


class Blocks:
    """A stream that blocks; it has to be read in a thread."""

    def __init__(self) -> None:
        self.asked = 0

    def __iter__(self) -> Iterator[bytes]:
        self.asked += 1
        return iter(chat(["Hi"], finish="stop"))


@leaves_nothing
@pytest.mark.parametrize("kind", ["generator", "iterator", "manager", "blocking"])
async def test_a_pipeline_that_is_never_entered_starts_nothing_and_holds_nothing(kind: str) -> None:
    begun: list[int] = []
    connection, blocks, scripted = Connection(), Blocks(), ScriptedSource(chat(["Hi"], finish="stop"))

    async def generator() -> AsyncIterator[bytes]:
        begun.append(1)
        yield b""

    made: dict[str, Any] = {
        "generator": generator(),
        "iterator": scripted,
        "manager": connection.open(),
        "blocking": blocks,
    }
    before, threads = tasks(), threading.active_count()
    sleeper = Sleeper()
    events = pipeline(made[kind], tools=[sleeper.tool])
    await anyio.wait_all_tasks_blocked()
    assert (tasks(), threading.active_count()) == (before, threads)
    gone = weakref.ref(events)
    del events
    gc.collect()
    assert gone() is None
    assert (begun, connection.opened, blocks.asked) == ([], 0, 0)
    assert (scripted.position, scripted.closed) == (0, False)  # still the caller's


@leaves_nothing
async def test_who_forgets_the_pipeline_inside_its_block_still_leaves_the_block() -> None:
    sleeper, source = Sleeper(), ScriptedSource([*SLEEPS, anyio.Event()])
    with anyio.fail_after(30):
        async with pipeline(source, tools=[sleeper.tool]) as events:
            gone = weakref.ref(events)
            del events
            gc.collect()
            await sleeper.inside.wait()
            assert gone() is not None
        assert (sleeper.running, source.closed) == (0, True)


@pytest.mark.parametrize("how", ["returns", "raises"])
def test_a_program_that_ends_while_a_task_reads_leaves_that_block_as_any_other(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    turns: list[Any] = []
    made: list[tuple[Sleeper, ScriptedSource]] = []

    async def read(sleeper: Sleeper, source: ScriptedSource) -> None:
        events = pipeline(source, tools=[sleeper.tool])
        try:
            async with events:
                async for _ in events:
                    pass
        finally:
            turns.append(events.turn)

    async def main() -> None:
        sleeper, source = Sleeper(), ScriptedSource([*SLEEPS, anyio.Event()])
        made.append((sleeper, source))
        task = asyncio.ensure_future(read(sleeper, source))
        await sleeper.inside.wait()
        assert not task.done()
        if how == "raises":
            raise KeyError("mine")

    try:
        asyncio.run(main())  # cancels the task that nobody waits for
    except KeyError:
        assert how == "raises"
    gc.collect()
    ((sleeper, source),) = made
    assert (sleeper.running, source.closed) == (0, True)
    (observation,) = turns[0].observations  # asyncio cancels each task by itself, in any order
    assert observation.outcome == "cancelled"
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


# -- several consumers -------------------------------------------------------------------------------------------


@leaves_nothing
@pytest.mark.parametrize("consumers", [2, 5])
async def test_of_several_who_iterate_one_pipeline_each_event_goes_to_one(consumers: int) -> None:
    taken: list[list[int]] = [[] for _ in range(consumers)]
    error = OSError("reset")
    raised: list[BaseException] = []

    async def consume(events: Any, mine: list[int]) -> None:
        try:
            async for event in events:
                mine.append(event.seq)
                await anyio.lowlevel.checkpoint()
        except OSError as caught:
            raised.append(caught)

    body = anthropic(["x"] * 100, [("a", "double", '{"n": 1}')], stop=None)
    with anyio.fail_after(30):
        async with (
            pipeline(stream(body, then=error), tools=[double], limits=Limits(event_buffer=4)) as events,
            anyio.create_task_group() as group,
        ):
            for mine in taken:
                group.start_soon(consume, events, mine)
    assert sorted(seq for mine in taken for seq in mine) == list(range(sum(map(len, taken))))
    assert sum(map(len, taken)) > 100
    assert sum(bool(mine) for mine in taken) >= 2
    assert all(mine == sorted(mine) for mine in taken)
    assert raised == [error]  # once


# -- errors ------------------------------------------------------------------------------------------------------


class Fatal(BaseException):
    """What no library should keep to itself."""


GROUPS: dict[str, Callable[[], BaseException]] = {
    "a single error": lambda: OSError("reset"),
    "a group of one": lambda: ExceptionGroup("mine", [OSError("reset")]),
    "a group of two": lambda: ExceptionGroup("mine", [OSError("reset"), ValueError("bad")]),
}


@leaves_nothing
@pytest.mark.parametrize("where", ["source", "body"])
@pytest.mark.parametrize("kind", GROUPS)
async def test_an_error_comes_out_as_it_was_raised_and_except_star_takes_single_ones_and_groups(
    kind: str, where: str
) -> None:
    error = GROUPS[kind]()
    sleeper = Sleeper()
    matched: list[Exception] = []
    whole: list[BaseException] = []
    body = anthropic(["Hi"], [("a", "sleep", "{}")], stop=None)
    with anyio.fail_after(30):
        try:
            try:
                source = stream(body, then=error) if where == "source" else hanging(body)
                async with pipeline(source, tools=[sleeper.tool]) as events:
                    async for event in events:
                        if where == "body" and isinstance(event, ToolStarted):
                            raise error
            except BaseException as raised:
                whole.append(raised)
                raise
        except* OSError as group:
            matched += group.exceptions
        except* ValueError as group:
            matched += group.exceptions
    assert whole == [error]
    assert len(matched) == (2 if "two" in kind else 1)
    assert sleeper.running == 0
    assert [observation.outcome for observation in events.turn.observations] == ["cancelled"]


@leaves_nothing
@pytest.mark.parametrize("by", ["one tool", "two tools", "source", "observer", "body"])
async def test_what_is_fatal_ends_the_block_by_itself_and_several_as_a_group(by: str) -> None:
    both = anyio.Event()
    inside = 0

    @tool(effect="pure")
    async def die() -> str:
        """Fail fatally."""
        nonlocal inside
        inside += 1
        if inside == (2 if by == "two tools" else 1):
            both.set()
        with anyio.CancelScope(shield=True):  # the other's failure cancels this one
            await both.wait()
        raise Fatal

    class Dies:
        event_types = frozenset({TextDelta})

        def on_event(self, event: Event) -> None:
            raise Fatal

        def around_tool(self, call_id: str) -> None:
            return None

    calls = [(name, "die", "{}") for name in {"one tool": "a", "two tools": "ab"}.get(by, "")]
    body = anthropic(["Hi"], calls, stop=None)
    source = stream(body, then=Fatal()) if by == "source" else hanging(body)
    with anyio.fail_after(30), pytest.raises(BaseException) as caught:
        async with pipeline(source, tools=[die], observers=[Dies()] if by == "observer" else []) as events:
            async for event in events:
                if by == "body" and isinstance(event, TextDelta):
                    raise Fatal
    if by == "two tools":
        assert isinstance(caught.value, BaseExceptionGroup)
        assert [type(error) for error in caught.value.exceptions] == [Fatal, Fatal]
    else:
        assert isinstance(caught.value, Fatal)
    assert len(events.turn.observations) == len(calls)


FIRST: dict[str, tuple[list[bytes], BaseException | None, type[Exception]]] = {
    "the connection": ([], OSError("refused"), OSError),
    "the provider": (
        [b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'],
        None,
        ProviderError,
    ),
    "nothing at all": ([], None, RemoteProtocolError),
}


@leaves_nothing
@pytest.mark.parametrize("of", FIRST)
async def test_an_error_that_comes_first_is_raised_before_anything_was_said_and_nothing_is_tried_again(of: str) -> None:
    body, then, kind = FIRST[of]
    begun = 0

    async def source() -> AsyncIterator[bytes]:
        nonlocal begun
        begun += 1
        for item in body:
            yield item
        if then is not None:
            raise then

    seen: list[Event] = []
    with anyio.fail_after(30):
        async with pipeline(source(), tools=[double]) as events:
            with pytest.raises(Exception) as caught:
                async for event in events:
                    seen.append(event)
    assert isinstance(caught.value, kind)
    told = [type(event) for event in seen if type(event) is not StreamStart]
    assert told == [StepStart, *([RequestFailed] if then else []), StreamEnd, StepEnd]
    assert begun == 1
    assert (events.turn.text, events.turn.calls, events.turn.observations) == ("", (), ())


@leaves_nothing
async def test_a_stream_that_failed_is_not_read_again_and_its_turn_tells_which_calls_were_started() -> None:
    begun: list[str] = []
    items = anthropic(calls=[("a", "double", '{"n": 1}'), ("b", "double", '{"n": 2}'), ("c", "spend", "{}")], stop=None)

    @tool(effect="once")
    async def spend() -> str:
        """Spend."""
        begun.append("spend")
        return "spent"

    async def source() -> AsyncIterator[bytes]:
        begun.append("source")
        for item in items:
            await anyio.lowlevel.checkpoint()
            yield item
        await anyio.wait_all_tasks_blocked()
        raise OSError("reset")

    with anyio.fail_after(30):
        async with pipeline(source(), tools=[double, spend]) as events:
            with pytest.raises(OSError, match="reset"):
                _ = [event async for event in events]
    assert begun == ["source"]
    assert [(o.call_id, o.attempts, o.outcome) for o in events.turn.observations] == [
        ("a", 1, "ok"),
        ("b", 1, "ok"),
        ("c", 0, "skipped"),
    ]


# -- a consumer who is slow --------------------------------------------------------------------------------------


@on_its_own_time
async def test_while_the_consumer_is_slow_tools_run_on_and_only_their_own_time_counts() -> None:
    began: dict[int, float] = {}
    lasted: dict[int, float] = {}

    @tool(effect="pure", timeout=10)
    async def work(seconds: int) -> str:
        """Work."""
        began[seconds] = trio.current_time()
        try:
            await trio.sleep(seconds)
        finally:
            lasted[seconds] = trio.current_time() - began[seconds]
        return "done"

    calls = [("a", "work", '{"seconds": 8}'), ("b", "work", '{"seconds": 12}'), ("c", "work", '{"seconds": 9}')]
    body = anthropic(calls=calls, stop=None) + anthropic(["x"] * 20, stop="end_turn")[1:]
    limits = Limits(event_buffer=1, max_concurrency=1, idle_timeout=100)
    async with pipeline(stream(body), tools=[work], limits=limits) as events:
        async for event in events:
            if isinstance(event, (ToolStarted, Observation, TextDelta)):
                await trio.sleep(1000)  # a hundred times what a tool may take
    assert [observation.outcome for observation in events.turn.observations] == ["ok", "timed_out", "ok"]
    assert lasted == {8: 8, 12: 10, 9: 9}
    assert events.turn.complete


# -- spans -------------------------------------------------------------------------------------------------------


class Spans(SpanProcessor):
    """Every span that ended."""

    def __init__(self) -> None:
        self.started = 0
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.started += 1

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)


@leaves_nothing
@pytest.mark.parametrize("leave", ["break", "raise", "cancel", "error"])
async def test_spans_of_a_stream_that_was_left_end_inside_their_parents_and_tell_what_was_cancelled(leave: str) -> None:
    sleeper, spans, provider = Sleeper(), Spans(), TracerProvider()
    provider.add_span_processor(spans)
    tracing = [Tracing(provider, spans={"wait": False})]  # a busy machine draws waits that no other one has

    async def source() -> AsyncIterator[bytes]:
        for item in anthropic(["Hi"], [("a", "double", '{"n": 1}'), ("b", "sleep", "{}")], stop=None):
            yield item
        await sleeper.inside.wait()
        await anyio.wait_all_tasks_blocked()
        if leave == "error":
            raise OSError("reset")
        await anyio.sleep_forever()

    with anyio.fail_after(30), anyio.CancelScope() as scope:
        try:
            async with pipeline(source(), tools=[double, sleeper.tool], observers=tracing) as events:
                async for event in events:
                    if leave != "error" and isinstance(event, Observation):
                        await sleeper.inside.wait()
                        break
                if leave == "raise":
                    raise KeyError("mine")
                if leave == "cancel":
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()
        except (KeyError, OSError):
            assert leave in ("raise", "error")
    by_id = {span.context.span_id: span for span in spans.ended}
    assert len(by_id) == len(spans.ended) == spans.started == 4  # the step, the chat, two calls
    for span in spans.ended:
        if span.parent is not None:
            parent = by_id[span.parent.span_id]
            assert (parent.start_time or 0) <= (span.start_time or 0) <= (span.end_time or 0) <= (parent.end_time or 0)
    told = {span.name: (span.attributes or {}) for span in spans.ended}
    assert told["execute_tool double"]["streamtools.call.outcome"] == "ok"
    assert told["execute_tool sleep"]["streamtools.call.outcome"] == "cancelled"
    (cancelled,) = [span for span in spans.ended if span.name == "execute_tool sleep"]
    assert cancelled.status.status_code is StatusCode.ERROR
