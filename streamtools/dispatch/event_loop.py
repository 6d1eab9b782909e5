"""Deals with the event loop: where a cancellation comes from, calls from other threads, work outside the loop, its
sudden end, timers."""

from __future__ import annotations

import atexit
import heapq
import math
import os
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable
from contextvars import ContextVar, copy_context
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_ITERABLE_COROUTINE
from typing import Any, Protocol

import anyio
from anyio import CancelScope, RunFinishedError, from_thread, to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import EventLoopToken, RunVar, current_token

from ..errors import LocalProtocolError, contained
from ..events import Event
from ..stages.arguments import Deferred

# -- whose cancellation is it --

cleaning_up: ContextVar[int | None] = ContextVar("streamtools_cleaning_up", default=None)
"""The task in which code was cancelled, and is shielded while it cleans up."""


def is_cancelled() -> bool:
    """Returns whether this task must stop: a scope that contains it was cancelled, or, on asyncio, the task itself."""
    # A cancellation that arrives where this is False has another origin: a tool awaited a task that was cancelled, say.
    # That is the tool's failure, and not the end of the task. A cancelled scope shows in the effective deadline.
    if anyio.current_effective_deadline() == -math.inf:
        return True
    if (task_id := cleaning_up.get()) is not None and task_id == anyio.get_current_task().id:
        return True
    # An asyncio event loop that ends cancels each task separately, without a scope (`asyncio.Task.cancelling`).
    asyncio = sys.modules.get("asyncio")  # None: another loop runs
    if asyncio is None:
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # another loop runs
        return False
    return task is not None and task.cancelling() > 0


def let_out(error: BaseException) -> None:
    """Raises an error of a user's code that has to end more than that code: an interrupt, a requested cancellation, the
    end of a coroutine that is closed. Any other, such as a native panic or ``sys.exit``, is a failure of that code."""
    trace = contained(error).__traceback__
    if isinstance(error, GeneratorExit) and (trace is None or trace.tb_next is None):
        raise error  # thrown in right where it was caught: each coroutine that is closed gets one of its own
    asked: BaseException | None = BaseExceptionGroup("", [error]).subgroup(anyio.get_cancelled_exc_class())
    while isinstance(asked, BaseExceptionGroup):
        asked = asked.exceptions[0]
    if asked is not None and is_cancelled():
        raise asked from None


def is_cancellation(kind: type[BaseException] | None) -> bool:
    return kind is not None and issubclass(kind, anyio.get_cancelled_exc_class())


def is_raised_by_loop(error: BaseException) -> bool:
    """Returns whether the event loop raises this error itself, as asyncio does with an interrupt that ends a task."""
    # Raised once more, by the code that waited for that task, the interrupt would cut off the closing of the loop.
    if isinstance(error, BaseExceptionGroup):
        return all(is_raised_by_loop(inner) for inner in error.exceptions)
    if not isinstance(error, (KeyboardInterrupt, SystemExit)):
        return False
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


# -- tasks without a group --

_AWAITS = CO_COROUTINE | CO_GENERATOR | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR
_spawned: set[Any] = set()  # asyncio itself holds its tasks weakly


def is_in_generator() -> bool:
    """Returns whether the code that awaits the caller is, or is awaited by, an async generator."""
    # Such code may be left in another task than the one that entered it, or in none: no cancel scope and no task group
    # may span its `yield` (https://peps.python.org/pep-0789/). While coroutines await each other, their frames are on
    # one stack.
    frame = sys._getframe(1)
    while frame is not None and (flags := frame.f_code.co_flags) & _AWAITS:
        if flags & CO_ASYNC_GENERATOR:
            return True
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return False


def is_asyncio() -> bool:
    """Returns whether the event loop that runs in this thread is asyncio's, and not trio's; raises a `RuntimeError` if
    none runs."""
    return hasattr(current_token().native_token, "create_task")


def spawn(run: Callable[[Any], Coroutine[Any, Any, None]], value: Any) -> None:
    """Starts a task that belongs to the event loop, not to a group. It must contain its errors. Raises a `RuntimeError`
    if no event loop runs in this thread."""
    if is_asyncio():
        loop: Any = current_token().native_token
        task = loop.create_task(run(value))
        _spawned.add(task)
        task.add_done_callback(_spawned.discard)
    else:
        trio: Any = sys.modules["trio"]  # it runs
        trio.lowlevel.spawn_system_task(run, value, context=copy_context())


# -- from any thread into the loop --
#
# If the loop has ended, nothing happens, since no task waits for an answer there.


def call_soon(token: EventLoopToken, callback: Callable[[], None]) -> None:
    _is_called_soon(token, callback)


def is_called_in_a_task(token: EventLoopToken, callback: Callable[[], None]) -> bool:
    """Calls back in a task of an event loop, without waiting; returns False if the loop has ended."""
    # anyio finds asyncio's loop by its task, and a callback has none. trio's callbacks run in one.
    loop: Any = token.native_token
    if not hasattr(loop, "create_task"):
        return _is_called_soon(token, callback)

    def start() -> None:
        task = loop.create_task(_called(callback))
        _spawned.add(task)
        task.add_done_callback(_spawned.discard)

    return _is_called_soon(token, start)


async def _called(callback: Callable[[], None]) -> None:
    callback()


def _is_called_soon(token: EventLoopToken, callback: Callable[[], None]) -> bool:
    # Waiting could take forever: garbage may be collected in any thread, and a loop may be about to end.
    loop: Any = token.native_token
    schedule = getattr(loop, "run_sync_soon", None) or loop.call_soon_threadsafe  # trio's name, asyncio's name
    try:
        schedule(callback)
    except RuntimeError:  # it has ended
        return False
    return True


def ring(event: anyio.Event) -> None:
    """Sets an event; does nothing if the event's loop is closed, since no task waits there."""
    try:
        event.set()
    except RuntimeError:
        return


def is_running(token: EventLoopToken | None) -> bool:
    """Returns whether an event loop still runs; always True for trio's loops, where that is not known."""
    # trio's runs end by themselves, however they are interrupted.
    loop: Any = None if token is None else token.native_token
    return loop is not None and not (hasattr(loop, "is_running") and not loop.is_running())


def is_in_loop(token: EventLoopToken) -> bool:
    """Returns whether this code runs in that event loop, in a task or a callback."""
    # anyio finds asyncio's loop by its task, and a callback has none.
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is token.native_token:
        return True
    try:
        return current_token() == token
    except RuntimeError:
        return False


def check_loop(runs_in: EventLoopToken | None, act: str) -> None:
    if runs_in is None or not is_in_loop(runs_in):
        raise LocalProtocolError(
            f"call {act} in the pipeline's event loop; from another thread, use "
            f"anyio.from_thread.run_sync(events.{act}, call, token=...), with the loop's anyio.lowlevel.current_token()"
        )


def from_any_thread(take: Callable[[Any], object], is_over: Callable[[], bool]) -> Callable[[Any], None]:
    """Returns a function that passes a value to `take` in this event loop, from any thread, and waits for that. `take`
    has to check whether it is too late; `is_over` returns True once no more values are wanted, so that other threads
    need not ask the loop."""
    loop_thread, token = threading.get_ident(), current_token()

    # Waiting for the loop in its own thread would never end.
    def give(value: Any) -> None:
        if threading.get_ident() == loop_thread:
            take(value)
        elif not is_over():
            try:
                from_thread.run_sync(take, value, token=token)
            except RunFinishedError:
                return

    return give


# -- work outside the loop --
#
# In a thread, so that the loop never stands still for a peer's bytes: validating one call's arguments may take up to
# 0.5 s.


class Deferring(Protocol):
    @property
    def deferred(self) -> Deferred | None: ...

    def resume(self, made: Iterable[Event], /) -> list[Event]: ...


async def settle_next(source: Deferring) -> list[Event]:
    """Does the work that `source` has deferred; returns the events that come out then. More may be deferred."""
    # A thread cannot be stopped: one that is given up, since the call's timeout or the caller's own time is over, runs
    # on until its work is done or exceeds its bound, within some 0.5 s.
    work = source.deferred
    assert work is not None, "asked only where something is deferred"
    made: list[Event] | None = None
    with anyio.move_on_after(work.timeout_s):
        made = await to_thread.run_sync(lambda: list(work.run()), abandon_on_cancel=True)
    if made is None:
        made = work.refuse(f"within the call's timeout of {work.timeout_s:g} s")
    return source.resume(made)


def refuse_deferred(source: Deferring) -> list[Event]:
    """Refuses the calls whose checks `source` has deferred and no task awaits any longer; returns the events that come
    out then."""
    events: list[Event] = []
    while (work := source.deferred) is not None:
        events += source.resume(work.refuse("before the stream was ended"))
    return events


# -- the loop's sudden end --
#
# An asyncio program that is interrupted while it closes its loop never resumes its coroutines, so that no `finally` of
# theirs runs. The observers of an open block then get the rest at the interpreter's end.


class _Block(Protocol):
    def settle_at_exit(self) -> None: ...


_open: weakref.WeakSet[_Block] = weakref.WeakSet()


def settle_at_exit(block: _Block) -> None:
    _open.add(block)


@atexit.register
def settle_open() -> None:
    """Settles the open blocks, since no event loop will ever leave them."""
    for block in list(_open):
        try:
            block.settle_at_exit()
        # An interrupt has nothing left to interrupt, and there are others to settle.
        except BaseException:
            continue


# A child process has copies of the blocks that are open in its parent, where they stay open.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open.clear)

# -- timers --
#
# One timer of the loop's own for all streams, for the time that is due next. asyncio calls back by itself, outside any
# task; a task is made for that only when a time is due. On trio a task sleeps, in the task group of one of the
# pipelines; when that pipeline is left, another one takes the task over. What anyio finds out anew at each call is kept
# here, too: which event loop runs, and what its scopes and events are.

_SPARE = 256  # entries of stopped timers that are kept, beyond the number of the others


class Timer:
    __slots__ = ("_timers", "callback", "of_owner")

    def __init__(self, timers: Timers, callback: Callable[[], None], of_owner: set[Timer]) -> None:
        self._timers = timers
        self.of_owner = of_owner  # the timers of its owner that run; it is among them
        self.callback: Callable[[], None] | None = callback  # None once it was called or stopped

    def stop(self) -> None:
        if self.callback is not None:
            self.callback = None
            self.of_owner.discard(self)
            self._timers.forget_one()


class Timers:
    def __init__(self) -> None:
        self.token: EventLoopToken = current_token()
        native: Any = self.token.native_token
        self.loop: Any = native if hasattr(native, "call_at") else None  # asyncio's
        self.now: Callable[[], float] = anyio.current_time if self.loop is None else self.loop.time
        self.new_scope = type(CancelScope())
        self.new_event = type(anyio.Event())
        self._entries: list[tuple[float, int, Timer]] = []
        self._number = 0
        self._stopped = 0  # entries of stopped timers that have not come to the top yet
        # On asyncio:
        self._handle: Any = None  # of the loop's own timer
        self._calling: Any = None  # the task that calls back
        # On trio:
        self._groups: dict[object, TaskGroup] = {}  # of the pipelines whose block is open
        self._runs = False
        self._starting: object = None  # the owner of the group in which the task will begin
        self._changed = self.new_event()
        # When it looks next; until trio's task has begun, any time is early enough.
        self._wakes_at = -math.inf if self.loop is None else math.inf

    @staticmethod
    def current() -> Timers:
        global _latest
        asyncio = sys.modules.get("asyncio")
        loop = None if asyncio is None else asyncio._get_running_loop()
        if loop is not None and (latest := _latest()) is not None and latest.loop is loop:  # at a tenth of the price
            return latest
        timers = _TIMERS.get(None)
        if timers is None:
            timers = Timers()
            _TIMERS.set(timers)
        _latest = weakref.ref(timers)
        return timers

    def join(self, owner: object, group: TaskGroup) -> None:
        """Lets the task live in this group, until the owner leaves."""
        if self.loop is None:
            self._groups[owner] = group
            if self._entries:
                self._start()

    def leave(self, owner: object) -> bool:
        """Starts no more tasks in the owner's group, since its block is being left; returns False if one may still
        run there."""
        self._groups.pop(owner, None)
        if self._starting is owner:  # a task that was started may never begin: asyncio may have cancelled it by itself
            self._starting, self._runs = None, False
            self._start()
        return self.loop is not None

    def at(self, due: float, callback: Callable[[], None], of_owner: set[Timer]) -> Timer:
        """Calls back at a time of the event loop, or later. `callback` must not raise or wait. The timer is in
        `of_owner`, for the owner to stop, until it is over: each callback holds all that the owner holds.
        """
        timer = Timer(self, callback, of_owner)
        of_owner.add(timer)
        self._number += 1
        heapq.heappush(self._entries, (due, self._number, timer))
        if self.loop is not None:
            if due < self._wakes_at:
                self._set(due)
            return timer
        if due < self._wakes_at:
            self._changed.set()
        if not self._runs:
            self._start()
        return timer

    def forget_one(self) -> None:
        """Counts a timer that was stopped, and drops the entries of such timers when they are in the majority."""
        self._stopped += 1
        if 2 * self._stopped > len(self._entries) + _SPARE:
            self._entries = [entry for entry in self._entries if entry[2].callback is not None]
            heapq.heapify(self._entries)
            self._stopped = 0

    # -- on asyncio --

    def _set(self, due: float) -> None:
        before, self._handle = self._handle, self.loop.call_at(due, self._wake)
        self._wakes_at = due
        if before is not None:
            before.cancel()

    def _wake(self) -> None:
        self._wakes_at = math.inf
        try:
            while self._entries and self._entries[0][2].callback is None:
                heapq.heappop(self._entries)
                self._stopped -= 1
            if self._entries and self._entries[0][0] <= self.loop.time():
                self._calling = self.loop.create_task(self._call_back_in_task())
                return
        except BaseException:  # an interrupt: without this, no timer would fire again
            self._set_next()
            raise
        self._set_next()

    async def _call_back_in_task(self) -> None:
        try:
            self._call_back()
        finally:
            self._calling = None
            self._set_next()

    def _set_next(self) -> None:
        if self._entries and self._entries[0][0] < self._wakes_at:
            self._set(self._entries[0][0])

    # -- on trio --

    def _start(self) -> None:
        owner = next(iter(self._groups), None)
        if owner is not None and not self._runs:
            self._runs, self._starting, self._wakes_at = True, owner, -math.inf
            try:
                self._groups[owner].start_soon(self._run, owner)
            except BaseException:  # an interrupt: without this, no timer would fire again
                self._runs, self._starting = False, None
                raise

    async def _run(self, owner: object) -> None:
        if self._starting is not owner:  # its block was left in between, and another task has taken over
            return
        self._starting = None
        try:
            while self._call_back():
                self._changed = anyio.Event()
                self._wakes_at = self._entries[0][0]
                with anyio.CancelScope(deadline=self._wakes_at):
                    await self._changed.wait()
        except BaseException:  # the block that this task lives in is being left
            self._groups.pop(owner, None)
            raise
        finally:
            self._runs, self._changed = False, anyio.Event()  # the other one holds the loop, which holds these timers
            if self._entries:
                self._start()

    def _call_back(self) -> bool:
        now = anyio.current_time()
        while self._entries and (self._entries[0][2].callback is None or self._entries[0][0] <= now):
            timer = heapq.heappop(self._entries)[2]
            callback, timer.callback = timer.callback, None
            if callback is None:
                self._stopped -= 1
            else:
                timer.of_owner.discard(timer)
                callback()
        return bool(self._entries)


_TIMERS: RunVar[Timers] = RunVar("streamtools_timers")
_latest: Callable[[], Timers | None] = lambda: None  # noqa: E731  those that were asked for last, in any thread
