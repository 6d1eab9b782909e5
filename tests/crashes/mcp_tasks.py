"""A client and an MCP server that runs its calls as tasks are killed at points, and begin again until the run ended.

    python tests/crashes/mcp_tasks.py --schedules 50
    python tests/crashes/mcp_tasks.py --seed 17 --schedules 1

A point is in the server: behind a call's effect, and before and behind each of its answers. There it kills its client,
itself or both, or loses its tasks as well. No call may have its effect twice, and the model must read the result of
each task that the server has kept and was asked about, which shows that its id had been noted. What nobody can know is
settled, as a person would.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[at]) for at in (1, 2)]
sys.path.append(str(Path(__file__).resolve().parents[1] / "mcp"))

import anyio
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
SERVER = Path(__file__).resolve().parents[1] / "mcp" / "mcp_task_server.py"
DEATHS = ("client", "client", "server", "client and server", "client, and forget")


async def ask(messages: list[Any], tools: Any) -> AsyncIterator[bytes]:
    """Answers as the model does."""
    step = sum(one["role"] == "assistant" for one in messages)
    calls = [(f"call_{ref}", "work", json.dumps({"ref": ref})) for ref in STEPS[min(step, len(STEPS) - 1)]]
    for chunk in framed(WIRE, said(WIRE, text=["Step."], calls=calls)):
        yield chunk


async def visit(folder: Path, address: str, version: str, states: list[Any], settles: bool) -> dict[str, Any]:
    """Runs the one line; returns how far it came."""
    elicitation = Elicitation()
    given = ["-SE", str(SERVER), str(folder), version, json.dumps(states)]
    declares: Any = {"extensions": TASKS} if version == V2 else {}
    async with (
        stdio_transport(StdioServerParameters(command=sys.executable, args=given)) as streams,
        ClientSession(*streams, elicitation_callback=elicitation, **declares) as session,
    ):
        await (session.initialize() if version == V1 else session.discover())
        tools = await fetch_tools(session, server="s", elicitation=elicitation)
        with store_at(address) as store:
            known, first = Trajectory(run_id="order-7"), [{"role": "user", "content": "Work."}]
            run = agent_loop(ask, first, tools=tools, wire=WIRE, journal=Journal(store), trajectory=known)
            async with run:
                async for event in run:
                    if isinstance(event, AnswerRequested):
                        run.answer(event, {"city": "Rome"})
            for seen in run.unsettled if settles else ():
                await store.settle(seen.idempotency_key, encode_result("settled"))
    told = {one["tool_call_id"][5:]: one["content"] for one in run.messages if one["role"] == "tool"}
    return {"outcome": run.outcome, "told": told}


def visited(folder: Path, *given: Any) -> dict[str, Any]:
    """Returns what a visit has read, in a process of its own."""
    (folder / "read").write_text(json.dumps({"killed": True}))
    pid = os.fork()
    if pid == 0:
        try:
            logging.disable(logging.CRITICAL)
            try:
                read = anyio.run(visit, folder, *given)
            except BaseException:
                read = {"raised": traceback.format_exc()}
            (folder / "read").write_text(json.dumps(read))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    return dict(json.loads((folder / "read").read_text()))


def schedule(folder: Path, address: str, seed: int, counts: Counter[str]) -> list[str]:
    """Runs one schedule; returns what went wrong."""
    dice = random.Random(f"tasks {seed}")
    version = (V1, V2)[seed % 2] if SDK2 else V1
    states = [WORKING] * dice.randrange(3) + [ASKS] * dice.randrange(2) + [DONE]
    plan = {dice.randrange(8, 44): dice.choice(DEATHS) for _ in range(dice.choice((1, 2, 3)))}
    (folder / "plan").write_text(json.dumps(plan))
    reads = list[dict[str, Any]]()
    while len(reads) < MOST_VISITS and (not reads or reads[-1].get("outcome") != "answered"):
        reads.append(visited(folder, address, version, states, len(reads) >= SETTLES_AFTER))
    log = (folder / "log").read_text().splitlines()
    happened = [death for point, death in plan.items() if log.count("point") >= point]
    forgets = any("forget" in death for death in happened)
    told = reads[-1].get("told", {})
    counts.update(schedules=1, kills=len(happened), settled=[*told.values()].count("settled"), calls=len(told))
    found = [f"it ends so: {reads[-1]}"] if reads[-1].get("outcome") != "answered" else []
    for ref in "abc":
        if log.count(f"effect {ref}") > 1:
            found.append(f"{ref} has {log.count(f'effect {ref}')} effects")
        was_noted = f"tasks/get {SECRET}{ref}" in log
        if was_noted and not forgets and not told.get(ref, "").startswith("done"):
            found.append(f"the result of {ref} is lost: {told.get(ref)}")
        counts["gone on with"] += was_noted and any("client" in death for death in happened)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Runs schedules; returns 1, and prints which, if any went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=50, metavar="N", help="how many (default: 50)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first schedule's seed (default: 0)")
    parser.add_argument("--on", choices=[*places], default="sqlite", help="what keeps the runs (default: sqlite)")
    options = parser.parse_args(arguments)
    began, counts = time.monotonic(), Counter[str]()
    with places[options.on]() as place:
        for seed in range(options.seed, options.seed + options.schedules):
            with tempfile.TemporaryDirectory(prefix="mcp-tasks-", ignore_cleanup_errors=True) as made:
                folder = Path(made)
                if found := schedule(folder, place.address(folder), seed, counts):
                    counts["wrong"] += 1
                    print(f"seed {seed}: {'; '.join(found)}", flush=True)
    print(
        f"tasks on {options.on}: {counts['kills']} kills in {counts['schedules']} schedules, {counts['calls']} calls, "
        f"{counts['settled']} settled, {counts['wrong']} went wrong; {time.monotonic() - began:.1f} s"
    )
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
