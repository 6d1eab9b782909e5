"""Ends streams whose source has fallen silent: one task looks at all streams of an event loop, now and then.

A timer for each chunk would cost as much as decoding it, and a task for each stream 5 kB. The task lives in the task
group of one of the pipelines; when that is left, another one takes it over.
"""

from __future__ import annotations

import math
from typing import Protocol

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import RunVar

__all__ = ["IdleWatch", "Watched"]

_LOOKS = 8  # at a source within its idle timeout


class Watched(Protocol):
    """What may fall silent."""

    idle_timeout_s: float

    def look(self, now: float) -> None:
        """See whether it has been silent for too long, and end it if so. `now` is the event loop's time."""
        ...


class IdleWatch:
    """The watch of one event loop."""

    def __init__(self) -> None:
        self._groups: dict[object, TaskGroup] = {}  # of the pipelines whose block is open
        self._watched: set[Watched] = set()
        self._runs = False
        self._starting: object = None  # the owner of the group in which the task is to begin
        self._changed = anyio.Event()
        self._shortest_s = math.inf  # the idle timeout that says when the next look is due

    @staticmethod
    def current() -> IdleWatch:
        """The watch of the running event loop."""
        watch = _WATCH.get(None)
        if watch is None:
            watch = IdleWatch()
            _WATCH.set(watch)
        return watch

    def add(self, owner: object, group: TaskGroup, watched: Watched) -> None:
        """Look at `watched` until it is removed, in a task of this group or another."""
        self._groups[owner] = group
        self._watched.add(watched)
        if not self._runs:
            self._start()
        elif watched.idle_timeout_s < self._shortest_s:  # else the look that is due comes early enough for it, too
            self._changed.set()

    def remove(self, watched: Watched) -> None:
        """It is no longer to be looked at."""
        self._watched.discard(watched)

    def leave(self, owner: object) -> None:
        """The block is being left: no task may be started in its group any more."""
        self._groups.pop(owner, None)
        if self._starting is owner:  # nor may it ever begin: asyncio may have cancelled it by itself
            self._starting, self._runs = None, False
            self._start()

    def _start(self) -> None:
        owner = next(iter(self._groups), None)
        if owner is not None and self._watched:
            self._runs, self._starting = True, owner
            self._groups[owner].start_soon(self._run, owner)

    async def _run(self, owner: object) -> None:
        if self._starting is not owner:  # it was left in between, and another one has taken over
            return
        self._starting = None
        try:
            while self._watched:
                now = anyio.current_time()
                for watched in tuple(self._watched):
                    watched.look(now)
                self._changed = anyio.Event()
                self._shortest_s = min((watched.idle_timeout_s for watched in self._watched), default=0.0)
                with anyio.move_on_after(self._shortest_s / _LOOKS):
                    await self._changed.wait()
        except BaseException:  # the block that it lived in is being left
            self._groups.pop(owner, None)
            raise
        finally:
            self._runs = False
            self._start()


_WATCH: RunVar[IdleWatch] = RunVar("streamtools_idle_watch")
