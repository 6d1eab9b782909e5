"""Work of a stage that would hold up the event loop: named by the stage, done wherever the driver of the chain likes.

A stage stays a plain function of its event. Where an event is so large that its work takes more than about 10 ms, the
stage gives a `Deferred` instead of what comes of it. The chain then holds everything behind it back, in order, until
somebody has done the work and called `Chain.resume`: a pipeline does it in a thread, within the call's timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ..errors import InvalidArguments
from ..events import Event, ToolCallEnd

__all__ = ["Deferred"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """What a stage has to do before anything else may pass it."""

    event: ToolCallEnd
    """The event that it is about."""
    run: Callable[[], Iterable[Event]]
    """Do it, in any thread; returns the events that go on. It touches nothing that others use."""
    timeout_s: float | None = None
    """How long it may take; None leaves that to the bounds on the work itself."""

    def refuse(self, why: str) -> list[Event]:
        """The event if the work is not done: its call is invalid. `why` ends the sentence "they could not be ..."."""
        call = replace(self.event.call, status="invalid", problem="invalid_arguments", arguments=None)
        line = f"the arguments: could not be checked {why}"
        error = InvalidArguments(f"invalid arguments for {call.name}: {line}", problems=[line])
        return [replace(self.event, call=call, error=error)]
