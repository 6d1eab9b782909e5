"""What spans cost: the text workload with `Tracing` as its observer, against the same without observers.

Bar: 5 % more. The tracer provider is the SDK's, every span is recorded and handed to an exporter that drops it, in the
same thread, so that nothing of the price is paid elsewhere. The price is one of the response, not of its deltas, which
spans are not told about. It is a small difference between two large values: on a machine with other work, the figure
varies by two or three per cent from one process to the next, and more turns do not narrow that. Look at several runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from streamtools import pipeline
from streamtools.observers import Observer
from streamtools.telemetry import Tracing

from .measure import Figure, best_of, show
from .workloads import WIRES, body, source, text

__all__ = ["run"]

DELTAS = 2000
REPEATS = 151  # a few per cent are to be told apart
MAX_PER_CENT = 5


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
        return [_wire(runner, wire) for wire in WIRES]


def _wire(runner: asyncio.Runner, wire: str) -> Figure:
    chunks = body(wire, text=text(DELTAS))
    provider, exporter = TracerProvider(shutdown_on_exit=False), _Dropped()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    best = best_of(
        {
            "off": lambda: runner.run(_consume(chunks, [])),
            "on": lambda: runner.run(_consume(chunks, [Tracing(provider)])),
        },
        repeats=REPEATS,
    )
    assert exporter.count == 2 * (REPEATS + 1), "a span for the step and one for the response"
    added = best["on"] - best["off"]
    detail = f"{added * 1e6:.0f} µs on {best['off'] * 1e3:.2f} ms, for two spans"
    return Figure(name=f"{wire}: spans add", value=added / best["off"] * 100, unit="%", bar=MAX_PER_CENT, detail=detail)


async def _consume(chunks: Sequence[bytes], observers: Sequence[Observer]) -> None:
    async with pipeline(source(chunks), observers=observers) as events:
        async for _ in events:
            pass


if __name__ == "__main__":
    show(run())
