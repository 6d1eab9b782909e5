"""Deciders who meet at one call, in two processes that are killed in between: is there one verdict, and does it hold?

    python -m benchmarks.soak_deciders 2000

A round suspends one payment in a run of its own. Two to five deciders, spread over two processes that share a
`SqliteStore`, decide at once, yes or no by lot, each in one of two ways: by `resume(decisions=)`, or by
`Suspended.decide` and a resume. At every eighth round one process is killed right after its decision is on record. Then
this process goes on with the state, without a decision, as a program does when it starts. Prints one line: the rounds,
the deciders, the verdicts, those who were told of the first, the effects, and everything that contradicts them.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import anyio

from streamtools import Decision, Suspended, ToolContext, Trajectory, pipeline, resume, tool
from streamtools.dispatch import SqliteStore
from streamtools.errors import AlreadyDecided

KEY = "a key of thirty-two bytes or more"
PROCESSES = 2
RESTART_EVERY = 50  # rounds, after which both processes are other ones
KILL_EVERY = 8


@tool(needs_approval=True)
async def pay(ctx: ToolContext) -> str:
    """Pay, and note it where everybody can count."""
    with Path(ctx.context).open("a") as file:  # noqa: ASYNC230 - a line in a local file
        file.write("paid\n")
    return "paid"


# -- a process of deciders ---------------------------------------------------------------------------------------------


async def decide(store: SqliteStore, text: str, effects: str, name: str, verdict: bool, way: str) -> list[Any]:
    """Decides as one person does; returns what that person was told: first or whose decision holds, and the outcome."""
    suspended = Suspended.from_text(text, KEY)
    decision = Decision.on(suspended.calls[0], verdict, by=name)
    given = [decision] if way == "resume" else []
    try:
        if way != "resume":
            await suspended.decide([decision], store)
        if way == "die":
            os._exit(9)
        async with resume(suspended, tools=[pay], store=store, decisions=given, context=effects) as events:
            _ = [event async for event in events]
    except AlreadyDecided as error:
        return [name, error.first.by, error.first.verdict, None]
    return [name, name, verdict, events.turn.observations[0].outcome]


async def serve(path: str) -> None:
    """Reads rounds from the standard input, a line each, and writes the answers of all its deciders."""
    with SqliteStore(path) as store:
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            said: list[Any] = []
            text, effects, deciders = json.loads(line)

            async def one(name: str, verdict: bool, way: str, said: Any, text: str, effects: str) -> None:
                said.append(await decide(store, text, effects, name, verdict, way))

            async with anyio.create_task_group() as group:
                for decider in deciders:
                    group.start_soon(one, *decider, said, text, effects)
            print(json.dumps(said), flush=True)


class Process:
    """A process of deciders, started when it is needed."""

    def __init__(self, path: Path) -> None:
        self._command = [sys.executable, "-m", "benchmarks.soak_deciders", "--serve", str(path)]
        self._child: subprocess.Popen[str] | None = None

    def begin(self, task: Any) -> None:
        """Hands over the deciders of a round."""
        if self._child is None:
            self._child = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(task) + "\n")
        self._child.stdin.flush()

    def answers(self) -> list[Any] | None:
        """Returns what the deciders were told; None if the process has died."""
        assert self._child is not None
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if line:
            return list(json.loads(line))
        self.end()
        return None

    def end(self) -> None:
        """Ends the process; another one is started when it is needed."""
        if self._child is not None:
            assert self._child.stdin is not None
            self._child.stdin.close()
            self._child.wait()
            self._child = None


# -- the rounds --------------------------------------------------------------------------------------------------------


async def suspended_of(number: int) -> Suspended:
    """Returns a payment that waits, under an id that recurs, in a run of its own."""
    call = {"index": 0, "id": "call_0", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    body = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}]
    run = Trajectory(run_id=f"run {number}", default_observers=False)
    async with pipeline(body, tools=[pay], wire="openai.chat_completions", trajectory=run, context="") as events:
        _ = [event async for event in events]
    assert events.suspended is not None
    return events.suspended


def deciders(number: int, chance: random.Random) -> list[list[Any]]:
    """Returns names, verdicts and ways of a round's deciders; one of every eighth round dies behind its decision."""
    found = [
        [f"person {n}", chance.random() < 0.6, chance.choice(("resume", "decide"))] for n in range(chance.randint(2, 5))
    ]
    if number % KILL_EVERY == 0:
        found[0][2] = "die"
    return found


def contradictions(told: list[Any], last: Any, effects: int) -> list[str]:
    """Returns what does not fit: the first decision, what the others were told, the end of the run, the effects."""
    holds = (last.by[0], last.approved)
    wrong = [f"{name} was told of another decision" for name, by, verdict, _ in told if (by, verdict) != holds]
    firsts = [name for name, by, _, outcome in told if name == by and outcome is not None]
    wrong += ["several are the first"] if len(firsts) > 1 else []
    outcome = "ok" if last.approved else "denied"
    wrong += [f"{name} read {got}" for name, _, _, got in told if got not in (None, outcome)]
    return wrong + ([f"{effects} effects of {outcome}"] if effects != int(last.approved) else [])


async def soak(rounds: int, seed: int = 1) -> str:
    """Runs the rounds, and returns the line."""
    chance, tally, wrong = random.Random(seed), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name, "calls.db")
        processes = [Process(path) for _ in range(PROCESSES)]
        for number in range(rounds):
            suspended = await suspended_of(number)
            effects, people = folder / f"effects {number}", deciders(number, chance)
            for place, process in enumerate(processes):
                process.begin([suspended.to_text(KEY), str(effects), people[place::PROCESSES]])
            answers = [process.answers() for process in processes]
            told = [one for said in answers for one in said or ()]
            with SqliteStore(path) as store:
                async with resume(suspended, tools=[pay], store=store, context=str(effects)) as events:
                    resolved = [one async for one in events if type(one).__name__ == "ApprovalResolved"]
            happened = len(effects.read_text().splitlines()) if effects.exists() else 0
            seen = events.turn.observations[0]
            found = contradictions(told, resolved[0], happened) if len(resolved) == 1 else ["no verdict"]
            found += ["the history disagrees"] if (seen.outcome == "ok") != (happened == 1) else []
            wrong += [f"round {number}: {one}" for one in found]
            tally["deciders"] += len(people)
            tally["verdicts"] += len(resolved)
            tally["approved"] += sum(one.approved for one in resolved)
            tally["told of the first"] += sum(one[3] is None for one in told)
            tally["effects"] += happened
            tally["doubles"] += happened > 1
            tally["killed"] += None in answers
            if number % RESTART_EVERY == RESTART_EVERY - 1:
                for process in processes:
                    process.end()
        for process in processes:
            process.end()
    counts = ", ".join(f"{name} {count}" for name, count in tally.items())
    return "\n".join([f"rounds {rounds}, {counts}, wrong {len(wrong)}", *wrong[:20]])


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        anyio.run(serve, sys.argv[2])
    else:
        print(anyio.run(soak, int(sys.argv[1])))
