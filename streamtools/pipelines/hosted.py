"""Runs a pipeline's block in a task of the caller's group; its events are read from a handle.

Theory of operation. The block is entered and left by one task, the host, so that no cancel scope ever spans a ``yield``
of the caller's. The handle holds no scope: reading waits for the outbox, closing sets an event that the host waits
for. The handle may therefore live in an async generator, and be closed by any task that the generator is closed in.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import EventLoopToken, checkpoint, checkpoint_if_cancelled, current_token

from ..dispatch.call import Mention
from ..dispatch.suspended import Asked, Suspended
from ..errors import LocalProtocolError
from ..event_loop import call_soon
from ..events import Event, Observation, StepEnd, ToolCallValidated
from ..parts import ToolCall
from ..turn import Turn
from .queues import Branch, WhenFull

__all__ = ["Hosted", "OpenPipeline", "open_in"]

_WRITE = (
    "write:  async with anyio.create_task_group() as tasks:  events = pipeline(stream, tools=[...]).open(tasks)  "
    "and `await events.aclose()` when you are done"
)

_ROUNDS = 2
"""Rounds of the event loop until a host that was started in this one has begun; trio runs a round in any order."""


class HostedBlock(Protocol):
    """The pipeline behind a handle: the methods that the handle passes on, as `Pipeline` describes them."""

    @property
    def turn(self) -> Turn: ...
    @property
    def run_id(self) -> str: ...
    @property
    def resting(self) -> bool: ...
    @property
    def suspended(self) -> Suspended | None: ...
    async def __anext__(self) -> Event: ...
    async def run_call(self, call: ToolCall | ToolCallValidated | str) -> Observation: ...
    def approve(self, call: Asked, *, fingerprint: str | None = None) -> bool: ...
    def deny(self, call: Asked, reason: str | None = None, *, fingerprint: str | None = None) -> bool: ...
    def cancel(self, call: Mention | str, reason: str | None = None) -> bool: ...
    def branch(self, *, size: int | None = None, when_full: WhenFull = "wait") -> Branch: ...


class Hosted:
    """The state that the host and the handle share. It does not hold the handle, which may be dropped."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        """Set when the block is entered."""
        self.closing = anyio.Event()
        """Set when the block is to be left."""
        self.left = anyio.Event()
        """Set when the block is left: nothing runs any more."""
        self.lost = False
        """True if the block was left because the group was cancelled."""
        self._token: EventLoopToken = current_token()

    def close_soon(self) -> None:
        """Asks the host to leave; from any thread, since garbage may be collected in any."""
        call_soon(self._token, self.closing.set)


class OpenPipeline:
    """The events of a pipeline that was started by `Pipeline.open`: iterate it anywhere, also in a generator.

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
    def resting(self) -> bool:
        """True while all is read, and the calls that are left wait for somebody to act; see `Pipeline.resting`."""
        return self._pipeline.resting

    @property
    def suspended(self) -> Suspended | None:
        """The calls that wait for an approval; see `Pipeline.suspended`."""
        return self._pipeline.suspended

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
                raise LocalProtocolError(
                    "the task group that the pipeline was opened in was cancelled, and with it the rest of the stream; "
                    "open it in a group that lives as long as it is read"
                ) from None
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

    def approve(self, call: Asked, *, fingerprint: str | None = None) -> bool:
        """Approves a call that waits for it; see `Pipeline.approve`. A loop's end then closes nothing."""
        return self._pipeline.approve(call, fingerprint=fingerprint)

    def deny(self, call: Asked, reason: str | None = None, *, fingerprint: str | None = None) -> bool:
        """Denies a call that waits for an approval; see `Pipeline.deny`."""
        return self._pipeline.deny(call, reason, fingerprint=fingerprint)

    def cancel(self, call: Mention | str, reason: str | None = None) -> bool:
        """Stops one call, and no other; see `Pipeline.cancel`."""
        return self._pipeline.cancel(call, reason)

    def branch(self, *, size: int | None = None, when_full: WhenFull = "wait") -> Branch:
        """Returns one more consumer of the events from now on; see `Pipeline.branch`."""
        return self._pipeline.branch(size=size, when_full=when_full)

    async def aclose(self) -> None:
        """Stops the pipeline: no more events, calls cancelled, source closed. Idempotent; in any task.

        Waits until nothing runs any more. If this wait is cancelled, the task group waits instead.
        """
        self._closed = True
        hosted = self._hosted
        hosted.closing.set()
        for _ in range(_ROUNDS):
            if not hosted.begun.is_set():
                await checkpoint()
        if hosted.begun.is_set():  # else it never will: its task was cancelled before, as all are when a loop ends
            await hosted.left.wait()

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


def open_in(group: Any, pipeline: HostedBlock, host: Callable[[Hosted], Coroutine[Any, Any, None]]) -> OpenPipeline:
    """Starts the host of a pipeline in a task group, and returns the handle.

    Raises:
        TypeError: this is no task group of anyio's or trio's; the message says what to write.
        LocalProtocolError: the group takes no tasks.
    """
    if not isinstance(group, TaskGroup) and not (hasattr(group, "start_soon") and hasattr(group, "cancel_scope")):
        kind = type(group).__name__
        raise TypeError(f"open takes a task group of anyio's or a nursery of trio's, not {kind}; {_WRITE}")
    hosted = Hosted()
    try:
        group.start_soon(host, hosted)
    except RuntimeError as error:
        refused = f"the task group takes no tasks: it was not entered, or was left ({error}); {_WRITE}"
        raise LocalProtocolError(refused) from error
    return OpenPipeline(pipeline, hosted)
