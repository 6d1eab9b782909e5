"""What is read in the benchmarks, the same at every run, and the limit to compare with.

`benchmarks.bodies` spells it on each wire. A chat event has about 325 bytes around a few characters of text, an
Anthropic event about 130.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

import orjson

from streamtools import Turn, pipeline, tool

from .bodies import ANTHROPIC, BEDROCK, BODIES, CHAT, GEMINI, OLLAMA, Call, written
from .counted import SPLIT

WIRES = (CHAT, ANTHROPIC)
"""The two on which everything is measured."""
ALL_WIRES = tuple(BODIES)

Pause = Callable[[], Awaitable[object]]

NEXT_ROUND: Pause = partial(asyncio.sleep, 0)
"""Lets the event loop go round once, as waiting for a socket does."""

_SEED = 1
_PROSE = (
    "a stream of words that nobody has to read but which looks like text with short and long ones in it, so that the "
    "deltas have realistic sizes; naïve “quotes”, 日本語 and → are among them"
)
_WORDS = _PROSE.split()


def limit(wire: str, chunks: Iterable[bytes]) -> int:
    """What no decoder in Python can beat: join, the cheapest split that is correct, `orjson.loads` of each payload.
    Nothing else.

    Returns how many payloads there were.
    """
    whole, count = b"".join(chunks), 0
    if wire in (OLLAMA, BEDROCK):
        for payload in SPLIT["ndjson" if wire == OLLAMA else "aws_eventstream"](whole):
            orjson.loads(payload)
            count += 1
        return count
    for block in whole.split(b"\r\n\r\n" if wire == GEMINI else b"\n\n"):
        at = block.find(b"data: ")
        if at >= 0 and (data := block[at + 6 :]) != b"[DONE]":
            orjson.loads(data)
            count += 1
    return count


@tool(effect="pure")
async def note(query: str) -> str:
    """Look something up at once."""
    return query


@tool(effect="pure")
async def save_report(path: str, rows: list[dict[str, Any]], content: str) -> int:
    """Save a report."""
    return len(rows)


async def source(chunks: Iterable[bytes], pause: Pause | None = None) -> AsyncIterator[bytes]:
    """The chunks, as a network would bring them; `pause` is awaited before each."""
    for chunk in chunks:
        if pause is not None:
            await pause()
        yield chunk


async def exhaust(items: AsyncIterable[object]) -> None:
    """Reads to the end, and looks at nothing."""
    async for _ in items:
        pass


async def consume(items: AsyncIterable[bytes], **options: Any) -> Turn:
    """Reads a pipeline to its end; each of its calls has run."""
    async with pipeline(items, **options) as events:
        async for _ in events:
            pass
    assert all(one.outcome == "ok" for one in events.turn.observations), "every call runs"
    return events.turn


def tracer() -> tuple[Any, Any]:
    """A tracer provider of the SDK's and its exporter, which drops each span in the same thread, and counts it."""
    from opentelemetry.sdk.trace import TracerProvider  # which not every peer's environment has
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

    class Dropping(SpanExporter):
        count = 0

        def export(self, spans: Sequence[Any]) -> SpanExportResult:
            self.count += len(spans)
            return SpanExportResult.SUCCESS

    provider, exporter = TracerProvider(shutdown_on_exit=False), Dropping()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def reads(chunks: Iterable[bytes], size: int) -> list[bytes]:
    """The same bytes in reads of `size`, as a busy socket gives them."""
    whole = b"".join(chunks)
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def text(deltas: int) -> list[str]:
    """That many deltas of prose: mostly a word of up to eight characters."""
    rng = random.Random(_SEED + deltas)
    return [
        " " + rng.choice(_WORDS)[:7] if rng.random() < 0.9 else rng.choice((".", ",", "\n\n", "é"))
        for _ in range(deltas)
    ]


def arguments(size: int) -> str:
    """A call's arguments, `size` characters (1,000 or more) of JSON: half records, half a long string with escapes."""
    rng = random.Random(_SEED + size)
    rows: list[dict[str, Any]] = []
    used = 0
    while used < size // 2:
        rows.append(
            {
                "id": rng.randrange(10**6),
                "name": f"{rng.choice(_WORDS)} {rng.choice(_WORDS)}",
                "score": round(rng.random() * 100, 3),
                "tags": [rng.choice(_WORDS) for _ in range(rng.randrange(4))],
                "done": rng.random() < 0.5,
                "note": None,
            }
        )
        used += len(written(rows[-1])) + 1
    document = {"path": "report.md", "rows": rows, "content": ""}
    room = size - len(written(document))
    prose = "".join(rng.choice(_WORDS) + rng.choice((" ", " ", " ", "\n", ' "', "\t")) for _ in range(room // 3 + 1))
    escaped = written(prose)[1:-1][:room].rstrip("\\")
    document["content"] = "\0"
    return written(document).replace("\\u0000", escaped + "." * (room - len(escaped)))


def body(wire: str, *, text: Sequence[str] = (), calls: Sequence[Call] = (), after: Sequence[str] = ()) -> list[bytes]:
    """A response: text, then calls, then more text, then the end; see `benchmarks.bodies`."""
    return BODIES[wire](text, calls, after)
