"""The calls of one turn that wait for somebody's word: asking, and what follows from the answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from anyio import CancelScope
from anyio.lowlevel import EventLoopToken, checkpoint, current_token

from ..events import ApprovalRequested, ApprovalResolved, Event
from . import approval
from .approval import Approver, Decision
from .record import Ended, Record
from .tasks import CallTasks, Start

__all__ = ["Approvals"]


class Approvals:
    """Asks about calls, and lets them run, or not, by the first word that is said about each.

    Args:
        approver: is asked in a task of its own; None leaves all to others.
        emit: takes the events.
        tasks: is told of each question, so that the pipeline waits for the answer.
        start: makes a task.
        go: lets an approved call run when its turn comes.
        observe: takes how a denied call ended.
        stopped: nothing starts any more, and no word counts.
    """

    def __init__(
        self,
        approver: Approver | None,
        emit: Callable[[Event], None],
        tasks: CallTasks,
        start: Start,
        *,
        go: Callable[[Record], None],
        observe: Callable[[Record, Ended], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._approver = approver
        self._emit = emit
        self._tasks = tasks
        self._start = start
        self._go = go
        self._observe = observe
        self._stopped = stopped
        self._loop: EventLoopToken | None = None  # in which somebody was asked

    def request(self, record: Record) -> None:
        """Ask about a call."""
        record.approval, event = "asked", approval.request(record)
        self._loop = self._loop or current_token()
        self._emit(event)
        if self._approver is not None and record.waits_for_approval:  # else an observer has decided
            self._tasks.opened()
            record.scope = CancelScope()
            self._start(partial(self._ask, record, record.scope, event, self._approver))

    def decide(self, record: Record, decision: Decision) -> bool:
        """Take somebody's word about a call that was asked about; False if it comes too late.

        Raises:
            LocalProtocolError: this is another thread.
        """
        approval.check_loop(self._loop)
        counts = record.waits_for_approval and not self._stopped()
        if counts:
            self._resolve(record, decision)
        return counts

    async def _ask(self, record: Record, scope: CancelScope, event: ApprovalRequested, approver: Approver) -> None:
        """The task of one question; its scope is no longer the record's when somebody else has decided."""
        decision = None
        try:
            with scope:
                await checkpoint()
                decision = await approval.ask(approver, event)
        except Exception as error:  # what the approver's own task group made of its cancellation
            decision = approval.failed(error)
        finally:
            if record.scope is scope:
                record.scope = None
            if decision is not None and record.waits_for_approval and not self._stopped():
                self._resolve(record, decision)
            self._tasks.closed()

    def _resolve(self, record: Record, decision: Decision) -> None:
        assert record.tool is not None, "only a ready call is asked about"
        record.approval = "approved" if decision.approved else "denied"
        scope, record.scope = record.scope, None
        if scope is not None:
            scope.cancel()  # of an approver that goes on thinking
        name = record.tool.name
        self._emit(ApprovalResolved(record.call.call_id, name, decision.approved, decision.reason))
        if decision.approved:
            self._go(record)
        else:
            self._observe(record, approval.denied(decision))
