"""Lifetimes, looked at for what breaks them: bounds of branches, ends at rest, cancellation without a scope."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
import trio.testing
from streams import anthropic, chat, hanging, sse, stream

from streamtools import Event, Limits, Observation, TextDelta, ToolCallValidated, ToolContext, Turn, pipeline, tool
from streamtools.dispatch import CallPool
from streamtools.errors import LocalProtocolError, RequestError, TruncatedStream
from streamtools.events import StepEnd, ToolProgress
from streamtools.pipelines.agent_loop import agent_loop
from streamtools.pipelines.queues import WhenFull
from streamtools.stages import DEFAULT

asynchronous = pytest.mark.anyio
PATIENCE_S = 10
CHAT = "openai.chat_completions"
ASKED = [{"role": "user", "content": "Hello?"}]


@tool(effect="pure")
async def sleeps() -> None:
    """Sleep for ever."""
    await anyio.sleep_forever()


@tool(effect="pure")
async def answers() -> str:
    """Answer."""
    return "yes"


async def read(events: AsyncIterator[Event], into: list[Event]) -> None:
    async for event in events:
        into.append(event)


# -- branches ----------------------------------------------------------------------------------------------------


@asynchronous
@pytest.mark.parametrize("rule", ["wait", "drop_oldest"])
async def test_what_a_tool_reports_is_bounded_for_a_branch_too_that_nobody_reads(rule: WhenFull) -> None:
    """The pump waits for such a branch, and the stream is over: only the tool goes on."""
    many, room = 3_000, 50

    @tool(effect="pure")
    async def reports(ctx: ToolContext) -> str:
        """Report much."""
        for n in range(many):
            ctx.progress(n)
            await anyio.lowlevel.checkpoint()
        return "done"

    limits = Limits(max_waiting_progress=room)
    seen: list[Event] = []
    events = pipeline(stream(anthropic(calls=[("a", "reports", "{}")])), tools=[reports], limits=limits)
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks, events:
            branch = events.branch(size=10, when_full=rule)
            tasks.start_soon(read, events, seen)
            while not any(isinstance(event, Observation) for event in seen[-4:]):  # leaving drops what is not taken
                await anyio.lowlevel.checkpoint()
            assert branch.waiting <= room + 10  # and the events of the stream and of the call's end
            await branch.aclose()
    reports_seen = sum(isinstance(event, ToolProgress) for event in seen)
    told = [warning for warning in events.turn.warnings if warning.code == "progress_dropped"]
    if rule == "wait":
        assert reports_seen <= room
        assert f"{many - reports_seen} reports" in told[0].detail
    else:  # it lets go what is too much for it, and disturbs nobody
        assert (reports_seen, told) == (many, [])


@asynchronous
async def test_pieces_of_calls_that_nobody_puts_together_may_go_from_a_branch_that_drops_events() -> None:
    pieces = [{"index": 0, "id": "a", "function": {"name": "answers", "arguments": ""}}]
    pieces += [{"index": 0, "function": {"arguments": " "}}] * 500
    body = sse([{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces])
    whole = stream([*body, b"data: [DONE]\n\n"])
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(whole, wire=CHAT, stages=DEFAULT.without("accumulate")) as events:
            branch = events.branch(size=10, when_full="drop_oldest")
            seen: list[Event] = []
            with pytest.raises(TruncatedStream):  # no finish reason
                await read(events, seen)
            assert len(seen) > 500
            assert branch.waiting < 30


# -- rest --------------------------------------------------------------------------------------------------------


@asynchronous
@pytest.mark.parametrize("leave", ["aclose", "the end of the block"])
@pytest.mark.parametrize("at_rest", [True, False], ids=["at rest", "in the middle"])
async def test_a_step_that_is_closed_at_rest_was_complete_however_it_is_closed(leave: str, at_rest: bool) -> None:
    body = chat(["x"], [("a", "answers", "{}")])
    source = stream(body) if at_rest else hanging(body[:2])
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(source, tools=[answers], start="manual") as events:
            branch = events.branch()
            async for event in events:
                if isinstance(event, TextDelta) and not at_rest:
                    break
            assert events.resting == at_rest
            if leave == "aclose":
                await events.aclose()
        last = [event async for event in branch][-1]
    assert isinstance(last, StepEnd)
    assert last.outcome == ("complete" if at_rest else "abandoned")


# -- silence -----------------------------------------------------------------------------------------------------


def test_a_transform_that_takes_long_is_not_the_sources_silence() -> None:
    async def looks_it_up(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            if isinstance(event, TextDelta):
                await anyio.sleep(1_000)
            yield event

    async def main() -> None:
        async with pipeline(stream(chat(["x"], finish="stop")), transforms=[looks_it_up]) as events:
            assert [event.text async for event in events if isinstance(event, TextDelta)] == ["x"]
        assert events.turn.complete

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_source_that_falls_silent_behind_a_transform_that_took_long_is_truncated() -> None:
    async def takes_long(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            await anyio.sleep(500)
            yield event

    async def main() -> None:
        limits = Limits(idle_timeout=100)
        async with pipeline(hanging(chat(["x"], finish=None)), transforms=[takes_long], limits=limits) as events:
            begun = None
            with pytest.raises(TruncatedStream, match="silent"):
                async for event in events:
                    if isinstance(event, TextDelta):
                        begun = anyio.current_time()
            assert begun is not None
            assert 100 <= anyio.current_time() - begun <= 125

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_streams_that_come_and_go_keep_none_of_the_others_from_being_watched() -> None:
    """Each ends within a quarter more than its own time, whatever times the others have."""
    ended: dict[float, float] = {}

    async def one(silence_s: float, after_s: float) -> None:
        await anyio.sleep(after_s)
        begun = anyio.current_time()
        with pytest.raises(TruncatedStream, match="silent"):
            async with pipeline(hanging([]), limits=Limits(idle_timeout=silence_s)) as events:
                await read(events, [])
        ended[silence_s] = anyio.current_time() - begun

    async def leaves(silence_s: float, after_s: float, stays_s: float) -> None:
        await anyio.sleep(after_s)
        async with pipeline(hanging([]), limits=Limits(idle_timeout=silence_s)):
            await anyio.sleep(stays_s)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leaves, 1_000.0, 0, 30)  # the watch begins with it, and looks seldom
            tasks.start_soon(one, 8.0, 1)
            tasks.start_soon(leaves, 0.5, 2, 0.2)  # it looks often for a while
            tasks.start_soon(one, 40.0, 3)
            tasks.start_soon(one, 2.0, 25)
            tasks.start_soon(one, 4.0, 500)  # nobody was watched for long

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert sorted(ended) == [2.0, 4.0, 8.0, 40.0]
    for silence_s, took_s in ended.items():
        assert silence_s <= took_s <= silence_s * 1.25, silence_s


# -- asyncio's own cancellation ----------------------------------------------------------------------------------


class CancelAll:
    """Cancels every task but the one that it was made in, as an event loop does that ends: by itself, without a scope,
    and right after a call was ready, so that the call's task has not begun."""

    event_types = frozenset({ToolCallValidated})

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        self.spared = asyncio.current_task()

    def on_event(self, event: Event) -> None:
        if isinstance(event, ToolCallValidated) and event.call.call_id == self.call_id:
            asyncio.get_running_loop().call_soon(self.cancel)

    def cancel(self) -> None:
        for task in asyncio.all_tasks() - {self.spared}:
            task.cancel()

    def around_tool(self, call_id: str) -> None:
        return None


never_begun = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
"""That is what asyncio says of such tasks."""


async def comes_to_an_end(work: Coroutine[Any, Any, None]) -> None:
    done, _ = await asyncio.wait([asyncio.ensure_future(work)], timeout=PATIENCE_S)
    assert len(done) == 1, "it waits for ever"


@never_begun
@pytest.mark.parametrize("call_id", ["a", "b"], ids=["no call has begun", "another call has begun"])
def test_a_block_ends_although_a_call_was_cancelled_by_itself_before_its_first_step(call_id: str) -> None:
    shared = CallPool()
    turns: list[Turn] = []

    async def slowly(items: list[bytes]) -> AsyncIterator[bytes]:
        for item in items:
            for _ in range(5):
                await anyio.lowlevel.checkpoint()  # so that the first call begins before the second is there
            yield item
        await anyio.sleep_forever()

    async def use(observer: CancelAll) -> None:
        body = anthropic(calls=[("a", "sleeps", "{}"), ("b", "sleeps", "{}")], stop=None)
        events = pipeline(slowly(body), tools=[sleeps], pool=shared, observers=[observer])
        try:
            async with events:
                await read(events, [])
        finally:
            turns.append(events.turn)

    async def main() -> None:
        await comes_to_an_end(use(CancelAll(call_id)))

    asyncio.run(main())
    gc.collect()
    (turn,) = turns
    outcomes = [(seen.call_id, seen.outcome) for seen in turn.observations]
    assert outcomes == [(known, "cancelled") for known in "ab"[: 1 + (call_id == "b")]]
    assert (shared.running, shared.waiting) == (0, 0)  # who shares it may go on


@never_begun
def test_closing_ends_although_the_pipelines_task_was_cancelled_by_itself_before_its_first_step() -> None:
    async def use(observer: CancelAll) -> None:
        async with anyio.create_task_group() as tasks:
            events = pipeline(hanging([])).open(tasks)
            observer.cancel()
            try:
                await read(events, [])
            finally:
                with anyio.CancelScope(shield=True):
                    await events.aclose()

    async def main() -> None:
        await comes_to_an_end(use(CancelAll("none")))

    asyncio.run(main())
    gc.collect()


@never_begun
def test_streams_are_watched_although_the_task_that_watches_was_cancelled_by_itself_before_its_first_step() -> None:
    async def cut() -> None:
        async with pipeline(hanging([])):
            CancelAll("none").cancel()  # all but this one, which leaves

    async def falls_silent() -> None:
        with pytest.raises(TruncatedStream, match="silent"):
            async with pipeline(hanging([]), limits=Limits(idle_timeout=0.01)) as events:
                await read(events, [])

    async def main() -> None:
        await cut()
        await asyncio.wait_for(falls_silent(), PATIENCE_S)

    asyncio.run(main())
    gc.collect()


@pytest.mark.parametrize("middleware", ["the block", "the loop"])
@pytest.mark.parametrize("by", ["timeout", "cancel"])
def test_asyncios_own_ways_to_cancel_stop_all_and_leave_no_request_behind(middleware: str, by: str) -> None:
    stopped: list[str] = []

    async def main() -> None:
        working, cut = asyncio.Event(), asyncio.timeout(None)
        reader = asyncio.current_task()
        assert reader is not None

        @tool(effect="pure")
        async def works() -> None:
            """Work for ever."""
            working.set()
            try:
                await anyio.sleep_forever()
            finally:
                stopped.append("the tool")

        async def cut_it() -> None:
            await working.wait()
            reader.cancel() if by == "cancel" else cut.reschedule(0)

        async def inside_the_cut(work: Coroutine[Any, Any, None]) -> None:
            with pytest.raises(asyncio.CancelledError if by == "cancel" else TimeoutError):
                async with cut:
                    await work
            assert (reader.uncancel() if by == "cancel" else reader.cancelling()) == 0

        async def block() -> None:
            async with events:
                await read(events, [])

        cutting = asyncio.ensure_future(cut_it())
        events = pipeline(hanging(anthropic(calls=[("a", "works", "{}")], stop=None)), tools=[works])
        if middleware == "the block":
            await inside_the_cut(block())
        else:
            async with events:
                await inside_the_cut(read(events, []))
                assert stopped == []  # who reads was told, and the block goes on
        await cutting
        assert [seen.outcome for seen in events.turn.observations] == ["cancelled"]
        async with anyio.create_task_group() as tasks:  # a request that is left behind would come out here
            tasks.start_soon(anyio.lowlevel.checkpoint)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
    assert stopped == ["the tool"]


# -- runs of many steps ------------------------------------------------------------------------------------------


@asynchronous
async def test_a_run_is_iterated_in_one_task_and_no_second_one_asks_the_model_too() -> None:
    asked: list[int] = []
    making, go_on = anyio.Event(), anyio.Event()

    async def ask(messages: list[Any], tools: list[Any]) -> AsyncIterator[bytes]:
        asked.append(len(messages))
        making.set()
        await go_on.wait()
        return stream(chat(["Hi."], finish="stop"))

    seen: list[Event] = []
    with anyio.fail_after(PATIENCE_S):
        async with agent_loop(ask, ASKED, wire=CHAT) as run, anyio.create_task_group() as tasks:
            tasks.start_soon(read, run, seen)
            await making.wait()
            with pytest.raises(LocalProtocolError, match="in one task"):
                await run.finish()
            go_on.set()
    assert asked == [1]
    assert run.outcome == "answered"
    assert isinstance(seen[-1], StepEnd)


@asynchronous
async def test_a_reader_of_a_run_that_was_cancelled_may_be_followed_by_another() -> None:
    body = chat(["one", "two"], finish="stop")
    with anyio.fail_after(PATIENCE_S):
        async with agent_loop(lambda *_: hanging(body[:2]), ASKED, wire=CHAT) as run:
            with anyio.CancelScope() as scope:
                async for event in run:
                    if isinstance(event, TextDelta):
                        scope.cancel()
            assert scope.cancelled_caught
            with anyio.CancelScope() as scope:
                scope.cancel()
                await run.__anext__()  # not refused: nobody waits any more
            assert scope.cancelled_caught
    assert run.outcome == "left"


@asynchronous
async def test_a_run_whose_first_request_has_failed_is_over_and_asks_no_more() -> None:
    async def ask(messages: list[Any], tools: list[Any]) -> None:
        raise ConnectionError("no route")

    async with agent_loop(ask, ASKED, wire=CHAT) as run:
        with pytest.raises(ConnectionError):
            await run.finish()
        assert isinstance((await run.finish()).error, RequestError)
    assert (run.outcome, len(run.turns)) == ("error", 1)


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ({"start": "sometimes"}, ValueError),
        ({"on_source_error": "ignore"}, ValueError),
        ({"executor": 5}, TypeError),
        ({"limits": 3}, TypeError),
        ({"wire": "morse"}, ValueError),
    ],
    ids=str,
)
def test_an_option_that_no_step_could_take_is_refused_before_the_model_is_asked(
    option: dict[str, Any], error: type[Exception]
) -> None:
    """Else a request would be paid for, and its stream be left open."""
    with pytest.raises(error, match=f"{next(iter(option))}|morse"):
        agent_loop(lambda *_: None, ASKED, tools=[answers], **{"wire": CHAT, **option})


@asynchronous
async def test_a_stream_that_a_run_was_given_and_never_read_is_closed() -> None:
    class Given:
        closed = False

        def __aiter__(self) -> Given:
            return self

        async def __anext__(self) -> bytes:
            raise AssertionError("it is not read")

        async def aclose(self) -> None:
            self.closed = True

    given, scope = Given(), anyio.CancelScope()

    async def ask(messages: list[Any], tools: list[Any]) -> Given:
        scope.cancel()
        return given

    run = agent_loop(ask, ASKED, wire=CHAT)
    with scope:
        async with run:
            await read(run, [])
    assert (run.outcome, given.closed) == ("left", True)
