"""Runs with jobs in the background are killed at points drawn by a seed, and started again by the same line.

    python tests/crashes/background.py --kills 200

A point is one of `journaled.py`, or in a job before and after its effect. The model says other words each time it is
asked, refuses what its provider would, and answers while jobs go on. People say things meanwhile, and some visits leave
the block. Each result has to reach the model once, and a run that has ended has waited for all.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import anyio
from crashes.journaled import Visit as _Visit
from crashes.journaled import digest, first, main, points
from every_wire import framed, said

from streamtools import agent_loop, tool
from streamtools.durable.journal import Journal
from streamtools.errors import ToolError
from streamtools.history import lint

STEPS: tuple[tuple[tuple[str, str], ...], ...] = (
    (("pay", "p0"), ("render", "r0"), ("look", "l0")),
    (("render_in_thread", "t0"), ("pay", "p1"), ("background_jobs", "")),
    (("look", "l1"), ("fails", "f0"), ("render", "r1")),
)
ONCE, AGAIN = ("p0", "p1", "f0"), ("r0", "t0", "r1")


class Visit(_Visit):
    """One process' turn at a run with jobs."""

    async def ask(self, messages: list[Any], tools: Any) -> AsyncIterator[bytes]:
        if flaws := [str(one) for one in lint(messages, self.wire, last=True)]:
            self.note(f"refused {flaws}")
        step = sum(one.get("role") in ("assistant", "model") for one in messages)
        words = os.urandom(4).hex()
        self.note(f"shown {words} {digest(messages)}")
        wanted = STEPS[step] if step < len(STEPS) else ()
        calls = [
            (f"call_{words}_{at}", name, json.dumps({"ref": ref} if ref else {}))
            for at, (name, ref) in enumerate(wanted)
        ]
        for chunk in framed(self.wire, said(self.wire, text=[f"Step {step}.", words], calls=calls, pieces=3)):
            self.point()
            await anyio.sleep(self._dice.choice((0, 0, 0.002)))
            yield chunk.replace(b'"msg_', f'"msg_{words}_'.encode()).replace(b'"fc_', f'"fc_{words}_'.encode())

    async def go(self) -> dict[str, Any]:
        def job(name: str, effect: Any) -> Any:
            @tool(name=name, background=True, effect=effect)
            async def work(ref: str) -> str:
                """Works."""
                for _ in range(self._dice.choice((0, 1, 10))):
                    await anyio.sleep(0.003)
                self.has_effect(ref)
                if name == "fails":
                    raise ToolError(f"done {ref}")
                return f"done {ref}"

            return work

        @tool(background=True, effect="idempotent")
        def render_in_thread(ref: str) -> str:
            """Renders in a thread."""
            self.has_effect(ref)
            return f"done {ref}"

        @tool(effect="pure")
        async def look(ref: str) -> str:
            """Looks something up."""
            return f"looked at {ref}"

        jobs = job("pay", "once"), job("render", "idempotent"), job("fails", "once")
        tools, leaves = [*jobs, render_in_thread, look], self._happens(0.2)
        journal = Journal(points(self))
        async with agent_loop(
            self.ask, first(self.wire), tools=tools, wire=self.wire, journal=journal, run_id="order-7"
        ) as going:
            async for event in going:
                if leaves and self._happens(0.02):
                    break
                if going.outcome is None and self._happens(0.02):
                    going.say(f"said-{os.urandom(4).hex()}", when=self._dice.choice(("next", "now")))
        flaws = [str(flaw) for flaw in lint(going.messages, self.wire)]
        return {"outcome": going.outcome, "messages": going.messages, "flaws": flaws}


def problems(reads: list[dict[str, Any]], folder: Path, *, may_skip: bool = False) -> list[str]:
    lines = (folder / "log").read_text().splitlines()
    effects = Counter(line.split()[1] for line in lines if line.startswith("effect"))
    entries = reads[-1].get("messages") or []
    history = json.dumps(entries)
    begun = {one[:8]: history.index(one) for one in history.split("Started as background job ")[1:]}
    found = [f"{ref} has {effects[ref]} effects" for ref in ONCE if effects[ref] > 1]
    for job, at in begun.items():
        if history.count(f"the result of background job {job} ") != 1 or history.find(f"background job {job} (") < at:
            found.append(f"the result of job {job} stands {history.count(f'background job {job} (')} times there")
    unknown = {*ONCE} if ", unknown]" in history else set()
    # One that may run again has perhaps begun in a visit before that in which its response was cut.
    is_cut = "had its effect before" in history or "was not run: the user interrupted" in history
    unknown |= {*AGAIN} if is_cut or may_skip else set()
    for ref in (*ONCE, *AGAIN):
        told = history.count(f"done {ref}")
        if told > 1 or (told and not effects[ref]) or (effects[ref] and not told and ref not in unknown):
            found.append(f"{ref} has {effects[ref]} effects, and the model reads of {told}")
    for _, words, shown in (line.split() for line in lines if line.startswith("shown ")):
        place = next((at for at, entry in enumerate(entries) if words in json.dumps(entry)), None)
        if place is not None and digest(entries[:place]) != shown:
            found.append(f"the model said {words} to another history than the one it stands in")
    found += [line for line in lines if line.startswith("refused")]
    found += [f"raised: {read['raised']}" for read in reads if "raised" in read]
    if reads[-1].get("outcome") != "answered":
        found.append(f"it ends {reads[-1].get('outcome')}")
    elif reads[-1]["messages"] != reads[-2]["messages"]:
        found.append("a finished run has another history when it is read again")
    return found + [f"the history has a flaw: {flaw}" for flaw in reads[-1].get("flaws", ())]


if __name__ == "__main__":
    sys.exit(main(Visit, problems, __doc__))
