"""Runs calls on the cluster, for `RayExecutor`: an async actor that prepares calls, and runs them when told to.

    prepare(number, request)        finds the tool and validates the arguments; none of the tool's code runs
    go(number, seconds, carrier)    runs the call; answers with its first reports, or with its end
    more(number)                    answers with the call's next reports, or with its end
    cancel(number)                  forgets a call that is only prepared; stops one that runs, and answers at its end

Theory of operation. A call's code runs in a task of its own, so that an answer can be given while it runs. The caller
asks for each answer: nothing is sent to a caller that is gone, and reports that come faster than they are asked for
travel together. Only plain values travel: numbers, texts and JSON as bytes.
"""

from __future__ import annotations

import asyncio
import math
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import anyio
from anyio import CapacityLimiter, to_thread
from pydantic_core import from_json

from ...errors import InvalidArguments, StreamToolsError
from ...telemetry.carrier import carried
from ...tools import Bound, Tool
from ..executor import Invocation, context_of
from ..in_process import awaited
from .travel import encode_failure, encode_report, encode_value, resolved

__all__ = ["FAILED", "FORGOTTEN", "RESULT", "RUNNING", "TIMED_OUT", "Answer", "ToolActor"]

RUNNING, RESULT, FAILED, TIMED_OUT, FORGOTTEN = "running", "result", "failed", "timed_out", "forgotten"

Answer: TypeAlias = tuple[list[bytes], str, bytes]
"""The reports since the last answer, one of the words above, and the value or failure."""

PREPARED_S = 600.0  # until a call is forgotten; a claim takes far less, and a living caller cancels what it drops


class ToolActor:
    """Runs calls side by side: async tools in the actor's event loop, sync ones in threads.

    Args:
        max_message_bytes: how large a value or a report may be, as JSON.
        max_threads: how many sync tools may run, including those that nobody waits for any more.
    """

    def __init__(self, max_message_bytes: int, max_threads: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._threads = _Threads(max_threads)
        self._tools: dict[str, Tool[..., Any]] = {}
        self._calls: dict[str, _Call] = {}

    async def ready(self) -> None:
        """Does nothing: the answer shows that the actor is there."""

    async def prepare(self, number: str, request: bytes) -> str | None:
        """Gets a call ready to run; returns why that cannot be done, or None."""
        message = from_json(request)
        call = Invocation(**message["call"])
        try:
            tool = await self._tool(message["reference"])
            if tool.fingerprint != message["fingerprint"]:
                return f"the tool {call.tool} is another one on the cluster"
            if not tool.is_async and self._threads.are_full:
                return "the actor's threads are busy with sync tools that were given up"
            bound = tool.validate(call.arguments)
        except (StreamToolsError, InvalidArguments) as error:
            return str(error)
        self._calls[number] = _Call(call, tool, bound, self._max_message_bytes)
        asyncio.get_running_loop().call_later(PREPARED_S, self._forget, number)
        return None

    async def go(self, number: str, seconds: float, carrier: dict[str, str]) -> Answer:
        """Runs a prepared call, for so many seconds at most."""
        call = self._calls.get(number)
        if call is None or call.task is not None:
            return [], FORGOTTEN, b""
        call.task = asyncio.create_task(call.run(seconds, carrier, self._threads))
        return await self.more(number)

    async def more(self, number: str) -> Answer:
        """Waits for reports of a running call, or for its end, and returns them."""
        if (call := self._calls.get(number)) is None:
            return [], FORGOTTEN, b""
        reports, kind, data = await call.news()
        if kind != RUNNING:
            self._calls.pop(number, None)
        return reports, kind, data

    async def cancel(self, number: str) -> None:
        """Forgets a prepared call, or stops a running one. A sync tool's thread cannot be stopped: it sees
        ``ctx.cancelled``."""
        call = self._calls.pop(number, None)
        if call is not None and call.task is not None:
            call.scope.cancel()
            await call.ended.wait()

    async def _tool(self, reference: str) -> Tool[..., Any]:
        if (known := self._tools.get(reference)) is None:
            # The tool's module may take seconds to import, and other calls run in this loop.
            known = self._tools[reference] = await to_thread.run_sync(resolved, reference)
        return known

    def _forget(self, number: str) -> None:
        call = self._calls.get(number)
        if call is not None and call.task is None:
            del self._calls[number]


@dataclass(slots=True, eq=False)
class _Call:
    """One call: prepared, then running, then ended."""

    call: Invocation
    tool: Tool[..., Any]
    bound: Bound
    max_message_bytes: int
    task: asyncio.Task[None] | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    thread: int = field(default_factory=threading.get_ident)
    kind: str = RUNNING
    data: bytes = b""
    is_news: asyncio.Event = field(default_factory=asyncio.Event)
    reports: list[bytes] = field(default_factory=list)
    reported_bytes: int = 0

    async def news(self) -> Answer:
        """Waits for reports, or for the end, and returns them."""
        await self.is_news.wait()
        self.is_news.clear()
        reports, self.reports, self.reported_bytes = self.reports, [], 0
        return reports, self.kind, self.data

    async def run(self, seconds: float, carrier: dict[str, str], threads: _Threads) -> None:
        """Runs the tool's code to its end, which may be its deadline."""
        try:
            self.kind, self.data = await self._end(seconds, carrier, threads)
        finally:
            self.ended.set()
            self.is_news.set()

    async def _end(self, seconds: float, carrier: dict[str, str], threads: _Threads) -> tuple[str, bytes]:
        name = self.tool.name
        try:
            with self.scope:
                self.scope.deadline = anyio.current_time() + seconds
                with carried(carrier):
                    value = await self._value(threads)
                return RESULT, encode_value(name, value, self.max_message_bytes)
        except BaseException as error:  # SystemExit too: it is the tool's, not the actor's
            if not self.scope.cancel_called:  # else a task group of the tool's made it of its cancellation
                return FAILED, encode_failure(name, error, self.max_message_bytes)
        return TIMED_OUT, b""  # or cancelled, and then nobody asks

    async def _value(self, threads: _Threads) -> Any:
        ctx = context_of(self.call, self._report, lambda: self.scope.cancel_called or self.ended.is_set())
        args, kwargs = self.tool.complete(self.bound, ctx)
        function = partial(self.tool.fn, *args, **kwargs)
        value = function() if self.tool.is_async else await threads.run(function)
        return await awaited(self.tool.name, value, ctx.progress)

    def _report(self, value: Any) -> None:
        data = encode_report(value, self.max_message_bytes)
        if threading.get_ident() == self.thread:  # at once, since the tool may end at once
            self._take(data)
        else:
            self.loop.call_soon_threadsafe(self._take, data)

    def _take(self, data: bytes) -> None:
        if self.ended.is_set() or self.scope.cancel_called:
            return
        self.reports.append(data)
        self.reported_bytes += len(data)
        while self.reported_bytes > self.max_message_bytes:  # nobody asks, or not as fast: the newest matter most
            self.reported_bytes -= len(self.reports.pop(0))
        self.is_news.set()


class _Threads:
    """The threads of sync tools, and how many there are."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._busy = 0
        self._lock = threading.Lock()

    @property
    def are_full(self) -> bool:
        """True if no other thread may begin."""
        return self._busy >= self._most

    async def run(self, function: partial[Any]) -> Any:
        """Runs the function in a thread, which is left to itself if this is cancelled."""
        self._count(1)
        return await to_thread.run_sync(self._body, function, abandon_on_cancel=True, limiter=CapacityLimiter(math.inf))

    def _body(self, function: partial[Any]) -> Any:
        try:
            return function()
        finally:
            self._count(-1)

    def _count(self, by: int) -> None:
        with self._lock:
            self._busy += by
