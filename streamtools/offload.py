"""Does in a thread what stages have deferred, so that the event loop never stands still for a peer's bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import anyio
from anyio import to_thread

from .events import Event
from .stages.deferred import Deferred

__all__ = ["Deferring", "refuse_deferred", "settle_next"]


class Deferring(Protocol):
    """A chain, or a decoder with one."""

    @property
    def deferred(self) -> Deferred | None:
        """What has to be done before anything else comes out."""
        ...

    def resume(self, made: Iterable[Event], /) -> list[Event]:
        """Go on with what the work has made; returns the events that come out."""
        ...


async def settle_next(source: Deferring) -> list[Event]:
    """Does the work that `source` has deferred; returns the events that come out then. Perhaps more is deferred.

    A thread cannot be stopped: one that is given up, since the call's timeout or the caller's own time is over, goes on
    until its work is done or too much, which takes at most some 0.5 s.
    """
    work = source.deferred
    assert work is not None, "asked only where something is deferred"
    made: list[Event] | None = None
    with anyio.move_on_after(work.timeout_s):
        made = await to_thread.run_sync(lambda: list(work.run()), abandon_on_cancel=True)
    if made is None:
        made = work.refuse(f"within the call's timeout of {work.timeout_s:g} s")
    return source.resume(made)


def refuse_deferred(source: Deferring) -> list[Event]:
    """Refuses the calls whose judging `source` has deferred and nobody waits for any more; returns the events that come
    out then."""
    events: list[Event] = []
    while (work := source.deferred) is not None:
        events += source.resume(work.refuse("before the stream was ended"))
    return events
