"""Whose cancellation is it: one that was asked of this task, or one that code within it let out?"""

from __future__ import annotations

import math
import sys
from contextvars import ContextVar

import anyio

__all__ = ["cleaning_up", "is_cancelled", "is_told"]

cleaning_up: ContextVar[int | None] = ContextVar("streamtools_cleaning_up", default=None)
"""The task in which code was cancelled, and is shielded while it cleans up."""


def is_cancelled() -> bool:
    """Whether this task is to stop: a scope around it was cancelled, or, on asyncio, the task itself.

    A cancellation that is met where this is False comes from elsewhere, say from a cancelled task that was awaited. An
    event loop that ends cancels each task by itself, without a scope (``asyncio.Task.cancelling``).
    """
    if anyio.current_effective_deadline() == -math.inf:
        return True
    if (task_id := cleaning_up.get()) is not None and task_id == anyio.get_current_task().id:
        return True
    asyncio = sys.modules.get("asyncio")  # not there: another loop runs
    if asyncio is None:
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # another loop runs
        return False
    return task is not None and task.cancelling() > 0


def is_told(error: BaseException) -> bool:
    """Whether the event loop knows already: asyncio has let an interrupt out of itself when it ended the first task.

    Raised once more, by who waited for that task, it would cut off the closing of the loop.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(is_told(inner) for inner in error.exceptions)
    if not isinstance(error, (KeyboardInterrupt, SystemExit)):
        return False
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None
