"""Writes spans of every step, model response and tool to a file of OTLP as JSON, which the Jaeger UI opens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from streamtools import pipeline, tool
from streamtools.telemetry import configure

BODY = b"""\
data: {"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function",\
"function":{"name":"add","arguments":"{\\"a\\": 1, \\"b\\": 2}"}}]},"finish_reason":"tool_calls"}]}

data: [DONE]

"""


@tool(effect="pure")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    await asyncio.sleep(0.01)
    return a + b


async def stream() -> AsyncIterator[bytes]:
    yield BODY


async def main() -> None:
    with configure("otlp-file", path="trace.json") as telemetry:  # or "otlp", to a collector
        async with pipeline(stream(), tools=[add]) as events:
            async for _ in events:
                pass
        print(events.turn.observations[0].report())
    print(f"open {telemetry.path} in the Jaeger UI: Search, Upload")


if __name__ == "__main__":
    asyncio.run(main())
