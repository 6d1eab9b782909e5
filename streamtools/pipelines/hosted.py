"""A pipeline whose block is entered by a task of its caller's group, and the handle that its events are read from.

Theory of operation. The block is entered and left by one task, the host, so that no cancel scope ever spans a ``yield``
of the caller's. The handle holds no scope: reading waits for the outbox, closing sets an event that the host waits
for. It may therefore live in an async generator, and be closed by whichever task the generator is closed in.
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
"""Of the event loop, after which a host has begun that was started in this one; trio runs a round in any order."""


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
    """What the host and the handle know of each other. It does not hold the handle, which may be dropped."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        """The block is entered."""
        self.closing = anyio.Event()
        """The block is to be left."""
        self.left = anyio.Event()
        """The block is left: nothing runs any more."""
        self.lost = False
        """It was left because the group was cancelled."""
        self._token: EventLoopToken = current_token()

    def close_soon(self) -> None:
        """Ask the host to leave, from any thread: garbage is collected wherever it pleases."""
        call_soon(self._token, self.closing.set)


class OpenPipeline:
    """The events of a pipeline that was started by `Pipeline.open`: iterate it anywhere, also in a generator.

    A stream error is raised at ``async for``, after the last event. Close it on every path: reading it to its end does
    so, `aclose` does so. One that is dropped is closed as well, with a ResourceWarning.
    """

    def __init__(self, pipeline: HostedBlock, hosted: Hosted) -> None:
        self._pipeline = pipeline
        self._hosted = hosted
        self._closed = False
        self._ended = False  # the last event was taken

    @property
    def turn(self) -> Turn:
        """What the response amounts to so far; final after the last event, and after `aclose`."""
        return self._pipeline.turn

    @property
    def run_id(self) -> str:
        """The run that this step belongs to."""
        return self._pipeline.run_id

    @property
    def resting(self) -> bool:
        """All is read, and what is left waits for somebody's word; see `Pipeline.resting`."""
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
                await checkpoint_if_cancelled()  # perhaps so is who reads, and was only not told yet
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
        """Run a ready call, with ``start="manual"``; see `Pipeline.run_call`. The end of a loop then closes nothing."""
        await self._hosted.begun.wait()
        return await self._pipeline.run_call(call)

    def approve(self, call: Asked, *, fingerprint: str | None = None) -> bool:
        """Let a call run that waits for an approval; see `Pipeline.approve`. The end of a loop then closes nothing."""
        return self._pipeline.approve(call, fingerprint=fingerprint)

    def deny(self, call: Asked, reason: str | None = None, *, fingerprint: str | None = None) -> bool:
        """Do not run a call that waits for an approval; see `Pipeline.deny`."""
        return self._pipeline.deny(call, reason, fingerprint=fingerprint)

    def cancel(self, call: Mention | str, reason: str | None = None) -> bool:
        """Stop one call, and no other; see `Pipeline.cancel`."""
        return self._pipeline.cancel(call, reason)

    def branch(self, *, size: int | None = None, when_full: WhenFull = "wait") -> Branch:
        """One more consumer of the events from now on; see `Pipeline.branch`."""
        return self._pipeline.branch(size=size, when_full=when_full)

    async def aclose(self) -> None:
        """Stop: no more events, calls cancelled, source closed. Idempotent; in any task.

        It waits until nothing runs any more. If it is itself cancelled meanwhile, the task group waits instead.
        """
        self._closed = True
        hosted = self._hosted
        hosted.closing.set()
        for _ in range(_ROUNDS):
            if not hosted.begun.is_set():
                await checkpoint()
        if hosted.begun.is_set():  # else it never will be: its task was cancelled before, as all are when a loop ends
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
    """Start the host of a pipeline in a task group.

    Raises:
        TypeError: this is no task group of anyio's or trio's; the message says what to write.
        LocalProtocolError: it takes no tasks.
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
