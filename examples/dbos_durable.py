"""Survives a crash at any point: DBOS keeps the responses, a store keeps the calls, and nobody is paid twice.

Without arguments it crashes at each point, restarts and counts the payments; with a task and a point it runs once.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID

from streamtools import Trajectory, pipeline, tool
from streamtools.dispatch import SqliteStore
from streamtools.errors import CallStillRunning

crash_at = sys.argv[2] if len(sys.argv) > 2 else "nowhere"


def crash(point: str) -> None:
    if crash_at == point:
        os._exit(1)  # as in a power failure


def note(path: str, line: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


@tool  # effect="once": running it twice does harm
async def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    note("payments.txt", f"{amount} to {to}")
    crash("tool")
    if crash_at == "hold":  # a deploy starts the next process meanwhile
        await asyncio.to_thread(sys.stdin.readline)
    return f"paid {amount} to {to}"


async def model(messages: list[dict[str, Any]]) -> AsyncIterator[bytes]:
    """Streams a model's answer. Asked again, the model makes the same call with another id, as models do."""
    call_id = f"call_{os.urandom(4).hex()}"
    note("asked.txt", f"{len(messages)} {call_id}")
    if len(messages) == 1:
        function = {"name": "pay", "arguments": json.dumps({"to": "Ada", "amount": 7})}
        delta = {"tool_calls": [{"index": 0, "id": call_id, "function": function}]}
    else:
        delta = {"content": messages[-1]["content"]}
    yield b'data: {"choices": [{"delta": {"role": "assistant"}}]}\n\n'
    crash("response")
    reason = "tool_calls" if "tool_calls" in delta else "stop"
    yield b"data: %s\n\n" % json.dumps({"choices": [{"delta": delta, "finish_reason": reason}]}).encode()
    yield b"data: [DONE]\n\n"


@DBOS.step()
async def respond(messages: list[dict[str, Any]]) -> bytes:
    """Returns the whole response, which is then durable: the model is not asked for it again."""
    return b"".join([chunk async for chunk in model(messages)])


@DBOS.step(retries_allowed=True, interval_seconds=5.0, max_attempts=100, backoff_rate=1.0)
async def take_turn(body: bytes, run_id: str, step: int) -> dict[str, Any]:
    """Runs the turn of a durable response. Its calls begin only here, so none is ever made with another id."""
    crash("before")
    note("turns.txt", run_id)
    with SqliteStore("calls.sqlite3") as store:  # claims each call before it runs, and keeps its result
        async with pipeline(body, tools=[pay], store=store, trajectory=Trajectory(run_id=f"{run_id}/{step}")) as events:
            async for _ in events:
                pass
    for one in events.turn.observations:
        if isinstance(one.error, CallStillRunning):  # in another process, which DBOS took for dead
            raise one.error  # so that nothing is recorded over its end: DBOS takes the turn again
    crash("after")
    seen = [f"{one.outcome}{', on record' * one.recorded}: {one.model_content}" for one in events.turn.observations]
    return {"messages": events.turn.messages(), "calls": seen}


@DBOS.workflow()
async def agent(task: str) -> list[str]:
    """Asks the model and runs its calls until it makes no more; returns the outcomes."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
    calls: list[str] = []
    for step in range(5):
        turn = await take_turn(await respond(messages), str(DBOS.workflow_id), step)
        messages += turn["messages"]
        calls += turn["calls"]
        if not turn["calls"]:
            break
    return calls


async def main(task: str) -> None:
    DBOS(config={"name": "payments", "system_database_url": "sqlite:///dbos.sqlite3", "application_version": "1"})
    DBOS.launch()  # resumes runs that a crash interrupted
    with SetWorkflowID("order-7"):  # the same id is the same run: a second start only waits for it
        handle = await DBOS.start_workflow_async(agent, task)
    print(*await handle.get_result(), sep="\n")
    DBOS.destroy()


if __name__ == "__main__" and len(sys.argv) > 1:
    asyncio.run(main(sys.argv[1]))
elif __name__ == "__main__":
    for point in ("response", "before", "tool", "after", "nowhere"):
        with tempfile.TemporaryDirectory() as directory:
            command = [sys.executable, __file__, "Pay Ada what she is owed."]
            subprocess.run([*command, point], cwd=directory, capture_output=True, check=False)
            again = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True)
            payments = Path(directory, "payments.txt").read_text(encoding="utf-8").splitlines()
        print(f"crash {point}: {again.stdout.strip()} | payments: {payments}")
        assert len(payments) == 1
