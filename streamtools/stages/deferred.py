"""Lets a stage defer work that would block the event loop to wherever the chain's driver wants to do it.

A stage stays a plain function of its event. Where an event is so large that its work takes more than about 10 ms, the
stage returns a `Deferred` instead of the resulting events. The chain then holds everything behind it back, in order,
until the driver has done the work and called `Chain.resume`: a pipeline does it in a thread, within the call's timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ..errors import InvalidArguments
from ..events import Event, ToolCallEnd

__all__ = ["Deferred"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """Work that a stage has to do before any other event may pass it."""

    event: ToolCallEnd
    """The event that the work is about."""
    run: Callable[[], Iterable[Event]]
    """Does the work, in any thread, and returns the events that go on. It touches no shared state."""
    timeout_s: float | None = None
    """How long the work may take; None leaves that to the bounds on the work itself."""

    def refuse(self, why: str) -> list[Event]:
        """Returns the event with an invalid call, for work that is not done. `why` ends the sentence "they could not be
        ..."."""
        call = replace(self.event.call, status="invalid", problem="invalid_arguments", arguments=None)
        line = f"the arguments: could not be checked {why}"
        error = InvalidArguments(f"invalid arguments for {call.name}: {line}", problems=[line])
        return [replace(self.event, call=call, error=error)]
