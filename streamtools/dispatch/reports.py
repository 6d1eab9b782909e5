"""What a running tool is told about its call, and where its reports go."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
from anyio import from_thread
from anyio.lowlevel import current_token

from ..events import ToolProgress, Warning
from ..tools import Tool, ToolContext
from .host import Host
from .record import Record

__all__ = ["context_of", "late_warning", "reports_of"]


def reports_of(record: Record, tool: Tool[..., Any], host: Host, most_waiting: int) -> Callable[[Any], None]:
    """Takes, in the event loop, what the running attempt reports, and never waits.

    Args:
        most_waiting: while more events than that wait for the consumer, reports are dropped and counted.
    """
    attempt = record.attempts

    def report(value: Any) -> None:
        if _is_over(record, attempt):
            return
        if host.behind >= most_waiting:
            record.progress_dropped += 1
        else:
            host.emit(ToolProgress(record.call.call_id, tool.name, value))

    return report


def context_of(record: Record, tool: Tool[..., Any], host: Host, most_waiting: int) -> ToolContext:
    """The context of the running attempt; its reports may come from any thread."""
    loop_thread, token, attempt = threading.get_ident(), current_token(), record.attempts
    report = reports_of(record, tool, host, most_waiting)

    def from_anywhere(value: Any) -> None:
        """From a thread of the loop, of a sync tool, or one that the tool itself has started."""
        if threading.get_ident() == loop_thread:
            report(value)
        elif not _is_over(record, attempt):
            try:
                from_thread.run_sync(report, value, token=token)
            except anyio.RunFinishedError:
                return  # the loop is over, and with it whoever wanted to know

    return ToolContext(
        call_id=record.call.call_id,
        tool_name=tool.name,
        run_id=host.run_id,
        step=host.number,
        attempt=attempt,
        key=record.key,
        report=from_anywhere,
        is_cancelled=lambda: _is_over(record, attempt),
    )


def _is_over(record: Record, attempt: int) -> bool:
    """Nobody waits for that attempt any more."""
    return record.observed or record.attempts != attempt


def late_warning(record: Record, tool: Tool[..., Any], host: Host) -> Callable[[], None]:
    """What a thread that was given up calls at its end. It waits for nobody: the loop may be about to end."""
    loop: Any = current_token().native_token
    call_soon = getattr(loop, "run_sync_soon", None) or loop.call_soon_threadsafe  # trio's name, asyncio's name

    def tell() -> None:
        if not host.ended:
            host.emit(Warning("late_result", f"{record.label}: ended after it was given up"))

    def late() -> None:
        try:
            call_soon(tell)
        except RuntimeError:  # the loop has ended, and with it whoever wanted to know
            return

    return late
