"""Bounds the queue from the reading task to a pipeline's consumer.

A memory object stream costs 6 to 21 µs per event, an `Outbox` 0.7: putting never waits (the pump asks for room once per
chunk, a tool's event must not wait for a reader), and getting only waits when nothing is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint

from ..dispatch.event_loop import ring
from ..events import (
    Event,
    OutputDelta,
    ReasoningDelta,
    RefusalDelta,
    StepStart,
    TextDelta,
    ToolCallDelta,
    ToolCallFragment,
)

WAITS_UNSEEN = 64
"""How often a consumer waits before it checks for a cancellation: anyio delivers none to a task that is about to be
woken, as a task that reads a source that never waits always is."""

DELTAS = frozenset({TextDelta, ReasoningDelta, RefusalDelta, OutputDelta, ToolCallDelta, ToolCallFragment})


class ConsumerQueue(Protocol):
    """One more consumer's queue."""

    error: BaseException | None  # to be raised after the last event

    @property
    def behind(self) -> int:
        """The number of unread events if the pump waits for this reader; else 0."""
        ...

    def put(self, event: Event) -> None: ...

    async def wait_for_room(self) -> None: ...

    def close(self) -> None: ...


class Outbox:
    """A bounded queue of events from the reading task to the consumer; at `size` of them `wait_for_room` waits."""

    def __init__(self, size: int) -> None:
        self.queue: deque[Event] = deque()
        self.size = size
        self.full_at = size
        """The length of `queue` at which the pump asks for room: `size`, or 0 if a branch holds the pump up."""
        self.branches: tuple[ConsumerQueue, ...] = ()
        self.closed = False
        self.resting = False
        """True while no event comes until a call is run: a wait for an event then returns without one."""
        self.new_event: Callable[[], anyio.Event] = anyio.Event  # as `Host.new_scope`; set by the runner
        self.awaited: anyio.Event | None = None  # set by the consumer while it waits for an event
        self.waits = 0  # of the consumer
        self.room_awaited: anyio.Event | None = None  # set by the pump while it waits for room
        self.skipped_to_end: anyio.Event | None = None  # set by a consumer that wants no event, only the end

    @property
    def is_unread(self) -> bool:
        """True while the first event has not been taken, and there is no other consumer."""
        return bool(self.queue) and type(self.queue[0]) is StepStart and not self.branches

    def put(self, event: Event) -> None:
        if not self.closed:
            self.queue.append(event)
            if self.awaited is not None:
                self.wake()
            elif self.skipped_to_end is not None and len(self.queue) >= self.size:
                self.queue.clear()

    def wake(self) -> None:
        if self.awaited is not None:
            awaited, self.awaited = self.awaited, None
            ring(awaited)

    def rest(self) -> None:
        self.resting = True
        self.wake()
        if self.skipped_to_end is not None:
            ring(self.skipped_to_end)

    def close(self) -> None:
        """Closes the queue: nothing more will come, and waiting events can still be taken. Wakes all waiting tasks."""
        self.closed = True
        try:
            self.wake()
            if self.skipped_to_end is not None:
                ring(self.skipped_to_end)
        finally:
            if self.room_awaited is not None:
                ring(self.room_awaited)
                self.room_awaited = None

    def discard(self) -> None:
        """Drops the waiting events and all later ones. There is no room from now on, so the pump pauses wherever it is;
        cancel the pump first."""
        self.close()
        self.queue.clear()
        self.full_at = 0

    def fail_branches(self, error: BaseException | None) -> None:
        for branch in self.branches:
            branch.error = error

    async def wait_for_room(self) -> None:
        """Waits until the consumer, and every branch that is waited for, has taken enough, or the outbox is closed."""
        if self.skipped_to_end is not None:
            self.queue.clear()
        if self.closed or self.skipped_to_end is not None:
            await checkpoint()
        while len(self.queue) >= self.size and not self.closed:
            if self.room_awaited is None:
                self.room_awaited = anyio.Event()
            await self.room_awaited.wait()
        while self.full_at == 0 and not self.closed:
            self.full_at = self.size  # before the waiting, in which a tool's event may fill a branch again
            for branch in self.branches:
                await branch.wait_for_room()

    def make_room(self) -> None:
        """Lets the pump continue if half of the room is free; call it after taking an event from `queue`."""
        if self.room_awaited is not None and len(self.queue) <= self.size // 2:
            self.room_awaited.set()
            self.room_awaited = None

    def await_one(self) -> None:
        """Makes the next event wake the consumer."""
        self.awaited = self.new_event()
        self.waits += 1

    async def skip(self) -> None:
        """Drops events until no more will come, or none until a call is run; the last ones stay in the queue. The
        consumer is woken once, not for each event."""
        self.queue.clear()
        if self.closed or self.resting:
            return
        self.skipped_to_end = anyio.Event()
        try:
            if self.room_awaited is not None:
                self.make_room()
            await self.skipped_to_end.wait()
        finally:
            self.skipped_to_end = None
