"""Threads for sync tools, and a count of those that had to be given up.

Python cannot stop a thread. When a sync tool is cancelled or times out, its thread goes on to its end, but nobody takes
its result; the number of such threads in a process is bounded here. The threads are daemons of ours: a tool that never
ends keeps no program alive (threads of event loops' own pools do,
https://docs.python.org/3/library/threading.html).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any

import anyio
from anyio.lowlevel import current_token

from ..errors import ToolNotStarted
from ..event_loop import call_soon

__all__ = ["ThreadCall", "WorkerThread", "abandoned_threads", "check_abandoned", "take_thread"]

IDLE_S = 10.0  # after which a thread without work ends

_lock = threading.Lock()
_abandoned = 0
_idle: list[WorkerThread] = []


def _forget() -> None:
    """Forgets the threads of the parent process: a fork takes none along."""
    global _lock, _abandoned
    _lock, _abandoned = threading.Lock(), 0
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def abandoned_threads() -> int:
    """Returns how many threads of this process still run a sync tool which was given up."""
    return _abandoned


def check_abandoned(most: int) -> None:
    """Refuses another sync tool while too many threads are given up.

    Raises:
        ToolNotStarted: there are `most` of them, or more.
    """
    if _abandoned >= most:
        text = f"not run: {_abandoned} threads are still busy with sync tools that were given up"
        raise ToolNotStarted(f"{text} (max_abandoned_threads)")


class WorkerThread:
    """A daemon thread that does one piece of work after the other."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._serve, name="streamtools tool", daemon=True).start()

    def do(self, work: Callable[[], None]) -> None:
        """Has the thread do this work, which must not raise, and then be idle again."""
        self._work.put(work)

    def put_back(self) -> None:
        """Makes the thread idle again."""
        with _lock:
            _idle.append(self)

    def _serve(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=IDLE_S)
            except Empty:
                with _lock:
                    if self in _idle:  # else it was just taken
                        _idle.remove(self)
                        return
                continue
            work()
            del work  # so that an idle thread keeps no call's arguments alive
            self.put_back()


def take_thread() -> WorkerThread:
    """Returns an idle thread, or a new one.

    Raises:
        ToolNotStarted: the system has none.
    """
    with _lock:
        if _idle:
            return _idle.pop()
    try:
        return WorkerThread()
    except RuntimeError as error:  # "can't start new thread"
        raise ToolNotStarted("not run: no thread could be started") from error


class ThreadCall:
    """One call of a sync function in a thread, in which `late` is called if the function ends after it was given up."""

    def __init__(self, late: Callable[[], None] | None = None) -> None:
        self.abandoned = False
        """True once nobody waits for the call any more; its result and its progress go nowhere."""
        self._late = late
        self._running = False
        self._result: Any = None
        self._raised: BaseException | None = None

    async def run(self, thread: WorkerThread, function: Callable[[], Any]) -> Any:
        """Runs the function in this thread; returns its result. If cancelled, leaves the thread to itself at once."""
        done, token, context = anyio.Event(), current_token(), copy_context()
        if (sniffio := sys.modules.get("sniffio")) is not None:  # no event loop runs there: a tool may run one
            context.run(sniffio.current_async_library_cvar.set, None)

        def work() -> None:
            if context.run(self._body, function):
                call_soon(token, done.set)

        thread.do(work)
        await done.wait()
        if self._raised is not None:
            raise self._raised
        return self._result

    def _body(self, function: Callable[[], Any]) -> bool:
        """Runs the function; returns whether somebody waits for its end."""
        global _abandoned
        with _lock:
            if self.abandoned:  # given up before the thread came to it
                return False
            self._running = True
        try:
            self._result = function()
        except BaseException as error:  # SystemExit, too: it is the tool's, and this is not the main thread
            self._raised = error
        with _lock:
            self._running = False
            if not self.abandoned:
                return True
            _abandoned -= 1
        if self._late is not None:
            self._late()
        return False

    def give_up(self) -> bool:
        """Gives the call up; returns True if the function is still running. Its thread then counts as abandoned until
        it ends."""
        global _abandoned
        with _lock:
            if not self.abandoned and self._running:
                _abandoned += 1
            self.abandoned = True
            return self._running
