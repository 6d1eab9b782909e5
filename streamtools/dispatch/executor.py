"""Defines the contract of every executor: run one call somewhere, begin it in one step, report exactly how it ended.

A call is *not started* until its executor has awaited ``begin()``, and *begun* from then on; there is no third state.
So an executor first does all that can fail or wait without effect (a place, a thread, a worker, finding the tool,
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
"""Turns "not started" into "begun". Await it exactly once, in the event loop, after all that can fail without effect
and right before the tool's code. Returns the seconds that the call may take from now, infinite if there is no limit;
each side counts them on its own monotonic clock. If it raises, run nothing, and let the exception out unchanged."""

Emit: TypeAlias = Callable[[Any], object]
"""Takes a running tool's reports. Call it in the event loop, between ``begin()`` and the end; it never blocks."""


def _unheard(reason: WaitReason) -> None:
    """Takes a reason that nobody keeps."""


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
    """The effect of the tool: it decides whether a second run would do harm."""
    carrier: dict[str, str] = field(default_factory=dict, repr=False)
    """``traceparent`` and ``tracestate`` by W3C Trace Context: spans of the tool become children of that span. The span
    begins with the call: read this after ``begin()`` has returned."""
    attempt: int = 1
    """The number of this attempt at the call, from 1."""
    call_id: str = "call"
    run_id: str = "run"
    step: int = 0
    caller: Caller = "direct"
    """Who has made the call: the model itself, or its code."""
    has_context: bool = False
    """True if the pipeline was given a context, whether or not it came along."""
    context: Any = field(default=None, repr=False, compare=False)
    """The pipeline's context. It does not travel."""
    waits_for: Callable[[WaitReason], object] = field(default=_unheard, repr=False, compare=False)
    """Notes what the call waits for from now on, until the next reason or ``begin()``. An executor calls it in the
    event loop, before ``begin()``, whenever the reason changes: ``call.waits_for("worker_start")``. It never blocks,
    and does nothing once the call has begun. It does not travel."""
    services: dict[str, Callable[..., Any]] = field(default_factory=dict, repr=False, compare=False)
    """What the run does for the call, once that runs; see `ToolContext.services`. They do not travel."""
    notes: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What services note of the call, as JSON; see `Observation.notes`."""
    left_running: bool = field(default=False, init=False, repr=False, compare=False)
    """True if the executor gave up the tool's code, which goes on; set by the executor at the call's end."""


class Executor(Protocol):
    """Runs calls somewhere, between ``async with`` and its end. Never runs a call twice."""

    # An executor that hands `Invocation.context` on to its tools says so by ``carries_context = True``.

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        """Runs one call and returns its value. If cancelled, stops the tool's code, and lets the cancellation out.

        Args:
            call: the call. Its time until ``begin()`` counts as a wait for the executor, or for what the executor names
                by `Invocation.waits_for`.
            begin: is awaited exactly once, before any of the tool's code runs; see `Begin`.
            emit: is given the tool's reports while it runs.

        Raises:
            ToolNotStarted: before `begin` only: there is no worker, thread or tool for it, or the arguments do not fit.
                After it the tool alone may say so, by its own exception (`ToolNotStarted.by_tool`).
            ToolOutcomeUnknown: after `begin`: nobody knows how the call ended.
            ToolTimeout: after `begin`: the call's seconds were over. Its effect up to then stays.
            ToolFailed: after `begin`: the tool raised; the text names the type and nothing more.
            ToolError: after `begin`: the tool raised this, in words for the model.
        """
        ...


def context_of(call: Invocation, report: Callable[[Any], None], is_cancelled: Callable[[], bool]) -> ToolContext:
    """Returns the context of a call that an executor runs: `report` takes the tool's reports."""
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
