"""Waits for the tasks of a group, including those that a Ctrl-C has cut off from their event loop.

Theory of operation. On asyncio a second Ctrl-C is raised on whatever line runs. If that is a line of the loop or of
anyio's group, one of two callbacks is lost for ever: the one by which the group learns of a task's end, or the one that
would have woken a task; and a cancellation may be requested, but not delivered. Waiting for such a task would never
end, and anyio's group ignores every cancellation meanwhile. So the tasks are looked at from here while the group waits:
the cancellation is delivered again, a task that nothing will wake is ended from outside, and a group that waits only
for ended tasks is left. On a loop that does not show what it is about to run, the tasks that nothing will wake are not
known. trio keeps interrupts out of its own lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any

from anyio import CancelScope
from anyio.abc import TaskGroup

__all__ = ["join"]

LOOK_S = 0.1  # between two looks: a task found once may still be on its way, one found twice is lost
_CLOSINGS = 8  # how often a coroutine that awaits in its cleanup is closed


def is_looked_at(group: TaskGroup) -> bool:
    """Returns whether `join` looks after the tasks of such a group, which is one of asyncio's."""
    return "asyncio" in sys.modules and hasattr(group, "_tasks")


async def join(group: TaskGroup, look: Callable[[float], object]) -> None:
    """Cancels a group, waits until every task of it has ended, and leaves it.

    Args:
        group: the group, which is not left yet.
        look: is called from time to time meanwhile, with the loop's time, if the group `is_looked_at`: a task that did
            so might be cut off itself.
    """
    if not group.cancel_scope.cancel_called:  # an interrupt came just before the cancellation
        group.cancel_scope.cancel()
    leaving = group.__aexit__(None, None, None)
    if not is_looked_at(group):
        await leaving
        return
    tasks: Collection[Any] = getattr(group, "_tasks")  # noqa: B009 - asyncio's alone
    await _Joining(group.cancel_scope, leaving, tasks, look)


@dataclass(slots=True, eq=False)
class _Joining:
    scope: CancelScope
    leaving: Coroutine[Any, Any, object]
    tasks: Collection[Any]
    told: Callable[[float], object]
    waiter: Any = None
    timer: Any = None
    ended: int = 0
    """The number of looks that have found only ended tasks."""
    lost: dict[Any, Any] = field(default_factory=dict)
    """Tasks that seemed lost at the last look, and what they waited for."""

    def __await__(self) -> Generator[Any, Any, None]:
        import asyncio

        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        step: Callable[[Any], Any] = self.leaving.send
        given: Any = None
        try:
            self.timer = loop.call_later(LOOK_S, self._look, loop, task)
            while True:
                try:
                    self.waiter = step(given)
                except StopIteration:
                    return
                if self.ended > 1:
                    return
                try:
                    given = yield self.waiter
                    step = self.leaving.send
                except GeneratorExit:
                    raise
                except BaseException as error:
                    step, given = self.leaving.throw, error
        finally:
            try:
                self.leaving.close()  # leaves the group's scope, if that is still to be done
            finally:
                if self.timer is not None:
                    self.timer.cancel()

    def _look(self, loop: Any, own: Any) -> None:
        try:
            self.told(loop.time())
            _deliver(self.scope)
            tasks = [task for task in (*self.tasks, own) if not task.done()]
            lost = {task: task._fut_waiter for task in tasks if _is_lost(task, loop)}
            for task, waiter in lost.items():
                if task in self.lost and self.lost[task] is waiter:
                    _end(task, loop)
            self.lost = lost
            self.ended = self.ended + 1 if tasks == [own] else 0
            if self.ended > 1 and not self.waiter.done():
                self.waiter.set_result(None)
        finally:
            self.timer = loop.call_later(LOOK_S, self._look, loop, own)


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
    asyncio.tasks._enter_task(
        loop, task
    )  # https://docs.python.org/3/library/asyncio-extending.html#task-lifetime-support
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
