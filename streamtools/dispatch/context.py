"""Passes on a running tool's reports, warns of tools that end late, and runs tools that are async generators."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

from anyio.lowlevel import checkpoint, current_token

from ..content import FinalResult, ToolResult
from ..errors import ToolFailed
from ..event_loop import call_soon
from ..events import StreamWarning, ToolProgress
from .call import Call, Host

__all__ = ["last_word", "late_warning", "reports_of"]


def reports_of(call: Call, tool: str, host: Host, most_waiting: int) -> Callable[[Any], None]:
    """Returns a function that takes the next attempt's reports, in the event loop, and never waits.

    Args:
        call: the call.
        tool: its tool's name.
        host: emits the reports.
        most_waiting: while that many events wait for the consumer, reports are dropped and counted.
    """
    attempt = call.attempts + 1

    def report(value: Any) -> None:
        if call.state == "observed" or call.attempts != attempt:
            return
        if host.behind >= most_waiting:
            call.progress_dropped += 1
        else:
            host.emit(ToolProgress(call.call.call_id, tool, value))

    return report


def late_warning(call: Call, host: Host) -> Callable[[], None]:
    """Returns a function that a given-up thread calls at its end, to emit a warning."""

    def tell() -> None:
        if not host.ended:
            host.emit(StreamWarning("late_result", f"{call.label}: ended after it was given up"))

    return partial(call_soon, current_token(), tell)


async def last_word(tool: str, values: AsyncGenerator[Any, Any], progress: Callable[[Any], None]) -> Any:
    """Runs a generator in this task up to its result, closes it on every path, and returns the result.

    Args:
        tool: the tool's name.
        values: the tool's generator.
        progress: takes each value but the result, at once.

    Raises:
        ToolFailed: there is no result. The last value is not taken for one, since nothing marks it as such.
    """
    async with aclosing(values):
        async for value in values:
            if isinstance(value, FinalResult):
                return value.value
            if isinstance(value, ToolResult):
                return value
            progress(value)
            await checkpoint()  # a generator that never awaits must not keep all others from running
    raise ToolFailed(f"the tool {tool} ended without a result")
