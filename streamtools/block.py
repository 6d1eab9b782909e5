"""The block around a stream: the one place that owns tasks.

Theory of operation. `Pipeline` is an async context manager and an async iterator, never an async generator that owns
a task group: leaving such a generator corrupts the consumer's cancel scopes (PEP 789; reproduced on asyncio and trio).
One pump task reads the source and drives the decoder; each call runs in a task of its own; every event, whoever made
it, goes through the `Step`, which numbers it, tells the observers and puts it into the outbox. Leaving the block
cancels what still runs, waits for it, and settles: each call has its observation, the source is closed, the step has
its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal

import anyio
from anyio import CancelScope, create_task_group
from anyio.abc import TaskGroup

from .branch import Branch, WhenFull
from .dispatch import Calls, Dispatcher, DispatchOptions
from .dispatch.approval import Decision
from .dispatch.suspended import Asked, Suspended, SuspendedCall
from .errors import LocalProtocolError, TruncatedStream
from .events import ApprovalRequested, Event, Observation, StreamEnd, ToolCallReady, Warning
from .idle import IdleWatch
from .limits import Limits
from .opened import Hosted, OpenPipeline, open_in
from .outbox import Outbox
from .pump import Decoder, Pump, Transform, unwrapped
from .sources import Source
from .step import Step
from .tools import Toolset
from .trajectory import Trajectory
from .turn import ToolCall, Turn

__all__ = ["Pipeline"]


class Pipeline:
    """One stream and the calls in it; made by `pipeline`. Enter it with ``async with``, iterate inside the block.

    A stream error is raised at ``async for``, after the last event; a tool's error is an event; an error in the body of
    the block leaves it as it is. Leaving the block, however, cancels and awaits all that was started.
    """

    def __init__(
        self,
        source: Source,
        decoder: Decoder,
        *,
        tools: Toolset,
        transforms: tuple[Transform, ...],
        options: DispatchOptions,
        dispatcher: Dispatcher,
        limits: Limits,
        trajectory: Trajectory,
        drain: bool,
        suspended: Suspended | None = None,
    ) -> None:
        self._decoder = decoder
        self._outbox = Outbox(limits.event_buffer)
        self._step = Step(trajectory, self._outbox)
        self._trajectory = trajectory
        self._pump = Pump(source, decoder, self._step, self._outbox, transforms, limits)
        self._calls = Calls(dispatcher, tools, limits, options, self._step, self._start_call)
        self._resumed = suspended
        self._watch: IdleWatch | None = None
        self._drain = drain  # let calls that run finish when the stream fails
        self._state: Literal["new", "opening", "open", "left"] = "new"
        self._group: TaskGroup | None = None
        self._pump_scope: CancelScope | None = None
        self._pump_done = False
        self._pump_awaited: anyio.Event | None = None  # made when somebody waits: a thousand streams have one each
        self._context = copy_context()  # the caller's, for tools; a source may change its own
        self._error: BaseException | None = None  # to be raised at `async for`, once
        self._end: StreamEnd | None = None  # the one that was emitted

    # -- for the consumer ----------------------------------------------------------------------------------------

    @property
    def turn(self) -> Turn:
        """What the response amounts to so far; final after the last event, and after the block."""
        return self._step.turn(self._decoder.wire)

    @property
    def run_id(self) -> str:
        """The run that this step belongs to."""
        return self._step.run_id

    @property
    def resting(self) -> bool:
        """All is read, and nothing more comes unless somebody approves a call, denies it, or, with
        ``dispatch="manual"``, has it `run`."""
        return self._outbox.resting and not self._step.ended

    def __aiter__(self) -> Pipeline:
        self._check_open()
        return self

    async def __anext__(self) -> Event:
        if self._state == "new":
            self._check_open()
        outbox = self._outbox
        if outbox.queue or await outbox.wait():
            event = outbox.queue.popleft()
            if outbox.room_awaited is not None:
                outbox.took_one()
            return event
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        raise StopAsyncIteration

    async def run(self, call: ToolCall | ToolCallReady | str) -> Observation:
        """Run a ready call now, with ``dispatch="manual"``, and return its observation; a second time, the same one.

        A loop over the pipeline ends when nothing runs any more; after a run there may be more, so loop again. Run
        before its turn has ended well, a call may have a result for a turn that then fails. What was never run is
        ``skipped``, as is all that waits when the turn ends in another way. Of a call that needs an approval this waits
        for the word: let another task say it, or pass ``approve=``.

        Raises:
            LocalProtocolError: calls start by themselves here, or this one is not known or not ready.
        """
        if self._state != "left":
            self._check_open()
        call_id = call if isinstance(call, str) else call.call_id
        self._outbox.resting &= not self._calls.ask(call_id)
        return await self._calls.observed(call_id)

    @property
    def suspended(self) -> Suspended | None:
        """The calls that wait for an approval, to be kept and decided later, elsewhere: see `resume`. None if there are
        none; also after the block. Those of a turn that did not end well are not run any more, and not among them."""
        calls, run, wire, resumed = self._calls.undecided, self._trajectory, self._decoder.wire, self._resumed
        if not calls and resumed is not None and not self._calls.announced:  # it was left at once
            return replace(resumed, seq=run.next_seq) if self._step.ended else resumed
        if not calls:
            return None
        closing = 0 if self._step.ended else self._calls.unobserved + 1  # events, if the block is left now
        return Suspended.of(calls, run_id=run.run_id, step=self._step.number, seq=run.next_seq + closing, wire=wire)

    def approve(self, call: Asked, *, fingerprint: str | None = None) -> bool:
        """Let a call run that waits for an approval, when its turn comes. False if that changes nothing: it has been
        decided, or the block was left.

        A loop over the pipeline ends when nothing runs and all that is left waits for an approval; loop again then.

        Args:
            call: the `ApprovalRequested`, one of `suspended.calls`, or the `call_id`.
            fingerprint: of the arguments that were approved, if they were looked at elsewhere.

        Raises:
            LocalProtocolError: nobody was asked about this call or these arguments; or this is another thread.
        """
        return self._decide(call, Decision(True), fingerprint)

    def deny(self, call: Asked, reason: str | None = None, *, fingerprint: str | None = None) -> bool:
        """Do not run a call that waits for an approval: it is ``denied``. False if that changes nothing; see `approve`.

        Args:
            call: the `ApprovalRequested`, one of `suspended.calls`, or the `call_id`.
            reason: why, for the model to read.
            fingerprint: of the arguments that were denied, if they were looked at elsewhere.

        Raises:
            LocalProtocolError: nobody was asked about this call or these arguments; or this is another thread.
        """
        return self._decide(call, Decision(False, reason), fingerprint)

    def _decide(self, call: Asked, decision: Decision, fingerprint: str | None) -> bool:
        if self._state == "opening":
            raise LocalProtocolError("the pipeline has not begun; decide after its ApprovalRequested")
        if self._state != "left":
            self._check_open()
        if isinstance(call, ApprovalRequested) and call.seq >= 0 and call.step not in self._steps():
            # A call of another step may have the same id and arguments.
            raise LocalProtocolError(f"the request is of step {call.step}, and this is step {self._step.number}")
        if isinstance(call, (ApprovalRequested, SuspendedCall)) and fingerprint is None:
            fingerprint = call.fingerprint
        decided = self._calls.decide(call if isinstance(call, str) else call.call_id, decision, fingerprint)
        self._outbox.resting &= not decided
        return decided

    def _steps(self) -> tuple[int, ...]:
        """This step, and the one that its calls were suspended in."""
        return (self._step.number,) if self._resumed is None else (self._step.number, self._resumed.step)

    def branch(self, *, size: int | None = None, when_full: WhenFull = "wait") -> Branch:
        """One more consumer, which sees every event from now on; see `Branch`. Also before the block is entered.

        Args:
            size: how many events may wait for its reader; by default ``Limits(event_buffer=...)``.
            when_full: ``"wait"``: the source is not read on. ``"drop_oldest"``: deltas and the like go, with a `Gap` in
                their place. ``"disconnect"``: the branch ends with `ConsumerTooSlow`.

        Raises:
            LocalProtocolError: the block was left.
            ValueError: `size` is no positive integer, or `when_full` none of these.
        """
        if self._state == "left":
            raise LocalProtocolError("the pipeline's block was left: make branches before it or inside it")
        return self._step.branch(size, when_full)

    async def aclose(self) -> None:
        """Stop now, inside the block: no more events, calls cancelled, source closed. Idempotent."""
        if self._state != "open":
            return
        assert self._pump_scope is not None, "set when the block was entered"
        self._error = None
        self._calls.stop()
        self._pump_scope.cancel()
        self._calls.cancel()
        self._outbox.discard()
        while self._pump_scope is not None and not self._pump_done:
            self._pump_awaited = self._pump_awaited or anyio.Event()
            await self._pump_awaited.wait()
        await self._calls.wait_idle()
        self._settle(self._outcome() if self._outbox.resting else "abandoned")

    def open(self, task_group: TaskGroup) -> OpenPipeline:
        """Start in a task group of yours, where no block can be written: in a generator of a web framework's.

            events = pipeline(stream, tools=[get_weather]).open(tasks)
            try:
                async for event in events:
                    yield event
            finally:
                await events.aclose()

        All that the block promises holds, but for its end: here that is `aclose`, or the end of the group, which waits
        for what is still open. An error that is no stream error and no tool's ends the group.

        Raises:
            TypeError: this is no task group of anyio's or trio's.
            LocalProtocolError: the group is not entered, or the pipeline was entered or opened before.
        """
        self._check_new()
        events = open_in(task_group, self, self._host)
        if self._state == "new":  # else the host has begun at once: asyncio's eager tasks do
            self._state = "opening"
        return events

    # -- the block -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Pipeline:
        self._check_new()
        self._state = "open"
        self._pump_scope, self._context = CancelScope(), copy_context()
        self._step.listen([StreamEnd], self._stream_ended)
        self._step.listen(Calls.listens_to, self._calls.on_event)
        self._step.begin(resumed=self._resumed is not None)
        self._group = create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(self._run)
        if self._pump.idle_timeout_s < math.inf:
            self._watch = IdleWatch.current()
            self._watch.add(self, self._group, self._pump)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None, "set when the block was entered"
        self._state = "left"
        broken = self._group.cancel_scope.cancel_called  # a task died of what nobody had foreseen
        self._calls.stop()
        if self._watch is not None:
            self._watch.remove(self._pump)
            self._watch.leave(self)
        self._group.cancel_scope.cancel()  # before the outbox is closed: what waits for room must not go on
        self._outbox.discard()
        try:
            # The body's own exception is not given to the group, which would wrap it; it leaves the block as it is.
            await self._group.__aexit__(None, None, None)
        except BaseExceptionGroup as group:
            fatal = group if broken else group.split(Exception)[1]
            if fatal is not None:
                raise unwrapped(fatal) from None
            # The consumer has left: what a source made of its cancellation is told, not raised into other code.
            self._step.emit(Warning("source_close_failed", type(unwrapped(group)).__name__))
        finally:
            cancelled = kind is not None and issubclass(kind, anyio.get_cancelled_exc_class())
            self._settle("cancelled" if cancelled else self._outcome() if self._outbox.resting else "abandoned")

    def _check_new(self) -> None:
        if self._state != "new":
            raise LocalProtocolError("a pipeline is entered once; make a new one for the next stream")

    def _check_open(self) -> None:
        if self._state == "open":
            return
        if self._state == "opening":
            raise TypeError("the pipeline was opened; iterate what `open` returned")
        verb = "was left" if self._state == "left" else "was not entered"
        raise TypeError(
            f"the pipeline's block {verb}; write:  async with pipeline(stream, tools=[...]) as events:  "
            "async for event in events: ..."
        )

    # -- tasks ---------------------------------------------------------------------------------------------------

    async def _host(self, hosted: Hosted) -> None:
        """Enter the block, and leave it when the handle says so; the one task of `open`."""
        self._state = "new"
        try:
            async with self:
                hosted.begun.set()
                try:
                    await hosted.closing.wait()
                except BaseException:
                    hosted.lost = True
                    raise
        finally:
            hosted.begun.set()
            hosted.left.set()

    async def _run(self) -> None:
        """Read the source to its end, let the calls finish, end the step."""
        assert self._pump_scope is not None, "set when the block was entered"
        try:
            with self._pump_scope:
                await self._pump.run()
                if self._watch is not None:
                    self._watch.remove(self._pump)
                if self._end is None and self._pump.raised is None and self._pump.end is not None:
                    # A transform kept it to itself.
                    self._step.emit(self._pump.end)
                if self._failed() and not self._drain:
                    self._calls.cancel()
                await self._calls.wait_idle()
                while self._calls.to_tell and not self._failed():
                    self._outbox.rest()
                    await self._calls.wait_told()
                    await self._calls.wait_idle()
                self._settle(self._outcome())
                failure = self._pump.raised or (self._end.error if self._end else None)
                self._outbox.fail_branches(failure)
                if not self._outbox.closed:
                    self._error = failure
        except Exception as error:  # a group of what was raised on the way out of a cancellation, after `aclose`
            self._step.emit(Warning("source_close_failed", type(error).__name__))
        finally:
            self._outbox.close()
            self._pump_done = True
            if self._pump_awaited is not None:
                self._pump_awaited.set()

    def _start_call(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        assert self._group is not None, "calls start inside the block"
        self._pump.must_pause = True
        self._context.copy().run(self._group.start_soon, run)

    # -- the end -------------------------------------------------------------------------------------------------

    def _stream_ended(self, event: Event) -> None:
        assert isinstance(event, StreamEnd), "that is what it listens to"
        self._end = event

    def _failed(self) -> bool:
        return self._pump.raised is not None or (self._end is not None and self._end.error is not None)

    def _outcome(self) -> Literal["complete", "truncated", "error", "abandoned"]:
        end = self._end
        if end is not None and isinstance(end.error, TruncatedStream):
            return "truncated"
        if self._failed():
            return "error"
        return "complete" if end is not None and end.complete else "abandoned"

    def _settle(self, outcome: Literal["complete", "truncated", "error", "cancelled", "abandoned"]) -> None:
        """Say what is left to say: no task runs any more. Idempotent."""
        if self._step.ended:
            return
        self._calls.stop()
        error = self._pump.stream_error()
        if self._end is None:
            try:
                self._step.emit_all(self._decoder.finish(error, abandoned=error is None))
            except Exception as raised:  # a stage of the user's
                self._step.emit(Warning("stage_failed", type(raised).__name__))
        if self._end is None:
            self._step.emit(StreamEnd(error=error))
        self._calls.settle()
        self._step.end(outcome)
