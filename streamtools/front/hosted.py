"""Runs a pipeline's block in a separate task: for a pipeline opened without a block, or with its block in a generator.

One task, the host, enters and leaves the block, so that no cancel scope ever spans a ``yield`` of the caller's. The
pipeline holds no scope (reading waits for the outbox, closing sets an event that the host waits for), so that it may
live in an async generator, and be closed by any task that the generator is closed in. The host is a task of the
caller's group, which its errors end; or of the event loop, and its error is raised where the pipeline is read or
closed.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import anyio
from anyio import CancelScope
from anyio.lowlevel import EventLoopToken, checkpoint, checkpoint_if_cancelled, current_token

from ..dispatch.event_loop import call_soon, is_asyncio, is_running, spawn
from ..errors import LocalProtocolError
from ..pipelines.runner import Runner

_WRITE = (
    "write:  async with anyio.create_task_group() as tasks:  events = pipeline(stream, tools=[...]).open(tasks)  "
    "and `await events.aclose()` when you are done"
)

_LOST = {
    True: "the task group that the pipeline was opened in was cancelled, and with it the rest of the stream; "
    "open it in a group that lives as long as it is read",
    False: "the pipeline's task was cancelled, as at the end of an event loop, and with it the rest of the stream",
}

_ROUNDS = 2
"""Rounds of the event loop until a host that was started in this one has begun; trio runs a round in any order."""


class Hosted:
    """The state that the host and a pipeline share. It does not hold the pipeline, which may be dropped."""

    def __init__(self, *, in_group: bool) -> None:
        self.in_group = in_group  # True if the host is a task of a group, which its errors end
        self.begun = anyio.Event()
        self.closing = anyio.Event()  # set when the block is to be left
        self.left = anyio.Event()  # set when the block is left: nothing runs any more
        self.lost = False  # True if the group was cancelled, or the event loop ended, before all was read
        self.cancelled = False  # True if the block is to be left because its body was cancelled
        self.failure: Exception | None = None  # the error that ended a host of the event loop's own, until it is raised
        self.token: EventLoopToken = current_token()

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


class Opened:
    """Ends a pipeline that was opened; held by the pipeline alone, with which it is dropped."""

    def __init__(self, hosted: Hosted, runner: Runner) -> None:
        self._hosted = hosted
        self._runner = runner
        self._is_closed = False

    async def wait_begun(self) -> None:
        await self._hosted.begun.wait()

    async def ended(self) -> None:
        """Closes a pipeline that was read to its end. Raises a `LocalProtocolError` if the end is not the stream's."""
        if self._hosted.lost and not self._is_closed:
            await checkpoint_if_cancelled()  # the reader may be cancelled, too, and not have been told yet
            self._is_closed = True
            raise LocalProtocolError(_LOST[self._hosted.in_group])
        await self.leave()

    async def leave(self, *, cancelled: bool = False) -> None:
        self._is_closed = True
        hosted = self._hosted
        if not is_running(hosted.token):
            return  # the host was closed with its event loop
        hosted.cancelled = cancelled
        hosted.closing.set()
        for _ in range(_ROUNDS):
            if not hosted.begun.is_set():
                await checkpoint()
        self._runner.outbox.discard()
        if hosted.begun.is_set():  # else it never will: its task was cancelled before, as all are when a loop ends
            with CancelScope(shield=cancelled):
                await hosted.left.wait()
            hosted.raise_failure()

    def __del__(self) -> None:
        if self._is_closed or self._hosted.left.is_set():
            return
        call_soon(self._hosted.token, self._hosted.closing.set)  # garbage may be collected in any thread
        warnings.warn(
            "the events of pipeline(...).open(...) were dropped and not closed; `await events.aclose()` in a finally",
            ResourceWarning,
            stacklevel=2,
            source=self,
        )


def opened_in(group: Any, runner: Runner) -> Opened:
    """Without a group, the host is a task of the event loop's own. Raises a `LocalProtocolError` if the group takes no
    tasks, or the pipeline was entered or opened before."""
    runner.check_new()
    hosted, host = Hosted(in_group=group is not None), partial(_host, runner)
    try:
        spawn(host, hosted) if group is None else group.start_soon(host, hosted)
    except RuntimeError as error:
        refused = f"the task group takes no tasks: it was not entered, or was left ({error}); {_WRITE}"
        raise LocalProtocolError(refused) from error
    if runner.state == "new":  # else the host has begun at once: asyncio's eager tasks do
        runner.state = "opening"
    return Opened(hosted, runner)


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
        runner.outbox.close()  # it may not have been entered, and somebody waits for its first event


async def _stay(runner: Runner, hosted: Hosted) -> None:
    kind: type[BaseException] | None = None
    try:
        hosted.begun.set()
        await hosted.closing.wait()
        kind = anyio.get_cancelled_exc_class() if hosted.cancelled else None
    except BaseException as error:
        hosted.lost, kind = bool(runner.outbox.queue) or not runner.step.ended, type(error)
        raise
    finally:
        await runner.end(kind)


def check_group(group: Any) -> None:
    """Raises a `TypeError` if this is no task group of anyio's or trio's, or none on trio; a `LocalProtocolError` if no
    event loop runs."""
    if group is None:
        try:
            if not is_asyncio():
                raise TypeError(f"on trio, open requires a nursery; {_WRITE}")
        except RuntimeError:
            raise LocalProtocolError("no event loop runs here; call open() in an async function") from None
    elif not (hasattr(group, "start_soon") and hasattr(group, "cancel_scope")):
        kind = type(group).__name__
        raise TypeError(f"open takes a task group of anyio or a nursery of trio, not {kind}; {_WRITE}")
