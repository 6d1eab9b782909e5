"""A client and an MCP server that runs its calls as tasks are killed at points, and begin again until the run ended.

    python tests/crashes/mcp_tasks.py --schedules 50

A point is in the server: behind a call's effect, and before and behind each answer. There it kills its client, itself
or both, or loses its tasks as well. No call may have its effect twice, and the model must read the result of each task
that the server has kept and was asked about, which shows that its id was noted. The rest is settled, as by a person.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1] / at) for at in ("", "..", "mcp")]

import mcp_task_server
from crashes.journaled import begun, ended
from crashes.stores import places, store_at
from every_wire import framed, said
from mcp import ClientSession, StdioServerParameters
from mcp_servers import SDK2
from mcp_task_server import ASKS, DONE, SECRET, V1, V2, WORKING

from streamtools import Trajectory, agent_loop
from streamtools.dispatch.results import encode_result
from streamtools.durable.journal import Journal
from streamtools.events import AnswerRequested
from streamtools.mcp import TASKS, Elicitation, fetch_tools, stdio_transport

__all__ = ["main"]

WIRE = "openai.chat_completions"
STEPS: tuple[tuple[str, ...], ...] = (("a", "b"), ("c",), ())
MOST_VISITS, SETTLES_AFTER = 12, 6
DEATHS = ("client", "client", "server", "client and server", "client, and forget")


async def ask(messages: list[Any], tools: Any) -> Any:
    """Answers as the model does."""
    step = sum(one["role"] == "assistant" for one in messages)
    calls = [(f"call_{ref}", "work", json.dumps({"ref": ref})) for ref in STEPS[step]]
    for chunk in framed(WIRE, said(WIRE, text=["Step."], calls=calls)):
        yield chunk


async def visit(folder: Path, address: str, version: str, states: list[Any], settles: bool) -> dict[str, Any]:
    """Runs the one line; returns how far it came."""
    asks, script = Elicitation(), str(Path(mcp_task_server.__file__))
    given = ["-SE", script, str(folder), version, json.dumps(states)]
    more: Any = {"elicitation_callback": asks, **({"extensions": TASKS} if version == V2 else {})}
    command = StdioServerParameters(command=sys.executable, args=given)
    async with stdio_transport(command) as streams, ClientSession(*streams, **more) as session:
        await (session.initialize() if version == V1 else session.discover())
        tools = await fetch_tools(session, server="s", elicitation=asks)
        with store_at(address) as store:
            known, first = Trajectory(run_id="order-7"), [{"role": "user", "content": "Work."}]
            run = agent_loop(ask, first, tools=tools, wire=WIRE, journal=Journal(store), trajectory=known)
            async with run:
                async for event in run:
                    if isinstance(event, AnswerRequested):
                        run.answer(event, {"city": "Rome"})
            for seen in run.unsettled if settles else ():
                await store.settle(str(seen.idempotency_key), encode_result("settled"))
    told = {one["tool_call_id"][5:]: one["content"] for one in run.messages if one["role"] == "tool"}
    return {"outcome": run.outcome, "told": told}


def problems(folder: Path, address: str, seed: int, counts: Counter[str]) -> list[str]:
    """Runs one schedule; returns what went wrong."""
    dice = random.Random(f"tasks {seed}")
    version = (V1, V2)[seed % 2] if SDK2 else V1
    states = [WORKING] * dice.randrange(3) + [ASKS] * dice.randrange(2) + [DONE]
    plan = {dice.randrange(8, 44): dice.choice(DEATHS) for _ in range(dice.choice((1, 2, 3)))}
    (folder / "plan").write_text(json.dumps(plan))
    read: dict[str, Any] = {}
    for visits in range(MOST_VISITS):
        go = partial(visit, folder, address, version, states, visits >= SETTLES_AFTER)
        pid = begun(SimpleNamespace(folder=folder, go=go), "read")  # type: ignore[arg-type]
        read = ended(folder / "read", os.waitpid(pid, 0)[1]) or {}
        if read.get("outcome") == "answered":
            break
    log, told = (folder / "log").read_text().splitlines(), read.get("told", {})
    happened = [death for point, death in plan.items() if len(log) >= point]
    counts.update(kills=len(happened), settled=[*told.values()].count("settled"), calls=len(told))
    found = [] if read.get("outcome") == "answered" else [f"it ends so: {read}"]
    found += [f"{ref} has its effect twice" for ref in "abc" if log.count(f"effect {ref}") > 1]
    noted = [ref for ref in "abc" if f"tasks/get {SECRET}{ref}" in log and "forget" not in str(happened)]
    return found + [f"{ref}: {told.get(ref)}" for ref in noted if told.get(ref) != f"done {ref}"]


def main() -> int:
    """Runs schedules; returns 1, and prints which, if any went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=50, metavar="N", help="how many (default: 50)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first schedule's seed (default: 0)")
    parser.add_argument("--on", choices=[*places], default="sqlite", help="what keeps the runs (default: sqlite)")
    options, counts, wrong = parser.parse_args(), Counter[str](), 0
    with places[options.on]() as place:
        for seed in range(options.seed, options.seed + options.schedules):
            with tempfile.TemporaryDirectory(prefix="mcp-tasks-", ignore_cleanup_errors=True) as made:
                if found := problems(Path(made), place.address(Path(made)), seed, counts):
                    wrong += 1
                    print(f"seed {seed}: {'; '.join(found)}", flush=True)
    print(f"tasks on {options.on}: {dict(counts)} in {options.schedules} schedules, {wrong} went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
