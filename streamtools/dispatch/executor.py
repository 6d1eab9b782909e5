"""Defines the contract of every executor: run one call somewhere, begin it in one step, report exactly how it ended.

A call is *not started* until its executor has awaited ``begin()``, and *begun* from then on; there is no third state.
So an executor first does what can fail or wait without effect (getting a thread or worker, finding the tool,
validating the arguments), then awaits ``begin()``, and runs the tool's code next. A call that ends before ``begin()``
has returned has provably had no effect; one that ends after that has an end, or is unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

from ..content import Caller
from ..parts import WaitReason
from ..tools import Effect, ToolContext
from ..tools.context import ELSEWHERE

Begin: TypeAlias = Callable[[], Awaitable[float]]
"""Turns "not started" into "begun". Await it exactly once, in the event loop, after everything that can fail without
effect and right before the tool's code. Returns the seconds that the call may take from now, infinite without a limit;
each side counts them on its own monotonic clock. If it raises, run nothing and let the exception propagate."""

Emit: TypeAlias = Callable[[Any], object]
"""Takes a running tool's reports. Call it in the event loop, from ``begin()`` until the call ends. It never blocks."""


def _unheard(reason: WaitReason) -> None:
    """Ignores a reason."""


@dataclass(slots=True, kw_only=True)
class Invocation:
    """One call, as plain values that may travel to another process or machine."""

    tool: str
    """The tool's name."""
    arguments: dict[str, Any] = field(repr=False)
    """Plain JSON by parameter name, validated. The executor validates them again, where the tool is."""
    key: str
    """The call's idempotency key: the same for every attempt at it, and handed to the tool."""
    effect: Effect = "once"
    """The tool's effect: whether a second run would do harm."""
    carrier: dict[str, str] = field(default_factory=dict, repr=False)
    """``traceparent`` and ``tracestate`` of W3C Trace Context: the tool's spans become children of that span. The span
    begins with the call, so read this after ``begin()`` has returned."""
    attempt: int = 1
    """The number of this attempt at the call, from 1."""
    call_id: str = "call"
    run_id: str = "run"
    step: int = 0
    caller: Caller = "direct"
    """Who made the call: the model itself, or code that it wrote."""
    has_context: bool = False
    """True if the pipeline was given a context, even if the context did not travel with the call."""
    context: Any = field(default=None, repr=False, compare=False)
    """The pipeline's context. It does not travel to another process."""
    waits_for: Callable[[WaitReason], object] = field(default=_unheard, repr=False, compare=False)
    """Notes what the call waits for from now on, until the next reason or ``begin()``. An executor calls it in the
    event loop, before ``begin()``, whenever the reason changes: ``call.waits_for("worker_start")``. It never blocks,
    and does nothing once the call has begun. It does not travel."""
    services: dict[str, Callable[..., Any]] = field(default_factory=dict, repr=False, compare=False)
    """What the run can do for the running call; see `ToolContext.services`. They do not travel."""
    notes: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What services note about the call, as JSON; see `Observation.notes`."""
    left_running: bool = field(default=False, init=False, repr=False, compare=False)
    """True if the tool's code still runs after the executor gave it up; the executor sets it at the call's end."""


class Executor(Protocol):
    """Runs calls somewhere, inside its ``async with`` block. Never runs a call twice."""

    # An executor that hands `Invocation.context` on to its tools says so by ``carries_context = True``.

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        """Runs one call and returns its value. If cancelled, stops the tool's code and lets the cancellation propagate.

        Args:
            call: the call. Its time until ``begin()`` counts as a wait for the executor, or for what the executor names
                by `Invocation.waits_for`.
            begin: await it exactly once, before any of the tool's code runs; see `Begin`.
            emit: call it with the tool's reports while the tool runs.

        Raises:
            ToolNotStarted: before `begin` only: there is no worker, thread or tool for it, or the arguments do not fit.
                After it, only the tool's own exception may say so (`ToolNotStarted.by_tool`).
            ToolOutcomeUnknown: after `begin`: how the call ended is unknown.
            ToolTimeout: after `begin`: the call's seconds were over. Its effect up to then stays.
            ToolFailed: after `begin`: the tool raised; the text names only the exception's type.
            ToolError: after `begin`: the tool raised this, in words for the model.
        """
        ...


def context_of(call: Invocation, report: Callable[[Any], None], is_cancelled: Callable[[], bool]) -> ToolContext:
    """Returns the tool context of a call that an executor runs; `report` takes the tool's reports."""
    return ToolContext(
        call_id=call.call_id,
        tool_name=call.tool,
        run_id=call.run_id,
        step=call.step,
        attempt=call.attempt,
        key=call.key,
        context=ELSEWHERE if call.has_context and call.context is None else call.context,
        report=report,
        is_cancelled=is_cancelled,
        services=call.services,
    )
