"""Runs the attempts at one call: where they run, the one step in which each begins, and the ending it leads to.

Theory of operation. Every call runs on an executor, in this process if no other is given (`run_in_process`), through
one contract. `_Attempt.begin` is the only place where "not started" becomes "begun". That step consists of, in this
order: the call's state, its claim in the store (for the first attempt that begins), `ToolStarted` and the clock. If an
attempt ends before that step, the call has not started; after it, the call has an end or is unknown. `Attempts.run` is
the body of a call's task. It leaves the call's ending at `Call.ending`, or lets its cancellation out; `Transitions`
makes the observation.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import anyio
from anyio import CancelScope
from pydantic_core import from_json

from ..content import AnsweredLater
from ..errors import (
    BeginRefused,
    LocalProtocolError,
    ModelRetry,
    ToolError,
    ToolFailed,
    ToolNotStarted,
    ToolOutcomeUnknown,
    ToolTimeout,
)
from ..events import StreamWarning
from ..limits import Limits
from ..parts import OUTCOMES, FailedAttempt
from ..telemetry.carrier import current_carrier
from ..text import class_name, type_name
from ..tools import Tool, Toolset
from ..tools.options import Middleware, ToolCallRequest
from ..tools.typed import as_json
from .approval import Deny, Resolution, denied
from .endings import ValueEndings, as_read, cancelled, failure, no_key, repeated
from .executor import Emit, Executor, Invocation
from .in_process import judged, run_in_process, stepped
from .log import log_blocked
from .options import DispatchOptions
from .pool import CallPool
from .states import Call, Ending, Host, Input, begin_wait, late_warning, report_wait, reports_of

if TYPE_CHECKING:
    from .store import CallClaim

LAG_S = 1.0  # after a call's deadline, until an executor that has not returned is cancelled

_LONGEST_DELAY_S = 60.0
_MOST_DOUBLINGS = 64
_NOT_KEPT = {
    "complete": ("result_not_kept", "keep its result"),
    "release": ("claim_not_released", "take its claim back"),
    "abandon": ("claim_not_abandoned", "note that its end is not known"),
}

Happened: TypeAlias = Callable[[Call, Input], None]
"""Moves a call along the table of states: it begins, or another attempt follows."""


@dataclass(slots=True, eq=False)
class Attempts:
    """Runs the calls of one turn, each in a task that the caller has started."""

    host: Host
    tools: Toolset
    limits: Limits
    pool: CallPool
    options: DispatchOptions
    happened: Happened
    due: Callable[[Call, CancelScope, float], None]
    """Has an attempt's scope cancelled so many seconds after `Call.due`."""
    ask: Callable[[Call, Any], Awaitable[Any]]
    """Asks those outside for something that a running call needs."""
    new_scope: Callable[[], CancelScope] = CancelScope
    """Makes a scope: the event loop's own type once that is known, since finding the loop costs as much as a scope."""

    async def run(self, call: Call) -> None:
        """Runs a call that has its place, again after a failure if its tool may be retried, and notes its ending."""
        try:
            await self._attempts(call)
        except BaseException:
            if call.claim is not None and call.ending is None:
                await call.claim.abandon()
            raise
        if call.claim is not None:
            await self._settle(call, call.claim, call.ending or cancelled(call))  # cancelled between two attempts

    async def _attempts(self, call: Call) -> None:
        tool, _ = call.ready
        if tool.operation is not None and not self._find_operation(call, tool):
            return
        begun: Ending | None = None  # the ending of the latest attempt that has begun
        tries = 0
        while call.state in ("starting", "retrying"):  # else it was cancelled before its task ran
            tries += 1
            attempt, began = _Attempt(self, call, tool), time.monotonic()
            ending: Ending | None = None
            with self._scope(call) as scope:
                ending = await attempt.run(scope)
            call.due = math.inf
            if call.timer is not None:
                call.timer.stop()
            ending = attempt.cut() if ending is None else ending
            begun = ending if attempt.begun else begun
            if not ending.again or tries > tool.retries or call.state in ("stopping", "observed"):
                call.ending = begun or ending  # an attempt that did not begin says nothing of earlier ones
                return
            self.happened(call, "again")
            delay_s = min(tool.retry_delay_s * 2.0 ** min(tries - 1, _MOST_DOUBLINGS), _LONGEST_DELAY_S)
            call.failed_attempts += (_failed(ending, tries, began, delay_s),)
            with self._scope(call):
                await anyio.sleep(delay_s)

    def _find_operation(self, call: Call, tool: Tool[..., Any]) -> bool:
        """Gives the call its operation, and its key; returns False if the tool's own function fails."""
        from .operations import Operation  # few tools have one

        conversation = self.host.conversation_id or ""
        # Calls at hand that have a name have no run that goes on: their conversation is what goes on.
        run = self.host.run_id if self.options.identity is None else conversation or self.options.identity
        scope_id = {"run": run, "conversation": conversation, "forever": ""}[tool.scope]
        try:
            call.operation = Operation.of(*call.ready, call.key, scope_id)
        except Exception as error:
            call.ending = no_key(tool.name, error, "operation")
            return False
        call.key = call.operation.key
        return True

    def _scope(self, call: Call) -> CancelScope:
        """Returns a scope for work on a call: the call's own, unless its middleware has that."""
        scope = self.new_scope()
        self.new_scope = type(scope)
        if not call.is_wrapped:
            call.scope = scope
        return scope

    async def ended(self, call: Call, value: Any) -> Ending:
        """Returns the ending of a call for which this value was found without running it here."""
        return await self._values(call).ending(value)

    def recorded(self, call: Call, found: Any) -> Ending:
        """Returns the ending that the store has on record."""
        ending = self._values(call).recorded(found)
        if call.operation is None or not ending.recorded or call.operation.has_made(found.result):
            return ending
        return repeated(ending)

    async def ran_before(self, call: Call, fingerprint: str) -> Ending | None:
        """Returns the ending of a call that has begun before, by the store; None if it has not. A call that may not run
        now, but has run, has the ending that it had.

        Args:
            call: the call, perhaps with arguments that are not valid any more.
            fingerprint: of the arguments that it was suspended with, if they are not valid any more.

        Raises:
            ToolNotStarted: the store failed, or has another call under its key.
        """
        from .store import CallClaim, call_fingerprint  # most calls are in no store

        store, tool, name, key = self.options.store, call.tool, call.call.name, call.key
        assert store is not None, "else nothing knows"
        if call.bound is not None and tool is not None:
            name = tool.name
            if tool.operation is not None and not self._find_operation(call, tool):
                return call.ending
            by_operation = None if call.operation is None else call.operation.fingerprint
            fingerprint = by_operation or call_fingerprint(name, self.claimed_arguments(call))
        claim = CallClaim(store, call.key, name, partial(self.store_failed, call))
        seconds = self.limits.tool_timeout if tool is None or tool.timeout is None else tool.timeout
        try:
            found = await claim.make(fingerprint, math.inf if seconds is None else seconds)
        except ToolOutcomeUnknown as error:
            return failure(error)
        if found is None:
            await claim.release()
        if found is None or (call.operation is not None and not call.operation.has_made(found.result)):
            call.key, call.operation = key, None  # it has not begun; another call may have done its operation
            return None
        return self.recorded(call, found)

    def _values(self, call: Call) -> ValueEndings:
        return ValueEndings(call, call.tool, self.limits, self.options.any_value)

    def arguments(self, call: Call) -> dict[str, Any]:
        """Returns a call's arguments as plain values, as its tool takes them."""
        if call.refined is not None:
            return dict(call.refined)
        return self._shown_arguments(call)

    def claimed_arguments(self, call: Call) -> dict[str, Any]:
        """Returns the arguments by which the store knows a call: those that were shown, also if they were edited."""
        return self.arguments(call) if call.edited is None else self._shown_arguments(call)

    def _shown_arguments(self, call: Call) -> dict[str, Any]:
        assert call.call.arguments is not None, "only a ready call is run"
        return dict(self.tools.decode(call.call.name, call.call.arguments))

    async def _settle(self, call: Call, claim: CallClaim, ending: Ending) -> None:
        """Puts a call's end on record, gives its claim back if the call may run again, or abandons it if the end is not
        known."""
        if OUTCOMES[ending.outcome].may_have_had_effect:
            await claim.abandon()
        elif isinstance(ending.value, AnsweredLater):
            await claim.complete(ending.value)
        elif OUTCOMES[ending.outcome].frees_claim or isinstance(ending.error, _without_effect(call)):
            await claim.release()
        elif ending.result is None and ending.error is not None:
            await claim.fail(ending.error)
        elif isinstance(await claim.complete(ending.result or as_read(ending)), ToolError):
            text = "its value is no JSON; the model's text of it is kept"
            self.host.emit(StreamWarning("result_not_kept", f"{call.label}: {text}"))

    def store_failed(self, call: Call, work: Literal["complete", "release", "abandon"], error: Exception) -> None:
        """Warns that the store could not do its work after a claim was made."""
        code, task = _NOT_KEPT[work]
        text = f"the store could not {task} ({type_name(error)}); the call stays claimed"
        self.host.emit(StreamWarning(code, f"{call.label}: {text}"))


def _without_effect(call: Call) -> tuple[type[ToolError], ...]:
    """Returns the errors of a call that is to run when it is made again."""
    # A call that is wanted with other arguments is another call, but may be the same operation.
    return (ToolNotStarted,) if call.operation is None else (ToolNotStarted, ModelRetry)


@dataclass(slots=True, eq=False)
class _Attempt:
    """One attempt at a call."""

    attempts: Attempts
    call: Call
    tool: Tool[..., Any]
    executor: Executor | None = field(init=False)
    invocation: Invocation = field(init=False)
    begun: bool = False
    """True once the tool's code may have run."""
    refused: Ending | None = None
    """Why the attempt could not begin."""
    managers: AbstractContextManager[object] | None = None
    """The observers' context managers, around the tool's body."""
    scope: CancelScope | None = None
    task: int | None = None
    """The id of the task that an attempt elsewhere is run by."""

    def __post_init__(self) -> None:
        host, options, tool, call = self.attempts.host, self.attempts.options, self.tool, self.call
        self.executor = options.executors.get(tool.name) if call.out is None else None
        travels = self.executor is not None or options.store is not None
        self.invocation = Invocation(
            tool=tool.name,
            arguments=self.attempts.arguments(call) if travels else {},
            key=call.key,
            effect=tool.effect,
            attempt=call.attempts + 1,
            call_id=call.call.call_id,
            run_id=host.run_id,
            step=host.number,
            has_context=options.context is not None,
            context=options.context,
            waits_for=report_wait(call),
            ask=_asking(self.attempts.ask, call) if tool.wants_context else None,
        )

    async def run(self, scope: CancelScope) -> Ending:
        """Runs the attempt within this scope, and returns its ending."""
        self.scope, self.task = scope, anyio.get_current_task().id if self.executor is not None else None
        limits, call = self.attempts.limits, self.call
        report = reports_of(call, self.tool.name, self.attempts.host, limits.max_waiting_progress)
        try:
            value = await stepped(self._body(report), scope, limits.cancel_grace, self._blocked)
        except BaseException as error:
            is_the_executors = isinstance(error, ToolNotStarted) and not error.by_tool
            found = judged(self.tool.name, error)
            if not isinstance(found, ToolError):  # a cancellation, or an interrupt
                raise found from None
            return self.refused or self._raised(error, found, is_the_executors=is_the_executors)
        finally:
            if self.managers is not None:
                self.managers.__exit__(None, None, None)
            call.left_running |= self.invocation.left_running
        if self.refused is not None:
            return self.refused
        if not self.begun:
            text = f"the executor of {self.tool.name} returned without having begun the call"
            return Ending("unknown", ToolOutcomeUnknown(text))
        return await self.attempts.ended(
            call, value
        )  # still within the scope: writing the value is part of the call's time

    def cut(self) -> Ending:
        """Returns the ending of an attempt whose scope was cancelled, by its deadline or on request."""
        call = self.call
        if not self.begun or call.state in ("stopping", "observed"):
            return cancelled(call)
        return Ending("timed_out", ToolTimeout(self._seconds()), again=True)

    async def begin(self) -> float:
        """Turns "not started" into "begun"; see `Begin`."""
        call, attempts = self.call, self.attempts
        if self.begun or self.refused is not None:
            raise LocalProtocolError("begin() is awaited once for each attempt at a call")
        self._check()
        store = attempts.options.store
        is_claimed = call.out is None and (self.tool.effect == "once" or call.gated)  # else its answer is on record
        if store is not None and call.claim is None and is_claimed:
            from .store import CallClaim  # most calls are in no store

            noted = None if call.operation is None else call.operation.noted
            await self._claim(CallClaim(store, call.key, self.tool.name, partial(attempts.store_failed, call), noted))
        self.begun = True
        call.attempts += 1
        call.started_at = call.started_at or time.monotonic()
        attempts.happened(call, "begun")
        self._enter_managers()
        return self._start_clock()

    # -- how it begins --

    def _check(self) -> None:
        if self.call.state not in ("starting", "retrying"):
            self.refused = cancelled(self.call)
            raise BeginRefused("not run: the call is over")

    async def _claim(self, claim: CallClaim) -> None:
        """Claims the call in the store; refuses to begin if the store has its end, or refuses the claim."""
        from .store import call_fingerprint

        call, invocation = self.call, self.invocation
        try:
            fingerprint = (
                call_fingerprint(invocation.tool, self.attempts.claimed_arguments(call))
                if call.operation is None
                else call.operation.fingerprint
            )
            begin_wait(call, "store")
            found = await claim.make(fingerprint, self._seconds(), partial(begin_wait, call, "elsewhere"))
            if found is not None:
                self.refused = self.attempts.recorded(call, found)
                raise BeginRefused("not run: the call has run before")
        except ToolError as error:
            self.refused = self.refused or failure(error)
            raise
        try:
            self._check()
        except BeginRefused:  # the turn ended, or the consumer left, while the claim was being made
            await claim.release()
            raise
        call.claim = claim

    def _enter_managers(self) -> None:
        managers = self.attempts.host.around_tool(self.call.call.call_id)
        if not managers:
            return
        held = managers[0]
        if len(managers) == 1:  # as nearly always
            held.__enter__()
        else:
            held = stack = ExitStack()
            for manager in managers:
                stack.enter_context(manager)
        if self.executor is None:
            self.managers = held
            return
        from ..telemetry.worker_spans import span_sink  # most calls run here

        self.invocation.carrier.update(current_carrier())
        self.invocation.take_spans = span_sink(self._lost_spans)
        if anyio.get_current_task().id == self.task:
            self.managers = held
        else:  # a context must be left in the task that entered it
            held.__exit__(None, None, None)

    def _lost_spans(self, text: str) -> None:
        self.attempts.host.emit(StreamWarning("worker_spans_dropped", f"{self.call.label}: {text}"))

    def _start_clock(self) -> float:
        """Starts the call's clock, and returns the seconds that the executor must keep: infinite in this process, where
        the call's own scope keeps the time."""
        seconds = self._seconds()
        if seconds == math.inf:
            return seconds
        assert self.scope is not None, "it runs"
        self.call.due = anyio.current_time() + seconds
        self.attempts.due(self.call, self.scope, 0.0 if self.executor is None else LAG_S)
        return math.inf if self.executor is None else seconds

    def _seconds(self) -> float:
        seconds = self.tool.timeout if self.tool.timeout is not None else self.attempts.limits.tool_timeout
        return math.inf if seconds is None else seconds

    # -- where it runs --

    def _body(self, report: Emit) -> Coroutine[Any, Any, Any]:
        executor, attempts = self.executor, self.attempts
        if executor is not None:
            begin_wait(self.call, "executor")
            return _run_on(executor, self.invocation, self.begin, report)
        if self.call.out is not None:
            return self.call.out.body(self.begin)
        late = None if self.tool.is_async else late_warning(self.call, attempts.host)
        most = attempts.limits.max_abandoned_threads
        return run_in_process(*self.call.ready, self.invocation, self.begin, report, attempts.pool, most, late)

    def _blocked(self, seconds: float) -> None:
        if self.executor is not None or not self.tool.is_async:  # none of the tool's code runs in this loop
            return
        text = f"kept the event loop from running for {seconds:.1f} s; await there, or make it a `def`, for a thread"
        self.attempts.host.emit(StreamWarning("loop_blocked", f"{self.call.label}: {text}"))
        log_blocked(self.tool.name, text)

    # -- how it ends --

    def _raised(self, error: BaseException, found: ToolError, *, is_the_executors: bool) -> Ending:
        tool = self.tool.name
        if not self.begun:
            if isinstance(error, ToolNotStarted):
                return failure(error)
            refused = ToolNotStarted(f"not run: the executor of {tool} raised {type_name(error)}")
            refused.__cause__ = error
            return failure(refused)
        if isinstance(error, ToolTimeout):
            seconds = self._seconds()
            return Ending("timed_out", error if seconds == math.inf else ToolTimeout(seconds), again=True)
        if not isinstance(error, ToolError) or is_the_executors:
            lost = ToolOutcomeUnknown(f"the executor of {tool} raised {type_name(error)} after the call had begun")
            lost.__cause__ = error
            return failure(lost)
        return failure(found)


def _asking(ask: Callable[[Call, Any], Awaitable[Any]], call: Call) -> Callable[[Any], Awaitable[Any]]:
    """Returns a function by which a tool asks; a thread that was given up does not keep the step alive by it."""
    method, known = weakref.WeakMethod(ask), weakref.ref(call)

    async def asks(question: Any) -> Any:
        asked, asking = method(), known()
        if asked is None or asking is None:
            raise ToolError("nobody can be asked any more: the run's step is over")
        return await asked(asking, question)

    return asks


def _failed(ending: Ending, number: int, began: float, delay_s: float) -> FailedAttempt:
    error = ending.error
    kind = OUTCOMES[ending.outcome].error_type or class_name((error and error.__cause__) or error)
    return FailedAttempt(number, began, time.monotonic(), kind, delay_s)


async def _run_on(executor: Executor, invocation: Invocation, begin: Any, report: Emit) -> Any:
    return await executor.run(invocation, begin, report)


# -- middleware ------------------------------------------------------------------------------------------------------

# Runs a call inside its middleware: that of the pipeline outside, that of its tool inside.
#
# Theory of operation. The middleware runs in the call's task, at the call's place in the order, around everything that
# `Attempts.run` does: attempts, claim, store. So a store keeps what the tool returned, and the middleware sees a
# recorded value like any other. All of it stands in one cancel scope, which is the call's.


async def run_inside(attempts: Attempts, call: Call) -> None:
    """Runs a call that has its place inside its middleware, of which there is some, and notes its ending."""
    tool, _ = call.ready
    middleware = (
        attempts.options.middleware if tool.middleware is None else (*attempts.options.middleware, tool.middleware)
    )
    await _Wrapped(attempts, call, middleware).run()


@dataclass(slots=True, eq=False)
class _Wrapped:
    attempts: Attempts
    call: Call
    middleware: tuple[Middleware, ...]
    ran: Ending | None = None
    """The ending that the call had inside its middleware."""
    given: Any = None
    """The value that the innermost middleware was given."""

    async def run(self) -> None:
        call, ending = self.call, None
        call.is_wrapped = True
        begin_wait(call, "middleware")
        try:
            with CancelScope() as call.scope:
                ending = await self._ending()
        finally:
            call.due = math.inf
            if call.timer is not None:
                call.timer.stop()
        # A tool that has run to its end has done so, even if the middleware behind it was cancelled.
        call.ending = ending or self.ran or cancelled(call)

    async def _ending(self) -> Ending:
        tool, _ = self.call.ready
        try:
            value = await self._layer(0, self._request())
        except BaseException as error:
            if self.ran is not None and error is self.ran.error:
                return self.ran
            found = judged(tool.name, error)
            if not isinstance(found, ToolError):  # a cancellation, or an interrupt
                raise
            return failure(found if found is error else _raised(tool.name, error))
        return await self._ended(value)

    async def _ended(self, value: Any) -> Ending:
        """Returns the ending of a call for which its middleware returned this."""
        ran = self.ran
        if ran is not None and value is self.given:
            return ran
        if isinstance(value, Deny):
            if not self.call.attempts:
                return denied(Resolution(False, value.reason))
            return Ending("failed", ToolFailed("the call was denied after it had run, by its middleware"))
        ending = await self.attempts.ended(self.call, value)
        ending.recorded = ran is not None and ran.recorded
        return ending

    def _request(self) -> ToolCallRequest:
        call, host = self.call, self.attempts.host
        tool, _ = call.ready
        return ToolCallRequest(
            call_id=call.call.call_id,
            tool_name=tool.name,
            arguments=MappingProxyType(self.attempts.arguments(call)),
            effect=tool.effect,
            run_id=host.run_id,
            step=host.number,
            idempotency_key=call.key,
            context=self.attempts.options.context,
            caller=call.call.caller,
        )

    async def _layer(self, at: int, request: ToolCallRequest) -> Any:
        """Calls one middleware with the rest as its `run`; behind the last one stands the call itself."""
        if at == len(self.middleware):
            return await self._run_inside()
        middleware, rest = self.middleware[at], _Rest(self, at + 1, request)
        value = await middleware(request, rest)
        if value is not None:
            return value
        if not rest.is_used:
            name = getattr(middleware, "__name__", type(middleware).__name__)
            raise ToolFailed(f"the middleware {name} returned nothing, and did not run the call")
        if rest.error is not None:
            raise rest.error
        return rest.value

    async def _run_inside(self) -> Any:
        call = self.call
        call.ending = None
        begin_wait(call, "loop")
        await self.attempts.run(call)
        ran = self.ran = call.ending or cancelled(call)
        if ran.error is not None:
            raise ran.error
        self.given = ran.value if ran.result is None else ran.result
        return self.given

    def refined(self, request: ToolCallRequest, arguments: Mapping[str, Any]) -> ToolCallRequest:
        """Gives the call other arguments; returns it as the next middleware sees it. Raises `InvalidArguments` if they
        do not fit the tool, a `LocalProtocolError` if they were not approved, or would conflict with other calls than
        those that wait."""
        call = self.call
        tool, before = call.ready
        if call.gated:
            raise LocalProtocolError(f"{call.label}: it was approved with the arguments that it has; deny it instead")
        plain: dict[str, Any] = from_json(as_json(tool.name, arguments))
        call.bind(tool.validate(plain))
        if call.conflict_key() != call.conflict:
            call.bind(before)
            raise LocalProtocolError(f"{call.label}: its other arguments have another conflict_key")
        call.refined = plain
        return replace(request, arguments=MappingProxyType(plain))


def _raised(tool: str, error: BaseException) -> ToolFailed:
    failed = ToolFailed(f"the middleware around {tool} raised {type_name(error)}")
    failed.__cause__ = error
    return failed


@dataclass(slots=True, eq=False)
class _Rest:
    """The `RunCall` of one middleware."""

    wrapped: _Wrapped
    at: int
    request: ToolCallRequest
    is_used: bool = False
    value: Any = None
    error: BaseException | None = None

    async def __call__(self, arguments: Mapping[str, Any] | None = None, /) -> Any:
        if self.is_used:
            raise LocalProtocolError(f"{self.wrapped.call.label}: it was run already; its tool's retries= run it again")
        request = self.request
        if arguments is not None:
            request = self.wrapped.refined(request, arguments)
        self.is_used = True
        try:
            self.value = await self.wrapped._layer(self.at, request)
        except BaseException as error:
            self.error = error
            raise
        return self.value
