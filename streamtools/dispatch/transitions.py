"""Takes each call of a turn from its announcement to exactly one `Observation`.

Theory of operation. `Calls` chooses the inputs, `states.TRANSITIONS` gives the effects that follow, and each effect in
the table is a method of `Transitions`. `Transitions._observe` makes a call's one Observation, and only rows that lead
to ``observed`` reach it.

The tool's effect decides when a valid call is released: ``pure`` and ``idempotent`` calls at once, while the stream
continues; ``once`` calls when the turn has ended well. A call that needs an approval requests it when it would be
released, and takes its place in the order when it is approved, so that no other call waits for a person.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import anyio
from anyio import CancelScope

from ..content import AnsweredLater
from ..errors import (
    AnswerPending,
    ApprovalPending,
    CallRepeated,
    CallTruncated,
    InvalidArguments,
    LocalProtocolError,
    ToolFailed,
    ToolNotStarted,
    ToolOutcomeUnknown,
    ToolSuspended,
)
from ..events import (
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
from ..parts import OUTCOMES, Usage, arguments_in, new_call
from ..tools import Tool, Toolset
from ..tools.context import key_prefix
from . import endings
from .attempts import CallAttempts
from .event_loop import Timer, ring
from .log import log_failure
from .options import LEAVES_CALLS, DispatchOptions
from .pool import Budgets, CallPool, Job, tokens_of
from .results import encode_error, error_content
from .states import (
    OPEN,
    WAITED_IN,
    Call,
    Effect,
    Ending,
    Host,
    Input,
    Listeners,
    Tried,
    advance,
    begin_wait,
    end_wait,
    note_move,
)

if TYPE_CHECKING:
    from .at_gate import AtGate
    from .rules import Judging, Rules

T = TypeVar("T")

_ENDINGS_OF_ALL: frozenset[Input] = frozenset({"stopped", "bad_end"})

Start: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]], "CancelScope | None"], None]

At: TypeAlias = Callable[[float, Callable[[], None]], Timer]

Given: TypeAlias = Ending | str | None  # what an input brings: the call's ending, or why it is cancelled

Serves: TypeAlias = Callable[[Call], Awaitable[bool]]
"""Gives a call that has its place the ending of an earlier call, if there is one; returns whether it did."""


class Waits(Protocol):
    """The calls of one turn that wait for an approval or an answer, and what is said about them."""

    def wait(self, call: Call, given: Ending | None) -> None:
        """Lets a call wait for its approval, if it needs one and has none, else for its answer. `given` is the ending
        of a tool that is answered later."""
        ...

    def resolve(self, call: Call) -> None:
        """Emits an `ApprovalResolved` if the call has waited for its approval."""
        ...

    def ending_of(self, call: Call, reason: str | None) -> Ending | None:
        """Returns the ending of a call that no longer waits; None to skip it like any call that has not begun."""
        ...

    def take_up(self, call: Call) -> None:
        """Gives a call that was suspended after it was handed out the arguments that it was approved with."""
        ...

    def noted(self, seen: Observation) -> Observation:
        """Returns the observation of an edited call as the model reads it."""
        ...

    async def ask(self, call: Call, question: Any) -> Any: ...

    def decide(self, call_id: str, verdict: bool, fingerprint: str | None, **given: Any) -> bool: ...

    def answer(self, call_id: str, record: bytes, fingerprint: str | None) -> bool: ...

    def look_again(self, call_id: str, key: str | None = None) -> bool | None: ...

    def asked_about(self, call_id: str) -> list[Call]: ...

    def look_up_first(self, withheld: tuple[str, bool] | None, listeners: Listeners) -> Listeners: ...

    async def refuse_unless_it_ran(self, call: Call, ending: Ending) -> None: ...


class Transitions:
    """Moves the calls of one turn along the table of states. Without a `pool` they share none."""

    def __init__(
        self,
        pool: CallPool | None,
        tools: Toolset,
        limits: Limits,
        options: DispatchOptions,
        host: Host,
        start: Start,
        at: At,
        waiting: Callable[[Transitions], Waits],
        serves: Serves | None = None,
    ) -> None:
        self.calls: dict[str, Call] = {}
        self.end: StreamEnd | None = None  # the turn's end, once it has come
        self.stopped: str | None = None  # why nothing more starts, if the reason is not the turn's end
        self.budgets = Budgets(limits, host.counts.spent, None if pool is None else pool.budget)
        self._joined = pool is None  # an unshared pool need not look at the event loop, which costs 1 µs
        self._given_pool = pool
        self.tools = tools
        self.limits = limits
        self.options = options
        self._by_hand = options.start == "manual"
        self.host = host
        self.rules = _rules(options, tools, host) if options.seams.rules or options.seams.filters else None
        self._start_task = start
        self._at = at
        self._serves = serves
        self._new_waiting = waiting
        self._waiting: Waits | None = None  # once a call waits for an approval or an answer
        self.is_settling = False  # no task is left that could observe a call
        self._unresponsive = set[Call]()  # those that still ran after their grace
        self._idle: anyio.Event | None = None
        self._told: anyio.Event | None = None

    # Both are made for the first call: most turns have none.

    @cached_property
    def _pool(self) -> CallPool:
        return CallPool(self.limits) if self._given_pool is None else self._given_pool

    @cached_property
    def attempts(self) -> CallAttempts:
        due, ask = self._due, self._ask
        shared = self.host, self.tools, self.limits, self._pool, self.options
        return CallAttempts(*shared, self.move, due, ask, self._is_left)

    def _is_left(self, call: Call) -> bool:
        # The tasks may be cancelled before the turn is told of it.
        return self.stopped == endings.LEFT or (call.state == "running" and self.host.now() < call.stops_at)

    def move(self, call: Call, happened: Input, given: Given = None) -> None:
        """Moves a call along the table, and carries out the effects. If an observer moves the call meanwhile, the rest
        of the row is dropped."""
        was, effects = call.state, advance(call, happened)
        state = call.state
        if was != state and (call.open_wait is not None or state in WAITED_IN):
            note_move(call, by_hand=self._by_hand)
        for effect in effects:
            act = _EFFECTS.get(effect)
            if act is not None:
                act(self, call)
            else:
                _EFFECTS_OF_GIVEN[effect](self, call, given)
            if call.state != state:
                break

    def move_all(self, happened: Input, calls: Collection[Call], reason: str | None = None) -> None:
        """Moves several calls. Those that will never run leave the order first, the youngest before the older ones, so
        that none takes the place of another."""
        if not calls:
            return
        if happened in _ENDINGS_OF_ALL:
            for trial in self.trials:
                trial.drop()
        live = [call for call in calls if call.state != "observed"]
        for call in reversed(live):
            if call.state in ("held", "queued"):
                self._leave(call)
        for call in live:
            self.move(call, happened, reason)

    # -- what is open --

    async def wait_idle(self) -> None:
        await self._until(lambda: not any(call.tasks or call.state in OPEN for call in self.calls.values()))

    async def wait_task(self, call: Call, *, but: int = 0) -> None:
        """Waits until at most `but` tasks work for a call; a task that waits here counts itself."""
        await self._until(lambda: call.tasks <= but)

    async def wait_observed(self, call: Call) -> Observation:
        await self._until(lambda: call.seen is not None)
        assert call.seen is not None, "waited for"
        return call.seen

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._idle = self._idle or anyio.Event()
            await self._idle.wait()

    def _ended_something(self) -> None:
        idle, self._idle = self._idle, None
        if idle is not None:
            ring(idle)

    async def wait_told(self) -> None:
        self._told = anyio.Event()
        await self._told.wait()

    def tell(self) -> None:
        if self._told is not None:
            ring(self._told)

    def call_of(self, call_id: str, what: str) -> Call:
        call = self.calls.get(call_id)
        if call is None:
            raise LocalProtocolError(f"no such call in this turn; pass {what}, or its call_id")
        return call

    def close(self) -> None:
        """Gives up all remaining places. Call it when no task is left: an asyncio task that is cancelled before its
        first step, as all are when the loop ends, never gets to give up its call's place."""
        for call in self.calls.values():
            self._leave(call)
        for trial in self.trials:
            trial.leave()

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
        self._add(call.job, partial(self.move, call, "granted"))

    def _add(self, job: Job, start: Callable[[], None]) -> None:
        if not self._joined:
            self._pool.join()
            self._joined = True
        self._pool.add(job, start)

    def take_free_place(self, job: Job, start: Callable[[], None]) -> bool:
        """Gives a job a place if one is free now, and calls `start`; returns False if there is none."""
        self._add(job, start)
        self._pool.release(job)
        if job.state == "running":
            return True
        self._pool.finish(job)
        return False

    def _release(self, call: Call) -> None:
        assert call.job is not None, "it has its place"
        if call.trial is not None and call.trial.fits and call.trial.ended is None:
            call.trial.leave()  # for the call itself
        self._pool.release(call.job)
        if call.state == "queued":
            begin_wait(call, self._pool.holds_up(call.job))
            for trial in self.trials:
                trial.make_room(call)

    @property
    def trials(self) -> list[Tried]:
        return [call.trial for call in self.calls.values() if call.trial is not None]

    def _leave(self, call: Call) -> None:
        if call.job is not None and call.job.state != "over":
            self._pool.finish(call.job)

    # -- effects: tasks --

    def _start(self, call: Call) -> None:
        options, scope = self.options, None
        if self._serves is None and options.seams.gate is None and not (options.middleware or call.ready[0].middleware):
            scope = call.scope = self.host.new_scope()
        self.work(call, partial(self._run, call, scope), scope)

    def work(self, call: Call, work: Callable[[], Coroutine[Any, Any, None]], scope: CancelScope | None = None) -> None:
        call.tasks += 1
        self._start_task(partial(self._task, call, work), scope)

    async def _task(self, call: Call, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        finally:
            try:
                call.tasks -= 1
            finally:
                if self._idle is not None:
                    self._ended_something()

    async def _run(self, call: Call, scope: CancelScope | None) -> None:
        try:
            trial = call.trial
            if trial is not None and not trial.fits:
                trial.drop()
                await trial.wait_over()
                call.attempts += trial.is_told
            if trial is not None and trial.is_told and trial.lost is not None and not trial.fits:
                call.ending = endings.failure(trial.lost)
            elif self._serves is not None and call.edited is None and await self._serves(call):
                pass
            elif self.options.middleware or call.ready[0].middleware is not None:
                from .middleware import run_inside  # few calls have any

                await run_inside(self.attempts, call)
            else:
                await self.attempts.run(call, scope)
        except Exception as error:  # neither a tool's nor an executor's: those were judged
            failed = ToolFailed if call.entered is None else ToolOutcomeUnknown  # as the gate was told
            call.ending = call.ending or endings.failure(failed(encode_error(call.ready[0].name, error)["text"]), error)
        finally:  # also if cancelled; a call that has its observation keeps it
            try:
                self._end(call, call.ending or endings.cancelled(call))
            finally:
                self._leave(call)

    def _end(self, call: Call, ending: Ending) -> None:
        if isinstance(ending.value, AnsweredLater):
            if call.state in ("starting", "running"):
                self.move(call, "wait", ending)
                return
            ending = endings.cancelled(call)
        self.move(call, "done", ending)

    def _cancel(self, call: Call) -> None:
        if not call.tasks:
            return
        try:
            if call.pending is not None:
                call.pending.cancel()
            if call.scope is not None:
                call.scope.cancel()
            if call.state != "queued":  # else it was approved: it continues, and only its approver's task is cancelled
                now = anyio.current_time()
                call.stops_at = min(call.stops_at, now)
                self.warn_later(now)
        except anyio.NoEventLoopError:  # the loop was cut off, and its tasks with it: nothing is left to cancel
            return

    def _due(self, due: float, scope: CancelScope) -> Timer:
        """Cancels an attempt's scope at a given time. This is cheaper than the scope's own deadline, and one timer
        serves both of the attempt's times."""
        return self._at(due, partial(self._time_up, due, scope))

    def _time_up(self, due: float, scope: CancelScope) -> None:
        scope.cancel()
        self.warn_later(due)

    def warn_later(self, stopped_at: float) -> None:
        self._at(stopped_at + self.limits.cancel_grace, self.warn_of_unresponsive)

    def warn_of_unresponsive(self, now: float | None = None) -> None:
        """Warns once about each call that still runs after its grace; pass `now` where no task runs."""
        if self.host.ended:
            return
        latest = (anyio.current_time() if now is None else now) - self.limits.cancel_grace
        for call in self.calls.values():
            is_tried = call.trial is not None and not call.trial.is_told and not call.attempts and call.seen is None
            if call.tasks and call.stops_at <= latest and not is_tried and call not in self._unresponsive:
                self._unresponsive.add(call)
                text = f"{call.label}: still runs {self.limits.cancel_grace:g} s after it was told to stop"
                self.host.emit(StreamWarning("tool_unresponsive", text))

    def _begin(self, call: Call) -> None:
        tool, _ = call.ready
        is_held = self.end is not None and not call.needs and not call.is_outside and self.holds(tool)
        causes = (self.end.seq,) if is_held and self.end is not None else ()
        began = 0.0  # now
        if call.trial is not None and call.trial.fits and call.attempts == 1:
            began, call.open_wait = call.trial.began or 0.0, None
            if call.trial.is_told:
                return
        started = ToolStarted(
            call.call_id, tool.name, call.attempts, effect=tool.effect, tried=began > 0.0, causes=causes, time=began
        )
        self.host.emit(started)
        if call.attempts == 1:  # so that the duration counts from the event, for readers of events only
            call.started_at = started.time or call.started_at
        end_wait(call, started.time)

    def holds(self, tool: Tool) -> bool:
        """Returns whether the turn's end releases the calls of a tool."""
        start = self.options.start
        return start == "turn_end" or (start == "auto" and tool.effect == "once")

    # -- effects: what a call waits for --

    @property
    def waiting(self) -> Waits:
        self._waiting = self._waiting or self._new_waiting(self)
        return self._waiting

    @property
    def at_gate(self) -> AtGate:
        return self.attempts.at_gate

    async def _ask(self, call: Call, question: Any) -> Any:
        return await self.waiting.ask(call, question)

    def _wait(self, call: Call, given: Given) -> None:
        self.waiting.wait(call, given if isinstance(given, Ending) else None)

    def _resolve(self, call: Call) -> None:
        self.waiting.resolve(call)

    # -- effects: the observation --

    def _end_as_given(self, call: Call, given: Given) -> None:
        assert isinstance(given, Ending), "the input brings one"
        self._observe(call, given)

    def _end_skipped(self, call: Call) -> None:
        by_hand = self._by_hand and self.stopped in (None, endings.LEFT)
        skipped = endings.skipped(self.end, self.stopped, by_hand=by_hand)
        self._observe(call, self._left_again(call) or skipped)  # before anyone could be asked again

    def _left_again(self, call: Call) -> Ending | None:
        """Returns the ending of a suspended call that keeps waiting, since the block was left; else None."""
        is_left = call.before is not None and self.stopped == endings.LEFT and endings.ended_well(self.end)
        return self.waiting.ending_of(call, None) if is_left else None

    def _end_waiting(self, call: Call, given: Given) -> None:
        ending = self.waiting.ending_of(call, given if isinstance(given, str) else None)
        if ending is None:
            self._end_skipped(call)
        else:
            self._observe(call, ending)

    def _end_unstarted(self, call: Call, given: Given) -> None:
        self._observe(call, endings.unstarted(given if isinstance(given, str) else None))

    def _end_cancelled(self, call: Call) -> None:
        self._observe(call, endings.cancelled(call))

    def _end_discarded(self, call: Call) -> None:
        self._observe(call, endings.discarded())

    def _end_left_over(self, call: Call) -> None:
        self._observe(call, self._left_again(call) or endings.left_over(call))  # while the store was asked about it

    def _observe(self, call: Call, ending: Ending) -> None:
        trial = call.trial
        if trial is not None:
            trial.drop()
            if trial.is_told and not call.attempts and ending.outcome != "discarded":
                if not self.is_settling and trial.ends_before(partial(self._observe, call, ending)):
                    return
                call.attempts, ending = 1, endings.undone(ending, trial.lost)
        error, content = ending.error, ending.content or OUTCOMES[ending.outcome].to_model
        if isinstance(error, (ToolNotStarted, ToolSuspended)):
            error.by_tool = None
        if error is not None and ending.content is None:
            hint = endings.not_again(call, ending) or endings.try_again(ending, call, self.host.counts, self.limits)
            content = error_content(error, self.limits.max_result_bytes) + hint
        causes = (self.end.seq,) if OUTCOMES[ending.outcome].follows_the_end and self.end is not None else ()
        seen: Observation = call.observation(ending, content, causes)
        if self.rules is not None:
            seen = self.rules.filtered(seen)
        if call.edited is not None:
            seen = self.waiting.noted(seen)
        self.budgets.ended(call, ending.outcome)
        call.seen = seen
        # Leave the place before emitting: that runs observers, and a call that they see as observed must hold none.
        if not call.tasks:
            self._leave(call)
        if self._idle is not None:
            self._ended_something()
        if seen.error is not None:
            log_failure(seen, self.host)
        self.host.emit(seen)
        cancels = self.options.on_tool_error == "cancel" and OUTCOMES[ending.outcome].cancels_siblings
        if cancels and self.stopped is None:
            self.stopped = "another call of its turn failed"
            self.move_all("stopped", self.calls.values(), self.stopped)


def _rules(options: DispatchOptions, tools: Toolset, host: Host) -> Rules:
    from .rules import Rules  # most runs have none

    return Rules(options.seams, tools, host)


_EFFECTS: Mapping[Effect, Callable[[Transitions, Call], None]] = {
    "place": Transitions._place,
    "release": Transitions._release,
    "leave": Transitions._leave,
    "start": Transitions._start,
    "cancel": Transitions._cancel,
    "resolve": Transitions._resolve,
    "begin": Transitions._begin,
    "end_skipped": Transitions._end_skipped,
    "end_cancelled": Transitions._end_cancelled,
    "end_discarded": Transitions._end_discarded,
    "end_left_over": Transitions._end_left_over,
}
_EFFECTS_OF_GIVEN: Mapping[Effect, Callable[[Transitions, Call, Given], None]] = {
    "wait": Transitions._wait,
    "end_as_given": Transitions._end_as_given,
    "end_waiting": Transitions._end_waiting,
    "end_unstarted": Transitions._end_unstarted,
}


# -- the calls of one turn --


WITHDRAWN = "the provider withdrew the call"


class Calls:
    """Runs the calls of one turn."""

    def __init__(self, transitions: Transitions, attempt: int = 1) -> None:
        self._transitions = transitions
        self._tools = transitions.tools
        self.attempt = attempt  # the number of the attempt at the step's answer; part of the calls' keys
        self._limits, self._options, self._host = transitions.limits, transitions.options, transitions.host
        self._by_hand = transitions.options.start == "manual"
        self.rules = transitions.rules
        # Those that wait until they, or calls before them, are judged; in order.
        self._judging: dict[Call, tuple[Judging | None, Callable[[Call, Judging | None], None]]] = {}
        self._response_id: str | None = None
        self._key_prefix: str | None = None  # of the calls' idempotency keys, once there is one
        self._cut: str | None = None  # why the response was cut
        self.foresee: Callable[[], None] | None = None  # is called with the first call that may be tried
        self.grow: Callable[[Call, Tool], None] | None = None  # called with each call that may read growing arguments
        self.looks_up = False  # the gate is asked about the calls before they do anything
        self.withheld: tuple[str, bool] | None = None  # why those that have not begun are not run then; see `looking`

    @property
    def waiting(self) -> Waits:
        """The calls that wait for an approval or an answer, with the methods to decide about them and answer them."""
        return self._transitions.waiting

    async def wait_told(self) -> None:
        """Waits until a call is run by hand, decided about or cancelled."""
        await self._transitions.wait_told()

    def tell(self) -> None:
        """Ends the wait of `wait_told`."""
        self._transitions.tell()

    def listeners(self) -> Listeners:
        """Returns the methods to call with emitted events, by the events' types."""
        listeners: Listeners = {
            StreamStart: self._stream_started,
            ToolCallStart: self._announced,
            ToolCallEnd: self._ended,
            ToolCallValidated: self._ready,
            StreamEnd: self._stream_ended,
        }
        if not self.looks_up:
            return listeners
        return self.waiting.look_up_first(self.withheld, listeners)

    def tried(self, made: Callable[[Transitions], T]) -> T | None:
        """Returns the trials that `made` creates; None if no call may be tried."""
        options = self._options
        may_be = options.trials and options.start in ("auto", "early", "pure") and not options.middleware
        return made(self._transitions) if may_be and not self.looks_up else None

    def stop(self, reason: str = endings.LEFT) -> None:
        """Starts no more calls, and cancels every call; a running call is observed when it stops."""
        transitions = self._transitions
        transitions.stopped = transitions.stopped or reason
        transitions.move_all("stopped", transitions.calls.values(), None if reason == endings.LEFT else reason)
        transitions.tell()

    def cut(self, reason: str, *, cancels: bool = False) -> None:
        """Starts no more calls, and skips those that have not begun. The others continue; with `cancels`, all but
        ``once`` calls are cancelled."""
        self._cut = self._transitions.stopped = self._transitions.stopped or reason
        calls = self._transitions.calls.values()
        self._transitions.move_all("bad_end", calls)
        if cancels:
            may_end = [call for call in calls if call.state in OPEN and call.tool and call.tool.effect != "once"]
            self._transitions.move_all("cancelled", may_end, reason)
        self._transitions.tell()

    @property
    def is_asking(self) -> bool:
        """True while a call waits for an approval, or for its answer from outside."""
        return any(call.state == "waiting" for call in self._transitions.calls.values())

    def cancel(self) -> None:
        """Cancels every call that runs or waits for its turn to run; each is observed when it stops."""
        transitions = self._transitions
        transitions.move_all("cancelled", [call for call in transitions.calls.values() if call.state in OPEN])

    def cancel_one(self, call_id: str, reason: str | None) -> bool:
        """Cancels one call in any state; returns False if that changes nothing, since the call is over or already
        stopping.

        Raises:
            LocalProtocolError: there is no such call.
        """
        call = self._transitions.call_of(call_id, "one of its calls")
        before = call.state
        self._transitions.move_all("cancelled", [call], reason)
        self._transitions.tell()
        return call.state != before

    @property
    def is_bound(self) -> bool:
        """True once a call that must not run twice has begun, so that the attempt may not be discarded."""
        return any(map(_is_bound, self._transitions.calls.values()))

    def knows(self, call_id: str) -> bool:
        """Returns whether a call with this id was announced."""
        return call_id in self._transitions.calls

    def discard(
        self, usage: Usage | None, keep: Callable[[Call, Callable[[Call], Awaitable[None]]], None]
    ) -> dict[str, Observation]:
        """Observes every call as discarded, and counts the tokens of their response; `keep` gets each call
        and a function that waits for its tasks, for the calls of the next attempt. Returns the observations by id."""
        transitions = self._transitions
        transitions.stopped = "its answer was discarded"
        transitions.budgets.add(usage, self._options.known.usage)
        calls = list(transitions.calls.values())
        for call in calls:
            keep(call, transitions.wait_task)
        transitions.move_all("discarded", calls)
        transitions.tell()
        return {call.call_id: call.seen for call in calls if call.seen is not None}

    @property
    def all(self) -> Iterable[Call]:
        """The calls that were announced."""
        return self._transitions.calls.values()

    def leaves_tokens(self, usage: Usage | None) -> bool:
        """Returns whether the budgets allow another request once this response is counted."""
        return self._transitions.budgets.leaves_tokens(usage)

    def take_back(self, call_id: str) -> None:
        """Cancels a call that the provider takes back; ignores ids that are not of this turn."""
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
        """Waits, shielded, until the calls have stopped or their grace is over; warns about those that still run."""
        with anyio.move_on_after(self._limits.cancel_grace, shield=True):
            await self.wait_idle()
        self._transitions.warn_of_unresponsive()

    def warn_of_unresponsive(self, now: float) -> None:
        """Warns once about each call that still runs after its grace."""
        self._transitions.warn_of_unresponsive(now)

    def settle(self) -> None:
        """Observes every call that has no observation yet. Call it last, when no task is left."""
        transitions = self._transitions
        transitions.stopped, transitions.is_settling = transitions.stopped or endings.LEFT, True
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
                for judging, _ in self._judging.values():
                    if judging is not None:
                        judging.drop()

    # -- the text of a call --

    def _stream_started(self, event: StreamStart) -> None:
        self._response_id = event.response_id
        self._key_prefix = None

    def _prefix(self) -> str:
        if (identity := self._options.known.identity) is not None:  # it stands for a single response
            return key_prefix(identity, 0, None)
        return key_prefix(self._host.run_id, self._host.number, self._response_id, self.attempt)

    def _announced(self, event: ToolCallStart) -> None:
        if event.kind != "server" and event.call_id not in self._transitions.calls:  # a transform may repeat the event
            call = new_call(call_id=event.call_id, name=event.name, kind=event.kind, index=event.index)
            before = self._options.known.suspended.get(event.call_id)
            if before is not None:
                announced = Call(call, before.key, before, needs=0 if before.kind == "answer" else before.approvals)
            else:
                if self._key_prefix is None:
                    self._key_prefix = self._prefix()
                announced = Call(call, self._key_prefix + event.call_id)
            self._transitions.calls[event.call_id] = announced
            tool = self._tools.get(event.name)
            if tool is not None and tool.growing is not None and self.grow is not None:
                self.grow(announced, tool)
            elif self.foresee is not None and tool is not None and tool.effect == "pure":
                foresee, self.foresee = self.foresee, None
                foresee()
            if self._options.start in LEAVES_CALLS and self._leaves(event.name):
                self._transitions.move(announced, "leave_alone")

    def _leaves(self, name: str) -> bool:
        tool = self._tools.get(name) if self._options.start == "pure" else None
        if self.rules is not None and self.rules.may_ask(name):
            return True
        return tool is None or tool.effect != "pure" or tool.needs_approval is not False or bool(tool.deferred)

    def _ended(self, event: ToolCallEnd) -> None:
        ended = event.call
        call = self._transitions.calls.get(ended.call_id)
        if call is not None and ended.problem == "void" and not _is_bound(call):  # else it runs to its own end
            self._transitions.move(call, "discarded")
            if call.tasks and call.scope is not None:
                call.scope.cancel()
            self._transitions.tell()
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
            repeated = None if call.tool is None else self._repeated(call)  # a cut name may be another tool's
            self._refuse(call, repeated or Ending("invalid", error))
        else:
            self._transitions.move(call, "end")

    def _ready(self, event: ToolCallValidated) -> None:
        call = self._transitions.calls.get(event.call.call_id)
        if call is None or call.state != "ended" or call.tool is None:
            return
        call.call, call.open_wait = event.call, ("loop", event.time)
        if event.invocation is not None:
            call.bind(event.invocation)
        if self._is_too_late(call):
            return
        if self._by_hand:
            self._transitions.move(call, "hold")
        elif not self._is_over_budget(call):
            self._when_judged(call, self._start_or_hold)

    def _is_too_late(self, call: Call) -> bool:
        if call.state != "ended" or call.tool is None:
            return True  # it ended while it was judged
        if self._transitions.stopped is None and (self._transitions.end is None or self._may_start()):
            return False
        # While the stream continues, a stopped call of a resumed turn is held: the turn's end decides whether it stays
        # suspended, and until then an observation could only be `skipped`.
        self._transitions.move(call, "hold" if call.before is not None and self._transitions.end is None else "bad_end")
        return True

    def _start_or_hold(self, call: Call, judged: Judging | None) -> None:
        if self._is_too_late(call):
            return
        assert call.tool is not None, "else it is too late"
        # A call that only the turn's end releases is judged by the whole turn's tokens, even if it was judged before.
        holds = self._transitions.holds(call.tool)
        if holds and self._may_start() and self._is_over_budget(call):
            return
        if not self._accept(call, judged):
            return
        if not holds or call.before is not None or self._may_start():
            self._go(call)
        else:  # one that needs an approval takes its place once it is approved
            self._transitions.move(call, "hold" if call.needs or call.tool.deferred else "hold_place")

    def _when_judged(self, call: Call, then: Callable[[Call, Judging | None], None]) -> None:
        """Calls `then` with a call once the rules have judged it and the calls before it: calls keep their order."""
        # A call that was handed out when it was suspended was judged before.
        judging = None if self.rules is None or call.was_handed_out else self.rules.judge(call)
        if not self._judging and (judging is None or judging.is_done):
            then(call, judging)
            return
        begin_wait(call, "judging")
        self._judging[call] = judging, then
        if judging is not None and not judging.is_done:
            self._transitions.work(call, partial(self._judge, call, judging))

    async def _judge(self, call: Call, judging: Judging) -> None:
        with CancelScope() as call.scope:
            if self._transitions.stopped is None and call.state in ("ended", "held"):
                await judging.finish()
        if not judging.is_done:  # it was cancelled
            judging.drop()
        while self._judging:
            first, (judged, then) = next(iter(self._judging.items()))
            if judged is not None and not judged.is_done:
                return
            then(first, judged)
            del self._judging[first]

    def _stream_ended(self, event: StreamEnd) -> None:
        if self._transitions.end is None:  # a transform may repeat the event
            self._transitions.budgets.add(event.usage, self._options.known.usage)
        self._transitions.end = event
        if not self._may_start():
            self._transitions.move_all("bad_end", self._transitions.calls.values())
            return
        for call in list(self._transitions.calls.values()):
            # Checked for each call: one that starts at once may fail at once, and stop the others.
            if call.state == "held" and not self._by_hand and self._may_start() and not self._is_over_budget(call):
                self._go(call)

    def _may_start(self) -> bool:
        end = self._transitions.end
        return end is not None and self._transitions.stopped is None and end.ended_well

    def lacks_counts(self, end: StreamEnd) -> bool:
        """Returns whether there is a budget of tokens but the response that ended has no token counts."""
        return self._transitions.budgets.limits_tokens and tokens_of(end.usage) is None

    def _is_over_budget(self, call: Call) -> bool:
        exceeded = self._transitions.budgets.admit(call)
        if exceeded is not None:
            self._refuse(call, Ending("over_budget", exceeded))
        return exceeded is not None

    def _accept(self, call: Call, judged: Judging | None) -> bool:
        """Counts a valid call, and notes its approval and conflict key; refuses it and returns False if it was repeated
        too often, a rule refuses it, or the tool's own functions fail."""
        tool, _ = call.ready
        refused = self._repeated(call)
        if refused is None and judged is not None:
            refused, call.findings = judged.refused, judged.findings
            call.needs = max(call.needs, judged.needs)
        if refused is None:
            try:  # what a rule or an earlier step demands holds, whatever the tool says today
                if call.was_handed_out:
                    self.waiting.take_up(call)
                elif not call.needs and tool.needs_approval is not False:
                    call.needs = int(endings.needs_approval(call))
            except ToolFailed as error:
                refused = Ending("failed", error)
        if refused is None and tool.conflict_key is not None:
            refused = endings.keyed(call)
        if refused is not None:
            self._refuse(call, refused)
        return refused is None

    def _repeated(self, call: Call) -> Ending | None:
        most, made = self._limits.max_repeated_calls, call.call
        if most is None or call.before is not None:
            return None  # a resumed call was counted before
        if self._host.counts.count_call(made.name, arguments_in(made), made.arguments_text) <= most:
            return None
        return Ending("denied", CallRepeated(made.name, most))

    def _refuse(self, call: Call, ending: Ending) -> None:
        if call.before is None or self._options.seams.gate is None:
            self._transitions.move(call, "refused", ending)
        else:  # today's rules do not change what happened: a call that has run keeps its ending
            self._transitions.work(call, partial(self.waiting.refuse_unless_it_ran, call, ending))

    def _go(self, call: Call) -> None:
        waits = call.needs or call.ready[0].deferred or call.was_handed_out
        self._transitions.move(call, "wait" if waits else "queue")

    # -- approval --

    @property
    def undecided(self) -> list[Call]:
        """The calls that wait for an approval or an answer, or did when the block was left; none unless the turn ended
        well."""
        if not endings.ended_well(self._transitions.end):
            return []
        return [
            call
            for call in self._transitions.calls.values()
            if call.state == "waiting"
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

    # -- by hand --

    @property
    def waits_to_be_told(self) -> bool:
        """True while there are calls that start only when they are run by hand or approved."""
        if self._transitions.stopped is not None:
            return False
        return any(
            call.state == "waiting" or (call.state == "held" and self._by_hand)
            for call in self._transitions.calls.values()
        )

    def run(self, call_id: str) -> bool:
        """Lets a held call run; returns False if that changes nothing, since the call runs already or has ended.

        Raises:
            LocalProtocolError: calls start automatically here, or this one is unknown or not ready.
        """
        if not self._by_hand:
            now = "are left to you" if self._options.start in LEAVES_CALLS else "start automatically"
            raise LocalProtocolError(f"calls {now} here; to use run_call, pass start='manual' and tools=")
        call = self._transitions.call_of(call_id, "the call of a ToolCallValidated")
        if call.state in ("announced", "ended") and self._transitions.stopped is None:
            raise LocalProtocolError("the call is not ready; run it after its ToolCallValidated event")
        if call.state != "held" or call in self._judging:
            return False
        if not self._is_over_budget(call):
            self._when_judged(call, self._run_judged)
        self._transitions.tell()
        return True

    def _run_judged(self, call: Call, judged: Judging | None) -> None:
        if call.state == "held" and self._transitions.stopped is None and self._accept(call, judged):
            self._go(call)

    async def observed(self, call_id: str) -> Observation:
        """Waits for a call's observation, and returns it."""
        return await self._transitions.wait_observed(self._transitions.calls[call_id])


def _is_bound(call: Call) -> bool:
    if call.tool is None or not (call.tool.effect == "once" or call.needs or call.tool.background):
        return False
    # Middleware may have done the call's work itself.
    has_run = bool(call.attempts) or call.is_outside or call.is_wrapped
    return has_run or (call.seen is not None and call.seen.outcome == "unknown")
