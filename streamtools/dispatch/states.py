"""Defines the states of a call, the table of their transitions, and the one function that moves a call along it.

    announced -> ended -> held | waiting | queued -> starting -> running -> observed

The row of a state and an *input* names the next state and the effects, in their order, which only `Transitions` carries
out. A pair without a row changes nothing. The state is written first, so that an observer that decides or cancels in
the middle of a row finds the call in its new state; the rest of the row is then dropped.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import orjson
from anyio import CancelScope

from ..content import ToolResult
from ..errors import LocalProtocolError, ToolError
from ..events import Event, Observation, new_observation
from ..ground.own import FIXED, own
from ..ground.text import one_line
from ..limits import Limits
from ..parts import WAITS, FailedAttempt, Finding, Outcome, ToolCall, Wait, WaitReason
from ..tools import LARGE_CHARS, Bound, Tool
from .pool import Job, Spent

if TYPE_CHECKING:
    from ..seams import CallRule, Entered, Pending

State: TypeAlias = Literal[
    "announced",  # its text streams
    "ended",  # its text is whole
    "held",  # valid, and waiting for the end of its turn, or for `run_call`
    "waiting",  # for an approval or, if it runs outside, for its answer
    "queued",  # waiting for its place
    "starting",  # has its place, and none of its tool's code may have run
    "running",  # `begin` was granted
    "retrying",  # between two attempts
    "stopping",  # its code was told to end
    "observed",  # has its Observation
    "left_alone",  # is left to the caller to run, and never gets one here
]

OPEN: frozenset[State] = frozenset({"queued", "starting", "running", "retrying", "stopping"})

Input: TypeAlias = Literal[
    "leave_alone",  # calls are not run here
    "end",  # its text is whole
    "refused",  # it is cut, invalid, unknown, or was repeated too often
    "hold",  # valid, and must wait: for an approval at its turn's end, or for `run_call`
    "hold_place",  # the same, but it takes its place in the order already
    "wait",  # may start once it is approved, or runs outside
    "queue",  # may start
    "answered",  # it was approved, or has its answer
    "granted",  # the pool has a place for it
    "begun",  # its executor awaits `begin`
    "again",  # the attempt is over, and another follows
    "done",  # the last attempt is over, or what it waited for has ended it
    "cancelled",  # this call must end
    "stopped",  # the block was left, a sibling failed, a time limit passed: all must end
    "bad_end",  # the turn ended in a way that starts nothing
    "discarded",  # its answer was discarded; a task that runs its tool continues
    "settled",  # no task is left
]

Effect: TypeAlias = Literal[
    "place",  # take a place in the order, if it has none
    "release",  # run when the place's turn comes
    "leave",  # give the place up
    "start",  # run in a task
    "cancel",  # cancel the task
    "wait",  # ask for its approval or its answer, unless that is on record
    "resolve",  # emit ApprovalResolved, if it has waited for that
    "begin",  # emit ToolStarted
    "end_as_given",  # this and the rest make the Observation: here with the ending that the input brings
    "end_skipped",
    "end_waiting",  # its decision or answer may come later, if the turn ended well and the block was left
    "end_unstarted",  # cancelled before any of its tool's code ran
    "end_cancelled",
    "end_discarded",
    "end_left_over",  # truncated, or skipped if its text was whole
]


class Row(NamedTuple):
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
    ("ended", "wait"): Row("waiting", ("wait",)),
    ("ended", "queue"): Row("queued", ("place", "release")),
    ("ended", "cancelled"): Row("observed", ("cancel", "end_unstarted")),
    ("ended", "stopped"): Row("ended", ("cancel",)),
    ("ended", "bad_end"): Row("observed", ("cancel", "end_skipped")),
    ("ended", "settled"): Row("observed", ("end_left_over",)),
    ("held", "refused"): Row("observed", ("leave", "end_as_given")),
    ("held", "wait"): Row("waiting", ("wait",)),
    ("held", "queue"): Row("queued", ("place", "release")),
    ("held", "cancelled"): Row("observed", ("leave", "cancel", "end_unstarted")),
    ("held", "stopped"): Row("observed", ("leave", "cancel", "end_skipped")),
    ("held", "bad_end"): Row("observed", ("leave", "cancel", "end_skipped")),
    ("held", "settled"): Row("observed", ("leave", "end_skipped")),
    ("waiting", "answered"): Row("queued", ("cancel", "resolve", "place", "release")),
    ("waiting", "wait"): Row("waiting", ("cancel", "resolve", "wait")),
    ("waiting", "done"): Row("observed", ("cancel", "resolve", "end_as_given")),
    ("waiting", "cancelled"): Row("observed", ("cancel", "end_waiting")),
    ("waiting", "stopped"): Row("observed", ("cancel", "end_waiting")),
    ("waiting", "bad_end"): Row("observed", ("cancel", "end_waiting")),
    ("waiting", "settled"): Row("observed", ("cancel", "end_waiting")),
    ("queued", "granted"): Row("starting", ("start",)),
    ("queued", "cancelled"): Row("observed", ("leave", "end_unstarted")),
    ("queued", "stopped"): Row("observed", ("leave", "end_unstarted")),
    ("queued", "bad_end"): Row("observed", ("leave", "end_skipped")),
    ("queued", "settled"): Row("observed", ("leave", "end_unstarted")),
    ("starting", "begun"): Row("running", ("begin",)),
    ("starting", "wait"): Row("waiting", ("leave", "wait")),
    ("starting", "done"): Row("observed", ("end_as_given",)),
    ("starting", "cancelled"): Row("observed", ("cancel", "end_unstarted")),
    ("starting", "stopped"): Row("observed", ("cancel", "end_unstarted")),
    ("starting", "bad_end"): Row("observed", ("cancel", "end_skipped")),
    ("starting", "settled"): Row("observed", ("end_unstarted",)),
    ("running", "again"): Row("retrying"),
    ("running", "wait"): Row("waiting", ("leave", "wait")),
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
    ("ended", "discarded"): Row("observed", ("cancel", "end_discarded")),
    ("held", "discarded"): Row("observed", ("leave", "cancel", "end_discarded")),
    ("waiting", "discarded"): Row("observed", ("cancel", "end_discarded")),
    ("queued", "discarded"): Row("observed", ("leave", "end_discarded")),
    ("starting", "discarded"): Row("observed", ("cancel", "end_discarded")),
    ("running", "discarded"): Row("observed", ("end_discarded",)),
    ("retrying", "discarded"): Row("observed", ("cancel", "end_discarded")),
    ("stopping", "discarded"): Row("observed", ("end_discarded",)),
}


class HasState(Protocol):
    state: State


def advance(call: HasState, happened: Input) -> tuple[Effect, ...]:
    """Moves a call along the table, and returns the effects to carry out; the only writer of its state."""
    row = TRANSITIONS.get((call.state, happened))
    if row is None:
        return ()
    call.state = row.state
    return row.effects


# -- one call, its step and its run --


Listeners: TypeAlias = dict[type[Event], Callable[[Any], None]]


class Mention(Protocol):
    @property
    def call_id(self) -> str: ...


class Host(Protocol):
    run_id: str
    number: int  # the step's number in its run
    ended: bool  # True once nothing more may be emitted
    counts: RunCounts
    new_scope: Callable[[], CancelScope]  # of the event loop's own type: finding the loop costs as much as a scope
    now: Callable[[], float]  # its time

    @property
    def conversation_id(self) -> str | None: ...

    @property
    def behind(self) -> int:
        """How many events the slowest consumer has yet to take, among those that the stream waits for."""
        ...

    def emit(self, event: Event) -> None:
        """Numbers an event and passes it to observers and consumers. Never waits."""
        ...

    def words(self, error: BaseException) -> BaseException | None: ...

    def enter_tool(self, call_id: str) -> Callable[[], None] | None:
        """Enters the observers' contexts around a tool; returns a function that leaves them, or None."""
        ...


@dataclass(slots=True)
class Ending:
    outcome: Outcome
    error: ToolError | None = None
    value: Any = None
    content: str | Callable[[], str] | None = None
    """The text for the model, or a function that writes it; by default it is made from the error."""
    result: ToolResult | None = None
    again: bool = False  # True if another attempt may help
    recorded: bool = False  # True if the call ended so in an earlier dispatch, which a store has on record
    cut: bool = False  # True if `content` is not the whole value
    notes: Mapping[str, Any] | None = None
    undone: bool = False  # True if the call had begun as its arguments came, and its error's cause is why it is void


class Waited(Protocol):
    """One thing that a call waits for, or has waited for."""

    pending: Pending

    @property
    def value(self) -> Any: ...  # the answer, once there is one

    def cancel(self) -> None: ...  # the approver's work, and the look for what is on record


class Tried(Protocol):
    """The body of a call, begun before the call has ended; see `trials`."""

    began: float | None  # on time.monotonic
    ended: float | None
    notes: dict[str, Any] | None

    @property
    def fits(self) -> bool: ...  # the call's own attempt may take it up: its arguments have turned out to be these

    def due(self, now: float) -> float: ...  # the loop's time at which the call must end

    async def kept(self, begin: Callable[[], Awaitable[float]], report: Callable[[Any], None]) -> Any: ...

    async def wait_over(self) -> None: ...

    def drop(self) -> None: ...  # unless it was taken up

    def make_room(self, waiting: Call) -> None: ...

    def leave(self) -> None: ...  # its place

    @property
    def is_told(self) -> bool: ...  # its ToolStarted is out: it reads arguments that still come

    def ends_before(self, then: Callable[[], None]) -> bool: ...  # calls it once the body is over, if that still runs

    @property
    def lost(self) -> ToolError | None: ...  # why it could not be undone


class Changed(NamedTuple):
    """Arguments of a person or of the call's middleware that replace the model's."""

    plain: Mapping[str, Any]
    edited: Mapping[str, Any] | None = None  # the person's, as they were given


@dataclass(slots=True, eq=False, repr=False, weakref_slot=True)
class Call:
    """One call, from its announcement to its observation. Only `states.advance` writes `state`."""

    call: ToolCall
    key: str  # its idempotency key: its own or, before it runs, the one by which its run's gate knows it
    before: Pending | None = None  # what it waited for when it was suspended, in an earlier step
    state: State = "announced"
    tool: Tool | None = None
    ready: tuple[Tool, Bound] = None  # type: ignore[assignment]  # set once valid: only such a call is judged or run
    needs: int = 0  # how many people must approve it, unless its tool requires more; 0: no approval
    counted: bool = False  # it has its place in the budgets
    findings: tuple[Finding, ...] = ()  # what the rules have found about its arguments
    pending: Waited | None = None  # the latest that it waits for, or has waited for
    conflict: Hashable | None = None  # its tool's conflict_key, applied to its arguments
    job: Job | None = None  # its place in the order, once it has one
    trial: Tried | None = None  # of its body, begun before it has ended
    entered: Entered | None = None  # at the gate of its run, once it has begun
    tasks: int = 0  # how many work for it now: the one that runs it, or those that judge it, ask, or look
    scope: CancelScope | None = None  # around what its task does now
    attempts: int = 0  # how many have begun
    started_at: float | None = None  # on time.monotonic
    stops_at: float = math.inf  # the loop's time at which its code was told to stop, or will be
    is_wrapped: bool = False  # its middleware's scope is its own, around those of its attempts
    changed: Changed | None = None  # its arguments, if they are not the model's
    left_running: bool = False  # its tool still runs in a thread
    open_wait: tuple[WaitReason, float] | None = None  # for what, and since when
    waits: tuple[Wait, ...] = ()  # those that are over
    failed_attempts: tuple[FailedAttempt, ...] = ()
    ending: Ending | None = None  # noted by its task, which makes its Observation from it
    seen: Observation | None = None

    @property
    def label(self) -> str:
        return f"{self.tool.name if self.tool else one_line(self.call.name)}, call {one_line(self.call.call_id)}"

    @property
    def bound(self) -> Bound | None:
        return self.ready and self.ready[1]

    @property
    def edited(self) -> Mapping[str, Any] | None:
        return None if self.changed is None else self.changed.edited

    def bind(self, bound: Bound) -> None:
        assert self.tool is not None, "only a call of a known tool is validated"
        self.ready = self.tool, bound

    def seconds(self, limits: Limits) -> float:
        """Returns how long it may run; infinite if there is no limit."""
        return seconds_of(self.tool, limits)

    def change(self, bound: Bound, plain: Mapping[str, Any], edited: Mapping[str, Any] | None = None) -> None:
        """Replaces the model's arguments."""
        self.bind(bound)
        self.changed = Changed(plain, edited)

    def take(self) -> tuple[Tool, Bound]:
        """Returns what one attempt runs, which may change it; keeps a copy for the next one, and for the record."""
        tool, bound = taken = self.ready
        values = bound.by_name
        if bound.kwargs is not values or not FIXED.issuperset(map(type, values.values())):  # else it cannot change
            self.bind(tool.copied(bound))
        return taken

    @property
    def call_id(self) -> str:
        return self.call.call_id

    @property
    def was_handed_out(self) -> bool:
        """True if it was suspended after it was handed out, and so was approved and judged before."""
        return self.before is not None and self.before.kind == "answer"

    @property
    def is_outside(self) -> bool:
        return self.pending is not None and self.pending.pending.kind == "answer"

    @property
    def fingerprint(self) -> str:
        from ..seams import call_fingerprint  # only calls that wait, or enter a gate, need one

        return call_fingerprint(self.ready[0].name, self.call.arguments or {})

    def conflict_key(self) -> Hashable | None:
        tool, bound = self.ready
        key = tool.conflict_key
        if key is None:
            return None
        return tool.argument(bound, key) if isinstance(key, str) else key(own(bound.by_name))

    def _ended_at(self) -> float:
        trial = self.trial
        is_of_trial = trial is not None and trial.ended is not None and trial.fits and self.attempts == 1
        return trial.ended if is_of_trial else time.monotonic()  # type: ignore[union-attr,return-value]

    def observation(self, ending: Ending, content: str | Callable[[], str], causes: tuple[int, ...]) -> Observation:
        started, tool, bound = self.started_at, self.tool, self.ready and self.ready[1]
        return new_observation(
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
            duration=None if started is None else self._ended_at() - started,
            attempts=self.attempts,
            waits=self.waits,
            failed_attempts=self.failed_attempts,
            findings=self.findings,
            idempotency_key=self.key,
            recorded=ending.recorded,
            still_running=self.left_running,
            notes=ending.notes,
            causes=causes,
        )


def seconds_of(tool: Tool | None, limits: Limits) -> float:
    seconds = limits.tool_timeout if tool is None or tool.timeout is None else tool.timeout
    return math.inf if seconds is None else seconds


_MOST_REMEMBERED = 10_000  # different calls, the latest
_SHORT = 64  # bytes of a call that is remembered as it is; of a longer one a hash is


class RunCounts:
    def __init__(self) -> None:
        self._calls: OrderedDict[bytes, int] = OrderedDict()
        self._most_times = 0  # that one call was made
        self._useless: dict[str, int] = {}
        self.deaf: list[tuple[CallRule, str]] = []  # the rules that failed to hear an event, with the error's class
        self.spent = Spent()  # what counts for `Limits(call_budget=..., token_budget=...)`

    def count_call(self, tool: str, arguments: Mapping[str, Any] | None, text: str) -> int:
        """Returns how often the call has been made, this time included. The order of the arguments and the way they
        were written do not matter, unless they are large: writing large ones once more would hold up the event loop."""
        as_text = arguments is None or len(text) > LARGE_CHARS
        written = f"{tool} {text}".encode("utf-8", "surrogatepass") if as_text else _written([tool, arguments])
        identity = written if len(written) <= _SHORT else hashlib.blake2b(written, digest_size=16).digest()
        times = self._calls.pop(identity, 0) + 1
        self._calls[identity] = times
        self._most_times = max(self._most_times, times)
        if len(self._calls) > _MOST_REMEMBERED:
            self._calls.popitem(last=False)
        return times

    def have_room(self, calls: int, most: int | None) -> bool:
        """Returns whether no call can be repeated too often by `calls` more calls."""
        return most is None or self._most_times + calls <= most

    def mark(self) -> Callable[[], None]:
        """Returns a function that undoes all later counts of calls, except for what they have spent."""
        calls, useless = self._calls.copy(), self._useless.copy()

        def take_back() -> None:
            self._calls, self._useless = calls, useless

        return take_back

    def count_useless(self, tool: str) -> int:
        """Counts a call of a tool, or of any unknown tool (``""``), that could not be used; returns how many there
        were."""
        times = self._useless[tool] = self.were_useless(tool) + 1
        return times

    def were_useless(self, tool: str) -> int:
        return self._useless.get(tool, 0)


def _written(value: Any) -> bytes:
    """Returns the same text for equal values. orjson is ten times as fast, and refuses integers beyond 64 bits."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


# -- the waits of a call before it runs --


WAITED_IN: dict[str, WaitReason] = {state: reason for reason, facts in WAITS.items() for state in facts.states}
_MOMENT_S = 0.001  # a passing wait that is shorter is not worth a record of its own


def note_move(call: Call, *, by_hand: bool) -> None:
    """Ends the wait that a move has ended, and begins that of the new state. The last wait of a call that runs now ends
    with the time of its `ToolStarted`."""
    if call.state == "waiting":
        return  # its effect notes for what
    reason = WAITED_IN.get(call.state)
    if reason is not None:
        begin_wait(call, "caller" if by_hand and reason == "turn_end" else reason)
    elif call.state != "running":
        end_wait(call, time.monotonic())


def begin_wait(call: Call, reason: WaitReason) -> None:
    """Begins a wait now, and ends the current one, so that no time lies between the two."""
    open_wait = call.open_wait
    if open_wait is None:
        call.open_wait = (reason, time.monotonic())
    elif open_wait[0] != reason:
        call.open_wait = (reason, end_wait(call, time.monotonic()))


def end_wait(call: Call, now: float) -> float:
    """Ends the current wait, if there is one. Returns when the next one begins: earlier than now, if the wait was too
    short for a record."""
    if call.open_wait is None:
        return now
    (reason, began), call.open_wait = call.open_wait, None
    if WAITS[reason].is_passing and now - began < _MOMENT_S:
        return began
    call.waits = (*call.waits, Wait(reason, began, now))
    return now


def report_wait(call: Call) -> Callable[[WaitReason], None]:
    known = weakref.ref(call)  # a thread that was given up does not keep the call alive

    def waits_for(reason: WaitReason) -> None:
        call = known()
        if reason not in WAITS:
            label = "a call that is over" if call is None else call.label
            raise LocalProtocolError(f"{label}: expected a reason of parts.WAITS, got {one_line(reason)!r}")
        if call is not None and call.state in ("starting", "retrying"):
            begin_wait(call, reason)

    return waits_for
