"""Runs a pipeline's block in a task of its own; its events are read from a handle, or from a block in a generator.

Theory of operation. The block is entered and left by one task, the host, so that no cancel scope ever spans a ``yield``
of the caller's. The handle holds no scope: reading waits for the outbox, closing sets an event that the host waits
for. The handle may therefore live in an async generator, and be closed by any task that the generator is closed in.

The host is a task of a group of the caller's, which its errors end; or, without a group, a task of the event loop's
own, whose error is raised where the handle is read or closed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager, ExitStack
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeAlias, TypeVar

import anyio
from anyio import CancelScope, to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal
from anyio.lowlevel import EventLoopToken, checkpoint, checkpoint_if_cancelled, current_token

from ..dispatch.approval import Decision
from ..dispatch.states import Mention
from ..dispatch.suspended import Asked, Suspended
from ..errors import LocalProtocolError
from ..event_loop import call_soon, is_asyncio, is_running, spawn
from ..events import AnswerRequested, Event, Observation, StepEnd, ToolCallValidated
from ..parts import ToolCall, Usage
from ..turn import Turn
from .inbox import When
from .queues import Branch, WhenFull
from .refusals import asynchronous_only
from .trajectory import Trajectory

__all__ = [
    "Hosted",
    "OpenPipeline",
    "SyncAgentLoop",
    "SyncBlock",
    "SyncPipeline",
    "check_group",
    "enter_alone",
    "in_threads",
    "open_in",
]

_WRITE = (
    "write:  async with anyio.create_task_group() as tasks:  events = pipeline(stream, tools=[...]).open(tasks)  "
    "and `await events.aclose()` when you are done"
)

_LOST = {
    True: "the task group that the pipeline was opened in was cancelled, and with it the rest of the stream; "
    "open it in a group that lives as long as it is read",
    False: "the pipeline's task was cancelled, as all are when an event loop ends, and with it the rest of the stream",
}

_ROUNDS = 2
"""Rounds of the event loop until a host that was started in this one has begun; trio runs a round in any order."""


class HasCalls(Protocol):
    """A pipeline or a run that goes on, with its calls: the methods that others pass on, as `Pipeline` describes
    them."""

    @property
    def turn(self) -> Turn: ...
    @property
    def suspended(self) -> Suspended | None: ...
    async def __anext__(self) -> Event: ...
    async def run_call(self, call: ToolCall | ToolCallValidated | str) -> Observation: ...
    def approve(
        self,
        call: Asked,
        *,
        fingerprint: str | None = None,
        by: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> bool: ...
    def deny(
        self, call: Asked, reason: str | None = None, *, fingerprint: str | None = None, by: str | None = None
    ) -> bool: ...
    def answer(
        self, call: Asked | AnswerRequested, result: Any, *, is_error: bool = False, fingerprint: str | None = None
    ) -> bool: ...
    def cancel(self, call: Mention | str, reason: str | None = None) -> bool: ...


class HostedBlock(HasCalls, Protocol):
    """The pipeline behind a handle."""

    @property
    def run_id(self) -> str: ...
    @property
    def trajectory(self) -> Trajectory: ...
    @property
    def resting(self) -> bool: ...
    def branch(self, *, size: int | None = None, when_full: WhenFull = "wait") -> Branch: ...
    def cut(self, reason: str, *, spares_approvals: bool) -> bool: ...
    def take_decision(self, key: str, decision: Decision) -> bool | None: ...
    def asked_about(self, call_id: str) -> Suspended | None: ...
    def look_for_answer(self, call_id: str) -> None: ...


class Hosted:
    """The state that the host and the handle share. It does not hold the handle, which may be dropped.

    Args:
        in_group: the host is a task of a group, which its errors end.
    """

    def __init__(self, *, in_group: bool) -> None:
        self.in_group = in_group
        """True if the host is a task of a group, which its errors end."""
        self.begun = anyio.Event()
        """Set when the block is entered."""
        self.closing = anyio.Event()
        """Set when the block is to be left."""
        self.left = anyio.Event()
        """Set when the block is left: nothing runs any more."""
        self.lost = False
        """True if the block was left because the group was cancelled, or the event loop ended."""
        self.cancelled = False
        """True if the block is to be left because its body was cancelled."""
        self.failure: Exception | None = None
        """The error that ended a host of the event loop's own, until it is raised."""
        self._token: EventLoopToken = current_token()

    @property
    def is_running(self) -> bool:
        """True while somebody drives the event loop of the host."""
        return is_running(self._token)

    async def close(self, *, cancelled: bool = False) -> None:
        """Asks the host to leave, and waits until it has, also when cancelled.

        Args:
            cancelled: the body of the block was cancelled.

        Raises:
            Exception: the error that ended the host.
        """
        self.cancelled = cancelled
        self.closing.set()
        with CancelScope(shield=True):
            await self.left.wait()
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raises the error that ended the host, once."""
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def close_soon(self) -> None:
        """Asks the host to leave; from any thread, since garbage may be collected in any."""
        call_soon(self._token, self.closing.set)


class OpenPipeline:
    """The events of a pipeline that was started by `Pipeline.open`. Iterate it anywhere, also in a generator.

    A stream error is raised at ``async for``, after the last event. Close the pipeline on every path: reading it to its
    end does so, and `aclose` does. One that is dropped is closed as well, with a ResourceWarning.
    """

    def __init__(self, pipeline: HostedBlock, hosted: Hosted) -> None:
        self._pipeline = pipeline
        self._hosted = hosted
        self._closed = False
        self._ended = False  # the last event was taken

    @property
    def turn(self) -> Turn:
        """The response so far, as a turn; final after the last event, and after `aclose`."""
        return self._pipeline.turn

    @property
    def run_id(self) -> str:
        """The run that this step belongs to."""
        return self._pipeline.run_id

    @property
    def trajectory(self) -> Trajectory:
        """As `Pipeline.trajectory`."""
        return self._pipeline.trajectory

    @property
    def resting(self) -> bool:
        """True while all is read, and the calls that are left wait for somebody to act; see `Pipeline.resting`."""
        return self._pipeline.resting

    @property
    def suspended(self) -> Suspended | None:
        """The calls that wait for an approval; see `Pipeline.suspended`."""
        return self._pipeline.suspended

    if not TYPE_CHECKING:  # type checkers see the mistake themselves
        __iter__ = asynchronous_only("an open pipeline", "pipeline(...) as events")

    def __aiter__(self) -> OpenPipeline:
        return self

    async def __anext__(self) -> Event:
        hosted = self._hosted
        if not hosted.begun.is_set():
            await hosted.begun.wait()
        if self._closed:
            raise StopAsyncIteration
        try:
            event = await self._pipeline.__anext__()
        except StopAsyncIteration:
            if self._pipeline.resting:
                raise
            if hosted.lost and not self._ended and not self._closed:
                await checkpoint_if_cancelled()  # the reader may be cancelled, too, and not have been told yet
                self._closed = True
                raise LocalProtocolError(_LOST[hosted.in_group]) from None
            await self.aclose()
            raise
        except Exception:
            await self.aclose()
            raise
        if type(event) is StepEnd:
            self._ended = True
        return event

    async def run_call(self, call: ToolCall | ToolCallValidated | str) -> Observation:
        """Runs a ready call, with ``start="manual"``; see `Pipeline.run_call`. A loop's end then closes nothing."""
        await self._hosted.begun.wait()
        return await self._pipeline.run_call(call)

    def approve(
        self,
        call: Asked,
        *,
        fingerprint: str | None = None,
        by: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> bool:
        """Approves a call that waits for it; see `Pipeline.approve`. A loop's end then closes nothing."""
        return self._pipeline.approve(call, fingerprint=fingerprint, by=by, arguments=arguments)

    def deny(
        self, call: Asked, reason: str | None = None, *, fingerprint: str | None = None, by: str | None = None
    ) -> bool:
        """Denies a call that waits for an approval; see `Pipeline.deny`."""
        return self._pipeline.deny(call, reason, fingerprint=fingerprint, by=by)

    def answer(
        self, call: Asked | AnswerRequested, result: Any, *, is_error: bool = False, fingerprint: str | None = None
    ) -> bool:
        """Hands in the result of a call that is done outside; see `Pipeline.answer`."""
        return self._pipeline.answer(call, result, is_error=is_error, fingerprint=fingerprint)

    def look_for_answer(self, call_id: str) -> None:
        """Looks for an answer that was put on record elsewhere."""
        self._pipeline.look_for_answer(call_id)

    def cancel(self, call: Mention | str, reason: str | None = None) -> bool:
        """Stops one call, and no other; see `Pipeline.cancel`."""
        return self._pipeline.cancel(call, reason)

    def cut(self, reason: str, *, spares_approvals: bool) -> bool:
        """Ends the response here; see `Pipeline.cut`."""
        return self._pipeline.cut(reason, spares_approvals=spares_approvals)

    def take_decision(self, key: str, decision: Decision) -> bool | None:
        """Takes a decision that was made elsewhere; see `Pipeline.take_decision`."""
        return self._pipeline.take_decision(key, decision)

    def asked_about(self, call_id: str) -> Suspended | None:
        """Returns a call that waits for an approval; see `Pipeline.asked_about`."""
        return self._pipeline.asked_about(call_id)

    def branch(self, *, size: int | None = None, when_full: WhenFull = "wait") -> Branch:
        """Returns one more consumer of the events from now on; see `Pipeline.branch`."""
        return self._pipeline.branch(size=size, when_full=when_full)

    async def aclose(self) -> None:
        """Stops the pipeline: no more events, calls cancelled, source closed. Idempotent; in any task.

        Waits until nothing runs any more. If this wait is cancelled, the task group waits instead, or the event loop.
        """
        await self.leave()

    async def leave(self, *, cancelled: bool = False) -> None:
        """Does as `aclose`; `cancelled`: the reader was cancelled."""
        self._closed = True
        hosted = self._hosted
        if not hosted.is_running:
            return  # the host was closed with its event loop
        hosted.cancelled = cancelled
        hosted.closing.set()
        for _ in range(_ROUNDS):
            if not hosted.begun.is_set():
                await checkpoint()
        if hosted.begun.is_set():  # else it never will: its task was cancelled before, as all are when a loop ends
            with CancelScope(shield=cancelled):
                await hosted.left.wait()
            hosted.raise_failure()

    def __del__(self) -> None:
        if self._closed or self._hosted.left.is_set():
            return
        self._hosted.close_soon()
        warnings.warn(
            "the events of pipeline(...).open(...) were dropped and not closed; `await events.aclose()` in a finally",
            ResourceWarning,
            stacklevel=2,
            source=self,
        )


Host: TypeAlias = Callable[[Hosted], Coroutine[Any, Any, None]]
"""Enters and leaves the block; contains its errors if it is in no group."""


async def enter_alone(host: Host) -> Hosted:
    """Starts a host in a task of the event loop's own, and waits until it has entered the block.

    Raises:
        Exception: the block could not be entered.
    """
    hosted = Hosted(in_group=False)
    spawn(host, hosted)
    try:
        await hosted.begun.wait()
    except BaseException:
        await hosted.close(cancelled=True)
        raise
    hosted.raise_failure()
    return hosted


def check_group(group: Any) -> None:
    """Refuses a group that cannot hold a host, and None where only a group can.

    Raises:
        TypeError: this is no task group of anyio's or trio's, or there is none on trio; the message says what to write.
        LocalProtocolError: no event loop runs.
    """
    if group is None:
        try:
            if not is_asyncio():
                raise TypeError(f"on trio, open takes a nursery; {_WRITE}")
        except RuntimeError:
            raise LocalProtocolError("no event loop runs here; open a pipeline in an async function") from None
    elif not (hasattr(group, "start_soon") and hasattr(group, "cancel_scope")):
        kind = type(group).__name__
        raise TypeError(f"open takes a task group of anyio's or a nursery of trio's, not {kind}; {_WRITE}")


def open_in(group: Any, pipeline: HostedBlock, host: Host) -> OpenPipeline:
    """Starts the host of a pipeline in a task group, and returns the handle. Without a group, the host is a task of the
    event loop's own.

    Raises:
        LocalProtocolError: the group takes no tasks.
    """
    hosted = Hosted(in_group=group is not None)
    try:
        spawn(host, hosted) if group is None else group.start_soon(host, hosted)
    except RuntimeError as error:
        refused = f"the task group takes no tasks: it was not entered, or was left ({error}); {_WRITE}"
        raise LocalProtocolError(refused) from error
    return OpenPipeline(pipeline, hosted)


# -- for programs without an event loop ------------------------------------------------------------------------------

# Reads a pipeline or a run from a program without an event loop.
#
# Theory of operation. A thread runs an event loop (anyio's blocking portal), in which one task enters and leaves the
# block. Each event is fetched by a call into that loop, which costs some 50 µs; all else that the block can do is
# called there, too, so that nothing is read while it changes. An exception in the caller's body, an interrupt too,
# leaves the block as it would leave an ``async with``. Tools run in the loop and its threads, with the caller's
# context variables.

T = TypeVar("T")


class Block(HasCalls, AbstractAsyncContextManager[Any], Protocol):
    """A pipeline or a run, whose methods are called from another thread."""


class PipelineBlock(HostedBlock, AbstractAsyncContextManager[Any], Protocol):
    """A pipeline."""


class Run(Block, Protocol):
    """A run of many steps."""

    @property
    def outcome(self) -> str | None: ...
    @property
    def turns(self) -> tuple[Turn, ...]: ...
    @property
    def messages(self) -> list[Any]: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def unread(self) -> tuple[dict[str, Any], ...]: ...
    def say(self, message: str | Mapping[str, Any], *, when: When = "next") -> str: ...
    def stop(self) -> bool: ...


B = TypeVar("B", bound=Block)

_END: Any = object()


class SyncBlock(Generic[B]):
    """A block for a program without an event loop. Enter it with ``with``, and iterate inside."""

    def __init__(self, block: B, backend: str) -> None:
        self._block = block
        self._backend = backend
        self._stack: ExitStack | None = None
        self._portal: BlockingPortal | None = None
        self._left = False

    def __enter__(self) -> Self:
        if self._stack is not None or self._left:
            raise LocalProtocolError("a pipeline is entered once; make a new one for the next stream")
        _refuse_a_running_loop()
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal(self._backend))
            stack.enter_context(self._portal.wrap_async_context_manager(self._block))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        stack, self._stack, self._portal, self._left = self._stack, None, None, True
        assert stack is not None, "left by the statement that has entered it"
        stack.__exit__(kind, error, traceback)

    def __iter__(self) -> Self:
        self._there()
        return self

    def __next__(self) -> Event:
        event = self._wait(self._next)
        if event is _END:
            raise StopIteration
        return event  # type: ignore[no-any-return]

    def finish(self) -> Turn:
        """Reads to the end, or until calls wait for an approval, ignoring the events; returns the turn. Without a
        block, it enters and leaves one.

            turn = pipeline(stream, tools=[get_weather]).sync().finish()

        Raises:
            StreamError: the stream failed.
        """
        if self._stack is None and not self._left:
            with self:
                return self.finish()
        self._wait(self._rest)
        return self.turn

    @property
    def turn(self) -> Turn:
        """As `Pipeline.turn` or `AgentLoop.turn`."""
        return self._ask(lambda: self._block.turn)

    @property
    def suspended(self) -> Suspended | None:
        """As `Pipeline.suspended`."""
        return self._ask(lambda: self._block.suspended)

    def run_call(self, call: ToolCall | ToolCallValidated | str) -> Observation:
        """Runs a ready call, with ``start="manual"``; see `Pipeline.run_call`."""
        observation: Observation = self._wait(partial(self._block.run_call, call))
        return observation

    def approve(
        self,
        call: Asked,
        *,
        fingerprint: str | None = None,
        by: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> bool:
        """Approves a call that waits for it; see `Pipeline.approve`. Then iterate on."""
        return self._ask(lambda: self._block.approve(call, fingerprint=fingerprint, by=by, arguments=arguments))

    def deny(
        self, call: Asked, reason: str | None = None, *, fingerprint: str | None = None, by: str | None = None
    ) -> bool:
        """Denies a call that waits for an approval; see `Pipeline.deny`. Then iterate on."""
        return self._ask(lambda: self._block.deny(call, reason, fingerprint=fingerprint, by=by))

    def answer(
        self, call: Asked | AnswerRequested, result: Any, *, is_error: bool = False, fingerprint: str | None = None
    ) -> bool:
        """Hands in the result of a call that is done outside, from any thread; see `Pipeline.answer`."""
        return self._ask(lambda: self._block.answer(call, result, is_error=is_error, fingerprint=fingerprint))

    def cancel(self, call: Mention | str, reason: str | None = None) -> bool:
        """Stops one call, and no other; see `Pipeline.cancel`."""
        return self._ask(lambda: self._block.cancel(call, reason))

    def _there(self) -> BlockingPortal:
        if self._portal is None:
            verb = "was left" if self._left else "was not entered"
            raise TypeError(f"the block {verb}; write:  with pipeline(stream, tools=[...]).sync() as events:  ...")
        return self._portal

    def _ask(self, read: Callable[[], T]) -> T:
        """Reads something in the event loop; in this thread before the block and after it."""
        if self._portal is None:
            return read()
        return self._portal.call(read)

    def _wait(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Does work in the event loop, and waits for it; the work is cancelled if an interrupt ends the waiting."""
        done = self._there().start_task_soon(work)
        try:
            return done.result()
        except CancelledError:
            raise LocalProtocolError("the event loop of the block has ended") from None
        except BaseException:
            done.cancel()
            raise

    async def _next(self) -> Any:
        try:
            return await self._block.__anext__()
        except StopAsyncIteration:
            return _END

    async def _rest(self) -> None:
        while await self._next() is not _END:
            pass


class SyncPipeline(SyncBlock[PipelineBlock]):
    """A pipeline for a program without an event loop; from `Pipeline.sync`."""

    @property
    def run_id(self) -> str:
        """As `Pipeline.run_id`."""
        return self._ask(lambda: self._block.run_id)

    @property
    def resting(self) -> bool:
        """As `Pipeline.resting`."""
        return self._ask(lambda: self._block.resting)


class SyncAgentLoop(SyncBlock[Run]):
    """A run for a program without an event loop; from `AgentLoop.sync`."""

    @property
    def outcome(self) -> str | None:
        """As `AgentLoop.outcome`."""
        return self._ask(lambda: self._block.outcome)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """As `AgentLoop.turns`."""
        return self._ask(lambda: self._block.turns)

    @property
    def messages(self) -> list[Any]:
        """As `AgentLoop.messages`."""
        return self._ask(lambda: self._block.messages)

    @property
    def usage(self) -> Usage:
        """As `AgentLoop.usage`."""
        return self._ask(lambda: self._block.usage)

    @property
    def unread(self) -> tuple[dict[str, Any], ...]:
        """As `AgentLoop.unread`."""
        return self._ask(lambda: self._block.unread)

    def say(self, message: str | Mapping[str, Any], *, when: When = "next") -> str:
        """Adds a message of the user's, from any thread; see `AgentLoop.say`."""
        return self._ask(lambda: self._block.say(message, when=when))

    def stop(self) -> bool:
        """Ends the run in good order, from any thread; see `AgentLoop.stop`."""
        return self._ask(self._block.stop)


def in_threads(call_model: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that makes its request in a thread, since a client that blocks would hold up the event
    loop; the same function if it is async."""
    if iscoroutinefunction(call_model) or iscoroutinefunction(getattr(call_model, "__call__", None)):  # noqa: B004
        return call_model

    async def asked(*arguments: Any) -> Any:
        made = await to_thread.run_sync(partial(call_model, *arguments))
        return await made if isawaitable(made) and not hasattr(made, "__aiter__") else made

    return asked


def _refuse_a_running_loop() -> None:
    try:
        current_token()
    except RuntimeError:
        return
    text = "an event loop runs in this thread, and sync() would block it; write `async with` instead"
    raise LocalProtocolError(text)
