"""A model that is a script: looks around, plans, asks to book, and sums up. It streams as slowly as a real one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio

WIRE = "openai.chat_completions"

Call = tuple[str, dict[str, Any]]

LOOK: tuple[str, list[Call]] = (
    "Let me look at the weather and at the trains while I write. ",
    [
        ("get_weather", {"city": "Lisbon"}),
        ("find_trains", {"start": "Madrid", "to": "Lisbon", "day": "2027-05-14", "passengers": 2}),
        ("get_weather", {"city": "Porto"}),
    ],
)
BOOK: tuple[str, list[Call]] = (
    "Lisbon is warmer, and a night train leaves Madrid at 21:43. I would book two berths; please look at it first. ",
    [("book", {"train": "Lusitania 335", "berths": 2, "price_eur": 118})],
)
BOOKED = "Done: two berths on the Lusitania, Friday 21:43. Lisbon will have 24 degrees. Enjoy the sea!"
DENIED = "Nothing is booked. The train still has berths, if you change your mind."


async def answer(messages: list[Any], pause: float) -> AsyncIterator[dict[str, Any]]:
    """Streams the response to a history, with *pause* seconds before each piece."""
    last = len(messages) - next(i for i, one in enumerate(reversed(messages)) if one["role"] == "user")
    results = [one["content"] for one in messages[last:] if one["role"] == "tool"]
    text, calls = LOOK
    if len(results) == len(LOOK[1]):
        text, calls = BOOK
    elif results:
        text, calls = (BOOKED if "booked" in results[-1] else DENIED), []
    for word in text.split(" "):
        yield await _piece({"content": f"{word} " if word else ""}, pause)
    for index, (name, arguments) in enumerate(calls):
        # Ids are unique in a conversation.
        head = {"index": index, "id": f"call_{len(messages)}_{index}", "type": "function"}
        yield await _piece({"tool_calls": [head | {"function": {"name": name, "arguments": ""}}]}, pause)
        written = json.dumps(arguments)
        for at in range(0, len(written), 6):
            piece = {"index": index, "function": {"arguments": written[at : at + 6]}}
            yield await _piece({"tool_calls": [piece]}, pause)
    yield await _piece({}, pause, "tool_calls" if calls else "stop")


async def _piece(delta: dict[str, Any], pause: float, finish: str | None = None) -> dict[str, Any]:
    await anyio.sleep(pause)
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
