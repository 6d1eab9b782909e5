"""Approvals: which calls need one, how an approver is asked, and what an answer means.

A decision is taken closed: a predicate that raises fails its call, an approver that raises denies it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
from anyio.lowlevel import EventLoopToken, current_token

from ..errors import CallDenied, LocalProtocolError, ToolFailed
from ..event_loop import is_cancelled
from ..events import ApprovalRequested
from .call import Call, Ending

__all__ = [
    "Approver",
    "Decision",
    "Verdict",
    "ask",
    "check_loop",
    "decision",
    "denied",
    "failed",
    "is_gated",
    "request",
]

Verdict: TypeAlias = bool | str | None
"""True: it may run. False, or a text that the model is told as the reason: it may not. None: somebody else decides."""

Approver: TypeAlias = Callable[[ApprovalRequested], "Verdict | Awaitable[Verdict]"]
"""Decides about one call, at once or when it is awaited. If it raises, the call is denied."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer about a call."""

    approved: bool
    reason: str | None = None
    """Why not, for the model to read."""
    error: BaseException | None = None
    """The approver's exception."""


def is_gated(call: Call) -> bool:
    """Returns whether the call waits for an approval.

    Raises:
        ToolFailed: the tool's own predicate does not say.
    """
    assert call.tool is not None, "only a ready call is asked"
    assert call.bound is not None, "only a ready call is asked"
    gate = call.tool.needs_approval
    if isinstance(gate, bool):
        return gate
    try:
        said = gate(dict(call.bound.by_name))
    except Exception as error:
        raise ToolFailed(f"not run: the needs_approval of {call.tool.name} raised {type(error).__name__}") from error
    if not isinstance(said, bool):
        kind = type(said).__name__
        raise ToolFailed(f"not run: the needs_approval of {call.tool.name} returned {kind}, not True or False")
    return said


def request(call: Call) -> ApprovalRequested:
    """Returns the event that asks about a call."""
    assert call.tool is not None, "only a ready call is asked about"
    assert call.bound is not None, "only a ready call is asked about"
    return ApprovalRequested(
        call.call.call_id,
        call.tool.name,
        dict(call.bound.by_name),
        fingerprint=call.fingerprint,
        index=call.call.index,
    )


def decision(verdict: Any) -> Decision | None:
    """Returns the meaning of an answer; None: nothing is decided.

    Raises:
        TypeError: it is no answer.
    """
    if verdict is None or isinstance(verdict, bool):
        return None if verdict is None else Decision(verdict)
    if isinstance(verdict, str):
        return Decision(False, verdict)
    raise TypeError(f"an approval is True, False, a text (why not) or None, not {type(verdict).__name__}")


async def ask(approver: Approver, event: ApprovalRequested) -> Decision | None:
    """Returns the approver's decision. Only a cancellation that was asked for comes out of it."""
    try:
        verdict = approver(event)
        return decision(await verdict if inspect.isawaitable(verdict) else verdict)
    except Exception as error:
        return failed(error)
    except anyio.get_cancelled_exc_class() as error:
        if is_cancelled():
            raise
        return failed(error)  # of a task that the approver awaited


def failed(error: BaseException) -> Decision:
    """Returns the decision of an approver that has raised."""
    return Decision(False, f"asking for its approval failed ({type(error).__name__})", error)


def check_loop(runs_in: EventLoopToken | None, act: str) -> None:
    """Refuse an act from elsewhere than where calls are started and stopped.

    Args:
        runs_in: the event loop of the calls.
        act: the pipeline's method, for the message.

    Raises:
        LocalProtocolError: this thread runs another event loop, or none.
    """
    try:
        here = current_token()
    except RuntimeError:
        here = None
    if here is None or here != runs_in:
        raise LocalProtocolError(
            f"{act} calls in the pipeline's event loop; from another thread "
            f"anyio.from_thread.run_sync(events.{act}, call, token=...), with its anyio.lowlevel.current_token()"
        )


def denied(decision: Decision) -> Ending:
    """Returns the ending of a call that was not approved."""
    why = f": {decision.reason}" if decision.reason else ""
    error = CallDenied(f"not run: the call was not approved{why}")
    error.__cause__ = decision.error
    return Ending("denied", error)
