"""Defines `Pipeline`, a stream and its calls for the program: to enter, iterate, decide and leave.

`Pipeline` is an async context manager and an async iterator, never an async generator that owns a task group: leaving
such a generator corrupts the consumer's cancel scopes (PEP 789; reproduced on asyncio and trio). Where a consumer's own
generator has the block, or there is none, a task of its own enters and leaves it (`hosted`). All that happens is the
`Runner`'s.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from ..dispatch.event_loop import is_cancellation, is_in_generator, is_running
from ..events import Event, Observation, ToolCallValidated
from ..ground.text import shown_by
from ..parts import ToolCall
from ..pipelines.queues import WAITS_UNSEEN
from ..pipelines.runner import Runner
from ..pipelines.trajectory import Trajectory
from ..turn import Turn
from .calls_face import CallsFace, asynchronous_only, discarded_end, turned_to

if TYPE_CHECKING:  # loaded where they are used: most programs suspend no call, and use ``async with`` in a function
    from ..durable.suspended import Suspended
    from .blocking import SyncPipeline
    from .branches import Branch, WhenFull
    from .hosted import Hosted, Opened


class Pipeline(CallsFace):
    """One stream and the calls in it; made by `pipeline`. Enter it with ``async with``, and iterate inside the block;
    or `open` it, and iterate anywhere.

    A stream error is raised at ``async for``, after the last event; a tool's error is an event; an exception from the
    body of the block reaches you unchanged. Leaving the block, in any way, cancels and awaits all that was started.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._outbox = runner.outbox  # here as well, since each event is taken from it
        self._hosted: Hosted | None = None  # if a task of its own has entered the block
        self._opened: Opened | None = None  # if there is no block

    __repr__ = shown_by("run_id", "turn")

    @property
    def trajectory(self) -> Trajectory:
        """The run that this step belongs to."""
        return self._runner.trajectory

    @property
    def turn(self) -> Turn:
        """The response so far as a turn; final after the last event and after the block."""
        return self._runner.turn

    @property
    def run_id(self) -> str:
        """The run that this step belongs to."""
        return self._runner.step.run_id

    @property
    def resting(self) -> bool:
        """True when everything has been read, and no event comes until a call is approved, denied or, with
        ``start="manual"``, run by `run_call`."""
        return self._outbox.resting and not self._runner.step.ended

    if not TYPE_CHECKING:  # type checkers see the mistake themselves
        __iter__ = __enter__ = __exit__ = asynchronous_only("a pipeline", "pipeline(...) as events")
        __getattr__ = turned_to("events.turn")

    def __aiter__(self) -> Pipeline:
        if self._opened is None:
            self._runner.check_open()
        return self

    async def __anext__(self) -> Event:
        outbox = self._outbox  # `__getattr__` makes each attribute of this object dear
        queue = outbox.queue
        while not queue:
            if outbox.closed or outbox.resting:
                return await self._ended()
            if outbox.awaited is None:
                if self._runner.state in ("new", "left"):  # it was not entered, or could not be
                    self._runner.check_open()
                outbox.await_one()
            assert outbox.awaited is not None, "just made"
            await outbox.awaited.wait()
            if outbox.waits % WAITS_UNSEEN == 0:
                await checkpoint_if_cancelled()
        event = queue.popleft()
        if outbox.room_awaited is not None and len(queue) <= outbox.size // 2:
            outbox.make_room()
        return event

    async def _ended(self) -> NoReturn:
        runner = self._runner
        error, runner.error = runner.error, None
        if self._opened is not None and not self.resting:
            await self._opened.ended()
        if error is not None:
            raise error
        if not (runner.step.ended or self._outbox.resting):
            await checkpoint_if_cancelled()  # the pump is told of a cancellation before this task is
        raise StopAsyncIteration

    async def finish(self) -> Turn:
        """Reads to the end, or until calls wait for an approval, ignores the events, and returns the turn. Awaiting the
        pipeline does the same. Inside the block this reads the rest.

            turn = await pipeline(stream, tools=[get_weather])

        Raises:
            StreamError: the stream failed.
        """
        if self._runner.state == "new":
            async with self:
                await self.finish()
        else:
            aiter(self)  # checks that it may be read
            await self._outbox.skip()
            async for _ in self:  # raises the stream's error
                pass
        return self.turn

    def __await__(self) -> Generator[Any, Any, Turn]:
        return self.finish().__await__()

    async def run_call(self, call: ToolCall | ToolCallValidated | str) -> Observation:
        """Runs a ready call now, with ``start="manual"``, and returns its observation; the same one if repeated.

        A loop over the pipeline ends when nothing is running; after this there may be more events, so loop again. If
        you run a call before its turn has ended normally, the turn may still fail. Calls that were never run are
        ``skipped``, as are all that wait when the turn does not end normally. If a call needs an approval, this waits
        for the decision: let another task decide, or pass ``approve=``.

        Raises:
            LocalProtocolError: calls start automatically here, or this one is unknown or not ready.
        """
        runner = self._runner
        if self._opened is not None:
            await self._opened.wait_begun()
        if runner.state != "left":
            runner.check_open()
        call_id, calls = call if isinstance(call, str) else call.call_id, runner.attempt.calls
        if (seen := discarded_end(runner, call)) is not None:
            return seen
        runner.ends_rest(calls.run(call_id))
        return await calls.observed(call_id)

    @property
    def suspended(self) -> Suspended | None:
        """The calls that wait for an approval or an answer, to keep for later or another process: see `resume`. None if
        there are none. Available even after the block. Calls of a turn that did not end normally no longer run, and are
        not included."""
        if not (self._runner.resumed or self._runner.attempt.calls.undecided):
            return None
        from ..durable.suspended_steps import left_by

        return left_by(self._runner)

    def branch(self, *, size: int | None = None, when_full: WhenFull = "wait") -> Branch:
        """Returns another consumer, which sees every event from now on; see `Branch`. May be called before the block is
        entered.

        Args:
            size: how many events may wait for the branch's reader; by default ``Limits(event_buffer=...)``.
            when_full: ``"wait"``: reading the source pauses. ``"drop_oldest"``: deltas and the like are dropped, with
                an `EventsDropped` in their place. ``"disconnect"``: the branch ends with `ConsumerTooSlow`.

        Raises:
            LocalProtocolError: the block was left.
            ValueError: `size` is not a positive integer, or `when_full` is none of these.
        """
        from .branches import branch_of  # most pipelines have one consumer

        return branch_of(self._runner, size, when_full)

    def _in_step(self, act: Callable[[Runner], bool]) -> bool:
        return act(self._runner)

    async def aclose(self) -> None:
        """Stops now: no more events, calls cancelled, source closed. Idempotent; in any task.

        For an opened pipeline this waits until nothing runs any more. If the wait is cancelled, the task group or the
        event loop waits instead.
        """
        await (self._runner.stop() if self._opened is None else self._opened.leave())

    async def discard(self) -> None:
        """Closes the stream of a pipeline that will not be entered: no event is made, and no tool runs.

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
        from .blocking import SyncPipeline

        return SyncPipeline(self, backend)

    def open(self, task_group: TaskGroup | None = None) -> Pipeline:
        """Starts the pipeline without a block, and returns it: for a generator, a framework's callback, a notebook.

            events = pipeline(stream, tools=[get_weather]).open()
            try:
                async for event in events:
                    yield event
            finally:
                await events.aclose()

        Everything that the block guarantees holds, except its end: it ends with its events, by `aclose`, or with the
        group, which waits for open pipelines. A pipeline that is dropped is closed as well, with a ResourceWarning.

        Args:
            task_group: a task group of anyio or a nursery of trio for the tasks; an error other than a stream's or a
                tool's ends it. By default a task of asyncio's event loop holds them; trio has no such tasks, and
                requires a nursery.

        Raises:
            TypeError: this is not a task group, or none was given on trio.
            LocalProtocolError: the group is not entered, no event loop runs, or the pipeline was entered or opened
                before.
        """
        from .hosted import check_group

        check_group(task_group)
        self._open_in(task_group)
        return self

    def _open_in(self, task_group: TaskGroup | None) -> Opened:
        from .hosted import opened_in

        self._opened = opened_in(task_group, self._runner)
        return self._opened

    @property
    def is_opened(self) -> bool:
        """True if `open` started it: it has no block, and ends with its events or by `aclose`."""
        return self._opened is not None

    async def __aenter__(self) -> Pipeline:
        self._runner.check_new()
        if is_in_generator():
            from .hosted import enter_alone

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
        f"a pipeline's block was left before anything was read, so its stream was not read to the end{calls}; write "
        "`async for event in events: ...` in it, or `await events.finish()`"
    )
