"""Runs the attempts at one call: where they run, the one step in which each begins, and the ending it leads to.

`_Attempt.begin` is the only place where "not started" becomes "begun", in this order: the call's state, the gate of the
run (for the first attempt that begins), `ToolStarted`, the clock. If an attempt ends before that step, the call
has not started; after it, the call has an end or is unknown.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from anyio import CancelScope
from anyio.lowlevel import current_token

from ..errors import (
    BeginRefused,
    LocalProtocolError,
    ToolError,
    ToolNotStarted,
    ToolOutcomeUnknown,
    ToolTimeout,
)
from ..events import StreamWarning, ToolProgress
from ..ground.own import own
from ..ground.text import class_name, type_name
from ..limits import Limits
from ..observers.contracts import ambient
from ..parts import OUTCOMES, FailedAttempt
from ..tools import Tool, Toolset
from .endings import ValueEndings, cancelled, failure
from .event_loop import Timer, call_soon
from .executor import Emit, Executor, Invocation
from .in_process import as_tool_error, run_in_process, stepped
from .log import log_blocked
from .options import DispatchOptions
from .pool import CallPool
from .states import Call, Ending, Host, Input, Tried, begin_wait, report_wait

if TYPE_CHECKING:
    from ..seams import GateView
    from .at_gate import AtGate

_LAG_S = 1.0  # after a call's deadline, until an executor that has not returned is cancelled

_LONGEST_DELAY_S = 60.0
_MOST_DOUBLINGS = 64

Happened: TypeAlias = Callable[[Call, Input], None]


@dataclass(slots=True, eq=False)
class CallAttempts:
    host: Host
    tools: Toolset
    limits: Limits
    pool: CallPool
    options: DispatchOptions
    happened: Happened
    due: Callable[[float, CancelScope], Timer]  # cancels an attempt's scope at a time of the loop
    ask: Callable[[Call, Any], Awaitable[Any]]
    is_left: Callable[[Call], bool]

    async def run(self, call: Call, first_scope: CancelScope | None = None) -> None:
        try:
            await self._run(call, first_scope)
        except BaseException:
            if call.entered is not None and call.ending is None:
                await self.at_gate.lose(call, call.entered)
            raise
        if call.entered is not None:  # without an ending it was cancelled between two attempts
            await self.at_gate.settle(call, call.entered, call.ending or cancelled(call))

    async def _run(self, call: Call, first_scope: CancelScope | None) -> None:
        tool, _ = call.ready
        view: GateView | None = None
        # The answer to a call that was handed out is on record.
        if self.options.seams.gate is not None and not call.is_outside and (tool.effect == "once" or call.needs):
            named = self.at_gate.named(call)
            if isinstance(named, Ending):
                call.ending = named
                return
            view = named
        latest: Ending | None = None  # of the attempts that have begun
        tries = 0
        while call.state in ("starting", "retrying"):  # else it was cancelled before its task ran
            tries += 1
            attempt, since = _Attempt(self, call, tool, view), time.monotonic()
            ending: Ending | None = None
            try:
                with first_scope or self._scope(call) as attempt.scope:
                    ending = await attempt.run()
            finally:
                first_scope = None
                if attempt.timer is not None:
                    attempt.timer.stop()
            ending = attempt.unfinished() if ending is None else ending
            if call.state not in ("stopping", "observed"):
                call.stops_at = math.inf
            latest = ending if attempt.begun else latest
            if not ending.again or tries > tool.retries or call.state in ("stopping", "observed"):
                call.ending = latest or ending  # an attempt that did not begin says nothing about earlier ones
                return
            self.happened(call, "again")
            delay_s = min(tool.retry_delay_s * 2.0 ** min(tries - 1, _MOST_DOUBLINGS), _LONGEST_DELAY_S)
            call.failed_attempts += (_failed(ending, tries, since, delay_s),)
            with self._scope(call):
                await anyio.sleep(delay_s)

    def _scope(self, call: Call) -> CancelScope:
        scope = self.host.new_scope()
        if not call.is_wrapped:
            call.scope = scope
        return scope

    async def ended(self, call: Call, value: Any) -> Ending:
        return await ValueEndings(call, call.tool, self.limits, self.options.known.any_value).ending(value)

    @property
    def at_gate(self) -> AtGate:
        from .at_gate import AtGate  # most runs have no gate

        gate = self.options.seams.gate
        assert gate is not None, "asked only where there is a gate"
        known, executors = self.options.known, self.options.executors
        made = gate, self.host, self.limits, known.any_value, self._known_arguments
        return AtGate(*made, executors, self.is_left)

    def arguments(self, call: Call) -> dict[str, Any]:
        return self._shown_arguments(call) if call.changed is None else dict(own(call.changed.plain))

    def _known_arguments(self, call: Call) -> dict[str, Any]:
        """Returns the arguments by which the gate knows a call: those that were shown, even if they were edited."""
        return self.arguments(call) if call.edited is None else self._shown_arguments(call)

    def invocation(self, call: Call, tool: Tool[..., Any], arguments: dict[str, Any]) -> Invocation:
        host, options = self.host, self.options
        made = Invocation(
            tool=tool.name,
            arguments=arguments,
            key=call.key,
            effect=tool.effect,
            attempt=call.attempts + 1,
            call_id=call.call.call_id,
            run_id=host.run_id,
            step=host.number,
            caller=call.call.caller,
            has_context=options.context is not None,
            context=options.context,
            waits_for=report_wait(call),
        )
        if tool.wants_context:
            made.services["ask"] = _asking(self.ask, call)
            for serve in options.seams.services:
                made.services |= serve(made)
        return made

    def _shown_arguments(self, call: Call) -> dict[str, Any]:
        assert call.call.arguments is not None, "only a ready call is run"
        return dict(self.tools.decode(call.call.name, call.call.arguments))


@dataclass(slots=True, eq=False)
class _Attempt:
    attempts: CallAttempts
    call: Call
    tool: Tool[..., Any]
    view: GateView | None  # for the gate, if its run has one that is asked about it
    executor: Executor | None = field(init=False)
    invocation: Invocation | None = None  # only where it is needed: a plain coroutine takes just its arguments
    begun: bool = False  # True once the tool's code may have run
    refused: Ending | None = None
    trial: Tried | None = None  # of its body, which has begun before
    leave_tool: Callable[[], None] | None = None  # what observers have around the tool
    scope: CancelScope = field(init=False)
    task: int | None = None  # the id of the task that runs an attempt elsewhere
    stops_at: float = math.inf  # the loop's time at which its time is up
    timer: Timer | None = None  # cancels it then
    number: int = field(init=False)  # of the call's attempts that begin, from 1
    dropped: int = 0  # reports, since the consumer was too far behind

    def __post_init__(self) -> None:
        tool, call = self.tool, self.call
        self.number = call.attempts + 1
        self.executor = None if call.is_outside else self.attempts.options.executors.get(tool.name)
        if call.trial is not None and call.trial.fits and not call.attempts:
            self.trial = call.trial
        elif self.executor is not None or not tool.is_async or tool.wants_context:
            arguments = self.attempts.arguments(call) if self.executor is not None else {}
            self.invocation = self.attempts.invocation(call, tool, arguments)

    async def run(self) -> Ending:
        call = self.call
        self.task = anyio.get_current_task().id if self.executor is not None else None
        try:
            if self.trial is not None:  # it steps the code itself
                value = await self.trial.kept(self.begin, self._report)
            else:
                value = await stepped(self._body(), self.scope, self.attempts.limits.cancel_grace, self._blocked)
        except BaseException as error:
            is_the_executors = isinstance(error, ToolNotStarted) and not error.by_tool
            found = as_tool_error(self.tool.name, error)
            return self.refused or self._raised(error, found, is_the_executors=is_the_executors)
        finally:
            if self.leave_tool is not None:
                self.leave_tool()
            if self.invocation is not None:
                call.left_running |= self.invocation.left_running
            if self.dropped and call.state != "observed":
                text = f"{self.dropped} reports were dropped: the consumer was too slow (max_waiting_progress)"
                self.attempts.host.emit(StreamWarning("progress_dropped", f"{call.label}: {text}"))
        if self.refused is not None:
            return self.refused
        if not self.begun:
            text = f"the executor of {self.tool.name} returned without awaiting begin()"
            return Ending("unknown", ToolOutcomeUnknown(text))
        # Still within the scope: writing the value is part of the call's time.
        ending = await self.attempts.ended(call, value)
        if ending.outcome == "ok" and (made := self.invocation or self.trial) is not None:
            ending.notes = made.notes or None
        return ending

    def unfinished(self) -> Ending:
        """Returns the ending of an attempt whose scope was cancelled."""
        call = self.call
        is_late = self.attempts.host.now() >= self.stops_at  # else all tasks were cancelled
        if not self.begun or not is_late or call.state in ("stopping", "observed"):
            return cancelled(call)
        return Ending("timed_out", ToolTimeout(call.seconds(self.attempts.limits)), again=True)

    async def begin(self) -> float:
        call, attempts = self.call, self.attempts
        if self.begun or self.refused is not None:
            raise LocalProtocolError("begin() was awaited twice; await it once for each attempt at a call")
        self._check()
        if self.view is not None and call.entered is None:
            self.refused = await attempts.at_gate.enter(call, self.view, self._check)
            if self.refused is not None:
                raise BeginRefused("not run: the gate did not let the call in")
        if self.view is not None and self.view.goes_on and self.invocation is not None:
            self.invocation.services |= attempts.at_gate.services(call)
        self.begun = True
        call.attempts += 1
        call.started_at = call.started_at or time.monotonic()
        attempts.happened(call, "begun")
        if self.trial is None:
            self._enter_tool()
        return self._start_clock()

    # -- how it begins --

    def _check(self) -> None:
        if self.call.state not in ("starting", "retrying"):
            self.refused = cancelled(self.call)
            raise BeginRefused("not run: the call is over")

    def _enter_tool(self) -> None:
        leave = self.attempts.host.enter_tool(self.call.call_id)
        if leave is None or self.executor is None:
            self.leave_tool = leave
            return
        assert self.invocation is not None, "an executor is given one"
        for around in ambient:
            self.invocation.carrier.update(around.carrier())
        if anyio.get_current_task().id == self.task:
            self.leave_tool = leave
        else:  # a context must be left in the task that entered it
            leave()

    def _start_clock(self) -> float:
        """Starts the call's clock, and returns the seconds that the executor must keep: infinite in this process, where
        the call's own scope keeps the time."""
        seconds = self.call.seconds(self.attempts.limits)
        if seconds == math.inf:
            return seconds
        now = self.attempts.host.now()
        self.stops_at = self.call.stops_at = now + seconds if self.trial is None else self.trial.due(now)
        self.timer = self.attempts.due(self.stops_at + (0.0 if self.executor is None else _LAG_S), self.scope)
        return math.inf if self.executor is None else seconds

    # -- where it runs --

    def _report(self, value: Any) -> None:
        """Takes the tool's reports in the event loop, without waiting; counts those that it drops."""
        call, host = self.call, self.attempts.host
        if call.state == "observed" or call.attempts != self.number:
            return
        if host.behind >= self.attempts.limits.max_waiting_progress:
            self.dropped += 1
        else:
            host.emit(ToolProgress(call.call.call_id, self.tool.name, value))

    def _body(self) -> Coroutine[Any, Any, Any]:
        executor, attempts = self.executor, self.attempts
        if executor is not None and self.invocation is not None:
            begin_wait(self.call, "executor")
            return _run_on(executor, self.invocation, self.begin, self._report)
        if self.call.is_outside:
            return _answered(self.call, self.begin)
        late = None if self.tool.is_async else _late_warning(self.call, attempts.host)
        most = attempts.limits.max_abandoned_threads
        return run_in_process(*self.call.take(), self.invocation, self.begin, self._report, attempts.pool, most, late)

    def _blocked(self, seconds: float) -> None:
        if self.executor is None and self.tool.is_async:  # else none of the tool's code runs in this loop
            self.attempts.host.emit(log_blocked(self.tool.name, self.call.label, seconds))

    # -- how it ends --

    def _raised(self, error: BaseException, found: ToolError, *, is_the_executors: bool) -> Ending:
        tool = self.tool.name
        if not self.begun:
            if isinstance(error, ToolNotStarted):
                return failure(error)
            return failure(ToolNotStarted(f"not run: the executor of {tool} raised {type_name(error)}"), error)
        if isinstance(error, ToolTimeout):
            seconds = self.call.seconds(self.attempts.limits)
            return Ending("timed_out", error if seconds == math.inf else ToolTimeout(seconds), again=True)
        if not isinstance(error, ToolError) or is_the_executors:
            lost = ToolOutcomeUnknown(f"the executor of {tool} raised {type_name(error)} after the call had begun")
            return failure(lost, error)
        return failure(found)


async def _answered(call: Call, begin: Callable[[], Awaitable[float]]) -> Any:
    assert call.pending is not None, "a call that is done outside is run when it was answered"
    await begin()
    return call.pending.value


def _asking(ask: Callable[[Call, Any], Awaitable[Any]], call: Call) -> Callable[[Any], Awaitable[Any]]:
    """Returns a function by which a tool asks. It does not keep the step alive in a thread that was given up."""
    method, known = weakref.WeakMethod(ask), weakref.ref(call)

    async def asks(question: Any) -> Any:
        asked, asking = method(), known()
        if asked is None or asking is None:
            raise ToolError("the tool can no longer ask: the run's step is over")
        return await asked(asking, question)

    return asks


def _late_warning(call: Call, host: Host) -> Callable[[], None]:
    """Returns a function that a given-up thread calls at its end, to emit a warning. It does not keep the step alive:
    once the step is gone, no warning is emitted."""
    step, label = weakref.ref(host), call.label

    def tell() -> None:
        host = step()
        if host is not None and not host.ended:
            host.emit(StreamWarning("late_result", f"{label}: ended after it was given up"))

    return partial(call_soon, current_token(), tell)


def _failed(ending: Ending, number: int, began: float, delay_s: float) -> FailedAttempt:
    error = ending.error
    kind = OUTCOMES[ending.outcome].error_type or class_name((error and error.__cause__) or error)
    return FailedAttempt(number, began, time.monotonic(), kind, delay_s)


async def _run_on(executor: Executor, invocation: Invocation, begin: Any, report: Emit) -> Any:
    return await executor.run(invocation, begin, report)
