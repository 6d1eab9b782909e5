"""Opens connections to MCP servers that bound each message before it is parsed; the SDK's own have no bound.

An answer beyond ``max_message_bytes`` is dropped as it is read. In its place the session gets an error for the request,
so the caller learns what was too large, and the connection stays open.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import cache
from itertools import pairwise
from typing import Any

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import ObjectReceiveStream, ObjectSendStream, Process
from anyio.lowlevel import checkpoint
from pydantic import TypeAdapter

from ..ground import excerpt
from ..limits import Limits

GRACE_S = 2.0  # seconds for a server to end by itself, and again after each signal; as the SDK has them

SMALL_BYTES = 64 << 10  # lines that are parsed in the event loop; larger ones are parsed in a thread

_END_BYTES = 4096  # bytes of each end of a line that is dropped: they have the id of its request

_INTERNAL_ERROR = -32603  # of JSON-RPC
_VALUE_BYTES = 20  # the least that a JSON value counts for: parsed, a small one takes a hundred times its text
_STRING = re.compile(rb'"[^"]*"?')


def _fits(message: bytes, limits: Limits) -> bool:
    most = limits.max_message_bytes
    if len(message) <= most < _VALUE_BYTES * _values_in(message):  # which may stand in texts
        plain = message.replace(rb"\\", b"").replace(rb"\"", b"")
        is_much = plain.count(b'"') > most // _VALUE_BYTES * 4  # the quotes of a value and of its name
        message = plain if is_much else _STRING.sub(b"", plain)
    return max(len(message), _VALUE_BYTES * _values_in(message)) <= most


def _values_in(message: bytes) -> int:
    return sum(map(message.count, (b",", b"[", b"{")))


def _refusal(request_id: Any, method: str, server: str, limits: Limits) -> str:
    # The message says that the request was answered: the model must not take this for a call that it may repeat.
    words = (
        f"the answer of {excerpt(server, 200)} to {method} exceeded max_message_bytes={limits.max_message_bytes} and "
        "was dropped; raise Limits(max_message_bytes=...) to accept it"
    )
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": {"code": _INTERNAL_ERROR, "message": words}})


# -- a process --


@asynccontextmanager
async def stdio_transport(
    server: Any, *, errlog: Any = None, limits: Limits = Limits()
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Starts an MCP server in a process, and yields the streams for a session, as the SDK's ``stdio_client`` does.

        async with stdio_transport(server) as (read, write), ClientSession(read, write) as session:
            await session.initialize()

    Leaving the block closes the server's input. A server that keeps running is ended with its process group.

    Args:
        server: the SDK's ``StdioServerParameters``. Messages are UTF-8.
        errlog: the file for the server's standard error; by default the program's own.
        limits: ``max_message_bytes`` for each line.

    Raises:
        OSError: the process cannot be started.
    """
    from mcp.client.stdio import get_default_environment  # every MCP user has it

    process = await anyio.open_process(
        [server.command, *server.args],
        env={**get_default_environment(), **(server.env or {})},
        cwd=server.cwd,
        stderr=errlog,
        start_new_session=sys.platform != "win32",
    )
    try:
        requests = _Requests(process)
        yield _Answers(process, requests, os.path.basename(server.command), limits), requests
    finally:
        with CancelScope(shield=True):
            await _end(process)


async def _end(process: Process) -> None:
    assert process.stdin is not None, "it was started with a pipe"
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    for name in (None, "SIGTERM", "SIGKILL"):
        if name is not None:
            with suppress(ProcessLookupError, PermissionError):
                if sys.platform == "win32":  # pragma: no cover
                    process.kill()
                else:
                    os.killpg(process.pid, getattr(signal, name))
        with anyio.move_on_after(GRACE_S):
            await process.wait()
            break
    await process.aclose()


class _Requests(ObjectSendStream[Any]):
    def __init__(self, process: Process) -> None:
        self._process = process
        self._lock = anyio.Lock()
        self._is_broken = False
        self.open: dict[Any, str] = {}  # the method of each request that has no answer yet, by its id

    async def send(self, item: Any) -> None:
        """Writes a message. If that is cancelled, the connection is broken, since half of it may be written."""
        message, stdin = getattr(item.message, "root", item.message), self._process.stdin
        assert stdin is not None, "it was started with a pipe"
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        async with self._lock:
            if self._is_broken:
                raise anyio.BrokenResourceError
            if hasattr(message, "method") and getattr(message, "id", None) is not None:
                self.open[message.id] = message.method
            self._is_broken = True
            try:
                await stdin.send(line)
            except OSError as error:
                raise anyio.BrokenResourceError from error
            self._is_broken = False

    async def aclose(self) -> None:
        """Ends writing; the process's input is closed when the block is left."""
        self._is_broken = True


class _Answers(ObjectReceiveStream[Any]):
    def __init__(self, process: Process, requests: _Requests, server: str, limits: Limits) -> None:
        self._process = process
        self._requests = requests
        self._server = server
        self._limits = limits
        self._rest = b""  # after the line that was read last
        self._refusals: deque[str] = deque()

    async def receive(self) -> Any:
        """Returns the next message, or an exception for a line that is not one, as the SDK's transports do."""
        from mcp.shared.message import SessionMessage  # as above

        await checkpoint()  # tasks that the session has started for one message begin before the next
        text = self._refusals.popleft() if self._refusals else ""
        while not text:
            line, size = await self._line()
            if size == len(line) and _fits(line, self._limits):
                text = line.decode("utf-8", "replace") or "\n"  # an empty line is no message either
            else:
                self._refuse(line[:_END_BYTES] + line[-_END_BYTES:])
                text = self._refusals.popleft() if self._refusals else ""
        read = _messages().validate_json
        try:
            message = read(text) if len(text) <= SMALL_BYTES else await to_thread.run_sync(read, text)
        except ValueError as error:
            return error
        inner = getattr(message, "root", message)
        if not hasattr(inner, "method"):
            self._requests.open.pop(inner.id, None)
        return SessionMessage(message)

    async def aclose(self) -> None:
        """Does nothing: the process ends when the block is left."""

    async def _line(self) -> tuple[bytes, int]:
        """Returns a line with its size; only the two ends of a line that is too large."""
        stdout = self._process.stdout
        assert stdout is not None, "it was started with a pipe"
        pieces, size, chunk = list[bytes](), 0, self._rest
        while True:
            piece, end, self._rest = chunk.partition(b"\n")
            pieces.append(piece)
            size += len(piece)
            if size > self._limits.max_message_bytes:
                ends = b"".join(pieces)
                pieces = [ends[:_END_BYTES], ends[-_END_BYTES:]]
            if end:
                return b"".join(pieces), size
            try:
                chunk = await stdout.receive()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                raise anyio.EndOfStream from None

    def _refuse(self, ends: bytes) -> None:
        """Answers the request that a dropped line belongs to, or all open ones if the line does not show its id."""
        requests = self._requests.open
        named = [
            one for one in requests if re.search(rb'"id"\s*:\s*%b\s*[,}]' % re.escape(json.dumps(one).encode()), ends)
        ]
        for request_id in named or list(requests):
            self._refusals.append(_refusal(request_id, requests[request_id], self._server, self._limits))


@cache
def _messages() -> TypeAdapter[Any]:
    from mcp.types import JSONRPCMessage  # as above

    return TypeAdapter(JSONRPCMessage)


# -- HTTP --


class BoundedHTTPTransport:
    """A transport around another one, for the client that the SDK's ``streamable_http_client`` takes.

        client = httpx2.AsyncClient(transport=BoundedHTTPTransport(httpx2.AsyncHTTPTransport()))
        async with client, streamable_http_client(url, http_client=client) as streams:
            ...

    Bodies, and events of event streams, reach the SDK whole or not at all. The SDK parses those within the bound in the
    event loop. Encoded (compressed) bodies are not requested, and are refused: a few bytes may become gigabytes.

    Args:
        transport: sends the requests: ``AsyncHTTPTransport()`` of httpx2 (mcp 2) or httpx (mcp 1).
        limits: ``max_message_bytes`` for each body, and for each event.
    """

    def __init__(self, transport: Any, *, limits: Limits = Limits()) -> None:
        self._transport = transport
        self._limits = limits

    async def handle_async_request(self, request: Any) -> Any:
        """Sends a request, and bounds the body of its response."""
        request.headers["accept-encoding"] = "identity"
        # A redirected request has not been read, and once sent it may not be readable.
        asked = json.loads(await request.aread()) if request.method == "POST" else {}
        response = await self._transport.handle_async_request(request)
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise ValueError(f"{request.url.host} has encoded its answer, although it was asked not to")
        refusal = ""
        if "id" in asked and "method" in asked:
            refusal = _refusal(asked["id"], asked["method"], request.url.host, self._limits)
        if refusal and is_stream:
            refusal = f"event: message\ndata: {refusal}\n\n"
        kind = next(base for base in type(response).__mro__ if base.__name__ == "Response")
        body = _body_of(kind.__module__.partition(".")[0])
        response.stream = body(response.stream, self._limits, refusal.encode(), _EVENT_END if is_stream else None)
        return response

    async def aclose(self) -> None:
        """Closes the transport inside."""
        await self._transport.aclose()

    async def __aenter__(self) -> BoundedHTTPTransport:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self._transport.__aexit__(*raised)


_EVENT_END = re.compile(rb"\r?\n\r?\n|\r\r")
_EVENT_END_BYTES = 4


class _Body:
    """A response's body, which passes on what is whole and within the bound."""

    def __init__(self, body: Any, limits: Limits, refusal: bytes, end: re.Pattern[bytes] | None) -> None:
        self._body = body
        self._limits = limits
        self._refusal = refusal
        self._end = end
        self._chunks: Any = None
        self._held = bytearray()
        self._is_over = False

    def __aiter__(self) -> _Body:
        self._chunks = aiter(self._body)
        return self

    async def __anext__(self) -> bytes:
        ready = b""
        while not ready and not self._is_over:
            chunk = await anext(self._chunks, None)
            if chunk is None:
                self._is_over, ready = True, bytes(self._held)
                ready = ready if _fits(ready, self._limits) else self._refusal
            else:
                ready = self._take(chunk)
        if not ready:
            raise StopAsyncIteration
        return ready

    def _take(self, chunk: bytes) -> bytes:
        held, before = self._held, max(0, len(self._held) - _EVENT_END_BYTES)
        held += chunk
        ends = [found.end() for found in self._end.finditer(held, before)] if self._end is not None else []
        rest = len(held) - max(ends, default=0)
        events = (bytes(held[start:end]) for start, end in pairwise([0, *ends]))
        if rest > self._limits.max_message_bytes or not all(_fits(event, self._limits) for event in events):
            self._is_over = True
            held.clear()
            return self._refusal
        ready = bytes(held[: ends[-1]]) if ends else b""
        del held[: len(ready)]
        return ready

    async def aclose(self) -> None:
        if hasattr(self._chunks, "aclose"):  # generators are
            await self._chunks.aclose()
        await self._body.aclose()


@cache
def _body_of(library: str) -> type[Any]:
    # A response of httpx accepts a stream only of httpx's own class.
    return type("_BoundedBody", (_Body, sys.modules[library].AsyncByteStream), {})
