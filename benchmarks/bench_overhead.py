"""What one call costs between the end of its text and its tool's first instruction. CPU time per call.

It is counted from the chunk that lets a call start, as it enters the decoder. In between the chunk is decoded, the
arguments are validated, the call takes its place and gets a task, and the consumer takes the events: all CPU of the
process counts, whoever used it.

On the Anthropic wire a ``pure`` call starts at the end marker of its own; a ``once`` call at the end of the turn, and
what its end marker took is added to that. A chat call has no end marker but the response's, and is not tried here.
Where one chunk lets eight calls start, the time until the last has started is divided by eight; the tool gives way
once, so that all have started before any is over, and the source is silent until the calls that may run are observed,
so that nothing else is counted.

Each value is the median of the streams; the 99th percentile stands beside it, and what the call cost from its end
marker until the consumer had its `Observation`. The spans are the SDK's, each handed to an exporter that drops it, in
the same thread. With and without spans take turns, and with both the start of a task in a bare task group of anyio's,
which no library can do without: how fast the machine is at the moment can be seen by it. The garbage collector is on;
since it counts allocations, of which each stream makes the same number, its rounds would always fall on the same place:
before each stream, a random number of objects is made, so that they fall anywhere.
"""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from time import process_time_ns

import anyio

from streamtools import Observation, Tool, pipeline, tool
from streamtools.decode.decoder import StreamDecoder
from streamtools.events import ToolCallEnd
from streamtools.observers import Observer
from streamtools.telemetry import Tracing

from .measure import Figure
from .workloads import NEXT_ROUND, WIRES, body, text, tracer

STREAMS = 200
WARM_UP = 20
CALLS = (1, 8)
DELTAS = 10

_started: list[int] = []  # when each tool's first instruction was reached, in nanoseconds of CPU time
_kept: list[list[object]] = []
_dice = random.Random(1)


@tool(effect="pure")
async def look_up(key: str) -> str:
    """Say when it began; it only looks."""
    _started.append(process_time_ns())
    await asyncio.sleep(0)
    return key


@tool(effect="once")
async def send(key: str) -> str:
    """Say when it began; it is to be done once."""
    _started.append(process_time_ns())
    await asyncio.sleep(0)
    return key


@dataclass(frozen=True, slots=True, kw_only=True)
class _Workload:
    """A response, and which of its chunks do something for its calls."""

    chunks: Sequence[bytes]
    one_tool: Tool
    ends: dict[int, int]
    """Of each chunk that ends calls: how many."""
    starts: dict[int, int]
    """Of each chunk that lets calls start: how many."""


@dataclass(slots=True)
class _Costs:
    """What was measured, in nanoseconds per call."""

    to_start: list[float] = field(default_factory=list)
    to_observation: list[float] = field(default_factory=list)


def run(streams: int = STREAMS) -> list[Figure]:
    """Measure both wires, a tool of either effect, one call and eight."""
    figures: list[Figure] = []
    with asyncio.Runner() as runner:
        for wire, one_tool, calls in product(WIRES, (look_up, send), CALLS):
            figures += runner.run(_measure(wire, _workload(wire, one_tool, calls), calls, streams))
    return figures


def _workload(wire: str, one_tool: Tool, calls: int) -> _Workload:
    chunks = body(wire, text=text(DELTAS), calls=[(one_tool.name, f'{{"key":"k{number}"}}') for number in range(calls)])
    ends = _ends(StreamDecoder(wire=wire, tools=[one_tool]), chunks)
    found = {at: ended for at, ended in enumerate(ends) if ended}
    starts = found if one_tool.effect == "pure" else {len(ends) - 1: calls}
    return _Workload(chunks=chunks, one_tool=one_tool, ends=found, starts=starts)


def _ends(decoder: StreamDecoder, chunks: Iterable[bytes]) -> list[int]:
    """How many calls each chunk ends, up to the one that ends the response."""
    ends: list[int] = []
    for chunk in chunks:
        events = decoder.feed(chunk)
        if decoder.done:
            events += decoder.finish()
        ends.append(sum(isinstance(event, ToolCallEnd) for event in events))
        if decoder.done:
            break
    return ends


async def _measure(wire: str, workload: _Workload, calls: int, streams: int) -> list[Figure]:
    provider, _ = tracer()
    without, with_spans, bare = _Costs(), _Costs(), _Costs()
    for number in range(-WARM_UP, streams):
        if number == 0:  # what warmed up is not counted
            without, with_spans, bare = _Costs(), _Costs(), _Costs()
        await _stream(workload, [], without)
        await _stream(workload, [Tracing(provider)], with_spans)
        await _bare_task(bare)
    name = f"{wire}: {calls} {workload.one_tool.effect} call{'s' if calls > 1 else ''}"
    return [_figure(name, without, bare), _figure(f"{name}, with spans", with_spans, bare)]


async def _stream(workload: _Workload, observers: Sequence[Observer], costs: _Costs) -> None:
    """Consume one stream, and note what its calls cost."""
    entered: dict[int, int] = {}
    observed: list[int] = []
    quiet = asyncio.Event()
    held = 0.0  # what the end markers of calls that had to wait took, per call
    expected = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal held, expected
        for at, chunk in enumerate(workload.chunks):
            await NEXT_ROUND()
            expected += workload.starts.get(at, 0)
            quiet.clear()
            entered[at] = process_time_ns()
            yield chunk
            left = process_time_ns()
            if at in workload.starts:
                await quiet.wait()
            elif at in workload.ends:
                held += left - entered[at]

    _started.clear()
    _shift_collector()
    async with pipeline(chunks(), tools=[workload.one_tool], observers=observers, trials=False) as events:
        async for event in events:
            if isinstance(event, Observation):
                assert event.outcome == "ok", "every call runs"
                observed.append(process_time_ns())
                if len(observed) == expected:
                    quiet.set()
    _note(workload, entered, observed, held, costs)


async def _bare_task(costs: _Costs) -> None:
    _started.clear()
    _shift_collector()
    async with anyio.create_task_group() as group:
        begun = process_time_ns()
        group.start_soon(look_up.fn, "k")
    costs.to_start.append(_started[0] - begun)


def _shift_collector() -> None:
    """Let the garbage collector's next round come sooner, by as many allocations as the dice say."""
    _kept[:] = [[] for _ in range(_dice.randrange(gc.get_threshold()[0]))]


def _note(workload: _Workload, entered: dict[int, int], observed: list[int], held: float, costs: _Costs) -> None:
    calls, first = sum(workload.starts.values()), 0
    assert len(_started) == len(observed) == calls, "every call was seen to start and to end"
    before = held / calls
    for at, group in workload.starts.items():
        first += group
        costs.to_start.append((_started[first - 1] - entered[at]) / group + before)
        costs.to_observation.append((observed[first - 1] - entered[at]) / group + before)


def _figure(name: str, costs: _Costs, bare: _Costs) -> Figure:
    whole = f"to its observation {_median(costs.to_observation):.0f}, p99 {_p99(costs.to_observation):.0f}"
    return Figure(
        name=f"{name}: end marker to start",
        value=_median(costs.to_start),
        unit="µs",
        detail=f"p99 {_p99(costs.to_start):.0f}; {whole}; a bare task {_median(bare.to_start):.0f}",
    )


def _median(nanoseconds: Sequence[float]) -> float:
    return statistics.median(nanoseconds) / 1e3


def _p99(nanoseconds: Sequence[float]) -> float:
    return sorted(nanoseconds)[int(len(nanoseconds) * 0.99)] / 1e3
