"""A stream and its calls, as the program that reads them has them: entered, iterated, decided about, left.

`Pipeline` is an async context manager and an async iterator, never an async generator that owns a task group: leaving
such a generator corrupts the consumer's cancel scopes (PEP 789; reproduced on asyncio and trio). Where a consumer's own
generator has the block, a task of the event loop's enters and leaves it (`hosted`). All that happens is the `Runner`'s.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from ..dispatch.event_loop import check_loop, is_cancellation, is_in_generator, is_running
from ..dispatch.states import Mention
from ..errors import LocalProtocolError
from ..events import AnswerRequested, ApprovalRequested, Event, Observation, ToolCallValidated
from ..ground.text import shown_by
from ..parts import ToolCall
from ..pipelines.queues import Branch, WhenFull
from ..pipelines.refusals import asynchronous_only, turned_to
from ..pipelines.runner import Runner
from ..pipelines.trajectory import Trajectory
from ..turn import Turn

if TYPE_CHECKING:  # loaded where they are used: most programs suspend no call, and use ``async with`` in a function
    from ..durable.suspended import Suspended
    from ..pipelines.blocking import SyncPipeline
    from ..pipelines.hosted import Hosted, OpenPipeline
    from ..seams.desk import Asked


class Pipeline:
    """One stream and the calls in it; made by `pipeline`. Enter it with ``async with``, and iterate inside the block.

    A stream error is raised at ``async for``, after the last event; a tool's error is an event; an error in the body of
    the block comes out unchanged. Leaving the block, in whatever way, cancels and awaits all that was started.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._resumed: Suspended | None = None  # what the step goes on with; set where it is made
        self._outbox = runner.outbox  # here as well, since each event is taken from it
        self._hosted: Hosted | None = None  # if a task of its own has entered the block

    __repr__ = shown_by("run_id", "turn")

    @property
    def trajectory(self) -> Trajectory:
        """The run that this is a step of."""
        return self._runner.trajectory

    @property
    def turn(self) -> Turn:
        """The response so far, as a turn; final after the last event, and after the block."""
        return self._runner.turn

    @property
    def run_id(self) -> str:
        """The run that this step belongs to."""
        return self._runner.step.run_id

    @property
    def resting(self) -> bool:
        """True while all is read, and nothing more comes unless somebody approves a call, denies it, or, with
        ``start="manual"``, runs it by `run_call`."""
        return self._outbox.resting and not self._runner.step.ended

    if not TYPE_CHECKING:  # type checkers see the mistake themselves
        __iter__ = __enter__ = __exit__ = asynchronous_only("a pipeline", "pipeline(...) as events")
        __getattr__ = turned_to("events.turn")

    def __aiter__(self) -> Pipeline:
        self._runner.check_open()
        return self

    async def __anext__(self) -> Event:
        outbox = self._outbox  # `__getattr__` makes each attribute of this object dear
        queue = outbox.queue
        while not queue:  # as in `Outbox.wait`
            if outbox.closed or outbox.resting:
                return await self._ended()
            if outbox.awaited is None:
                if self._runner.state in ("new", "left"):  # it was not entered, or could not be
                    self._runner.check_open()
                outbox.await_one()
            assert outbox.awaited is not None, "just made"
            await outbox.awaited.wait()
        event = queue.popleft()
        if outbox.room_awaited is not None and len(queue) <= outbox.size // 2:
            outbox.make_room()
        return event

    async def _ended(self) -> NoReturn:
        runner = self._runner
        if runner.error is not None:
            error, runner.error = runner.error, None
            raise error
        if not (runner.step.ended or self._outbox.resting):
            await checkpoint_if_cancelled()  # the pump is told of a cancellation before this task is
        raise StopAsyncIteration

    async def finish(self) -> Turn:
        """Reads to the end, or until calls wait for an approval, ignoring the events; returns the turn. Awaiting the
        pipeline does the same. Inside the block this reads the rest.

            turn = await pipeline(stream, tools=[get_weather])

        Raises:
            StreamError: the stream failed.
        """
        if self._runner.state == "new":
            async with self:
                await self.finish()
        else:
            self._runner.check_open()
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
        runner = self._runner
        if runner.state != "left":
            runner.check_open()
        call_id, calls = call if isinstance(call, str) else call.call_id, runner.attempt.calls
        if (seen := runner.void(call)) is not None:
            return seen
        runner.noted(calls.ask(call_id))
        return await calls.observed(call_id)

    @property
    def suspended(self) -> Suspended | None:
        """The calls that wait for an approval or an answer, to be kept for later, elsewhere: see `resume`. None if
        there are none; also after the block. Calls of a turn that did not end well are not run any more, and not among
        them."""
        if not (self._resumed or self._runner.attempt.calls.undecided):
            return None
        from ..durable.suspended_steps import left_by

        return left_by(self._runner, self._resumed)

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
            by: who approves it. A call of a tool with ``approvals=2`` runs when two have, by different names.
            arguments: all arguments that it is to run with, if they are not those that were shown. The model reads
                that they were changed.

        With a store that keeps decisions, this one counts if it is the first there; `ApprovalResolved` says whose does.

        Raises:
            InvalidArguments: `arguments` do not fit the tool; the call goes on waiting.
            LocalProtocolError: nobody was asked about this call or these arguments; or this is another thread.
            DecisionError: several people have to approve the call, and `by` is missing, or `arguments` are given.
            TypeError, ValueError: `arguments` are no object of JSON, or larger than 256 kB.
        """
        return self._decide(call, True, fingerprint, by=by, arguments=arguments)

    def deny(
        self, call: Asked, reason: str | None = None, *, fingerprint: str | None = None, by: str | None = None
    ) -> bool:
        """Denies a call that waits for an approval, so that it is ``denied``; `reason` is for the model to read. All
        else is as in `approve`."""
        return self._decide(call, False, fingerprint, by=by, reason=reason)

    def answer(
        self, call: Asked | AnswerRequested, result: Any, *, is_error: bool = False, fingerprint: str | None = None
    ) -> bool:
        """Hands in the result of a call of a ``deferred=`` tool. The first answer counts; the same one again
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
        from ..waiting.answers import written_answer  # few calls are done outside

        self._runner.check_begun()
        self._check_step(call)
        if fingerprint is None:
            fingerprint = getattr(call, "fingerprint", None)
        call_id = call if isinstance(call, str) else call.call_id
        record = written_answer(result, is_error=is_error)
        return self._runner.noted(self._runner.attempt.calls.waiting.answer(call_id, record, fingerprint))

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
        runner = self._runner
        runner.check_begun()
        if runner.state == "open":
            check_loop(runner.token, "cancel")
        if runner.void(call) is not None:
            return False
        call_id = call if isinstance(call, str) else call.call_id
        return runner.noted(runner.attempt.calls.cancel_one(call_id, reason))

    def _decide(self, call: Asked, verdict: bool, fingerprint: str | None, *, by: str | None, **given: Any) -> bool:
        self._runner.check_begun()
        self._check_step(call)
        if self._runner.void(call) is not None:
            return False
        if fingerprint is None:
            fingerprint = getattr(call, "fingerprint", None)  # a `ToolCall` has none
        call_id = call if isinstance(call, str) else call.call_id
        decided = self._runner.attempt.calls.waiting.decide(call_id, verdict, fingerprint, by=by, **given)
        return self._runner.noted(decided)

    def _check_step(self, call: Asked | AnswerRequested) -> None:
        if not isinstance(call, (AnswerRequested, ApprovalRequested)) or call.seq < 0:
            return
        number, resumed = self._runner.step.number, self._resumed
        # A call of another step may have the same id and arguments.
        if call.step not in ((number,) if resumed is None else (number, resumed.step)):
            raise LocalProtocolError(f"the request is of step {call.step}, and this is step {number}")

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
        if self._runner.state == "left":
            raise LocalProtocolError("the pipeline's block was left: make branches before it or inside it")
        return self._runner.step.branch(size, when_full)

    async def aclose(self) -> None:
        """Stops now, inside the block: no more events, calls cancelled, source closed. Idempotent."""
        await self._runner.stop()

    async def discard(self) -> None:
        """Closes the stream of a pipeline that is not to be entered after all: no event is made, and no tool runs.

        Raises:
            LocalProtocolError: the pipeline was entered, opened or discarded before.
        """
        await self._runner.discard()

    def sync(self, backend: str = "asyncio") -> SyncPipeline:
        """Returns the pipeline for a program without an event loop, which runs one in a thread meanwhile.

            with pipeline(stream, tools=[get_weather]).sync() as events:
                for event in events:
                    ...

        Args:
            backend: ``"asyncio"``, or ``"trio"`` where that is installed.
        """
        from ..pipelines.blocking import SyncPipeline

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
        from ..pipelines.hosted import check_group, open_in

        check_group(task_group)
        return open_in(task_group, self)

    async def __aenter__(self) -> Pipeline:
        self._runner.check_new()
        if is_in_generator():
            from ..pipelines.hosted import enter_alone

            self._hosted = await enter_alone(self._runner)
        else:
            await self._runner.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        runner = self._runner
        runner.state = "left"
        is_unread = kind is None and self._outbox.is_unread
        if self._hosted is not None and is_running(runner.token):
            await self._hosted.close(cancelled=is_cancellation(kind))
        else:
            await runner.end(kind)
        if is_unread:
            warnings.warn(_unread(self.turn), RuntimeWarning, stacklevel=2)


def _unread(turn: Turn) -> str:
    names = [seen.tool_name for seen in turn.observations if seen.outcome != "ok"]
    calls = f", and these calls did not run: {', '.join(names)}" if names else ""
    return (
        f"a pipeline's block was left before anything of it was read, so its stream was not read to the end{calls}; "
        "write `async for event in events: ...` in it, or `await events.finish()`"
    )
