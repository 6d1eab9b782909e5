"""A worker process of `ProcessExecutor`: takes calls from one pipe, one after the other, and answers into another.

It ends when its executor closes the pipe or is gone: at once if a tool runs then, together with the processes that the
tool has started. What a tool prints goes to standard error; the pipes are out of its reach, and out of its children's.
"""

from __future__ import annotations

import atexit
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isasyncgen, isawaitable
from typing import Any, BinaryIO

import anyio
from pydantic_core import from_json, to_json

from ...errors import InvalidArguments, StreamToolsError, ToolFailed
from ...telemetry.carried import carried
from ...tools import Bound, Tool, ToolContext
from ..executor import Invocation, context_of
from ..results import encode_error, encode_result
from .channel import FAILED, REFUSED, REPORT, RESULT, STARTED, frame, read_frame
from .reference import resolved
from .runs import awaitable, failure

__all__ = ["Server", "main"]

LATE_S = 0.5  # the executor kills at the deadline; this is for an executor that cannot


def main() -> None:
    """Serve the pipes that are this process's standard input and output."""
    atexit.register(die)  # registered first, so called last
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    Server(source, sink, die).serve()


def die() -> None:
    """End this process and those that it has started, now."""
    sys.stdout.flush()
    sys.stderr.flush()
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


class Server:
    """Runs the calls that come over a pipe.

    Args:
        source: where calls come from.
        sink: where answers go.
        die: ends the process.
    """

    def __init__(self, source: BinaryIO, sink: BinaryIO, die: Callable[[], None]) -> None:
        self._source = source
        self._sink = sink
        self._die = die
        self._lock = threading.Lock()
        self._calls: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._busy = False

    def serve(self) -> None:
        """Run calls until there are no more."""
        threading.Thread(target=self._read, daemon=True).start()
        while (data := self._calls.get()) is not None:
            self._answer(data)

    def _read(self) -> None:
        """In a thread of its own, so that it is seen when the executor goes while a tool runs."""
        while (data := read_frame(self._source)) is not None:
            self._busy = True
            self._calls.put(data)
        if self._busy:
            self._die()
        self._calls.put(None)

    def _answer(self, data: bytes) -> None:
        request = from_json(data)
        call = Invocation(**request["call"])
        kind, answer = self._refused_or_run(call, request)
        if len(answer) > request["max_message_bytes"]:
            text = (
                f"the tool {call.tool} returned {len(answer)} bytes (max_message_bytes={request['max_message_bytes']})"
            )
            kind, answer = FAILED, to_json({"kind": "ToolFailed", "text": text})
        self._busy = False
        self._send(kind, answer)

    def _refused_or_run(self, call: Invocation, request: dict[str, Any]) -> tuple[bytes, bytes]:
        try:
            tool = resolved(request["reference"])
            if tool.fingerprint != request["fingerprint"]:
                return REFUSED, to_json(f"the tool {call.tool} is another one in the worker; restart the executor")
            bound = tool.validate(call.arguments)
        except (StreamToolsError, InvalidArguments) as error:
            return REFUSED, to_json(str(error))
        return self._run(tool, bound, call, request)

    def _run(
        self, tool: Tool[..., Any], bound: Bound, call: Invocation, request: dict[str, Any]
    ) -> tuple[bytes, bytes]:
        over = threading.Event()
        limit = request["max_message_bytes"]
        ctx = context_of(call, partial(self._report, over, limit), over.is_set)
        args, kwargs = tool.complete(bound, ctx)
        alarm = self._alarm(call)
        self._send(STARTED, b"")
        try:
            with carried(call.carrier):
                value = _value(tool, tool.fn(*args, **kwargs), ctx, request["backend"])
            return RESULT, encode_result(value)
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: they are the tool's, not the worker's
            return FAILED, to_json(encode_error(call.tool, failure(call.tool, error)))
        finally:
            over.set()
            if alarm is not None:
                alarm.cancel()

    def _alarm(self, call: Invocation) -> threading.Timer | None:
        if call.deadline is None:
            return None
        alarm = threading.Timer(max(0.0, call.deadline - time.time()) + LATE_S, self._die)
        alarm.daemon = True
        alarm.start()
        return alarm

    def _report(self, over: threading.Event, limit: int, value: Any) -> None:
        try:
            data = to_json(value)
        except Exception as error:  # the value's own code runs here
            raise ToolFailed(f"progress: a {type(value).__name__} cannot be written as JSON") from error
        if len(data) > limit:
            raise ToolFailed(f"progress: {len(data)} bytes (max_message_bytes={limit})")
        with self._lock:
            if not over.is_set():  # a thread that the tool has left behind is not heard among the next call's reports
                self._write(REPORT, data)

    def _send(self, kind: bytes, data: bytes) -> None:
        with self._lock:
            self._write(kind, data)

    def _write(self, kind: bytes, data: bytes) -> None:
        self._sink.write(frame(kind, data))
        self._sink.flush()


def _value(tool: Tool[..., Any], value: Any, ctx: ToolContext, backend: str) -> Any:
    """What the function returned, or what that comes to."""
    if not (isawaitable(value) or isasyncgen(value)):
        return value
    return anyio.run(_awaited, awaitable(tool.name, value, ctx), backend=backend)


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value
