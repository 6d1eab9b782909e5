"""Handles approvals: which calls need one, how an approver is asked, and what an answer means.

Approvals fail closed: a predicate that raises fails its call, an approver that raises denies it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from anyio.lowlevel import EventLoopToken

from ..errors import CallDenied, LocalProtocolError, ToolFailed, contained
from ..events import ApprovalRequested
from ..ground.own import own
from ..ground.text import type_name
from .event_loop import is_in_loop, let_out
from .states import Call, Ending

if TYPE_CHECKING:
    from ..seams import Decision, Deny, Pending


Verdict: TypeAlias = "bool | Deny | Decision | None"
"""True: the call may run. False or `Deny`: it may not. A `Decision` says so by name. None: somebody else decides."""

Approver: TypeAlias = Callable[[ApprovalRequested], "Verdict | Awaitable[Verdict]"]
"""Decides about one call: returns a verdict, or an awaitable of one. If the approver raises, the call is denied."""


def is_gated(call: Call) -> bool:
    """Raises `ToolFailed` if the tool's own predicate raised, or did not return a bool."""
    tool, bound = call.ready
    gate = tool.needs_approval
    if isinstance(gate, bool):
        return gate
    try:
        answer = gate(own(bound.by_name))
    except BaseException as error:
        raise ToolFailed(f"not run: the needs_approval of {tool.name} raised {type_name(error)}") from contained(error)
    if not isinstance(answer, bool):
        kind = type(answer).__name__
        raise ToolFailed(f"not run: the needs_approval of {tool.name} returned {kind}, not True or False")
    return answer


def request(call: Call, pending: Pending) -> ApprovalRequested:
    tool, bound = call.ready
    return ApprovalRequested(
        call.call_id,
        tool.name,
        own(bound.by_name),
        fingerprint=call.fingerprint,
        index=call.call.index,
        caller=call.call.caller,
        findings=call.findings,
        approvals=pending.approvals,
    )


async def verdict_of(approver: Approver | None, event: ApprovalRequested) -> Verdict:
    verdict = None if approver is None else approver(event)
    return await verdict if inspect.isawaitable(verdict) else verdict


async def ask(
    approver: Approver, event: ApprovalRequested, pending: Pending
) -> tuple[Decision | None, BaseException | None]:
    """Asks an approver; returns its decision, or None if it made none, and the error for which the call is denied. Of
    the approver's exceptions, only a cancellation that was requested here comes out."""
    try:
        return _decision(await verdict_of(approver, event), event, pending), None
    except BaseException as error:
        let_out(error)
        return failed(event, error)


def _decision(verdict: Verdict, event: ApprovalRequested, pending: Pending) -> Decision | None:
    from ..seams.desk import Decision, read_verdict  # most calls need no approval

    approved, reason = read_verdict(verdict)
    if approved is None:
        return None
    decision = verdict if isinstance(verdict, Decision) else Decision.on(event, approved, reason=reason)
    if (decision.call_id, decision.fingerprint) != (event.call_id, event.fingerprint):
        raise LocalProtocolError("the approver has decided about another call than it was asked about")
    if approved:
        pending.check(decision)
    return _named(decision, event)


def failed(event: ApprovalRequested, error: BaseException) -> tuple[Decision, BaseException]:
    from ..seams import Decision

    reason = f"asking for its approval failed ({type_name(error)})"
    return _named(Decision.on(event, False, reason=reason), event), error


def _named(decision: Decision, event: ApprovalRequested) -> Decision:
    return replace(decision, by="approve") if event.approvals > 1 and decision.by is None else decision


def check_loop(runs_in: EventLoopToken | None, act: str) -> None:
    if runs_in is None or not is_in_loop(runs_in):
        raise LocalProtocolError(
            f"{act} calls in the pipeline's event loop; from another thread "
            f"anyio.from_thread.run_sync(events.{act}, call, token=...), with its anyio.lowlevel.current_token()"
        )


def denied(reason: str | None, cause: BaseException | None = None) -> Ending:
    why = f": {reason}" if reason else ""
    error = CallDenied(f"not run: the call was not approved{why}")
    error.__cause__ = cause
    return Ending("denied", error)
