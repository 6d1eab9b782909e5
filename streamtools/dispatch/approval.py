"""Approvals: which calls need one, how an approver is asked, and what an answer means.

Approvals fail closed: a predicate that raises fails its call, an approver that raises denies it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
from anyio.lowlevel import EventLoopToken

from ..errors import CallDenied, LocalProtocolError, ToolFailed
from ..event_loop import is_cancelled, is_here
from ..events import ApprovalRequested
from .call import Call, Ending

__all__ = [
    "Approver",
    "Decision",
    "Deny",
    "Verdict",
    "ask",
    "check_loop",
    "decision",
    "denied",
    "failed",
    "is_gated",
    "request",
]


@dataclass(frozen=True, slots=True)
class Deny:
    """The verdict that a call may not run, with the reason for the model to read.

    approve=lambda request: request.arguments["amount"] < 100 or Deny("more than 100 needs a manager")
    """

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise TypeError(f"Deny takes a text that the model reads, not {type(self.reason).__name__}")


Verdict: TypeAlias = bool | Deny | None
"""True: the call may run. False or `Deny`: it may not. None: somebody else decides."""

Approver: TypeAlias = Callable[[ApprovalRequested], "Verdict | Awaitable[Verdict]"]
"""Decides about one call: returns a verdict, or an awaitable of one. If the approver raises, the call is denied."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a call."""

    approved: bool
    reason: str | None = None
    """Why the call is denied, for the model to read."""
    error: BaseException | None = None
    """The approver's exception, if it raised one."""


def is_gated(call: Call) -> bool:
    """Returns whether the call waits for an approval.

    Raises:
        ToolFailed: the tool's own predicate raised, or did not return a bool.
    """
    tool, bound = call.ready
    gate = tool.needs_approval
    if isinstance(gate, bool):
        return gate
    try:
        said = gate(dict(bound.by_name))
    except Exception as error:
        raise ToolFailed(f"not run: the needs_approval of {tool.name} raised {type(error).__name__}") from error
    if not isinstance(said, bool):
        kind = type(said).__name__
        raise ToolFailed(f"not run: the needs_approval of {tool.name} returned {kind}, not True or False")
    return said


def request(call: Call) -> ApprovalRequested:
    """Returns the event that requests approval of a call."""
    tool, bound = call.ready
    asked = dict(bound.by_name)
    return ApprovalRequested(call.call.call_id, tool.name, asked, fingerprint=call.fingerprint, index=call.call.index)


def decision(verdict: Any) -> Decision | None:
    """Returns the decision that a verdict stands for; None if it decides nothing.

    Raises:
        TypeError: this is no verdict.
    """
    if verdict is None or isinstance(verdict, bool):
        return None if verdict is None else Decision(verdict)
    if isinstance(verdict, Deny):
        return Decision(False, verdict.reason)
    raise TypeError(f'an approval is True, False, Deny("why") or None, not {type(verdict).__name__}')


async def ask(approver: Approver, event: ApprovalRequested) -> Decision | None:
    """Asks an approver and returns its decision, or None if it made none. Of the approver's exceptions, only a
    cancellation that was requested here comes out."""
    try:
        verdict = approver(event)
        return decision(await verdict if inspect.isawaitable(verdict) else verdict)
    except Exception as error:
        return failed(error)
    except anyio.get_cancelled_exc_class() as error:
        if is_cancelled():
            raise
        return failed(error)  # the cancellation of a task that the approver awaited


def failed(error: BaseException) -> Decision:
    """Returns the decision of an approver that has raised."""
    return Decision(False, f"asking for its approval failed ({type(error).__name__})", error)


def check_loop(runs_in: EventLoopToken | None, act: str) -> None:
    """Refuses an act, a method of the pipeline, unless it comes from the event loop that the calls run in.

    Raises:
        LocalProtocolError: this thread runs another event loop, or none.
    """
    if runs_in is None or not is_here(runs_in):
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
