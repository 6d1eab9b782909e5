"""What the dispatcher knows of one call, and the observation that comes of it."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal

import anyio
from anyio import CancelScope

from ..content import ToolResult
from ..errors import ApprovalPending, ToolError, ToolTimeout
from ..events import Observation, Outcome
from ..printable import one_line
from ..tools import Bound, Tool
from ..turn import ToolCall
from .scheduler import Job
from .store import call_fingerprint
from .threads import ThreadCall

__all__ = ["Ended", "Record"]


@dataclass(slots=True)
class Ended:
    """How a call ended."""

    outcome: Outcome
    error: ToolError | None = None
    value: Any = None
    content: str | None = None
    """What the model reads; made of the error by default."""
    result: ToolResult | None = None
    again: bool = False
    """Another attempt may help."""
    recorded: bool = False
    """It ended so in an earlier attempt, which a store remembers."""


class Record:
    """What is known of one call, from its announcement to its observation."""

    __slots__ = (
        "approval",
        "attempts",
        "bound",
        "call",
        "cancelled_at",
        "causes",
        "done",
        "due",
        "held",
        "job",
        "key",
        "progress_dropped",
        "released",
        "scope",
        "seen",
        "started_at",
        "thread",
        "timed_out",
        "tool",
        "unresponsive",
    )

    def __init__(self, call: ToolCall, key: str) -> None:
        self.call = call
        self.key = key  # its idempotency key
        self.tool: Tool | None = None
        self.bound: Bound | None = None
        self.held = False  # ready, and waiting for the end of the turn or for who runs it
        self.approval: Literal["none", "needed", "asked", "approved", "denied"] = "none"
        self.job: Job | None = None  # there once it has its place in the order
        self.seen: Observation | None = None
        self.done: anyio.Event | None = None  # made by who waits for the observation
        self.scope: CancelScope | None = None  # there while its task exists
        self.released = False  # it may run as far as its turn is concerned
        self.causes: tuple[int, ...] = ()  # what let it start, if that was no event of its own
        self.attempts = 0
        self.progress_dropped = 0  # reports that the consumer was too far behind for
        self.due = math.inf  # the loop's time at which its attempt times out
        self.cancelled_at = math.inf  # the loop's time
        self.unresponsive = False  # and that was told
        self.started_at: float | None = None
        self.thread: ThreadCall | None = None  # of the latest attempt
        self.timed_out: ToolTimeout | None = None  # its time was up, and more came of its cancellation

    @property
    def observed(self) -> bool:
        """It has its observation."""
        return self.seen is not None

    @property
    def label(self) -> str:
        """The call in a sentence: its tool, and its id, which may be anything."""
        return f"{self.tool.name if self.tool else one_line(self.call.name)}, call {one_line(self.call.call_id)}"

    @property
    def waits_for_approval(self) -> bool:
        """Somebody was asked about it, and nobody has decided."""
        return self.approval == "asked" and self.seen is None

    @property
    def waits_to_start(self) -> bool:
        """It was released, and its tool has not begun."""
        return self.released and not self.attempts and self.seen is None

    @property
    def undecided(self) -> bool:
        """The same; or its block was left meanwhile."""
        left = self.seen is not None and isinstance(self.seen.error, ApprovalPending)
        return self.approval == "asked" and (self.seen is None or left)

    @property
    def fingerprint(self) -> str:
        """A hash of the tool's name and the arguments as the model gave them."""
        assert self.tool is not None, "only a ready call is asked"
        return call_fingerprint(self.tool.name, self.call.arguments or {})

    def conflict_key(self) -> Hashable | None:
        """What the call works on. It raises what the tool's own function does, or where an argument is not there."""
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

    def observation(self, ended: Ended, content: str, *, still_running: bool, causes: tuple[int, ...]) -> Observation:
        """The last word about the call."""
        started = self.started_at
        return Observation(
            call_id=self.call.call_id,
            tool_name=self.tool.name if self.tool else self.call.name,
            outcome=ended.outcome,
            value=ended.value,
            error=ended.error,
            model_content=content,
            result=ended.result,
            index=self.call.index,
            schema_source=self.tool.schema_source if self.tool else None,
            owner=self.tool.owner if self.tool else None,
            schema_present=self.tool is not None and self.tool.boundary == "validated",
            validated=self.bound is not None and self.bound.validated,
            validator=self.tool.validator if self.tool else None,
            boundary=self.tool.boundary if self.tool else "validated",
            coercions=self.bound.coercions if self.bound else (),
            validation_error=str(ended.error) if ended.outcome == "invalid" else None,
            validated_args=self.bound.by_name if self.bound else None,
            observation_type="error" if ended.error is not None else type(ended.value).__name__,
            duration=None if started is None else time.monotonic() - started,
            attempts=self.attempts,
            idempotency_key=self.key,
            recorded=ended.recorded,
            still_running=still_running,
            causes=causes,
        )
