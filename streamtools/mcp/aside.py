"""Work on what a server sent, aside from the event loop, so that nothing else waits while a large list is read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple, Unpack

from anyio import CapacityLimiter, to_thread

__all__ = ["Aside"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Aside:
    """Runs one piece of work after the other in a thread.

    Who waits can be cancelled at once. The thread cannot: the work looks at `is_left` between bounded steps, and ends.
    """

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(1)  # its own, so that it does not wait for threads of anybody else
        self._left = threading.Event()

    @property
    def is_left(self) -> bool:
        """Nobody waits for the work any more."""
        return self._left.is_set()

    async def run(self, work: Callable[[Unpack[Ts]], T], *arguments: *Ts) -> T:
        """What `work` returns or raises."""
        done = False
        try:
            result = await to_thread.run_sync(work, *arguments, abandon_on_cancel=True, limiter=self._limiter)
            done = True
            return result
        finally:
            if not done:
                self._left.set()
