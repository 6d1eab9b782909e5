"""What spans cost: the text workload and calls with `Tracing` as the observer, against the same without observers.

Each figure is the median of 15 interleaved pairs, with its confidence interval. The tracer provider is the SDK's, every
span is recorded and handed to an exporter that drops it, in the same thread, so that nothing of the price is paid
elsewhere. Without content the price is one of the response, not of its deltas, which spans are not told about.
"""

from __future__ import annotations

import asyncio
from typing import Any

from streamtools.privacy import Privacy
from streamtools.telemetry import Tracing

from .measure import Figure, paired
from .workloads import WIRES, body, consume, note, source, text, tracer

DELTAS = 2000
CALLS = 16  # as many as run at once: calls that wait have one more span each


def run() -> list[Figure]:
    """Measure both wires."""
    with asyncio.Runner() as runner:
        return [figure for wire in WIRES for figure in _wire(runner, wire)]


def _wire(runner: asyncio.Runner, wire: str) -> list[Figure]:
    provider, exporter = tracer()
    chunks = body(wire, text=text(DELTAS))

    def text_with(observers: Any) -> Any:
        return lambda: runner.run(consume(source(chunks), observers=observers()))

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
    calls = body(wire, calls=[(note.name, f'{{"query": "{at}"}}') for at in range(CALLS)])
    pairs = paired(
        lambda: runner.run(consume(source(calls), observers=[], tools=[note])),
        lambda: runner.run(consume(source(calls), observers=[Tracing(provider)], tools=[note])),
    )
    detail, cost = f"{pairs} with {CALLS} calls", pairs.added / CALLS * 1e6
    return [*figures, Figure(name=f"{wire}: spans of a call", value=cost, unit="µs", detail=detail)]


def _capturing(provider: Any) -> Tracing:
    tracing = Tracing(provider)
    tracing.obey(Privacy(content_in_spans=True))
    return tracing
