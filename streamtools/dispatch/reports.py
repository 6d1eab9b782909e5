"""What a running tool is told about its call, and where its reports go."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from anyio.lowlevel import current_token

from ..events import ToolProgress, Warning
from ..into_loop import call_soon, from_any_thread
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
    attempt = record.attempts
    is_over = partial(_is_over, record, attempt)
    report = reports_of(record, tool, host, most_waiting)
    return ToolContext(
        call_id=record.call.call_id,
        tool_name=tool.name,
        run_id=host.run_id,
        step=host.number,
        attempt=attempt,
        key=record.key,
        report=from_any_thread(report, is_over),
        is_cancelled=is_over,
    )


def _is_over(record: Record, attempt: int) -> bool:
    """Nobody waits for that attempt any more."""
    return record.observed or record.attempts != attempt


def late_warning(record: Record, host: Host) -> Callable[[], None]:
    """What a thread that was given up calls at its end."""

    def tell() -> None:
        if not host.ended:
            host.emit(Warning("late_result", f"{record.label}: ended after it was given up"))

    return partial(call_soon, current_token(), tell)
