"""Writes a run as one HTML page: every call with what it waited for, each attempt, and the text that led to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from streamtools import Trajectory, agent_loop, tool
from streamtools.view import Watch, page, write_private

attempts = 0


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Get the weather of a city."""
    await asyncio.sleep(0.05)
    return "rain, 11 degrees"


@tool(effect="idempotent", retries=2, retry_delay_s=0.05)
async def get_rate(currency: str) -> float:
    """Get the exchange rate of a currency. The bank answers the second time."""
    global attempts
    attempts += 1
    await asyncio.sleep(0.02)
    if attempts == 1:
        raise ConnectionError("the bank does not answer")
    return 1.08


@tool(needs_approval=True)
async def pay(to: str, amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount} to {to}"


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    body = {"model": "scripted", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def answer(text: str, *calls: tuple[str, dict[str, Any]]) -> list[bytes]:
    """Writes one response of a model as a server would send it."""
    chunks = [chunk({"content": word + " "}) for word in text.split()]
    for index, (name, arguments) in enumerate(calls):
        head = {
            "index": index,
            "id": f"{name}_{index}",
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        chunks.append(chunk({"tool_calls": [head]}))
        written = json.dumps(arguments)
        for at in range(0, len(written), 4):
            piece = {"index": index, "function": {"arguments": written[at : at + 4]}}
            chunks.append(chunk({"tool_calls": [piece]}))
    return [*chunks, chunk({}, "tool_calls" if calls else "stop"), b"data: [DONE]\n\n"]


ANSWERS = iter(
    [
        answer(
            "I will look up the weather and the rate.",
            ("get_weather", {"city": "Lisbon"}),
            ("get_rate", {"currency": "EUR"}),
        ),
        answer(
            "The deposit is due.",
            ("pay", {"to": "Hotel do Rio", "amount": 120}),
            ("pay", {"to": "Somebody", "amount": 9000}),
        ),
        answer("Your trip is planned."),
    ]
)


async def ask(messages: Sequence[Any], tools: Any) -> AsyncIterator[bytes]:
    """Stands in for the request to a model."""
    return sent(next(ANSWERS))


async def sent(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for one in chunks:
        await asyncio.sleep(0.01)
        yield one


async def watched() -> Watch:
    watch = Watch("Plan a trip")
    run = agent_loop(
        ask,
        [{"role": "user", "content": "Plan a trip to Lisbon."}],
        tools=[get_weather, get_rate, pay],
        wire="openai.chat_completions",
        approve=lambda asked: asked.arguments["amount"] < 1000,
        trajectory=Trajectory(observers=[watch]),
    )
    async with run as events:
        async for _ in events:
            pass
    return watch


def main() -> None:
    watch = asyncio.run(watched())
    write_private("run.html", page(watch))
    print(f"open {Path('run.html').resolve()} in a browser")


if __name__ == "__main__":
    main()
