"""What every executor is: a place that runs one call, and says exactly how that ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

from ..tools import Effect, ToolContext

__all__ = ["Emit", "Executor", "Invocation", "context_of"]

Emit: TypeAlias = Callable[[Any], object]
"""Takes what a running tool reports. It is called in the event loop and must not block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One call, as plain values that may travel to another process or machine."""

    tool: str
    """The tool's name."""
    arguments: Mapping[str, Any] = field(repr=False)
    """Plain JSON by parameter name, validated. The executor validates them again, where the tool is."""
    key: str
    """The call's idempotency key: the same for every attempt at it, and handed to the tool."""
    effect: Effect = "once"
    """What a second run would do."""
    deadline: float | None = None
    """When it has to be over, in seconds since 1970: it is kept on the other side, too, whose clock may differ."""
    carrier: Mapping[str, str] = field(default_factory=dict, repr=False)
    """``traceparent`` and ``tracestate`` by W3C Trace Context: spans of the tool become children of that span."""
    attempt: int = 1
    """Which start of the call this is, from 1."""
    call_id: str = "call"
    run_id: str = "run"
    step: int = 0

    @property
    def seconds_left(self) -> float:
        """Time until the deadline, from now; infinite if there is none."""
        return float("inf") if self.deadline is None else self.deadline - time.time()


class Executor(Protocol):
    """Runs calls somewhere, between ``async with`` and its end. Never makes a call again by itself."""

    async def __aenter__(self) -> Self:
        """Get ready."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """End what still runs, and leave nothing behind."""
        ...

    async def run(self, call: Invocation, emit: Emit, /) -> Any:
        """Run one call and return its value. If this is cancelled, the work is, too.

        Args:
            call: what to run.
            emit: is given what the tool reports while it runs.

        Raises:
            ToolNotStarted: it has not run; it may be made again.
            ToolOutcomeUnknown: it was started, and its end is not known.
            ToolTimeout: its deadline came while it ran. What it had done by then is done.
            ToolFailed: the tool raised; the text names the type and nothing more.
            ToolError: the tool raised this, in words for the model.
        """
        ...


def context_of(call: Invocation, report: Callable[[Any], None], is_cancelled: Callable[[], bool]) -> ToolContext:
    """What the running tool is told about the call."""
    return ToolContext(
        call_id=call.call_id,
        tool_name=call.tool,
        run_id=call.run_id,
        step=call.step,
        attempt=call.attempt,
        key=call.key,
        report=report,
        is_cancelled=is_cancelled,
    )
