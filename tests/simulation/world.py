"""Runs programs as event loops of one interpreter on a virtual clock, in an order that one seed decides.

A `Process` is an event loop; a kill drops it, as it stands, and nothing of it runs again. The `World` steps the loops
one iteration at a time, chosen by its dice, and moves the clock only when none of them has anything to do. So a second
of waiting costs nothing, and a seed always gives the same schedule.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["Process", "StandsStill", "World"]

MAX_STEPS = 200_000


class StandsStill(Exception):
    """The processes went on for longer than any schedule takes."""


class _NoFiles:
    """A selector for loops that have no files: it never waits."""

    def select(self, timeout: float | None) -> list[Any]:
        return []


class Process(asyncio.BaseEventLoop):
    """A program: an event loop on the world's clock."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__()
        self._selector = _NoFiles()
        self.world = world
        self.name = name
        self.alive = True
        self.tasks: list[asyncio.Task[Any]] = []

    def __repr__(self) -> str:
        return self.name

    def create_task(self, *given: Any, **more: Any) -> asyncio.Task[Any]:
        task = super().create_task(*given, **more)
        self.tasks.append(task)
        return task

    def time(self) -> float:
        return self.world.now

    def _process_events(self, events: list[Any]) -> None:
        """No files, no events."""

    def _write_to_self(self) -> None:
        """No thread needs to wake it."""

    @property
    def next_at(self) -> float:
        """When the loop has something to do."""
        if self._ready:
            return self.world.now
        while self._scheduled and self._scheduled[0].cancelled():
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False
            self._timer_cancelled_count -= 1
        return self._scheduled[0].when() if self._scheduled else math.inf

    def step(self) -> None:
        """Runs one iteration of the loop."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            self._run_once()
        finally:
            asyncio._set_running_loop(before)

    def kill(self) -> None:
        """Drops the loop as it stands."""
        self.alive = False


class World:
    """The processes, the clock and the dice."""

    def __init__(self, seed: str) -> None:
        self.dice = random.Random(seed)
        self.now = 1000.0
        self.processes: list[Process] = []
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._number = 0
        self.errors: list[str] = []

    def at(self, when: float, event: Callable[[], object]) -> None:
        """Does something at a time, outside of all processes: a kill, a message on its way."""
        self._number += 1
        heapq.heappush(self._events, (when, self._number, event))

    def start(self, name: str, main: Callable[[Process], Coroutine[Any, Any, Any]]) -> Process:
        """Starts a process that runs this."""
        process = Process(self, name)
        process.set_exception_handler(lambda loop, facts: self._note(process, facts))
        self.processes.append(process)
        process.create_task(main(process))
        return process

    def _note(self, process: Process, facts: dict[str, Any]) -> None:
        if process.alive:  # the tasks of others are destroyed wherever they are
            self.errors.append(f"{process}: {facts['message']} {facts.get('exception')!r}")

    def run(self) -> None:
        """Runs until nothing is left to do.

        Raises:
            StandsStill: it does not end.
        """
        for _ in range(MAX_STEPS):
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            living = [(process.next_at, process) for process in self.processes if process.alive]
            ready = [process for when, process in living if when <= self.now]
            if ready:
                (ready[0] if len(ready) == 1 else self.dice.choice(ready)).step()
                continue
            soonest = min([when for when, _ in living] + [when for when, *_ in self._events[:1]], default=math.inf)
            if soonest == math.inf:
                return
            self.now = soonest
        raise StandsStill(f"{MAX_STEPS} steps, at {self.now:g} s")

    def close(self) -> None:
        """Drops what is left of the processes, silently."""
        for process in self.processes:
            process.alive = False
            for task in process.tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
            process.close()
