"""Holds the tasks of one block: starts them, cancels them, and waits for them, even when interrupted.

On trio they belong to a task group of anyio. On asyncio they are the event loop's own, each in a cancel scope: such a
group costs four times as much per task. The task that enters the block is cancelled as an `asyncio.TaskGroup` cancels
its own if one of them fails, so a block costs no scope.

Why waiting is not enough on asyncio. A second Ctrl-C is raised on whatever line runs. If that is a line of the loop, a
callback is lost for ever: the one that reports a task's end, or the one that would have woken a task; and a
cancellation may be requested, but not delivered. Waiting for such a task would never end. So a timer checks the tasks
meanwhile: it delivers the cancellation again, and ends a task that nothing will wake from outside. The wait ends when
all tasks have ended, even if that was not reported. On a loop that does not show what it is about to run, the tasks
that nothing will wake are not known. trio keeps interrupts out of its own lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeAlias

from anyio import CancelScope, create_task_group

LOOK_S = 0.1  # between two looks: a task found once may still be on its way, one found twice is lost
_CLOSINGS = 8  # how often a coroutine that awaits in its cleanup is closed

Run = Callable[[], Coroutine[Any, Any, object]]
Tasks: TypeAlias = "GroupTasks | LoopTasks"


class GroupTasks:
    def __init__(self) -> None:
        self.group = create_task_group()

    @property
    def is_cancelled(self) -> bool:
        return self.group.cancel_scope.cancel_called

    has_failed = is_cancelled

    async def enter(self) -> None:
        await self.group.__aenter__()

    def start(self, run: Run, context: Context, scope: CancelScope | None = None) -> None:
        context.run(self.group.start_soon, run)

    def cancel(self) -> None:
        self.group.cancel_scope.cancel()

    async def join(self, look: Callable[[float], object], watch: Run | None) -> None:
        if watch is not None:
            self.group.start_soon(watch)
        await self.group.__aexit__(None, None, None)


class LoopTasks:
    group = None

    def __init__(self, loop: Any, new_scope: Callable[[], CancelScope]) -> None:
        self.has_failed = False  # an unforeseen error ended a task, so all others were cancelled
        self._loop, self._new_scope = loop, new_scope
        self._scopes: dict[Any, CancelScope] = {}  # by the tasks that are not known to have ended
        self._errors: list[BaseException] = []
        self._host: Any = None  # the task that has entered; None again once it leaves
        self.is_cancelled = False
        self._is_starting = False
        self._waiter: Any = None  # a future, while the block waits for its tasks
        self._idle = 0  # the number of looks that have found only ended tasks
        self._lost: dict[Any, Any] = {}

    async def enter(self) -> None:
        self._host = sys.modules["asyncio"].current_task()

    def start(self, run: Run, context: Context, scope: CancelScope | None = None) -> None:
        """Starts a task in a copy of the context. `scope`: the cancel scope that it enters first, if it has one."""
        around = self._new_scope() if scope is None else scope
        if self.is_cancelled:
            around.cancel()
        self._is_starting = True
        try:
            task = context.run(self._loop.create_task, self._run(run, around if scope is None else None))
        finally:
            self._is_starting = False
        self._scopes[task] = around
        task.add_done_callback(self._ended)

    async def _run(self, run: Run, scope: CancelScope | None) -> None:
        if self._is_starting:  # in the middle of `start`, by an eager task factory
            await sys.modules["asyncio"].sleep(0)
        if scope is None:
            await run()
            return
        with scope:
            await run()

    def _ended(self, task: Any) -> None:
        if self._scopes.pop(task, None) is None:
            return  # it was seen before
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._errors.append(error)
        if (error is not None or task.cancelled()) and not self.is_cancelled:
            self.has_failed = True
            self.cancel()
            if self._host is not None:
                self._host.cancel()
        if not self._scopes:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def cancel(self) -> None:
        self.is_cancelled = True
        for scope in tuple(self._scopes.values()):
            scope.cancel()

    async def join(self, look: Callable[[float], object], watch: Run | None) -> None:
        """Waits until every task has ended, in the task that has entered; raises a group of their errors, if there are
        any. Meanwhile `look` is called with the loop's time: a task that looks might be cut off itself. On trio,
        `watch` runs as one of the tasks instead."""
        host, self._host = self._host, None
        if self.has_failed:
            with suppress(sys.modules["asyncio"].CancelledError):  # it may not have been raised yet
                await sys.modules["asyncio"].sleep(0)
            host.uncancel()
        if self._runs():
            await self._wait(look, host)
        if self._errors:
            raise BaseExceptionGroup("the tasks of a block failed", self._errors)

    def _runs(self) -> bool:
        for task in tuple(self._scopes):
            if task.done():  # which was not reported, and may never be
                self._ended(task)
        return bool(self._scopes)

    async def _wait(self, look: Callable[[float], object], host: Any) -> None:
        cancelled: BaseException | None = None
        timer: Any = None

        def look_now() -> None:
            nonlocal timer
            try:
                look(self._loop.time())
                self._look(host)
            finally:
                timer = self._loop.call_later(LOOK_S, look_now)

        timer = self._loop.call_later(LOOK_S, look_now)
        try:
            with self._new_scope() as waiting:
                while self._runs():
                    self._waiter = self._loop.create_future()
                    try:
                        await self._waiter
                    except sys.modules["asyncio"].CancelledError as error:
                        cancelled, waiting.shield = error, True
                        self.cancel()
        finally:
            timer.cancel()
        if cancelled is not None:
            raise cancelled

    def _look(self, host: Any) -> None:
        self.cancel()  # in case they were not: no task may take this long to end
        running = [task for task in self._scopes if not task.done()]
        for task in running:
            _deliver(self._scopes[task])
        lost = {task: task._fut_waiter for task in (*running, host) if _is_lost(task, self._loop)}
        for task, waiter in lost.items():
            if task in self._lost and self._lost[task] is waiter:
                _end(task, self._loop)
        self._lost = lost
        self._idle = 0 if running else self._idle + 1
        if self._idle > 1:
            self._wake()


def _deliver(scope: Any) -> None:
    """Delivers a cancellation to its tasks, in case the callback that does so in each round of the loop was lost."""
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
            asyncio.Future.cancel(task)  # the base class's method ends it; a task's own would wait for its next step
