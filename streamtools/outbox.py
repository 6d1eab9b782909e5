"""The hop from the pump to the consumer: a bounded queue of events.

A memory object stream costs 6 to 21 µs per event, this 0.7: putting never waits (the pump asks for room once per
chunk, a tool's event must not wait for anybody), and getting only waits when nothing is there.

Further consumers have branches, queues of their own, which the step fills. The pump has one number to look at,
`Outbox.full_at`, whoever it is that wants it to wait.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

from .events import Event
from .into_loop import ring

if TYPE_CHECKING:
    from .branch import BranchQueue

__all__ = ["Outbox"]


class Outbox:
    """Events on their way to the consumer.

    Args:
        size: how many may wait before `wait_for_room` waits.
    """

    def __init__(self, size: int) -> None:
        self.queue: deque[Event] = deque()
        self.size = size
        self.full_at = size
        """The length of `queue` at which the pump asks for room: `size`, or 0 for a branch that holds it up."""
        self.branches: tuple[BranchQueue, ...] = ()
        """The queues of further consumers."""
        self.closed = False
        self.resting = False
        """Nothing comes unless somebody runs a call: who waits for an event is told that there is none, for now."""
        self.awaited: anyio.Event | None = None
        """Set by who waits for an event."""
        self.room_awaited: anyio.Event | None = None
        """Set by the pump while it waits for room."""

    def put(self, event: Event) -> None:
        """Add an event; never waits. A closed outbox drops it."""
        if not self.closed:
            self.queue.append(event)
            if self.awaited is not None:
                self.wake()

    def wake(self) -> None:
        """Wake whoever waits for an event."""
        if self.awaited is not None:
            awaited, self.awaited = self.awaited, None
            ring(awaited)

    def rest(self) -> None:
        """Nothing will come by itself. Wakes whoever waits for an event."""
        self.resting = True
        self.wake()

    def close(self) -> None:
        """Nothing more will come; what is here can still be had. Wakes everybody."""
        self.closed = True
        try:
            self.wake()
        finally:
            if self.room_awaited is not None:
                ring(self.room_awaited)
                self.room_awaited = None

    def discard(self) -> None:
        """Nobody takes events any more: drop those that wait, and keep none.

        There is no room from now on, so that the pump pauses wherever it is; it is to be cancelled first.
        """
        self.close()
        self.queue.clear()
        self.full_at = 0

    def hold(self) -> None:
        """Let the pump ask for room before it reads on: a branch is full."""
        self.full_at = 0

    def fail_branches(self, error: BaseException | None) -> None:
        """Have this error raised at each branch, after its last event."""
        for branch in self.branches:
            branch.error = error

    async def wait_for_room(self) -> None:
        """Wait until the consumer has taken enough, and every branch that is waited for, or the outbox was closed."""
        if self.closed:
            await checkpoint()
        while len(self.queue) >= self.size and not self.closed:
            if self.room_awaited is None:
                self.room_awaited = anyio.Event()
            await self.room_awaited.wait()
        while self.full_at == 0 and not self.closed:
            self.full_at = self.size  # before the waiting, in which a tool's event may fill a branch again
            for branch in self.branches:
                await branch.wait_for_room()

    def took_one(self) -> None:
        """An event was taken from `queue`: let the pump go on when half of the room is free."""
        if self.room_awaited is not None and len(self.queue) <= self.size // 2:
            self.room_awaited.set()
            self.room_awaited = None

    async def wait(self) -> bool:
        """Wait for an event; False when there will be none, or none by itself."""
        while not self.queue:
            if self.closed or self.resting:
                return False
            if self.awaited is None:
                self.awaited = anyio.Event()
            await self.awaited.wait()
        return True
