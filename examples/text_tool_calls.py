"""Extracts tool calls and reasoning from the text of a model without native tool calling."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from streamtools import Observation, ReasoningDelta, TextDelta, pipeline, tool
from streamtools.events import ToolCallDelta
from streamtools.stages import DEFAULT, split_think, text_calls

ANSWER = (
    "Let me look. <think>Two cities: two calls.</think>\n"
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}\n</tool_call>'
)


@tool(effect="pure")
async def get_weather(city: str, days: int = 1) -> str:
    """Weather forecast for a city.

    Args:
        city: City name.
        days: How many days ahead.
    """
    return f"{city}: sun for {days} days"


async def stream() -> AsyncIterator[bytes]:
    """Streams text a few characters at a time, as a server without tool calling would."""
    for at in range(0, len(ANSWER), 7):
        delta = {"choices": [{"index": 0, "delta": {"content": ANSWER[at : at + 7]}}]}
        yield b"data: " + json.dumps(delta).encode() + b"\n\n"
    yield b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


async def main() -> None:
    # Qwen and Hermes write calls like this; see streamtools.stages.DIALECTS for the others.
    stages = DEFAULT.insert_before("accumulate", split_think()).insert_before("accumulate", text_calls("hermes"))
    async with pipeline(stream(), tools=[get_weather], stages=stages) as events:
        async for event in events:
            match event:
                case TextDelta(text=text) | ReasoningDelta(text=text):
                    print(f"{type(event).__name__}: {text!r}")
                case ToolCallDelta(preview=preview):
                    print(f"ToolCallDelta: {preview}")
                case Observation(outcome=outcome, value=value):
                    print(f"Observation: {outcome}, {value}")
    assert events.turn.finish == "tool_calls"
    print(json.dumps(events.turn.messages(), indent=2))


if __name__ == "__main__":
    asyncio.run(main())
