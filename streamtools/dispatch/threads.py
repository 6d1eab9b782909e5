"""Sync tools in threads, and the threads that had to be given up.

Python cannot stop a thread. When a sync tool is cancelled or times out, its thread goes on to its end, unheard; how
many of those the process may have at once is bounded here, because the thread limiter forgets them on asyncio
(measured: a limiter of 2 and 30 timeouts leave 29 threads alive).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from anyio import CapacityLimiter, to_thread

from ..errors import ToolNotStarted

__all__ = ["ThreadCall", "abandoned_threads", "check_abandoned"]

_lock = threading.Lock()
_abandoned = 0


def abandoned_threads() -> int:
    """Threads of this process that still run a sync tool which was given up."""
    return _abandoned


def check_abandoned(most: int) -> None:
    """Refuse another sync tool while too many threads are given up.

    Raises:
        ToolNotStarted: there are `most` of them, or more.
    """
    if _abandoned >= most:
        text = f"not run: {_abandoned} threads are still busy with sync tools that were given up"
        raise ToolNotStarted(f"{text} (max_abandoned_threads)")


class ThreadCall:
    """One call of a sync tool in a thread.

    Args:
        late: called in the thread when the tool ends after it was given up.
    """

    def __init__(self, late: Callable[[], None] | None = None) -> None:
        self.abandoned = False
        """Nobody waits for it any more; its result and its progress go nowhere."""
        self.begun = False
        """The tool's code may have run. Once it was given up, it does not begin any more."""
        self._late = late
        self._running = False

    async def run(self, function: Callable[[], Any]) -> Any:
        """Run it and return its result. If this is cancelled, the thread is left to itself at once."""
        # How many may run is the dispatcher's business: the limiter here only keeps anyio's own from queueing them.
        boxed = await to_thread.run_sync(self._body, function, abandon_on_cancel=True, limiter=CapacityLimiter(1))
        return boxed[0] if boxed else None

    def _body(self, function: Callable[[], Any]) -> tuple[Any, ...]:
        """The result in a tuple: trio refuses a bare coroutine, which is for the dispatcher to await."""
        global _abandoned
        with _lock:
            if self.abandoned:  # given up before the thread came to it
                return ()
            self._running = self.begun = True
        try:
            return (function(),)
        finally:
            with _lock:
                self._running = False
                if self.abandoned:
                    _abandoned -= 1
            if self.abandoned and self._late is not None:
                self._late()

    def give_up(self) -> bool:
        """Stop caring. True if the tool is still running; it counts as abandoned until it ends."""
        global _abandoned
        with _lock:
            if not self.abandoned and self._running:
                _abandoned += 1
            self.abandoned = True
            return self._running
