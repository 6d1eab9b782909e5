"""Runs a stream and its calls in a block: the one place that owns tasks.

Theory of operation. `Pipeline` is an async context manager and an async iterator, never an async generator that owns
a task group: leaving such a generator corrupts the consumer's cancel scopes (PEP 789; reproduced on asyncio and trio).
Where a consumer's own generator has the block, a task of the event loop's enters and leaves it (`hosted`).
One pump task reads the source and drives the decoder; each call runs in a task of its own; every event, from any of
them, goes through the `Step`, which numbers it, tells the observers and puts it into the outbox. Leaving the block
cancels the tasks that still run, waits for them, and settles: each call has its observation, the source is closed, the
step has its end.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import anyio
from anyio import CancelScope, create_task_group
from anyio.abc import TaskGroup
from anyio.lowlevel import EventLoopToken, checkpoint_if_cancelled, current_token

from ..dispatch import CallPool, Calls, DispatchOptions
from ..dispatch.approval import check_loop
from ..dispatch.options import LEAVES_CALLS
from ..dispatch.states import Call, Mention
from ..dispatch.timers import Timer, Timers
from ..dispatch.transitions import Transitions
from ..errors import DeadlineExceeded, LocalProtocolError
from ..event_loop import (
    is_cancellation,
    is_cancelled,
    is_in_generator,
    is_raised_by_loop,
    is_running,
    ring,
    settle_at_exit,
)
from ..events import AnswerRequested, ApprovalRequested, Event, Observation, StreamEnd, StreamWarning, ToolCallValidated
from ..limits import Limits
from ..observers import StreamFacts
from ..parts import ToolCall, Usage
from ..sources import Source
from ..text import shown_by, type_name
from ..tools import Toolset
from ..turn import Turn
from .group_exit import Deadlines, Settling, is_looked_at, join
from .pump import ItemDecoder, Pump, Transform, unwrapped
from .queues import Branch, Outbox, WhenFull
from .refusals import asynchronous_only, turned_to
from .step import Step
from .trajectory import Trajectory

if TYPE_CHECKING:  # loaded where they are used: most programs suspend no call, and use ``async with`` in a function
    from ..dispatch.approval import Decision
    from ..dispatch.origins import Origins
    from ..dispatch.suspended import Asked, Suspended
    from ..sources.failures import Failure
    from .hosted import Hosted, OpenPipeline, SyncPipeline
    from .retry import Retrying


class _NoPause:
    def cancel(self) -> None:
        """Does nothing: the step is not between two attempts."""


_NO_PAUSE: CancelScope | _NoPause = _NoPause()


class Pipeline:
    """One stream and the calls in it; made by `pipeline`. Enter it with ``async with``, and iterate inside the block.

    A stream error is raised at ``async for``, after the last event; a tool's error is an event; an error in the body of
    the block comes out unchanged. Leaving the block, in whatever way, cancels and awaits all that was started.
    """

    def __init__(
        self,
        source: Source,
        decoder: ItemDecoder,
        *,
        tools: Toolset,
        transforms: tuple[Transform, ...],
        options: DispatchOptions,
        pool: CallPool | None,
        limits: Limits,
        trajectory: Trajectory,
        drain: bool,
        suspended: Suspended | None = None,
        before: Callable[[], Awaitable[None]] | None = None,
        requested_at: float | None = None,
        request: Mapping[str, Any] | None = None,
        settled: Mapping[str, Observation] | None = None,
        asks_model: bool = True,
        facts: StreamFacts | None = None,
        retrying: Retrying | None = None,
    ) -> None:
        self._outbox = Outbox(limits.event_buffer)
        self._step = Step(trajectory, self._outbox, tools)
        self.trajectory = trajectory
        """The run that this is a step of."""
        self._given = (tools, transforms, pool, limits)
        self._retrying = retrying
        self._attempt_seq = -1  # of the `AttemptBegan`
        self._cut_for: str | None = None  # why the response was cut
        self._pause = _NO_PAUSE  # around the wait for another attempt
        self._void: dict[str, Observation] = {}  # of the calls of discarded attempts
        self._read_from(source, decoder, options, facts, settled or {})
        self._origins = options.origins
        self._resumed = suspended
        self._before = before  # what is to be done before the step begins
        self._resumes = None if suspended is None else suspended.traceparent
        self._proposed_by = None if suspended is None else suspended.proposed_by
        self._replayed = self._reads_record = False
        self._asks_model = asks_model
        self._request = request
        self._begins_with: tuple[Event, ...] = ()
        self._dispatches = options.policy not in LEAVES_CALLS
        self._deadlines = Deadlines(limits, self._pump, self._expire, requested_at)
        self._timers: Timers | None = None
        self._own_timers: set[Timer] = set()
        self._drain = drain  # let calls that run finish when the stream fails
        self._state: Literal["new", "opening", "open", "left"] = "new"
        self._group: TaskGroup | None = None
        self._hosted: Hosted | None = None  # if a task of its own has entered the block
        self._pump_scope: CancelScope | None = None
        self._pump_done = False
        self._pump_awaited: anyio.Event | None = None  # made when first awaited: there may be 1,000 streams
        self._context = copy_context()  # the caller's, for tools; a source may change its own
        self._token: EventLoopToken | None = None  # of the event loop that the block was entered in
        self._error: BaseException | None = None  # to be raised at `async for`, once

    __repr__ = shown_by("run_id", "turn")

    def _read_from(
        self,
        source: Source,
        decoder: ItemDecoder,
        options: DispatchOptions,
        facts: StreamFacts | None,
        settled: Mapping[str, Observation],
    ) -> None:
        """Makes all that reads one stream and runs its calls."""
        tools, transforms, pool, limits = self._given
        self._decoder = decoder
        self._pump = Pump(source, decoder, self._step, self._outbox, transforms, limits, settled, facts)
        transitions = Transitions(pool, tools, limits, options, self._step, self._start_call, self._at)
        self._calls = Calls(transitions, tools)
        self._ending = Settling(self._step, decoder, self._pump, self._calls)
        if self._retrying is not None:
            self._pump.judge = self._discards
            if self._retrying.retry.resume is not None:
                self._pump.resume = self._retrying.rest
            self._retrying.sight = self

    # -- for the consumer ----------------------------------------------------------------------------------------

    @property
    def turn(self) -> Turn:
        """The response so far, as a turn; final after the last event, and after the block."""
        return self._step.turn(self._decoder.record or self._decoder.wire)

    @property
    def run_id(self) -> str:
        """The run that this step belongs to."""
        return self._step.run_id

    @property
    def resting(self) -> bool:
        """True while all is read, and nothing more comes unless somebody approves a call, denies it, or, with
        ``start="manual"``, runs it by `run_call`."""
        return self._outbox.resting and not self._step.ended

    if not TYPE_CHECKING:  # type checkers see the mistake themselves
        __iter__ = __enter__ = __exit__ = asynchronous_only("a pipeline", "pipeline(...) as events")
        __getattr__ = turned_to("events.turn")

    def __aiter__(self) -> Pipeline:
        self._check_open()
        return self

    async def __anext__(self) -> Event:
        outbox = self._outbox  # `__getattr__` makes each attribute of this object dear
        queue = outbox.queue
        while not queue:  # as in `Outbox.wait`
            if outbox.closed or outbox.resting:
                return await self._ended()
            if outbox.awaited is None:
                if self._state in ("new", "left"):  # it was not entered, or could not be
                    self._check_open()
                outbox.awaited = anyio.Event()
            await outbox.awaited.wait()
        event = queue.popleft()
        if outbox.room_awaited is not None and len(queue) <= outbox.size // 2:
            outbox.make_room()
        return event

    async def _ended(self) -> NoReturn:
        """Raises what follows the last event: the error of the stream, once, or the end of the iteration."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if not (self._step.ended or self._outbox.resting):
            await checkpoint_if_cancelled()  # the pump is told of a cancellation before this task is
        raise StopAsyncIteration

    async def finish(self) -> Turn:
        """Reads to the end, or until calls wait for an approval, ignoring the events; returns the turn. Awaiting the
        pipeline does the same. Inside the block this reads the rest.

            turn = await pipeline(stream, tools=[get_weather])

        Raises:
            StreamError: the stream failed.
        """
        if self._state == "new":
            async with self:
                await self.finish()
        else:
            self._check_open()
            await self._outbox.skip()
            async for _ in self:  # raises the stream's error
                pass
        return self.turn

    def __await__(self) -> Generator[Any, Any, Turn]:
        return self.finish().__await__()

    async def run_call(self, call: ToolCall | ToolCallValidated | str) -> Observation:
        """Runs a ready call now, with ``start="manual"``, and returns its observation; a second time, the same one.

        A loop over the pipeline ends when nothing runs any more; after this there may be more events, so loop again. A
        call that is run before its turn has ended well may have a result for a turn that then fails. Calls that were
        never run are ``skipped``, as are all that wait when the turn does not end well. For a call that needs an
        approval this waits until it is decided: let another task do so, or pass ``approve=``.

        Raises:
            LocalProtocolError: calls start by themselves here, or this one is not known or not ready.
        """
        if self._state != "left":
            self._check_open()
        call_id = call if isinstance(call, str) else call.call_id
        if self._is_void(call):
            return self._void[call_id]
        self._outbox.resting &= not self._calls.ask(call_id)
        return await self._calls.observed(call_id)

    @property
    def suspended(self) -> Suspended | None:
        """The calls that wait for an approval or an answer, to be kept for later, elsewhere: see `resume`. None if
        there are none; also after the block. Calls of a turn that did not end well are not run any more, and not among
        them."""
        calls, run, resumed = self._calls.undecided, self.trajectory, self._resumed
        if not calls and resumed is not None and not self._calls.announced:  # the block was left at once
            return replace(resumed, seq=run.next_seq) if self._step.ended else resumed
        return self._suspended(calls)

    def asked_about(self, call_id: str) -> Suspended | None:
        """Returns the call of this id if it waits for people, as `suspended` will have it. `AgentLoop` calls
        this."""
        return self._suspended(self._calls.asked_about(call_id))

    def _suspended(self, calls: list[Call]) -> Suspended | None:
        if not calls:
            return None
        run, wire, resumed = self.trajectory, self._decoder.wire, self._resumed
        from ..dispatch.suspended import Suspended

        closing = 0 if self._step.ended else self._calls.unobserved + 1  # events, if the block is left now
        return Suspended.of(
            calls,
            run.spent,
            run_id=run.run_id,
            step=self._step.number,
            seq=run.next_seq + closing,
            wire=wire,
            traceparent=run.traceparent() or (resumed and resumed.traceparent),
            proposed_by=run.proposed_by() or (resumed and resumed.proposed_by),
        )

    def approve(
        self,
        call: Asked,
        *,
        fingerprint: str | None = None,
        by: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> bool:
        """Approves a call that waits for it, so that the call runs when its turn comes. Returns False if that changes
        nothing: the call has been decided, or the block was left.

        A loop over the pipeline ends when nothing runs and all calls that are left wait for an approval; loop again
        then.

        Args:
            call: the `ApprovalRequested`, one of `suspended.calls`, or the `call_id`.
            fingerprint: of the arguments that were approved, if they were looked at elsewhere.
            by: who approves it. A call of a tool with ``requires=2`` runs when two have, by different names.
            arguments: all arguments that it is to run with, if they are not those that were shown. The model reads
                that they were changed.

        With a store that keeps decisions, this one counts if it is the first there; `ApprovalResolved` says whose does.

        Raises:
            InvalidArguments: `arguments` do not fit the tool; the call goes on waiting.
            LocalProtocolError: nobody was asked about this call or these arguments; it needs a name; or this is another
                thread.
            TypeError, ValueError: `arguments` are no object of JSON, or larger than 256 kB.
        """
        return self._decide(call, True, fingerprint, by=by, arguments=arguments)

    def deny(
        self, call: Asked, reason: str | None = None, *, fingerprint: str | None = None, by: str | None = None
    ) -> bool:
        """Denies a call that waits for an approval, so that it is ``denied``; `reason` is for the model to read. All
        else is as in `approve`."""
        return self._decide(call, False, fingerprint, by=by, reason=reason)

    def take_decision(self, key: str, decision: Decision) -> bool | None:
        """Takes a decision that was made elsewhere about the call of this key; returns False if it comes too late, and
        None if nobody was asked about the call yet. `AgentLoop` calls this."""
        taken = self._calls.take_decision(key, decision)
        self._outbox.resting &= not taken
        return taken

    def answer(
        self, call: Asked | AnswerRequested, result: Any, *, is_error: bool = False, fingerprint: str | None = None
    ) -> bool:
        """Hands in the result of a call of a tool with ``external=True``. The first answer counts; the same one again
        changes nothing. Returns False if nothing changes.

        A loop over the pipeline waits for the answer, or with ``rests=True`` ends when nothing else goes on; loop again
        then.

        Args:
            call: the `AnswerRequested`, one of `suspended.calls`, or the `call_id`.
            result: text, JSON, or a `ToolResult`. It is bounded, checked and trusted as the result of any tool.
            is_error: the call has failed, and the result says why.
            fingerprint: of the arguments that were answered, if they were looked at elsewhere.

        With a store that keeps decisions, this answer counts if it is the first on record there.

        Raises:
            AnswerError: there is no such call in this step, it waits for no answer, or it has had another one.
            TypeError: the result is no JSON.
            ValueError: the result is larger than 32 MB.
            LocalProtocolError: this is another thread.
        """
        from ..dispatch.answers import written_answer  # most calls run here

        self._check_begun()
        self._check_step(call)
        if fingerprint is None:
            fingerprint = getattr(call, "fingerprint", None)
        call_id = call if isinstance(call, str) else call.call_id
        record = written_answer(result, is_error=is_error)
        given = self._calls.answer(call_id, record, fingerprint)
        self._outbox.resting &= not given
        return given

    def look_for_answer(self, call_id: str) -> None:
        """Looks for an answer that was put on record elsewhere. `AgentLoop` calls this."""
        if self._state == "open":
            self._calls.look_for_answer(call_id)

    def cancel(self, call: Mention | str, reason: str | None = None) -> bool:
        """Stops one call, whatever its state, as a person's stop button does; the others go on. Returns False if that
        changes nothing: the call is over, or was told to stop before. A call that has not begun is ``cancelled`` at
        once, and never runs. An async tool that runs is cancelled where it awaits; a thread is given up.

        Args:
            call: an event about the call, or its `call_id`.
            reason: why, for the model to read, if the call has not begun.

        Raises:
            LocalProtocolError: there is no such call in this step; or this is another thread.
        """
        self._check_begun()
        if self._state == "open":
            check_loop(self._token, "cancel")
        if self._is_void(call):
            return False
        changed = self._calls.cancel_one(call if isinstance(call, str) else call.call_id, reason)
        self._outbox.resting &= not changed
        return changed

    def cut(self, reason: str, *, spares_approvals: bool) -> bool:
        """Ends the response here, without an error: nothing more is read, calls that have not begun are ``skipped``,
        the others go on to their end. Returns False if that is not to be done. `AgentLoop` calls this.

        Args:
            reason: why, for the model to read about the calls.
            spares_approvals: nothing is cut while a call waits for an approval.
        """
        if self._state == "left" or (spares_approvals and self._calls.is_asking):
            return False
        self._cut_for = reason
        if not self._reads_record:  # else the response is whole, and so are the calls that have begun
            self._pump.cut()
        self._calls.cut(reason)
        self._pause.cancel()
        self._outbox.resting = False
        return True

    def _decide(self, call: Asked, verdict: bool, fingerprint: str | None, *, by: str | None, **given: Any) -> bool:
        self._check_begun()
        self._check_step(call)
        if self._is_void(call):
            return False
        if fingerprint is None:
            fingerprint = getattr(call, "fingerprint", None)  # a `ToolCall` has none
        call_id = call if isinstance(call, str) else call.call_id
        decided = self._calls.decide(call_id, verdict, fingerprint, by=by, **given)
        self._outbox.resting &= not decided
        return decided

    def _check_step(self, call: Asked | AnswerRequested) -> None:
        if not isinstance(call, (AnswerRequested, ApprovalRequested)) or call.seq < 0:
            return
        if call.step not in self._steps():  # a call of another step may have the same id and arguments
            raise LocalProtocolError(f"the request is of step {call.step}, and this is step {self._step.number}")

    def _is_void(self, call: Mention | str) -> bool:
        """Returns whether a call is one of a discarded attempt, whose id may have recurred."""
        call_id = call if isinstance(call, str) else call.call_id
        if call_id not in self._void:
            return False
        seq = getattr(call, "seq", -1)
        return not self._calls.knows(call_id) if seq < 0 else seq < self._attempt_seq

    def _check_begun(self) -> None:
        if self._state == "opening":
            raise LocalProtocolError("the pipeline has not begun; wait for an event about the call")
        if self._state != "left":
            self._check_open()

    def _steps(self) -> tuple[int, ...]:
        """Returns the number of this step, and of the step that its calls were suspended in."""
        return (self._step.number,) if self._resumed is None else (self._step.number, self._resumed.step)

    def branch(self, *, size: int | None = None, when_full: WhenFull = "wait") -> Branch:
        """Returns one more consumer, which sees every event from now on; see `Branch`. May be called before the block
        is entered.

        Args:
            size: how many events may wait for the branch's reader; by default ``Limits(event_buffer=...)``.
            when_full: ``"wait"``: reading the source pauses. ``"drop_oldest"``: deltas and the like are dropped, with
                an `EventsDropped` in their place. ``"disconnect"``: the branch ends with `ConsumerTooSlow`.

        Raises:
            LocalProtocolError: the block was left.
            ValueError: `size` is no positive integer, or `when_full` none of these.
        """
        if self._state == "left":
            raise LocalProtocolError("the pipeline's block was left: make branches before it or inside it")
        return self._step.branch(size, when_full)

    async def aclose(self) -> None:
        """Stops now, inside the block: no more events, calls cancelled, source closed. Idempotent."""
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
        self._ending.settle(self._ending.outcome if self._outbox.resting else "abandoned")

    async def discard(self) -> None:
        """Closes the stream of a pipeline that is not to be entered after all: no event is made, and no tool runs.

        Raises:
            LocalProtocolError: the pipeline was entered, opened or discarded before.
        """
        self._check_new()
        self._state = "left"
        await self._pump.discard()

    def sync(self, backend: str = "asyncio") -> SyncPipeline:
        """Returns the pipeline for a program without an event loop, which runs one in a thread meanwhile.

            with pipeline(stream, tools=[get_weather]).sync() as events:
                for event in events:
                    ...

        Args:
            backend: ``"asyncio"``, or ``"trio"`` where that is installed.
        """
        from .hosted import SyncPipeline

        return SyncPipeline(self, backend)

    def open(self, task_group: TaskGroup | None = None) -> OpenPipeline:
        """Starts the pipeline without a block: for a generator, a framework's callback, a notebook.

            events = pipeline(stream, tools=[get_weather]).open()
            try:
                async for event in events:
                    yield event
            finally:
                await events.aclose()

        All that the block promises holds, except its end: here the end is `aclose`, or that of the group, which waits
        for pipelines that are still open.

        Args:
            task_group: a task group of anyio's, or a nursery of trio's, that holds the tasks; an error that is no
                stream error and no tool's ends it. By default a task of asyncio's event loop holds them; trio has no
                such tasks, and wants a nursery.

        Raises:
            TypeError: this is no task group; or none was given on trio.
            LocalProtocolError: the group is not entered, no event loop runs, or the pipeline was entered or opened
                before.
        """
        from .hosted import check_group

        check_group(task_group)
        return self.open_in(task_group)

    def open_in(self, task_group: TaskGroup | None) -> OpenPipeline:
        """Starts the pipeline as `open` does; on trio, too, if there is no group."""
        from .hosted import open_in

        self._check_new()
        events = open_in(task_group, self, self._host)
        if self._state == "new":  # else the host has begun at once: asyncio's eager tasks do
            self._state = "opening"
        return events

    def with_response_on_record(
        self,
        traceparent: str | None,
        *,
        proposed_by: str | None = None,
        replayed: bool,
        origins: Origins | None = None,
        attempt: int = 1,
        withheld: tuple[str, bool] | None = None,
    ) -> Pipeline:
        """Makes this a step whose response is on record, in a journal: the model is not asked. Returns itself.

        Args:
            traceparent: of the span of the step that had asked for it.
            proposed_by: of the response's own span.
            replayed: the ends of its calls are on record, too.
            origins: takes the texts of a step that is replayed.
            attempt: the number of the attempt that it was, which is part of the calls' keys.
            withheld: why calls that have not begun are not run, and whether approvals are spared; None if all are run.
        """
        self._origins = self._origins if origins is None else origins
        self._asks_model, self._resumes, self._replayed = False, traceparent, replayed
        self._calls.attempt, self._reads_record = attempt, True
        if not replayed:
            from ..dispatch.on_record import look_up_first  # few runs have a journal

            self._calls.looks_up = partial(look_up_first, withheld)
        self._proposed_by = proposed_by
        return self

    def beginning_with(self, events: Iterable[Event]) -> Pipeline:
        """Emits these events behind its `StepStart`. Returns itself. `agent_loop` calls this."""
        self._begins_with = tuple(events)
        return self

    # -- the block -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Pipeline:
        self._check_new()
        if is_in_generator():
            from .hosted import enter_alone

            self._hosted = await enter_alone(self._host)
        else:
            await self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state = "left"
        is_unread = kind is None and self._outbox.is_unread
        if self._hosted is not None and is_running(self._token):
            await self._hosted.close(cancelled=is_cancellation(kind))
        else:
            await self._end(kind)
        if is_unread:
            warnings.warn(_unread(self.turn), RuntimeWarning, stacklevel=2)

    async def _enter(self) -> None:
        """Begins the step, in this task."""
        if self._before is not None:
            self._state = "opening"
            try:
                await self._before()
            except BaseException:
                self._state = "left"
                raise
        self._state = "open"
        self._pump_scope, self._context = CancelScope(), copy_context()
        self._token = current_token()
        self._listen()
        self._step.begin(
            asks_model=self._asks_model,
            dispatches=self._dispatches,
            requested_at=self._deadlines.requested_at,
            request=self._request,
            resumes=self._resumes,
            proposed_by=self._proposed_by,
            continued=self._resumed is not None or (self._reads_record and not self._replayed),
            replayed=self._replayed,
        )
        for event in self._begins_with:
            self._step.emit(event)
        self._group = create_task_group()
        await self._group.__aenter__()
        try:
            settle_at_exit(self)
            self._group.start_soon(self._run)
            self._timers = Timers.current()
            self._timers.join(self, self._group)
            self._deadlines.set(self._at, self.trajectory.began_at)
            if self._retrying is not None:
                self._begin_attempt(self._retrying)
        except BaseException as error:  # an interrupt: nobody else leaves a block that was not entered
            await self._end(type(error))
            raise

    def _listen(self) -> None:
        """Has those who read the stream and run its calls hear of its events."""
        if self._retrying is not None:
            self._step.listen({StreamEnd: self._commit})
        self._step.listen({StreamEnd: self._ending.stream_ended})
        self._step.listen(self._calls.listeners())
        if self._origins is not None:
            self._step.listen(self._origins.listeners())

    async def _end(self, kind: type[BaseException] | None) -> None:
        """Ends all that was begun, in the task that has begun it; `kind`: of the error that the block is left with."""
        self._state = "left"
        try:
            if kind is GeneratorExit and not is_running(self._token):  # the loop is closed: nothing can be awaited
                self._ending.settle_surely("cancelled")
            else:
                await self._leave(cancelled=is_cancellation(kind))
        finally:
            for timer in tuple(self._own_timers):  # also of calls that were cancelled just now; each holds this block
                timer.stop()

    async def _leave(self, *, cancelled: bool) -> None:
        group = self._group
        assert group is not None, "set when the block was entered"
        broken = group.cancel_scope.cancel_called  # a task died of an unforeseen error
        # Each step stands in the `finally` of the one before it: a second Ctrl-C may interrupt any line.
        try:
            self._part(group)
        finally:
            try:
                group.cancel_scope.cancel()  # before the outbox is closed: a task that waits for room must not go on
                self._outbox.discard()
            finally:
                try:
                    await self._join(group, broken=broken)
                finally:
                    left = self._ending.outcome if self._outbox.resting else "abandoned"
                    self._ending.settle_surely("cancelled" if cancelled else left)

    def _part(self, group: TaskGroup) -> None:
        """Starts nothing more, and takes this pipeline's timers out of the event loop's."""
        self._calls.stop()
        self._deadlines.stop()
        if self._timers is not None:
            self._timers.leave(self)
        if self._calls.busy and not is_looked_at(group):
            group.start_soon(self._calls.tell_stragglers)

    async def _join(self, group: TaskGroup, *, broken: bool) -> None:
        """Waits for the tasks. The body's own exception is not passed to their group, which would wrap it; the
        exception comes out of the block unchanged."""
        try:
            await join(group, self._calls.look)
        except BaseExceptionGroup as raised:
            fatal = raised if broken else raised.split(Exception)[1]
            if fatal is not None:
                if is_raised_by_loop(fatal) and is_cancelled():
                    raise anyio.get_cancelled_exc_class()("the event loop was interrupted") from None
                raise unwrapped(fatal) from None
            # The consumer has left: an error that a source made of its cancellation is a warning, and is not raised
            # into other code.
            self._step.emit(StreamWarning("source_close_failed", type(unwrapped(raised)).__name__))

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
        """Enters the block, and leaves it when that is asked for; the one task that does so for others."""
        try:
            try:
                await self._enter()
                await self._stay(hosted)
            except Exception as error:
                if hosted.in_group:
                    raise
                hosted.failure = error
            finally:
                hosted.begun.set()
        finally:
            hosted.left.set()

    async def _stay(self, hosted: Hosted) -> None:
        """Stays in the block until it is to be left, and leaves it."""
        kind: type[BaseException] | None = None
        try:
            hosted.begun.set()
            await hosted.closing.wait()
            kind = anyio.get_cancelled_exc_class() if hosted.cancelled else None
        except BaseException as error:
            hosted.lost, kind = True, type(error)
            raise
        finally:
            await self._end(kind)

    async def _run(self) -> None:
        """Reads the source to its end, lets the calls finish, and ends the step."""
        assert self._pump_scope is not None, "set when the block was entered"
        ending = self._ending
        try:
            with self._pump_scope:
                await self._pump.run()
                if self._retrying is not None:
                    ending = await self._attempt_again(self._retrying)
                self._deadlines.source_is_over()
                if ending.end is None and self._pump.raised is None and self._pump.end is not None:
                    # A transform has not passed it on.
                    self._step.emit(self._pump.end)
                drains = self._drain or (self._retrying is not None and self._retrying.cut)
                if ending.failure is not None and not (drains and ending.expired is None):
                    self._calls.cancel()
                later = self._pump.later()
                await (self._calls_end() if later is None else self._calls_end_watched(later))
                self._deadlines.stop()
                if self._retrying is not None:
                    await self._retrying.carried.drop()
                ending.settle(ending.outcome)
                is_raised = self._retrying is None or self._retrying.is_error or ending.expired is not None
                self._outbox.fail_branches(ending.failure if is_raised else None)
                if not self._outbox.closed and is_raised:
                    self._error = ending.failure
        except Exception as error:  # a group of errors raised while a cancellation was handled, after `aclose`
            self._step.emit(StreamWarning("source_close_failed", type_name(error)))
        finally:
            self._pump_done = True  # before what a Ctrl-C may interrupt: somebody may wait for it
            try:
                self._outbox.close()
            finally:
                if self._pump_awaited is not None:
                    ring(self._pump_awaited)

    # -- several attempts, with ``retry=`` --

    def go_on_when_cut(self) -> None:
        """Has an answer that broke off behind the begin of a call end without an error: another step follows.
        `agent_loop` calls this."""
        if self._retrying is not None:
            self._retrying.goes_on = True

    async def _attempt_again(self, retrying: Retrying) -> Settling:
        """Discards the attempt and reads another one, as long as that is decided so; returns the end of the last."""
        while self._pump.is_void:
            self._deadlines.source_is_over()
            expired = self._ending.expired
            self._read_from(*retrying.prepare(retrying.request), {})
            self._listen()
            self._step.reroute()
            if expired is not None:
                self._ending.expire(expired)
            if self._cut_for is not None:
                self._pump.cut()
                self._calls.cut(self._cut_for)
            with CancelScope() as self._pause:
                await anyio.sleep(retrying.pause if self._cut_for is None and expired is None else 0)
            self._pause = _NO_PAUSE
            self._deadlines.begin_source(self._pump, time.monotonic())
            self._begin_attempt(retrying)
            await self._pump.run()
        return self._ending

    def _discards(self, error: Exception, end: StreamEnd) -> bool:
        """Discards the attempt that has failed so, if that is decided; returns whether it is."""
        # At once: a call may begin while the source is closed, and must not be one that nobody may discard.
        retrying = self._retrying
        assert retrying is not None, "else nobody asks"
        if not retrying.judge(error, end):
            return False
        event = retrying.discarded(self._attempt_seq, end)
        if self._pump.came and self._calls.lacks_counts(end):
            self._step.emit(
                StreamWarning("tokens_uncounted", "the response has no token counts, so token_budget counts none")
            )
        self._void |= self._calls.discard(event.usage, retrying.carried)
        retrying.take_back_counts()
        self._step.discard(event)
        self._attempt_seq = event.seq
        return True

    def _begin_attempt(self, retrying: Retrying) -> None:
        if retrying.retry.after_output:  # else it is discarded before it has any call
            retrying.take_back_counts = self._step.counts.mark()
        event = retrying.began()
        self._step.emit(event)
        self._attempt_seq = event.seq

    def _commit(self, end: StreamEnd) -> None:
        assert self._retrying is not None, "else nobody listens"
        event = self._retrying.committed(end)
        if event is not None:
            self._step.emit(event)
            self._calls.cancel_unwanted(self._retrying.carried)

    @property
    def has_output(self) -> bool:
        """True once the answer has shown something."""
        return self._step.has_output

    @property
    def is_bound(self) -> bool:
        """True once a call has begun that must not run twice."""
        return self._calls.is_bound

    def leaves(self, seconds: float, usage: Usage | None) -> bool:
        """Returns whether so many seconds, and some tokens, are left of the step and of the run."""
        return self._calls.leaves_tokens(usage) and self._deadlines.leaves(seconds, self.trajectory.began_at)

    def failure(self, error: Exception) -> Failure:
        """Returns the way in which the attempt failed."""
        return self._pump.failure(error)

    def _expire(self, error: DeadlineExceeded) -> None:
        self._ending.expire(error)
        self._pause.cancel()

    async def _calls_end(self) -> None:
        """Waits until no call goes on, and none waits for somebody who is there."""
        await self._calls.wait_idle()
        while self._calls.to_tell and self._ending.failure is None:
            self._outbox.rest()
            await self._calls.wait_decided()
            await self._calls.wait_idle()

    async def _calls_end_watched(self, later: AsyncIterator[Mapping[str, Any]]) -> None:
        """Waits for the calls while the connection is read, on which the provider may take them back."""
        async with create_task_group() as group:
            group.start_soon(self._pump.watch, later, self._calls.take_back)
            await self._calls_end()
            group.cancel_scope.cancel()

    def _start_call(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        assert self._group is not None, "calls start inside the block"
        self._pump.must_pause = True
        self._context.copy().run(self._group.start_soon, run)

    def _at(self, when: float, callback: Callable[[], None]) -> Timer:
        assert self._timers is not None, "set when the block was entered"
        return self._timers.at(when, callback, self._own_timers)

    # -- the end -------------------------------------------------------------------------------------------------

    def settle_at_exit(self) -> None:
        """Settles the step when the program ends, if its event loop was cut off in the middle of the block."""
        if self._state != "new" and not is_running(self._token):
            self._ending.settle_surely("cancelled")


def _unread(turn: Turn) -> str:
    """Returns the warning that a block was left of which nobody has read anything."""
    names = [seen.tool_name for seen in turn.observations if seen.outcome != "ok"]
    calls = f", and these calls did not run: {', '.join(names)}" if names else ""
    return (
        f"a pipeline's block was left before anything of it was read, so its stream was not read to the end{calls}; "
        "write `async for event in events: ...` in it, or `await events.finish()`"
    )
