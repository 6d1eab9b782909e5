"""The calls that one executor runs now: whether they have begun, their end when it closes, and the words for either."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isasyncgen
from typing import Any

import anyio
from anyio import CancelScope

from ...errors import InvalidArguments, LocalProtocolError, ToolError, ToolNotStarted, ToolOutcomeUnknown
from ...tools import Bound, Tool, ToolContext
from ..context import last_word
from ..executor import Begin, Invocation

__all__ = ["WorkerRun", "Runs", "awaitable", "bind"]


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
        """`begin` has returned: the call ends, or its end is unknown."""
        self.over = False
        """Nobody waits for it any more."""

    async def begin(self) -> float:
        """Begin the call; returns the seconds that it may take. Await it once."""
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
        """Take calls from now on."""
        if self._state != "new":
            raise LocalProtocolError("an executor is entered once; make another")
        self._state = "open"

    async def close(self) -> None:
        """Take no more, cancel those that run, and wait for them."""
        self._state = "closed"
        for run in list(self._open):
            run.scope.cancel()
        if self._open:
            self._empty = anyio.Event()
            with anyio.move_on_after(self._grace_s, shield=True):
                await self._empty.wait()

    async def run(self, begin: Begin, body: Callable[[WorkerRun], Awaitable[Any]]) -> Any:
        """WorkerRun `body`, which begins the call by `WorkerRun.begin`, until its end or until this closes.

        Raises:
            ToolNotStarted: this is not open, or closed before the call had begun.
            ToolOutcomeUnknown: this closed after the call had begun.
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
                except BaseExceptionGroup as group:  # what a tool's own task group made of its cancellation
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


def awaitable(tool: str, value: Any, ctx: ToolContext) -> Awaitable[Any]:
    """Returns what an async tool's function gave when it was called, as one thing to await."""
    return last_word(tool, value, ctx.progress) if isasyncgen(value) else value
