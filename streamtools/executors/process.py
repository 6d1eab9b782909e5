"""Runs calls in worker processes, which can be killed.

Theory of operation. Workers are started when first needed, and run one call at a time. A worker gets a call ready
(finds the tool, validates the arguments) and reports that; the host awaits ``begin()``, and tells the worker to go. A
worker that is lost before ``begin()`` has started nothing, and another one is tried if it had died while it was idle;
one that is lost after it may have done anything. All that cuts a call short kills its worker with all that it has
started, the only way to stop unwilling code; see `worker` for what is beyond reach. An answer that is in the pipe by
then is the call's end. No task waits in the background: the task of a call reads its worker's answers, and awaits the
worker's end beside them, since a child may hold the pipe open. Copies in a forked child of the host leave the workers
alone, which are the parent's.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Literal, Self

import anyio
from anyio import CancelScope, CapacityLimiter
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic_core import from_json, to_json

from ..dispatch import Emit, Invocation
from ..dispatch.results import decode_error, decode_result
from ..errors import LocalProtocolError, ToolNotStarted, ToolOutcomeUnknown, ToolTimeout
from ..ground import type_name
from ..limits import checked_bound
from ..tools import AnyTools, Tool
from .codec import encode_call, reference_of
from .local import BlockExecutor, WorkerRun
from .worker import (
    CALL,
    DROP,
    FAILED,
    GO,
    HEADER,
    READY,
    REFUSED,
    REPORT,
    RESULT,
    PipeFrame,
    kill_family,
    kill_late,
    new_mark,
)

PASSED_ON = (  # the variables that a worker has by default: what programs need to run, and no place where keys are kept
    # Where programs, modules, settings and temporary files are, and for whom this runs.
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TMPDIR", "TMP", "TEMP", "XDG_*", "VIRTUAL_ENV", "PYTHON*",
    "LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_*",
    # How texts and times are written, and whom TLS trusts. A proxy's address is left out, which often has a password.
    "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "NO_COLOR", "SSL_CERT_FILE", "SSL_CERT_DIR", "STREAMTOOLS_DEBUG",
    # What nothing starts without on Windows.
    "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "OS", "USERPROFILE", "USERNAME", "HOMEDRIVE",
    "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES*", "NUMBER_OF_PROCESSORS", "PROCESSOR_*",
)  # fmt: skip
GRACE_S = 2.0  # for an idle worker to run its exit functions
QUICK_S = 0.05  # most answers are there by then, and save the task that awaits the worker's end
SMALL_BYTES = 4096  # a pipe takes them at once
DRAIN_S = 0.5  # for a killed worker's last answer, if a child beyond reach holds the pipe

BOOT = (
    "import json, sys; mark = sys.argv.pop(); sys.path[:] = json.loads(sys.argv.pop()); from {} import main; main(mark)"
)


class ProcessExecutor(BlockExecutor):
    """Runs tools, sync or async, in worker processes.

    A worker imports the tool by its module's name, and gets the arguments as JSON; nothing is pickled. The value comes
    back as JSON. Workers have the executor's ``sys.path`` and directory, the environment variables that programs need
    (``PATH``, ``HOME``, ``LANG``, ``PYTHON*`` and the like), and their own session, so that Ctrl-C does not reach them.
    Output of tools goes to standard error.

    Args:
        tools: the tools that may be called: tools and functions that are names of their modules, or
            ``"module:qualname"``.
        max_workers: workers that run at once; more calls wait, and a call's timeout starts with the call.
        max_message_bytes: the largest call, value or report, as JSON.
        start_timeout_s: the longest time for a worker to start, import a tool and report ready.
        backend: the event loop that runs async tools in a worker.
        env: further variables for the workers: a mapping, or the names of variables of this process, with ``*`` for
            anything. ``os.environ`` passes all of them, and so every key, to every tool.

    A forked child needs its own executor: it refuses calls on its parent's (`ToolNotStarted`).

    Raises:
        ToolDefinitionError: a worker could not find one of the tools.
    """

    def __init__(
        self,
        tools: AnyTools,
        *,
        max_workers: int = 4,
        max_message_bytes: int = 8 << 20,
        start_timeout_s: float = 60.0,
        backend: Literal["asyncio", "trio"] = "asyncio",
        env: Mapping[str, str] | Iterable[str] = (),
    ) -> None:
        super().__init__()
        self._tools: dict[str, tuple[str, Tool[..., Any]]] = {}
        for given in tools:
            reference, tool = reference_of(given)
            if tool.name in self._tools:
                raise ValueError(f"ProcessExecutor: two tools are called {tool.name!r}")
            self._tools[tool.name] = reference, tool
        self._max_workers = checked_bound("max_workers", max_workers)
        self._max_message_bytes = checked_bound("max_message_bytes", max_message_bytes)
        self._start_timeout_s = start_timeout_s
        self._backend = backend
        self._given = dict(env) if isinstance(env, Mapping) else {}
        self._passed_on = () if isinstance(env, (str, Mapping)) else tuple(env)
        texts = (*self._given, *self._given.values(), *self._passed_on)
        if isinstance(env, str) or not all(isinstance(text, str) for text in texts):
            raise TypeError("env: expected a mapping of strings, or a list of variable names, got another value")
        self._idle: list[_Worker] = []

    async def __aenter__(self) -> Self:
        if not sys.executable:
            raise LocalProtocolError("ProcessExecutor: sys.executable is not set, so no worker can be started")
        await super().__aenter__()
        self._pid = os.getpid()
        self._limiter = CapacityLimiter(self._max_workers)
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Kills the workers that are busy, ends the others, and kills what any of them has started."""
        if os.getpid() != self._pid:
            return
        await super().__aexit__()
        while self._idle:
            await self._idle.pop().end()

    async def _body(self, call: Invocation, known: tuple[str, Tool[..., Any]], emit: Emit, run: WorkerRun) -> Any:
        if os.getpid() != self._pid:
            raise ToolNotStarted(f"not run: the workers are those of process {self._pid}; make an executor here")
        limit = self._max_message_bytes
        request = encode_call(call, *known, limit, max_message_bytes=limit, backend=self._backend)
        borrower = object()  # one task may run several calls, in an order of its own
        if self._limiter.available_tokens <= 0:
            call.waits_for("worker_busy")
        await self._limiter.acquire_on_behalf_of(borrower)
        try:
            worker = await self._ready(call, request)
            seconds = await self._begun(worker, run)
            answer = await self._answer(worker, call, seconds, emit)
        finally:
            self._limiter.release_on_behalf_of(borrower)
        if answer.kind == RESULT:
            return decode_result(answer.data)
        raise decode_error(from_json(answer.data))

    async def _ready(self, call: Invocation, request: bytes) -> _Worker:
        """Returns a worker that is ready for the call, and waits to be told to go."""
        tool = call.tool
        while True:
            reused = bool(self._idle)
            call.waits_for("executor" if reused else "worker_start")
            worker = self._idle.pop() if reused else await _Worker.start(self._environment(), self._max_message_bytes)
            answer = None
            try:
                with anyio.move_on_after(self._start_timeout_s):
                    answer = await worker.ask(request)
            except _Lost:
                how = await worker.kill()
                if reused:  # it had died while it was idle: there may be a better one
                    continue
                raise ToolNotStarted(f"not run: the worker for {tool} ended before the call began ({how})") from None
            except BaseException:
                await worker.kill()
                raise
            if answer is None:
                await worker.kill()
                raise ToolNotStarted(f"not run: no worker for {tool} was ready within {self._start_timeout_s:g} s")
            if answer.kind == READY:
                return worker
            self._idle.append(worker)
            raise ToolNotStarted(f"not run: {from_json(answer.data)}")

    def _environment(self) -> dict[str, str]:
        wanted = (*PASSED_ON, *self._passed_on)
        found = {name: value for name, value in os.environ.items() if any(fnmatchcase(name, one) for one in wanted)}
        return found | self._given

    async def _begun(self, worker: _Worker, run: WorkerRun) -> float:
        """Begins the call, and returns its seconds. If that is refused or cancelled, the worker is free again."""
        try:
            return await run.begin()
        except BaseException:
            if await worker.drop():
                self._idle.append(worker)
            else:
                await worker.kill()
            raise

    async def _answer(self, worker: _Worker, call: Invocation, seconds: float, emit: Emit) -> PipeFrame:
        """Follows a call that has begun, and returns its end, which may be in the pipe of a worker that is gone."""
        ends: list[PipeFrame] = []
        deadline = anyio.current_time() + seconds
        try:
            with CancelScope(deadline=deadline):
                await worker.go(call, seconds, emit, ends)
        except _Lost:
            pass
        except BaseException:
            await worker.kill()
            raise
        if ends:  # a deadline that came right after the end changes nothing
            self._idle.append(worker)
            return ends[0]
        late = anyio.current_time() >= deadline
        how = await worker.kill(partial(worker.drain, emit, ends))
        if ends:
            return ends[0]
        if late:
            raise ToolTimeout(round(seconds, 3))
        raise ToolOutcomeUnknown(f"the worker that ran {call.tool} was lost ({how}); the call may have had its effect")


class _Lost(Exception):
    """Raised when the worker or its pipe has ended, or has brought a frame that is not the worker's about this call."""


class _Worker:
    def __init__(self, process: Process, mark: str, max_message_bytes: int) -> None:
        assert process.stdin is not None, "it is started with a pipe"
        assert process.stdout is not None, "it is started with a pipe"
        self._process = process
        self._mark = mark
        self._to = process.stdin
        self._from = BufferedByteReceiveStream(process.stdout)
        self._max_message_bytes = max_message_bytes
        self._header: tuple[int, bytes, int, int] | None = None  # of a frame whose data is still to come
        self._received: PipeFrame | None = None
        self._number = 0
        self._pid: int | None = None  # from the worker's own frames, since a launcher may stand between
        self._host = os.getpid()

    @classmethod
    async def start(cls, environment: dict[str, str], max_message_bytes: int) -> _Worker:
        """Starts a process. This cannot be cancelled, so that no process is left without an owner."""
        boot, mark = BOOT.format(__name__.rpartition(".")[0] + ".worker"), new_mark()
        command = [sys.executable, "-c", boot, json.dumps(sys.path), mark]
        environment = {**environment, mark: "1"}
        try:
            with CancelScope(shield=True):
                process = await anyio.open_process(
                    command, stdout=subprocess.PIPE, stderr=None, env=environment, start_new_session=True
                )
                return cls(process, mark, max_message_bytes)
        except OSError as error:  # too many processes, not enough memory
            raise ToolNotStarted(f"not run: no worker could be started ({type_name(error)})") from error
        raise AssertionError("nobody cancels a shield")

    async def ask(self, request: bytes) -> PipeFrame:
        self._number += 1
        await self._send(CALL, request)
        return await self._frame(READY, REFUSED)

    async def drop(self) -> bool:
        try:
            with anyio.move_on_after(GRACE_S, shield=True):
                await self._send(DROP, b"")
                return True
        except _Lost:
            pass
        return False

    async def go(self, call: Invocation, seconds: float, emit: Emit, ends: list[PipeFrame]) -> None:
        limit = None if seconds == math.inf else seconds
        await self._send(GO, to_json({"carrier": call.carrier, "seconds": limit}))
        await self._follow(emit, ends)

    async def drain(self, emit: Emit, ends: list[PipeFrame]) -> None:
        with suppress(_Lost):
            await self._follow(emit, ends, DRAIN_S)

    async def _follow(self, emit: Emit, ends: list[PipeFrame], quick_s: float = QUICK_S) -> None:
        while (frame := await self._frame(REPORT, RESULT, FAILED, quick_s=quick_s)).kind == REPORT:
            emit(decode_result(frame.data))
        ends.append(frame)

    async def _send(self, kind: bytes, data: bytes) -> None:
        send = partial(self._to.send, PipeFrame(kind, self._number, data).packed())
        await (self._alive(send) if len(data) > SMALL_BYTES else self._whole(send))

    async def _frame(self, *kinds: bytes, quick_s: float = QUICK_S) -> PipeFrame:
        """Receives a frame; raises `_Lost` unless it is of one of these kinds, of this call, and from the worker
        itself. If cancelled, keeps the frame for the next caller."""
        if self._received is None:  # pragma: no branch - else it came right when its reader was cancelled
            with anyio.move_on_after(quick_s):
                await self._whole(self._receive)
        if self._received is None:
            await self._alive(self._receive)
        frame, self._received = self._received, None
        assert frame is not None, "it was received, or that has raised"
        if frame.kind not in kinds:
            raise _Lost
        return frame

    async def _receive(self) -> None:
        if self._header is None:
            self._header = HEADER.unpack(await self._from.receive_exactly(HEADER.size))
        length, kind, number, pid = self._header
        self._pid = self._pid or pid
        if length > self._max_message_bytes or number != self._number or pid != self._pid:
            raise _Lost
        data = await self._from.receive_exactly(length) if length else b""
        self._header, self._received = None, PipeFrame(kind, number, data)

    async def _whole(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise _Lost from None

    async def _alive(self, work: Callable[[], Awaitable[None]]) -> None:
        lost = True

        async def end() -> None:
            await self._process.wait()
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(end)
            with suppress(_Lost):
                await self._whole(work)
                lost = False
            group.cancel_scope.cancel()
        if lost:
            raise _Lost

    async def kill(self, afterwards: Callable[[], Awaitable[None]] | None = None) -> str:
        """Ends the process and all that it has started, whatever they do, and returns how it ended. `afterwards` is
        awaited before the worker's pipes are closed."""
        # A forked child that ends its copy of the event loop cancels the copies of its parent's calls.
        if os.getpid() != self._host:
            return "it is another process'"
        with CancelScope(shield=True):
            looks_again = kill_family(self._process, self._mark)
            code = await self._process.wait()
            if looks_again:
                await kill_late(self._mark)
            try:
                if afterwards is not None:
                    await afterwards()
            finally:
                await self._process.aclose()
            return f"signal {-code}" if code < 0 else f"exit code {code}"
        raise AssertionError("nobody cancels a shield")

    async def end(self) -> None:
        with anyio.move_on_after(GRACE_S, shield=True):
            await self._to.aclose()
            await self._process.wait()
        await self.kill()
