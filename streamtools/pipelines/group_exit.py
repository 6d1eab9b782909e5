"""Leaves a task group: waits for its tasks, also when interrupted. `join` is all that others need to know.

Why waiting is not enough. On asyncio a second Ctrl-C is raised on whatever line runs. If that is a line of the loop or
of anyio's group, one of two callbacks is lost for ever: the one by which the group learns of a task's end, or the one
that would have woken a task; and a cancellation may be requested, but not delivered. Waiting for such a task would
never end, and anyio's group ignores every cancellation meanwhile. So a timer looks at the tasks while the group waits:
the cancellation is delivered again, a task that nothing will wake is ended from outside, and a group that waits only
for ended tasks is told that it has none. On a loop that does not show what it is about to run, the tasks that nothing
will wake are not known. trio keeps interrupts out of its own lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from anyio.abc import TaskGroup

LOOK_S = 0.1  # between two looks: a task found once may still be on its way, one found twice is lost
_CLOSINGS = 8  # how often a coroutine that awaits in its cleanup is closed


async def join(
    group: TaskGroup,
    look: Callable[[float], object],
    watch: Callable[[], Coroutine[Any, Any, object]] | None,
    *,
    cancels: bool,
) -> None:
    """Cancels a group, unless its tasks are at their end, waits until every task of it has ended, and leaves it.

    Meanwhile `look` is called with the loop's time: on asyncio a task that looks might be cut off itself. Elsewhere
    `watch` runs as a task of the group.
    """
    if cancels and not group.cancel_scope.cancel_called:  # an interrupt came just before the cancellation
        group.cancel_scope.cancel()
    looking = None
    if "asyncio" in sys.modules and hasattr(group, "_tasks"):  # the group is asyncio's
        looking = _Looking(group, look)
    elif watch is not None:
        group.start_soon(watch)
    try:
        if looking is not None:
            looking.begin()
        await group.__aexit__(None, None, None)
    finally:
        if looking is not None:
            looking.end()


@dataclass(slots=True, eq=False)
class _Looking:
    group: Any
    look: Callable[[float], object]
    loop: Any = None
    own: Any = None  # the task that waits
    timer: Any = None
    idle: int = 0  # the number of looks that have found only ended tasks
    lost: dict[Any, Any] = field(default_factory=dict)

    def begin(self) -> None:
        import asyncio

        self.loop, self.own = asyncio.get_running_loop(), asyncio.current_task()
        self._look_later()

    def end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def _look_later(self) -> None:
        self.timer = self.loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        try:
            self.look(self.loop.time())
            self.group.cancel_scope.cancel()  # unless it was: no task may need so long to its end
            _deliver(self.group.cancel_scope)
            running = [task for task in self.group._tasks if not task.done()]
            lost = {task: task._fut_waiter for task in (*running, self.own) if _is_lost(task, self.loop)}
            for task, waiter in lost.items():
                if task in self.lost and self.lost[task] is waiter:
                    _end(task, self.loop)
            self.lost = lost
            self.idle = 0 if running else self.idle + 1
            if self.idle > 1:
                self.group._tasks.clear()
                if (waiter := getattr(self.own, "_fut_waiter", None)) is not None and not waiter.done():
                    waiter.set_result(None)
        finally:
            if not self.own.done():
                self._look_later()


def _deliver(scope: Any) -> None:
    """Delivers a cancellation to its tasks, if the callback that does so in each round of the loop was lost."""
    handle, deliver = getattr(scope, "_cancel_handle", None), getattr(scope, "_deliver_cancellation", None)
    if deliver is not None:
        if handle is not None:
            handle.cancel()
        deliver(scope)


def _is_lost(task: Any, loop: Any) -> bool:
    """Returns whether nothing will wake a task: it waits for nothing, or for something that is over, and the loop is
    not about to run it. Returns False if the task or the loop does not show that."""
    waiter, ready = getattr(task, "_fut_waiter", loop), getattr(loop, "_ready", None)
    if ready is None or not (waiter is None or (hasattr(waiter, "done") and waiter.done())):
        return False
    return not any(getattr(handle._callback, "__self__", None) is task for handle in tuple(ready))


def _end(task: Any, loop: Any) -> None:
    """Ends a task that nothing will wake, as if it had been cancelled where it is. The task's cleanup runs as far as
    it does not await."""
    import asyncio

    coroutine = task.get_coro()
    # https://docs.python.org/3/library/asyncio-extending.html#task-lifetime-support
    asyncio.tasks._enter_task(loop, task)
    try:
        for _ in range(_CLOSINGS):
            try:
                coroutine.close()
                break
            except RuntimeError:  # it has awaited
                continue
    finally:
        try:
            asyncio.tasks._leave_task(loop, task)
        finally:
            asyncio.Future.cancel(task)  # the base class' ends it; a task's own would wait for its next step
