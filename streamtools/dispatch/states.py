"""Defines the states of a call, the table of their transitions, and the one function that moves a call along it.

    announced -> ended -> held | asked | handed_out | queued -> starting -> running -> observed

An *input* is a thing that happens to a call. The row of a state and an input names the next state and the effects, in
their order: `Transitions` carries them out, and nothing else does. A pair without a row changes nothing. The state is
written first, so that an observer that decides or cancels in the middle of a row finds the call in its new state; the
rest of the row is void then.

`Call` is one call as the dispatcher sees it, `Host` the step and the run that it belongs to. `reports_of` makes events
of a running call's reports. `note_move` keeps for each call why it waits before it runs, and how long, from the states
that it is moved along.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
import weakref
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import anyio
import orjson
from anyio import CancelScope
from anyio.lowlevel import current_token

from ..content import ToolResult
from ..errors import LocalProtocolError, ToolError
from ..event_loop import call_soon
from ..events import Event, Observation, StreamWarning, ToolProgress
from ..parts import WAITS, FailedAttempt, Finding, Outcome, ToolCall, Wait, WaitReason
from ..text import one_line
from ..tools import LARGE_CHARS, Bound, Tool
from .budgets import Spent
from .pool import Job
from .timers import Timer

if TYPE_CHECKING:
    from .operations import Operation
    from .store import CallClaim

State: TypeAlias = Literal[
    "announced",  # its text streams
    "ended",  # its text is whole
    "held",  # valid, and waiting for the end of its turn, or for `run_call`
    "asked",  # waiting for an approval
    "handed_out",  # done outside, and waiting for its answer
    "queued",  # waiting for its place
    "starting",  # has its place, and none of its tool's code may have run
    "running",  # `begin` was granted
    "retrying",  # between two attempts
    "stopping",  # its code was told to end
    "observed",  # has its Observation
    "left_alone",  # is somebody else's to run, and never gets one here
]

OPEN: frozenset[State] = frozenset({"queued", "starting", "running", "retrying", "stopping"})
"""The states that a pipeline waits for."""

Input: TypeAlias = Literal[
    "leave_alone",  # calls are not run here
    "end",  # its text is whole
    "refused",  # it is cut, invalid, unknown, or was repeated too often
    "hold",  # valid, and must wait: for an approval at its turn's end, or for `run_call`
    "hold_place",  # the same, but it takes its place in the order already
    "ask",  # may start once it is approved
    "queue",  # may start
    "hand_out",  # may be done outside
    "answered",
    "approved",
    "denied",
    "granted",  # the pool has a place for it
    "begun",  # its executor awaits `begin`
    "again",  # the attempt is over, and another follows
    "done",  # the last attempt is over
    "cancelled",  # this call is to end
    "stopped",  # the block was left, a sibling failed, a time was over: all are to end
    "bad_end",  # the turn ended in a way that starts nothing
    "discarded",  # its answer is void; a task that runs its tool goes on
    "settled",  # no task is left
]

Effect: TypeAlias = Literal[
    "place",  # take a place in the order, if it has none
    "release",  # run when the place's turn comes
    "leave",  # give the place up
    "start",  # run in a task
    "cancel",  # cancel the task
    "ask",  # emit ApprovalRequested, and ask the approver in a task
    "resolve",  # emit ApprovalResolved
    "hand_out",  # emit AnswerRequested, unless the answer is on record
    "begin",  # emit ToolStarted
    "end_as_given",  # this and the rest make the Observation: here with the ending that the input brings
    "end_denied",
    "end_skipped",
    "end_undecided",  # skipped, with an ApprovalPending if the turn ended well
    "end_unanswered",  # suspended if the turn ended well and the block was left, else cancelled
    "end_unstarted",  # cancelled before any of its tool's code ran
    "end_cancelled",
    "end_discarded",
    "end_left_over",  # truncated, or skipped if its text was whole
]


class Row(NamedTuple):
    """The next state, and the effects on the way."""

    state: State
    effects: tuple[Effect, ...] = ()


TRANSITIONS: Mapping[tuple[State, Input], Row] = {
    ("announced", "leave_alone"): Row("left_alone"),
    ("announced", "end"): Row("ended"),
    ("announced", "refused"): Row("observed", ("end_as_given",)),
    ("announced", "cancelled"): Row("observed", ("end_unstarted",)),
    ("announced", "settled"): Row("observed", ("end_left_over",)),
    ("ended", "refused"): Row("observed", ("end_as_given",)),
    ("ended", "hold"): Row("held"),
    ("ended", "hold_place"): Row("held", ("place",)),
    ("ended", "ask"): Row("asked", ("ask",)),
    ("ended", "queue"): Row("queued", ("place", "release")),
    ("ended", "hand_out"): Row("handed_out", ("hand_out",)),
    ("ended", "cancelled"): Row("observed", ("end_unstarted",)),
    ("ended", "bad_end"): Row("observed", ("end_skipped",)),
    ("ended", "settled"): Row("observed", ("end_left_over",)),
    ("held", "refused"): Row("observed", ("leave", "end_as_given")),
    ("held", "ask"): Row("asked", ("ask",)),
    ("held", "queue"): Row("queued", ("place", "release")),
    ("held", "hand_out"): Row("handed_out", ("hand_out",)),
    ("held", "cancelled"): Row("observed", ("leave", "end_unstarted")),
    ("held", "stopped"): Row("observed", ("leave", "end_skipped")),
    ("held", "bad_end"): Row("observed", ("leave", "end_skipped")),
    ("held", "settled"): Row("observed", ("leave", "end_skipped")),
    ("asked", "approved"): Row("queued", ("cancel", "resolve", "place", "release")),
    ("asked", "hand_out"): Row("handed_out", ("cancel", "resolve", "hand_out")),
    ("asked", "denied"): Row("observed", ("cancel", "resolve", "end_denied")),
    ("asked", "refused"): Row("observed", ("cancel", "end_as_given")),
    ("asked", "cancelled"): Row("observed", ("cancel", "end_unstarted")),
    ("asked", "stopped"): Row("observed", ("cancel", "end_undecided")),
    ("asked", "bad_end"): Row("observed", ("cancel", "end_skipped")),
    ("asked", "settled"): Row("observed", ("cancel", "end_undecided")),
    ("handed_out", "answered"): Row("queued", ("cancel", "place", "release")),
    ("handed_out", "done"): Row("observed", ("cancel", "end_as_given")),
    ("handed_out", "refused"): Row("observed", ("cancel", "end_as_given")),
    ("handed_out", "cancelled"): Row("observed", ("cancel", "end_unanswered")),
    ("handed_out", "stopped"): Row("observed", ("cancel", "end_unanswered")),
    ("handed_out", "bad_end"): Row("observed", ("cancel", "end_unanswered")),
    ("handed_out", "settled"): Row("observed", ("cancel", "end_unanswered")),
    ("queued", "granted"): Row("starting", ("start",)),
    ("queued", "cancelled"): Row("observed", ("leave", "end_unstarted")),
    ("queued", "stopped"): Row("observed", ("leave", "end_unstarted")),
    ("queued", "bad_end"): Row("observed", ("leave", "end_skipped")),
    ("queued", "settled"): Row("observed", ("leave", "end_unstarted")),
    ("starting", "begun"): Row("running", ("begin",)),
    ("starting", "hand_out"): Row("handed_out", ("leave", "hand_out")),
    ("starting", "done"): Row("observed", ("end_as_given",)),
    ("starting", "cancelled"): Row("observed", ("cancel", "end_unstarted")),
    ("starting", "stopped"): Row("observed", ("cancel", "end_unstarted")),
    ("starting", "bad_end"): Row("observed", ("cancel", "end_skipped")),
    ("starting", "settled"): Row("observed", ("end_unstarted",)),
    ("running", "again"): Row("retrying"),
    ("running", "hand_out"): Row("handed_out", ("leave", "hand_out")),
    ("running", "done"): Row("observed", ("end_as_given",)),
    ("running", "cancelled"): Row("stopping", ("cancel",)),
    ("running", "stopped"): Row("stopping", ("cancel",)),
    ("running", "settled"): Row("observed", ("end_cancelled",)),
    ("retrying", "begun"): Row("running", ("begin",)),
    ("retrying", "done"): Row("observed", ("end_as_given",)),
    ("retrying", "cancelled"): Row("observed", ("cancel", "end_cancelled")),
    ("retrying", "stopped"): Row("observed", ("cancel", "end_cancelled")),
    ("retrying", "settled"): Row("observed", ("end_cancelled",)),
    ("stopping", "done"): Row("observed", ("end_as_given",)),
    ("stopping", "settled"): Row("observed", ("end_cancelled",)),
    ("announced", "discarded"): Row("observed", ("end_discarded",)),
    ("ended", "discarded"): Row("observed", ("end_discarded",)),
    ("held", "discarded"): Row("observed", ("leave", "end_discarded")),
    ("asked", "discarded"): Row("observed", ("cancel", "end_discarded")),
    ("handed_out", "discarded"): Row("observed", ("cancel", "end_discarded")),
    ("queued", "discarded"): Row("observed", ("leave", "end_discarded")),
    ("starting", "discarded"): Row("observed", ("cancel", "end_discarded")),
    ("running", "discarded"): Row("observed", ("end_discarded",)),
    ("retrying", "discarded"): Row("observed", ("cancel", "end_discarded")),
    ("stopping", "discarded"): Row("observed", ("end_discarded",)),
}


class HasState(Protocol):
    """Anything that the table moves."""

    state: State


def advance(call: HasState, happened: Input) -> tuple[Effect, ...]:
    """Moves a call along the table, and returns the effects to carry out; the only writer of its state."""
    row = TRANSITIONS.get((call.state, happened))
    if row is None:
        return ()
    call.state = row.state
    return row.effects


# -- one call, its step and its run ------------------------------------------------------------------------------------


_KEPT = 10_000  # the latest different calls are remembered; 16 bytes each


class Mention(Protocol):
    """Anything that names a call: a `ToolCall`, or an event about one."""

    @property
    def call_id(self) -> str:
        """The call's id."""
        ...


class Host(Protocol):
    """The step that calls belong to."""

    run_id: str
    """The run's id."""
    number: int
    """The step's number in its run."""
    ended: bool
    """True once nothing more may be emitted."""
    counts: RunCounts
    """The run's counts of its calls."""

    @property
    def conversation_id(self) -> str | None:
        """The conversation that the run belongs to."""
        ...

    @property
    def behind(self) -> int:
        """The number of events that the slowest of the consumers that the stream waits for has still to take."""
        ...

    def emit(self, event: Event) -> None:
        """Numbers an event and passes it to everybody. Never waits."""
        ...

    def words_of(self, error: BaseException) -> BaseException | None:
        """Returns an exception as a log may have it; None if it may have nothing of it."""
        ...

    def around_tool(self, call_id: str) -> Sequence[AbstractContextManager[object]]:
        """Returns the observers' context managers for a tool's body."""
        ...


@dataclass(slots=True)
class Ending:
    """The end of a call, or of one attempt at it."""

    outcome: Outcome
    error: ToolError | None = None
    value: Any = None
    content: str | Callable[[], str] | None = None
    """The text for the model, or a function that writes it; by default it is made from the error."""
    result: ToolResult | None = None
    again: bool = False
    """True if another attempt may help."""
    recorded: bool = False
    """True if the call ended so in an earlier dispatch, which a store has on record."""
    cut: bool = False
    """True if `content` is not the whole value."""


@dataclass(slots=True, eq=False, repr=False, weakref_slot=True)
class Call:
    """One call, from its announcement to its observation. Only `states.advance` writes `state`."""

    call: ToolCall
    key: str  # its idempotency key: its own, or once it is to run that of its operation
    state: State = "announced"
    tool: Tool | None = None
    bound: Bound | None = None
    ready: tuple[Tool, Bound] = field(init=False)  # both, once it was validated: only such a call is judged or run
    gated: bool = False  # it needs an approval
    counted: bool = False  # it has its place in the budgets
    findings: tuple[Finding, ...] = ()  # where its arguments come from, if it has a policy
    is_quoted: bool = False  # the model has copied it out of a result
    approvers: int = 1  # how many had to approve it when it was suspended
    asked: bool = False  # somebody was asked for that approval
    asking: CancelScope | None = None  # around the work of its approver, or around the wait for its answer
    out: Outside | None = None  # it is done outside, or was
    question: Outside | None = None  # the latest that it has asked while it ran
    conflict: Hashable | None = None  # its tool's conflict_key, applied to its arguments
    job: Job | None = None  # its place in the order, once it has one
    causes: tuple[int, ...] = ()  # the event that let it start, if that was none of its own
    operation: Operation | None = None  # what it asks for, by which it is known in the store
    claim: CallClaim | None = None  # in the store, once it has begun
    tasks: int = 0  # how many are alive: its own, or its approver's
    scope: CancelScope | None = None  # around the work that its own does now
    attempts: int = 0  # how many have begun
    started_at: float | None = None  # on time.monotonic
    due: float = math.inf  # the loop's time at which its attempt times out
    is_wrapped: bool = False  # its middleware's scope is its own, around those of its attempts
    refined: Mapping[str, Any] | None = None  # its arguments, if a person or its middleware has changed them
    edited: Mapping[str, Any] | None = None  # those of the person, as they were given
    is_decided: bool = False  # somebody has decided about it before, by the store
    is_edited: bool = False  # it is being changed so, and takes no other decision
    timer: Timer | None = None  # cancels the attempt then
    cancelled_at: float = math.inf  # the loop's time at which it was cancelled
    unresponsive: bool = False  # it went on past its grace, and the warning was emitted
    left_running: bool = False  # its tool goes on in a thread
    progress_dropped: int = 0  # reports dropped because the consumer was too far behind
    waiting: tuple[WaitReason, float] | None = None  # for what, and since when
    waits: tuple[Wait, ...] = ()
    failed_attempts: tuple[FailedAttempt, ...] = ()
    ending: Ending | None = None
    seen: Observation | None = None
    done: anyio.Event | None = None  # made when somebody waits for the observation

    @property
    def label(self) -> str:
        """The call's name in messages: its tool, and its id, which may be any text."""
        return f"{self.tool.name if self.tool else one_line(self.call.name)}, call {one_line(self.call.call_id)}"

    def bind(self, bound: Bound) -> None:
        """Gives the call of a known tool the arguments that it is to run with, which were validated."""
        assert self.tool is not None, "only a call of a known tool is validated"
        self.bound, self.ready = bound, (self.tool, bound)

    @property
    def call_id(self) -> str:
        """The call's id."""
        return self.call.call_id

    @property
    def idempotency_key(self) -> str:
        """The key under which decisions about the call are kept: its own, since nothing has begun."""
        return self.key

    @property
    def requires(self) -> int:
        """The number of people who have to approve it: no fewer than when it was suspended."""
        return max(self.ready[0].requires, self.approvers)

    @property
    def fingerprint(self) -> str:
        """A hash of the tool's name and the arguments as the model gave them."""
        from .store import call_fingerprint  # only calls that wait for an approval, or are claimed, need one

        return call_fingerprint(self.ready[0].name, self.call.arguments or {})

    def conflict_key(self) -> Hashable | None:
        """Returns the key of the thing that the call works on. Raises the error of the tool's own function, or of a
        missing argument."""
        tool, bound = self.ready
        key = tool.conflict_key
        if key is None:
            return None
        return tool.argument(bound, key) if isinstance(key, str) else key(bound.by_name)

    def observation(self, ending: Ending, content: str | Callable[[], str], causes: tuple[int, ...]) -> Observation:
        """Returns the call's Observation for this ending."""
        started, tool, bound = self.started_at, self.tool, self.bound
        return Observation(
            call_id=self.call.call_id,
            tool_name=tool.name if tool else self.call.name,
            outcome=ending.outcome,
            value=ending.value,
            error=ending.error,
            model_content=content,  # type: ignore[arg-type]  # written on demand
            result=ending.result,
            index=self.call.index,
            schema_source=tool.schema_source if tool else None,
            owner=tool.owner if tool else None,
            schema_present=tool is not None and tool.boundary == "validated",
            validated=bound is not None and bound.validated,
            validator=tool.validator if tool else None,
            boundary=tool.boundary if tool else "validated",
            coercions=bound.coercions if bound else (),
            validation_error=str(ending.error) if ending.outcome == "invalid" else None,
            validated_args=bound.by_name if bound else None,
            edited=self.edited,
            observation_type="error" if ending.error is not None else type(ending.value).__name__,
            duration=None if started is None else time.monotonic() - started,
            attempts=self.attempts,
            waits=self.waits,
            failed_attempts=self.failed_attempts,
            findings=self.findings,
            idempotency_key=self.key,
            recorded=ending.recorded,
            still_running=self.left_running,
            causes=causes,
        )


class Outside(Protocol):
    """A call while it is done outside, or while it waits for what it has asked."""

    fingerprint: str
    """A hash of what is shown to those who answer."""
    key: str
    """Under which the answer is on record."""
    record: bytes | None
    """The answer, once there is one."""
    question: Any
    """What a running call has asked."""
    answered: anyio.Event | None
    """Is set at the answer to that."""
    number: int
    """The number of the question, from 1."""

    def is_open(self, call: Call) -> bool:
        """Returns whether the call still waits for the answer."""
        ...

    async def body(self, begin: Callable[[], Awaitable[float]]) -> Any:
        """Begins the call, and returns the value that it was answered with."""
        ...


class LongResults(Protocol):
    """Keeps long results of a run, of which the model reads the beginning."""

    def shown(
        self, call: Call, step: int, content: str, result: ToolResult | None, *, trusted: bool
    ) -> tuple[str, ToolResult | None, OSError | None]:
        """Returns what the model is to read of a result: all, or the beginning, and then the rest is kept here."""
        ...

    def restore(self, seen: Observation, step: int) -> None:
        """Keeps again what a step on record, of that number, had kept."""
        ...

    def origin_of(self, seen: Observation) -> tuple[str, str, str | None, bool] | None:
        """Returns the text that the model reads of a kept result or of a piece of one, its tool, its call, and whether
        it is trusted; None for any other result."""
        ...


def reports_of(call: Call, tool: str, host: Host, most_waiting: int) -> Callable[[Any], None]:
    """Returns a function that takes the next attempt's reports, in the event loop, and never waits. While
    `most_waiting` events wait for the consumer, reports are dropped and counted."""
    attempt = call.attempts + 1

    def report(value: Any) -> None:
        if call.state == "observed" or call.attempts != attempt:
            return
        if host.behind >= most_waiting:
            call.progress_dropped += 1
        else:
            host.emit(ToolProgress(call.call.call_id, tool, value))

    return report


def late_warning(call: Call, host: Host) -> Callable[[], None]:
    """Returns a function that a given-up thread calls at its end, to emit a warning. The thread does not keep the step
    alive: nobody can be warned when that is gone."""
    step, label = weakref.ref(host), call.label

    def tell() -> None:
        host = step()
        if host is not None and not host.ended:
            host.emit(StreamWarning("late_result", f"{label}: ended after it was given up"))

    return partial(call_soon, current_token(), tell)


class RunCounts:
    """The counts of one run, over all its steps."""

    def __init__(self) -> None:
        self._calls: OrderedDict[bytes, int] = OrderedDict()
        self._useless: Counter[str] = Counter()
        self.spent = Spent()
        """What counts for `Limits(call_budget=..., token_budget=...)`."""

    def call(self, tool: str, arguments: Mapping[str, Any] | None, text: str) -> int:
        """Counts a call, of which `text` has the arguments as the model wrote them; returns how often it has been made,
        this time included.

        The order of the arguments and the way they were written do not matter, unless the arguments are large: writing
        large ones once more would hold up the event loop. Only a hash of each call is kept.
        """
        as_text = arguments is None or len(text) > LARGE_CHARS
        written = f"{tool} {text}".encode("utf-8", "surrogatepass") if as_text else _written([tool, arguments])
        identity = hashlib.blake2b(written, digest_size=16).digest()
        times = self._calls.pop(identity, 0) + 1
        self._calls[identity] = times
        if len(self._calls) > _KEPT:
            self._calls.popitem(last=False)
        return times

    def mark(self) -> Callable[[], None]:
        """Returns a function that takes back all counts of calls from now on, but for what they have spent."""
        calls, useless = self._calls.copy(), self._useless.copy()

        def take_back() -> None:
            self._calls, self._useless = calls, useless

        return take_back

    def useless(self, tool: str) -> int:
        """Counts a call that could not be used, of a tool, or of any tool that there is not (``""``); returns how many
        there were."""
        self._useless[tool] += 1
        return self._useless[tool]

    def were_useless(self, tool: str) -> int:
        """Returns how many such calls of a tool there were."""
        return self._useless[tool]


def _written(value: Any) -> bytes:
    """Returns the same text for equal values. orjson takes a tenth of json's time, and refuses integers beyond 64
    bits."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


# -- the waits of a call before it runs --------------------------------------------------------------------------------


WAITED_IN: dict[str, WaitReason] = {state: reason for reason, facts in WAITS.items() for state in facts.states}
"""The states in which a call waits, each with what for."""
_MOMENT_S = 0.001  # a passing wait that is shorter is not worth a record of its own


def note_move(call: Call, *, by_hand: bool) -> None:
    """Ends the wait that a move has ended, and begins that of the new state. The last wait of a call that runs now ends
    with the time of its `ToolStarted`."""
    reason = WAITED_IN.get(call.state)
    if reason is not None:
        begin_wait(call, "caller" if by_hand and reason == "turn_end" else reason)
    elif call.state != "running":
        end_wait(call, time.monotonic())


def begin_wait(call: Call, reason: WaitReason) -> None:
    """Begins a wait now, which ends the one that goes on: there is no time between the two."""
    waiting = call.waiting
    if waiting is None:
        call.waiting = (reason, time.monotonic())
    elif waiting[0] != reason:
        call.waiting = (reason, end_wait(call, time.monotonic()))


def end_wait(call: Call, now: float) -> float:
    """Ends the wait that goes on, if one does. Returns when the next one begins: earlier than now, if the wait was too
    short for a record."""
    if call.waiting is None:
        return now
    (reason, began), call.waiting = call.waiting, None
    if WAITS[reason].is_passing and now - began < _MOMENT_S:
        return began
    call.waits = (*call.waits, Wait(reason, began, now))
    return now


def report_wait(call: Call) -> Callable[[WaitReason], None]:
    """Returns a function by which an executor names what the call waits for, until it begins."""

    known = weakref.ref(call)  # a thread that was given up does not keep the call alive

    def waits_for(reason: WaitReason) -> None:
        call = known()
        if reason not in WAITS:
            label = "a call that is over" if call is None else call.label
            raise LocalProtocolError(f"{label}: expected a reason of parts.WAITS, got {one_line(reason)!r}")
        if call is not None and call.state in ("starting", "retrying"):
            begin_wait(call, reason)

    return waits_for
