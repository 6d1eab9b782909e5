"""Ends a step: waits for its tasks, then settles its outcome, its error and its last events, also when interrupted.

Theory of operation of `join`. On asyncio a second Ctrl-C is raised on whatever line runs. If that is a line of the loop
or of anyio's group, one of two callbacks is lost for ever: the one by which the group learns of a task's end, or the
one that would have woken a task; and a cancellation may be requested, but not delivered. Waiting for such a task would
never end, and anyio's group ignores every cancellation meanwhile. So the tasks are looked at from here while the group
waits: the cancellation is delivered again, a task that nothing will wake is ended from outside, and a group that waits
only for ended tasks is left. On a loop that does not show what it is about to run, the tasks that nothing will wake are
not known. trio keeps interrupts out of its own lines.

`Settling` emits the last events even if one Ctrl-C after the other comes. `Deadlines` ends a pipeline when one of its
times has passed.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Collection, Coroutine, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup

from ..dispatch import Calls
from ..dispatch.log import log_uncounted
from ..dispatch.timers import Timer
from ..dispatch.transitions import At
from ..errors import DeadlineExceeded, TruncatedStream
from ..event_loop import refuse_deferred
from ..events import Event, StreamEnd, StreamWarning
from ..limits import Limits
from ..parts import StepOutcome
from ..text import type_name
from .pump import LOOKS, ItemDecoder, Pump
from .step import Step

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
    look: Callable[[float], object]
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
            self.look(loop.time())
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


# -- the end of a step, and its deadlines ------------------------------------------------------------------------------


_TRIES = 16  # to settle: each try gets further, and nobody presses Ctrl-C more often than that


@dataclass(slots=True, eq=False)
class Settling:
    """The end of one step."""

    step: Step
    decoder: ItemDecoder
    pump: Pump
    calls: Calls
    end: StreamEnd | None = None
    """The `StreamEnd` that was emitted."""
    expired: DeadlineExceeded | None = None
    """The error of the deadline that has passed."""

    def stream_ended(self, event: Event) -> None:
        """Takes the stream's end, when it has been emitted."""
        assert isinstance(event, StreamEnd), "that is what it listens to"
        self.end = event
        if self.calls.lacks_counts(event) and self.decoder.record is not None:
            self.step.emit(
                StreamWarning("tokens_uncounted", "the response has no token counts, so token_budget counts none")
            )

    def expire(self, error: DeadlineExceeded) -> None:
        """Stops reading, and stops the calls, since a deadline has passed."""
        if self.pump.judge is not None and error.limit == "first_chunk_timeout":
            self.pump.fail(error)  # the model may be asked again
        elif self.expired is None and not self.step.ended:
            self.expired = error
            # A call that waits for an approval stays suspended, as when the block is left.
            if self.calls.undecided:
                self.calls.stop()
            else:
                self.calls.stop(f"{error.limit} was over")
            self.pump.fail(error)

    @property
    def failure(self) -> Exception | None:
        """The error to raise at ``async for``, if the stream failed or a deadline has passed."""
        return self.expired or self.pump.raised or (self.end.error if self.end is not None else None)

    @property
    def outcome(self) -> StepOutcome:
        """The outcome of the step if nobody has left it."""
        end = self.end
        if end is not None and isinstance(end.error, TruncatedStream):
            return "truncated"
        if self.failure is not None:
            return "error"
        return "complete" if end is not None and end.complete else "abandoned"

    def settle_surely(self, outcome: StepOutcome) -> None:
        """Calls `settle`, and again from where it was interrupted: one Ctrl-C after the other may come."""
        interrupted: BaseException | None = None
        for _ in range(_TRIES):
            try:
                self.settle(outcome)
                break
            except BaseException as error:
                interrupted = error
        if interrupted is not None:
            raise interrupted

    def settle(self, outcome: StepOutcome) -> None:
        """Emits the events that are left, when no task runs any more. Idempotent. A step whose calls wait for people is
        ``suspended``, unless it was cancelled."""
        self.step.resume()
        if self.step.ended:
            return
        try:
            self.calls.stop()
            self._finish()
        finally:
            try:
                self.calls.settle()
            finally:
                self.step.resume()  # what was interrupted here comes before the end, not behind it
                waits = outcome in ("complete", "abandoned") and self.calls.undecided
                self.step.end("suspended" if waits else outcome)
                end, wire = self.end, self.decoder.record
                if end is not None and end.complete and end.usage is None and wire is not None:
                    log_uncounted(wire, self.step.model)

    def _finish(self) -> None:
        """Emits the decoder's last events."""
        error = self.pump.stream_error()
        if self.end is None:
            try:
                self.step.emit_all(self.decoder.finish(error, abandoned=error is None))
                self.step.emit_all(refuse_deferred(self.decoder))
            except Exception as raised:  # a stage of the user's
                self.step.emit(StreamWarning("stage_failed", type_name(raised)))
        if self.end is None:
            self.step.emit(StreamEnd(error=error))


@dataclass(slots=True, eq=False)
class Deadlines:
    """The deadlines of one pipeline, which is ended when one of them passes."""

    limits: Limits
    pump: Pump
    """Is asked to look whether its source has been silent for too long."""
    expired: Callable[[DeadlineExceeded], None]
    """Is called when a time of the step or run is over."""
    requested_at: float | None
    """When the request was made, on ``time.monotonic``; None: when `set` is called."""
    at: At | None = None
    """Calls back at a time of the event loop; None before `set`."""
    began_at: float = 0.0
    """When the step began, on ``time.monotonic``."""
    look_every_s: float = math.inf
    look_until: float = math.inf
    """When the next look would be too late to count."""
    of_step: dict[str, Timer] = field(default_factory=dict)
    """The timers of the step and the run, by the names of their limits."""
    of_source: dict[str, Timer] = field(default_factory=dict)
    """Those of the source."""

    def set(self, at: At, run_began_at: float) -> None:
        """Starts the deadlines now, that of the run from its beginning, on ``time.monotonic``."""
        self.began_at = now = time.monotonic()
        self.at, self.look_every_s = at, self.pump.idle_timeout_s / LOOKS
        self.begin_source(self.pump, self.requested_at or now)
        self._begin("step_timeout", now, "the step was not over", self.of_step)
        self._begin("run_timeout", run_began_at, "the run was not over", self.of_step)

    def begin_source(self, pump: Pump, requested_at: float) -> None:
        """Starts the deadlines of a source: the first one, or that of another attempt."""
        self.pump, self.look_until = pump, math.inf
        if self.look_every_s < math.inf:
            self._look()
        self._begin("first_chunk_timeout", requested_at, "the source brought nothing", self.of_source)

    def _begin(self, name: str, began: float, missed: str, kept: dict[str, Timer]) -> None:
        assert self.at is not None, "set"
        if (seconds := getattr(self.limits, name)) is not None:
            passed = partial(self._passed, DeadlineExceeded(name, seconds, missed))
            kept[name] = self.at(anyio.current_time() + seconds - (time.monotonic() - began), passed)

    def leaves(self, seconds: float, run_began_at: float) -> bool:
        """Returns whether so many seconds are left of the step and of the run."""
        ends = ((self.limits.step_timeout, self.began_at), (self.limits.run_timeout, run_began_at))
        return all(most is None or began + most > time.monotonic() + seconds for most, began in ends)

    def source_is_over(self) -> None:
        """Stops the deadlines of the source, of which nothing more is expected."""
        for timer in self.of_source.values():
            timer.stop()

    def stop(self) -> None:
        """Stops all deadlines."""
        for timer in (*self.of_source.values(), *self.of_step.values()):
            timer.stop()

    def _passed(self, error: DeadlineExceeded) -> None:
        if error.limit != "first_chunk_timeout" or not self.pump.came:
            self.expired(error)

    def _look(self) -> None:
        """Looks at the source, now and from time to time."""
        assert self.at is not None, "set"
        now = anyio.current_time()
        # After a process was stopped, this may run before the task that reads what has come meanwhile. The look after
        # one that was late counts, however late: a loop that is always late must find out, too.
        if now > self.look_until:
            self.look_until = math.inf
        else:
            self.look_until = now + 2 * self.look_every_s
            self.pump.look()
        self.of_source["idle_timeout"] = self.at(now + self.look_every_s, self._look)
