"""The calls of one turn: when each may start, and the one event that says how it ended.

Theory of operation. A call is announced (`ToolCallStart`), ends (`ToolCallEnd`), and is ready (`ToolCallReady`) or not.
What is not ready is observed at once. What is ready takes its place in the dispatcher's order, and is released by its
tool's effect: ``pure`` and ``idempotent`` calls at once, while the stream goes on; ``once`` calls when the turn has
ended well. A turn that ended in any other way starts nothing more. A call that needs an approval is asked about when it
would be released, and takes its place when it was approved, so that no other call waits for a person. Whatever happens,
each call gets exactly one `Observation`: `_observe` is the only place that makes one, and it does so once per call;
`settle`, called last, observes what is left. A call that will never run gives up its place at once, the youngest first,
so that none of its siblings starts instead.
"""

from __future__ import annotations

import anyio

from ..errors import CallTruncated, InvalidArguments, LocalProtocolError, ToolFailed
from ..events import (
    Event,
    Observation,
    StreamEnd,
    StreamStart,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
    Warning,
)
from ..limits import Limits
from ..tools import Tool, Toolset
from ..tools.context import call_key
from ..turn import ToolCall
from .approval import Decision, is_gated
from .approvals import Approvals
from .content import error_content
from .dispatcher import Dispatcher
from .endings import ended_well, left_over, skipped, undecided
from .host import Host
from .options import DispatchOptions
from .record import Ended, Record
from .refusals import repeated, try_again, unknown_tool
from .running import Runner
from .tasks import CallTasks, Start

__all__ = ["Calls"]

_RAN_AND_FAILED = ("failed", "timed_out", "unknown")
_LEFT = "the stream was left"


class Calls:
    """Runs the calls of one turn.

    Args:
        dispatcher: says when a call's turn has come.
        tools: what may be called.
        limits: times and sizes.
        options: when calls start, who approves them, where they run.
        host: the step.
        start: runs a call in a task of its own.
        watched: in one more such task, which ends only when it is cancelled, look for calls that do not stop.
    """

    listens_to = (StreamStart, ToolCallStart, ToolCallEnd, ToolCallReady, StreamEnd)

    def __init__(
        self,
        dispatcher: Dispatcher,
        tools: Toolset,
        limits: Limits,
        options: DispatchOptions,
        host: Host,
        start: Start,
        *,
        watched: bool = True,
    ) -> None:
        self._tools = tools
        self._limits = limits
        self._options = options
        self._by_hand = options.policy == "manual"
        self._host = host
        runner, grace_s = Runner(host, tools, limits, dispatcher, options), limits.cancel_grace if watched else None
        self._tasks = CallTasks(dispatcher, runner, start, self._observe, grace_s, host.emit)
        self._approvals = Approvals(
            options.approver,
            host.emit,
            self._tasks,
            start,
            go=self._go,
            observe=self._observe,
            stopped=lambda: self._stopped is not None,
        )
        self._records: dict[str, Record] = {}
        self._response_id: str | None = None
        self._end: StreamEnd | None = None
        self._stopped: str | None = None  # why nothing more starts
        self._told: anyio.Event | None = None

    def on_event(self, event: Event) -> None:
        """Take an event that has been emitted."""
        if isinstance(event, ToolCallStart):
            if event.kind != "server":
                self._announced(event)
        elif isinstance(event, StreamStart):
            self._response_id = event.response_id
        elif isinstance(event, ToolCallEnd):
            self._ended(event)
        elif isinstance(event, ToolCallReady):
            self._ready(event)
        elif isinstance(event, StreamEnd):
            self._stream_ended(event)

    def stop(self, reason: str = _LEFT) -> None:
        """Start nothing more: what waits for its turn to run is cancelled."""
        self._stopped = self._stopped or reason
        self._tasks.give_up(None, held=True)
        self._note_cancelled()

    def cancel(self, reason: str | None = None) -> None:
        """Cancel every call that runs or waits for its turn to run; each is observed as it stops."""
        self._tasks.give_up(reason, held=self._stopped is not None)
        self._note_cancelled()
        for record in self._records.values():
            if record.scope is not None:
                record.scope.cancel()

    def _note_cancelled(self) -> None:
        for record in self._records.values():
            if record.scope is not None:
                record.cancelled_at = min(record.cancelled_at, anyio.current_time())

    async def wait_idle(self) -> None:
        """Wait until no call runs, or waits for its turn to run, and no approver is asked."""
        await self._tasks.wait_idle()

    def settle(self) -> None:
        """Observe every call that has no observation yet. Called last, when no task is left."""
        self.stop()
        for record in self._records.values():
            if record.waits_for_approval and ended_well(self._end):
                self._observe(record, undecided())
            elif record.held or record.waits_for_approval:
                self._skip(record)
            else:
                self._observe(record, left_over(record))
        self._tasks.settle()

    # -- what becomes of a call --

    def _announced(self, event: ToolCallStart) -> None:
        if event.call_id not in self._records:  # a transform may say it twice
            call = ToolCall(call_id=event.call_id, name=event.name, kind=event.kind, index=event.index)
            key = self._options.resumed.get(event.call_id)
            own = call_key(self._host.run_id, self._host.number, self._response_id, event.call_id)
            self._records[event.call_id] = Record(call, own if key is None else key)

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
        elif self._by_hand:
            record.held = True
        elif self._accept(record):
            if self._may_start() or not self._held_by_effect(record.tool):
                self._go(record)
            else:
                record.held = True

    def _stream_ended(self, event: StreamEnd) -> None:
        self._end = event
        left = [record for record in self._records.values() if not record.observed]
        if self._may_start():
            for record in left:
                if record.held and not self._by_hand and self._may_start():  # one that runs at once may fail at once
                    self._go(record)
            return
        for record in reversed(left):  # so that none takes the place of an older one
            self._tasks.drop(record)
        for record in left:
            if record.held or record.waits_for_approval or record.waits_to_start:
                self._skip(record)

    def _may_start(self) -> bool:
        """The turn has ended, and ended well."""
        return self._stopped is None and ended_well(self._end)

    def _held_by_effect(self, tool: Tool) -> bool:
        policy = self._options.policy
        return policy == "turn_end" or (policy == "auto" and tool.effect == "once")

    def _skip(self, record: Record) -> None:
        if self._options.resumed and self._stopped == _LEFT and ended_well(self._end):
            record.approval = "asked"  # in the run before, and left again before anybody could be asked here
            self._observe(record, undecided())
            return
        by_hand = self._by_hand and self._stopped in (None, _LEFT)
        self._observe(record, skipped(self._end, self._stopped, by_hand=by_hand))

    # -- approval --

    @property
    def undecided(self) -> list[Record]:
        """The calls that wait for an approval, or did when the block was left, in a turn that has ended well."""
        if not ended_well(self._end):
            return []
        return [record for record in self._records.values() if record.undecided]

    @property
    def unobserved(self) -> int:
        """How many calls have no observation yet."""
        return sum(not record.observed for record in self._records.values())

    @property
    def announced(self) -> bool:
        """There was a call."""
        return bool(self._records)

    def decide(self, call_id: str, decision: Decision, fingerprint: str | None) -> bool:
        """Take somebody's word about a call; False if it changes nothing, since it has been decided or is over.

        Raises:
            LocalProtocolError: nobody was asked about it, or about these arguments; or this is another thread.
        """
        record = self._records.get(call_id)
        if record is None:
            raise LocalProtocolError("no such call in this turn; pass an ApprovalRequested, or its call_id")
        if record.approval in ("none", "needed"):
            raise LocalProtocolError("nobody was asked about this call; decide after its ApprovalRequested")
        if fingerprint is not None and fingerprint != record.fingerprint:
            raise LocalProtocolError("the call has other arguments than those that were decided about")
        decided = self._approvals.decide(record, decision)
        if decided:
            self._tell()
        return decided

    # -- by hand --

    @property
    def to_tell(self) -> bool:
        """There are calls that start only if somebody asks for them, or approves them."""
        if self._stopped is not None:
            return False
        records = self._records.values()
        return any((record.held and self._by_hand) or record.waits_for_approval for record in records)

    async def wait_told(self) -> None:
        """Wait until somebody asks for a call, or decides about one."""
        self._told = anyio.Event()
        await self._told.wait()

    def _tell(self) -> None:
        if self._told is not None:
            self._told.set()

    def ask(self, call_id: str) -> bool:
        """Let a held call run; False if nothing changes, since it has its observation or runs already.

        Raises:
            LocalProtocolError: calls start by themselves here, or this one is not known or not ready.
        """
        if not self._by_hand:
            raise LocalProtocolError("calls start by themselves; to run them by hand, pass dispatch='manual'")
        record = self._records.get(call_id)
        if record is None:
            raise LocalProtocolError("no such call in this turn; pass the call of a ToolCallReady, or its call_id")
        if record.observed or record.job is not None or record.waits_for_approval or self._stopped is not None:
            return False
        if not record.held or record.tool is None:
            raise LocalProtocolError("the call is not ready; run it after its ToolCallReady")
        if self._accept(record):
            self._go(record)
        self._tell()
        return True

    async def observed(self, call_id: str) -> Observation:
        """Wait for a call's observation."""
        record = self._records[call_id]
        while record.seen is None:
            record.done = record.done or anyio.Event()
            await record.done.wait()
        return record.seen

    # -- whether it may run --

    def _accept(self, record: Record) -> bool:
        """Look at what may refuse a ready call. One that is gated takes its place later, any other one now."""
        resumed = bool(self._options.resumed)  # and so counted before
        refused = None if resumed else repeated(record.call, self._host.counts, self._limits)
        if refused is not None:
            self._observe(record, refused)
            return False
        try:
            gated = resumed or is_gated(record)
        except ToolFailed as error:
            self._observe(record, Ended("failed", error))
            return False
        if gated:
            record.approval = "needed"
        return gated or self._tasks.place(record)

    def _go(self, record: Record) -> None:
        """As far as its turn is concerned, it may run."""
        assert record.tool is not None, "only a ready call may run"
        record.held = False
        if record.approval == "needed":
            self._approvals.request(record)
        elif record.job is not None or self._tasks.place(record):
            held = record.approval == "none" and self._held_by_effect(record.tool)
            self._tasks.release(record, (self._end.seq,) if held and self._end is not None else ())

    # -- the last word --

    def _observe(self, record: Record, ended: Ended) -> None:
        """Make the call's one observation, if it has none."""
        if record.observed:
            return
        error, content = ended.error, ended.content or ""
        if error is not None and ended.content is None:
            content = error_content(error, self._limits.max_result_bytes)
            content += try_again(error, record.call.name, self._host.counts, self._limits)
        if record.progress_dropped:
            text = f"{record.progress_dropped} reports, since the consumer was behind (max_waiting_progress)"
            self._host.emit(Warning("progress_dropped", f"{record.label}: {text}"))
        if record.scope is not None and (record.waits_for_approval or record.waits_to_start):
            record.scope.cancel()  # of an approver who is still asked, or of a task that has not begun
        still_running = record.thread.give_up() if record.thread is not None else False
        causes = (self._end.seq,) if ended.outcome == "skipped" and self._end is not None else ()
        seen: Observation = record.observation(ended, content, still_running=still_running, causes=causes)
        record.seen, record.held = seen, False
        if record.done is not None:
            record.done.set()
        self._tasks.drop(record)
        self._host.emit(seen)
        if self._options.on_tool_error == "cancel" and ended.outcome in _RAN_AND_FAILED and self._stopped is None:
            self._cancel_siblings("another call of its turn failed")

    def _cancel_siblings(self, reason: str) -> None:
        self._stopped = reason
        self.cancel(reason)
        for record in self._records.values():
            if record.waits_for_approval:
                self._skip(record)
