"""Sends a run as an ASGI response: writes server-sent events, and notices while tools run when the client has gone.

When the writing ends for any reason, the block is left, which cancels and awaits the calls and closes the source. A
repeated request begins nothing.

https://asgi.readthedocs.io/en/latest/specs/www.html
https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from anyio import create_task_group

from ..errors import LocalProtocolError, StreamError
from ..events import Event, StepEnd
from ..front import AgentLoop, Pipeline
from ..web.encoding import HEADERS, Encode, Encoder, RunEnd, encoded, framed, told_of
from ..web.held import HeldBack
from ..web.own import encode_event
from ..web.watch import ClientStream, GoneError, Receive, Send

__all__ = ["Encode", "EventStreamResponse", "Run", "RunEnd", "encode_event"]


# -- the response --


# FastAPI takes nothing but an object of Starlette's class for a response, and would write any other as JSON.
if TYPE_CHECKING:
    from starlette.responses import Response as _Response
else:
    try:
        from starlette.responses import Response as _Response
    except ImportError:  # any other ASGI framework takes an application
        _Response = object


Run: TypeAlias = Pipeline | AgentLoop
"""One response, opened or not, or a run of several."""


_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # https://www.rfc-editor.org/rfc/rfc9110#name-tokens
_AFTER_S = 30.0  # seconds allowed for `after`, which is shielded and so needs a bound


class EventStreamResponse(_Response):
    """A response for Starlette, FastAPI or any ASGI framework, with the events of one pipeline or run.

        @app.post("/chat")
        async def chat(question: Question):
            ask = ...  # makes the request of one step
            return EventStreamResponse(agent_loop(ask, question.messages, tools=[...], wire="anthropic.messages"))

    Each event is a server-sent event with its ``seq`` as ``id``; the last one is ``run_end`` with the ``outcome`` of
    the run. Close a browser's ``EventSource`` then, since it reconnects. A request with a ``Last-Event-ID`` is answered
    204 without a body: the run does not begin, an open stream is closed, and `after` is not awaited, since it would
    store a history without the answer. With the outcome ``error`` `run_end` has a ``kind``; an error other than a
    `StreamError` (from your source, stage or `encode`) is then raised to the server as well, to be logged. With
    ``suspended`` it has the ``call_ids`` that wait for an approval: keep the run's `suspended` in `after`, and answer
    the next request with `resume`, or another `agent_loop`.

    The events obey the run's policy (`streamtools.privacy`), even in an approval request: its arguments are redacted,
    and its fingerprint is that of the original arguments.

    Args:
        run: a pipeline made for this request, opened or not, or a run of many steps (`agent_loop`). It is entered here.
        encode: returns the data to send for each event: an encoder of `streamtools.web`, made for this response, or a
            function; by default `encode_event`, which sends no results, and arguments only with the request to approve
            them.
        after: awaited with the run when it is over, even if the client has gone: store the history here
            (``run.messages``, or ``run.turn.messages()`` of a pipeline). ``run_end`` is sent when it has returned, and
            not if it raises. It is cancelled after 30 seconds.
        status_code: the status of the response.
        headers: more headers, or replacements for the three that keep proxies from buffering events.
        heartbeat: seconds of silence after which a comment is sent. None: never.
        send_timeout: seconds without progress in sending after which the client counts as gone. None: no limit.
        can_retract: True if the client forgets the events of a discarded attempt. Otherwise the events of each attempt
            of ``Retry(after_output=True)`` are held back until it is committed. By default `encode.can_retract`, or
            False for your own function without this attribute; `encode_event` can retract.

    Raises:
        TypeError: `run` is something else; the message names what to pass.
        ValueError: an option, a header or a time is invalid.
    """

    def __init__(
        self,
        run: Run,
        *,
        encode: Encode = encode_event,
        after: Callable[[Any], Awaitable[object]] | None = None,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        heartbeat: float | None = 15.0,
        send_timeout: float | None = 60.0,
        can_retract: bool | None = None,
    ) -> None:
        if not isinstance(run, (Pipeline, AgentLoop)):
            raise TypeError(
                f"EventStreamResponse takes a pipeline or an agent_loop, not {type(run).__name__}; "
                "write EventStreamResponse(pipeline(stream, tools=[...]))"
            )
        for name, function in (("encode", encode), ("after", after)):
            if not (function is None or callable(function)):
                raise TypeError(f"{name}: expected a function, got {type(function).__name__}")
        self._run = run
        self._encode = encode
        self._after = after
        self.status_code = status_code
        self._encoder = encode if isinstance(encode, Encoder) else None
        self.raw_headers = _checked({**(self._encoder.headers if self._encoder else {}), **(headers or {})})
        self.background: Any = None
        """A task of Starlette's or FastAPI's to run when the response has ended."""
        self._heartbeat_s = _seconds("heartbeat", heartbeat)
        if not dict(self.raw_headers)[b"content-type"].startswith(b"text/event-stream"):
            self._heartbeat_s = math.inf  # in any other text, a comment would be a part of it
        self._send_timeout_s = _seconds("send_timeout", send_timeout)
        guard = run.trajectory.guard
        self._shown = None if guard is None else guard.page(run.trajectory)
        if can_retract is None:
            can_retract = bool(getattr(encode, "can_retract", encode is encode_event))
        self._held = None if can_retract else HeldBack()
        self._called = False
        self._outcome: str | None = None  # of the step that has ended

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise LocalProtocolError(f"EventStreamResponse answers requests of type http, not {scope['type']}")
        if self._called:
            raise LocalProtocolError("an EventStreamResponse answers one request; make a new one for each request")
        self._called = True
        client = ClientStream(receive, send, self._heartbeat_s, self._send_timeout_s)
        # A browser's `EventSource` repeats its request when the response ends or breaks, with the id of the last event.
        # Such a request begins nothing: a second run would make every payment again. Polyfills send the header empty.
        if any(name == b"last-event-id" and value.strip() for name, value in scope.get("headers", ())):
            await self._answer_again(client)
        else:
            await self._answer_once(client)
        if self.background is not None:
            await self.background()

    async def _answer_again(self, client: ClientStream) -> None:
        # The run is not stored either: that would overwrite the history that has the answer.
        if isinstance(self._run, Pipeline):
            await (self._run.aclose() if self._run.is_opened else self._run.discard())
        headers = [(name, value) for name, value in self.raw_headers if name != b"content-type"]
        try:
            # 204 is the status that ends the repeating:
            # https://html.spec.whatwg.org/multipage/server-sent-events.html#concept-event-stream-reconnect
            await client.start(204, headers)
            await client.write(b"", more=False)
        except GoneError as gone:
            if gone.fault is not None:
                raise gone.fault from None

    async def _answer_once(self, client: ClientStream) -> None:
        entered, run = False, self._run
        end: RunEnd | None = None
        failure: Exception | None = None
        block: AbstractAsyncContextManager[Run] = run
        if isinstance(run, Pipeline) and run.is_opened:
            block = aclosing(run)
        # Entered here, so that its scopes live in the frame of the task that serves the request: in a generator that a
        # framework drops at its `yield`, they would be left open, or in another task (PEP 789).
        try:
            async with block as events, create_task_group() as tasks:
                entered = True
                tasks.start_soon(client.until_gone, tasks.cancel_scope)
                tasks.start_soon(client.keep)
                end, failure = await self._answer(events, client)  # not raised here: the group would wrap it
                tasks.cancel_scope.cancel()
        finally:
            if entered and self._after is not None:
                with anyio.fail_after(_AFTER_S, shield=True):
                    await self._after(run)
        # Only now: a client that has seen the end may ask again at once, and has to find what `after` has stored.
        if end is not None:
            failure = await self._finish(end, failure, client)
        if failure is not None and not isinstance(failure, StreamError):
            raise failure

    async def _answer(self, events: Run, client: ClientStream) -> tuple[RunEnd | None, Exception | None]:
        """Returns the run's end, unless the client has gone, which is no error, and the run's error, if any."""
        failure: Exception | None = None
        try:
            await client.start(self.status_code, self.raw_headers)
            if self._encoder is not None and (begun := b"".join(map(framed, self._encoder.begin()))):
                await client.write(begun)
            await client.pump(partial(self._next, events))
        except GoneError as gone:
            return None, gone.fault
        except Exception as error:
            failure = error
        return self._end_of(events, failure), failure

    async def _finish(self, end: RunEnd, failure: Exception | None, client: ClientStream) -> Exception | None:
        try:
            await self._send_end(client, end)
            await client.write(b"", more=False)
        except GoneError as gone:
            return failure or gone.fault
        return failure

    async def _send_end(self, client: ClientStream, end: RunEnd) -> None:
        """Sends the run's end, in our words if `encode` fails at a run that failed."""
        # The client has to know of the end. It would wait for ever, or ask again, without one.
        try:
            body = self._body_of(end)
        except Exception:
            if end.error is None:
                raise
            body = encoded(end, encode_event)
        if body:
            await client.write(body)

    def _end_of(self, events: Run, failure: Exception | None) -> RunEnd:
        if failure is not None:
            error = _error_of(events) or failure
            return RunEnd(outcome="error", error=error, retry_after=told_of(error)[1])
        if (suspended := events.suspended) is not None:
            call_ids = tuple(call.call_id for call in suspended.calls)
            return RunEnd(outcome="suspended", suspended=suspended, call_ids=call_ids)
        return RunEnd(outcome=(events.outcome if isinstance(events, AgentLoop) else self._outcome) or "complete")

    async def _next(self, events: Run) -> bytes | None:
        event = await anext(events, None)
        if event is None:
            return None
        if isinstance(event, StepEnd):
            self._outcome = event.outcome
        return self._body_of(event)

    def _body_of(self, event: Event | RunEnd) -> bytes:
        if isinstance(event, RunEnd):
            if self._shown is not None:
                event = replace(event, error=self._shown.fact("end_run", event.outcome, event.error)[1])
            shown: Iterable[Event | RunEnd] = (*(() if self._held is None else self._held.finish()), event)
        else:
            copies = (event,) if self._shown is None else self._shown.event(event)
            shown = copies if self._held is None else chain.from_iterable(map(self._held.feed, copies))
        return b"".join(encoded(one, self._encode) for one in shown)


def _error_of(events: Run) -> Exception | None:
    try:
        return events.turn.error
    except LocalProtocolError:
        return None


def _checked(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Returns the headers with names in lower case, as ASGI requires; yours replace ours."""
    merged = dict(HEADERS)
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"expected the name of a header, got {name!r}")
        if any(char in value for char in "\r\n\0"):
            raise ValueError(f"the header {name} has a line end or a null, which would begin another header")
        merged[name.lower()] = value
    return [(name.encode("ascii"), value.encode("latin-1")) for name, value in merged.items()]


def _seconds(name: str, value: float | None) -> float:
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ValueError(f"{name}={value!r}: must be a number of seconds greater than 0, or None")
    return float(value)
