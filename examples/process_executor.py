"""Runs calls in worker processes that can be killed, with a file that keeps a call from running twice."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from shop import render, ship  # not in this file: a worker cannot import a script

from streamtools import Trajectory, pipeline
from streamtools.dispatch import SqliteStore
from streamtools.executors import ProcessExecutor

CALLS = [("render", {"page": 1}), ("render", {"page": 2}), ("ship", {"order": 7}), ("ship", {"order": 13})]
DELTAS = [
    {"index": index, "id": f"call_{index}", "function": {"name": name, "arguments": json.dumps(arguments)}}
    for index, (name, arguments) in enumerate(CALLS)
]
BODY = (
    b"data: %s\n\ndata: [DONE]\n\n"
    % json.dumps({"choices": [{"delta": {"tool_calls": DELTAS}, "finish_reason": "tool_calls"}]}).encode()
)


async def turn(executor: ProcessExecutor, store: SqliteStore) -> None:
    """Runs a turn of the run "order-7": the same calls, the first time and after a restart."""
    run = Trajectory(run_id="order-7")  # your own id, since each call's key contains it
    async with pipeline(BODY, tools=[render, ship], executor=executor, store=store, trajectory=run) as events:
        async for _ in events:
            pass
    for seen in events.turn.observations:
        how = "on record" if seen.recorded else f"attempts: {seen.attempts}"
        print(f"{seen.call_id} {seen.tool_name}: {seen.outcome} ({how}) {seen.model_content}")


async def main() -> None:
    with SqliteStore("calls.sqlite3") as store:
        async with ProcessExecutor([render, ship], max_workers=4) as executor:
            await turn(executor, store)
            print("-- the same once more --")
            await turn(executor, store)  # an `unknown` call stays so until a person settles it


if __name__ == "__main__":
    asyncio.run(main())
    shipped = Path("shipped.txt").read_text(encoding="utf-8").split()
    assert sorted(shipped) == ["13", "7"]  # each once
