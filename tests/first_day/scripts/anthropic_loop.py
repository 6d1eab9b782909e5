"""A loop of one's own around Anthropic's SDK, as README begins it."""

import asyncio

from anthropic import AsyncAnthropic

from streamtools import Observation, TextDelta, pipeline, tool


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Weather in a city."""
    return f"{len(city) * 3} degrees"


async def main() -> None:
    messages = [{"role": "user", "content": "weather in Tokyo?"}]
    async with AsyncAnthropic() as client:
        for _ in range(8):
            stream = await client.messages.create(
                model="claude",
                max_tokens=1000,
                messages=messages,
                tools=[get_weather.to("anthropic.messages")],
                stream=True,
            )
            async with pipeline(stream, tools=[get_weather]) as events:
                async for event in events:
                    match event:
                        case TextDelta(text=text):
                            print(text, end="", flush=True)
                        case Observation(tool_name=name, value=value):
                            print(f"[{name}: {value}]")
            messages += events.turn.messages()
            if not events.turn.observations:
                break


asyncio.run(main())
