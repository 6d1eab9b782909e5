"""Runs with a journal are killed at points drawn by a seed, and started again by the same line until they have ended.

    python tests/crashes/journaled.py --kills 500
    python tests/crashes/journaled.py --seed 4711 --kills 1 --keep /tmp/seed-4711

A point is a piece of the response, the code of a tool before and after its effect, or a transaction of the journal's
file before and after it was made. The model says something else each time it is asked, under other ids; its connection
breaks off, with and without ``retry=``, people say things meanwhile, and approve in the process or elsewhere. Whoever
finds a call whose end is not known looks into the log, as a person would ask the bank, and settles it. Spans are
exported as they end: each visit's run, and each call that began, has to be among them, whoever was killed.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import anyio
from every_wire import framed, said
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from streamtools import ApprovalRequested, Decision, Retry, Trajectory, agent_loop, tool
from streamtools.dispatch import SqliteStore
from streamtools.dispatch.journal import Journal
from streamtools.dispatch.results import encode_result
from streamtools.dispatch.store_sqlite import StoreJob
from streamtools.errors import AlreadyDecided
from streamtools.history import lint
from streamtools.telemetry import Tracing

__all__ = ["WIRES", "main", "problems", "run"]

WIRES = ("openai.chat_completions", "anthropic.messages", "openai.responses", "gemini.generate_content")
MOST_QUIET = 8
T = TypeVar("T")

STEPS: tuple[tuple[tuple[str, str], ...], ...] = (
    (("pay", "p0"), ("look", "l0")),
    (("pay", "p1"), ("pay_in_thread", "p2"), ("refund", "p3")),
    (("pay_in_thread", "p4"),),
    (),
)


def _ran(name: str, ref: str) -> str:
    """Returns what a call has to run with: a refund is approved with another reference than the model's."""
    return f"{ref}-edited" if name == "refund" else ref


EFFECTS = sorted(_ran(name, ref) for step in STEPS for name, ref in step if name != "look")


@dataclass
class Visit:
    """One process' turn at a run."""

    folder: Path
    wire: str
    dies_at: int | None = None
    """The number of the point at which the process kills itself."""
    seed: int | None = None
    """Decides where connections break off and what is said; None: nowhere, and nothing."""

    def __post_init__(self) -> None:
        self._points = 0
        self._dice = random.Random(f"visit {self.seed}")
        self._chance = self.seed is not None  # of faults
        self._lock = threading.Lock()

    def note(self, what: str) -> None:
        """Puts a line into the log, in one write."""
        with open(self.folder / "log", "ab", buffering=0) as file:
            file.write(f"{what}\n".encode())

    def point(self) -> None:
        """Ends the process if this is the point to die at."""
        with self._lock:
            self._points += 1
            if self._points == self.dies_at:
                os.kill(os.getpid(), signal.SIGKILL)

    def has_effect(self, ref: str) -> None:
        """Does what a tool does."""
        self.note(f"begin {ref}")
        self.point()
        self.note(f"effect {ref}")
        self.point()

    def _happens(self, chance: float) -> bool:
        return self._chance and self._dice.random() < chance

    async def ask(self, messages: list[Any], tools: Any) -> AsyncIterator[bytes]:
        """Answers as the model does, in other words each time."""
        step = min(sum(one.get("role") in ("assistant", "model") for one in messages), len(STEPS) - 1)
        self.note(f"asked {step}")
        words = os.urandom(4).hex()
        calls = [(f"call_{words}_{at}", name, json.dumps({"ref": ref})) for at, (name, ref) in enumerate(STEPS[step])]
        payloads = said(self.wire, text=[f"Step {step}.", words], calls=calls, pieces=3)
        chunks = framed(self.wire, payloads)
        breaks_at = self._dice.randrange(len(chunks)) if self._happens(0.3) else -1
        for at, chunk in enumerate(chunks):
            self.point()
            if at == breaks_at:
                raise ConnectionResetError
            yield chunk.replace(b'"msg_', f'"msg_{words}_'.encode()).replace(b'"fc_', f'"fc_{words}_'.encode())

    async def go(self) -> dict[str, Any]:
        """Runs the one line; returns how far it came."""

        @tool(effect="once")
        async def pay(ref: str) -> str:
            """Pays."""
            self.has_effect(ref)
            return f"paid {ref}"

        @tool(effect="once")
        def pay_in_thread(ref: str) -> str:
            """Pays from a thread."""
            self.has_effect(ref)
            return f"paid {ref}"

        @tool(effect="idempotent", needs_approval=True)
        async def refund(ref: str) -> str:
            """Pays back, if somebody agrees."""
            self.has_effect(ref)
            return f"paid {ref}"

        @tool(effect="pure")
        async def look(ref: str) -> str:
            """Looks something up."""
            return f"looked at {ref}"

        journal = Journal(_Points(self))
        messages = _first(self.wire)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(_Lines(self.folder / "spans")))
        known = Trajectory(run_id="order-7", observers=[Tracing(provider)], default_observers=False)
        options: dict[str, Any] = {"start": "early" if self._happens(0.5) else "auto"}
        if self._happens(0.5):
            options = {"retry": Retry(attempts=3, backoff=0, after_output=True)}
        is_decided_here = not self._happens(0.5)
        run = agent_loop(
            self.ask,
            messages,
            tools=[pay, pay_in_thread, refund, look],
            wire=self.wire,
            approve=_decision if is_decided_here else _ask_nobody,
            journal=journal,
            trajectory=known,
            **options,
        )
        try:
            async with run:
                self.note("run")
                async for event in run:
                    if isinstance(event, ApprovalRequested) and not is_decided_here:
                        await self.decide_elsewhere(event)
                    if run.outcome is None and self._happens(0.03):
                        message = f"said-{os.urandom(4).hex()}"
                        run.say(message)
                        self.note(f"say {message} {os.getpid()}")
        except ConnectionResetError:
            self.note(f"broken {os.getpid()}")
        self.note(f"end {os.getpid()}")
        calls = {call.call_id: call for turn in run.turns for call in turn.calls}
        refs = {call_id: _ran(call.name, (call.arguments or {})["ref"]) for call_id, call in calls.items()}
        unsettled = [[seen.idempotency_key, refs[seen.call_id]] for seen in run.unsettled]
        flaws = [str(flaw) for flaw in lint(run.messages, self.wire)]
        return {"outcome": run.outcome, "unsettled": unsettled, "messages": run.messages, "flaws": flaws}

    async def decide_elsewhere(self, event: ApprovalRequested) -> None:
        """Approves a call as another process would."""
        self.point()
        with SqliteStore(self.folder / "runs.db") as store:
            try:
                await Journal(store).decide("order-7", _decision(event))
                self.note("decide")
            except AlreadyDecided:
                self.note("decided before")
        self.point()


def _decision(asked: ApprovalRequested) -> Decision:
    return Decision.on(asked, True, by="ann", arguments={"ref": _ran(asked.tool_name, asked.arguments["ref"])})


async def _ask_nobody(asked: ApprovalRequested) -> None:
    await anyio.sleep_forever()


class _Points(SqliteStore):
    """A store with points before and after each transaction."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        super().__init__(visit.folder / "runs.db")

    def _transact(self, work: Callable[[sqlite3.Connection], T], job: StoreJob) -> T:
        self._visit.point()
        value = super()._transact(work, job)
        self._visit.point()
        return value


class _Lines(SpanExporter):
    """Writes the name of each span, one line each."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Writes them at once."""
        with open(self._path, "ab", buffering=0) as file:
            file.write("".join(f"{span.name}\n" for span in spans).encode())
        return SpanExportResult.SUCCESS


def _first(wire: str) -> list[Any]:
    if wire.startswith("gemini"):
        return [{"role": "user", "parts": [{"text": "Pay them all."}]}]
    return [{"role": "user", "content": "Pay them all."}]


# -- running it --------------------------------------------------------------------------------------------------------


def _visited(visit: Visit) -> dict[str, Any] | None:
    """Runs a visit in a process of its own; returns None if that was killed."""
    path = visit.folder / "read"
    path.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        try:
            logging.disable(logging.CRITICAL)
            try:
                read = anyio.run(visit.go)
            except BaseException:
                read = {"raised": traceback.format_exc(limit=-12)}
            path.write_text(json.dumps(read))
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return None if os.WIFSIGNALED(status) else dict(json.loads(path.read_text()))


def _settle(folder: Path, unsettled: list[list[str]]) -> None:
    done = (folder / "log").read_text().splitlines()

    async def settle() -> None:
        with SqliteStore(folder / "runs.db") as store:
            for key, ref in unsettled:
                await store.settle(key, encode_result(f"paid {ref}") if f"effect {ref}" in done else None)

    anyio.run(settle)


def run(folder: Path, wire: str, seed: int) -> tuple[list[dict[str, Any]], int, int]:
    """Runs one schedule; returns what its quiet visits read, how often it was killed, and how often settled."""
    dice = random.Random(f"journaled {seed}")
    killed = settled = 0
    for _ in range(dice.choice((1, 1, 2, 3))):
        read = _visited(Visit(folder, wire, dice.randint(1, 110), dice.randrange(1 << 32)))
        killed += read is None
        if read is not None and read.get("unsettled"):
            settled += len(read["unsettled"])
            _settle(folder, read["unsettled"])
    reads: list[dict[str, Any]] = []
    for _ in range(MOST_QUIET):
        read = _visited(Visit(folder, wire))
        assert read is not None, "nobody kills it"
        reads.append(read)
        if read.get("unsettled"):
            settled += len(read["unsettled"])
            _settle(folder, read["unsettled"])
        elif [one.get("outcome") for one in reads[-2:]] == ["answered", "answered"]:
            break
    return reads, killed, settled


def problems(reads: list[dict[str, Any]], folder: Path) -> list[str]:
    """Returns what happened in a schedule and may not."""
    lines = (folder / "log").read_text().splitlines()
    effects = Counter(line.split()[1] for line in lines if line.startswith("effect"))
    found = [f"{ref} has {effects[ref]} effects" for ref in {*EFFECTS, *effects} if effects[ref] != (ref in EFFECTS)]
    for step, calls in enumerate(STEPS):
        had = [f"effect {_ran(name, ref)}" for name, ref in calls]
        first = min((lines.index(line) for line in had if line in lines), default=len(lines))
        if f"asked {step}" in lines[first:]:
            found.append(f"step {step} is asked for again after it has had an effect")
    history = json.dumps(reads[-1].get("messages"))
    ended = {line.split()[1] for line in lines if line.startswith("end ")}
    for _, message, pid in (line.split() for line in lines if line.startswith("say ")):
        if history.count(message) > 1 or (pid in ended and message not in history):
            found.append(f"{message} stands {history.count(message)} times in the history")
    spans = Counter((folder / "spans").read_text().splitlines())
    drawn = sum(spans[name] for name in spans if name.startswith("streamtools.begin.call"))
    begun = sum(line.startswith("begin") for line in lines)
    if drawn < begun:
        found.append(f"{begun} calls began, and {drawn} are among the spans")
    if spans["streamtools.begin.run"] < lines.count("run"):
        found.append(f"{lines.count('run')} runs began, and {spans['streamtools.begin.run']} are among the spans")
    found += [f"raised: {read['raised']}" for read in reads if "raised" in read]
    if reads[-1].get("outcome") != "answered":
        found.append(f"it ends {reads[-1].get('outcome')}")
    elif reads[-1]["messages"] != reads[-2]["messages"]:
        found.append("a finished run has another history when it is read again")
    found += [f"the history has a flaw: {flaw}" for flaw in reads[-1].get("flaws", ())]
    return found


def main(arguments: list[str] | None = None) -> int:
    """Runs schedules until so many kills were made; prints those that went wrong, and returns 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, metavar="N", help="how many (default: 50)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first schedule's seed (default: 0)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the files of the last schedule there")
    options = parser.parse_args(arguments)
    began, counts, seed = time.monotonic(), Counter[str](), options.seed
    while counts["kills"] < options.kills:
        folder = Path(tempfile.mkdtemp(prefix="journaled-"))
        wire = WIRES[seed % len(WIRES)]
        try:
            reads, killed, settled = run(folder, wire, seed)
            counts.update(schedules=1, kills=killed, settled=settled)
            if found := problems(reads, folder):
                counts["wrong"] += 1
                print(f"seed {seed} ({wire}): {'; '.join(found)}", flush=True)
        finally:
            if options.keep is not None:
                shutil.rmtree(options.keep, ignore_errors=True)
                shutil.copytree(folder, options.keep)
            shutil.rmtree(folder, ignore_errors=True)
        seed += 1
    print(
        f"journaled: {counts['kills']} kills in {counts['schedules']} runs over {len(WIRES)} wires, "
        f"{counts['wrong']} went wrong, {counts['settled']} calls settled; {time.monotonic() - began:.1f} s"
    )
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
