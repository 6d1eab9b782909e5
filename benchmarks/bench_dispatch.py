"""When tools start, and how long parallel ones take. Wall time.

Eight parallel calls of 100 ms each, from the first `ToolStarted` to the last `Observation`; and a ``pure`` tool's body
from its call's end marker, however busy the stream is.

Each value is the median of its repeats, and the worst stands beside it: a latency is not a cost, so that its best case
says little. The source goes on with text after the call: as fast as it can, event by event or in reads of 64 KiB, or
with 1 ms between the events. A sync tool beside a source that never waits has no target: its thread gets the
interpreter when the busy event loop is made to give it up, which is up to `sys.getswitchinterval`, 5 ms, later.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence

import anyio

from streamtools import Event, Observation, Tool, pipeline, tool
from streamtools.events import ToolCallEnd, ToolStarted

from .measure import Figure
from .workloads import ANTHROPIC, WIRES, Pause, body, reads, source, text

CALLS = 8
TOOL_SECONDS = 0.1
REPEATS = 9
TEXT_AFTER = 500  # deltas: the stream goes on well after the tool could have started


@tool(effect="pure")
async def wait_async(key: str) -> str:
    """Take 100 ms, in the event loop."""
    await anyio.sleep(TOOL_SECONDS)
    return key


@tool(effect="pure")
def wait_sync(key: str) -> str:
    """Take 100 ms, in a thread."""
    time.sleep(TOOL_SECONDS)
    return key


def run() -> list[Figure]:
    """Measure the parallel calls on both wires, and the start on the wire that marks the end of each call."""
    with asyncio.Runner() as runner:
        figures = [_parallel(runner, wire, waiting) for wire in WIRES for waiting in (wait_async, wait_sync)]
        return figures + _starts(runner)


def _parallel(runner: asyncio.Runner, wire: str, waiting: Tool) -> Figure:
    chunks = body(wire, calls=[(waiting.name, f'{{"key":"k{number}"}}') for number in range(CALLS)])
    spans = [_span(runner.run(_events(chunks, waiting))) for _ in range(REPEATS)]
    return _median(f"{wire}: {CALLS} calls of 100 ms, {_kind(waiting)}", spans)


def _span(events: Sequence[Event]) -> float:
    started = [event.time for event in events if isinstance(event, ToolStarted)]
    observed = [event.time for event in events if isinstance(event, Observation) and event.outcome == "ok"]
    assert len(started) == len(observed) == CALLS, "every call runs"
    return max(observed) - min(started)


def _starts(runner: asyncio.Runner) -> list[Figure]:
    began: list[float] = []

    @tool(effect="pure")
    async def note_async(key: str) -> None:
        """Note when it began, in the event loop."""
        began.append(time.monotonic())

    @tool(effect="pure")
    def note_sync(key: str) -> None:
        """Note when it began, in a thread."""
        began.append(time.monotonic())

    def delays(noting: Tool, cut: Callable[[list[bytes]], Sequence[bytes]], pause: Pause | None) -> list[float]:
        chunks = cut(body(ANTHROPIC, calls=[(noting.name, '{"key":"k"}')], after=text(TEXT_AFTER)))
        found = []
        for _ in range(REPEATS):
            events = runner.run(_events(chunks, noting, pause))
            [end] = [event for event in events if isinstance(event, ToolCallEnd)]
            found.append(began.pop() - end.time)
        return found

    figures = []
    for noting in (note_async, note_sync):
        for how, cut, pause in (
            ("an event a chunk", list, None),
            ("64 KiB reads", lambda chunks: reads(chunks, 64 << 10), None),
            ("1 ms between events", list, lambda: anyio.sleep(0.001)),
        ):
            name = f"{ANTHROPIC}: a pure tool's start, {_kind(noting)}, {how}"
            figures.append(_median(name, delays(noting, cut, pause)))
    return figures


async def _events(chunks: Sequence[bytes], one_tool: Tool, pause: Pause | None = None) -> list[Event]:
    async with pipeline(source(chunks, pause), tools=[one_tool], observers=[]) as events:
        return [event async for event in events]


def _kind(one_tool: Tool) -> str:
    return "async" if one_tool.is_async else "sync"


def _median(name: str, seconds: Sequence[float]) -> Figure:
    detail = f"best {min(seconds) * 1e3:.2f}, worst {max(seconds) * 1e3:.2f} of {len(seconds)}"
    return Figure(name=name, value=statistics.median(seconds) * 1e3, unit="ms", detail=detail)
