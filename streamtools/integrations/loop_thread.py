"""Runs an event loop in a thread of its own, for code that has none.

There is one for the process, made when it is first asked for. Its thread is a daemon, so that it keeps no program
alive; the end of a program waits for a moment until its tasks are done.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextvars import Context
from typing import Any

import anyio
from anyio.lowlevel import EventLoopToken, current_token

__all__ = ["loop_of_its_own", "spawn_there"]

_AT_EXIT_S = 1.0  # the rest of a trace takes milliseconds; a tool that nobody waits for any more may take longer

_lock = threading.Lock()
_running: list[EventLoopToken] = []
_tasks: dict[Any, Future[None]] = {}  # asyncio itself holds its tasks weakly


def loop_of_its_own() -> EventLoopToken:
    """Returns the event loop, asyncio's, that runs in a thread of its own."""
    with _lock:
        if not _running:
            begun: Future[EventLoopToken] = Future()
            threading.Thread(target=anyio.run, args=(_serve, begun), name="streamtools loop", daemon=True).start()
            _running.append(begun.result())
        return _running[0]


def spawn_there(run: Callable[[Any], Coroutine[Any, Any, None]], value: Any, context: Context) -> None:
    """Starts a task in that event loop, from any other thread. It must contain its errors."""
    loop: Any = loop_of_its_own().native_token

    def start() -> None:  # not by anyio, which finds the loop by its task, and this is no task's code
        task = loop.create_task(run(value))
        _tasks[task] = Future()
        task.add_done_callback(_ended)

    loop.call_soon_threadsafe(start, context=context)


def _ended(task: Any) -> None:
    _tasks.pop(task).set_result(None)


@atexit.register
def _settle() -> None:
    """Waits for a moment until what runs is done."""
    wait(list(_tasks.values()), _AT_EXIT_S)


async def _serve(begun: Future[EventLoopToken]) -> None:
    begun.set_result(current_token())
    await anyio.sleep_forever()


def _forget() -> None:
    """Forgets the loop of the parent process: a fork takes no thread along."""
    global _lock
    _lock = threading.Lock()
    _running.clear()
    _tasks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
