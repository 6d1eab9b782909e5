"""One call as the dispatcher sees it, the step that it belongs to, and the Observation that is made of it."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
from anyio import CancelScope

from ..content import ToolResult
from ..errors import ToolError
from ..events import Event, Observation
from ..parts import Outcome, ToolCall
from ..text import one_line
from ..tools import Bound, Tool
from .claims import CallClaim
from .counts import RunCounts
from .scheduler import Job
from .states import State
from .store import call_fingerprint
from .timers import Timer

__all__ = ["Call", "Ending", "Host", "Mention"]


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
    def behind(self) -> int:
        """How many events are still to be taken by the slowest of the consumers that the stream waits for."""
        ...

    def emit(self, event: Event) -> None:
        """Numbers an event and passes it to everybody. Never waits."""
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
    content: str | None = None
    """The text for the model; by default it is made from the error."""
    result: ToolResult | None = None
    again: bool = False
    """True if another attempt may help."""
    recorded: bool = False
    """True if the call ended so in an earlier dispatch, which a store has on record."""
    cut: bool = False
    """True if `content` is not the whole value."""


class Call:
    """One call, from its announcement to its observation. Only `states.advance` writes `state`."""

    __slots__ = (
        "asked",
        "attempts",
        "bound",
        "call",
        "cancelled_at",
        "causes",
        "claim",
        "conflict",
        "done",
        "due",
        "ending",
        "gated",
        "job",
        "key",
        "left_running",
        "progress_dropped",
        "scope",
        "seen",
        "started_at",
        "state",
        "tasks",
        "timer",
        "tool",
        "unresponsive",
    )

    def __init__(self, call: ToolCall, key: str) -> None:
        self.state: State = "announced"
        self.call = call
        self.key = key  # its idempotency key
        self.tool: Tool | None = None
        self.bound: Bound | None = None
        self.gated = False  # it needs an approval
        self.asked = False  # somebody was asked for that approval
        self.conflict: Hashable | None = None  # its tool's conflict_key, applied to its arguments
        self.job: Job | None = None  # its place in the order, once it has one
        self.causes: tuple[int, ...] = ()  # the event that let it start, if that was none of its own
        self.claim: CallClaim | None = None  # in the store, once it has begun
        self.tasks = 0  # how many are alive: its own, or its approver's
        self.scope: CancelScope | None = None  # around the work that such a task does now
        self.attempts = 0  # how many have begun
        self.started_at: float | None = None  # on time.monotonic
        self.due = math.inf  # the loop's time at which its attempt times out
        self.timer: Timer | None = None  # cancels the attempt then
        self.cancelled_at = math.inf  # the loop's time at which it was cancelled
        self.unresponsive = False  # it went on past its grace, and the warning was emitted
        self.left_running = False  # its tool goes on in a thread
        self.progress_dropped = 0  # reports dropped because the consumer was too far behind
        self.ending: Ending | None = None
        self.seen: Observation | None = None
        self.done: anyio.Event | None = None  # made when somebody waits for the observation

    @property
    def label(self) -> str:
        """The call's name in messages: its tool, and its id, which may be any text."""
        return f"{self.tool.name if self.tool else one_line(self.call.name)}, call {one_line(self.call.call_id)}"

    @property
    def fingerprint(self) -> str:
        """A hash of the tool's name and the arguments as the model gave them."""
        assert self.tool is not None, "only a ready call is asked"
        return call_fingerprint(self.tool.name, self.call.arguments or {})

    def conflict_key(self) -> Hashable | None:
        """Returns the key of the thing that the call works on. Raises the error of the tool's own function, or of a
        missing argument."""
        assert self.tool is not None, "only a ready call is asked"
        assert self.bound is not None, "only a ready call is asked"
        named, key = self.bound.by_name, self.tool.conflict_key
        if key is None:
            return None
        if not isinstance(key, str):
            return key(named)
        if self.tool.schema_source == "typed_model":
            (whole,) = named.values()
            return whole.get(key) if isinstance(whole, dict) else getattr(whole, key)
        if self.tool.schema_source == "typed_signature":
            return named[key]  # type: ignore[no-any-return]
        return named.get(key)

    def observation(self, ending: Ending, content: str, causes: tuple[int, ...]) -> Observation:
        """Returns the call's Observation for this ending."""
        started, tool, bound = self.started_at, self.tool, self.bound
        return Observation(
            call_id=self.call.call_id,
            tool_name=tool.name if tool else self.call.name,
            outcome=ending.outcome,
            value=ending.value,
            error=ending.error,
            model_content=content,
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
            observation_type="error" if ending.error is not None else type(ending.value).__name__,
            duration=None if started is None else time.monotonic() - started,
            attempts=self.attempts,
            idempotency_key=self.key,
            recorded=ending.recorded,
            still_running=self.left_running,
            causes=causes,
        )
