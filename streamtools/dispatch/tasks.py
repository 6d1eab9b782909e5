"""The places that calls have in the dispatcher's order, and the tasks that they run in."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, TypeAlias

import anyio
from anyio import CancelScope
from anyio.lowlevel import checkpoint

from ..errors import ToolFailed
from ..events import Event
from .dispatcher import Dispatcher
from .endings import before_it_started, cancelled
from .record import Ended, Record
from .running import Runner, failure
from .scheduler import Job
from .stragglers import watch

__all__ = ["CallTasks", "Start"]

Start: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
"""Runs a coroutine function in a task of its own."""


class CallTasks:
    """Puts the calls of one turn into the order, and runs each in a task when its turn comes.

    Args:
        dispatcher: says when a call's turn has come.
        runner: runs one.
        start: makes a task.
        observe: takes how a call ended. The first word about a call counts.
        grace_s: calls that go on for longer after they were cancelled are told of; None: nobody looks.
        emit: takes what is told of them.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        runner: Runner,
        start: Start,
        observe: Callable[[Record, Ended], None],
        grace_s: float | None,
        emit: Callable[[Event], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._runner = runner
        self._start = start
        self._observe = observe
        self._grace_s = grace_s
        self._emit = emit
        self._placed: list[Record] = []
        self._open = 0
        self._begun = 0  # tasks of calls that have begun, and not ended
        self._idle: anyio.Event | None = None

    # -- what is open --

    def opened(self) -> None:
        """Something has begun that `wait_idle` waits for."""
        self._open += 1

    def closed(self) -> None:
        """It has ended."""
        self._open -= 1
        if self._idle is not None and not self._open:
            self._idle.set()

    async def wait_idle(self) -> None:
        """Wait until nothing is open: no call runs, or waits for its turn to run."""
        while self._open:
            if self._idle is None or self._idle.is_set():
                self._idle = anyio.Event()
            await self._idle.wait()

    # -- places --

    def place(self, record: Record) -> bool:
        """Give the call its place in the order. A key that cannot be had is the call's failure: it might conflict."""
        tool = record.tool
        assert tool is not None, "only a ready call has a place"
        try:
            key = record.conflict_key()
            hash(key)
        except Exception as error:
            failed = ToolFailed(f"not run: the conflict_key of {tool.name} raised {type(error).__name__}")
            failed.__cause__ = error
            self._observe(record, Ended("failed", failed))
            return False
        job = Job(
            tool=tool.name,
            owner=self,
            key=key,
            shared=tool.effect == "pure",
            exclusive=tool.exclusive,
            tool_limit=tool.max_concurrency,
        )
        self._dispatcher.add(job, partial(self._launch, record))
        record.job = job
        self._placed.append(record)
        return True

    def release(self, record: Record, causes: tuple[int, ...]) -> None:
        """Let a call that has its place run when its turn comes.

        Args:
            record: the call.
            causes: what lets it start, if that was no event of its own.
        """
        assert record.job is not None, "it has its place"
        record.causes, record.released = causes, True
        self.opened()
        self._dispatcher.release(record.job)

    def drop(self, record: Record) -> None:
        """The call will not run: it gives up the place where it waits. One that has a task gives it up at its end."""
        if record.job is None or record.job.state not in ("held", "waiting"):
            return
        was_released = record.job.state == "waiting"
        self._dispatcher.finish(record.job)
        if was_released:
            self.closed()

    def give_up(self, reason: str | None, *, held: bool) -> None:
        """Leave the order with all that was released and has not started, the youngest first.

        Args:
            reason: why, for the record.
            held: also with what was not released.
        """
        for record in reversed(self._placed):  # in the order of the calls' places
            job = record.job
            if job is None or job.state not in ("waiting", "held"):
                continue
            if job.state == "waiting":
                self._observe(record, before_it_started(reason))  # and so it is dropped
            elif held:
                self._dispatcher.finish(job)

    def settle(self) -> None:
        """Give up every place that is left: no task is. An asyncio task that is cancelled by itself before its first
        step, as all are when the loop ends, never comes to do so."""
        for record in self._placed:
            if record.job is not None and record.job.state == "running":
                self._dispatcher.finish(record.job)

    # -- tasks --

    def _launch(self, record: Record) -> None:
        record.scope = CancelScope()
        self._start(partial(self._run, record))
        if self._grace_s is not None:
            grace_s, self._grace_s = self._grace_s, None
            watching = partial(watch, self._running, self._emit, grace_s)
            self._start(partial(watching, busy=lambda: self._begun > 0, wait_idle=self.wait_idle))

    def _running(self) -> Iterable[Record]:
        return [record for record in self._placed if record.scope is not None]

    async def _run(self, record: Record) -> None:
        """The task of one call."""
        assert record.scope is not None, "made when it was launched"
        assert record.job is not None, "what is launched has its place"
        self._begun += 1
        try:
            with record.scope:
                if anyio.current_effective_deadline() == -math.inf:  # cancelled meanwhile: it does not start
                    await checkpoint()
                self._observe(record, await self._runner.run(record))
        except Exception as error:  # what a tool's own task group made of its cancellation
            self._observe(record, failure(record, error))
        finally:
            record.scope = None
            # Also reached when the call was cancelled; a call that has its observation keeps it.
            if record.timed_out is not None:
                self._observe(record, Ended("timed_out", record.timed_out))
            self._observe(record, cancelled(record))
            self._begun -= 1
            self.closed()
            self._dispatcher.finish(record.job)
