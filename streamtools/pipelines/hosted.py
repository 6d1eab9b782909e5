"""Runs a pipeline's block in a task of its own; its events are read from a handle, or from a block in a generator.

One task, the host, enters and leaves the block, so that no cancel scope ever spans a ``yield`` of the caller's. The
handle holds no scope (reading waits for the outbox, closing sets an event that the host waits for), so that it may live
in an async generator, and be closed by any task that the generator is closed in. The host is a task of the caller's
group, which its errors end; or of the event loop, and its error is raised where the handle is read or closed.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from anyio import CancelScope
from anyio.lowlevel import EventLoopToken, checkpoint, checkpoint_if_cancelled, current_token

from ..dispatch.event_loop import call_soon, is_asyncio, is_running, spawn
from ..dispatch.states import Mention
from ..errors import LocalProtocolError
from ..events import AnswerRequested, Event, Observation, StepEnd, ToolCallValidated
from ..parts import ToolCall
from ..turn import Turn
from .queues import Branch, WhenFull
from .refusals import asynchronous_only
from .runner import Runner, runner_of
from .trajectory import Trajectory

if TYPE_CHECKING:
    from ..durable.suspended import Suspended
    from ..seams import Asked

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
    _runner: Runner

    @property
    def run_id(self) -> str: ...
    @property
    def trajectory(self) -> Trajectory: ...
    @property
    def resting(self) -> bool: ...
    def branch(self, *, size: int | None = None, when_full: WhenFull = "wait") -> Branch: ...


class PassesOn(ABC):
    """Passes on what is said about calls to the pipeline that has them."""

    @abstractmethod
    def _passed(self, act: Callable[[HasCalls], bool]) -> bool: ...

    def approve(
        self,
        call: Asked,
        *,
        fingerprint: str | None = None,
        by: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> bool:
        """Approves a call that waits for it; see `Pipeline.approve`. Then iterate on."""
        return self._passed(lambda to: to.approve(call, fingerprint=fingerprint, by=by, arguments=arguments))

    def deny(
        self, call: Asked, reason: str | None = None, *, fingerprint: str | None = None, by: str | None = None
    ) -> bool:
        """Denies a call that waits for an approval; see `Pipeline.deny`. Then iterate on."""
        return self._passed(lambda to: to.deny(call, reason, fingerprint=fingerprint, by=by))

    def answer(
        self, call: Asked | AnswerRequested, result: Any, *, is_error: bool = False, fingerprint: str | None = None
    ) -> bool:
        """Hands in the result of a call that is done outside; see `Pipeline.answer`. If nothing else goes on, iterate
        on then."""
        return self._passed(lambda to: to.answer(call, result, is_error=is_error, fingerprint=fingerprint))

    def cancel(self, call: Mention | str, reason: str | None = None) -> bool:
        """Stops one call of the step that goes on, and no other; see `Pipeline.cancel`."""
        return self._passed(lambda to: to.cancel(call, reason))


class Hosted:
    """The state that the host and the handle share. It does not hold the handle, which may be dropped."""

    def __init__(self, *, in_group: bool) -> None:
        self.in_group = in_group  # True if the host is a task of a group, which its errors end
        self.begun = anyio.Event()
        self.closing = anyio.Event()  # set when the block is to be left
        self.left = anyio.Event()  # set when the block is left: nothing runs any more
        self.lost = False  # True if the block was left because the group was cancelled, or the event loop ended
        self.cancelled = False  # True if the block is to be left because its body was cancelled
        self.failure: Exception | None = None  # the error that ended a host of the event loop's own, until it is raised
        self._token: EventLoopToken = current_token()

    @property
    def is_running(self) -> bool:
        """True while somebody drives the event loop of the host."""
        return is_running(self._token)

    async def close(self, *, cancelled: bool = False) -> None:
        """Asks the host to leave, and waits until it has, also when cancelled. Raises the error that ended the host."""
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


class OpenPipeline(PassesOn):
    """The events of a pipeline that was started by `Pipeline.open`. Iterate it anywhere, also in a generator.

    A stream error is raised at ``async for``, after the last event. Close the pipeline on every path: reading it to its
    end does so, and `aclose` does. One that is dropped is closed as well, with a ResourceWarning.
    """

    def __init__(self, pipeline: HostedBlock, hosted: Hosted) -> None:
        self._pipeline = pipeline
        self._runner = runner_of(pipeline)
        self._hosted = hosted
        self._closed = False
        self._ended = False  # the last event was taken

    @property
    def turn(self) -> Turn:
        """The response so far, as a turn; final after the last event, and after `aclose`."""
        return self._pipeline.turn

    @property
    def run_id(self) -> str:
        return self._pipeline.run_id

    @property
    def trajectory(self) -> Trajectory:
        return self._pipeline.trajectory

    @property
    def resting(self) -> bool:
        return self._pipeline.resting

    @property
    def suspended(self) -> Suspended | None:
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

    def _passed(self, act: Callable[[HasCalls], bool]) -> bool:
        return act(self._pipeline)

    def branch(self, *, size: int | None = None, when_full: WhenFull = "wait") -> Branch:
        return self._pipeline.branch(size=size, when_full=when_full)

    async def aclose(self) -> None:
        """Stops the pipeline: no more events, calls cancelled, source closed. Idempotent; in any task.

        Waits until nothing runs any more. If this wait is cancelled, the task group waits instead, or the event loop.
        """
        await self.leave()

    async def leave(self, *, cancelled: bool = False) -> None:
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


async def enter_alone(runner: Runner) -> Hosted:
    """Waits until the block is entered, and raises the error that kept it from that."""
    hosted = Hosted(in_group=False)
    spawn(partial(_host, runner), hosted)
    try:
        await hosted.begun.wait()
    except BaseException:
        await hosted.close(cancelled=True)
        raise
    hosted.raise_failure()
    return hosted


async def _host(runner: Runner, hosted: Hosted) -> None:
    try:
        try:
            await runner.enter()
            await _stay(runner, hosted)
        except Exception as error:
            if hosted.in_group:
                raise
            hosted.failure = error
        finally:
            hosted.begun.set()
    finally:
        hosted.left.set()


async def _stay(runner: Runner, hosted: Hosted) -> None:
    kind: type[BaseException] | None = None
    try:
        hosted.begun.set()
        await hosted.closing.wait()
        kind = anyio.get_cancelled_exc_class() if hosted.cancelled else None
    except BaseException as error:
        hosted.lost, kind = True, type(error)
        raise
    finally:
        await runner.end(kind)


def check_group(group: Any) -> None:
    """Raises a `TypeError` if this is no task group of anyio's or trio's, or none on trio; a `LocalProtocolError` if no
    event loop runs."""
    if group is None:
        try:
            if not is_asyncio():
                raise TypeError(f"on trio, open takes a nursery; {_WRITE}")
        except RuntimeError:
            raise LocalProtocolError("no event loop runs here; open a pipeline in an async function") from None
    elif not (hasattr(group, "start_soon") and hasattr(group, "cancel_scope")):
        kind = type(group).__name__
        raise TypeError(f"open takes a task group of anyio's or a nursery of trio's, not {kind}; {_WRITE}")


def open_in(group: Any, pipeline: HostedBlock) -> OpenPipeline:
    """Without a group, the host is a task of the event loop's own. Raises a `LocalProtocolError` if the group takes no
    tasks, or the pipeline was entered or opened before."""
    runner = runner_of(pipeline)
    runner.check_new()
    hosted, host = Hosted(in_group=group is not None), partial(_host, runner)
    try:
        spawn(host, hosted) if group is None else group.start_soon(host, hosted)
    except RuntimeError as error:
        refused = f"the task group takes no tasks: it was not entered, or was left ({error}); {_WRITE}"
        raise LocalProtocolError(refused) from error
    if runner.state == "new":  # else the host has begun at once: asyncio's eager tasks do
        runner.state = "opening"
    return OpenPipeline(pipeline, hosted)
