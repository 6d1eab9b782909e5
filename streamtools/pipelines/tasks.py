"""Holds the tasks of one block: starts them, cancels them, waits for them, also when interrupted.

On trio they are those of a task group of anyio's. On asyncio they are the event loop's own, each in a cancel scope:
such a group costs four times as much for a task. The task that enters the block is cancelled as an `asyncio.TaskGroup`
cancels its own if one of them fails, so that a block costs no scope.

Why waiting is not enough on asyncio. A second Ctrl-C is raised on whatever line runs. If that is a line of the loop, a
callback is lost for ever: the one that tells of a task's end, or the one that would have woken a task; and a
cancellation may be requested, but not delivered. Waiting for such a task would never end. So a timer looks at the tasks
meanwhile: the cancellation is delivered again, a task that nothing will wake is ended from outside, and the wait ends
when all have, whoever was told of that. On a loop that does not show what it is about to run, the tasks that nothing
will wake are not known. trio keeps interrupts out of its own lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Protocol

from anyio import CancelScope, create_task_group
from anyio.abc import TaskGroup

LOOK_S = 0.1  # between two looks: a task found once may still be on its way, one found twice is lost
_CLOSINGS = 8  # how often a coroutine that awaits in its cleanup is closed

Run = Callable[[], Coroutine[Any, Any, object]]


class Tasks(Protocol):
    @property
    def group(self) -> TaskGroup | None:
        """The task group of anyio's, where there is one."""
        ...

    @property
    def is_broken(self) -> bool:
        """True once a task died of an unforeseen error, and all others were cancelled for that."""
        ...

    async def enter(self) -> None: ...

    def start(self, run: Run, context: Context | None = None, scope: CancelScope | None = None) -> None:
        """Starts a task, in a copy of the context. `scope`: the one that it enters first of all, if it has one."""
        ...

    def cancel(self) -> None:
        """Cancels all tasks, but not the block itself."""
        ...

    async def join(self, look: Callable[[float], object], watch: Run | None) -> None:
        """Waits until every task has ended, in the task that has entered; raises a group of their errors, if there are
        any.

        Meanwhile `look` is called with the loop's time: on asyncio a task that looks might be cut off itself. Elsewhere
        `watch` runs as one of the tasks.
        """
        ...


def tasks_of(loop: Any, new_scope: Callable[[], CancelScope]) -> Tasks:
    """Returns the tasks of a new block; `loop` is asyncio's, or None."""
    return GroupTasks() if loop is None else LoopTasks(loop, new_scope)


class GroupTasks:
    def __init__(self) -> None:
        self.group = create_task_group()

    @property
    def is_broken(self) -> bool:
        return self.group.cancel_scope.cancel_called

    async def enter(self) -> None:
        await self.group.__aenter__()

    def start(self, run: Run, context: Context | None = None, scope: CancelScope | None = None) -> None:
        start = self.group.start_soon
        start(run) if context is None else context.run(start, run)

    def cancel(self) -> None:
        self.group.cancel_scope.cancel()

    async def join(self, look: Callable[[float], object], watch: Run | None) -> None:
        if watch is not None:
            self.group.start_soon(watch)
        await self.group.__aexit__(None, None, None)


class LoopTasks:
    group = None

    def __init__(self, loop: Any, new_scope: Callable[[], CancelScope]) -> None:
        self.loop = loop
        self.waiter: Any = None  # a future, while the block waits for its tasks
        self.scopes: dict[Any, CancelScope] = {}  # by the tasks that are not known to have ended
        self.is_broken = False
        self._new_scope = new_scope
        self._host: Any = None  # the task that has entered, and does not leave yet
        self._is_cancelled = False
        self._is_starting = False
        self._errors: list[BaseException] = []

    async def enter(self) -> None:
        self._host = sys.modules["asyncio"].current_task()

    def start(self, run: Run, context: Context | None = None, scope: CancelScope | None = None) -> None:
        if scope is None:
            scope = self._new_scope()
            run = self._in_scope(run, scope)
        if self._is_cancelled:
            scope.cancel()
        self._is_starting = True
        try:
            create, coroutine = self.loop.create_task, self._begun(run)
            task = create(coroutine) if context is None else context.run(create, coroutine)
        finally:
            self._is_starting = False
        self.scopes[task] = scope
        task.add_done_callback(self.ended)

    async def _begun(self, run: Run) -> None:
        if self._is_starting:  # in the midst of `start`, by an eager task factory
            await sys.modules["asyncio"].sleep(0)
        await run()

    def _in_scope(self, run: Run, scope: CancelScope) -> Run:
        async def inside() -> None:
            with scope:
                await run()

        return inside

    def ended(self, task: Any) -> None:
        """Notes the end of a task; does nothing if it is known."""
        if self.scopes.pop(task, None) is None:
            return
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._errors.append(error)
        if (error is not None or task.cancelled()) and not self._is_cancelled:
            self.is_broken = True
            self.cancel()
            if self._host is not None:
                self._host.cancel()
        if not self.scopes:
            self.wake()

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def cancel(self) -> None:
        self._is_cancelled = True
        for scope in tuple(self.scopes.values()):
            scope.cancel()

    async def join(self, look: Callable[[float], object], watch: Run | None) -> None:
        host, self._host = self._host, None
        if self.is_broken:
            with suppress(sys.modules["asyncio"].CancelledError):  # it may not have been raised yet
                await sys.modules["asyncio"].sleep(0)
            host.uncancel()
        if self._runs():
            await self._wait(look, host)
        if self._errors:
            raise BaseExceptionGroup("the tasks of a block failed", self._errors)

    def _runs(self) -> bool:
        for task in tuple(self.scopes):
            if task.done():  # nobody was told yet, or ever will be
                self.ended(task)
        return bool(self.scopes)

    async def _wait(self, look: Callable[[float], object], host: Any) -> None:
        cancelled: BaseException | None = None
        looking = _Looking(self, look, host)
        with self._new_scope() as waiting:
            try:
                looking.begin()
                while self._runs():
                    self.waiter = self.loop.create_future()
                    try:
                        await self.waiter
                    except sys.modules["asyncio"].CancelledError as error:
                        cancelled, waiting.shield = error, True
                        self.cancel()
            finally:
                looking.end()
        if cancelled is not None:
            raise cancelled


@dataclass(slots=True, eq=False)
class _Looking:
    tasks: LoopTasks
    look: Callable[[float], object]
    own: Any  # the task that waits
    timer: Any = None
    idle: int = 0  # the number of looks that have found only ended tasks
    lost: dict[Any, Any] = field(default_factory=dict)

    def begin(self) -> None:
        self.timer = self.tasks.loop.call_later(LOOK_S, self._look)

    def end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def _look(self) -> None:
        tasks, loop = self.tasks, self.tasks.loop
        try:
            self.look(loop.time())
            tasks.cancel()  # unless they were: none may need so long to its end
            running = [task for task in tasks.scopes if not task.done()]
            for task in running:
                _deliver(tasks.scopes[task])
            lost = {task: task._fut_waiter for task in (*running, self.own) if _is_lost(task, loop)}
            for task, waiter in lost.items():
                if task in self.lost and self.lost[task] is waiter:
                    _end(task, loop)
            self.lost = lost
            self.idle = 0 if running else self.idle + 1
            if self.idle > 1:
                tasks.wake()
        finally:
            if not self.own.done():
                self.begin()


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
