"""Asks an approver, and reads its verdict. An approver that raises denies its call."""

from __future__ import annotations

import inspect
from dataclasses import replace

from ..dispatch.event_loop import let_out
from ..dispatch.options import Approver, Verdict
from ..dispatch.states import Call
from ..errors import LocalProtocolError
from ..events import ApprovalRequested
from ..ground.own import own
from ..ground.text import type_name
from ..seams import Decision, Pending
from ..seams.desk import read_verdict


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
    the approver's exceptions, it raises only a cancellation that was requested here."""
    try:
        return _decision(await verdict_of(approver, event), event, pending), None
    except BaseException as error:
        let_out(error)
        return failed(event, error)


def _decision(verdict: Verdict, event: ApprovalRequested, pending: Pending) -> Decision | None:
    approved, reason = read_verdict(verdict)
    if approved is None:
        return None
    decision = verdict if isinstance(verdict, Decision) else Decision.on(event, approved, reason=reason)
    if (decision.call_id, decision.fingerprint) != (event.call_id, event.fingerprint):
        raise LocalProtocolError("the approver returned a Decision about another call than it was asked about")
    if approved:
        pending.check(decision)
    return _named(decision, event)


def failed(event: ApprovalRequested, error: BaseException) -> tuple[Decision, BaseException]:
    reason = f"asking for its approval failed ({type_name(error)})"
    return _named(Decision.on(event, False, reason=reason), event), error


def _named(decision: Decision, event: ApprovalRequested) -> Decision:
    return replace(decision, by="approve") if event.approvals > 1 and decision.by is None else decision
