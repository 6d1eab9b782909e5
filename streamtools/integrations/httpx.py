"""Taps the streams of a client of httpx or httpx2, under any SDK or framework that uses it.

    tap = Tap(httpx2.AsyncHTTPTransport())
    client = AsyncOpenAI(http_client=httpx2.AsyncClient(transport=tap))
    look_up = tap.tool(look_up, effect="pure")          where calls are to start early: give this to the framework

Input: the responses of a transport. Output: the same responses; and of each model's stream a copy, for a pipeline that
decodes it, traces it and starts its calls. A chunk is passed on before its copy is decoded, and never waits for that. A
failure of ours changes nothing in the response: it is logged once and counted.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator
from concurrent.futures import wait
from contextvars import Context, copy_context
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

import anyio
from anyio.lowlevel import checkpoint, current_token

from ..dispatch.event_loop import spawn
from ..errors import ToolDefinitionError
from ..limits import Limits
from ..observers import Observer
from ..sources.kinds import TAPPED
from ..sources.threads import thread_context
from ..tools import Tool, ToolKeywords, tool
from ..tools.tool import read_framework_tool
from ..wires import Wire, find
from .early_runs import EarlyRuns, EarlySummary, until_done
from .following import BodyCopy, Follower, OnEvent, loop_of_its_own, spawn_there
from .lineage import Request

__all__ = ["Tap"]

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:
    import httpx
    import httpx2

    from ..privacy import Privacy

    class _Transport(httpx.AsyncBaseTransport, httpx.BaseTransport, httpx2.AsyncBaseTransport, httpx2.BaseTransport):
        """Any transport: a client takes only its own library's."""

        def __enter__(self) -> Any: ...
        async def __aenter__(self) -> Any: ...
        def handle_request(self, request: Any) -> Any: ...
        async def handle_async_request(self, request: Any) -> Any: ...
else:
    _Transport = object

_STREAMS = frozenset(
    {
        "text/event-stream",
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/vnd.amazon.eventstream",
    }
)

_WHOLE = "application/json"

_CATCH_UP_S = 0.5  # how long closing a response of a synchronous client waits for its copy to be read
_ROUNDS = 2  # of the event loop, in which the copy's reader takes what has come

_logger = logging.getLogger("streamtools")


class Tap(_Transport):
    """A transport around another one, for an httpx or httpx2 client, asynchronous or not.

    Each streamed model response is traced like that of a pipeline, while the client reads it undisturbed. Calls of
    functions that `tool` made start when the call ends in the stream; when the framework calls the function, it gets
    the result of that run.

    Args:
        transport: sends the requests: ``httpx.AsyncHTTPTransport()``, ``httpx.HTTPTransport()``, or any other.
        on_event: called with each event of each response, in the context of the request. It must be quick, and not
            block. If it raises, it is not called again for that response.
        observers: makes the observers of one response, besides those that draw spans if OpenTelemetry is configured.
        wire: the wire of all streams, or its name; by default each is detected from its first payload.
        scope: returns the user or conversation of the running code (``current_user.get``). A call gets only runs from
            its own scope and one response: that of its own request, or else the latest. Without it a call gets runs of
            the latest request of its own context, or of the one from which its task was started, as long as the
            program's context variables have not changed since the request: no result passes from one conversation to
            another. A framework that asks the model in a different task than its tools needs a scope.
        shared: any call gets any run with its arguments, the latest response's first, in any context: for programs with
            a single user, and tools whose results are the same for all users.
        limits: the limits of each response. At most ``max_waiting_bytes`` of a copy wait to be decoded.
        privacy: the policy for recordings, spans and all other copies of each response; `on_event` sees the events.

    Raises:
        TypeError: `transport` is not a transport.
        ValueError: `wire` is unknown, or both `scope` and `shared` are given.
    """

    def __init__(
        self,
        transport: Any,
        *,
        on_event: OnEvent | None = None,
        observers: Callable[[], Iterable[Observer]] | None = None,
        wire: Wire | str | None = None,
        scope: Callable[[], Hashable] | None = None,
        shared: bool = False,
        limits: Limits = Limits(),
        privacy: Privacy | None = None,
    ) -> None:
        sends = hasattr(transport, "handle_async_request") or hasattr(transport, "handle_request")
        if isinstance(transport, type) or not sends:
            kind = f"the class {transport.__name__}" if isinstance(transport, type) else type(transport).__name__
            raise TypeError(f"expected a transport, such as httpx.AsyncHTTPTransport(), got {kind}")
        if wire is not None:
            find(wire)
        for name, given in (("on_event", on_event), ("observers", observers), ("scope", scope)):
            if given is not None and not callable(given):
                raise TypeError(f"{name}: expected a function, got {type(given).__name__}")
        if shared and scope is not None:
            raise ValueError(
                "expected scope= or shared=True, got both: a scope separates the results that shared=True shares"
            )
        self.warnings: Counter[str] = Counter()
        """How often something of ours failed or gave up, by code: ``copy_dropped`` (decoding lagged behind), and
        ``on_event_failed``, ``observer_failed``, ``call_not_compared`` (a call's arguments) and ``tap_failed``."""
        self._transport = transport
        self._limits = limits
        self._runs = EarlyRuns(self._note, scope=scope, shared=shared, limits=limits)
        self._follower = Follower(
            runs=self._runs,
            wire=wire,
            limits=limits,
            observers=observers,
            privacy=privacy,
            on_event=on_event,
            note=self._note,
        )
        self._privacy = privacy
        self._copies: set[BodyCopy] = set()

    # -- tools --

    @overload
    def tool(self, fn: Callable[P, R], /, **options: Unpack[ToolKeywords]) -> Callable[P, R]: ...
    @overload
    def tool(self, /, **options: Unpack[ToolKeywords]) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def tool(self, fn: Callable[..., Any] | None = None, /, **options: Unpack[ToolKeywords]) -> Any:
        """Makes a function whose calls start early, to pass to the framework instead of `fn`. Use it as a decorator or
        call it.

            @tap.tool(effect="pure")
            async def get_weather(city: str) -> str: ...

        It has the name, the signature and the docstring of `fn`, from which frameworks make their schemas. With the
        arguments of a started call, it awaits that run, and returns its value or raises its exception; with other
        arguments, it calls `fn`.

        Args:
            fn: a function, sync or async, or a tool.
            options: those of `streamtools.tool`. ``effect="pure"`` is required, since a framework's approvals and
                checks before a call come after the run has begun.

        Raises:
            ToolDefinitionError: the function cannot be a tool, must not start early, or another tool has its name.
        """
        if fn is None:
            return partial(self.tool, **options)
        if (theirs := read_framework_tool(fn)) is not None:
            why = f"is a tool of {theirs.framework}; pass its function, and make the framework's tool from the result"
            raise ToolDefinitionError(f"tool {theirs.name!r}: {why}", tool=theirs.name)
        return self._runs.wrapped(fn if isinstance(fn, Tool) and not options else tool(fn, **options))

    def summary(self) -> EarlySummary:
        """Returns one line: the calls answered from early runs, those that ran again with the reasons, the runs that
        were never asked for, and the seconds won."""
        return self._runs.summary()

    # -- as a transport --

    async def handle_async_request(self, request: Any) -> Any:
        """Sends a request; returns its response, tapped if it is a model's stream.

        Raises:
            TypeError: the inner transport is from another library than the client, or only one of them is asynchronous.
        """
        _check_fits(_package(type(request)), self._transport, "handle_async_request")
        asked_at = time.monotonic()
        response = await self._transport.handle_async_request(request)
        self._tap(request, response, asked_at, copy_context, is_async=True)
        return response

    def handle_request(self, request: Any) -> Any:
        """Sends a request of a synchronous client, as `handle_async_request` does."""
        _check_fits(_package(type(request)), self._transport, "handle_request")
        asked_at = time.monotonic()
        response = self._transport.handle_request(request)
        self._tap(request, response, asked_at, thread_context, is_async=False)
        return response

    async def aclose(self) -> None:
        """Closes the transport, and waits until the responses so far have been decoded; early runs that were not asked
        for are cancelled."""
        await self._transport.aclose()
        self._leave()
        with anyio.move_on_after(self._limits.cancel_grace):
            for copy in list(self._copies):
                await until_done(copy.done)

    def close(self) -> None:
        """Closes a synchronous transport, as `aclose` does."""
        self._transport.close()
        self._leave()
        wait([copy.done for copy in list(self._copies)], self._limits.cancel_grace)

    async def __aenter__(self) -> Any:
        _check_fits(_package(type(self._transport)), self._transport, "handle_async_request")
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Any:
        _check_fits(_package(type(self._transport)), self._transport, "handle_request")
        self._transport.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- copies --

    def _tap(
        self, request: Any, response: Any, asked_at: float, own_context: Callable[[], Context], *, is_async: bool
    ) -> None:
        # The client has its response whatever fails here. A `BaseException` is not ours, and passes.
        try:
            kind = _content_type(response)
            # A model is asked by POST: what is looked up (a stored answer, a file) is no step of its own.
            if kind not in _STREAMS and (kind != _WHOLE or request.method != "POST"):
                return
            # In the client's own context, before it is copied for the reader of the copy: what the framework does from
            # now on, and the runs of this response, are of one request.
            request_here = Request()
            context = own_context()
            copy = BodyCopy(
                response.headers.get("content-encoding", ""),
                max_bytes=self._limits.max_waiting_bytes,
                token=current_token() if is_async else loop_of_its_own(),
                same_loop=is_async,
                is_whole=kind == _WHOLE,
                asked_at=asked_at,
                on_drop=partial(self._note, "copy_dropped", None),
            )
            _attach(copy, response, is_async=is_async)
            request_here.is_behind = copy.is_behind
            self._copies.add(copy)
            copy.done.add_done_callback(lambda _: self._copies.discard(copy))
            if is_async:
                context.run(spawn, self._follower.follow, copy)
            else:
                spawn_there(self._follower.follow, copy, context)
        except Exception as error:
            self._note("tap_failed", error)

    def _leave(self) -> None:
        for copy in list(self._copies):
            copy.cut()
        self._runs.forget_all()

    def _note(self, code: str, error: BaseException | None) -> None:
        """Counts a failure of ours, and logs the first of its kind; an exception's own text only on request."""
        self.warnings[code] += 1
        if self.warnings[code] == 1:
            reason = "" if error is None else f": {type(error).__module__}.{type(error).__qualname__}"
            shown = error if os.environ.get("STREAMTOOLS_DEBUG") == "1" else None
            if shown is not None and self._privacy is not None and self._privacy.redact is not None:
                from ..privacy.values import Values  # few programs have a policy

                shown = Values(self._privacy.redact).words(shown)
            _logger.warning("tap: %s%s; the response itself is not affected", code, reason, exc_info=shown)


# -- responses and their bodies --


def _content_type(response: Any) -> str | None:
    """Returns the content type of a response that may be tapped; None for an error, and if it is tapped already."""
    if not 200 <= response.status_code < 300 or TAPPED in response.extensions:
        return None
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _attach(copy: BodyCopy, response: Any, *, is_async: bool) -> None:
    # A body that has been read is in memory, decoded. A class derived from a `Response` may be of another package.
    if response.is_stream_consumed:
        copy.headers = {}
        copy.feed(response.content)
        copy.end()
    else:
        kind = next(base for base in type(response).__mro__ if base.__name__ == "Response")
        response.stream = _bodies(_package(kind))[not is_async](response.stream, copy)
    response.extensions = {**response.extensions, TAPPED: copy}


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _check_fits(wanted: str, transport: Any, method: str) -> None:
    given = _package(type(transport))
    if not hasattr(transport, method):
        kinds = ("asynchronous", "AsyncHTTPTransport") if "async" in method else ("synchronous", "HTTPTransport")
        raise TypeError(f"the client is {kinds[0]}, but the transport is not; write Tap({wanted}.{kinds[1]}(...))")
    if {wanted, given} == {"httpx", "httpx2"}:
        name = type(transport).__name__
        raise TypeError(f"the client is from {wanted}, but the transport from {given}; write Tap({wanted}.{name}(...))")


class _Body:
    def __init__(self, body: Any, copy: BodyCopy) -> None:
        self._body = body
        self._copy = copy
        self._chunks: Any = None

    # A body that is dropped without being closed would leave its copy's reader waiting for ever.
    def __del__(self) -> None:
        self._copy.cut()


class _AsyncBody(_Body):
    def __aiter__(self) -> AsyncIterator[bytes]:
        self._chunks = aiter(self._body)
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk: bytes = await anext(self._chunks)
        except StopAsyncIteration:
            self._copy.end()
            raise
        except BaseException:
            self._copy.cut()
            raise
        self._copy.feed(chunk)
        return chunk

    async def aclose(self) -> None:
        self._chunks = None
        # The copy is cut even if closing fails. Where the body had ended, this changes nothing.
        try:
            await self._body.aclose()
        finally:
            self._copy.cut()
        # A program that ends now is to have the end of its trace.
        for _ in range(_ROUNDS):
            if not self._copy.caught_up.is_set():
                await checkpoint()


class _SyncBody(_Body):
    def __iter__(self) -> Iterator[bytes]:
        self._chunks = iter(self._body)
        return self

    def __next__(self) -> bytes:
        try:
            chunk: bytes = next(self._chunks)
        except StopIteration:
            self._copy.end()
            raise
        except BaseException:
            self._copy.cut()
            raise
        self._copy.feed(chunk)
        return chunk

    def close(self) -> None:
        self._chunks = None
        try:
            self._body.close()
        finally:
            self._copy.cut()
        self._copy.caught_up.wait(_CATCH_UP_S)


@cache
def _bodies(library: str) -> tuple[type[_AsyncBody], type[_SyncBody]]:
    # The clients check the class of a body. httpx and httpx2 have one each; the program imports one of them, or both.
    imported = sys.modules[library]
    return (
        type("TappedAsyncBody", (_AsyncBody, imported.AsyncByteStream), {}),
        type("TappedBody", (_SyncBody, imported.SyncByteStream), {}),
    )
