"""What spans cost: the text workload and calls with `Tracing` as the observer, against the same without observers.

Each figure is the median of 15 interleaved pairs, with its confidence interval. The tracer provider is the SDK's, every
span is recorded and handed to an exporter that drops it, in the same thread, so that nothing of the price is paid
elsewhere. Without content the price is one of the response, not of its deltas, which spans are not told about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from streamtools import pipeline, tool
from streamtools.observers import Observer
from streamtools.privacy import Privacy
from streamtools.telemetry import Tracing

from .measure import Figure, paired
from .workloads import WIRES, body, source, text

__all__ = ["run"]

DELTAS = 2000
CALLS = 16  # as many as run at once: calls that wait have one more span each


@tool(effect="pure")
async def look_up(key: str) -> str:
    """Look something up."""
    return key


class _Dropped(SpanExporter):
    """Takes spans and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.count += len(spans)
        return SpanExportResult.SUCCESS


def run() -> list[Figure]:
    """Measure both wires."""
    with asyncio.Runner() as runner:
        return [figure for wire in WIRES for figure in _wire(runner, wire)]


def _wire(runner: asyncio.Runner, wire: str) -> list[Figure]:
    provider, exporter = TracerProvider(shutdown_on_exit=False), _Dropped()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    chunks = body(wire, text=text(DELTAS))

    def text_with(observers: Any) -> Any:
        return lambda: runner.run(_consume(chunks, observers()))

    figures = []
    for name, observers in (
        ("spans add", lambda: [Tracing(provider)]),
        ("spans with content add", lambda: [_capturing(provider)]),
        ("observers by default, and no provider, add", lambda: None),
    ):
        pairs = paired(text_with(list), text_with(observers))
        detail = f"{pairs}, {pairs.added * 1e6:.0f} µs a response of {DELTAS} deltas"
        figures.append(Figure(name=f"{wire}: {name}", value=(pairs.median - 1) * 100, unit="%", detail=detail))
    assert exporter.count > 0
    calls = body(wire, calls=[("look_up", f'{{"key": "{at}"}}') for at in range(CALLS)])
    pairs = paired(
        lambda: runner.run(_consume(calls, [], tools=[look_up])),
        lambda: runner.run(_consume(calls, [Tracing(provider)], tools=[look_up])),
    )
    figures.append(
        Figure(
            name=f"{wire}: spans of a call",
            value=pairs.added / CALLS * 1e6,
            unit="µs",
            detail=f"{pairs} with {CALLS} calls",
        )
    )
    return figures


def _capturing(provider: TracerProvider) -> Tracing:
    tracing = Tracing(provider)
    tracing.obey(Privacy(content_in_spans=True))
    return tracing


async def _consume(chunks: Sequence[bytes], observers: Sequence[Observer] | None, *, tools: Any = None) -> None:
    async with pipeline(source(chunks), observers=observers, tools=tools) as events:
        async for _ in events:
            pass
