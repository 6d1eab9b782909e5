"""The calls that one executor runs now: their deadlines, their end when it closes, and the words for either."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from inspect import isasyncgen
from typing import Any

import anyio
from anyio import CancelScope

from ...cancellation import is_cancelled
from ...errors import (
    InvalidArguments,
    LocalProtocolError,
    ToolError,
    ToolFailed,
    ToolNotStarted,
    ToolOutcomeUnknown,
    ToolTimeout,
)
from ...tools import Bound, Tool, ToolContext
from ..executor import Invocation
from ..generators import last_word
from ..results import encode_error

__all__ = ["Run", "Runs", "awaitable", "bind", "failure", "guarded"]


class Run:
    """One call while it runs."""

    __slots__ = ("over", "scope", "started")

    def __init__(self) -> None:
        self.scope = CancelScope()
        self.started = False
        """The tool's code may have run."""
        self.over = False
        """Nobody waits for it any more."""


class Runs:
    """What an executor has open. Used in one event loop.

    Args:
        grace_s: how long closing waits for calls that were cancelled.
    """

    def __init__(self, grace_s: float = 5.0) -> None:
        self._grace_s = grace_s
        self._state = "new"
        self._open: set[Run] = set()
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

    async def run(self, call: Invocation, body: Callable[[Run], Awaitable[Any]]) -> Any:
        """Run `body` until the call's deadline, or until this closes."""
        left = self._time_left(call)
        run = Run()
        self._open.add(run)
        try:
            with run.scope, anyio.move_on_after(None if left == math.inf else left) as deadline:
                try:
                    return await body(run)
                except BaseExceptionGroup as group:  # what a tool's own task group made of its cancellation
                    if not deadline.cancel_called and not run.scope.cancel_called:
                        raise
                    raise self._cut(run, left, timed_out=deadline.cancel_called) from group
            raise self._cut(run, left, timed_out=deadline.cancelled_caught)
        finally:
            run.over = True
            self._open.discard(run)
            if self._empty is not None and not self._open:
                self._empty.set()

    def _time_left(self, call: Invocation) -> float:
        if self._state != "open":
            what = "was not entered" if self._state == "new" else "was left"
            raise ToolNotStarted(f"not run: the executor {what}; run calls inside `async with executor`")
        if (left := call.seconds_left) <= 0:
            raise ToolNotStarted("not run: its deadline was over before it could start")
        return left

    def _cut(self, run: Run, left: float, *, timed_out: bool) -> ToolError:
        if not run.started:
            why = "its deadline came" if timed_out else "its executor closed"
            return ToolNotStarted(f"not run: {why} while it waited for its turn")
        if timed_out:
            return ToolTimeout(round(left, 3))
        return ToolOutcomeUnknown("the call was started, and its executor closed before its end")


def bind(tool: Tool[..., Any], call: Invocation) -> Bound:
    """The call's arguments as the tool's function wants them.

    Raises:
        ToolNotStarted: they do not fit.
    """
    try:
        return tool.validate(call.arguments)
    except InvalidArguments as error:
        raise ToolNotStarted(f"not run: {error}") from error


def awaitable(tool: str, value: Any, ctx: ToolContext) -> Awaitable[Any]:
    """What an async tool's function gave when it was called, as one thing to await."""
    return last_word(tool, value, ctx.progress) if isasyncgen(value) else value


async def guarded(tool: str, body: Awaitable[Any]) -> Any:
    """The value of a tool's code that runs in this task; what it raises, in the words of an executor.

    Raises:
        ToolError: the tool's own.
        ToolFailed: it raised anything else, or let out a cancellation that was not asked of it.
    """
    try:
        return await body
    except Exception as error:
        raise failure(tool, error) from error
    except anyio.get_cancelled_exc_class() as error:
        if is_cancelled():
            raise
        raise failure(tool, error) from error


def failure(tool: str, error: BaseException) -> ToolError:
    """What to raise for what a tool's code has raised. That its call has not begun, or was out of time, is not for a
    tool to say."""
    if isinstance(error, ToolError) and not isinstance(error, (ToolNotStarted, ToolTimeout)):
        return error
    return ToolFailed(encode_error(tool, error)["text"])
