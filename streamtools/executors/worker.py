"""Runs a worker process of `ProcessExecutor`: takes calls from one pipe, one by one, and answers into another.

It ends when its executor closes the pipe or is gone: at once if a tool runs then, together with the processes that the
tool has started. The pipes are out of the tool's reach. A frame is its length (four bytes, big-endian), one byte for
its kind, the call's number (eight bytes), the process that has written it (four bytes), and JSON. A frame of another
call or process (a forked child that came back through the tool) is not the worker's, and the worker is ended for it.

    executor -> worker   C  the call
    worker -> executor   Y  the tool is there, the arguments fit; ready to go
                         N  the call was not started, and will not be
    executor -> worker   G  go: the seconds that the call may take, and its span
                         D  drop the call
    worker -> executor   P  a report of the tool's
                         R  the value
                         E  the tool failed
"""

from __future__ import annotations

import atexit
import os
import queue
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from inspect import isasyncgen, isawaitable
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO

import anyio
from anyio.abc import Process
from pydantic_core import from_json, to_json

from ..dispatch import Invocation, context_of
from ..dispatch.in_process import awaited
from ..errors import InvalidArguments, StreamToolsError
from ..telemetry.carrier import carried
from ..tools import Bound, Tool, ToolContext
from .codec import encode_failure, encode_report, encode_value, resolved

HEADER = Struct(">IcQI")
CALL, GO, DROP = b"C", b"G", b"D"
READY, REFUSED, REPORT, RESULT, FAILED = b"Y", b"N", b"P", b"R", b"E"
LATE_S = 0.5  # the executor kills at the deadline; this is for an executor that cannot


@dataclass(frozen=True, slots=True)
class PipeFrame:
    kind: bytes
    number: int  # the number of the call that it belongs to, among the worker's calls
    data: bytes = b""

    def packed(self) -> bytes:
        return HEADER.pack(len(self.data), self.kind, self.number, os.getpid()) + self.data


def read_frame(source: BinaryIO) -> PipeFrame | None:
    """Returns the next frame; None if the source has ended, also in the middle of a frame."""
    header = source.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    length, kind, number, _ = HEADER.unpack(header)
    data = source.read(length)
    return PipeFrame(kind, number, data) if len(data) == length else None


def main(mark: str) -> None:  # pragma: no cover - in a worker
    """Serves the pipes that are this process's standard input and output. `mark` is in its environment, and in that of
    the processes that it starts."""
    end = partial(die, mark, os.getpid())
    atexit.register(end)  # registered first, so called last
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    Server(source, sink, end).serve()


def die(mark: str, worker: int) -> None:  # pragma: no cover - in a worker
    if os.getpid() == worker:
        kill_all_marked(mark)
        sys.stdout.flush()
        sys.stderr.flush()
        if hasattr(os, "killpg") and os.getpgrp() == worker:
            os.killpg(worker, signal.SIGKILL)
    os._exit(1)


class Server:
    """Runs the calls that come from `source`, and answers into `sink`. `die` ends the process, also if it is a child of
    the one that made this."""

    def __init__(self, source: BinaryIO, sink: BinaryIO, die: Callable[[], None]) -> None:
        self._source = source
        self._sink = sink
        self._die = die
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._frames: queue.SimpleQueue[PipeFrame | None] = queue.SimpleQueue()
        self._busy = False

    def serve(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()
        while (frame := self._frames.get()) is not None:
            if frame.kind != CALL or not self._answered(frame):
                break

    def _read(self) -> None:
        """Reads frames, in a thread of its own, so that the worker notices if the executor goes while a tool runs."""
        while (frame := read_frame(self._source)) is not None:
            self._busy = self._busy or frame.kind == GO
            self._frames.put(frame)
        if self._busy:
            self._die()
        self._frames.put(None)

    def _answered(self, frame: PipeFrame) -> bool:
        """Prepares a call, and carries it out if told to; returns whether more calls may come."""
        request = from_json(frame.data)
        call = Invocation(**request["call"])
        try:
            tool = resolved(request["reference"])
            if tool.fingerprint != request["fingerprint"]:
                text = f"the tool {call.tool} differs in the worker; restart the executor"
                return self._sent(PipeFrame(REFUSED, frame.number, to_json(text)))
            bound = tool.validate(call.arguments)
        except (StreamToolsError, InvalidArguments) as error:
            return self._sent(PipeFrame(REFUSED, frame.number, to_json(str(error))))
        self._sent(PipeFrame(READY, frame.number))
        order = self._frames.get()
        if order is None or order.number != frame.number or order.kind not in (GO, DROP):
            return False
        if order.kind == DROP:
            return True
        sent = from_json(order.data)
        call.carrier = sent["carrier"]
        running = _Running(self, frame.number, call, request["max_message_bytes"], request["backend"])
        with carried(call.carrier):
            kind, answer = running.run(tool, bound, sent["seconds"])
        self._busy = False
        return self._sent(PipeFrame(kind, frame.number, answer))

    def _sent(self, frame: PipeFrame) -> bool:
        self.end_if_forked()  # before the lock, which another thread may hold for ever in a forked child
        try:
            with self._lock:
                self._write(frame)
        except OSError:  # the executor is gone
            return False
        return True

    def report(self, frame: PipeFrame, over: threading.Event) -> None:
        """Writes a report, from any thread, unless its call is over: a thread that the tool has left behind must not
        report among the next call's reports. Nor may a forked child, since the pipes are not its own."""
        if os.getpid() != self._pid:  # pragma: no cover - in a child of a worker
            return
        with self._lock:
            if not over.is_set():
                self._write(frame)

    def _write(self, frame: PipeFrame) -> None:
        self._sink.write(frame.packed())
        self._sink.flush()

    def end_if_forked(self) -> None:
        """Ends this process if it is a child of the worker: the pipes are not its own."""
        if os.getpid() != self._pid:  # pragma: no cover - in a child of a worker
            os._exit(1)

    def alarm(self, seconds: float | None) -> threading.Timer:
        alarm = threading.Timer(min(max(0.0, seconds or 0.0) + LATE_S, threading.TIMEOUT_MAX), self._die)
        alarm.daemon = True
        if seconds is not None:
            alarm.start()
        return alarm


@dataclass(slots=True, eq=False)
class _Running:
    server: Server
    number: int
    call: Invocation
    limit: int  # bytes of a value or a report
    backend: str
    over: threading.Event = field(default_factory=threading.Event)

    def run(self, tool: Tool[..., Any], bound: Bound, seconds: float | None) -> tuple[bytes, bytes]:
        ctx = context_of(self.call, self._report, self.over.is_set)
        alarm = self.server.alarm(seconds)
        try:
            args, kwargs = tool.complete(bound, ctx)
            value = self._value(tool, tool.fn(*args, **kwargs), ctx)
            return RESULT, encode_value(tool.name, value, self.limit)
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: they are the tool's, not the worker's
            return FAILED, encode_failure(tool.name, error, self.limit)
        finally:
            self.server.end_if_forked()
            self.over.set()
            alarm.cancel()

    def _value(self, tool: Tool[..., Any], value: Any, ctx: ToolContext) -> Any:
        if not (isawaitable(value) or isasyncgen(value)):
            return value
        return anyio.run(self._awaited, tool.name, value, ctx.progress, backend=self.backend)

    async def _awaited(self, tool: str, value: Any, progress: Callable[[Any], None]) -> Any:
        try:
            return await awaited(tool, value, progress)
        finally:
            self.server.end_if_forked()  # before a child ends the event loop, whose selector is the worker's, too

    def _report(self, value: Any) -> None:
        self.server.report(PipeFrame(REPORT, self.number, encode_report(value, self.limit)), self.over)


# -- the processes that a worker has started --

# Killed with a worker are, on Linux, its process group and all that have its mark in their environment, in sessions of
# their own too; on macOS and other Unix its process group; on Windows nothing but the worker.
#
# Beyond reach is a process that has left the worker's group and, on Linux, has cleared its environment as well.
#
# Theory of operation. Linux shows an environment as ``/proc/PID/environ``. A process that is replacing its program
# (exec) has none for a moment: the new memory is there, and the environment has not been put into it yet
# (https://github.com/torvalds/linux/blob/master/fs/binfmt_elf.c: ``create_elf_tables`` sets ``env_start``). Whoever
# looks at that moment sees an empty file. So a process of our own user without an environment is looked at again,
# until it has one, or has ended, or turns out to have been started without: ``/proc/PID/stat`` then has the place of
# the empty one.

MARK = "STREAMTOOLS_WORKER_"
"""The beginning of the environment variable that marks a worker's processes. Each worker has a variable of its own, so
that a process that is started by a worker's worker carries the marks of both."""

ROUNDS = 20  # a process may fork while the others are looked at
LOOKS = 50  # at processes that have no environment at this moment
PAUSE_S = 0.01  # between two looks; an exec takes less than a millisecond where processors are free

PROC = Path("/proc")  # on Linux only
KERNEL_THREAD = 0x00200000  # PF_KTHREAD, in the flags of /proc/PID/stat
STATE, FLAGS, BORN, ENVIRONMENT = 0, 6, 19, slice(47, 49)  # in /proc/PID/stat, behind the program's name


def new_mark() -> str:
    return MARK + secrets.token_hex(8)


def kill_family(worker: Process, mark: str) -> bool:
    """Kills a worker and what it has started, as far as that shows now; returns whether `kill_late` has to look for
    more. Takes a millisecond or two per hundred processes of the machine."""
    if hasattr(os, "killpg"):
        # not worker.kill(): that reaps, and asyncio then reports exit code 255
        if worker.returncode is None or not _exists(worker.pid):  # ended and there: its number is another's by now
            with suppress(ProcessLookupError, PermissionError):  # none left; macOS raises the second for zombies
                os.killpg(worker.pid, signal.SIGKILL)
    elif worker.returncode is None:  # pragma: no cover - Windows
        worker.kill()
    return kill_marked(mark)


async def kill_late(
    mark: str, *, proc: Path = PROC, kill: Callable[[int, int], object] = os.kill, looks: int = LOOKS
) -> None:
    """Kills the marked processes whose environment did not show at first; gives up after half a second."""
    for _ in range(looks):
        if not kill_marked(mark, proc=proc, kill=kill):
            return
        await anyio.sleep(PAUSE_S)


def kill_all_marked(mark: str) -> None:  # pragma: no cover - in a worker
    """Does what `kill_late` does, in a process that has no event loop to keep from running."""
    for _ in range(LOOKS):
        if not kill_marked(mark):
            return
        time.sleep(PAUSE_S)


def kill_marked(mark: str, *, proc: Path = PROC, kill: Callable[[int, int], object] = os.kill) -> bool:
    """Kills all other processes that show the mark in their environment. Returns whether some process shows no
    environment at this moment, so that it may have the mark: look again. `proc` is the system's account of its
    processes, and `kill` sends a signal to one."""
    hidden = False
    for _ in range(ROUNDS):
        marked, hidden = _look(mark, proc)
        if not marked:
            break
        for pid in marked:
            with suppress(ProcessLookupError, PermissionError):  # it has just ended, or is another user's
                kill(pid, signal.SIGKILL)
    return hidden


def _look(mark: str, proc: Path) -> tuple[list[int], bool]:
    start, marked, hidden = f"{mark}=".encode(), list[int](), False
    since = _born(proc)
    for directory in proc.glob("[0-9]*"):
        pid = int(directory.name)
        if pid == os.getpid():
            continue
        environment = _environment(directory)
        if environment.startswith(start) or b"\0" + start in environment:
            marked.append(pid)
        hidden = hidden or (environment == b"" and _may_show_one(directory, since))
    return marked, hidden


def _environment(directory: Path) -> bytes:
    """Returns a process's environment; a placeholder if nobody may read it, or the process has just ended."""
    with suppress(OSError):
        return (directory / "environ").read_bytes()
    return b"\0"


def _may_show_one(directory: Path, since: int) -> bool:
    """Returns whether a process that showed an empty environment may show another: not if it has ended, is older than
    this process, or was started with an empty one, which then has its place."""
    try:
        before = _status(directory)
        if before[STATE] in "ZX" or int(before[FLAGS]) & KERNEL_THREAD or int(before[BORN]) < since:
            return False
        is_empty = "0" not in before[ENVIRONMENT] and _environment(directory) == b""
        return not is_empty or _status(directory)[ENVIRONMENT] != before[ENVIRONMENT]
    except (OSError, IndexError):  # it has just ended
        return False


def _born(proc: Path) -> int:
    """Returns when this process began, in the system's clock ticks."""
    try:
        return int(_status(proc / "self")[BORN])
    except (OSError, IndexError):
        return 0


def _status(directory: Path) -> list[str]:
    return (directory / "stat").read_text().rpartition(")")[2].split()


def _exists(pid: int) -> bool:
    try:
        with suppress(PermissionError):  # another user's
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
