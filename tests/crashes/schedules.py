"""Real processes meet at the same calls under a real framework: killed, interrupted, retried, two at a time.

    python tests/crashes/schedules.py langgraph --schedules 200
    python tests/crashes/schedules.py dbos --seed 4711 --keep /tmp/seed-4711       one schedule, its files kept

This program imports the framework once, then forks a process for each visit of a schedule. A visit makes the
framework do what is left to do: run the calls, go on after a crash, answer an interrupt. What the tools' code does goes
into the file `log`, a line at a time; what a visit reads of its calls goes into the file `read-N`. Which visits there
are, who is killed and where, and how the calls end is drawn from the seed; when processes meet is up to the machine.

A host is a module of `hosts` with two functions:

    prepare(work)    makes what a run is continued from: the model has answered, and nothing of its calls has run
    visit(work)      runs or continues the calls in a process of its own; returns what the model reads, by call id
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

from streamtools.dispatch import SqliteStore
from streamtools.dispatch.store import Claim, call_fingerprint
from streamtools.errors import ToolNotStarted

__all__ = ["HOSTS", "Plan", "Work", "main", "problems"]

HOSTS = ("langgraph", "pydantic_ai", "strands", "smolagents", "dbos")
PATIENCE_S = 120.0
"""For a visit, which takes a second or two; one that takes longer hangs."""
MOST_QUIET = 6
"""Visits at the end, one after another, in which nobody is killed."""


# -- what is drawn -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """How one call goes: whether its tool asks a person, how each run of its code ends, and how long that takes."""

    call_id: str
    asks: bool
    ends: tuple[str, ...]
    before_s: float
    after_s: float
    dies: Mapping[int, str]
    """In which visits the process kills itself in this call's code, and where: ``before`` its effect, or ``after``."""


@dataclass(frozen=True)
class Visit:
    """A process' turn at the calls."""

    number: int
    killed_after_s: float | None = None
    """Its process is killed so long after its start, wherever it is."""


@dataclass(frozen=True)
class Drawn:
    """A schedule."""

    plans: tuple[Plan, ...]
    waves: tuple[tuple[Visit, ...], ...]
    """Visits that start together, one wave after another."""
    variant: int
    """For the host: another way to do the same, such as a retry of its own."""


def draw(seed: int, asks: bool) -> Drawn:
    dice = random.Random(f"crashes {seed}")
    waves, number = [], 0
    for _ in range(dice.choice((1, 2, 2, 3))):
        wave = []
        for _ in range(dice.choice((1, 1, 2))):
            wave.append(Visit(number, dice.uniform(0.0, 0.5) if dice.random() < 0.4 else None))
            number += 1
        waves.append(tuple(wave))
    plans = []
    for at in range(dice.choice((1, 2, 2, 3))):
        last = dice.choice(("return", "return", "return", "raise"))
        ends = ("not_started", last) if dice.random() < 0.2 else (last,)
        times = [dice.choice((0.0, dice.uniform(0, 0.15))) for _ in range(2)]
        dies = {n: dice.choice(("before", "after")) for n in range(number) if dice.random() < 0.25}
        plans.append(Plan(f"c{at}", asks and dice.random() < 0.35, ends, *times, dies))
    return Drawn(tuple(plans), tuple(waves), dice.randrange(4))


# -- one schedule's files ----------------------------------------------------------------------------------------------


@dataclass
class Work:
    """What a host works with, in one visit."""

    folder: Path
    plans: Mapping[str, Plan]
    variant: int
    number: int = -1

    def note(self, what: str, call_id: str) -> None:
        """Puts a line into the log: one write, so that lines of several processes do not mix."""
        with open(self.folder / "log", "ab", buffering=0) as file:
            file.write(f"{what} {call_id} {self.number}\n".encode())

    def lines(self) -> list[tuple[str, str, int]]:
        """Returns the log's lines: what, the call, the visit."""
        path = self.folder / "log"
        found = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [(what, call_id, int(number)) for what, call_id, number in found]

    def store(self) -> SqliteStore:
        """Opens the store of the calls, which notes in the log who claims which call."""
        return _NotingStore(self)

    def replace(self, name: str, data: bytes) -> None:
        """Writes a file as a whole, whoever is killed."""
        part = self.folder / f"{name}.{os.getpid()}"
        part.write_bytes(data)
        part.replace(self.folder / name)

    def run(self, call_id: str) -> str:
        """Does what the code of a tool does: has its effect, once it has begun, and ends as its plan says."""
        plan = self.plans[call_id]
        begun = sum(line[:2] == ("begin", call_id) for line in self.lines())
        end = plan.ends[min(begun, len(plan.ends) - 1)]
        self.note("begin", call_id)
        time.sleep(plan.before_s)
        if end == "not_started":
            self.note("not_started", call_id)
            raise ToolNotStarted("the bank is closed")
        self._die(plan, "before")
        self.note("effect", call_id)
        self._die(plan, "after")
        time.sleep(plan.after_s)
        self.note("end", call_id)
        if end == "raise":
            raise ValueError("the receipt could not be printed")
        return f"paid {call_id}"

    def _die(self, plan: Plan, where: str) -> None:
        if plan.dies.get(self.number) == where:
            os.kill(os.getpid(), signal.SIGKILL)


class _NotingStore(SqliteStore):
    def __init__(self, work: Work) -> None:
        super().__init__(work.folder / "calls.db")
        self._work = work
        self._calls = {
            call_fingerprint(name, {"call": call_id}): call_id
            for name in ("pay", "confirm", "pay_async")
            for call_id in work.plans
        }

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        self._work.note("asks", self._calls[fingerprint])
        found = await super().claim(key, fingerprint)
        self._work.note(type(found).__name__, self._calls[fingerprint])
        return found


# -- running it --------------------------------------------------------------------------------------------------------


@dataclass
class Read:
    """What a visit has read of its calls, or why it has not come to its end."""

    visit: int
    began: float
    ended: float
    killed: bool
    texts: dict[str, str] = field(default_factory=dict)
    raised: str = ""


def _forked(host: ModuleType, work: Work) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        logging.disable(logging.CRITICAL)  # the tools fail on purpose
        try:
            said: dict[str, Any] = {"texts": host.visit(work)}
        except Exception:
            said = {"raised": traceback.format_exc(limit=-12)}
        work.replace(f"read-{work.number}", json.dumps(said).encode())
        code = 0
    finally:
        os._exit(code)


def _wave(host: ModuleType, drawn: Drawn, folder: Path, visits: tuple[Visit, ...]) -> list[Read]:
    """Runs visits that start together, to their ends."""
    plans = {plan.call_id: plan for plan in drawn.plans}
    began = time.monotonic()
    running = {_forked(host, Work(folder, plans, drawn.variant, visit.number)): visit for visit in visits}
    reads: list[Read] = []
    while running:
        for pid, visit in list(running.items()):
            late = time.monotonic() - began
            if (visit.killed_after_s is not None and late >= visit.killed_after_s) or late > PATIENCE_S:
                os.kill(pid, signal.SIGKILL)
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done:
                continue
            del running[pid]
            path = folder / f"read-{visit.number}"
            said = json.loads(path.read_bytes()) if path.exists() else {}
            killed = os.WIFSIGNALED(status) and not said
            reads.append(
                Read(visit.number, began, time.monotonic(), killed, said.get("texts", {}), said.get("raised", ""))
            )
            if late > PATIENCE_S:
                reads[-1].raised = "it hangs"
        time.sleep(0.005)
    return reads


def run(host: ModuleType, drawn: Drawn, folder: Path) -> tuple[list[Read], Work]:
    """Runs a schedule in this folder; returns what its visits read, in the order of their ends."""
    work = Work(folder, {plan.call_id: plan for plan in drawn.plans}, drawn.variant)
    host.prepare(work)
    reads: list[Read] = []
    for wave in drawn.waves:
        reads += _wave(host, drawn, folder, wave)
    for number in range(1000, 1000 + MOST_QUIET):
        reads += _wave(host, drawn, folder, (Visit(number),))
        if set(reads[-1].texts) == set(work.plans):
            break
    return reads, work


# -- what may come of it -----------------------------------------------------------------------------------------------


def _kind(text: str) -> str:
    for kind, words in _WORDS.items():
        if re.search(words, text):
            return kind
    return "other"


_HOLDS = ("asks", "Claimed", "begin", "effect", "end", "not_started")
"""The last lines of a visit about a call that it may hold the claim of."""
_WORDS = {
    "unknown": "how that ended is not known|may have taken effect",
    "running": "runs already",
    "ok": "paid c",
    "failed": "receipt could not be printed|raised ValueError",
    "closed": "the bank is closed",
}


def problems(reads: list[Read], work: Work, *, cuts: bool = False) -> list[str]:
    """Returns what happened in a schedule and may not; `cuts`: a run that fails leaves calls that go on in threads."""
    lines, found = work.lines(), []
    effects = Counter(call_id for what, call_id, _ in lines if what == "effect")
    killed = {read.visit for read in reads if read.killed or (cuts and read.raised)}
    last = {(call_id, number): what for what, call_id, number in lines}
    lost = {call_id for (call_id, number), what in last.items() if number in killed and what in _HOLDS}
    for call_id, plan in work.plans.items():
        if effects[call_id] > 1:
            found.append(f"{call_id} has its effect {effects[call_id]} times")
        answers = [(read, _kind(read.texts[call_id])) for read in reads if call_id in read.texts]
        if any(kind in ("running", "other") for _, kind in answers):
            found.append(f"{call_id} is answered {[read.texts[call_id] for read, _ in answers]}")
        known_at = min((read.ended for read, kind in answers if kind in ("ok", "failed")), default=float("inf"))
        late = [read.visit for read, kind in answers if kind == "unknown" and read.began >= known_at]
        if late:
            found.append(f"{call_id} has an end that was read, and the visits {late} read that it is unknown")
        if len({kind for _, kind in answers} - {"unknown", "closed"}) > 1:
            found.append(f"{call_id} is answered {[kind for _, kind in answers]}")
        if call_id not in lost:
            good = {"ok" if plan.ends[-1] == "return" else "failed", "closed" if "not_started" in plan.ends else "ok"}
            if not answers or answers[-1][1] not in good or any(kind == "unknown" for _, kind in answers):
                found.append(
                    f"{call_id}, which nobody held who was killed, is answered {[kind for _, kind in answers]}"
                )
            if effects[call_id] != (answers[-1:] != [] and answers[-1][1] != "closed"):
                found.append(f"{call_id} has {effects[call_id]} effects")
    if not reads[-1].texts:
        found.append(f"the last visit has read nothing: {reads[-1].raised}")
    if any(read.raised == "it hangs" for read in reads):
        found.append("a visit hangs")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Runs schedules, and prints those that went wrong; returns 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("host", choices=HOSTS)
    parser.add_argument("--schedules", type=int, default=1, metavar="N", help="how many (default: 1)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first one's seed (default: 0)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the files of the last schedule there")
    options = parser.parse_args(arguments)
    host = importlib.import_module(f"crashes.hosts.{options.host}")
    began, counts = time.monotonic(), Counter[str]()
    for seed in range(options.seed, options.seed + options.schedules):
        folder = Path(tempfile.mkdtemp(prefix="crashes-"))
        try:
            drawn = draw(seed, host.ASKS)
            reads, work = run(host, drawn, folder)
            found = problems(reads, work, cuts=getattr(host, "CUTS", False))
            counts["visits"] += len(reads)
            counts["killed"] += sum(read.killed for read in reads)
            counts["meetings"] += sum(len(wave) > 1 for wave in drawn.waves)
            if found:
                counts["wrong"] += 1
                print(f"seed {seed}: {'; '.join(found)}", flush=True)
        finally:
            if options.keep is not None:
                shutil.rmtree(options.keep, ignore_errors=True)
                shutil.copytree(folder, options.keep)
            shutil.rmtree(folder, ignore_errors=True)
    print(
        f"{options.host}: {options.schedules} schedules, {counts['wrong']} went wrong; {counts['visits']} visits, "
        f"{counts['killed']} of them killed, {counts['meetings']} times two at once; {time.monotonic() - began:.1f} s"
    )
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
