"""Runs an agent in a script without an event loop: a blocking client, a `for` loop over the events."""

from __future__ import annotations

from typing import Any

from local_model import use_model
from openai import OpenAI

from streamtools import Observation, TextDelta, agent_loop, tool

use_model("OPENAI_API_KEY")


@tool(effect="pure")
def get_weather(city: str) -> str:
    """Weather forecast for a city.

    Args:
        city: City name.
    """
    return f"{city}: sun"


client = OpenAI()


def ask(messages: list[Any], tools: list[Any]) -> Any:
    return client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=tools, stream=True)


question = [{"role": "user", "content": "weather in Tokyo and Oslo?"}]
with agent_loop(ask, question, tools=[get_weather], wire="openai.chat_completions", max_steps=4).sync() as run:
    for event in run:
        if isinstance(event, TextDelta):
            print(event.text, end="", flush=True)
        elif isinstance(event, Observation):
            print(f"[{event.tool_name}: {event.outcome}, {event.value}]")
print(f"\n{run.outcome} after {len(run.turns)} steps")
