"""When a call starts, how it runs, and how it ended.

Theory of operation. A call is announced (`ToolCallStart`), ends (`ToolCallEnd`), and is ready (`ToolCallReady`) or not.
What is not ready is observed at once. What is ready starts by its tool's effect: ``pure`` and ``idempotent`` calls at
once, while the stream goes on; ``once`` calls when the turn has ended well. A turn that ended in any other way starts
nothing more. Whatever happens, each call gets exactly one `Observation`: `_observe` is the only place that makes one,
and it does so once per call; `settle`, called last, observes what is left.
"""

from __future__ import annotations

import inspect
import math
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias

import anyio
from anyio import CancelScope, CapacityLimiter, from_thread
from anyio.lowlevel import checkpoint, current_token

from ..content import ToolResult
from ..errors import (
    CallCancelled,
    CallSkipped,
    CallTruncated,
    InvalidArguments,
    ToolError,
    ToolFailed,
    ToolTimeout,
    UnknownTool,
)
from ..events import (
    Event,
    Outcome,
    StreamEnd,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
    ToolProgress,
    ToolStarted,
)
from ..limits import Limits
from ..tools import Bound, Tool, ToolContext, Toolset
from ..turn import WELL_ENDED, ToolCall
from .content import bounded, error_content, value_content
from .record import Record
from .threads import ThreadCall, abandoned_threads

__all__ = ["DispatchPolicy", "Dispatcher", "Host"]

DispatchPolicy: TypeAlias = Literal["auto", "early", "turn_end"]
"""When ready calls start. ``auto``: by the tool's effect. ``early``: all at their own end marker, so that a result may
exist for a turn that then fails. ``turn_end``: none before the turn has ended well."""


class Host(Protocol):
    """The step that the calls belong to."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        ...

    @property
    def number(self) -> int:
        """The step's number in its run."""
        ...

    def emit(self, event: Event) -> None:
        """Number an event and pass it to everybody. Never waits."""
        ...

    def around_tool(self, call_id: str) -> Iterable[AbstractContextManager[object]]:
        """What observers want held while a tool's body runs."""
        ...


Start: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
"""Runs a coroutine function in a task of its own."""


class Dispatcher:
    """Runs the calls of one turn.

    Args:
        tools: what may be called.
        limits: concurrency, threads, times, sizes.
        policy: when calls start.
        host: the step.
        start: runs a call in a task of its own.
    """

    listens_to = (ToolCallStart, ToolCallEnd, ToolCallReady, StreamEnd)

    def __init__(self, tools: Toolset, limits: Limits, policy: DispatchPolicy, host: Host, start: Start) -> None:
        self._tools = tools
        self._limits = limits
        self._policy = policy
        self._host = host
        self._start = start
        self._records: dict[str, Record] = {}
        self._running = 0
        self._idle: anyio.Event | None = None
        self._slots: CapacityLimiter | None = None  # made in the event loop, when first needed
        self._threads: CapacityLimiter | None = None
        self._end: StreamEnd | None = None
        self._stopped = False

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
        """Start nothing more."""
        self._stopped = True

    def cancel(self) -> None:
        """Cancel every call that runs or waits for its turn to run; each is observed as it stops."""
        for record in self._records.values():
            if record.scope is not None:
                record.scope.cancel()

    async def wait_idle(self) -> None:
        """Wait until no call runs."""
        while self._running:
            if self._idle is None or self._idle.is_set():
                self._idle = anyio.Event()
            await self._idle.wait()

    def settle(self) -> None:
        """Observe every call that has no observation yet. Called last, when no task is left."""
        for record in self._records.values():
            if record.held:
                self._skip(record)
            elif record.bound is None and record.call.status == "ready":
                self._observe(record, "skipped", CallSkipped("the call was not run: it was held back on its way"))
            elif record.bound is not None:
                self._observe(record, "cancelled", CallCancelled("the call was cancelled before it started"))
            else:
                self._observe(record, "truncated", CallTruncated("the stream was left before the call's end"))

    # -- what becomes of a call --

    def _ended(self, event: ToolCallEnd) -> None:
        call = event.call
        record = self._records.get(call.call_id)
        if record is None or record.observed:
            return
        record.call = call
        record.tool = self._tools.get(call.name)
        if call.status == "truncated":
            self._observe(record, "truncated", event.error or CallTruncated("the call's arguments were cut"))
        elif call.problem == "missing_name" or (record.tool is None and call.problem is None):
            self._observe(record, "unknown_tool", UnknownTool(call.name, available=sorted(self._tools.names)))
        elif call.status == "invalid":
            self._observe(record, "invalid", event.error or InvalidArguments("the arguments are not valid"))

    def _ready(self, event: ToolCallReady) -> None:
        record = self._records.get(event.call.call_id)
        if record is None or record.observed or record.tool is None or record.bound is not None:
            return
        record.call, record.bound = event.call, event.invocation
        if self._may_start() or (not self._stopped and not self._held_by_effect(record.tool)):
            self._launch(record)
        elif self._end is not None:
            self._skip(record)
        else:
            record.held = True

    def _stream_ended(self, event: StreamEnd) -> None:
        self._end = event
        for record in list(self._records.values()):
            if record.held and not record.observed:
                if self._may_start():
                    self._launch(record)
                else:
                    self._skip(record)

    def _may_start(self) -> bool:
        """The turn has ended, and ended well."""
        end = self._end
        return not self._stopped and end is not None and end.complete and end.error is None and end.finish in WELL_ENDED

    def _skip(self, record: Record) -> None:
        end = self._end
        if end is None or self._stopped:
            reason = "the stream was left"
        elif end.error is not None:
            reason = f"the turn ended with an error ({end.error.kind})"
        else:
            reason = f"the turn ended by {end.finish or 'nothing that says so'}"
        self._observe(record, "skipped", CallSkipped(f"the call was not run: {reason}"))

    # -- running --

    def _launch(self, record: Record) -> None:
        record.held = False
        record.scope = CancelScope()
        self._running += 1
        self._start(partial(self._run, record))

    async def _run(self, record: Record) -> None:
        """The task of one call."""
        assert record.scope is not None
        try:
            with record.scope:
                await self._take_slot(record)
                try:
                    await self._run_tool(record)
                finally:
                    self._slots_of_calls().release_on_behalf_of(record)
        except Exception as error:  # what a tool's own task group made of its cancellation
            self._failed(record, error)
        finally:
            record.scope = None
            # Also reached when the call was cancelled while it waited; a call that has its observation keeps it.
            self._observe(record, "cancelled", CallCancelled("the call was cancelled"))
            self._running -= 1
            if self._idle is not None and not self._running:
                self._idle.set()

    def _slots_of_calls(self) -> CapacityLimiter:
        if self._slots is None:
            self._slots = CapacityLimiter(self._limits.max_concurrency)
        return self._slots

    async def _take_slot(self, record: Record) -> None:
        """Wait for one of the places to run. If there is one, do not even let others run first: a call that may start
        should not have to wait for a source that never pauses. A call that was cancelled meanwhile does not start."""
        if anyio.current_effective_deadline() == -math.inf:
            await checkpoint()
        try:
            self._slots_of_calls().acquire_on_behalf_of_nowait(record)
        except anyio.WouldBlock:
            await self._slots_of_calls().acquire_on_behalf_of(record)

    async def _run_tool(self, record: Record) -> None:
        tool, bound = record.tool, record.bound
        assert tool is not None, "only a ready call is launched"
        assert bound is not None, "only a ready call is launched"
        if tool.is_async:
            await self._run_now(record, tool, bound)
            return
        if self._threads is None:
            self._threads = CapacityLimiter(self._limits.max_threads)
        async with self._threads:  # waiting for a thread is not the tool's time
            if abandoned_threads() < self._limits.max_abandoned_threads:
                await self._run_now(record, tool, bound)
                return
        text = f"not run: {abandoned_threads()} threads are still busy with sync tools that were given up"
        self._observe(record, "failed", ToolFailed(f"{text} (max_abandoned_threads)"))

    async def _run_now(self, record: Record, tool: Tool, bound: Bound) -> None:
        causes = (self._end.seq,) if self._end is not None and self._held_by_effect(tool) else ()
        record.started_at = time.monotonic()
        self._host.emit(ToolStarted(record.call.call_id, tool.name, causes=causes))
        timeout = tool.timeout if tool.timeout is not None else self._limits.tool_timeout
        with anyio.move_on_after(timeout) as deadline:
            try:
                value = await self._body(record, tool, bound)
            except Exception as error:
                self._failed(record, error)
            except anyio.get_cancelled_exc_class() as error:
                if anyio.current_effective_deadline() == -math.inf:
                    raise
                # Nobody cancelled this call: the tool itself let a cancellation out (a cancelled task it awaited).
                self._failed(record, error)
            except BaseExceptionGroup:  # of cancellations and what was raised on their way out
                if deadline.cancel_called and timeout is not None:
                    self._observe(record, "timed_out", ToolTimeout(timeout))
                raise
            else:
                self._succeeded(record, value)
        if deadline.cancelled_caught and timeout is not None:
            self._observe(record, "timed_out", ToolTimeout(timeout))

    def _held_by_effect(self, tool: Tool) -> bool:
        return self._policy == "turn_end" or (self._policy == "auto" and tool.effect == "once")

    async def _body(self, record: Record, tool: Tool, bound: Bound) -> Any:
        args, kwargs = tool.complete(bound, self._context(record, tool))
        with ExitStack() as stack:
            for manager in self._host.around_tool(record.call.call_id):
                stack.enter_context(manager)
            if tool.is_async:
                return await tool.fn(*args, **kwargs)
            record.thread = ThreadCall()
            value = await record.thread.run(partial(tool.fn, *args, **kwargs))
            return await value if inspect.isawaitable(value) else value  # an async function behind a plain wrapper

    def _context(self, record: Record, tool: Tool) -> ToolContext:
        loop_thread, token = threading.get_ident(), current_token()

        def progress(value: Any) -> None:
            if not record.observed:
                self._host.emit(ToolProgress(record.call.call_id, tool.name, value))

        def report(value: Any) -> None:
            """From any thread: of the loop, of a sync tool, or one that the tool itself has started."""
            if threading.get_ident() == loop_thread:
                progress(value)
            elif not record.observed:
                try:
                    from_thread.run_sync(progress, value, token=token)
                except anyio.RunFinishedError:
                    return  # the loop is over, and with it whoever wanted to know

        return ToolContext(
            call_id=record.call.call_id,
            tool_name=tool.name,
            run_id=self._host.run_id,
            step=self._host.number,
            report=report,
            is_cancelled=lambda: record.observed,
        )

    def _succeeded(self, record: Record, value: Any) -> None:
        if isinstance(value, ToolResult):
            self._returned(record, value)
            return
        try:
            content = value_content(value, self._limits.max_result_bytes)
        except ToolFailed as error:
            self._observe(record, "failed", error)
        else:
            self._observe(record, "ok", None, value=value, model_content=content)

    def _returned(self, record: Record, given: ToolResult) -> None:
        """The tool has said itself what the model reads."""
        result, content = bounded(given, self._limits)
        error = ToolFailed(f"the tool {record.call.name} reported an error") if given.is_error else None
        outcome: Outcome = "ok" if error is None else "failed"
        value = None if error is not None else given if given.value is None else given.value
        self._observe(record, outcome, error, value=value, model_content=content, result=result)

    def _failed(self, record: Record, error: BaseException) -> None:
        """A tool's own `ToolError` speaks to the model; of any other exception only the type is told."""
        if isinstance(error, ToolError):
            self._observe(record, "failed", error)
            return
        failure = ToolFailed(f"the tool {record.call.name} raised {type(error).__name__}")
        failure.__cause__ = error
        self._observe(record, "failed", failure)

    # -- the last word --

    def _observe(
        self,
        record: Record,
        outcome: Outcome,
        error: ToolError | None,
        *,
        value: Any = None,
        model_content: str | None = None,
        result: ToolResult | None = None,
    ) -> None:
        """Make the call's one observation, if it has none."""
        if record.observed:
            return
        content = model_content or ""
        if error is not None and model_content is None:
            content = error_content(error, self._limits.max_result_bytes)
        record.observed = True
        still_running = record.thread.give_up() if record.thread is not None else False
        causes = (self._end.seq,) if outcome == "skipped" and self._end is not None else ()
        seen = record.observation(outcome, error, value, content, result, still_running=still_running, causes=causes)
        self._host.emit(seen)
