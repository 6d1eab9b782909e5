"""Runs a stream and its calls: the one place that owns tasks.

Theory of operation. The `Runner` of a step has one task group: a task reads the source and drives the decoder, each
call runs in a task of its own, and every event goes through the `Step`. It reads one `Attempt`; where a policy may ask
the model again, its `Tries` continue with others. `end` cancels the tasks that still run, waits for them, and settles.
The task that calls `enter` calls `end`, too; the consumer's side is `Pipeline`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Literal

import anyio
from anyio import CancelScope, create_task_group
from anyio.lowlevel import EventLoopToken

from ..dispatch import Calls
from ..dispatch.event_loop import (
    Timer,
    Timers,
    is_cancellation,
    is_cancelled,
    is_raised_by_loop,
    is_running,
    ring,
    settle_at_exit,
)
from ..dispatch.transitions import Transitions, Waits
from ..errors import DeadlineExceeded, LocalProtocolError
from ..events import Event, StepStart, StreamWarning
from ..ground.text import type_name
from ..turn import Turn
from .attempt import Attempt, Reading, StepOptions
from .deadlines import Deadlines
from .pump import Pump, Tries, unwrapped
from .queues import Outbox
from .step import Step
from .tasks import GroupTasks, LoopTasks, Tasks
from .trajectory import Trajectory

if TYPE_CHECKING:  # loaded where they are used: most programs suspend no call, and ask once
    from ..dispatch.rules import Rules
    from ..seams import StepView


class Runner:
    def __init__(
        self,
        trajectory: Trajectory,
        start: StepStart,
        reading: Reading,
        options: StepOptions,
        *,
        tries: Callable[[Runner], Tries] | None = None,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.trajectory = trajectory
        self.outbox = Outbox(options.limits.event_buffer)
        self.step = Step(trajectory, self.outbox, options.tools)
        self.start = start  # the step's first event
        self.tries = None if tries is None else tries(self)  # if the model may be asked again
        self.state: Literal["new", "opening", "open", "left"] = "new"  # set by the `Pipeline` and its host, too
        self.token: EventLoopToken | None = None  # of the event loop that it was entered in
        self.error: BaseException | None = None  # to be raised after the last event, once
        self._options = options
        self.attempt = self._attempt_of(reading)  # the one being read, or the last
        self._view: StepView | None = None  # of a step with rules
        self._before = before  # what to do before the step begins
        self.resumed: Any = None  # the `Suspended` that the step continues; set by `resume`
        self._begins_with: tuple[Event, ...] = ()  # what was said to the run, after `start`
        self.deadlines = Deadlines(options.limits, self.attempt.pump, self._expire, start.requested_at)
        self._timers: Timers | None = None
        self._own_timers: set[Timer] = set()  # those that are set
        self._tasks: Tasks | None = None
        self._scope: CancelScope | None = None  # around all reading
        self.rests: Callable[[], bool] = lambda: True  # False while something runs beside the step, and reports its end
        self._is_over = False  # nothing is being read, and nothing runs
        self._over_awaited: anyio.Event | None = None  # made when first awaited: there may be 1,000 streams
        self._context: Context  # the caller's, for tools, as it was entered; a source may change its own

    # -- for the consumer --

    @property
    def turn(self) -> Turn:
        decoder = self.attempt.decoder
        return self.step.turn(decoder.record or decoder.wire)

    def check_new(self) -> None:
        if self.state != "new":
            raise LocalProtocolError("a pipeline is entered once; make a new one for the next stream")

    def check_open(self) -> None:
        if self.state in ("opening", "open"):
            return
        verb = "was left" if self.state == "left" else "was not entered"
        raise TypeError(
            f"the pipeline's block {verb}; write:  async with pipeline(stream, tools=[...]) as events:  "
            "async for event in events: ..."
        )

    def ends_rest(self, changed: bool) -> bool:
        """Lets the consumer wait again after a rest, if something has changed; returns whether it has."""
        self.outbox.resting &= not changed
        return changed

    async def stop(self) -> None:
        if self.state != "open":
            return
        assert self._scope is not None, "set when it was entered"
        self.error = None
        self.attempt.calls.stop()
        self._scope.cancel()
        self.attempt.calls.cancel()
        self.outbox.discard()
        while not self._is_over:
            self._over_awaited = self._over_awaited or anyio.Event()
            await self._over_awaited.wait()
        await self.attempt.calls.wait_idle()
        self.attempt.settle(self.attempt.outcome if self.outbox.resting else "abandoned")

    async def discard(self) -> None:
        self.check_new()
        self.state = "left"
        await self.attempt.pump.discard()

    # -- for a run --

    def look_again(self, call_id: str, key: str | None = None) -> bool | None:
        """Looks for a decision or an answer recorded elsewhere, about the call with this key if one is given. Returns
        False if it comes too late, and None if that is not known yet."""
        looks = self.attempt.calls.waiting.look_again(call_id, key) if self.state == "open" else None
        self.ends_rest(bool(looks and key))
        return looks

    def cut(self, reason: str, *, spares_approvals: bool) -> bool:
        """Ends the response here, without an error: nothing more is read, calls that have not begun are ``skipped`` for
        this reason, and the others run to their end. Returns False if nothing is cut because a call waits for an
        approval. If approvals are not spared, calls that may run again are cancelled, too."""
        pump, calls = self.attempt.pump, self.attempt.calls
        if self.state == "left" or (spares_approvals and calls.is_asking):
            return False
        if self.start.asks_model:  # else the response is complete, and its calls have begun
            pump.cut()
        calls.cut(reason, cancels=not spares_approvals)
        if self.tries is not None:
            self.tries.cut(reason)
        return self.ends_rest(True)

    def begin_with(self, events: Iterable[Event]) -> None:
        self._begins_with += tuple(events)
        if self.tries is not None:
            self.tries.is_followed = True

    # -- entering and leaving --

    async def enter(self) -> None:
        if self._before is not None:
            self.state = "opening"
            try:
                await self._before()
            except BaseException:
                self.state = "left"
                raise
        self.state = "open"
        self._timers = timers = Timers.current()
        self.token, self._scope, self._context = timers.token, timers.new_scope(), copy_context()
        self.step.new_scope, self.step.now, self.outbox.new_event = timers.new_scope, timers.now, timers.new_event
        self._listen()
        self.step.begin(self.start)
        for event in self._begins_with:
            self.step.emit(event)
        self._tasks = tasks = GroupTasks() if timers.loop is None else LoopTasks(timers.loop, timers.new_scope)
        self.step.scope = None if timers.loop is None else self._scope
        await tasks.enter()
        try:
            settle_at_exit(self)
            tasks.start(self._run, copy_context(), self._scope)
            if tasks.group is not None:
                timers.join(self, tasks.group)
            self.deadlines.set(self._at, timers.now, self.trajectory.began_at)
            if self.tries is not None:
                self.tries.begin()
        except BaseException as error:  # an interrupt: Python does not leave what was not entered
            await self.end(type(error))
            raise

    async def end(self, kind: type[BaseException] | None) -> None:
        """Ends all tasks, in the task that began them. `kind`: type of the error that the block is left with."""
        self.state = "left"
        try:
            if kind is GeneratorExit and not is_running(self.token):  # the loop is closed: nothing can be awaited
                self.attempt.settle_surely("cancelled")
            else:
                await self._leave(cancelled=is_cancellation(kind))
        finally:
            for timer in tuple(self._own_timers):  # also of calls that were cancelled just now; each holds this object
                timer.stop()

    async def _leave(self, *, cancelled: bool) -> None:
        tasks = self._tasks
        assert tasks is not None, "set when it was entered"
        is_over = False  # all tasks have ended
        # Each step stands in the `finally` of the one before it: a second Ctrl-C may interrupt any line.
        try:
            is_over = self._stop_all() and self._is_over and self.tries is None and not self.attempt.calls.busy
        finally:
            try:
                if not is_over:  # before the outbox is closed: a task that waits for room must not continue
                    tasks.cancel()
                self.outbox.discard()
            finally:
                try:
                    await self._join(tasks)
                finally:
                    left = self.attempt.outcome if self.outbox.resting else "abandoned"
                    self.attempt.settle_surely("cancelled" if cancelled else left)

    def _stop_all(self) -> bool:
        self.attempt.calls.stop()
        self.deadlines.stop()
        return self._timers is None or self._timers.leave(self)

    async def _join(self, tasks: Tasks) -> None:
        """Waits for the tasks. They never see the body's own exception, which comes out of the block unchanged."""
        calls, has_failed = self.attempt.calls, tasks.has_failed
        try:
            await tasks.join(calls.warn_of_unresponsive, calls.tell_stragglers if calls.busy else None)
        except BaseExceptionGroup as raised:
            fatal = raised if has_failed else raised.split(Exception)[1]
            if fatal is not None:
                if is_raised_by_loop(fatal) and is_cancelled():
                    raise anyio.get_cancelled_exc_class()("the event loop was interrupted") from None
                raise unwrapped(fatal) from None
            # The consumer has left: an error that a source made of its cancellation is a warning, and is not raised
            # into other code.
            self.step.emit(StreamWarning("source_close_failed", type(unwrapped(raised)).__name__))

    def settle_at_exit(self) -> None:
        """Settles the step when the program ends, if its event loop was cut off in the middle of the block."""
        if self.state != "new" and not is_running(self.token):
            self.attempt.settle_surely("cancelled")

    # -- tasks --

    async def _run(self) -> None:
        assert self._scope is not None, "set when it was entered"
        try:
            with self._scope:
                await self.attempt.pump.run()
                if self.tries is not None:
                    await self.tries.go_on()
                await self._run_calls(self.attempt)
        except Exception as error:  # a group of errors raised while a cancellation was handled, after `stop`
            self.step.emit(StreamWarning("source_close_failed", type_name(error)))
        finally:
            self._is_over = True  # before what a Ctrl-C may interrupt: a task may wait for it
            try:
                self.outbox.close()
            finally:
                if self._over_awaited is not None:
                    ring(self._over_awaited)

    async def _run_calls(self, attempt: Attempt) -> None:
        """Runs the calls of a fully read response to their end, and settles."""
        pump, tries = attempt.pump, self.tries
        self.deadlines.source_is_over()
        if attempt.end is None and pump.raised is None and pump.end is not None:
            self.step.emit(pump.end)  # a transform has not passed it on
        if attempt.failure is not None:
            drains = self._options.drains or (tries is not None and tries.is_cut)
            if not drains or attempt.expired is not None:
                attempt.calls.cancel()
        later = pump.later()
        await (self._calls_end(attempt) if later is None else self._calls_end_watched(attempt, later))
        if self._tasks is not None and self._tasks.is_cancelled:  # the end of a call has woken it before that was seen
            return
        self.deadlines.stop()
        if tries is not None:
            await tries.drop_carried()
        attempt.settle(attempt.outcome)
        is_error = not pump.is_broken and (tries is None or not tries.is_cut or not tries.is_followed)
        is_raised = is_error or attempt.expired is not None
        self.outbox.fail_branches(attempt.failure if is_raised else None)
        if not self.outbox.closed and is_raised:
            self.error = attempt.failure

    async def _calls_end(self, attempt: Attempt) -> None:
        calls = attempt.calls
        if not calls.announced:  # as in most turns
            return
        await calls.wait_idle()
        while calls.waits_to_be_told and attempt.failure is None:
            if self.rests():
                self.outbox.rest()
            await calls.wait_told()
            await calls.wait_idle()

    async def _calls_end_watched(self, attempt: Attempt, later: AsyncIterator[Mapping[str, Any]]) -> None:
        """Waits for the calls, and meanwhile reads the connection, on which the provider may take them back."""
        async with create_task_group() as group:
            group.start_soon(attempt.pump.watch, later, attempt.calls.take_back)
            await self._calls_end(attempt)
            group.cancel_scope.cancel()

    def _attempt_of(self, reading: Reading) -> Attempt:
        source, decoder, dispatch, facts, begin = reading
        given, step, tries = self._options, self.step, self.tries
        tools, limits = given.tools, given.limits
        pump = Pump(source, decoder, step, self.outbox, given.transforms, limits, facts, begin, tries)
        serves, number = (None, 1) if tries is None else (tries.serves, tries.number)
        transitions = Transitions(
            given.pool, tools, limits, dispatch, step, self._start_call, self._at, _waiting, serves
        )
        return Attempt(step, decoder, pump, Calls(transitions, number))

    def read_anew(self, reading: Reading) -> Attempt:
        self.attempt = self._attempt_of(reading)
        self._listen()
        self.step.reroute()
        return self.attempt

    def _listen(self) -> None:
        if self.tries is not None:
            self.tries.listen()
        self.attempt.listen()
        rules = self.attempt.calls.rules
        if rules is not None:
            self._view = self._view or self._viewed(rules)
            for listeners in rules.begin(self._view, is_replayed=self.start.replayed):
                self.step.listen(listeners)

    def _viewed(self, rules: Rules) -> StepView:
        from ..seams import StepView  # few steps have rules

        return StepView(
            run_id=self.trajectory.run_id,
            number=self.trajectory.steps,
            conversation_id=self.trajectory.conversation_id,
            request=self.start.request,
            warn=self.step.emit,
            text_of=rules.text_of,
            read_wire=lambda: self.attempt.decoder.record or self.attempt.decoder.wire,
            read_parts=lambda: self.turn.parts,
        )

    def _start_call(self, run: Callable[[], Coroutine[Any, Any, None]], scope: CancelScope | None) -> None:
        assert self._tasks is not None, "calls start inside the block"
        self.attempt.pump.must_pause = True
        self._tasks.start(run, self._context, scope)

    def _at(self, when: float, callback: Callable[[], None]) -> Timer:
        assert self._timers is not None, "set when it was entered"
        return self._timers.at(when, callback, self._own_timers)

    def _expire(self, error: DeadlineExceeded) -> None:
        self.attempt.expire(error)
        if self.tries is not None:
            self.tries.wake()


def _waiting(transitions: Transitions) -> Waits:
    from ..waiting.calls import Waiting  # most calls do not wait

    return Waiting(transitions)
