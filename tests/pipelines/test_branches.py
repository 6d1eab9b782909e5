"""Several consumers of one pipeline: each sees every event, and is slow by its own rule."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, get_args

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from streams import anthropic, chat, hanging, stream
from test_examples import programs, run_program

from streamtools import (
    ApprovalRequested,
    Event,
    Limits,
    Observation,
    Pipeline,
    StreamEnd,
    TextDelta,
    ToolCallValidated,
    ToolContext,
    Trajectory,
    pipeline,
    tool,
)
from streamtools.errors import ConsumerTooSlow, LocalProtocolError, TruncatedStream
from streamtools.events import EventsDropped, StepEnd, StepStart, ToolProgress, ToolStarted
from streamtools.integrations import encode_event
from streamtools.pipelines.queues import Branch, BranchQueue, WhenFull
from streamtools.testing import ScriptedSource

pytestmark = pytest.mark.anyio

RULES: tuple[WhenFull, ...] = get_args(WhenFull)
every_rule = pytest.mark.parametrize("rule", RULES)
PATIENCE_S = 10


@tool(effect="pure")
async def double(n: int, ctx: ToolContext) -> int:
    """Twice n."""
    ctx.progress("half of it")
    await anyio.lowlevel.checkpoint()
    return 2 * n


CALLS = [(f"c{n}", "double", f'{{"n": {n}}}') for n in range(3)]


def text(deltas: int, finish: str | None = "stop") -> list[bytes]:
    return chat(["x"] * deltas, finish=finish)


async def read(events: AsyncIterator[Event], into: list[Event]) -> None:
    async for event in events:
        into.append(event)


async def exhaust(events: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in events]


async def step_by_step(events: AsyncIterator[Event], into: list[Event]) -> None:
    """Reads, and does something else between two events."""
    async for event in events:
        into.append(event)
        await anyio.lowlevel.checkpoint()


async def pass_on(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    async for event in events:
        yield event


def numbers(events: Iterable[Event]) -> list[int]:
    """Every `seq` that events and gaps account for, in order."""
    return [
        seq
        for event in events
        for seq in (range(event.from_seq, event.to_seq + 1) if isinstance(event, EventsDropped) else [event.seq])
    ]


def same(one: Iterable[Event], other: Iterable[Event]) -> bool:
    """Not only equal: the very objects."""
    return [id(event) for event in one] == [id(event) for event in other]


# -- who keeps up ----------------------------------------------------------------------------------------------------


@every_rule
@pytest.mark.parametrize("size", [1, 3, 256])
@pytest.mark.parametrize("whole", [False, True], ids=["a chunk an event", "all in one chunk"])
@pytest.mark.parametrize("transforms", [(), (pass_on,)], ids=["direct", "with a transform"])
async def test_a_reader_that_waits_for_events_gets_the_very_events_however_many_come_at_once(
    rule: WhenFull, size: int, whole: bool, transforms: tuple[Any, ...]
) -> None:
    body = chat(["x"] * 300, CALLS)
    events = pipeline([b"".join(body)] if whole else stream(body), tools=[double], transforms=transforms)
    branch, here, there = events.branch(size=size, when_full=rule), list[Event](), list[Event]()
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, branch, there)
            await anyio.wait_all_tasks_blocked()
            async with events:
                await read(events, here)
    assert same(there, here)
    assert numbers(there) == list(range(len(here)))
    assert isinstance(there[0], StepStart)
    assert isinstance(there[-1], StepEnd)
    assert (branch.waiting, branch.dropped) == (0, 0)


async def test_a_reader_that_is_slower_than_the_consumer_misses_nothing_if_it_is_waited_for() -> None:
    here, there = list[Event](), list[Event]()
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(chat(["x"] * 300, CALLS)), tools=[double]) as events:
            branch = events.branch(size=2)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(step_by_step, branch, there)
                await read(events, here)
    assert same(there, here[1:])  # all but the StepStart, which was before it


async def test_a_consumer_that_is_slower_than_a_branch_misses_nothing_either() -> None:
    here, there = list[Event](), list[Event]()
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(text(300)), limits=Limits(event_buffer=4)) as events:
            branch = events.branch()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read, branch, there)
                await step_by_step(events, here)
    assert same(there, here[1:])


@pytest.mark.parametrize("observed", [False, True], ids=["unobserved", "observed"])
async def test_the_order_is_that_of_the_numbers_also_where_one_event_brings_about_another(observed: bool) -> None:
    class Watcher:
        event_types = None

        def __init__(self) -> None:
            self.seen: list[Event] = []

        def on_event(self, event: Event) -> None:
            self.seen.append(event)

        def around_tool(self, call_id: str) -> None:
            return None

    watcher = Watcher()
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(
            stream(chat(["x"], CALLS)), tools=[double], observers=[watcher] if observed else []
        ) as events:
            branch = events.branch()
            here = await exhaust(events)
            there = await exhaust(branch)
    assert same(there, here[1:])
    assert numbers(there) == list(range(1, len(here)))
    assert same(watcher.seen, here if observed else [])


async def test_a_branch_does_not_change_what_the_consumer_and_the_turn_get() -> None:
    async def consume(rules: Iterable[WhenFull]) -> tuple[list[Event], str, list[Any]]:
        events = pipeline(stream(chat(["a", "b", "c"], CALLS)), tools=[double], start="turn_end")
        branches = [events.branch(size=2 if rule != "wait" else 256, when_full=rule) for rule in rules]
        async with events:
            seen = await exhaust(events)
        assert len(branches) == len(list(rules))
        return seen, events.turn.text, events.turn.messages()

    with anyio.fail_after(PATIENCE_S):
        alone, written, messages = await consume([])
        beside, *more = await consume(RULES)
    assert more == [written, messages]
    assert sorted(type(event).__name__ for event in beside) == sorted(type(event).__name__ for event in alone)


async def test_ever_so_many_branches_are_filled_and_the_slowest_that_waits_sets_the_pace() -> None:
    source = ScriptedSource(text(500))
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(source) as events, anyio.create_task_group() as tasks:
            quick = [(events.branch(size=8, when_full=rule), list[Event]()) for rule in RULES for _ in range(10)]
            stalled = [events.branch(size=8, when_full=rule) for rule in RULES]
            here: list[Event] = []
            for branch, there in quick:
                tasks.start_soon(read, branch, there)
            tasks.start_soon(read, events, here)
            await anyio.wait_all_tasks_blocked()
            assert source.position < 16
            await stalled[RULES.index("wait")].aclose()
    assert len(here) > 500
    assert all(same(there, here) or same(there, here[1:]) for _, there in quick)


@pytest.mark.parametrize("rule", ["drop_oldest", "disconnect"])
@pytest.mark.parametrize("begun", [False, True], ids=["not begun", "begun"])
async def test_a_reader_is_let_run_between_two_chunks_however_fast_the_source_is(rule: WhenFull, begun: bool) -> None:
    waited: list[int] = []

    async def at_once() -> AsyncIterator[bytes]:  # it never lets anybody run
        for chunk in text(300):
            yield chunk

    async def measure(branch: Branch) -> None:
        async for _ in branch:
            waited.append(branch.waiting)

    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            events = pipeline(at_once(), limits=Limits(event_buffer=10_000))
            branch = events.branch(size=4, when_full=rule)
            if begun:
                tasks.start_soon(measure, branch)
                await anyio.wait_all_tasks_blocked()
            async with events:
                if not begun:
                    tasks.start_soon(measure, branch)
                here = await exhaust(events)
    assert len(waited) == len(here)
    assert max(waited) < 8


# -- who does not: "wait" ----------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("transforms", [(), (pass_on,)], ids=["direct", "with a transform"])
@pytest.mark.parametrize("size", [1, 5, 50])
async def test_the_source_is_not_read_on_while_a_branch_that_is_waited_for_is_full(
    size: int, transforms: tuple[Any, ...]
) -> None:
    source, here = ScriptedSource(text(1000)), list[Event]()
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(source, transforms=transforms) as events, anyio.create_task_group() as tasks:
            branch = events.branch(size=size)
            tasks.start_soon(read, events, here)
            await anyio.wait_all_tasks_blocked()
            for taken in range(0, 100, 10):
                # One chunk may bring a few events more; half of the room is to be free before the source is asked.
                assert size // 2 < branch.waiting <= size + 3
                assert len(here) == 1 + taken + branch.waiting
                assert source.position <= len(here) + 2
                for _ in range(10):
                    await branch.__anext__()
                await anyio.wait_all_tasks_blocked()
            assert source.position >= 100
            tasks.cancel_scope.cancel()
    assert source.closed


async def take(branch: Branch, count: int) -> list[Event]:
    return [await branch.__anext__() for _ in range(min(count, branch.waiting))]


async def test_what_a_tool_reports_while_one_branch_is_waited_for_may_fill_another() -> None:
    gates = [anyio.Event(), anyio.Event()]

    @tool(effect="pure")
    async def search(ctx: ToolContext) -> None:
        """Search."""
        await gates[0].wait()
        for found in range(20):
            ctx.progress(found)
        await gates[1].wait()

    source = ScriptedSource([*anthropic(calls=[("a", "search", "{}")], stop=None), *anthropic(["x"] * 50)[1:]])
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(source, tools=[search]) as events, anyio.create_task_group() as tasks:
            wide, narrow = events.branch(size=24), events.branch(size=6)
            tasks.start_soon(exhaust, events)
            await anyio.wait_all_tasks_blocked()
            position = source.position
            assert narrow.waiting == wide.waiting < 10
            gates[0].set()
            await anyio.wait_all_tasks_blocked()
            assert wide.waiting > 24
            await narrow.aclose()
            await anyio.wait_all_tasks_blocked()
            assert source.position == position
            await wide.aclose()
            await anyio.wait_all_tasks_blocked()
            assert source.position == len(source.script)
            gates[1].set()


async def test_by_default_a_branch_holds_what_the_consumer_holds() -> None:
    source = ScriptedSource(text(100))
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(source, limits=Limits(event_buffer=10)) as events, anyio.create_task_group() as tasks:
            branch = events.branch()
            tasks.start_soon(read, events, [])
            await anyio.wait_all_tasks_blocked()
            assert 10 <= branch.waiting <= 12
            await branch.aclose()


async def test_a_tool_reports_although_every_queue_is_full() -> None:
    returned = anyio.Event()

    @tool(effect="pure")
    async def search(ctx: ToolContext) -> str:
        """Search."""
        for found in range(20):
            ctx.progress(found)
            await anyio.lowlevel.checkpoint()
        returned.set()
        return "done"

    body = chat(["x"], [("a", "search", "{}"), ("b", "search", "{}")]) + text(300)
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(body), tools=[search], limits=Limits(event_buffer=1)) as events:
            branch = events.branch(size=1)
            async with anyio.create_task_group() as tasks:
                here: list[Event] = []
                tasks.start_soon(read, events, here)
                tasks.start_soon(unlock, returned, branch, there := list[Event]())
    assert same(there, here[1:])
    assert len([event for event in there if isinstance(event, ToolProgress)]) == 40


async def unlock(when: anyio.Event, branch: Branch, into: list[Event]) -> None:
    """Read only as much as a tool needs to have started, and the rest when it has returned."""
    async for event in branch:
        into.append(event)
        if isinstance(event, ToolStarted):
            await when.wait()


# -- "drop_oldest" ---------------------------------------------------------------------------------------------------


async def test_a_reader_that_stalls_does_not_hold_up_a_source_that_never_waits() -> None:
    rounds = 0

    async def at_once() -> AsyncIterator[bytes]:
        for chunk in text(2000):
            yield chunk

    async def count() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            async with pipeline(at_once(), limits=Limits(event_buffer=10_000)) as events:
                branches = [events.branch(size=4, when_full="drop_oldest") for _ in range(10)]
                tasks.start_soon(count)
                await exhaust(events)
            tasks.cancel_scope.cancel()
    assert all(branch.dropped > 1990 for branch in branches)
    assert rounds < 100


async def test_a_reader_that_is_behind_finds_a_gap_and_what_is_new() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(text(100))) as events:
            branch = events.branch(size=3, when_full="drop_oldest")
            here = await exhaust(events)
            there = await exhaust(branch)
    start, gap, *newest = there
    assert same([start, *newest], [here[1], *here[-3:]])
    assert gap == EventsDropped(2, here[-4].seq, seq=here[-4].seq)
    assert branch.dropped == here[-4].seq - 1
    assert [type(event) for event in newest][-2:] == [StreamEnd, StepEnd]


async def test_what_concerns_a_call_and_the_ends_is_never_dropped() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(chat(["x"] * 50, CALLS)), tools=[double]) as events:
            branch = events.branch(size=1, when_full="drop_oldest")
            here = await exhaust(events)
            there = await exhaust(branch)
    kept = [event for event in here[1:] if type(event).__name__ not in DROPPED]
    assert same([event for event in there[:-1] if not isinstance(event, EventsDropped)], kept[:-1])
    assert {type(event) for event in kept} >= {ToolCallValidated, ToolStarted, Observation, StreamEnd, StepEnd}
    assert numbers(there) == list(range(1, len(here)))


DROPPED = {"TextStart", "TextDelta", "TextEnd", "ToolCallDelta", "ToolProgress", "StreamWarning"}


async def test_who_decides_about_calls_by_a_branch_that_drops_events_is_asked_about_each() -> None:
    approved = tool(double.fn, needs_approval=True)
    asked: list[ApprovalRequested] = []
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(chat(["x"] * 50, CALLS)), tools=[approved]) as events:
            branch = events.branch(size=1, when_full="drop_oldest")
            await exhaust(events)
            while branch.waiting:
                event = await branch.__anext__()
                if isinstance(event, ApprovalRequested):
                    asked.append(event)
                    assert events.approve(event)
            await exhaust(events)
            assert [event.outcome async for event in branch if isinstance(event, Observation)] == ["ok"] * 3
    assert [event.call_id for event in asked] == ["c0", "c1", "c2"]
    assert branch.dropped > 50


async def test_a_reader_that_got_much_at_once_and_then_stops_holds_no_more_than_its_size() -> None:
    gates = [anyio.Event(), anyio.Event()]
    source = ScriptedSource([gates[0], b"".join(text(300, finish=None)), gates[1], *text(1)])
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(source) as events, anyio.create_task_group() as tasks:
            branch = events.branch(size=4, when_full="drop_oldest")
            tasks.start_soon(branch.__anext__)  # it waits for an event, and takes one
            tasks.start_soon(exhaust, events)
            await anyio.wait_all_tasks_blocked()
            gates[0].set()
            await anyio.wait_all_tasks_blocked()
            assert (branch.waiting, branch.dropped) == (301, 0)
            gates[1].set()
            await anyio.wait_all_tasks_blocked()
            first, *newest = await exhaust(branch)
    assert isinstance(first, EventsDropped)
    assert len(newest) == 4
    assert branch.dropped == first.to_seq - first.from_seq + 1 >= 300
    assert isinstance(newest[-1], StepEnd)


@every_rule
async def test_a_consumer_that_reads_nothing_holds_a_bounded_number_of_events(rule: WhenFull) -> None:
    """Of all that ten thousand deltas and a hundred calls bring."""
    calls = [(f"c{n}", "double", '{"n": 1}') for n in range(100)]
    source, most = ScriptedSource(chat(["x"] * 10_000, calls)), 0
    limits = Limits(max_repeated_calls=None)
    with anyio.fail_after(60):
        async with pipeline(source, tools=[double], limits=limits) as events, anyio.create_task_group() as tasks:
            branch = events.branch(size=16, when_full=rule)

            async def watch() -> None:
                nonlocal most
                async for _ in events:
                    most = max(most, branch.waiting)

            tasks.start_soon(watch)
            await anyio.wait_all_tasks_blocked()
            if rule == "wait":
                assert source.position < 32
                tasks.cancel_scope.cancel()
    calls_events = 100 * 5 + 4  # start, end, ready, started, observation, each perhaps with a gap before it
    assert 16 <= most <= {"wait": 24, "drop_oldest": 16 + 2 * calls_events, "disconnect": 16}[rule]
    assert events.turn.complete is (rule != "wait")


async def test_steps_that_share_a_run_make_one_gap_of_the_numbers_that_each_has_dropped() -> None:
    run = Trajectory()
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(text(50)), trajectory=run) as one, pipeline(stream(text(50)), trajectory=run) as two:
            branches = [events.branch(size=4, when_full="drop_oldest") for events in (one, two)]
            here: list[list[Event]] = [[], []]
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(step_by_step, one, here[0])
                tasks.start_soon(step_by_step, two, here[1])
            there = [await exhaust(branch) for branch in branches]
    for step in (0, 1):
        gaps = [event for event in there[step] if isinstance(event, EventsDropped)]
        assert [gap.step for gap in gaps] == [step]
        lost = [event for event in here[step] if gaps[0].from_seq <= event.seq <= gaps[0].to_seq]
        assert len(lost) == branches[step].dropped
        assert len(lost) + len(there[step]) - 1 == len(here[step]) - 1  # a gap for what is lost; no StepStart
    assert any(
        gap.to_seq - gap.from_seq + 1 > branches[0].dropped for gap in there[0] if isinstance(gap, EventsDropped)
    )


Transitions = st.lists(
    st.one_of(st.integers(1, 12).map(lambda n: ("emit", n)), st.integers(1, 12).map(lambda n: ("take", n)))
)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=examples(60), deadline=None)
@given(moves=Transitions, size=st.integers(1, 9))
def test_events_and_gaps_together_account_for_every_number_once(
    backend: str, moves: list[tuple[str, int]], size: int
) -> None:
    there, here, dropped = anyio.run(interleaved, moves, size, backend=backend)
    assert numbers(there) == list(range(1, len(here)))
    gaps = [event for event in there if isinstance(event, EventsDropped)]
    assert all(gap.from_seq <= gap.to_seq == gap.seq for gap in gaps)
    assert sum(gap.to_seq - gap.from_seq + 1 for gap in gaps) == dropped
    seen = [event for event in there if not isinstance(event, EventsDropped)]
    by_seq = {event.seq: event for event in here}
    assert same(seen, [by_seq[event.seq] for event in seen])
    assert all(type(event).__name__ in DROPPED for event in here if event.seq in missing(gaps))


def missing(gaps: list[EventsDropped]) -> set[int]:
    return {seq for gap in gaps for seq in range(gap.from_seq, gap.to_seq + 1)}


async def interleaved(moves: list[tuple[str, int]], size: int) -> tuple[list[Event], list[Event], int]:
    """Let deltas and calls come, and take from a branch meanwhile, as told; then the rest."""
    emitted = sum(count for what, count in moves if what == "emit")
    calls = [(f"c{n}", "double", '{"n": 1}') for n in range(emitted // 5)]
    here, there = list[Event](), list[Event]()
    with anyio.fail_after(60):
        body, limits = chat(["x"] * emitted, calls), Limits(event_buffer=1)  # no further than is asked for
        async with pipeline(body, tools=[double], start="turn_end", limits=limits) as events:
            branch = events.branch(size=size, when_full="drop_oldest")
            for what, count in moves:
                if what == "take":
                    there += await take(branch, count)
                else:
                    here += [await events.__anext__() for _ in range(count)]
            here += await exhaust(events)
            there += await exhaust(branch)
    return there, here, branch.dropped


# -- "disconnect" ----------------------------------------------------------------------------------------------------


async def test_a_branch_that_disconnects_gives_what_waited_and_says_what_it_does_not_have() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(text(100))) as events:
            branch, there = events.branch(size=5, when_full="disconnect"), list[Event]()
            here = await exhaust(events)
            assert branch.waiting == 5
            with pytest.raises(ConsumerTooSlow, match=r"ended before event 6: 5 events waited") as caught:
                await read(branch, there)
            assert (caught.value.size, caught.value.seq) == (5, 6)
            assert await exhaust(branch) == []  # it is said once
    assert same(there, here[1:6])
    assert events.turn.complete


async def test_a_branch_that_disconnected_disturbs_nobody_and_sees_nothing_more() -> None:
    here, there = list[Event](), list[Event]()
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(text(100))) as events, anyio.create_task_group() as tasks:
            other = events.branch(size=1)
            tasks.start_soon(read, other, there)
            branch = events.branch(size=5, when_full="disconnect")
            async for event in events:
                here.append(event)
                if isinstance(event, TextDelta) and branch.waiting:
                    await take(branch, branch.waiting)  # keeps up for a while
                if event.seq == 50:
                    break
            await read(events, here)
            with pytest.raises(ConsumerTooSlow) as caught:
                await exhaust(branch)
    assert caught.value.seq > 50
    assert same(there, here[1:])


# -- when it begins and ends -----------------------------------------------------------------------------------------


@every_rule
async def test_a_branch_sees_what_comes_after_its_making(rule: WhenFull) -> None:
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(text(50)), limits=Limits(event_buffer=1)) as events:
            here = [await events.__anext__() for _ in range(20)]
            branch = events.branch(size=256, when_full=rule)
            here += await exhaust(events)
            there = await exhaust(branch)
            late = events.branch(when_full=rule)
            assert await exhaust(late) == []  # nothing comes after the end
    assert same(there, here[-len(there) :])
    assert 20 <= there[0].seq <= 22
    with pytest.raises(LocalProtocolError, match="was left: make branches before it or inside it"):
        events.branch()


async def test_a_reader_may_begin_before_the_pipeline_does() -> None:
    events, there = pipeline(stream(text(5))), list[Event]()
    branch = events.branch()
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, branch, there)
            await anyio.wait_all_tasks_blocked()
            async with events:
                here = await exhaust(events)
    assert same(there, here)


@every_rule
async def test_who_leaves_the_pipeline_ends_its_branches_with_the_closing_events(rule: WhenFull) -> None:
    @tool(effect="pure")
    async def sleep() -> None:
        """Sleep."""
        await anyio.sleep_forever()

    with anyio.fail_after(PATIENCE_S):
        async with pipeline(hanging(chat(["x"], [("a", "sleep", "{}")])), tools=[sleep]) as events:
            branch = events.branch(size=64, when_full=rule)
            async for event in events:
                if isinstance(event, ToolStarted):
                    break
        there = await exhaust(branch)
    assert numbers(there) == list(range(1, len(there) + 1))
    assert [event.outcome for event in there if isinstance(event, Observation)] == ["cancelled"]
    last = there[-1]
    assert isinstance(last, StepEnd)
    assert last.outcome == "abandoned"


@pytest.mark.parametrize("how", ["closed", "cancelled", "raised"])
async def test_a_branch_ends_however_the_pipeline_does(how: str) -> None:
    there: list[Event] = []
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                try:
                    async with pipeline(hanging(text(5, finish=None))) as events:
                        tasks.start_soon(read, events.branch(size=1), there)
                        async for event in events:
                            if not isinstance(event, TextDelta):
                                continue
                            if how == "closed":
                                await events.aclose()
                            elif how == "cancelled":
                                scope.cancel()
                            else:
                                raise KeyError(how)
                except KeyError:
                    assert how == "raised"
    last = there[-1]
    assert isinstance(last, StepEnd)
    assert last.outcome == ("cancelled" if how == "cancelled" else "abandoned")
    assert numbers(there) == list(range(1, len(there) + 1))


async def test_leaving_does_not_wait_for_a_branch_that_nobody_reads() -> None:
    source = ScriptedSource(text(1000))
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(source) as events:
            branch = events.branch(size=1)
            await events.__anext__()
            await anyio.wait_all_tasks_blocked()
    assert source.closed
    assert branch.waiting < 8


# -- errors ----------------------------------------------------------------------------------------------------------


@every_rule
async def test_a_stream_error_is_raised_at_each_branch_once_after_the_last_event(rule: WhenFull) -> None:
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(text(5, finish=None))) as events:
            branch, there = events.branch(when_full=rule), list[Event]()
            with pytest.raises(TruncatedStream) as at_the_pipeline:
                await exhaust(events)
            with pytest.raises(TruncatedStream) as at_the_branch:
                await read(branch, there)
            assert await exhaust(branch) == []
    assert at_the_branch.value is at_the_pipeline.value is events.turn.error
    end, last = there[-2:]
    assert isinstance(end, StreamEnd)
    assert end.error is at_the_branch.value
    assert isinstance(last, StepEnd)


async def test_an_error_of_the_source_comes_out_of_a_branch_as_it_was() -> None:
    mine = ConnectionResetError("mine")
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(text(5, finish=None), then=mine)) as events:
            branch = events.branch()
            for consumer in (branch, events):
                with pytest.raises(ConnectionResetError) as caught:
                    await exhaust(consumer)
                assert caught.value is mine


async def test_a_branch_that_disconnected_says_that_and_not_how_the_stream_ended() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(text(50, finish=None))) as events:
            branch, closed = [events.branch(size=5, when_full="disconnect") for _ in range(2)]
            with pytest.raises(TruncatedStream):
                await exhaust(events)
            with pytest.raises(ConsumerTooSlow):
                await exhaust(branch)
            await closed.aclose()
            assert await exhaust(closed) == []  # given up: nothing is left to be said


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "8"])
async def test_a_size_that_is_none_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match=r"size=.*: must be an integer greater than 0"):
        pipeline([]).branch(size=size)


async def test_a_rule_that_is_not_known_is_refused_by_the_names_of_those_that_are() -> None:
    with pytest.raises(ValueError, match="unknown when_full 'block'; known: wait, drop_oldest, disconnect"):
        pipeline([]).branch(when_full="block")  # type: ignore[arg-type]


# -- giving up -------------------------------------------------------------------------------------------------------


async def close(branch: Branch) -> None:
    await branch.aclose()
    await branch.aclose()


async def leave(branch: Branch) -> None:
    async with branch as same_one:
        assert same_one is branch
        await same_one.__anext__()


@pytest.mark.parametrize("give_up", [close, leave])
async def test_a_branch_that_is_given_up_holds_up_nobody_and_is_empty(give_up: Any) -> None:
    here: list[Event] = []
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(text(300))) as events, anyio.create_task_group() as tasks:
            branch = events.branch(size=4)
            tasks.start_soon(read, events, here)
            await anyio.wait_all_tasks_blocked()
            assert len(here) < 10
            await give_up(branch)
            assert branch.waiting == 0
            assert await exhaust(branch) == []
    assert isinstance(here[-1], StepEnd)
    assert (branch.waiting, events.turn.text) == (0, "x" * 300)


async def test_closing_a_branch_ends_the_loop_that_waits_for_its_next_event() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(hanging(text(3, finish=None))) as events:
            branch, there = events.branch(), list[Event]()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read, branch, there)
                await anyio.wait_all_tasks_blocked()
                await branch.aclose()
    assert len(there) == 5


async def test_of_a_branch_that_is_given_up_nothing_stays() -> None:
    async def read_a_little(events: Pipeline, rule: WhenFull) -> None:
        async with events.branch(size=4, when_full=rule) as branch:
            for _ in range(10):
                await events.__anext__()
            assert branch.waiting > 0
            await branch.aclose()
            assert branch.waiting == 0

    before = queues()
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(text(500)), limits=Limits(event_buffer=1)) as events:
            await events.__anext__()
            for rule in ("drop_oldest", "disconnect", "drop_oldest", "disconnect"):
                await read_a_little(events, rule)
            assert queues() <= before


def queues() -> set[int]:
    gc.collect()
    return {id(found) for found in gc.get_objects() if type(found) is BranchQueue}


class Held:
    """The only reference to a branch, so that it can be let go of."""

    def __init__(self, branch: Branch) -> None:
        self.branch: Branch | None = branch

    def drop(self) -> None:
        self.branch = None
        gc.collect()

    def drop_in_a_thread(self) -> None:
        thread = threading.Thread(target=self.drop)
        thread.start()
        thread.join()


@pytest.mark.parametrize("drop", [Held.drop, Held.drop_in_a_thread])
@pytest.mark.parametrize("begun", [False, True], ids=["before the pump waits", "while it waits"])
async def test_a_branch_that_nothing_refers_to_holds_up_nobody(drop: Any, begun: bool) -> None:
    here: list[Event] = []
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(text(300))) as events, anyio.create_task_group() as tasks:
            held = Held(events.branch(size=4))
            tasks.start_soon(read, events, here)
            if begun:
                await anyio.wait_all_tasks_blocked()
                assert len(here) < 10
            drop(held)
    assert isinstance(here[-1], StepEnd)


@every_rule
def test_a_branch_may_outlive_its_pipeline_and_its_event_loop(rule: WhenFull, anyio_backend: str) -> None:
    async def consume() -> tuple[Branch, Branch]:
        never_entered = pipeline([]).branch()
        async with pipeline(stream(text(20))) as events:
            branch = events.branch(size=64, when_full=rule)
            await exhaust(events)
        return branch, never_entered

    held = [*anyio.run(consume, backend=anyio_backend)]
    assert [branch.waiting > 0 for branch in held] == [True, False]
    held.clear()
    gc.collect()  # an exception in a finalizer would fail the test


async def test_a_reader_that_is_cancelled_loses_nothing_and_another_goes_on() -> None:
    source = ScriptedSource([*text(5, finish=None), gate := anyio.Event(), *text(20)])
    here, there = list[Event](), list[Event]()
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(source) as events, anyio.create_task_group() as tasks:
            branch = events.branch(size=1)
            tasks.start_soon(read, events, here)
            async with anyio.create_task_group() as readers:
                readers.start_soon(read, branch, there)
                await anyio.wait_all_tasks_blocked()
                gate.set()  # the reader is cancelled in the very moment when more comes
                readers.cancel_scope.cancel()
            await read(branch, there)
    assert same(there, here[1:])


async def test_a_reader_that_is_cancelled_where_it_waits_does_not_count_as_about_to_read() -> None:
    source = ScriptedSource([*text(5, finish=None), gate := anyio.Event(), *text(50)])
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(source) as events:
            branch = events.branch(size=4, when_full="disconnect")
            async with anyio.create_task_group() as readers:
                readers.start_soon(read, branch, [])
                await anyio.wait_all_tasks_blocked()
                readers.cancel_scope.cancel()
            gate.set()
            await exhaust(events)
            assert branch.waiting == 4
            with pytest.raises(ConsumerTooSlow):
                await exhaust(branch)


async def test_two_readers_of_one_branch_share_its_events() -> None:
    one, two, here = list[Event](), list[Event](), list[Event]()
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(text(100))) as events:
            branch = events.branch(size=2)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(step_by_step, branch, one)
                tasks.start_soon(step_by_step, branch, two)
                await read(events, here)
    assert sorted([*numbers(one), *numbers(two)]) == numbers(here)[1:]


# -- other ways to run -----------------------------------------------------------------------------------------------


async def test_a_branch_waits_on_while_a_pipeline_by_hand_rests() -> None:
    there: list[Event] = []
    with anyio.fail_after(PATIENCE_S):
        events = pipeline(stream(chat(calls=CALLS)), tools=[double], start="manual")
        async with events, anyio.create_task_group() as tasks:
            tasks.start_soon(read, events.branch(), there)
            ready = [event async for event in events if isinstance(event, ToolCallValidated)]
            assert events.resting
            for call in ready:
                await anyio.wait_all_tasks_blocked()
                assert not any(isinstance(event, StepEnd) for event in there)
                await events.run_call(call)
            await exhaust(events)
    assert [event.outcome for event in there if isinstance(event, Observation)] == ["ok"] * 3
    assert isinstance(there[-1], StepEnd)


@every_rule
async def test_a_pipeline_in_a_group_of_the_callers_has_branches_too(rule: WhenFull) -> None:
    there: list[Event] = []
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            events = pipeline(stream(text(300))).open(tasks)
            tasks.start_soon(read, events.branch(size=2, when_full=rule), there)
            await anyio.wait_all_tasks_blocked()
            here = await exhaust(events)
    assert same(there, here)
    with pytest.raises(LocalProtocolError):
        events.branch()


async def test_a_branch_of_a_pipeline_whose_group_was_cancelled_ends() -> None:
    there: list[Event] = []
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as readers, anyio.create_task_group() as tasks:
            events = pipeline(hanging(text(3, finish=None))).open(tasks)
            readers.start_soon(read, events.branch(), there)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    last = there[-1]
    assert isinstance(last, StepEnd)
    assert last.outcome == "cancelled"
    await events.aclose()


async def test_an_observer_that_fails_takes_no_branch_with_it() -> None:
    class Broken:
        event_types = None

        def on_event(self, event: Event) -> None:
            raise ValueError

        def around_tool(self, call_id: str) -> None:
            return None

    with anyio.fail_after(PATIENCE_S):
        async with pipeline(stream(text(5)), observers=[Broken()]) as events:
            branch = events.branch()
            here = await exhaust(events)
            there = await exhaust(branch)
    assert numbers(here) == list(range(len(here)))
    assert same(there, here[-len(there) :])


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_the_example_of_the_guide_runs(tmp_path: Path) -> None:
    guide = Path(__file__).parents[2] / "docs" / "guide" / "consumers.md"
    (shown,) = [program for program in programs(guide.read_text(encoding="utf-8")) if "drop_oldest" in program.source]
    assert run_program(shown, tmp_path) == "Hello"


async def test_a_consumer_that_leaves_early_ends_the_readers_of_a_group_around_the_pipeline() -> None:
    there: list[list[Event]] = [[] for _ in RULES]
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks, pipeline(stream(text(1000))) as events:
            for rule, into in zip(RULES, there, strict=True):
                tasks.start_soon(read, events.branch(when_full=rule), into)
            async for event in events:
                if event.seq == 20:
                    break
    assert all(isinstance(events[-1], StepEnd) for events in there)


def test_a_browser_is_told_of_a_gap() -> None:
    assert encode_event(EventsDropped(3, 7, seq=7)) == ("gap", {"from_seq": 3, "to_seq": 7})
