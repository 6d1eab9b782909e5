"""The calls that one executor runs now: whether they have begun, and how they end when the executor closes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio import CancelScope

from ...errors import InvalidArguments, LocalProtocolError, ToolError, ToolNotStarted, ToolOutcomeUnknown
from ...tools import Bound, Tool
from ..executor import Begin, Invocation

__all__ = ["Runs", "WorkerRun", "bind"]


class WorkerRun:
    """One call while it runs.

    Args:
        begin: the call's.
    """

    __slots__ = ("_begin", "begun", "over", "scope")

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self.scope = CancelScope()
        self.begun = False
        """True once `begin` has returned: from then on the call has an end, or its end is unknown."""
        self.over = False
        """True once nobody waits for the call any more."""

    async def begin(self) -> float:
        """Begins the call; returns the seconds that it may take. Await it once."""
        seconds = await self._begin()
        self.begun = True
        return seconds

    def cut(self) -> ToolError:
        """Returns the error of a call whose executor has closed."""
        if self.begun:
            return ToolOutcomeUnknown("the call was begun, and its executor closed before its end")
        return ToolNotStarted("not run: its executor closed while it waited for its turn")


class Runs:
    """The calls that an executor has open. Used in one event loop.

    Args:
        grace_s: how long closing waits for calls that were cancelled.
    """

    def __init__(self, grace_s: float = 5.0) -> None:
        self._grace_s = grace_s
        self._state = "new"
        self._open: set[WorkerRun] = set()
        self._empty: anyio.Event | None = None

    def open(self) -> None:
        """Takes calls from now on."""
        if self._state != "new":
            raise LocalProtocolError("an executor is entered once; make another")
        self._state = "open"

    async def close(self) -> None:
        """Takes no more calls, cancels those that run, and waits for them."""
        self._state = "closed"
        for run in list(self._open):
            run.scope.cancel()
        if self._open:
            self._empty = anyio.Event()
            with anyio.move_on_after(self._grace_s, shield=True):
                await self._empty.wait()

    async def run(self, begin: Begin, body: Callable[[WorkerRun], Awaitable[Any]]) -> Any:
        """Runs `body`, which begins the call by `WorkerRun.begin`, until it ends or the executor closes.

        Raises:
            ToolNotStarted: the executor is not open, or closed before the call had begun.
            ToolOutcomeUnknown: the executor closed after the call had begun.
        """
        if self._state != "open":
            state = "was not entered" if self._state == "new" else "was left"
            raise ToolNotStarted(f"not run: the executor {state}; run calls inside `async with executor`")
        run = WorkerRun(begin)
        self._open.add(run)
        try:
            with run.scope:
                try:
                    return await body(run)
                except BaseExceptionGroup as group:  # a tool's own task group made it of its cancellation
                    if not run.scope.cancel_called:
                        raise
                    raise run.cut() from group
            raise run.cut()
        finally:
            run.over = True
            self._open.discard(run)
            if self._empty is not None and not self._open:
                self._empty.set()


def bind(tool: Tool[..., Any], call: Invocation) -> Bound:
    """Returns the call's arguments as the tool's function wants them.

    Raises:
        ToolNotStarted: they do not fit.
    """
    if call.bound is not None:
        return call.bound
    try:
        return tool.validate(call.arguments)
    except InvalidArguments as error:
        raise ToolNotStarted(f"not run: {error}") from error
