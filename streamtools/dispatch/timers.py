"""Calls back at times of the event loop: one timer of the loop's own for all streams, for the time that is due next.

asyncio calls back by itself, outside any task; a task is made for that only when a time is due. On trio a task sleeps,
in the task group of one of the pipelines; when that pipeline is left, another one takes the task over.

What anyio finds out anew at each call is kept here, too: which event loop runs, and what its scopes and events are.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup
from anyio.lowlevel import EventLoopToken, RunVar, current_token

_SPARE = 256  # entries of stopped timers that are kept, beyond the number of the others


class Timer:
    __slots__ = ("_timers", "callback", "of_owner")

    def __init__(self, timers: Timers, callback: Callable[[], None], of_owner: set[Timer]) -> None:
        self._timers = timers
        self.of_owner = of_owner  # the timers of its owner that run; it is among them
        self.callback: Callable[[], None] | None = callback  # none when it was called, or is not to be called any more

    def stop(self) -> None:
        if self.callback is not None:
            self.callback = None
            self.of_owner.discard(self)
            self._timers.forget_one()


class Timers:
    def __init__(self) -> None:
        self.token: EventLoopToken = current_token()
        native: Any = self.token.native_token
        self._loop: Any = native if hasattr(native, "call_at") else None  # asyncio's
        self.now: Callable[[], float] = anyio.current_time if self._loop is None else self._loop.time
        self.new_scope = type(CancelScope())
        self.new_event = type(anyio.Event())
        self._entries: list[tuple[float, int, Timer]] = []
        self._number = 0
        self._stopped = 0  # entries of stopped timers that have not come to the top yet
        # On asyncio:
        self._handle: Any = None  # of the loop's own timer
        self._calling: Any = None  # the task that calls back
        # On trio:
        self._groups: dict[object, TaskGroup] = {}  # of the pipelines whose block is open
        self._runs = False
        self._starting: object = None  # the owner of the group in which the task is to begin
        self._changed = self.new_event()
        # When it looks next; until trio's task has begun, any time is early enough.
        self._wakes_at = -math.inf if self._loop is None else math.inf

    @staticmethod
    def current() -> Timers:
        timers = _TIMERS.get(None)
        if timers is None:
            timers = Timers()
            _TIMERS.set(timers)
        return timers

    def join(self, owner: object, group: TaskGroup) -> None:
        """Lets the task live in this group, until the owner leaves."""
        if self._loop is None:
            self._groups[owner] = group
            if self._entries:
                self._start()

    def leave(self, owner: object) -> bool:
        """Starts no more tasks in the owner's group, since its block is being left; returns False if one may be
        there."""
        self._groups.pop(owner, None)
        if self._starting is owner:  # a task that was started may never begin: asyncio may have cancelled it by itself
            self._starting, self._runs = None, False
            self._start()
        return self._loop is not None

    def at(self, due: float, callback: Callable[[], None], of_owner: set[Timer]) -> Timer:
        """Calls back at a time of the event loop, or later. `callback` must not raise or wait. The timer is in
        `of_owner`, for the owner to stop, until it is over: each callback holds all that the owner holds.
        """
        timer = Timer(self, callback, of_owner)
        of_owner.add(timer)
        self._number += 1
        heapq.heappush(self._entries, (due, self._number, timer))
        if self._loop is not None:
            if due < self._wakes_at:
                self._set(due)
            return timer
        if due < self._wakes_at:
            self._changed.set()
        if not self._runs:
            self._start()
        return timer

    def forget_one(self) -> None:
        """Counts a timer that was stopped, and drops the entries of such timers when they are in the majority."""
        self._stopped += 1
        if 2 * self._stopped > len(self._entries) + _SPARE:
            self._entries = [entry for entry in self._entries if entry[2].callback is not None]
            heapq.heapify(self._entries)
            self._stopped = 0

    # -- on asyncio --

    def _set(self, due: float) -> None:
        before, self._handle = self._handle, self._loop.call_at(due, self._wake)
        self._wakes_at = due
        if before is not None:
            before.cancel()

    def _wake(self) -> None:
        self._wakes_at = math.inf
        try:
            while self._entries and self._entries[0][2].callback is None:
                heapq.heappop(self._entries)
                self._stopped -= 1
            if self._entries and self._entries[0][0] <= self._loop.time():
                self._calling = self._loop.create_task(self._call_back_in_task())
                return
        except BaseException:  # an interrupt: else nothing would be called back any more
            self._set_next()
            raise
        self._set_next()

    async def _call_back_in_task(self) -> None:
        try:
            self._call_back()
        finally:
            self._calling = None
            self._set_next()

    def _set_next(self) -> None:
        if self._entries and self._entries[0][0] < self._wakes_at:
            self._set(self._entries[0][0])

    # -- on trio --

    def _start(self) -> None:
        owner = next(iter(self._groups), None)
        if owner is not None and not self._runs:
            self._runs, self._starting, self._wakes_at = True, owner, -math.inf
            try:
                self._groups[owner].start_soon(self._run, owner)
            except BaseException:  # an interrupt: else nothing would be called back any more
                self._runs, self._starting = False, None
                raise

    async def _run(self, owner: object) -> None:
        if self._starting is not owner:  # its block was left in between, and another task has taken over
            return
        self._starting = None
        try:
            while self._call_back():
                self._changed = anyio.Event()
                self._wakes_at = self._entries[0][0]
                with anyio.CancelScope(deadline=self._wakes_at):
                    await self._changed.wait()
        except BaseException:  # the block that this task lives in is being left
            self._groups.pop(owner, None)
            raise
        finally:
            self._runs, self._changed = False, anyio.Event()  # the other one holds the loop, which holds these timers
            if self._entries:
                self._start()

    def _call_back(self) -> bool:
        now = anyio.current_time()
        while self._entries and (self._entries[0][2].callback is None or self._entries[0][0] <= now):
            timer = heapq.heappop(self._entries)[2]
            callback, timer.callback = timer.callback, None
            if callback is None:
                self._stopped -= 1
            else:
                timer.of_owner.discard(timer)
                callback()
        return bool(self._entries)


_TIMERS: RunVar[Timers] = RunVar("streamtools_timers")
