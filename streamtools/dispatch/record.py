"""What the dispatcher knows of one call, and the observation that comes of it."""

from __future__ import annotations

import time
from typing import Any

from anyio import CancelScope

from ..content import ToolResult
from ..errors import ToolError
from ..events import Observation, Outcome
from ..tools import Bound, Tool
from ..turn import ToolCall
from .threads import ThreadCall

__all__ = ["Record"]


class Record:
    """What is known of one call, from its announcement to its observation."""

    __slots__ = ("bound", "call", "held", "observed", "scope", "started_at", "thread", "tool")

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.tool: Tool | None = None
        self.bound: Bound | None = None
        self.held = False  # ready, and waiting for the end of the turn
        self.observed = False
        self.scope: CancelScope | None = None  # there while its task exists
        self.started_at: float | None = None
        self.thread: ThreadCall | None = None

    def observation(
        self,
        outcome: Outcome,
        error: ToolError | None,
        value: Any,
        content: str,
        result: ToolResult | None,
        *,
        still_running: bool,
        causes: tuple[int, ...],
    ) -> Observation:
        """The last word about the call."""
        started = self.started_at
        return Observation(
            call_id=self.call.call_id,
            tool_name=self.tool.name if self.tool else self.call.name,
            outcome=outcome,
            value=value,
            error=error,
            model_content=content,
            result=result,
            index=self.call.index,
            schema_source=self.tool.schema_source if self.tool else None,
            owner=self.tool.owner if self.tool else None,
            schema_present=self.tool is not None and self.tool.boundary == "validated",
            validated=self.bound is not None and self.bound.validated,
            validator=self.tool.validator if self.tool else None,
            boundary=self.tool.boundary if self.tool else "validated",
            coercions=self.bound.coercions if self.bound else (),
            validation_error=str(error) if outcome == "invalid" else None,
            validated_args=self.bound.by_name if self.bound else None,
            observation_type="error" if error is not None else type(value).__name__,
            duration=None if started is None else time.monotonic() - started,
            attempts=0 if started is None else 1,
            still_running=still_running,
            causes=causes,
        )
