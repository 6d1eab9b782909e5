"""Calls in processes of their own, which can be killed.

Theory of operation. Workers are started when first needed, run one call at a time, and are used again. A worker says
when it begins to run a tool's code: a worker that is lost before has started nothing, and one that is lost behind that
may have done anything. All that cuts a call (deadline, cancellation, closing) kills its worker with the whole process
group, which is the one way to stop code that does not want to. No task waits in the background: whoever runs a call
reads its worker's answers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

import anyio
from anyio import CancelScope, CapacityLimiter
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic_core import from_json

from ...errors import LocalProtocolError, ToolNotStarted, ToolOutcomeUnknown
from ...tools import AnyTool, Tool
from ..executor import Emit, Invocation
from ..results import decode_error, decode_result
from ..store import checked_bound
from .channel import CALL, FAILED, HEADER, REFUSED, REPORT, RESULT, STARTED, frame
from .reference import reference_of
from .runs import Run, Runs, bind

__all__ = ["ProcessExecutor"]

GRACE_S = 2.0  # for an idle worker to run its exit functions

BOOT = "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from {} import main; main()"


class ProcessExecutor:
    """Runs tools, sync or async, in worker processes.

    A worker imports the tool by its module's name, and is handed the arguments as JSON; nothing is pickled. The value
    comes back as JSON makes it. Workers have the executor's environment, ``sys.path`` and directory, and a process
    group of their own; what tools print goes to standard error.

    Args:
        tools: what may be called: tools and functions that their modules know by their names, or
            ``"module:qualname"``.
        max_workers: how many run at once; more calls wait, and their deadlines do not wait with them.
        max_message_bytes: how large a call, a value or a report may be, as JSON.
        backend: what runs async tools in a worker.

    Raises:
        ToolDefinitionError: a worker would not find one of the tools.
    """

    def __init__(
        self,
        tools: Iterable[AnyTool | str],
        *,
        max_workers: int = 4,
        max_message_bytes: int = 8 << 20,
        backend: Literal["asyncio", "trio"] = "asyncio",
    ) -> None:
        self._tools: dict[str, tuple[str, Tool[..., Any]]] = {}
        for given in tools:
            reference, tool = reference_of(given)
            if tool.name in self._tools:
                raise ValueError(f"ProcessExecutor: two tools are called {tool.name!r}")
            self._tools[tool.name] = reference, tool
        self._max_workers = checked_bound("max_workers", max_workers)
        self._max_message_bytes = checked_bound("max_message_bytes", max_message_bytes)
        self._backend = backend
        self._runs = Runs()
        self._idle: list[_Worker] = []

    @property
    def tool_names(self) -> frozenset[str]:
        """What it may be asked to run."""
        return frozenset(self._tools)

    async def __aenter__(self) -> Self:
        """Take calls from now on."""
        if not sys.executable:
            raise LocalProtocolError("ProcessExecutor: sys.executable is not set, so no worker can be started")
        self._runs.open()
        self._limiter = CapacityLimiter(self._max_workers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Kill the workers that are busy, end the others."""
        await self._runs.close()
        while self._idle:
            await self._idle.pop().end()

    async def run(self, call: Invocation, emit: Emit, /) -> Any:
        """See `Executor`. A call that was handed to a worker which had died idle goes to another one."""
        return await self._runs.run(call, partial(self._body, call, emit))

    async def _body(self, call: Invocation, emit: Emit, run: Run) -> Any:
        request = self._request(call)
        borrower = object()  # one task may run several calls, in an order of its own
        await self._limiter.acquire_on_behalf_of(borrower)
        try:
            while (answer := await self._tried(call.tool, request, emit, run)) is None:
                pass
        finally:
            self._limiter.release_on_behalf_of(borrower)
        return _value_of(call.tool, *answer)

    async def _tried(self, tool: str, request: bytes, emit: Emit, run: Run) -> tuple[bytes, bytes] | None:
        """The worker's answer; None if it had died while it was idle, so that there may be a better one."""
        reused = bool(self._idle)
        worker = self._idle.pop() if reused else await _Worker.start(self._max_message_bytes)
        try:
            answer = await worker.ask(request, emit, run)
        except _Lost:
            how = await worker.kill()
            if run.started:
                text = f"the worker that ran {tool} was lost ({how}); the call may have had its effect"
                raise ToolOutcomeUnknown(text) from None
            if reused:
                return None
            raise ToolNotStarted(f"not run: the worker for {tool} ended before it could start ({how})") from None
        except BaseException:
            await worker.kill()
            raise
        self._idle.append(worker)
        return answer

    def _request(self, call: Invocation) -> bytes:
        if (known := self._tools.get(call.tool)) is None:
            raise ToolNotStarted(
                f"not run: the executor was not given a tool {call.tool!r}; it has {sorted(self._tools)}"
            )
        reference, tool = known
        bind(tool, call)
        said = {
            "call": {one.name: getattr(call, one.name) for one in fields(call)},
            "reference": reference,
            "fingerprint": tool.fingerprint,
            "max_message_bytes": self._max_message_bytes,
            "backend": self._backend,
        }
        try:
            data = json.dumps(said, allow_nan=False).encode()
        except (TypeError, ValueError):  # its text quotes the value
            raise ToolNotStarted(f"not run: the arguments of {call.tool} are no plain JSON") from None
        if len(data) > self._max_message_bytes:
            raise ToolNotStarted(
                f"not run: the call has {len(data)} bytes (max_message_bytes={self._max_message_bytes})"
            )
        return frame(CALL, data)


class _Lost(Exception):
    """The worker's pipe ended, or what came from it is not what a worker says."""


class _Worker:
    """One worker process, seen from here."""

    def __init__(self, process: Process, max_message_bytes: int) -> None:
        assert process.stdin is not None, "it is started with a pipe"
        assert process.stdout is not None, "it is started with a pipe"
        self._process = process
        self._to = process.stdin
        self._from = BufferedByteReceiveStream(process.stdout)
        self._max_message_bytes = max_message_bytes

    @classmethod
    async def start(cls, max_message_bytes: int) -> _Worker:
        """A new process. Starting it is not cut short, so that it is always in somebody's hands."""
        boot = BOOT.format(__name__.rpartition(".")[0] + ".worker")
        command = [sys.executable, "-c", boot, json.dumps(sys.path)]
        try:
            with CancelScope(shield=True):
                process = await anyio.open_process(command, stdout=subprocess.PIPE, stderr=None, start_new_session=True)
                return cls(process, max_message_bytes)
        except OSError as error:  # too many processes, not enough memory
            raise ToolNotStarted(f"not run: no worker could be started ({type(error).__name__})") from error
        raise AssertionError("nobody cancels a shield")

    async def ask(self, request: bytes, emit: Emit, run: Run) -> tuple[bytes, bytes]:
        """Hand over a call and follow it to its answer."""
        try:
            await self._to.send(request)
            while True:
                length, kind = HEADER.unpack(await self._from.receive_exactly(HEADER.size))
                if length > self._max_message_bytes:
                    raise _Lost
                data = await self._from.receive_exactly(length) if length else b""
                if kind == STARTED:
                    run.started = True
                elif kind == REPORT:
                    emit(from_json(data))
                else:
                    return kind, data
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise _Lost from None

    async def kill(self) -> str:
        """End the process and its children, whatever they do, and say how it ended."""
        with CancelScope(shield=True):
            _kill(self._process)
            code = await self._process.wait()
            await self._process.aclose()
            return f"signal {-code}" if code < 0 else f"exit code {code}"
        raise AssertionError("nobody cancels a shield")

    async def end(self) -> None:
        """Let the process, which is idle, end by itself."""
        with anyio.move_on_after(GRACE_S, shield=True):
            await self._to.aclose()
            await self._process.wait()
        await self.kill()


def _kill(process: Process) -> None:
    if process.returncode is not None:  # its number may be another's by now
        return
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except ProcessLookupError:
        return  # it has just ended


def _value_of(tool: str, kind: bytes, data: bytes) -> Any:
    if kind == RESULT:
        return decode_result(data)
    if kind == FAILED:
        raise decode_error(from_json(data))
    if kind == REFUSED:
        raise ToolNotStarted(f"not run: {from_json(data)}")
    raise AssertionError(f"a worker answered for {tool} with {kind!r}, which no worker of ours says")
