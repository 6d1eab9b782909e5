"""The places of the calls of one pipeline, or of several that share them: limits, conflicts, threads."""

from __future__ import annotations

from collections.abc import Callable

from anyio import CapacityLimiter
from anyio.lowlevel import current_token

from ..errors import LocalProtocolError
from ..limits import Limits
from ..parts import WaitReason
from .scheduler import Job, Scheduler

__all__ = ["CallPool"]


class CallPool:
    """Lets calls start when limits and conflicts allow it. Each pipeline has its own, unless several share one:

        shared = CallPool(Limits(max_concurrency=32))
        async with pipeline(stream, tools=tools, pool=shared) as events: ...

    ``max_concurrency`` and ``max_threads``, each tool's ``max_concurrency``, ``conflict_key`` and ``exclusive`` then
    hold across all of them; tools are told apart by their names. The pipelines take turns, however many calls each has.
    A tool that runs a pipeline itself, and waits for it, must not share the pool that it was started by: it would hold
    a place while it waits for another.

    Args:
        limits: of these, ``max_concurrency`` and ``max_threads`` count here; all else is each pipeline's own.
    """

    def __init__(self, limits: Limits = Limits()) -> None:
        if not isinstance(limits, Limits):
            raise TypeError(f"limits is a streamtools.Limits(...), not {type(limits).__name__}")
        self.limits = limits
        self._scheduler = Scheduler(limits.max_concurrency)
        self._starts: dict[Job, Callable[[], None]] = {}
        self._threads: CapacityLimiter | None = None  # made in the event loop, when first needed
        self._loop: object = None

    @property
    def running(self) -> int:
        """The number of calls that run."""
        return self._scheduler.running

    @property
    def waiting(self) -> int:
        """The number of calls that wait, for a place or for the end of their turn."""
        return self._scheduler.alive - self._scheduler.running

    @property
    def threads(self) -> CapacityLimiter:
        """The places of sync tools."""
        if self._threads is None:
            self._threads = CapacityLimiter(self.limits.max_threads)
        return self._threads

    def join(self) -> None:
        """Takes calls of this event loop from now on; a pipeline calls this before its first call.

        Raises:
            LocalProtocolError: calls of another event loop are here.
        """
        loop = current_token()
        if loop != self._loop:
            if self._scheduler.alive:
                raise LocalProtocolError("a CallPool is shared within one event loop; make one for each")
            self._loop, self._threads = loop, None

    def add(self, job: Job, start: Callable[[], None]) -> None:
        """Gives a call its place in the order. `start` is called when the call may run, perhaps by an act of another
        pipeline; it must not wait, call the pool, or raise."""
        self._scheduler.add(job)
        self._starts[job] = start

    def release(self, job: Job) -> None:
        """Lets a call run when its turn comes."""
        self._start(self._scheduler.release(job))

    def holds_up(self, job: Job) -> WaitReason:
        """Returns what a call that was released waits for."""
        return self._scheduler.holds_up(job)

    def finish(self, job: Job) -> None:
        """Takes a call out of the order, since it is over or will never run, and starts those that may run now."""
        self._starts.pop(job, None)
        self._start(self._scheduler.finish(job))

    def _start(self, jobs: list[Job]) -> None:
        for job in jobs:
            self._starts.pop(job)()
