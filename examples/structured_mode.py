"""Constrains a model's answer to a schema: calls, thoughts and the answer are parts of one JSON text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from streamtools import Observation, ReasoningDelta, TextDelta, agent_loop, tool
from streamtools.events import ToolCallDelta
from streamtools.modes import get_adapter

SCRIPT = (
    '{"response": {"scratchpad": "I have to look it up."}}',
    '{"response": {"tool": "get_weather", "arguments": {"city": "Paris", "days": null}}}',
    '{"response": {"answer": "It will be sunny in Paris."}}',
)


@tool(effect="pure")
async def get_weather(city: str, days: int = 1) -> str:
    """Weather forecast for a city.

    Args:
        city: City name.
        days: How many days ahead.
    """
    return f"{city}: sun for {days} days"


async def stream(answer: str, **request: Any) -> AsyncIterator[bytes]:
    """Streams the response that `client.chat.completions.create(**request, stream=True)` would return."""
    assert request["response_format"]["json_schema"]["name"] == "agent_response"
    for at in range(0, len(answer), 9):
        delta = {"choices": [{"index": 0, "delta": {"content": answer[at : at + 9]}}]}
        yield b"data: " + json.dumps(delta).encode() + b"\n\n"
    yield b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


async def main() -> None:
    answers = iter(SCRIPT)

    async def ask(messages: list[Any], fields: dict[str, Any]) -> AsyncIterator[bytes]:
        return stream(next(answers), model="gpt-4o-mini", messages=messages, **fields)

    adapter = get_adapter("gpt-4o-mini")  # chosen by name: an adapter for structured outputs
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    async with agent_loop(ask, messages, tools=[get_weather], wire="openai.chat_completions", mode=adapter) as run:
        async for event in run:
            match event:
                case TextDelta(text=text) | ReasoningDelta(text=text):
                    print(f"{type(event).__name__}: {text!r}")
                case ToolCallDelta(preview=preview):
                    print(f"ToolCallDelta: {preview}")
                case Observation(outcome=outcome, value=value):
                    print(f"Observation: {outcome}, {value}")
    print(json.dumps(run.messages, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
