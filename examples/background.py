"""Renders in the background while the model talks on; the process leaves, and another visit goes on with the job.

The model is scripted, so that the example runs without a key.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from streamtools import agent_loop, tool
from streamtools.events import MessageAdded

WIRE = "openai.chat_completions"


@tool(background=True, effect="idempotent", timeout=3600)
async def render(scene: str) -> str:
    """Render a scene on the farm."""
    print(f"  the farm begins {scene}")
    await asyncio.sleep(0.2)
    return f"{scene}.png"


async def ask(messages: list[Any], tools: list[Any]) -> AsyncIterator[dict[str, Any]]:
    """Stands in for the model: it calls once, and then says what it knows."""
    said = json.dumps(messages[1:])
    if "tool_calls" not in said:
        call = {"name": "render", "arguments": '{"scene": "sky"}'}
        yield chunk({"tool_calls": [{"index": 0, "id": "call_1", "function": call}]}, "tool_calls")
    else:
        yield chunk({"content": "Here it is: sky.png" if "sky.png" in said else "I have begun."}, "stop")


def chunk(delta: dict[str, Any], finish: str) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


async def visit(journal: Path, *, leaves: bool) -> None:
    messages = [{"role": "user", "content": "Render the sky."}]
    async with agent_loop(
        ask, messages, tools=[render], wire=WIRE, journal=journal, run_id="order-7", skip_replayed=True
    ) as run:
        async for event in run:
            if isinstance(event, MessageAdded):
                print(f"  the result comes: {event.messages[0]['content'][-1]['text']!s}")
            if leaves and run.turn.text:
                break  # as if the process were shut down
    print(f"  {run.outcome}: {run.turn.text}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for leaves in (True, False):
            print("The first visit" if leaves else "The same line again")
            await visit(Path(folder) / "runs.db", leaves=leaves)


asyncio.run(main())
