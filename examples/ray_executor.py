"""Runs calls on a local Ray cluster and loses an actor in the middle of one: that call is not run again."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reads this on import

import ray
from shop import render, ship  # not in this file: an actor cannot import a script

from streamtools import Trajectory, pipeline
from streamtools.dispatch import SqliteStore
from streamtools.dispatch.executors.ray import RayExecutor

CALLS = [("render", {"page": 1}), ("ship", {"order": 7}), ("ship", {"order": 13})]
DELTAS = [
    {"index": index, "id": f"call_{index}", "function": {"name": name, "arguments": json.dumps(arguments)}}
    for index, (name, arguments) in enumerate(CALLS)
]
BODY = (
    b"data: %s\n\ndata: [DONE]\n\n"
    % json.dumps({"choices": [{"delta": {"tool_calls": DELTAS}, "finish_reason": "tool_calls"}]}).encode()
)


async def turn(executor: RayExecutor, store: SqliteStore) -> None:
    """Runs a turn of the run "order-7": the same calls, the first time and after a restart."""
    run = Trajectory(run_id="order-7")
    async with pipeline(BODY, tools=[render, ship], executor=executor, store=store, trajectory=run) as events:
        async for _ in events:
            pass
    for seen in events.turn.observations:
        how = "on record" if seen.recorded else f"attempts: {seen.attempts}"
        print(f"{seen.call_id} {seen.tool_name}: {seen.outcome} ({how}) {seen.model_content}")


async def main() -> None:
    with SqliteStore("calls.sqlite3") as store:
        async with RayExecutor([render, ship], actors=2, resources={"ship": {"num_cpus": 1}}) as executor:
            await turn(executor, store)  # order 13 ends its actor, and all other calls on it
            print("-- the same once more --")
            await turn(executor, store)  # nothing is shipped again


if __name__ == "__main__":
    examples = str(Path(__file__).parent)
    ray.init(
        "local",  # a cluster of its own, even if this machine has another
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": f"{examples}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}},
    )
    try:
        asyncio.run(main())
    finally:
        ray.shutdown()
    shipped = Path("shipped.txt").read_text(encoding="utf-8").split()
    assert shipped.count("13") == shipped.count("7") == 1
