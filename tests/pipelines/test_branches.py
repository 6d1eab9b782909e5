"""Several consumers of one pipeline: each sees every event, and is slow by its own rule."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator, Iterable
from typing import Any, get_args

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every, examples
from streams import chat, hanging, pass_on, stream, until

from streamtools import Event, Limits, Observation, StreamEnd, TextDelta, ToolCallValidated, ToolContext, pipeline, tool
from streamtools.errors import ConsumerTooSlow, LocalProtocolError, TruncatedStream
from streamtools.events import EventsDropped, StepEnd, StepStart, ToolStarted
from streamtools.front.branches import Branch, WhenFull
from streamtools.integrations import encode_event
from streamtools.observers import Observer
from streamtools.testing import ScriptedSource

pytestmark = pytest.mark.anyio

RULES: tuple[WhenFull, ...] = get_args(WhenFull)
every_rule = every("rule", RULES)
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


@every(
    "rule, size, whole, transforms",
    [
        ("wait", 1, False, ()),
        ("wait", 256, True, (pass_on,)),
        ("drop_oldest", 1, True, (pass_on,)),
        ("drop_oldest", 3, False, ()),
        ("disconnect", 1, True, ()),
        ("disconnect", 3, False, (pass_on,)),
    ],
)
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


@every("observed", [False, True])
async def test_the_order_is_that_of_the_numbers_also_where_one_event_brings_about_another(observed: bool) -> None:
    class Watcher(Observer):
        def __init__(self) -> None:
            self.seen: list[Event] = []

        def on_event(self, event: Event) -> None:
            self.seen.append(event)

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


# -- who does not: "wait" ----------------------------------------------------------------------------------------------


async def take(branch: Branch, count: int) -> list[Event]:
    return [await branch.__anext__() for _ in range(min(count, branch.waiting))]


# -- "drop_oldest" ---------------------------------------------------------------------------------------------------


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
    with pytest.raises(LocalProtocolError, match="was left; make branches before or inside the block"):
        events.branch()


@every_rule
async def test_who_leaves_the_pipeline_ends_its_branches_with_the_closing_events(rule: WhenFull) -> None:
    @tool(effect="pure")
    async def sleep() -> None:
        """Sleep."""
        await anyio.sleep_forever()

    with anyio.fail_after(PATIENCE_S):
        async with pipeline(hanging(chat(["x"], [("a", "sleep", "{}")])), tools=[sleep]) as events:
            branch = events.branch(size=64, when_full=rule)
            await until(events, ToolStarted)
        there = await exhaust(branch)
    assert numbers(there) == list(range(1, len(there) + 1))
    assert [event.outcome for event in there if isinstance(event, Observation)] == ["cancelled"]
    last = there[-1]
    assert isinstance(last, StepEnd)
    assert last.outcome == "abandoned"


@every("how", ["closed", "cancelled", "raised"])
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


@every("size", [0, -1, 1.5, True, "8"])
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


@every("give_up", [close, leave])
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


@every("drop", [Held.drop, Held.drop_in_a_thread])
@every("begun", [False, True])
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


# -- other ways to run -----------------------------------------------------------------------------------------------


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


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_a_browser_is_told_of_a_gap() -> None:
    assert encode_event(EventsDropped(3, 7, seq=7)) == ("gap", {"from_seq": 3, "to_seq": 7})
