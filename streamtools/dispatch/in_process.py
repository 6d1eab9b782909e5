"""Runs calls in this process: async tools step by step in the caller's task, sync tools in threads.

Theory of operation. Cancellation in anyio and trio is level-triggered: each further ``await`` is cancelled too, so
that a rollback in a tool's ``finally`` would be cut off where ``asyncio.Task.cancel()`` would let it finish. Here,
after the first cancellation that arrives from outside, the next suspension raises a shield around the code, until the
grace is over. On trio the shield is not raised before the nurseries that the code has open are closed: a nursery takes
a cancellation for its own, and swallows it, if it sees none around it. A cleanup within such a nursery is cut off.

Python cannot stop a thread: if a sync tool is cancelled or times out, its thread continues and its result is dropped.
The number of such threads is bounded in each process. They are daemon threads: a tool that never ends keeps no program
alive (threads of event loops' own pools do, https://docs.python.org/3/library/threading.html).
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import aclosing, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from inspect import isasyncgen, isawaitable
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any, Protocol

import anyio
from anyio import CancelScope, CapacityLimiter
from anyio.lowlevel import checkpoint, current_token

from ..content import FinalResult, ToolResult
from ..errors import (
    ToolError,
    ToolFailed,
    ToolNotStarted,
    ToolTimeout,
)
from ..observers.contracts import carried
from ..tools import Bound, Tool
from .event_loop import call_soon, cleaning_up, from_any_thread, is_cancelled, let_out
from .executor import Begin, Emit, Invocation, context_of
from .results import tool_error

_NOTHING = nullcontext()


class HasThreads(Protocol):
    @property
    def threads(self) -> CapacityLimiter:
        """The limiter of the threads for sync tools, made in the event loop on first use."""
        ...


async def run_in_process(
    tool: Tool[..., Any],
    bound: Bound,
    call: Invocation | None,
    begin: Begin,
    emit: Emit,
    places: HasThreads,
    max_abandoned: int,
    late: Callable[[], None] | None = None,
) -> Any:
    """Runs one call in this process, as `Executor.run` does. A sync tool is refused while `max_abandoned` given-up
    threads are busy; `late` is called in the thread when one that was given up ends. Only an async tool that wants no
    context may have no `call`."""
    if tool.is_async:
        seconds, body = await begin(), _Body(tool, bound, call, emit)
        return await (body.value() if seconds == math.inf else _within(seconds, body.value()))
    assert call is not None, "a sync tool has one"
    if places.threads.available_tokens <= 0:
        call.waits_for("thread")
    async with places.threads:
        if _abandoned >= max_abandoned:
            text = f"not run: {_abandoned} threads are still busy with sync tools that were given up"
            raise ToolNotStarted(f"{text} (max_abandoned_threads)")
        worker, thread, begun = take_thread(), ThreadCall(late), False
        try:
            seconds = await begin()
            begun = True
            return await _within(seconds, _Body(tool, bound, call, emit, thread, worker).value())
        finally:
            if not begun:
                worker.put_back()
            call.left_running = thread.give_up()


@dataclass(slots=True, eq=False)
class _Body:
    tool: Tool[..., Any]
    bound: Bound
    call: Invocation | None
    emit: Emit
    thread: ThreadCall | None = None
    worker: WorkerThread | None = None
    over: bool = False

    async def value(self) -> Any:
        try:
            with carried(self.call.carrier) if self.call is not None and self.call.carrier else _NOTHING:
                return await awaited(self.tool.name, await self._called(), self._report)
        except BaseException as error:
            found = as_tool_error(self.tool.name, error)
            if isinstance(found, ToolNotStarted):
                found.by_tool = True
            if found is error:
                raise
            raise found from error
        finally:
            self.over = True
            self.emit = _nowhere  # a thread that still runs has the tool's context, and would keep the step alive

    async def _called(self) -> Any:
        """Calls the function and returns its value, which may be a coroutine, even if the function is a plain `def`."""
        args, kwargs = self.bound.args, self.bound.kwargs
        if self.tool.wants_context and self.call is not None:  # most do not, and a context costs 4 µs
            report = from_any_thread(self._report, self._is_over)
            args, kwargs = self.tool.complete(self.bound, context_of(self.call, report, self._is_over))
        if self.thread is None or self.worker is None:
            return self.tool.fn(*args, **kwargs)
        return await self.thread.run(self.worker, partial(self.tool.fn, *args, **kwargs))

    def _is_over(self) -> bool:
        return self.over or (self.thread is not None and self.thread.abandoned)

    def _report(self, value: Any) -> None:
        if not self._is_over():
            self.emit(value)


def _nowhere(value: Any) -> None:
    """Drops a report."""


async def awaited(tool: str, value: Any, progress: Callable[[Any], None]) -> Any:
    """Returns the value of a tool's function, awaited if it is a coroutine or an async generator. `progress` takes each
    value of a generator at once, except its result. Raises `ToolFailed` if a generator has no result: its last value
    does not count, since nothing marks it as the result."""
    if isasyncgen(value):
        return await _last_word(tool, value, progress)
    return await value if isawaitable(value) else value


async def _last_word(tool: str, values: AsyncGenerator[Any, Any], progress: Callable[[Any], None]) -> Any:
    async with aclosing(values):
        async for value in values:
            if isinstance(value, FinalResult):
                return value.value
            if isinstance(value, ToolResult):
                return value
            progress(value)
            await checkpoint()  # a generator that never awaits must not block all other tasks
    raise ToolFailed(f"the tool {tool} ended without a result")


async def _within(seconds: float, body: Coroutine[Any, Any, Any]) -> Any:
    if seconds == math.inf:
        return await body
    with anyio.move_on_after(seconds):
        return await body
    raise ToolTimeout(seconds)


def as_tool_error(tool: str, error: BaseException) -> ToolError:
    """Returns the error to raise for an error of a tool's code: the same if it is a `ToolError` that has a text, else a
    `ToolFailed`, which names only its type. Raises what is not the tool's own; see `event_loop.let_out`."""
    let_out(error)
    return tool_error(tool, error)


# -- async tools: a coroutine driven step by step, with a grace to clean up --


BLOCKED_S = 0.2  # a step that takes so long is reported


async def stepped(
    code: Coroutine[Any, Any, Any], scope: CancelScope, grace_s: float, blocked: Callable[[float], object]
) -> Any:
    """Runs a coroutine that has not begun, and returns its value. `scope` is any around the caller; for `grace_s`
    seconds the code's own cleanup may await after it was cancelled; `blocked` is called with the seconds of a step that
    took long."""
    with type(scope)() as grace:  # the same event loop's type: asking which loop runs costs as much as the scope
        try:
            return await _Driven(code, grace, grace_s, blocked, _open_nurseries())
        finally:
            if grace.shield:
                cleaning_up.set(None)
    await checkpoint()  # the grace is over: a scope that was cancelled around this is cancelled still
    raise anyio.get_cancelled_exc_class()("cancelled by the event loop, without a scope")


@dataclass(slots=True, eq=False)
class _Driven:
    code: Coroutine[Any, Any, Any]
    grace: CancelScope
    grace_s: float
    blocked: Callable[[float], object]
    nurseries: int  # the number that are open around the code
    cancelled: bool = False  # True once a cancellation has reached the code

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[Any], Any] = self.code.send
        given: Any = None
        error: BaseException | None
        while True:
            begun = perf_counter()
            try:
                wanted = step(given)
            except StopIteration as done:
                return done.value
            finally:
                took = perf_counter() - begun
                if took >= BLOCKED_S:
                    self.blocked(took)
            if self.cancelled and not self.grace.shield:
                self._shield()
            try:
                given = yield wanted
                step = self.code.send
                error = None if given is None else getattr(given, "error", None)  # trio sends an outcome
            except GeneratorExit:
                self.code.close()
                raise
            except BaseException as raised:
                step, given, error = self._throw, raised, raised
            if error is not None and isinstance(error, anyio.get_cancelled_exc_class()):
                self.cancelled = True

    def _throw(self, error: Any) -> Any:
        return self.code.throw(error)

    def _shield(self) -> None:
        """Shields the code if its cancellation came from outside; it may have come from a scope of the code's own."""
        if _open_nurseries() > self.nurseries:
            return
        if anyio.current_effective_deadline() > -math.inf:
            self.cancelled = is_cancelled()
            if not self.cancelled:
                return
        self.grace.shield = True
        if anyio.current_effective_deadline() == -math.inf:  # cancelled from within
            self.grace.shield = False
            return
        self.grace.deadline = anyio.current_time() + self.grace_s
        cleaning_up.set(anyio.get_current_task().id)


def _open_nurseries() -> int:
    """Returns how many trio nurseries this task has open; 0 on asyncio, where a group knows its own cancellation."""
    trio = sys.modules.get("trio")
    if trio is None:
        return 0
    try:
        return len(trio.lowlevel.current_task().child_nurseries)
    except RuntimeError:  # another loop runs
        return 0


# -- sync tools: threads, and a count of those that were given up --


_IDLE_S = 10.0  # after which a thread without work ends

_lock = threading.Lock()
_abandoned = 0
_idle: list[WorkerThread] = []


def _forget() -> None:
    """Forgets the threads of the parent process: a fork copies none."""
    global _lock, _abandoned
    _lock, _abandoned = threading.Lock(), 0
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def abandoned_threads() -> int:
    return _abandoned


class WorkerThread:
    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._serve, name="streamtools tool", daemon=True).start()

    def do(self, work: Callable[[], None]) -> None:
        """Runs this work, which must not raise, in the thread; the thread is then idle again."""
        self._work.put(work)

    def put_back(self) -> None:
        with _lock:
            _idle.append(self)

    def _serve(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=_IDLE_S)
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
        self.abandoned = False  # True once the call is no longer awaited; its result and progress are dropped
        self._late = late
        self._running = False
        self._result: Any = None
        self._raised: BaseException | None = None

    async def run(self, thread: WorkerThread, function: Callable[[], Any]) -> Any:
        """Runs the function in this thread; returns its result. If cancelled, stops waiting for the thread at once."""
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
