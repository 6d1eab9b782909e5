"""Runs the whole loop with the Anthropic SDK: ask, run the calls, send the results, until the model is done."""

from __future__ import annotations

import asyncio
from typing import Any

from anthropic import AsyncAnthropic
from local_model import use_model

from streamtools import Observation, TextDelta, pipeline, tool
from streamtools.events import ToolCallDelta


@tool(effect="pure")
async def get_weather(city: str, days: int = 1) -> str:
    """Weather forecast for a city.

    Args:
        city: City name, as a person would write it.
        days: How many days ahead, 1 to 14.
    """
    return f"{len(city) * 3} degrees"


async def main() -> None:
    client = AsyncAnthropic()
    messages: list[Any] = [{"role": "user", "content": "weather in Tokyo and Oslo and Lima?"}]
    tools: list[Any] = [get_weather.to("anthropic.messages")]
    while True:
        stream = await client.messages.create(
            model="claude-sonnet-4-6", max_tokens=500, messages=messages, tools=tools, stream=True
        )
        async with pipeline(stream, tools=[get_weather]) as events:
            async for event in events:
                match event:
                    case TextDelta(text=text):
                        print(text, end="", flush=True)
                    case ToolCallDelta(preview=growing):
                        print(f"\r{growing}", end="")
                    case Observation(tool_name=name, outcome=outcome, value=value):
                        print(f"\n[{name}: {outcome}, {value}]")
        messages += events.turn.messages()
        if not events.turn.observations:
            break


if __name__ == "__main__":
    use_model("ANTHROPIC_API_KEY")
    asyncio.run(main())
