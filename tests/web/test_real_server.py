"""Starlette under uvicorn on loopback, on asyncio: clients that go, that are slow, that come together."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from profiles import every
from served import client_of, serving
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.routing import Route
from streams import anthropic, chat

from streamtools import Limits, Pipeline, Turn, pipeline, tool
from streamtools.integrations import EventStreamResponse
from streamtools.telemetry import Tracing
from streamtools.testing import ScriptedSource

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]

CALLS = [("a", "quick", "{}"), ("b", "sleep", "{}"), ("c", "charge", "{}"), ("d", "nope", "{}")]
BODY = anthropic(["Let me see"], calls=CALLS, stop=None)
CUT = b'data: {"type":"content_block_start","index":9,"content_block":{"type":"tool_use","id":"e","name":"quick"}}\n\n'


class Spans(SpanProcessor):
    """Every span that was started, and every one that ended."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.ended: list[int] = []

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        self.started.append(span.get_span_context().span_id)

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span.context.span_id)


class App:
    """An application of Starlette's whose every request gets a pipeline, and what became of it."""

    def __init__(self, **options: Any) -> None:
        self.spans = Spans()
        provider = TracerProvider()
        provider.add_span_processor(self.spans)
        self.observers = [Tracing(provider)]
        self.sources: list[ScriptedSource] = []
        self.turns: list[Turn] = []
        self.stored = anyio.Event()
        self.sleeping = anyio.Event()
        self.release = anyio.Event()
        self.running = self.charged = 0
        self.starlette = Starlette(routes=[Route("/", self.chat, methods=["POST"])], **options)

        @tool(effect="pure")
        async def quick() -> int:
            """Return at once."""
            return 1

        @tool(effect="pure")
        async def sleep() -> str:
            """Sleep until released."""
            self.running += 1
            self.sleeping.set()
            try:
                await self.release.wait()
            finally:
                self.running -= 1
            return "slept"

        @tool(effect="once")
        async def charge() -> None:
            """Spend money."""
            self.charged += 1

        self.tools = [quick, sleep, charge]

    def pipeline(self, script: Any) -> Any:
        source = ScriptedSource(script)
        self.sources.append(source)
        return pipeline(source, tools=self.tools, observers=self.observers)

    async def store(self, run: Pipeline) -> None:
        self.turns.append(run.turn)
        self.stored.set()

    async def chat(self, request: Request) -> Any:
        await request.json()
        return EventStreamResponse(self.pipeline([*BODY, CUT, anyio.Event()]), after=self.store)

    def is_clean(self) -> None:
        """Nothing runs, the source is closed, spans have ended once, each call has one observation and one result."""
        (turn,) = self.turns
        assert (self.running, self.charged) == (0, 0)
        assert [source.closed for source in self.sources] == [True]
        assert len(self.spans.started) > 4
        assert sorted(self.spans.ended) == sorted(self.spans.started)
        assert [call.call_id for call in turn.calls] == list("abcde")
        assert {seen.call_id: seen.outcome for seen in turn.observations} == {
            "a": "ok",
            "b": "cancelled",
            "c": "skipped",
            "d": "unknown_tool",
            "e": "truncated",
        }
        assert len(turn.observations) == 5
        said, results = turn.messages()
        uses = [block["id"] for block in said["content"] if block["type"] == "tool_use"]
        assert uses == [block["tool_use_id"] for block in results["content"]] == list("abcde")


@pytest.fixture(autouse=True)
def nothing_is_logged_and_nothing_left(caplog: pytest.LogCaptureFixture) -> Any:
    """Not a word from asyncio, opentelemetry.context or uvicorn; no thread more than before."""
    caplog.set_level(logging.WARNING)
    threads = set(threading.enumerate())
    yield
    gc.collect()
    assert caplog.records == []
    more = set(threading.enumerate()) - threads
    assert [thread.name for thread in more if not thread.name.startswith("asyncio_")] == []  # the loop's, for names


async def read_until(response: httpx.Response, word: str) -> bytes:
    read = b""
    async for piece in response.aiter_bytes():
        read += piece
        if word.encode() in read:
            break
    return read


@every("middleware", [False, True])
async def test_a_client_that_goes_in_the_middle_cancels_the_tools_and_leaves_nothing_behind(middleware: bool) -> None:
    async def passes(request: Request, call_next: Any) -> Any:
        return await call_next(request)

    app = App(middleware=[Middleware(BaseHTTPMiddleware, dispatch=passes)] if middleware else [])
    before = asyncio.all_tasks()
    async with serving(app.starlette) as port, client_of(port) as client:
        async with client.stream("POST", "/", json={}) as response:
            assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
            read = await read_until(response, '"call_id":"e"')
            await app.sleeping.wait()
            assert app.running == 1
        await app.stored.wait()
    assert (b"Let me see" in read, b"observation" in read) == (True, True)
    app.is_clean()
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert asyncio.all_tasks() == before


async def test_a_client_that_does_not_read_makes_the_source_wait_and_gets_all_when_it_does() -> None:
    """What is on the way is what fits uvicorn's and the system's buffers, the outbox, and one event in hand."""
    piece, count = "x" * 10_000, 4_000

    class Large(App):
        async def chat(self, request: Request) -> Any:
            source = ScriptedSource(chat([piece] * count, finish="stop"))
            self.sources.append(source)
            return EventStreamResponse(pipeline(source, limits=Limits(event_buffer=8, max_text_bytes=1 << 26)))

    app = Large()
    async with serving(app.starlette, send_buffer=1 << 15) as port:
        stream = await anyio.connect_tcp("127.0.0.1", port)
        async with stream:
            await stream.send(b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            first = await stream.receive(1)  # the answer has begun, and is then left alone
            source, still, position = app.sources[0], 0, -1
            while still < 200:  # rounds of the loop in which the source was not asked
                await anyio.lowlevel.checkpoint()
                still, position = (still + 1, position) if source.position == position else (0, source.position)
            assert position < count // 4
            received = len(first)
            async for data in stream:
                received += len(data)
    assert source.position == len(source.script)
    assert received > count * len(piece)
