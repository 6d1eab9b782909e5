"""Moves the calls of one turn along the table of states, and carries out the effects.

`Calls` chooses the inputs, `states.TRANSITIONS` gives the effects that follow, and each effect in the table is a method
here: for places, tasks, questions, observations. `_observe` makes a call's one Observation, and only rows that lead to
``observed`` reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import Any, TypeAlias

import anyio
from anyio import CancelScope
from anyio.lowlevel import EventLoopToken, checkpoint, current_token

from ..errors import ToolFailed
from ..event_loop import ring
from ..events import ApprovalRequested, ApprovalResolved, Observation, StreamEnd, StreamWarning, ToolStarted
from ..limits import Limits
from ..parts import OUTCOMES
from ..tools import Toolset
from . import approval, endings
from .approval import Approver, Resolution
from .around import run_call
from .attempts import Attempts
from .call import Call, Ending, Host
from .options import DispatchOptions
from .pool import CallPool
from .results import encode_error, error_content
from .scheduler import Job
from .states import OPEN, Effect, Input, advance
from .timers import Timer
from .waits import begin_wait, note_move

__all__ = ["At", "Moves", "Start"]

Start: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
"""Runs a coroutine function in a task of its own."""

At: TypeAlias = Callable[[float, Callable[[], None]], Timer]
"""Calls a function back at a time of the event loop, and returns the timer."""

LEFT = "the stream was left"


class Moves:
    """Moves the calls of one turn along the table of states.

    Args:
        pool: decides when a call's turn has come; None makes a pool that is not shared.
        tools: the tools that may be called.
        limits: times and sizes.
        options: when calls start, who approves them, where they run.
        host: the step.
        start: runs a call in a task of its own.
        at: calls back at the calls' deadlines; None leaves these to the calls' scopes, and nothing looks for calls that
            do not stop.
    """

    def __init__(
        self,
        pool: CallPool | None,
        tools: Toolset,
        limits: Limits,
        options: DispatchOptions,
        host: Host,
        start: Start,
        at: At | None = None,
    ) -> None:
        self.calls: dict[str, Call] = {}
        """The calls of the turn, by id."""
        self.end: StreamEnd | None = None
        """The turn's end, once it has come."""
        self.stopped: str | None = None
        """Why nothing more starts, if the reason is not the turn's end."""
        self.asked_in: EventLoopToken | None = None
        """The event loop in which somebody was asked for an approval."""
        self._joined = pool is None  # an unshared pool need not look at the event loop, which costs 1 µs
        self._pool = pool = CallPool(limits) if pool is None else pool
        self.limits = limits
        self.options = options
        self._by_hand = options.policy == "manual"
        self.host = host
        self._start_task = start
        self._at = at
        self._attempts = Attempts(host, tools, limits, pool, options, self.move, self._due)
        self._told: Ending | Resolution | str | None = None  # came with the input at hand
        self._idle: anyio.Event | None = None

    def move(self, call: Call, happened: Input, told: Ending | Resolution | str | None = None) -> None:
        """Moves a call along the table, and carries the effects out. If an observer moves the call on meanwhile, the
        rest of the row is void. `told` is the call's ending, the decision about it, or why it is cancelled, if the
        input brings one."""
        was, effects = call.state, advance(call, happened)
        state, before = call.state, self._told
        if was != state:
            note_move(call, by_hand=self._by_hand)
        self._told = told
        try:
            for effect in effects:
                _EFFECTS[effect](self, call)
                if call.state != state:
                    break
        finally:
            self._told = before

    def move_all(self, happened: Input, calls: Collection[Call], reason: str | None = None) -> None:
        """Moves several calls. Those that will never run leave the order first, the youngest before the older ones, so
        that none takes the place of another."""
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
        call.tasks += 1
        self._start_task(partial(self._task, call, partial(self._run, call)))

    async def _task(self, call: Call, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Does the work of one task: a call, or a question about it."""
        try:
            await work()
        finally:
            try:
                call.tasks -= 1
            finally:
                self._ended_something()

    async def _run(self, call: Call) -> None:
        """Runs a call to its observation."""
        try:
            await run_call(self._attempts, call)
        except Exception as error:  # neither a tool's nor an executor's: those were judged
            failed = ToolFailed(encode_error(call.ready[0].name, error)["text"])
            failed.__cause__ = error
            call.ending = Ending("failed", failed)
        finally:  # also if cancelled; a call that has its observation keeps it
            try:
                self.move(call, "done", call.ending or endings.cancelled(call))
            finally:
                self._leave(call)

    def _cancel(self, call: Call) -> None:
        try:
            if call.scope is not None:
                call.scope.cancel()
            if call.state != "queued":  # else it was approved: it goes on, and only its approver's task is cancelled
                call.cancelled_at = anyio.current_time()
                self._look_at(call.cancelled_at)
        except anyio.NoEventLoopError:  # the loop was cut off, and its tasks with it: nothing is left to cancel
            return

    def _due(self, call: Call, scope: CancelScope, lag_s: float) -> bool:
        """Has an attempt's scope cancelled when its time is up; returns False if nothing keeps the time here. This is
        cheaper than the scope's own deadline, and one timer serves both of the attempt's times."""
        if self._at is not None:
            call.timer = self._at(call.due + lag_s, partial(self._time_up, call, scope))
        return self._at is not None

    def _time_up(self, call: Call, scope: CancelScope) -> None:
        scope.cancel()
        self._look_at(call.due)

    def _look_at(self, stopped_at: float) -> None:
        if self._at is not None:
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
        self.host.emit(ToolStarted(call.call.call_id, tool.name, attempt=call.attempts, causes=call.causes))

    # -- effects: approval --

    def _ask(self, call: Call) -> None:
        event, approver = approval.request(call), self.options.approver
        call.asked, self.asked_in = True, self.asked_in or current_token()
        self.host.emit(event)
        if approver is not None and call.state == "asked":  # else an observer has decided
            call.tasks += 1
            self._start_task(partial(self._task, call, partial(self._question, call, event, approver)))

    async def _question(self, call: Call, event: ApprovalRequested, approver: Approver) -> None:
        decision = None
        if call.state != "asked":
            return
        try:
            with CancelScope() as call.scope:
                await checkpoint()
                decision = await approval.ask(approver, event)
        except Exception as error:  # a group that the approver's own task group made of its cancellation
            decision = approval.failed(error)
        if decision is not None:
            self.resolve(call, decision)

    def resolve(self, call: Call, decision: Resolution) -> bool:
        """Applies a decision about a call; returns False if it comes too late."""
        if call.state != "asked" or self.stopped is not None:
            return False
        self.move(call, "approved" if decision.approved else "denied", decision)
        return True

    def _resolved(self, call: Call) -> None:
        decision = self._told
        assert isinstance(decision, Resolution), "the input brings one"
        self.host.emit(ApprovalResolved(call.call.call_id, call.ready[0].name, decision.approved, decision.reason))

    # -- effects: the observation --

    def _end_as_given(self, call: Call) -> None:
        assert isinstance(self._told, Ending), "the input brings one"
        self._observe(call, self._told)

    def _end_denied(self, call: Call) -> None:
        assert isinstance(self._told, Resolution), "the input brings one"
        self._observe(call, approval.denied(self._told))

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

    def _end_unstarted(self, call: Call) -> None:
        self._observe(call, endings.unstarted(self._told if isinstance(self._told, str) else None))

    def _end_cancelled(self, call: Call) -> None:
        self._observe(call, endings.cancelled(call))

    def _end_left_over(self, call: Call) -> None:
        self._observe(call, endings.left_over(call))

    def _observe(self, call: Call, ending: Ending) -> None:
        """Makes the call's one observation."""
        error, content = ending.error, ending.content or OUTCOMES[ending.outcome].to_model
        if error is not None and ending.content is None:
            hint = endings.try_again(error, call.call.name, self.host.counts, self.limits)
            content = error_content(error, self.limits.max_result_bytes) + hint
        if call.progress_dropped:
            text = f"{call.progress_dropped} reports, since the consumer was behind (max_waiting_progress)"
            self.host.emit(StreamWarning("progress_dropped", f"{call.label}: {text}"))
        causes = (self.end.seq,) if OUTCOMES[ending.outcome].follows_the_end and self.end is not None else ()
        seen: Observation = call.observation(ending, content, causes)
        call.seen = seen
        if call.done is not None:
            ring(call.done)
        # The place goes before the event: emitting runs observers, and a call that they see observed must hold none.
        if not call.tasks:
            self._leave(call)
        self._ended_something()
        if seen.error is not None:
            from .developer_log import log_failure

            log_failure(seen)
        self.host.emit(seen)
        cancels = self.options.on_tool_error == "cancel" and OUTCOMES[ending.outcome].cancels_siblings
        if cancels and self.stopped is None:
            self.stopped = "another call of its turn failed"
            self.move_all("stopped", self.calls.values(), self.stopped)


_EFFECTS: Mapping[Effect, Callable[[Moves, Call], None]] = {
    "place": Moves._place,
    "release": Moves._release,
    "leave": Moves._leave,
    "start": Moves._start,
    "cancel": Moves._cancel,
    "ask": Moves._ask,
    "resolve": Moves._resolved,
    "begin": Moves._begin,
    "end_as_given": Moves._end_as_given,
    "end_denied": Moves._end_denied,
    "end_skipped": Moves._end_skipped,
    "end_undecided": Moves._end_undecided,
    "end_unstarted": Moves._end_unstarted,
    "end_cancelled": Moves._end_cancelled,
    "end_left_over": Moves._end_left_over,
}
