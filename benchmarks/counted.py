"""The work whose instructions are counted: run by `benchmarks.instructions`, under valgrind, as a program of its own.

    python -P counted.py JOBS

JOBS is a file of marshalled jobs: ``(name, mode, wire, framing, small, large)``, the last two being lists of bodies,
each a list of chunks. A job is done once to warm up. Then it is done with the small and with the large input, each in a
fork of the process as it stands then, which valgrind counts by itself; before either, a fork does nothing, so that what
the process does between the forks can be subtracted. A line for each fork says what it was: ``name mode size pid``.
"""

from __future__ import annotations

import asyncio
import gc
import marshal
import os
import random
import struct
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import orjson

import streamtools as st

Job = tuple[str, str, str, str, list[list[bytes]], list[list[bytes]]]


@st.tool(effect="pure")
async def store(rows: list[str], note: str = "") -> str:
    """Store rows.

    Args:
        rows: The rows.
        note: A note.
    """
    return "ok"


@st.tool(effect="pure")
async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: The other.
    """
    return a + b


def limit(bodies: Iterable[Sequence[bytes]], framing: str) -> None:
    """Splits and loads, as `benchmarks.workloads.limit` does: what no decoder in Python can beat."""
    for chunks in bodies:
        for payload in SPLIT[framing](b"".join(chunks)):
            orjson.loads(payload)


def _sse(whole: bytes) -> Iterable[bytes]:
    for block in whole.split(b"\n\n"):
        at = block.find(b"data: ")
        if at >= 0 and (data := block[at + 6 :]) != b"[DONE]":
            yield data


def _messages(whole: bytes) -> Iterable[bytes]:
    at, lengths = 0, struct.Struct(">II").unpack_from
    while at < len(whole):
        size, headers = lengths(whole, at)
        yield whole[at + 12 + headers : at + size - 4]
        at += size


SPLIT: dict[str, Callable[[bytes], Iterable[bytes]]] = {
    "sse": _sse,
    "ndjson": bytes.splitlines,
    "aws_eventstream": _messages,
}


async def _source(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def consume(
    bodies: Iterable[Sequence[bytes]], wire: str, observers: Sequence[Any] = (), trials: bool = True
) -> None:
    """Runs each body through a pipeline of its own and looks at every event."""
    for chunks in bodies:
        given = _source(chunks)
        async with st.pipeline(given, wire=wire, tools=[store, add], observers=observers, trials=trials) as events:
            async for _ in events:
                pass


async def run(bodies: Sequence[Sequence[bytes]], **options: Any) -> None:
    """Answers each request of a run with the next body, and begins another run where one has ended before the last."""
    left = iter(bodies)

    async def ask(messages: list[Any], tools: Any) -> AsyncIterator[bytes]:
        return _source(next(left))

    asked = [{"role": "user", "content": "Hi"}]
    for _ in range(sum(b"tool_calls" not in b"".join(chunks) for chunks in bodies)):  # the answers
        async with st.agent_loop(ask, asked, tools=[store, add], max_steps=len(bodies), **options) as events:
            async for _ in events:
                pass


JOURNALS: dict[int, Any] = {}
"""The stores of runs that have ended, by their numbers of steps."""


def _resume(bodies: Sequence[Sequence[bytes]], wire: str) -> None:
    from streamtools.dispatch import MemoryStore

    journal = JOURNALS.setdefault(len(bodies), MemoryStore())
    asyncio.run(run(bodies, wire=wire, journal=journal, run_id="run"))


def _tracing(mode: str) -> Any:
    """An observer whose spans are dropped: by an exporter, by one that a queue waits for in vain, or by the sampler."""
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased

    from streamtools.telemetry import Tracing

    class Dropped(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    sampler = ParentBased(ALWAYS_OFF if mode == "unsampled" else ALWAYS_ON)
    provider = TracerProvider(sampler, shutdown_on_exit=False)
    if mode == "batched":  # so rarely that no export is counted, since its thread's time is nobody's
        provider.add_span_processor(BatchSpanProcessor(Dropped(), 100_000, 3_600_000, 100_000))
    else:
        provider.add_span_processor(SimpleSpanProcessor(Dropped()))
    # Under the meter time is slow, so that waits which pass at once would have spans of their own.
    return Tracing(provider, spans={"wait": False})


def work(mode: str, wire: str, framing: str, bodies: list[list[bytes]]) -> None:
    """Does one job."""
    match mode:
        case "limit":
            limit(bodies, framing)
        case "parse":
            for chunks in bodies:
                st.parse(b"".join(chunks), wire=wire, tools=[store, add])
        case "pipeline":
            asyncio.run(consume(bodies, wire))
        case "untried":
            asyncio.run(consume(bodies, wire, trials=False))
        case "run":
            asyncio.run(run(bodies, wire=wire))
        case "resume":
            _resume(bodies, wire)
        case "spans" | "batched" | "unsampled":
            asyncio.run(consume(bodies, wire, [_tracing(mode)]))
        case _:
            raise ValueError(f"unknown mode {mode!r}")


def _fork(name: str, mode: str, size: str, task: Callable[[], None]) -> None:
    pid = os.fork()
    if not pid:
        task()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit(f"{name} {mode} {size}: the fork ended with status {status}")
    print(f"{name}\t{mode}\t{size}\t{pid}", flush=True)


def main() -> None:
    """Does all jobs of the file."""
    random.seed(1)  # ids of spans
    with open(sys.argv[1], "rb") as file:
        jobs: list[Job] = marshal.load(file)
    for _, mode, wire, framing, small, large in jobs:
        work(mode, wire, framing, small)
        if mode == "resume":  # what is resumed has to have run
            work(mode, wire, framing, large)
    gc.collect()
    gc.disable()  # collections come by thresholds and cost what the heap holds: a step here or there is not the work's
    for name, mode, wire, framing, small, large in jobs:
        for size, bodies in (("small", small), ("large", large)):
            _fork(name, mode, f"before {size}", lambda: None)
            _fork(name, mode, size, lambda: work(mode, wire, framing, bodies))  # noqa: B023  it runs at once


if __name__ == "__main__":
    main()
