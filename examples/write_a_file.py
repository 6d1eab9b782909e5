"""Writes a file while the model writes its text. The file takes its place only with the whole call; a page shows it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from streamtools import Growing, ToolContext, Trajectory, agent_loop, tool
from streamtools.events import ToolProgress
from streamtools.view import Watch, page, write_private

STORY = "It was a quiet morning in Lisbon. " * 6


def draft(path: str, ctx: ToolContext) -> Path:
    return Path(f"{path}.{ctx.call_id}.draft")


def publish(path: str, ctx: ToolContext) -> None:
    os.replace(draft(path, ctx), path)


def drop(path: str, ctx: ToolContext) -> None:
    draft(path, ctx).unlink(missing_ok=True)


@tool(commit=publish, abort=drop)
async def write_file(path: str, text: Growing[str], ctx: ToolContext) -> str:
    """Write a text into a file."""
    with draft(path, ctx).open("w") as file:
        async for piece in text:
            file.write(piece)
            ctx.progress(file.tell())
        return f"{file.tell()} characters are written"


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    body = {"model": "scripted", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def writes(path: str, finish: str) -> list[bytes]:
    """The model writes a file, and comes to its end, or to the end of its tokens."""
    head = {"index": 0, "id": path, "type": "function", "function": {"name": "write_file", "arguments": ""}}
    text = json.dumps({"path": path, "text": STORY})[: None if finish == "tool_calls" else 120]
    pieces = [{"index": 0, "function": {"arguments": text[at : at + 12]}} for at in range(0, len(text), 12)]
    return [*(chunk({"tool_calls": [piece]}) for piece in (head, *pieces)), chunk({}, finish), b"data: [DONE]\n\n"]


ANSWERS = iter(
    [
        writes("cut.txt", "length"),
        writes("story.txt", "tool_calls"),
        [chunk({"content": "The story is written."}), chunk({}, "stop"), b"data: [DONE]\n\n"],
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
    watch, asked = Watch("Write a story"), [{"role": "user", "content": "Write a story into a file."}]
    observed = Trajectory(observers=[watch])
    async with agent_loop(ask, asked, tools=[write_file], wire="openai.chat_completions", trajectory=observed) as run:
        async for event in run:
            if isinstance(event, ToolProgress):
                print(f"{event.call_id}: {event.value} characters in the draft")
    print([[seen.outcome for seen in turn.observations] for turn in run.turns])
    return watch


def main() -> None:
    write_private("run.html", page(asyncio.run(watched())))
    print("the files:", sorted(map(str, Path().glob("*.txt*"))))
    print(f"open {Path('run.html').resolve()} in a browser: each body begins before its call ends")


if __name__ == "__main__":
    main()
