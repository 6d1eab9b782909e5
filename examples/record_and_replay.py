"""Records a run, replays it without running anything, and shows what a changed tool would make of the same calls."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

from streamtools import pipeline, tool
from streamtools.record import record, replay


@tool(effect="idempotent")
async def book_table(restaurant: str, people: int) -> str:
    """Book a table at a restaurant."""
    return f"booked for {people} at {restaurant}"


@tool(name="book_table", effect="idempotent")
async def book_table_at(restaurant: str, people: int, time: str) -> str:
    """Book a table at a restaurant, from a time on."""
    return f"booked for {people} at {restaurant}, {time}"


def response() -> list[bytes]:
    """Returns the body of a model's response, as a server would send it."""
    arguments = json.dumps({"restaurant": "Osteria", "people": 4})
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "book_table", "arguments": arguments}}
    payload = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    return [b"data: " + json.dumps(payload).encode() + b"\n\n", b"data: [DONE]\n\n"]


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        turn = await pipeline(response(), tools=[book_table], observers=[record(path)])
        print("recorded:", turn.observations[0].value)

        run = replay(path, tools=[book_table])
        await run
        print("replayed:", run.observations[0].value, "- differences:", len(run.differences))

        run = replay(path, tools=[book_table_at])
        await run
        print("with the changed tool:", *run.differences)


if __name__ == "__main__":
    asyncio.run(main())
