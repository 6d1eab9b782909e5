"""Keeps the waiting calls of one turn, and takes decisions about them and answers to them.

Theory of operation. A call waits for one thing at a time: its approval; its result, if it runs outside; the answer to
what it asks while it runs. A response takes the next place there: at once or, if the run has a `Desk`, once the desk
has it, since only the desk knows who was first. When no place is left, the call continues: to its place in the order,
to those who run it outside, or to its end. If a desk fails, the call keeps waiting.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio import CancelScope
from anyio.lowlevel import EventLoopToken, checkpoint, current_token

from ..content import AnsweredLater, Text, ToolResult
from ..dispatch import endings
from ..dispatch.event_loop import check_loop
from ..dispatch.states import Call, Ending, Listeners, begin_wait, end_wait
from ..errors import AnswerError, LocalProtocolError, ToolError, ToolNotStarted, ToolOutcomeUnknown, ToolTimeout
from ..events import AnswerRequested, ApprovalRequested, ApprovalResolved, Observation, StreamWarning
from ..ground.own import own
from ..ground.text import one_line, type_name
from ..seams import Decision, Desk, Pending, Response, WrittenAnswer
from . import answers, approval
from .answers import read_answer

if TYPE_CHECKING:
    from ..dispatch.transitions import Transitions
    from .edits import Edits

_LOOKS_AGAIN_S, _LOOKS_AGAIN_MOST_S = 0.2, 30.0  # after a desk has failed


@dataclass(slots=True, eq=False)
class Waiting:
    transitions: Transitions
    _asked_in: EventLoopToken | None = None  # the event loop in which a call first asked
    _table: dict[str, list[_PendingCall]] = field(default_factory=dict)  # what was asked, by call id, the latest last

    @property
    def desk(self) -> Desk | None:
        return self.transitions.options.seams.desk

    # -- a call begins to wait --

    def wait(self, call: Call, given: Ending | None) -> None:
        if call.needs and given is None and call.pending is None:
            self._ask_for_approval(call)
            return
        one = self._open(call, self._pending(call, "answer"))
        begin_wait(call, "answer")
        if given is not None and isinstance(given.value, AnsweredLater):
            rests = not given.value.wait
        else:
            rests = call.ready[0].deferred is True or call.before is not None  # not awaited anew
        self.transitions.work(call, partial(self._hand_out, call, one, rests))

    def _pending(self, call: Call, kind: Any) -> Pending:
        return Pending(
            key=call.key,
            fingerprint=call.fingerprint,
            kind=kind,
            call_id=call.call_id,
            approvals=max(call.needs, call.ready[0].approvals),
            edited=call.edited,
            findings=call.findings,
        )

    def _open(self, call: Call, pending: Pending, question: Any = None) -> _PendingCall:
        self._asked_in = self._asked_in or current_token()
        call.pending = one = _PendingCall(pending, question, anyio.Event() if pending.kind == "question" else None)
        self._table.setdefault(call.call_id, []).append(one)
        return one

    def _find(self, call_id: str, *kinds: str) -> _PendingCall | None:
        asked = self._table.get(call_id, ())
        return next((one for one in reversed(asked) if not kinds or one.pending.kind in kinds), None)

    def _waits(self, call: Call, one: _PendingCall) -> bool:
        state = "running" if one.answered is not None else "waiting"
        return call.pending is one and call.state == state and not one.is_settled and self.transitions.stopped is None

    def asked_about(self, call_id: str) -> list[Call]:
        """Returns the call with this id if it waits for an approval or an answer, even while its response continues."""
        call = self.transitions.calls.get(call_id)
        return [] if call is None or call.state != "waiting" else [call]

    # -- approvals --

    def _ask_for_approval(self, call: Call) -> None:
        one = self._open(call, self._pending(call, "approval"))
        begin_wait(call, "approval")
        event, options = approval.request(call, one.pending), self.transitions.options
        self.transitions.host.emit(event)
        is_to_look = options.approver is not None or self.desk is not None or call.before is not None
        if is_to_look and self._waits(call, one):  # else an observer has decided
            self.transitions.work(call, partial(self._ask, call, one, event))

    async def _ask(self, call: Call, one: _PendingCall, event: ApprovalRequested) -> None:
        if not self._waits(call, one) or one.is_taken:
            return
        decision: Decision | None = None
        approver = self.transitions.options.approver
        try:
            with CancelScope() as one.scope:
                await checkpoint()
                if not await self._look(call, one) and approver is not None:
                    decision, one.error = await approval.ask(approver, event, one.pending)
        except Exception as error:  # a group that the approver's own task group made of its cancellation
            decision, one.error = approval.failed(event, error)
        if decision is not None:
            self._respond(call, one, decision)

    def decide(self, call_id: str, verdict: bool, fingerprint: str | None, **given: Any) -> bool:
        """Takes a decision about a call, made by `Decision.on` from what is `given`; returns False if that changes
        nothing, since the call was decided before or is over.

        Raises:
            InvalidArguments: the edited arguments do not fit.
            LocalProtocolError: it has not asked for approval, or not for these arguments; or this is another thread.
            DecisionError: as `Pending.check`.
        """
        call = self.transitions.call_of(call_id, "an ApprovalRequested")
        one = self._find(call_id, "approval")
        if one is None:
            raise LocalProtocolError("this call has not asked for approval; decide after its ApprovalRequested")
        if fingerprint is not None and fingerprint != one.pending.fingerprint:
            raise LocalProtocolError("the call's arguments are not those that were decided about; decide again")
        check_loop(self._asked_in, "approve" if verdict else "deny")
        decision = Decision.on(one.pending, verdict, **given)
        one.pending.check(decision)
        if decision.arguments is not None:
            self.edits.check(call, decision.arguments)
        return self._respond(call, one, decision)

    def resolve(self, call: Call) -> None:
        one = self._find(call.call_id)
        last = None if one is None or not one.is_settled else one.found[-1]
        if one is None or not isinstance(last, Decision):
            return
        named = (each.by for each in (one.found if last.verdict else [last]) if isinstance(each, Decision))
        event = ApprovalResolved(
            call.call_id,
            call.ready[0].name,
            last.verdict,
            last.reason,
            by=tuple(by for by in named if by is not None),
            at=last.at,
            arguments=last.arguments,
        )
        self.transitions.host.emit(event)

    def ending_of(self, call: Call, reason: str | None) -> Ending | None:
        end, stopped = self.transitions.end, self.transitions.stopped
        is_kept = stopped == endings.LEFT and endings.ended_well(end)  # a decision or an answer may come later
        if call.is_outside:
            return answers.unanswered(reason or stopped, is_kept=is_kept)
        if is_kept:
            return answers.undecided()
        was_cancelled_alone = stopped is None and (end is None or end.ended_well)
        return endings.unstarted(reason) if was_cancelled_alone else None

    # -- answers --

    async def _hand_out(self, call: Call, one: _PendingCall, rests: bool) -> None:
        with CancelScope() as one.scope:
            await checkpoint()
            if await self._look(call, one) or not self._waits(call, one):
                return
            self._request_answer(call, one, rests)
            if rests:
                return
            seconds = call.seconds(self.transitions.limits)
            with anyio.move_on_after(seconds) as scope:
                await anyio.sleep_forever()
            if scope.cancelled_caught and self._waits(call, one) and not one.is_taken:
                self.transitions.move(call, "done", Ending("timed_out", ToolTimeout(seconds)))

    async def ask(self, call: Call, question: Any) -> Any:
        """Returns the answer, or raises it if it is a `ToolError`. A call asks one question at a time. Raises a
        `TypeError` if the question is not JSON."""
        latest = self._find(call.call_id)
        if latest is not None and latest.answered is not None and self._waits(call, latest):
            raise LocalProtocolError(f"{call.label}: it already waits for an answer; ask one question at a time")
        number = 1 + sum(one.answered is not None for one in self._table.get(call.call_id, ()))
        try:
            text = json.dumps([call.fingerprint, number, question], sort_keys=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError):  # the error's text quotes the value
            raise TypeError(f"ask: expected text or JSON, got a {type(question).__name__}") from None
        shown = hashlib.sha256(text.encode()).hexdigest()
        pending = Pending(key=call.key, fingerprint=shown, kind="question", call_id=call.call_id)
        one = self._open(call, pending, question)
        assert one.answered is not None, "made for a question"
        begin_wait(call, "answer")
        try:
            await checkpoint()
            if not await self._look(call, one):
                self._request_answer(call, one, rests=False)
                await one.answered.wait()
        finally:
            end_wait(call, time.monotonic())
        value = one.value
        if isinstance(value, ToolResult) and value.is_error:
            raise ToolError("\n".join(block.text for block in value.blocks if isinstance(block, Text)))
        return value

    def _request_answer(self, call: Call, one: _PendingCall, rests: bool) -> None:
        tool, bound = call.ready
        event = AnswerRequested(
            call.call_id,
            tool.name,
            own(bound.by_name),
            fingerprint=one.pending.fingerprint,
            question=one.question,
            rests=rests,
            index=call.call.index,
            caller=call.call.caller,
        )
        self.transitions.host.emit(event)

    def answer(self, call_id: str, record: bytes, fingerprint: str | None) -> bool:
        """Takes the answer to a call that runs outside, or that asks; returns False if it already has this answer.
        Raises an `AnswerError` if it waits for none or has another one, a `LocalProtocolError` in another thread."""
        call, one = self.transitions.calls.get(call_id), self._find(call_id, "answer", "question")
        if call is None:
            raise AnswerError(call_id, "unknown_call", "is not in this step")
        if self._asked_in is not None:
            check_loop(self._asked_in, "answer")
        if one is None:
            raise AnswerError(call.call_id, "unknown_call", "waits for no answer; answer after its AnswerRequested")
        if fingerprint is not None and fingerprint != one.pending.fingerprint:
            raise AnswerError(call.call_id, "changed_call", "is not the one that was shown: its fingerprint differs")
        given = WrittenAnswer(call_id=call.call_id, fingerprint=one.pending.fingerprint, record=record)
        if one.is_taken and given not in (*one.found, *one.giving):
            raise answers.already_answered(call.call_id)
        if not one.is_taken and not self._waits(call, one):
            raise AnswerError(call.call_id, "over", "no longer waits for an answer")
        return self._respond(call, one, given)

    # -- responses --

    def look_again(self, call_id: str, key: str | None = None) -> bool | None:
        """Looks for responses that were recorded elsewhere, about the call with this key if one is given; returns
        False if the call no longer waits, and None if it has not asked yet, or is judged again."""
        call, one = self.transitions.calls.get(call_id), self._find(call_id)
        if call is None or one is None or (one.is_settled and call.pending is one and call.state == "waiting"):
            return None
        if not self._waits(call, one) or key not in (None, one.pending.key):
            return False
        self.transitions.work(call, partial(self._look_alone, call, one))
        self.transitions.tell()
        return True

    async def _look_alone(self, call: Call, one: _PendingCall) -> None:
        """Looks until the desk has said what is on record, since there may be no second notice."""
        if one.looking is not None:
            one.looking.cancel()
        with CancelScope() as one.looking:
            await checkpoint()
            pause = _LOOKS_AGAIN_S
            while await self._look(call, one) is None and self._waits(call, one):
                await anyio.sleep(pause)
                pause = min(2 * pause, _LOOKS_AGAIN_MOST_S)

    async def _look(self, call: Call, one: _PendingCall) -> bool | None:
        """Takes what is on record; returns True if the call continues with it, or with the ending that it had, and None
        if the desk has failed."""
        found: Sequence[Response] = ()
        before: Ending | None = None
        try:
            if self.desk is not None:
                found = _checked(one.pending, await self.desk.look(one.pending))
            if one.pending.kind == "approval" and self._may_have_run(call, one, found):
                before = await self.transitions.at_gate.look(call)
        except Exception as error:
            self._not_kept(call, one, error)
            return None
        if before is not None and self._waits(call, one):
            self.transitions.move(call, "done", before)
            return True
        return self._count(call, one, found)

    def _may_have_run(self, call: Call, one: _PendingCall, found: Sequence[Response]) -> bool:
        """Returns whether a call may have run in another process without the decisions that it needs today: with none
        on record, or with fewer."""
        if call.before is None or one.pending.is_settled(found):
            return False
        return self.desk is None or call.before.is_settled(found)

    def _respond(self, call: Call, one: _PendingCall, response: Response) -> bool:
        """Takes a response; returns False if it changes nothing. With a desk it counts once the desk has it."""
        if not self._waits(call, one) or not one.has_place(response):
            return False
        self.transitions.tell()
        if self.desk is None:
            self._count(call, one, [*one.found, response])
            return True
        one.giving.append(response)
        if one.is_taken and one.scope is not None and isinstance(response, Decision):
            one.scope.cancel()  # its approver is no longer asked
        if len(one.giving) == 1:
            self.transitions.work(call, partial(self._give, call, one, self.desk))
        return True

    async def _give(self, call: Call, one: _PendingCall, desk: Desk) -> None:
        """Puts responses on record, one by one, and counts those that are the first there."""
        while one.giving and self._waits(call, one):
            response, found, scope = one.giving[0], None, CancelScope()
            if one.answered is None:
                call.scope = scope
            try:
                with scope:
                    kept = _checked(one.pending, await desk.respond(one.pending, response))
                    if not kept:
                        raise LookupError("the desk returned no response")
                    found = kept
            except Exception as error:
                self._not_kept(call, one, error)
            finally:
                del one.giving[0]
            if found is None:
                continue
            if response not in found:
                one.error = None
                self._was_first(call, found[-1])
            self._count(call, one, found)

    def _was_first(self, call: Call, first: Response) -> None:
        code, text = "already_answered", f"{call.label}: it was answered before, and the first answer counts"
        if isinstance(first, Decision):
            who = one_line(first.by or "someone", 100)
            code, text = "already_decided", f"{call.label}: {'approved' if first.verdict else 'denied'} by {who} first"
        self.transitions.host.emit(StreamWarning(code, text))

    def _count(self, call: Call, one: _PendingCall, found: Sequence[Response]) -> bool:
        """Keeps what counts, and lets the call continue if no place is left; returns whether it does."""
        if not self._waits(call, one):
            return False
        one.found = list(found)
        if not one.is_settled:
            return False
        last = one.found[-1]
        one.cancel()  # its approver is no longer asked
        if isinstance(last, Decision):
            is_edited = any(isinstance(each, Decision) and each.arguments is not None for each in one.found)
            if is_edited and one.pending.approvals > 1:  # it required one when it was decided
                why = "its arguments were edited, but several people have to approve it"
                one.found[-1] = last = replace(last, verdict=False, by=None, reason=why, arguments=None)
            may_have_run = not last.verdict and self.desk is None and self.transitions.options.seams.gate is not None
            if last.arguments is not None or may_have_run:
                self.transitions.work(call, partial(self._judge_again, call, one, last))
                return True
        self._go_on(call, one)
        return True

    async def _judge_again(self, call: Call, one: _PendingCall, decision: Decision) -> None:
        """Gives a call the arguments that it was approved with; if they cannot be run, it is denied. A denied call that
        has run keeps the ending that it had."""
        before: Ending | None = None
        try:
            with CancelScope() as call.scope:
                await checkpoint()
                if decision.arguments is not None:
                    one.error = await self.edits.apply(call, decision.arguments)
                    if one.error is not None:
                        why = f"its edited arguments cannot be run: {one.error}"
                        decision = replace(decision, verdict=False, reason=why, arguments=None)
                if not decision.verdict and self.transitions.options.seams.gate is not None:
                    before = await self.transitions.at_gate.look(call)
        except Exception as error:
            self._not_kept(call, one, error)
            one.found = []
            return
        one.found = [] if before is not None else [decision]
        if call.state != "waiting" or call.pending is not one or self.transitions.stopped is not None:
            return
        if before is not None:
            self.transitions.move(call, "done", before)
        else:
            self._go_on(call, one)

    def _go_on(self, call: Call, one: _PendingCall) -> None:
        last = one.found[-1]
        if one.answered is not None:
            one.answered.set()
        elif isinstance(last, Decision) and not last.verdict:
            self.transitions.move(call, "done", endings.denied(last.reason, one.error))
        elif isinstance(last, Decision):
            self.transitions.move(call, "wait" if call.ready[0].deferred else "answered")
        elif call.job is None:
            self.transitions.move(call, "answered")
        else:  # it has had its place, and begun
            self.transitions.work(call, partial(self._end, call, last.record))

    async def _end(self, call: Call, record: bytes) -> None:
        try:
            ending = await self.transitions.attempts.ended(call, read_answer(record))
        except Exception as error:  # a desk of a user's own, or a record that another version wrote
            ending = endings.failure(ToolOutcomeUnknown("the answer on record cannot be read"), error)
        self.transitions.move(call, "done", ending)

    def _not_kept(self, call: Call, one: _PendingCall, error: Exception) -> None:
        code = "decision_not_kept" if one.pending.kind == "approval" else "answer_not_kept"
        self.transitions.host.emit(StreamWarning(code, f"{call.label}: the store raised {type_name(error)}"))

    # -- edited arguments --

    @property
    def edits(self) -> Edits:
        from .edits import Edits  # few calls are edited

        return Edits(self.transitions.tools, self.transitions.limits, self.transitions.rules)

    def take_up(self, call: Call) -> None:
        if call.before is not None and call.before.edited is not None:
            self.edits.bind_again(call, call.before.edited)

    def noted(self, seen: Observation) -> Observation:
        return self.edits.noted(seen)

    # -- calls that may have run before --

    def look_up_first(self, withheld: tuple[str, bool] | None, listeners: Listeners) -> Listeners:
        from .looking import look_up_first  # few runs have a journal

        return look_up_first(self, withheld, listeners)

    async def refuse_unless_it_ran(self, call: Call, ending: Ending) -> None:
        from .looking import refuse_unless_it_ran  # few calls are resumed

        await refuse_unless_it_ran(self, call, ending)

    async def apply_as_on_record(self, call: Call) -> None:
        """Binds a call that has perhaps run before to the arguments that it was approved with then, if they were
        edited; notes whether there is a decision about it. Raises `ToolNotStarted` if the store failed."""
        if call.bound is None or call.edited is not None or self.desk is None:
            return
        try:
            pending = self._pending(call, "approval")
            found = _checked(pending, await self.desk.look(pending))
        except ToolNotStarted:
            raise
        except Exception as error:
            raise ToolNotStarted(f"not run: the store raised {type_name(error)}") from error
        if found:
            call.needs = call.needs or 1  # a decision holds, even if the tool needs no approval today
        edited = found[-1].arguments if len(found) == 1 and isinstance(found[-1], Decision) else None
        if edited is not None:
            self.edits.bind_again(call, edited)


@dataclass(slots=True, eq=False)
class _PendingCall:
    pending: Pending
    question: Any = None  # what a running call has asked
    answered: anyio.Event | None = None  # is set at the answer to that
    found: list[Response] = field(default_factory=list)  # those that count
    giving: list[Response] = field(default_factory=list)  # on their way to the desk
    error: BaseException | None = None  # for which its approver denies it, or its edits cannot be run
    scope: CancelScope | None = None  # around the work of its approver, or around the wait for its answer
    looking: CancelScope | None = None  # around the latest look for what was put on record elsewhere

    @property
    def is_settled(self) -> bool:
        return self.pending.is_settled(self.found)

    @property
    def is_taken(self) -> bool:
        """True if no place is left, once the desk has what it is being given."""
        return self.pending.is_settled([*self.found, *self.giving])

    @property
    def value(self) -> Any:
        """The answer, once there is one."""
        assert isinstance(self.found[0], WrittenAnswer), "it was answered"
        return read_answer(self.found[0].record)

    def cancel(self) -> None:
        for scope in (self.scope, self.looking):
            if scope is not None:
                scope.cancel()

    def has_place(self, response: Response) -> bool:
        named = [one.by for one in (*self.found, *self.giving) if isinstance(one, Decision)]
        is_again = isinstance(response, Decision) and response.verdict and response.by in named
        return not self.is_taken and not is_again


def _checked(pending: Pending, found: Any) -> list[Response]:
    """Returns a desk's responses to a call; raises a `TypeError` if they cannot be responses to it."""
    responses, kind = list(found), Decision if pending.kind == "approval" else WrittenAnswer
    for place, one in enumerate(responses):
        if not isinstance(one, kind) or (one.call_id, one.fingerprint) != (pending.call_id, pending.fingerprint):
            raise TypeError(f"expected each response as a {kind.__name__} about the waiting call")
        if pending.is_settled(responses[:place]):
            raise TypeError("expected no response after the last place")
    named = [one.by for one in responses if isinstance(one, Decision) and one.verdict]
    if len(set(named)) < len(named):
        raise TypeError("expected approvals under different names")
    return responses
