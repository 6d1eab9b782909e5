"""Reads streams that another package's instrumentation has wrapped, in a process of its own.

``foreign_run.py PACKAGE``. Such packages patch the SDK, some of them for good and as soon as they are imported, and set
the program's tracer provider. Prints one JSON object: for each backend and each way of reading the stream the turn, and
the spans as they ended.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
from loopback import Loopback
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from streams import chat, chat_chunk, sse
from weather import get_weather

from streamtools import TextDelta, Trajectory, Turn, agent_loop, pipeline

__all__ = ["ARGUMENTS", "BACKENDS", "PACKAGES", "REPLY", "USAGE", "WAYS"]

PATIENCE_S = 30  # all of it takes a second

BACKENDS = ("asyncio", "trio")
USAGE = {"prompt_tokens": 21, "completion_tokens": 13, "total_tokens": 34}
REPLY = "Let me look."
ARGUMENTS = '{"city":"Tokyo"}'
MORE = sse([chat_chunk({"content": "lo"})])[0]


def body() -> list[bytes]:
    *events, done = chat(["Let me ", "look."], [("call_1", "get_weather", ARGUMENTS)])
    counted = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
    return [*events, *sse([{**counted, "usage": USAGE}]), done]


class Ledger(SpanProcessor):
    """Remembers each span that began, and each that ended."""

    def __init__(self) -> None:
        self.started: Counter[int] = Counter()
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.started[span.get_span_context().span_id] += 1

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)

    def take(self) -> dict[str, Any]:
        started, ended = self.started, self.ended
        self.started, self.ended = Counter(), []
        ids = Counter(described["id"] for described in map(describe, ended))
        return {
            "spans": [describe(span) for span in ended],
            "open": len(started - ids),
            "twice": len([count for count in ids.values() if count > 1]),
        }


def describe(span: ReadableSpan) -> dict[str, Any]:
    assert span.context is not None
    assert span.instrumentation_scope is not None
    return {
        "name": span.name,
        "scope": span.instrumentation_scope.name,
        "id": span.context.span_id,
        "trace": span.context.trace_id,
        "parent": None if span.parent is None else span.parent.span_id,
        "attributes": json.loads(json.dumps(dict(span.attributes or {}), default=list)),
        "status": span.status.status_code.name,
    }


# -- the packages, as their manuals say ------------------------------------------------------------------------------


def plain(ledger: Ledger) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(ledger)
    trace.set_tracer_provider(provider)
    return provider


def by_opentelemetry(ledger: Ledger) -> Any:
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
    provider = plain(ledger)
    importlib.import_module("opentelemetry.instrumentation.openai_v2").OpenAIInstrumentor().instrument(
        tracer_provider=provider
    )
    return importlib.import_module("openai").AsyncOpenAI


def by_openinference(ledger: Ledger) -> Any:
    provider = plain(ledger)
    importlib.import_module("openinference.instrumentation.openai").OpenAIInstrumentor().instrument(
        tracer_provider=provider
    )
    return importlib.import_module("openai").AsyncOpenAI


def by_logfire(ledger: Ledger) -> Any:
    logfire = importlib.import_module("logfire")
    logfire.configure(
        send_to_logfire=False, console=False, additional_span_processors=[ledger], inspect_arguments=False
    )
    logfire.instrument_openai()
    return importlib.import_module("openai").AsyncOpenAI


def by_langfuse(ledger: Ledger) -> Any:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    nowhere = {"public_key": "pk", "secret_key": "sk", "base_url": "http://127.0.0.1:9"}
    importlib.import_module("langfuse").Langfuse(
        **nowhere, tracer_provider=plain(ledger), span_exporter=InMemorySpanExporter()
    )
    return importlib.import_module("langfuse.openai").AsyncOpenAI


PACKAGES: dict[str, Callable[[Ledger], Any]] = {
    "opentelemetry.instrumentation.openai_v2": by_opentelemetry,
    "openinference.instrumentation.openai": by_openinference,
    "logfire": by_logfire,
    "langfuse": by_langfuse,
}


# -- the ways in which a stream is handed over -----------------------------------------------------------------------


async def whole(asks: Any) -> Turn:
    """One step, read to its end."""
    async with (
        Trajectory(name="weather") as run,
        pipeline(await request(asks, QUESTION), tools=[get_weather], trajectory=run) as events,
    ):
        _ = [event async for event in events]
    return events.turn


async def left(asks: Any) -> Turn:
    """One step without end, whose caller leaves after the first text."""
    async with (
        Trajectory(name="weather") as run,
        pipeline(await request(asks, QUESTION), tools=[get_weather], trajectory=run) as events,
    ):
        async for event in events:
            if isinstance(event, TextDelta):
                break
    return events.turn


async def loop(asks: Any) -> Turn:
    """Two steps: the second is sent the results of the first, and read to its end. Returns the first."""

    async def ask(messages: Any, tools: Any) -> Any:
        return await request(asks, messages)

    async with agent_loop(ask, QUESTION, tools=[get_weather], wire=WIRE, name="weather", max_steps=2) as run:
        await run.finish()
    return run.turns[0]


WAYS: dict[str, Callable[[Any], Any]] = {"whole": whole, "left": left, "loop": loop}

WIRE = "openai.chat_completions"
QUESTION = [{"role": "user", "content": "Tokyo?"}]


def request(asks: Any, messages: Any) -> Any:
    usage = {"include_usage": True}
    tools = [get_weather.to(WIRE)]
    return asks.chat.completions.create(model="m", messages=messages, tools=tools, stream=True, stream_options=usage)


async def everything(client: Callable[..., Any], ledger: Ledger) -> dict[str, Any]:
    tracer = trace.get_tracer("application")
    told: dict[str, Any] = {}
    for way, read in WAYS.items():
        served = Loopback(chat(["Hel"], finish=None), forever=MORE) if way == "left" else Loopback(body())
        with anyio.fail_after(PATIENCE_S), served as server:
            async with client(base_url=server.url, api_key="none") as asks:
                with tracer.start_as_current_span("request"):
                    turn = await read(asks)
        told[way] = {
            "text": turn.text,
            "complete": turn.complete,
            "error": None if turn.error is None else str(turn.error),
            "calls": [[call.name, call.arguments_text] for call in turn.calls],
            "results": [[seen.outcome, seen.value] for seen in turn.observations],
            "tokens": None if turn.usage is None else [turn.usage.input_tokens, turn.usage.output_tokens],
            **ledger.take(),
        }
    return told


def main(package: str) -> None:
    ledger = Ledger()
    client = PACKAGES[package](ledger)
    print(json.dumps({name: anyio.run(everything, client, ledger, backend=name) for name in BACKENDS}))


if __name__ == "__main__":
    main(*sys.argv[1:])
