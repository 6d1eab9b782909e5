"""The calls of one turn: when each may start, and the one event that says how it ended.

Theory of operation. A call is announced (`ToolCallStart`), ends (`ToolCallEnd`), and is ready (`ToolCallReady`) or not.
What is not ready is observed at once. What is ready takes its place in the dispatcher's order, and is released by its
tool's effect: ``pure`` and ``idempotent`` calls at once, while the stream goes on; ``once`` calls when the turn has
ended well. A turn that ended in any other way starts nothing more. Whatever happens, each call gets exactly one
`Observation`: `_observe` is the only place that makes one, and it does so once per call; `settle`, called last,
observes what is left. A call that will never run gives up its place at once, the youngest first, so that none of its
siblings starts instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Literal, TypeAlias

import anyio
from anyio import CancelScope
from anyio.lowlevel import checkpoint

from ..errors import CallCancelled, CallSkipped, CallTruncated, InvalidArguments, LocalProtocolError, ToolFailed
from ..events import (
    Event,
    Observation,
    StreamEnd,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
    Warning,
)
from ..limits import Limits
from ..tools import Tool, Toolset
from ..turn import WELL_ENDED, ToolCall
from .content import error_content
from .dispatcher import Dispatcher
from .record import Ended, Record
from .refusals import repeated, try_again, unknown_tool
from .running import Host, failure, run
from .scheduler import Job

__all__ = ["Calls", "DispatchPolicy"]

DispatchPolicy: TypeAlias = Literal["auto", "early", "turn_end", "manual"]
"""When ready calls start. ``auto``: by the tool's effect. ``early``: all at their own end marker, so that a result may
exist for a turn that then fails. ``turn_end``: none before the turn has ended well. ``manual``: none by itself; see
`Pipeline.run`."""

_LOOKS = 4  # at what should stop, within the grace

Start: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
"""Runs a coroutine function in a task of its own."""


class Calls:
    """Runs the calls of one turn.

    Args:
        dispatcher: says when a call's turn has come.
        tools: what may be called.
        limits: times and sizes.
        policy: when calls start.
        host: the step.
        start: runs a call in a task of its own.
        watch: in one more such task, which ends only when it is cancelled, look for calls that do not stop.
    """

    listens_to = (ToolCallStart, ToolCallEnd, ToolCallReady, StreamEnd)

    def __init__(
        self,
        dispatcher: Dispatcher,
        tools: Toolset,
        limits: Limits,
        policy: DispatchPolicy,
        host: Host,
        start: Start,
        *,
        watch: bool = True,
    ) -> None:
        self._dispatcher = dispatcher
        self._tools = tools
        self._limits = limits
        self._policy = policy
        self._host = host
        self._start = start
        self._records: dict[str, Record] = {}
        self._open = 0  # calls that were released and have not ended
        self._idle: anyio.Event | None = None
        self._end: StreamEnd | None = None
        self._stopped = False
        self._asked: anyio.Event | None = None
        self._watched = not watch

    def on_event(self, event: Event) -> None:
        """Take an event that has been emitted."""
        if isinstance(event, ToolCallStart):
            if event.kind != "server":
                call = ToolCall(call_id=event.call_id, name=event.name, kind=event.kind, index=event.index)
                self._records.setdefault(event.call_id, Record(call))  # a transform may say it twice
        elif isinstance(event, ToolCallEnd):
            self._ended(event)
        elif isinstance(event, ToolCallReady):
            self._ready(event)
        elif isinstance(event, StreamEnd):
            self._stream_ended(event)

    def stop(self) -> None:
        """Start nothing more: what waits for its turn to run is cancelled."""
        self._stopped = True
        self._give_up()
        self._note_cancelled()

    def cancel(self) -> None:
        """Cancel every call that runs or waits for its turn to run; each is observed as it stops."""
        self._give_up()
        self._note_cancelled()
        for record in self._records.values():
            if record.scope is not None:
                record.scope.cancel()

    async def wait_idle(self) -> None:
        """Wait until no call runs, or waits for its turn to run."""
        while self._open:
            if self._idle is None or self._idle.is_set():
                self._idle = anyio.Event()
            await self._idle.wait()

    def settle(self) -> None:
        """Observe every call that has no observation yet. Called last, when no task is left."""
        self.stop()
        for record in self._records.values():
            if record.held:
                self._skip(record)
            else:
                self._observe(record, _left(record))

    # -- what becomes of a call --

    def _ended(self, event: ToolCallEnd) -> None:
        call = event.call
        record = self._records.get(call.call_id)
        if record is None or record.observed:
            return
        record.call = call
        record.tool = self._tools.get(call.name)
        if call.status == "truncated":
            self._observe(record, Ended("truncated", event.error or CallTruncated("the call's arguments were cut")))
        elif call.problem == "missing_name" or (record.tool is None and call.problem is None):
            self._observe(record, Ended("unknown_tool", unknown_tool(call.name, self._tools.names)))
        elif call.status == "invalid":
            self._observe(record, Ended("invalid", event.error or InvalidArguments("the arguments are not valid")))

    def _ready(self, event: ToolCallReady) -> None:
        record = self._records.get(event.call.call_id)
        if record is None or record.observed or record.tool is None or record.bound is not None:
            return
        record.call, record.bound = event.call, event.invocation
        if self._stopped or (self._end is not None and not self._may_start()):
            record.held = self._end is None
            if not record.held:
                self._skip(record)
            return
        if self._policy == "manual":
            record.held = True
            return
        if not self._place(record, record.tool):
            return
        if self._may_start() or not self._held_by_effect(record.tool):
            self._release(record)
        else:
            record.held = True

    def _stream_ended(self, event: StreamEnd) -> None:
        self._end = event
        held = [record for record in self._records.values() if record.held and not record.observed]
        if self._may_start():
            for record in held if self._policy != "manual" else ():
                self._release(record)
        else:
            for record in held:
                self._skip(record)

    def _may_start(self) -> bool:
        """The turn has ended, and ended well."""
        return not self._stopped and self._end is not None and _ended_well(self._end)

    def _held_by_effect(self, tool: Tool) -> bool:
        return self._policy == "turn_end" or (self._policy == "auto" and tool.effect == "once")

    def _skip(self, record: Record) -> None:
        end = self._end
        if self._policy == "manual" and (end is None or _ended_well(end)):
            reason = "nobody ran it (dispatch='manual')"
        elif end is None or self._stopped:
            reason = "the stream was left"
        elif end.error is not None:
            reason = f"the turn ended with an error ({end.error.kind})"
        else:
            reason = f"the turn ended by {end.finish or 'nothing that says so'}"
        self._observe(record, Ended("skipped", CallSkipped(f"the call was not run: {reason}")))

    # -- by hand --

    @property
    def to_run(self) -> bool:
        """There are calls that start only if somebody asks for them."""
        return self._policy == "manual" and not self._stopped and any(record.held for record in self._records.values())

    async def wait_asked(self) -> None:
        """Wait until somebody asks for a call."""
        self._asked = anyio.Event()
        await self._asked.wait()

    def ask(self, call_id: str) -> bool:
        """Let a held call run; False if nothing changes, since it has its observation or runs already.

        Raises:
            LocalProtocolError: calls start by themselves here, or this one is not known or not ready.
        """
        if self._policy != "manual":
            raise LocalProtocolError("calls start by themselves; to run them by hand, pass dispatch='manual'")
        record = self._records.get(call_id)
        if record is None:
            raise LocalProtocolError("no such call in this turn; pass the call of a ToolCallReady, or its call_id")
        if record.observed or record.job is not None:
            return False
        if not record.held or record.tool is None:
            raise LocalProtocolError("the call is not ready; run it after its ToolCallReady")
        if self._place(record, record.tool):
            self._release(record)
        if self._asked is not None:
            self._asked.set()
        return True

    async def observed(self, call_id: str) -> Observation:
        """Wait for a call's observation."""
        record = self._records[call_id]
        while record.seen is None:
            record.done = record.done or anyio.Event()
            await record.done.wait()
        return record.seen

    # -- its place, and its task --

    def _place(self, record: Record, tool: Tool) -> bool:
        """Give the call its place in the order. A key that cannot be had is the call's failure: it might conflict."""
        refused = repeated(record.call, self._host.counts, self._limits)
        if refused is not None:
            self._observe(record, refused)
            return False
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
        return True

    def _release(self, record: Record) -> None:
        assert record.job is not None, "what is released has its place"
        record.held = False
        self._open += 1
        self._dispatcher.release(record.job)

    def _launch(self, record: Record) -> None:
        record.scope = CancelScope()
        self._start(partial(self._run, record))
        if not self._watched:
            self._watched = True
            self._start(self._watch)

    def _give_up(self) -> None:
        """Leave the order with all that has not started, the youngest first."""
        jobs = [(record.job, record) for record in self._records.values() if record.job is not None]
        for job, record in sorted(jobs, key=lambda pair: pair[0].number, reverse=True):
            if job.state == "waiting":
                self._dispatcher.finish(job)
                self._observe(record, Ended("cancelled", CallCancelled("the call was cancelled before it started")))
                self._closed()
            elif job.state == "held" and self._stopped:
                self._dispatcher.finish(job)

    def _closed(self) -> None:
        self._open -= 1
        if self._idle is not None and not self._open:
            self._idle.set()

    async def _run(self, record: Record) -> None:
        """The task of one call."""
        assert record.scope is not None, "made when it was launched"
        assert record.job is not None, "what is launched has its place"
        assert record.tool is not None, "what is launched is ready"
        held = self._end is not None and self._held_by_effect(record.tool)
        causes = (self._end.seq,) if self._end is not None and held else ()
        try:
            with record.scope:
                if anyio.current_effective_deadline() == -math.inf:  # cancelled meanwhile: it does not start
                    await checkpoint()
                self._observe(record, await run(record, self._host, self._limits, self._dispatcher.threads, causes))
        except Exception as error:  # what a tool's own task group made of its cancellation
            self._observe(record, failure(record, error))
        finally:
            record.scope = None
            # Also reached when the call was cancelled; a call that has its observation keeps it.
            if record.timed_out is not None:
                self._observe(record, Ended("timed_out", record.timed_out))
            self._observe(record, Ended("cancelled", CallCancelled("the call was cancelled")))
            self._closed()
            self._dispatcher.finish(record.job)

    def _note_cancelled(self) -> None:
        for record in self._records.values():
            if record.scope is not None:
                record.cancelled_at = min(record.cancelled_at, anyio.current_time())

    async def _watch(self) -> None:
        """Look for calls that do not stop when they should, until the block is left and beyond, as long as any runs.
        They cannot be stopped, but told of."""
        pause_s = self._limits.cancel_grace / _LOOKS
        try:
            while True:
                await anyio.sleep(pause_s)
                self._look()
        finally:
            with CancelScope(shield=True):
                while self._open:
                    with anyio.move_on_after(pause_s):
                        await self.wait_idle()
                    self._look()

    def _look(self) -> None:
        latest = anyio.current_time() - self._limits.cancel_grace
        for record in self._records.values():
            if record.scope is not None and min(record.due, record.cancelled_at) <= latest:
                self._unresponsive(record)

    def _unresponsive(self, record: Record) -> None:
        if not record.unresponsive:
            record.unresponsive = True
            since = f"goes on {self._limits.cancel_grace:g} s after it was to stop"
            self._host.emit(Warning("tool_unresponsive", f"{record.call.name}, call {record.call.call_id}: {since}"))

    # -- the last word --

    def _observe(self, record: Record, ended: Ended) -> None:
        """Make the call's one observation, if it has none."""
        if record.observed:
            return
        error, content = ended.error, ended.content or ""
        if error is not None and ended.content is None:
            content = error_content(error, self._limits.max_result_bytes)
            content += try_again(error, record.call.name, self._host.counts, self._limits)
        still_running = record.thread.give_up() if record.thread is not None else False
        causes = (self._end.seq,) if ended.outcome == "skipped" and self._end is not None else ()
        seen: Observation = record.observation(ended, content, still_running=still_running, causes=causes)
        record.seen, record.held = seen, False
        if record.done is not None:
            record.done.set()
        if record.job is not None and record.job.state == "held":
            self._dispatcher.finish(record.job)
        self._host.emit(seen)


def _ended_well(end: StreamEnd) -> bool:
    return end.complete and end.error is None and end.finish in WELL_ENDED


def _left(record: Record) -> Ended:
    """What becomes of a call that nothing has become of when all is over."""
    if record.bound is not None:
        return Ended("cancelled", CallCancelled("the call was cancelled before it started"))
    if record.call.status == "ready":
        return Ended("skipped", CallSkipped("the call was not run: it was held back on its way"))
    return Ended("truncated", CallTruncated("the stream was left before the call's end"))
