"""Whose cancellation is it: one that was asked of this task, or one that code within it let out?"""

from __future__ import annotations

import math
import sys

import anyio

__all__ = ["is_cancelled"]


def is_cancelled() -> bool:
    """Whether this task is to stop: a scope around it was cancelled, or, on asyncio, the task itself.

    A cancellation that is met where this is False comes from elsewhere, say from a cancelled task that was awaited. An
    event loop that ends cancels each task by itself, without a scope (``asyncio.Task.cancelling``).
    """
    if anyio.current_effective_deadline() == -math.inf:
        return True
    asyncio = sys.modules.get("asyncio")  # not there: another loop runs
    if asyncio is None:
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # another loop runs
        return False
    return task is not None and task.cancelling() > 0
