"""What a journal costs: the commit of a response, and its share of a run whose model writes 60 tokens a second.

Bars: the commit of a step takes 1 ms in the median, and the journal 5 % of a run's wall time. Both depend on the disk.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio

from streamtools import agent_loop, tool
from streamtools.dispatch import Journal
from streamtools.dispatch.journal import JournaledResponse

from .measure import Figure, show

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from streams import chat  # after the path to it

__all__ = ["run"]

COMMITS, STEPS, RUNS, TOKENS_A_SECOND = 500, 5, 6, 60


@tool(effect="once")
async def pay(ref: str) -> str:
    """Pay."""
    return f"paid {ref}"


def run() -> list[Figure]:
    """Measure commits of 4 kB each, then whole runs with and without a journal, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        commits = anyio.run(_commits, Path(folder))
        pairs = [
            (anyio.run(_run, Path(folder), at, False), anyio.run(_run, Path(folder), at, True)) for at in range(RUNS)
        ]
    share = statistics.median(with_it / without - 1 for without, with_it in pairs)
    commits.sort()
    return [
        Figure(name="commit of a response, median", value=statistics.median(commits) * 1e3, unit="ms", bar=1.0),
        Figure(name="commit of a response, 99 of 100", value=commits[int(len(commits) * 0.99)] * 1e3, unit="ms"),
        Figure(name=f"a run of {STEPS} steps at {TOKENS_A_SECOND} tokens/s", value=share * 100, unit="% more", bar=5.0),
    ]


async def _commits(folder: Path) -> list[float]:
    lease, _ = await Journal(folder / "commits.db").begin("run", "first", None)
    found = []
    for step in range(COMMITS):
        began = time.perf_counter()
        await lease.keep(JournaledResponse(step, b"{}", b"x" * 4096), [])()
        found.append(time.perf_counter() - began)
    await lease.end(None, [])()
    return found


async def _run(folder: Path, number: int, is_journaled: bool) -> float:
    async def ask(messages: list[Any], tools: Any) -> AsyncIterator[bytes]:
        step = sum(one["role"] == "assistant" for one in messages)
        calls = [(f"c{step}", "pay", json.dumps({"ref": f"p{step}"}))] if step < STEPS - 1 else []
        for chunk in chat(["word "] * 30, calls, "tool_calls" if calls else "stop"):
            await anyio.sleep(1 / TOKENS_A_SECOND)
            yield chunk

    journal: Any = {"journal": folder / "runs.db", "run_id": f"run-{number}"} if is_journaled else {}
    began = time.perf_counter()
    turn = await agent_loop(
        ask, [{"role": "user", "content": "Pay."}], tools=[pay], wire="openai.chat_completions", **journal
    )
    assert turn.finish == "stop"
    return time.perf_counter() - began


if __name__ == "__main__":
    show(run())
