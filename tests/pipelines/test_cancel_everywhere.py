"""Left at any point, by any way: one observation per call, a history that is taken, every span ended, nothing left.

The scenario has text and six calls: one that is done at once, one that runs, one that waits for a place, one that
waits for the turn's end, one that waits for an approval, and, unless its turn is to end well, one whose arguments are
cut. Two observers and a stage of the user's watch. It is left by a cancellation at every checkpoint of the scenario and
in every round of the event loop, and at every event by a break, an error, a deadline that has passed, and a source that
breaks or ends.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from streams import anthropic

from streamtools import ApprovalRequested, Event, Limits, TextDelta, Trajectory, pipeline, tool
from streamtools.dispatch import MemoryStore, StartPolicy
from streamtools.errors import RemoteProtocolError
from streamtools.events import ToolCallStart
from streamtools.history import lint
from streamtools.observers import Cursor
from streamtools.stages import DEFAULT
from streamtools.telemetry import Tracing

pytestmark = [pytest.mark.anyio, pytest.mark.sweep]

MAX_POINTS = 2_000  # of one way of leaving; the scenario has some hundreds
CALLS = [
    ("done", "double", '{"n": 1}'),
    ("runs", "slow", '{"n": 2}'),
    ("waits", "slow", '{"n": 3}'),
    ("held", "spend", '{"amount": 4}'),
    ("asks", "ask", '{"n": 5}'),
]
CUT = ("cut", "slow", '{"n": 6')


class Left(Exception):
    """The consumer's own error."""


class Seen:
    """A stage of the user's: it changes nothing."""

    handles = frozenset({TextDelta, ToolCallStart})

    def feed(self, event: Event) -> Iterable[Event]:
        return (event,)

    def finish(self) -> Iterable[Event]:
        return ()


class Spans(SpanProcessor):
    """Counts the spans that were started, and how often each was ended."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.ended: list[int] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.started.append(span.get_span_context().span_id)

    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        assert context is not None
        self.ended.append(context.span_id)


def body(*, cut: bool) -> list[bytes]:
    if not cut:
        return anthropic(["Hi", " there"], CALLS)
    *whole, _ = anthropic(["Hi", " there"], [*CALLS, CUT], stop=None)  # the last call never ends
    return whole


@dataclass
class Run:
    """One time through the scenario."""

    spans: Spans = field(default_factory=Spans)
    cursor: Cursor = field(default_factory=Cursor)
    left: int = 0
    """Checkpoints until `scope` is cancelled; 0: never."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    start: StartPolicy = "auto"
    places: int = 1
    """How many calls may run at once."""
    breaks_after: int = -1
    """Items after which the source breaks, or ends; -1: never."""
    ends: bool = False
    cut: bool = True
    """The last call is cut, so that the turn does not end well."""
    verdict: bool | None = True
    """What is said about the call that needs an approval; None: nothing."""
    store: MemoryStore | None = None
    """Remembers what must not run twice."""
    inside: int = 0
    """Tool bodies that run."""
    announced: set[str] = field(default_factory=set)
    source_closed: bool = False
    turn: Any = None

    async def checkpoint(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.scope.cancel()
        await anyio.lowlevel.checkpoint()

    async def source(self) -> AsyncIterator[bytes]:
        try:
            for number, item in enumerate(body(cut=self.cut)):
                if number == self.breaks_after and self.ends:
                    return
                if number == self.breaks_after:
                    raise OSError("the line is dead")
                await self.checkpoint()
                yield item
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            self.source_closed = True

    def block(self) -> Any:
        provider = TracerProvider()
        provider.add_span_processor(self.spans)

        @tool(effect="pure")
        async def double(n: int) -> int:
            """Twice n."""
            return 2 * n

        @tool(effect="pure")
        async def slow(n: int) -> str:
            """Take some steps."""
            self.inside += 1
            try:
                for _ in range(4):
                    await self.checkpoint()
            finally:
                self.inside -= 1
            return "slow"

        @tool(effect="once")
        async def spend(amount: int) -> str:
            """Spend."""
            await self.checkpoint()
            return "spent"

        @tool(effect="pure" if self.cut else "once", needs_approval=True)
        async def ask(n: int) -> str:
            """Ask before."""
            assert self.verdict, "it was not approved"
            await self.checkpoint()
            return "asked"

        return pipeline(
            self.source(),
            tools=[double, slow, spend, ask],
            start=self.start,
            store=self.store,
            limits=Limits(event_buffer=2, max_concurrency=self.places),
            stages=DEFAULT.append(Seen),
            trajectory=Trajectory(observers=[Tracing(provider), self.cursor]),
        )

    async def go(self, leave_at: int = -1, how: str = "") -> int:
        """Run it; the number of events that were seen."""
        seen = 0
        events = self.block()
        try:
            async with events:
                async for event in events:
                    if isinstance(event, ToolCallStart):
                        self.announced.add(event.call_id)
                    if isinstance(event, ApprovalRequested) and self.verdict is not None:
                        await self.checkpoint()
                        _ = events.approve(event) if self.verdict else events.deny(event)  # perhaps it is too late
                    if seen == leave_at:
                        if how == "break":
                            break
                        if how == "raise":
                            raise Left
                        with anyio.move_on_after(0):
                            await anyio.lowlevel.checkpoint()
                        if how == "deadline":
                            self.scope.cancel()
                            await anyio.lowlevel.checkpoint()
                    seen += 1
                    await self.checkpoint()
        finally:
            self.turn = events.turn
        return seen

    def check(self, where: object) -> None:
        turn = self.turn
        calls = [call.call_id for call in turn.calls]
        assert [o.call_id for o in turn.observations] == calls, where
        assert self.announced <= set(calls), where
        messages = [{"role": "user", "content": "Hi"}, *turn.messages()]
        assert lint(messages, "anthropic.messages", last=True) == [], where
        assert Counter(self.spans.ended) == Counter(self.spans.started), where
        assert set(Counter(self.spans.ended).values()) <= {1}, where
        assert self.inside == 0, where
        assert self.source_closed or self.cursor.position is None or not self._source_began, where
        outcomes = {call_id: self.cursor.at(call_id).outcome for call_id in calls}
        assert None not in outcomes.values(), where

    @property
    def _source_began(self) -> bool:
        return bool(self.turn.calls or self.turn.parts)


def tasks() -> int:
    """Tasks besides this one."""
    try:
        return len(asyncio.all_tasks()) - 1
    except RuntimeError:
        return trio.lowlevel.current_statistics().tasks_living - 1


async def swallowed(run: Run, leave_at: int = -1, how: str = "") -> bool:
    """Whether the scenario came to its own end."""
    ended = False
    with run.scope:
        try:
            await run.go(leave_at, how)
            ended = how == ""
        except (Left, OSError):
            pass
        except RemoteProtocolError:  # its last call was cut, or nothing came at all
            ended = how == ""
    return ended and not run.scope.cancelled_caught


def named(way: dict[str, Any]) -> str:
    return " ".join(f"{name}={value if name != 'store' else 'memory'}" for name, value in way.items())


WAYS: list[dict[str, Any]] = [
    {"start": "auto", "places": 1},
    {"start": "early", "places": 2, "verdict": False},
    {"start": "turn_end", "places": 16, "verdict": None},
    {"start": "auto", "places": 1, "cut": False},
    {"start": "auto", "places": 16, "cut": False, "verdict": None},
    {"start": "turn_end", "places": 2, "cut": False, "verdict": False},
    {"start": "auto", "places": 2, "cut": False, "store": MemoryStore()},
]


@pytest.mark.parametrize("way", WAYS, ids=named)
async def test_a_cancellation_at_any_checkpoint_leaves_nothing_behind(
    way: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    before, threads, outcomes = tasks(), threading.active_count(), set()
    for n in range(1, MAX_POINTS):
        run = Run(left=n, **way)
        ended = await swallowed(run)
        run.check(n)
        outcomes |= {observation.outcome for observation in run.turn.observations}
        if ended:
            break
    else:
        pytest.fail("the scenario has more checkpoints than were tried")
    gc.collect()
    print(f"{n} points")
    assert n > 40
    if way.get("cut", True):
        assert outcomes >= {"truncated"} | ({"skipped"} if way["start"] == "turn_end" else {"ok", "cancelled"})
    else:
        assert outcomes >= {"ok", "cancelled", "skipped", "truncated"}
    assert tasks() == before
    assert threading.active_count() <= threads  # those of an earlier test may end meanwhile
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("way", WAYS, ids=named)
async def test_a_cancellation_in_any_round_of_the_event_loop_leaves_nothing_behind(
    way: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The scenario's own checkpoints are not all: a task of the pipeline may stand anywhere else."""
    before = tasks()
    for n in range(MAX_POINTS):
        run, ended = Run(**way), False

        async def kill(run: Run, rounds: int) -> None:
            for _ in range(rounds):
                await anyio.lowlevel.checkpoint()
            run.scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(kill, run, n)
            ended = await swallowed(run)
            group.cancel_scope.cancel()
        if run.turn is not None:  # else it was cancelled before it was there
            run.check(n)
        if ended:
            break
    else:
        pytest.fail("the scenario has more rounds than were tried")
    gc.collect()
    print(f"{n} points")
    assert n > 20
    assert tasks() == before
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("way", WAYS, ids=named)
@pytest.mark.parametrize("how", ["break", "raise", "deadline"])
async def test_leaving_at_any_event_leaves_nothing_behind(
    how: str, way: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    before = tasks()
    whole = Run(**way)
    assert await swallowed(whole)
    events = len([*whole.cursor])
    for n in range(events):
        run = Run(**way)
        await swallowed(run, n, how)
        run.check((how, n))
    gc.collect()
    print(f"{events} points")
    assert events > 20
    assert tasks() == before
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("way", WAYS, ids=named)
@pytest.mark.parametrize("ends", [False, True], ids=["breaks", "ends"])
async def test_a_source_that_breaks_or_ends_anywhere_leaves_nothing_behind(
    ends: bool, way: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    items = len(body(cut=way.get("cut", True)))
    for n in range(items):
        run = Run(breaks_after=n, ends=ends, **way)
        await swallowed(run)
        run.check(n)
    gc.collect()
    print(f"{items} points")
    assert items > 15
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []
