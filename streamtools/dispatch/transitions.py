"""Leads the calls of one turn from their announcement to their observation: chooses inputs, carries out effects.

Input: the turn's events, and the decisions and cancellations of people. Output: the calls' events, and for each call
exactly one `Observation`.

Theory of operation. `Calls` chooses the inputs, `states.TRANSITIONS` gives the effects that follow, and each effect in
the table is a method of `Transitions`: for places, tasks, questions, observations. `Transitions._observe` makes a
call's one Observation, and only rows that lead to ``observed`` reach it.

A valid call is released by its tool's effect: ``pure`` and ``idempotent`` ones at once, while the stream goes on;
``once`` calls when the turn has ended well. A turn that ended in any other way starts nothing more. A call that needs
an approval requests it when it would be released, and takes its place in the order when it is approved, so that no
other call waits for a person. `Calls.settle`, called last, observes the calls that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from anyio import CancelScope
from anyio.lowlevel import EventLoopToken, checkpoint, current_token

from ..content import AnsweredLater
from ..errors import (
    AlreadyDecided,
    AnswerError,
    AnswerPending,
    ApprovalPending,
    CallQuoted,
    CallRepeated,
    CallTruncated,
    InvalidArguments,
    LocalProtocolError,
    ToolFailed,
    ToolNotStarted,
    ToolSuspended,
)
from ..event_loop import ring
from ..events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    Observation,
    StreamEnd,
    StreamStart,
    StreamWarning,
    ToolCallEnd,
    ToolCallStart,
    ToolCallValidated,
    ToolStarted,
)
from ..limits import Limits
from ..parts import OUTCOMES, ToolCall, Usage
from ..text import one_line, type_name
from ..tools import Bound, Tool, Toolset
from ..tools.context import key_prefix
from . import approval, endings
from .approval import Approver, Decision, Resolution
from .attempts import Attempts, run_inside
from .budgets import Budgets, tokens_of
from .log import log_failure
from .options import LEAVES_CALLS, DispatchOptions, Quotes
from .pool import CallPool, Job
from .results import encode_error, error_content
from .states import (
    OPEN,
    WAITED_IN,
    Call,
    Effect,
    Ending,
    Host,
    Input,
    LongResults,
    advance,
    begin_wait,
    end_wait,
    note_move,
)
from .timers import Timer

if TYPE_CHECKING:
    from .answers import Answers
    from .carried import Carried  # a run without retries does not load it
    from .edits import Edits

Start: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
"""Runs a coroutine function in a task of its own."""

At: TypeAlias = Callable[[float, Callable[[], None]], Timer]
"""Calls a function back at a time of the event loop, and returns the timer."""

Listeners: TypeAlias = dict[type[Event], Callable[[Any], None]]
"""The methods that take events which have been emitted, by the event's type."""

LEFT = "the stream was left"


class Transitions:
    """Moves the calls of one turn along the table of states.

    Args:
        pool: decides when a call's turn has come; None makes a pool that is not shared.
        tools: the tools that may be called.
        limits: times and sizes.
        options: when calls start, who approves them, where they run.
        host: the step.
        start: runs a call in a task of its own.
        at: calls back at the calls' deadlines.
    """

    def __init__(
        self,
        pool: CallPool | None,
        tools: Toolset,
        limits: Limits,
        options: DispatchOptions,
        host: Host,
        start: Start,
        at: At,
    ) -> None:
        self.calls: dict[str, Call] = {}
        """The calls of the turn, by id."""
        self.end: StreamEnd | None = None
        """The turn's end, once it has come."""
        self.stopped: str | None = None
        """Why nothing more starts, if the reason is not the turn's end."""
        self.asked_in: EventLoopToken | None = None
        """The event loop in which somebody was asked for an approval."""
        self.budgets = Budgets(limits, host.counts.spent, None if pool is None else pool.budget)
        self._joined = pool is None  # an unshared pool need not look at the event loop, which costs 1 µs
        self._pool = pool = CallPool(limits) if pool is None else pool
        self.limits = limits
        self.options = options
        self._by_hand = options.policy == "manual"
        self.host = host
        self._start_task = start
        self._at = at
        self._attempts = Attempts(host, tools, limits, pool, options, self.move, self._due, self._ask_outside)
        self._deciding: dict[str, list[tuple[Decision, BaseException | None]]] = {}  # being put on record, by call id
        self._decisions: dict[str, list[Decision]] = {}  # about calls that several people decide, without a store
        self._answers: Answers | None = None  # once a call is done outside
        self._given: Ending | Resolution | str | None = None  # came with the input at hand
        self._idle: anyio.Event | None = None

    def move(self, call: Call, happened: Input, given: Ending | Resolution | str | None = None) -> None:
        """Moves a call along the table, and carries the effects out. If an observer moves the call on meanwhile, the
        rest of the row is void. `given` is the call's ending, the decision about it, or why it is cancelled, if the
        input brings one."""
        was, effects = call.state, advance(call, happened)
        state, before = call.state, self._given
        if was != state and (call.waiting is not None or state in WAITED_IN):
            note_move(call, by_hand=self._by_hand)
        self._given = given
        try:
            for effect in effects:
                _EFFECTS[effect](self, call)
                if call.state != state:
                    break
        finally:
            self._given = before

    def move_all(self, happened: Input, calls: Collection[Call], reason: str | None = None) -> None:
        """Moves several calls. Those that will never run leave the order first, the youngest before the older ones, so
        that none takes the place of another."""
        if not calls:
            return
        live = [call for call in calls if call.state != "observed"]
        for call in reversed(live):
            if call.state in ("held", "queued"):
                self._leave(call)
        for call in live:
            self.move(call, happened, reason)

    # -- what is open --

    async def wait_idle(self) -> None:
        """Waits until no call runs or waits for its turn to run, and no approver is being asked."""
        while any(call.tasks or call.state in OPEN for call in self.calls.values()):
            self._idle = self._idle or anyio.Event()
            await self._idle.wait()

    async def wait_task(self, call: Call, *, but: int = 0) -> None:
        """Waits until no task works for a call, `but` so many, such as the one that waits."""
        while call.tasks > but:
            self._idle = self._idle or anyio.Event()
            await self._idle.wait()

    def _ended_something(self) -> None:
        idle, self._idle = self._idle, None
        if idle is not None:
            ring(idle)

    def close(self) -> None:
        """Gives up every place that is left. Call it when no task is left: an asyncio task that is cancelled before its
        first step, as all are when the loop ends, never gets to give up its call's place."""
        for call in self.calls.values():
            self._leave(call)

    def observe_again(self, call: Call) -> None:
        """Observes a call again if an interrupt, such as Ctrl-C, came while its Observation was being made."""
        if call.seen is None:
            advance(call, "settled")
            self._observe(call, call.ending or endings.cancelled(call))
        elif call.seen.seq < 0:  # made, but not emitted
            self.host.emit(call.seen)

    # -- effects: the order --

    def _place(self, call: Call) -> None:
        if call.job is not None:
            return
        tool, _ = call.ready
        call.job = Job(
            tool=tool.name,
            owner=self,
            key=call.conflict,
            shared=tool.effect == "pure",
            exclusive=tool.exclusive,
            tool_limit=tool.max_concurrency,
        )
        if not self._joined:
            self._pool.join()
            self._joined = True
        self._pool.add(call.job, partial(self.move, call, "granted"))

    def _release(self, call: Call) -> None:
        assert call.job is not None, "it has its place"
        self._pool.release(call.job)
        if call.state == "queued":
            begin_wait(call, self._pool.holds_up(call.job))

    def _leave(self, call: Call) -> None:
        if call.job is not None:
            self._pool.finish(call.job)

    # -- effects: tasks --

    def _start(self, call: Call) -> None:
        self.work(call, partial(self._run, call))

    def work(self, call: Call, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Does work for a call in a task of its own."""
        call.tasks += 1
        self._start_task(partial(self._task, call, work))

    async def _task(self, call: Call, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Does the work of one task: a call, or a question about it."""
        try:
            await work()
        finally:
            try:
                call.tasks -= 1
            finally:
                if self._idle is not None:
                    self._ended_something()

    async def _run(self, call: Call) -> None:
        """Runs a call to its observation."""
        carried = self.options.carried
        try:
            if carried is not None and call.edited is None and await carried.serves(call):
                pass
            elif self.options.middleware or call.ready[0].middleware is not None:
                await run_inside(self._attempts, call)
            else:
                await self._attempts.run(call)
        except Exception as error:  # neither a tool's nor an executor's: those were judged
            failed = ToolFailed(encode_error(call.ready[0].name, error)["text"])
            failed.__cause__ = error
            call.ending = Ending("failed", failed)
        finally:  # also if cancelled; a call that has its observation keeps it
            try:
                self._end(call, call.ending or endings.cancelled(call))
            finally:
                self._leave(call)

    def _end(self, call: Call, ending: Ending) -> None:
        if isinstance(ending.value, AnsweredLater):
            if call.state in ("starting", "running"):
                self.move(call, "hand_out", ending)
                return
            ending = endings.cancelled(call)
        self.move(call, "done", ending)

    def _cancel(self, call: Call) -> None:
        try:
            for scope in (call.asking, call.scope):
                if scope is not None:
                    scope.cancel()
            if call.state != "queued":  # else it was approved: it goes on, and only its approver's task is cancelled
                call.cancelled_at = anyio.current_time()
                self._look_at(call.cancelled_at)
        except anyio.NoEventLoopError:  # the loop was cut off, and its tasks with it: nothing is left to cancel
            return

    def _due(self, call: Call, scope: CancelScope, lag_s: float) -> None:
        """Has an attempt's scope cancelled when its time is up. This is cheaper than the scope's own deadline, and one
        timer serves both of the attempt's times."""
        call.timer = self._at(call.due + lag_s, partial(self._time_up, call, scope))

    def _time_up(self, call: Call, scope: CancelScope) -> None:
        scope.cancel()
        self._look_at(call.due)

    def _look_at(self, stopped_at: float) -> None:
        self._at(stopped_at + self.limits.cancel_grace, self.look)

    def look(self, now: float | None = None) -> None:
        """Warns, once, of each call that goes on although its grace is over; pass `now` where no task runs to ask for
        the time."""
        if self.host.ended:
            return
        latest = (anyio.current_time() if now is None else now) - self.limits.cancel_grace
        for call in self.calls.values():
            if call.tasks and min(call.due, call.cancelled_at) <= latest and not call.unresponsive:
                call.unresponsive = True
                text = f"{call.label}: goes on {self.limits.cancel_grace:g} s after it was to stop"
                self.host.emit(StreamWarning("tool_unresponsive", text))

    def _begin(self, call: Call) -> None:
        tool, _ = call.ready
        started = ToolStarted(
            call.call.call_id, tool.name, attempt=call.attempts, effect=tool.effect, causes=call.causes
        )
        self.host.emit(started)
        if call.attempts == 1:  # so that the duration is from the event on, for those who see events alone
            call.started_at = started.time or call.started_at
        end_wait(call, started.time)

    # -- effects: approval --

    def _ask(self, call: Call) -> None:
        event, approver = approval.request(call), self.options.approver
        call.asked, self.asked_in = True, self.asked_in or current_token()
        self.host.emit(event)
        known = self.options.resumed or hasattr(self.options.store, "decide")
        if (approver is not None or known) and call.state == "asked":  # else an observer has decided
            self.work(call, partial(self._question, call, event, approver))

    async def _question(self, call: Call, event: ApprovalRequested, approver: Approver | None) -> None:
        """Looks for decisions on record, then asks the approver."""
        decision = known = before = None
        if call.state != "asked" or self._is_deciding(call):
            return
        try:
            with CancelScope() as call.asking:
                await checkpoint()
                known, before = await self._on_record(call)
                if known is None and before is None and approver is not None:
                    decision = await approval.ask(approver, event)
        except Exception as error:  # a group that the approver's own task group made of its cancellation
            decision = approval.failed(error)
        if known is not None:
            self._resolve(call, known)
        elif before is not None and call.state == "asked":
            self.move(call, "refused", before)
        elif decision is not None:
            self._decide_for(call, decision)

    async def _on_record(self, call: Call) -> tuple[Resolution | None, Ending | None]:
        """Returns the end of the call's approval that the store has on record, whoever decided where; or, of a resumed
        call that may have run without it, the ending that it had. If the store fails, the call goes on waiting."""
        from .decisions import decides, look_up  # few programs have both a store and approvals

        store = self.options.store
        try:
            if decides(store):
                found = await look_up(store, call)
                ended = approval.resolved(found, call.requires)
                if ended is not None or not approval.resolved(found, call.approvers):
                    return ended, None
            if self.options.resumed:  # it may have run: without decisions on record, or with fewer than today
                return None, await self._attempts.ran_before(call, call.fingerprint)
        except Exception as error:
            self._not_kept(call, error)
        return None, None

    def _decide_for(self, call: Call, given: Resolution) -> None:
        """Takes the answer of an approver; one without a name denies a call that needs several people."""
        if given.approved and call.requires > 1 and (not given.by or given.arguments is not None):
            wanted = "names nobody; return Decision.on(request, ..., by=)" if not given.by else "edits the arguments"
            given = approval.failed(LocalProtocolError(f"the approver of several {wanted}"))
        name = given.by[0] if given.by else ("approve" if call.requires > 1 else None)
        decision = Decision(
            call_id=call.call_id,
            fingerprint=call.fingerprint,
            verdict=given.approved,
            by=name,
            at=given.at,
            reason=given.reason,
            arguments=given.arguments,
        )
        self.decide(call, decision, given.error)

    def decide(self, call: Call, decision: Decision, error: BaseException | None = None) -> bool:
        """Takes a decision about a call; returns False if it changes nothing. With a store, it counts once it is on
        record there, and only if it is the first."""
        if call.state != "asked" or self.stopped is not None or call.is_edited or self._is_deciding(call):
            return False
        is_kept, deciding = self.options.store is not None, self._deciding.setdefault(call.call_id, [])
        found = [one for one, _ in deciding] if is_kept else self._decisions.setdefault(call.call_id, [])
        if decision.verdict and any(one.by == decision.by for one in found):
            return False
        found.append(decision)
        if is_kept:
            deciding.append((decision, error))
            if call.asking is not None and self._is_deciding(call):
                call.asking.cancel()  # its approver is asked no longer
            if len(deciding) == 1:
                self.work(call, partial(self._put_on_record, call, deciding))
        elif (ended := approval.resolved(found, call.requires)) is not None:
            self._resolve(call, replace(ended, error=error))
        return True

    def _is_deciding(self, call: Call) -> bool:
        """Returns whether decisions that end the call's approval are being put on record."""
        deciding = self._deciding.get(call.call_id, ())
        return approval.resolved([one for one, _ in deciding], call.requires) is not None

    async def _put_on_record(self, call: Call, deciding: list[tuple[Decision, BaseException | None]]) -> None:
        """Puts decisions on record, one by one, and applies those that are the first there."""
        while deciding and call.state == "asked":
            ended: Resolution | None = None
            before: Ending | None = None
            try:
                with CancelScope() as call.scope:
                    ended = await self._first(call, *deciding[0])
                    if ended is not None and not ended.approved and not hasattr(self.options.store, "decide"):
                        before = await self._attempts.ran_before(call, call.fingerprint)
            except Exception as raised:
                self._not_kept(call, raised)
            finally:
                del deciding[0]
            if before is not None and call.state == "asked":
                self.move(call, "refused", before)
            elif ended is not None:
                self._resolve(call, ended)

    async def _first(self, call: Call, decision: Decision, error: BaseException | None) -> Resolution | None:
        """Returns the end of the call's approval with this decision, or with those that were before it."""
        from .decisions import decides, look_up, put_on_record

        store = self.options.store
        if decides(store):
            try:
                found = await put_on_record(store, call, decision)
            except AlreadyDecided as earlier:
                found, error = await look_up(store, call), None
                who = one_line(earlier.first.by or "somebody", 100)
                text = f"{call.label}: {'approved' if earlier.first.verdict else 'denied'} by {who} before"
                self.host.emit(StreamWarning("already_decided", text))
        else:
            found = self._decisions.setdefault(call.call_id, [])
            if not (decision.verdict and any(one.by == decision.by for one in found)):
                found.append(decision)
        ended = approval.resolved(found, call.requires)
        return None if ended is None else replace(ended, error=error)

    def _not_kept(self, call: Call, error: Exception) -> None:
        self.host.emit(StreamWarning("decision_not_kept", f"{call.label}: the store raised {type_name(error)}"))

    def _resolve(self, call: Call, ended: Resolution) -> None:
        if call.state != "asked" or self.stopped is not None or call.is_edited:
            return
        if ended.approved and ended.arguments is not None:
            call.is_edited = True
            self.work(call, partial(self._edit, call, ended))
        else:
            self._go_on(call, ended)

    async def _edit(self, call: Call, edited: Resolution) -> None:
        """Gives a call the arguments that it was approved with. If they cannot be run, it is denied, unless it has run:
        then it has the ending that it had."""
        ended: Resolution | None = None
        before: Ending | None = None
        try:
            with CancelScope() as call.scope:
                await checkpoint()
                ended = await self.edits.apply(call, edited)
                if not ended.approved and self.options.store is not None:
                    before = await self._attempts.ran_before(call, call.fingerprint)
        except Exception as error:
            self._not_kept(call, error)
            ended = None
        call.is_edited = False
        if before is not None and call.state == "asked":
            self.move(call, "refused", before)
        elif ended is not None:
            self._go_on(call, ended)

    @property
    def edits(self) -> Edits:
        """Binds calls to the arguments that people have given them."""
        from .edits import Edits  # few calls are edited

        return Edits(self._attempts.tools, self.limits, self.options.origins)

    def _go_on(self, call: Call, ended: Resolution) -> None:
        if call.state == "asked" and self.stopped is None:
            approved: Input = "hand_out" if call.ready[0].external else "approved"
            self.move(call, approved if ended.approved else "denied", ended)

    def _resolved(self, call: Call) -> None:
        ended = self._given
        assert isinstance(ended, Resolution), "the input brings one"
        name = call.ready[0].name
        event = ApprovalResolved(
            call.call_id, name, ended.approved, ended.reason, by=ended.by, at=ended.at, arguments=ended.arguments
        )
        self.host.emit(event)

    def count_begun(self, call: Call) -> None:
        """Counts a call that has begun before, in another process; its place is not given back."""
        made, most = call.call, self.limits.max_repeated_calls
        self.budgets.admit(call)
        call.counted = False
        if most is not None and self.options.counts_repeated:
            self.host.counts.call(made.name, made.arguments, made.arguments_text)

    async def ran_before(self, call: Call, fingerprint: str) -> Ending | None:
        """Returns the ending of a call that has run before, by the store; see `Attempts.ran_before`."""
        with CancelScope() as call.scope:
            bound, ending = await self._look_up_edits(call), await self._attempts.ran_before(call, fingerprint)
            if ending is None and bound is not None:
                self.edits.take_back(call, bound)
            return ending
        return None

    async def look_up_decision(self, call: Call) -> None:
        """Notes whether somebody has decided about a call, by the store.

        Raises:
            ToolNotStarted: the store failed.
        """
        with CancelScope() as call.scope:
            bound = await self._look_up_edits(call)
            if bound is not None:
                self.edits.take_back(call, bound)

    async def _look_up_edits(self, call: Call) -> Bound | None:
        """Binds a call to the arguments on record, if they were edited; returns what it was bound to then."""
        bound, before = call.bound, call.edited
        if bound is not None:
            await self.edits.apply_as_on_record(call, self.options.store)
        return None if call.edited is before else bound

    # -- effects: calls that are done outside --

    @property
    def answers(self) -> Answers:
        """The answers to the calls that are done outside."""
        if self._answers is None:
            from .answers import Answers  # most calls run here

            store = self.options.store
            self._answers = Answers(
                self.host,
                getattr(store, "answers", store),
                getattr(store, "note_handed_out", None),
                self.limits.tool_timeout,
                self.move,
                self.work,
                self._attempts.ended,
            )
        return self._answers

    def _hand_out(self, call: Call) -> None:
        self.asked_in = self.asked_in or current_token()
        given = self._given.value if isinstance(self._given, Ending) else None
        was_kept = call.call_id in self.options.resumed  # it is not waited for anew
        rests = given.rests if isinstance(given, AnsweredLater) else was_kept or call.ready[0].rests
        self.answers.hand_out(call, rests=rests)

    async def _ask_outside(self, call: Call, question: Any) -> Any:
        self.asked_in = self.asked_in or current_token()
        return await self.answers.ask(call, question)

    # -- effects: the observation --

    def _end_as_given(self, call: Call) -> None:
        assert isinstance(self._given, Ending), "the input brings one"
        self._observe(call, self._given)

    def _end_denied(self, call: Call) -> None:
        assert isinstance(self._given, Resolution), "the input brings one"
        self._observe(call, approval.denied(self._given))

    def _end_skipped(self, call: Call) -> None:
        if self.options.resumed and self.stopped == LEFT and endings.ended_well(self.end):
            self._observe(call, endings.undecided())  # left before anybody could be asked again
            return
        by_hand = self._by_hand and self.stopped in (None, LEFT)
        self._observe(call, endings.skipped(self.end, self.stopped, by_hand=by_hand))

    def _end_undecided(self, call: Call) -> None:
        if self.stopped == LEFT and endings.ended_well(self.end):
            self._observe(call, endings.undecided())
        else:
            self._end_skipped(call)

    def _end_unanswered(self, call: Call) -> None:
        is_kept = self.stopped == LEFT and endings.ended_well(self.end)
        reason = self._given if isinstance(self._given, str) else self.stopped
        self._observe(call, endings.unanswered(reason, is_kept=is_kept))

    def _end_unstarted(self, call: Call) -> None:
        self._observe(call, endings.unstarted(self._given if isinstance(self._given, str) else None))

    def _end_cancelled(self, call: Call) -> None:
        self._observe(call, endings.cancelled(call))

    def _end_discarded(self, call: Call) -> None:
        self._observe(call, endings.discarded())

    def _end_left_over(self, call: Call) -> None:
        if self.options.resumed and self.stopped == LEFT and endings.ended_well(self.end):
            self._observe(call, endings.undecided())  # left while the store was asked about it
            return
        self._observe(call, endings.left_over(call))

    def _observe(self, call: Call, ending: Ending) -> None:
        """Makes the call's one observation."""
        error, content = ending.error, ending.content or OUTCOMES[ending.outcome].to_model
        if isinstance(error, (ToolNotStarted, ToolSuspended)):
            error.by_tool = None
        if error is not None and ending.content is None:
            hint = endings.not_again(call, ending)
            hint = hint or endings.try_again(error, call.call.name, self.host.counts, self.limits)
            content = error_content(error, self.limits.max_result_bytes) + hint
        if call.progress_dropped:
            text = f"{call.progress_dropped} reports, since the consumer was behind (max_waiting_progress)"
            self.host.emit(StreamWarning("progress_dropped", f"{call.label}: {text}"))
        if self.options.offloads is not None and not callable(content):
            content, ending = self._offloaded(self.options.offloads, call, content, ending)
        if call.edited is not None:
            content, ending = self.edits.noted(call, content, ending)
        causes = (self.end.seq,) if OUTCOMES[ending.outcome].follows_the_end and self.end is not None else ()
        seen: Observation = call.observation(ending, content, causes)
        self.budgets.ended(call, ending.outcome)
        call.seen = seen
        if call.done is not None:
            ring(call.done)
        # The place goes before the event: emitting runs observers, and a call that they see observed must hold none.
        if not call.tasks:
            self._leave(call)
        if self._idle is not None:
            self._ended_something()
        if seen.error is not None:
            log_failure(seen, self.host.words_of)
        if self.options.quotes is not None:
            self.options.quotes.keep(seen, self.host.number)
        self.host.emit(seen)
        cancels = self.options.on_tool_error == "cancel" and OUTCOMES[ending.outcome].cancels_siblings
        if cancels and self.stopped is None:
            self.stopped = "another call of its turn failed"
            self.move_all("stopped", self.calls.values(), self.stopped)

    def _offloaded(self, offloads: LongResults, call: Call, content: str, ending: Ending) -> tuple[str, Ending]:
        """Keeps a long result; returns what the model reads of it."""
        trusted = call.tool is not None and call.tool.trusted and ending.outcome == "ok" and call.bound is not None
        shown, result, error = offloads.shown(call, self.host.number, content, ending.result, trusted=trusted)
        if error is not None:
            self.host.emit(StreamWarning("result_not_stored", f"{call.label}: {type_name(error)}"))
        return shown, ending if result is ending.result else replace(ending, result=result)


_EFFECTS: Mapping[Effect, Callable[[Transitions, Call], None]] = {
    "place": Transitions._place,
    "release": Transitions._release,
    "leave": Transitions._leave,
    "start": Transitions._start,
    "cancel": Transitions._cancel,
    "ask": Transitions._ask,
    "resolve": Transitions._resolved,
    "hand_out": Transitions._hand_out,
    "begin": Transitions._begin,
    "end_as_given": Transitions._end_as_given,
    "end_denied": Transitions._end_denied,
    "end_skipped": Transitions._end_skipped,
    "end_undecided": Transitions._end_undecided,
    "end_unanswered": Transitions._end_unanswered,
    "end_unstarted": Transitions._end_unstarted,
    "end_cancelled": Transitions._end_cancelled,
    "end_discarded": Transitions._end_discarded,
    "end_left_over": Transitions._end_left_over,
}


# -- the calls of one turn ---------------------------------------------------------------------------------------------


WITHDRAWN = "the provider took it back"


class Calls:
    """Runs the calls of one turn. The model may call these `tools`."""

    def __init__(self, transitions: Transitions, tools: Toolset) -> None:
        self._transitions = transitions
        self._tools = tools
        self.attempt = transitions.options.attempt
        """The number of the attempt at the step's answer."""
        self._limits, self._options, self._host = transitions.limits, transitions.options, transitions.host
        self._by_hand = transitions.options.policy == "manual"
        self._origins = self._options.origins
        self._quotes = None if self._options.resumed else self._options.quotes
        self._reading: dict[Call, Callable[[Call], None]] = {}  # those that wait until texts are read, in order
        self._key_prefix: str | None = None  # of the calls' idempotency keys
        self._given: anyio.Event | None = None
        self._cut: str | None = None  # why the response was cut
        self.looks_up: Callable[[Transitions, Toolset, Listeners], Listeners] | None = None
        """Returns listeners that ask the store about the calls before these do anything."""

    def listeners(self) -> Listeners:
        """Returns the method that takes an event which has been emitted, by the event's type."""
        listeners: Listeners = {
            StreamStart: self._stream_started,
            ToolCallStart: self._announced,
            ToolCallEnd: self._ended,
            ToolCallValidated: self._ready,
            StreamEnd: self._stream_ended,
        }
        return listeners if self.looks_up is None else self.looks_up(self._transitions, self._tools, listeners)

    def stop(self, reason: str = LEFT) -> None:
        """Starts nothing more, and cancels every call; each call that runs is observed as it stops."""
        transitions = self._transitions
        transitions.stopped = transitions.stopped or reason
        transitions.move_all("stopped", transitions.calls.values(), None if reason == LEFT else reason)
        self._tell()

    def cut(self, reason: str) -> None:
        """Starts nothing more: calls that have not begun are skipped, the others go on."""
        self._cut = self._transitions.stopped = self._transitions.stopped or reason
        self._transitions.move_all("bad_end", self._transitions.calls.values())
        self._tell()

    @property
    def is_asking(self) -> bool:
        """True while a call waits for an approval, or is done outside."""
        return any(call.state in ("asked", "handed_out") for call in self._transitions.calls.values())

    def cancel(self) -> None:
        """Cancels every call that runs or waits for its turn to run; each is observed as it stops."""
        transitions = self._transitions
        transitions.move_all("cancelled", [call for call in transitions.calls.values() if call.state in OPEN])

    def cancel_one(self, call_id: str, reason: str | None) -> bool:
        """Cancels one call, whatever its state; returns False if that changes nothing, since the call is over or
        stopping already.

        Raises:
            LocalProtocolError: there is no such call.
        """
        call = self._known(call_id, "one of its calls")
        before = call.state
        self._transitions.move_all("cancelled", [call], reason)
        self._tell()
        return call.state != before

    @property
    def is_bound(self) -> bool:
        """True once a call has begun that must not run twice, so that the attempt may not be discarded."""
        return any(map(_is_bound, self._transitions.calls.values()))

    def knows(self, call_id: str) -> bool:
        """Returns whether a call of this id was announced."""
        return call_id in self._transitions.calls

    def discard(self, usage: Usage | None, carried: Carried) -> dict[str, Observation]:
        """Observes every call as discarded, counts the tokens of their response, and keeps the calls that have begun
        for those which another attempt makes; returns the observations by id."""
        transitions = self._transitions
        transitions.stopped = "its answer was discarded"
        transitions.budgets.add(usage, self._options.counted_before)
        calls = list(transitions.calls.values())
        for call in calls:
            carried.keep(call, transitions)
        transitions.move_all("discarded", calls)
        self._tell()
        return {call.call_id: call.seen for call in calls if call.seen is not None}

    def cancel_unwanted(self, carried: Carried) -> None:
        """Cancels the calls of discarded attempts that none of these is the same as: all of them are announced."""
        carried.cancel_all_but(self._transitions.calls.values())

    def leaves_tokens(self, usage: Usage | None) -> bool:
        """Returns whether a model may be asked, by the budgets, once this response is counted."""
        return self._transitions.budgets.leaves_tokens(usage)

    def take_back(self, call_id: str) -> None:
        """Cancels a call that the provider takes back; ids of no call of this turn mean nothing."""
        if call_id in self._transitions.calls:
            self.cancel_one(call_id, WITHDRAWN)

    async def wait_idle(self) -> None:
        """Waits until no call runs or waits for its turn to run, and no approver is being asked."""
        await self._transitions.wait_idle()

    @property
    def busy(self) -> bool:
        """True while a call, or the approver of one, has a task."""
        return any(call.tasks for call in self._transitions.calls.values())

    async def tell_stragglers(self) -> None:
        """Waits, shielded, until the calls have stopped or their grace is over, and warns of those that go on."""
        with anyio.move_on_after(self._limits.cancel_grace, shield=True):
            await self.wait_idle()
        self._transitions.look()

    def look(self, now: float) -> None:
        """Warns, once, of each call that goes on although its grace is over."""
        self._transitions.look(now)

    def settle(self) -> None:
        """Observes every call that has no observation yet. Call it last, when no task is left."""
        transitions = self._transitions
        transitions.stopped = transitions.stopped or LEFT
        # Each step in the `finally` of the one before it: a Ctrl-C may interrupt any line, or have done so already.
        try:
            transitions.move_all("settled", transitions.calls.values())
        finally:
            try:
                for call in transitions.calls.values():
                    if call.state != "left_alone":
                        transitions.observe_again(call)
            finally:
                transitions.close()

    # -- the text of a call --

    def _stream_started(self, event: StreamStart) -> None:
        self._key_prefix = self._prefix(event.response_id)

    def _prefix(self, response_id: str | None) -> str:
        """Returns the beginning of the keys of this response's calls."""
        if self._options.identity is not None:  # it stands for one response alone
            return key_prefix(self._options.identity, 0, None)
        return key_prefix(self._host.run_id, self._host.number, response_id, self.attempt)

    def _announced(self, event: ToolCallStart) -> None:
        if event.kind != "server" and event.call_id not in self._transitions.calls:  # a transform may repeat the event
            call = ToolCall(call_id=event.call_id, name=event.name, kind=event.kind, index=event.index)
            kept = self._options.resumed.get(event.call_id)
            if kept is not None:
                key = kept.idempotency_key
            else:
                if self._key_prefix is None:  # nobody has passed a start on
                    self._key_prefix = self._prefix(None)
                key = self._key_prefix + event.call_id
            announced = self._transitions.calls[event.call_id] = Call(call, key)
            announced.approvers = 1 if kept is None else kept.requires
            if self._options.policy in LEAVES_CALLS and self._leaves(event.name):
                self._transitions.move(announced, "leave_alone")

    def _leaves(self, name: str) -> bool:
        """Returns whether calls of this name are somebody else's to run, where the policy leaves some to others."""
        tool = self._tools.get(name) if self._options.policy == "pure" else None
        if self._origins is not None and self._origins.has_policy(name):
            return True
        return tool is None or tool.effect != "pure" or tool.needs_approval is not False or tool.external

    def _ended(self, event: ToolCallEnd) -> None:
        ended = event.call
        call = self._transitions.calls.get(ended.call_id)
        if call is None or call.state != "announced":
            return
        call.call, call.tool = ended, self._tools.called(ended)
        if ended.status == "truncated":
            error = event.error or CallTruncated("the call's arguments were cut")
            cut = None if self._cut is None else endings.skipped(None, self._cut, by_hand=False)
            self._refuse(call, cut or Ending("truncated", error))
        elif ended.problem == "missing_name" or (call.tool is None and ended.problem is None):
            unknown = endings.unknown_tool(ended.name, self._tools.names, ended.awaits)
            self._refuse(call, self._repeated(call) or Ending("unknown_tool", unknown))
        elif ended.status == "invalid":
            error = event.error or InvalidArguments("the arguments are not valid")
            repeated = None if call.tool is None else self._repeated(call)  # a name may have been cut to another's
            self._refuse(call, repeated or Ending("invalid", error))
        else:
            self._transitions.move(call, "end")

    def _ready(self, event: ToolCallValidated) -> None:
        call = self._transitions.calls.get(event.call.call_id)
        if call is None or call.state != "ended" or call.tool is None:
            return
        call.call, call.waiting = event.call, ("loop", event.time)
        if event.invocation is not None:
            call.bind(event.invocation)
        self._consider(call)

    def _consider(self, call: Call) -> None:
        """Decides when a valid call starts, if at all."""
        if self._is_too_late(call):
            return
        if self._by_hand:
            self._transitions.move(call, "hold")
        elif not self._is_over_budget(call):
            self._when_read(call, self._start_or_hold)

    def _is_too_late(self, call: Call) -> bool:
        """Returns whether a call may not start any more, and ends or holds it then."""
        if call.state != "ended" or call.tool is None:
            return True  # something ended it while the texts of its run were read
        if self._transitions.stopped is None and (self._transitions.end is None or self._may_start()):
            return False
        # While the stream goes on, a stopped call of a resumed turn is held: the turn's end decides whether it stays
        # suspended, and until then an observation could only be `skipped`.
        self._transitions.move(call, "hold" if self._options.resumed and self._transitions.end is None else "bad_end")
        return True

    def _start_or_hold(self, call: Call) -> None:
        if self._is_too_late(call):
            return
        assert call.tool is not None, "else it is too late"
        # A call that only the turn's end releases is judged by the tokens of the turn, also if it was read meanwhile.
        if self._may_start() and self._held_by_effect(call.tool) and self._is_over_budget(call):
            return
        if not self._accept(call):
            return
        if self._options.resumed or self._may_start() or not self._held_by_effect(call.tool):
            self._go(call)
        else:  # a gated call takes its place once it is approved
            self._transitions.move(call, "hold" if call.gated or call.tool.external else "hold_place")

    def _when_read(self, call: Call, then: Callable[[Call], None]) -> None:
        """Calls `then` with a call as soon as the texts of its run were read for it, if that is needed; while one waits
        for that, those behind it do, so that they keep their order."""
        if not self._reading and not self._has_to_read(call):
            then(call)
            return
        begin_wait(call, "reading")
        self._reading[call] = then
        if len(self._reading) == 1:
            self._transitions.work(call, self._read)

    def _has_to_read(self, call: Call) -> bool:
        if self._origins is not None and self._origins.is_behind(call):
            return True
        return self._quotes is not None and bool(self._quotes.texts(self._host.number))

    async def _read(self) -> None:
        while self._reading:
            call, then = next(iter(self._reading.items()))
            if self._origins is not None and self._origins.is_behind(call):
                await self._origins.catch_up()
            if self._quotes is not None:
                call.is_quoted = await self._looked_up(self._quotes, call)
            then(call)
            del self._reading[call]

    async def _looked_up(self, quotes: Quotes, call: Call) -> bool:
        for is_found in quotes.search(call.call, quotes.texts(self._host.number)):
            if is_found:
                return True
            await checkpoint()
        return False

    def _stream_ended(self, event: StreamEnd) -> None:
        if self._transitions.end is None:  # a transform may repeat the event
            self._transitions.budgets.add(event.usage, self._options.counted_before)
        self._transitions.end = event
        if not self._may_start():
            self._transitions.move_all("bad_end", self._transitions.calls.values())
            return
        for call in list(self._transitions.calls.values()):
            # Checked for each call: one that starts at once may fail at once, and stop the others.
            if call.state == "held" and not self._by_hand and self._may_start() and not self._is_over_budget(call):
                self._go(call)

    def _may_start(self) -> bool:
        """Returns whether the turn has ended well, and nothing has stopped its calls."""
        end = self._transitions.end
        return end is not None and self._transitions.stopped is None and end.ended_well

    def _held_by_effect(self, tool: Tool) -> bool:
        policy = self._options.policy
        return policy == "turn_end" or (policy == "auto" and tool.effect == "once")

    def lacks_counts(self, end: StreamEnd) -> bool:
        """Returns whether a budget is of tokens, and a response that has ended so has not counted its own."""
        return self._transitions.budgets.bound_tokens and tokens_of(end.usage) is None

    def _is_over_budget(self, call: Call) -> bool:
        """Counts a call that is to run; refuses it and returns True if a budget is spent."""
        exceeded = self._transitions.budgets.admit(call)
        if exceeded is not None:
            self._refuse(call, Ending("over_budget", exceeded))
        return exceeded is not None

    def _accept(self, call: Call) -> bool:
        """Counts a valid call, and notes its approval and conflict key; refuses it and returns False if it was repeated
        too often, or the tool's own functions fail."""
        tool, _ = call.ready
        refused = endings.wrong_caller(tool, call.call) or self._repeated(call)
        quotes = self._quotes if refused is None and call.is_quoted else None
        if quotes is not None:
            self._host.emit(StreamWarning("quoted_call", call.label))
            refused = None if quotes.asks else Ending("quoted_call", CallQuoted(tool.name))
        if refused is None:
            try:
                # What was decided holds, also if the tool of today needs no approval.
                is_asked = self._options.resumed or quotes is not None or call.is_decided
                gate = True if is_asked else tool.needs_approval
                if self._was_handed_out(call):
                    self._edit_again(call)
                else:
                    call.gated = gate if isinstance(gate, bool) else approval.is_gated(call)
                    refused = None if self._origins is None else self._origins.judge(call)
            except ToolFailed as error:
                refused = Ending("failed", error)
        if refused is None and tool.conflict_key is not None:
            refused = endings.keyed(call)
        if refused is not None:
            self._refuse(call, refused)
        return refused is None

    def _repeated(self, call: Call) -> Ending | None:
        """Counts a call; returns a refusal if it was made too often with the same arguments."""
        most, made = self._limits.max_repeated_calls, call.call
        if most is None or self._options.resumed or not self._options.counts_repeated:
            return None  # a resumed call was counted before
        if self._host.counts.call(made.name, made.arguments, made.arguments_text) <= most:
            return None
        return Ending("denied", CallRepeated(made.name, most))

    def _refuse(self, call: Call, ending: Ending) -> None:
        kept = self._options.resumed.get(call.call_id)
        if kept is None or self._options.store is None:
            self._transitions.move(call, "refused", ending)
        else:  # the rules of today do not change what happened: a call that has run has the ending that it had
            self._transitions.work(call, partial(self._refuse_unless_it_ran, call, kept.fingerprint, ending))

    async def _refuse_unless_it_ran(self, call: Call, fingerprint: str, ending: Ending) -> None:
        try:
            before = await self._transitions.ran_before(call, fingerprint)
        except ToolNotStarted as error:
            before = endings.failure(error)
        self._transitions.move(call, "refused", before or ending)

    def _go(self, call: Call) -> None:
        """Asks for approval if needed, else queues the call."""
        end = self._transitions.end
        if end is not None and not call.gated and self._held_by_effect(call.ready[0]):
            call.causes = (end.seq,)
        is_outside = call.ready[0].external or self._was_handed_out(call)
        self._transitions.move(call, "ask" if call.gated else "hand_out" if is_outside else "queue")

    def _edit_again(self, call: Call) -> None:
        kept = self._options.resumed[call.call_id]
        if kept.edited is not None:
            self._transitions.edits.bind_again(call, kept.edited)

    def _was_handed_out(self, call: Call) -> bool:
        """Returns whether a call was suspended when it had been handed out, and so was approved and judged before."""
        kept = self._options.resumed.get(call.call_id)
        return kept is not None and kept.waits_for == "answer"

    # -- approval --

    @property
    def undecided(self) -> list[Call]:
        """The calls that wait for an approval or an answer, or did when the block was left, in a turn that has ended
        well."""
        if not endings.ended_well(self._transitions.end):
            return []
        return [
            call
            for call in self._transitions.calls.values()
            if call.state in ("asked", "handed_out")
            or (call.seen is not None and isinstance(call.seen.error, (AnswerPending, ApprovalPending)))
        ]

    @property
    def unobserved(self) -> int:
        """The number of calls without an observation yet."""
        return sum(call.state not in ("observed", "left_alone") for call in self._transitions.calls.values())

    @property
    def announced(self) -> bool:
        """True once a call was announced."""
        return bool(self._transitions.calls)

    def decide(
        self,
        call_id: str,
        verdict: bool,
        fingerprint: str | None,
        *,
        by: str | None,
        reason: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> bool:
        """Takes a decision about a call; returns False if that changes nothing, since the call was decided before or
        is over.

        Raises:
            InvalidArguments: the edited arguments do not fit.
            LocalProtocolError: nobody was asked about it, or about these arguments; it needs several people, and this
                one has no name; or this is another thread.
        """
        call = self._known(call_id, "an ApprovalRequested")
        if not call.asked:
            raise LocalProtocolError("nobody was asked about this call; decide after its ApprovalRequested")
        if fingerprint is not None and fingerprint != call.fingerprint:
            raise LocalProtocolError("the call has other arguments than those that were decided about")
        approval.check_loop(self._transitions.asked_in, "approve" if verdict else "deny")
        if call.requires > 1 and by is None:
            raise LocalProtocolError(f'the call requires {call.requires} people; say who decides: by="ann"')
        decision = Decision.on(call, verdict, by=by, reason=reason, arguments=arguments)
        if decision.arguments is not None:
            if call.requires > 1:
                raise LocalProtocolError(f"the call requires {call.requires} people, so nobody edits its arguments")
            self._transitions.edits.check(call, decision.arguments)
        decided = self._transitions.decide(call, decision)
        if decided:
            self._tell()
        return decided

    def take_decision(self, key: str, decision: Decision) -> bool | None:
        """Takes a decision that was made elsewhere, about the call of this key; returns False if it comes too late, and
        None if nobody was asked about the call yet."""
        call = self._transitions.calls.get(decision.call_id)
        if call is None or not call.asked:
            return None
        if (call.key, call.fingerprint) != (key, decision.fingerprint):
            return False
        decided = self._transitions.decide(call, decision)
        if decided:
            self._tell()
        return decided or (call.state == "asked" and call.tasks > 0)  # or one on record is being applied

    def asked_about(self, call_id: str) -> list[Call]:
        """Returns the call of this id, if it waits for an approval or an answer, also while its response goes on."""
        call = self._transitions.calls.get(call_id)
        return [] if call is None or call.state not in ("asked", "handed_out") else [call]

    def answer(self, call_id: str, record: bytes, fingerprint: str | None) -> bool:
        """Takes the answer to a call that is done outside; returns False if it has the same one.

        Raises:
            AnswerError: there is no such call, or it waits for no answer, or has another one.
            LocalProtocolError: this is another thread.
        """
        call = self._transitions.calls.get(call_id)
        if call is None:
            raise AnswerError(call_id, "unknown_call", "is none of this step")
        if self._transitions.asked_in is not None:
            approval.check_loop(self._transitions.asked_in, "answer")
        given = self._transitions.answers.give(call, record, fingerprint)
        self._tell()
        return given

    def look_for_answer(self, call_id: str) -> None:
        """Looks for an answer that was put on record elsewhere; ids of no call of this turn mean nothing."""
        call = self._transitions.calls.get(call_id)
        if call is not None:
            self._transitions.answers.look(call)
            self._tell()

    # -- by hand --

    @property
    def to_tell(self) -> bool:
        """True while there are calls that start only if somebody runs or approves them."""
        if self._transitions.stopped is not None:
            return False
        return any(
            call.state in ("asked", "handed_out") or (call.state == "held" and self._by_hand)
            for call in self._transitions.calls.values()
        )

    async def wait_decided(self) -> None:
        """Waits until somebody runs, decides about or cancels a call."""
        self._given = anyio.Event()
        await self._given.wait()

    def _tell(self) -> None:
        if self._given is not None:
            ring(self._given)

    def ask(self, call_id: str) -> bool:
        """Lets a held call run; returns False if that changes nothing, since the call is observed or runs already.

        Raises:
            LocalProtocolError: calls start by themselves here, or this one is not known or not ready.
        """
        if not self._by_hand:
            now = "are left alone" if self._options.policy in LEAVES_CALLS else "start by themselves"
            raise LocalProtocolError(f"calls {now}; to run them by hand, pass start='manual' and tools=")
        call = self._known(call_id, "the call of a ToolCallValidated")
        if call.state in ("announced", "ended") and self._transitions.stopped is None:
            raise LocalProtocolError("the call is not ready; run it after its ToolCallValidated")
        if call.state != "held" or call in self._reading:
            return False
        if not self._is_over_budget(call):
            self._when_read(call, self._run_held)
        self._tell()
        return True

    def _run_held(self, call: Call) -> None:
        if call.state == "held" and self._transitions.stopped is None and self._accept(call):
            self._go(call)

    async def observed(self, call_id: str) -> Observation:
        """Waits for a call's observation, and returns it."""
        call = self._transitions.calls[call_id]
        while call.seen is None:
            call.done = call.done or anyio.Event()
            await call.done.wait()
        return call.seen

    def _known(self, call_id: str, what: str) -> Call:
        call = self._transitions.calls.get(call_id)
        if call is None:
            raise LocalProtocolError(f"no such call in this turn; pass {what}, or its call_id")
        return call


def _is_bound(call: Call) -> bool:
    if call.tool is None or not (call.tool.effect == "once" or call.gated):
        return False
    # Middleware may have done the call's work itself.
    has_run = bool(call.attempts) or call.out is not None or call.is_wrapped
    return has_run or (call.seen is not None and call.seen.outcome == "unknown")
