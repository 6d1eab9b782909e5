"""Runs with a journal are killed at points drawn by a seed, and started again by the same line until they have ended.

    python tests/crashes/journaled.py --kills 500
    python tests/crashes/journaled.py --on postgres --kills 500
    python tests/crashes/journaled.py --schedules 300          with files that are locked or full now and then
    python tests/crashes/journaled.py --seed 4711 --kills 1 --keep /tmp/seed-4711

A point is a piece of the response, the code of a tool before and after its effect, or a commit of the journal's
before and after it was made. The model says something else each time it is asked, under other ids; its connection
breaks off, with and without ``retry=``, people say things meanwhile, and approve in the process or elsewhere. Whoever
finds a call whose end is not known looks into the log, as a person would ask the bank, and settles it. Spans are
exported as they end: each visit's run, and each call that began, has to be among them, whoever was killed.

With ``--schedules``, a schedule is a row of waves, and a wave is one or two processes that run the same line at once.
Meanwhile somebody else locks the file, or the server's records, for longer than they wait for it, a file finds the disk
full, a process is killed, or stands still for longer than its lease. A visit may end with an error that says so.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import anyio
from crashes.stores import Place, hold, places, store_at
from every_wire import framed, said
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from streamtools import ApprovalRequested, Decision, Retry, Trajectory, agent_loop, tool
from streamtools.dispatch.results import encode_result
from streamtools.durable.journal import Journal
from streamtools.durable.record_store import RecordStore
from streamtools.durable.store_sqlite import SqliteRecords
from streamtools.errors import AlreadyDecided
from streamtools.history import lint
from streamtools.telemetry import Tracing

__all__ = ["WIRES", "Visit", "digest", "first", "main", "points", "problems", "run"]

WIRES = ("openai.chat_completions", "anthropic.messages", "openai.responses", "gemini.generate_content")
MOST_QUIET = 8
PATIENCE_S = 60.0
"""For a visit, which takes a second or two."""
HURRIED = {"patience": 0.1, "lease": 0.5}
SAID = ("JournalError", "RunTakenOver", "RunStillRunning", "TimeoutError", "OperationalError", "DecisionError")
"""The errors that a visit may end with whose file failed, or whose call waits no longer since the other server ran."""
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
    address: str
    wire: str
    dies_at: int | None = None
    """The number of the point at which the process kills itself."""
    seed: int | None = None
    """Decides where connections break off and what is said; None: nowhere, and nothing."""
    patience: Mapping[str, float] = field(default_factory=dict)
    """Of the store: how long an operation waits for its file or server, and how long a lease holds."""
    fills: float = 0.0
    """How likely it is that the disk is full in a transaction."""

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
        self.note(f"asked {step} {os.getpid()}")
        words = os.urandom(4).hex()
        self.note(f"shown {words} {digest(messages)}")
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

        journal = Journal(points(self))
        messages = first(self.wire)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(_Lines(self.folder / "spans")))
        known = Trajectory(run_id="order-7", observers=[Tracing(provider)], default_observers=False)
        options: dict[str, Any] = {"start": "early" if self._happens(0.5) else "auto"}
        if self._happens(0.5):
            options = {"retry": Retry(attempts=3, backoff=0, after_output=True)}
        is_decided_here, is_kept = not self._happens(0.5), True
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
                self.note(f"entered {os.getpid()}")
                async for event in run:
                    if isinstance(event, ApprovalRequested) and not is_decided_here:
                        await self.decide_elsewhere(event)
                    if run.outcome is None and self._happens(0.03):
                        message = f"said-{os.urandom(4).hex()}"
                        when: Literal["next", "now"] = self._dice.choice(("next", "now"))
                        run.say(message, when=when)
                        self.note(f"cut {when}")
                        self.note(f"say {message} {os.getpid()}")
        except ConnectionResetError as error:
            self.note(f"broken {os.getpid()}")
            is_kept = not any("could not be stored" in note for note in getattr(error, "__notes__", ()))
        if is_kept:
            self.note(f"end {os.getpid()}")
        calls = {call.call_id: call for turn in run.turns for call in turn.calls}
        refs = {call_id: _ran(call.name, (call.arguments or {}).get("ref", "")) for call_id, call in calls.items()}
        unsettled = [[seen.idempotency_key, refs[seen.call_id]] for seen in run.unsettled]
        flaws = [str(flaw) for flaw in lint(run.messages, self.wire)]
        return {"outcome": run.outcome, "unsettled": unsettled, "messages": run.messages, "flaws": flaws}

    async def decide_elsewhere(self, event: ApprovalRequested) -> None:
        """Approves a call as another process would."""
        self.point()
        with store_at(self.address) as store:
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


def digest(messages: Sequence[Any]) -> str:
    """Returns a name for a history."""
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:16]


def points(visit: Visit) -> RecordStore:
    """A store with points before and after each commit, and a file's disk that is full now and then."""
    store, dice = store_at(visit.address, **visit.patience), random.Random(f"disk {visit.seed}")
    records: Any = store.records
    make, connected = records._make, getattr(records, "_connected", None)

    def made(*given: Any) -> Any:
        visit.point()
        value = make(*given)
        visit.point()
        return value

    def filled(*given: Any) -> Any:
        connection = connected(*given)
        if visit.fills:  # a file cannot be bounded below its size, so this one may grow no more
            connection.execute(f"PRAGMA max_page_count = {1 if dice.random() < visit.fills else 1 << 30}")
        return connection

    records._make = made
    if isinstance(records, SqliteRecords):
        records._connected = filled
    return store


class _Lines(SpanExporter):
    """Writes the name of each span, one line each."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Writes them at once."""
        with open(self._path, "ab", buffering=0) as file:
            file.write("".join(f"{span.name}\n" for span in spans).encode())
        return SpanExportResult.SUCCESS


def first(wire: str) -> list[Any]:
    if wire.startswith("gemini"):
        return [{"role": "user", "parts": [{"text": "Pay them all."}]}]
    return [{"role": "user", "content": "Pay them all."}]


# -- running it --------------------------------------------------------------------------------------------------------


def begun(visit: Visit, name: str) -> int:
    """Begins a visit in a process of its own, which leaves what it has read in the file `name`; returns the process."""
    path = visit.folder / name
    path.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        try:
            logging.disable(logging.CRITICAL)
            signal.signal(signal.SIGUSR1, lambda *_: _show_tasks(visit.folder / f"{name}.tasks"))
            try:
                read = anyio.run(visit.go)
            except BaseException as error:
                read = {"raised": traceback.format_exc(limit=-12), "kind": type(error).__name__}
            path.write_text(json.dumps(read))
        finally:
            os._exit(0)
    return pid


def _show_tasks(path: Path) -> None:
    """Writes where each task of this process stands."""
    with open(path, "w") as file:
        for task in asyncio.all_tasks():
            print(task.get_name(), file=file)
            at: Any = task.get_coro()
            while frame := getattr(at, "cr_frame", None) or getattr(at, "ag_frame", None):
                print(
                    f"    {frame.f_code.co_qualname}, {Path(frame.f_code.co_filename).name}:{frame.f_lineno}", file=file
                )
                at = getattr(at, "cr_await", None) or getattr(at, "ag_await", None)


def ended(path: Path, status: int) -> dict[str, Any] | None:
    """Returns what a visit has read that has ended; None if it was killed."""
    return None if os.WIFSIGNALED(status) else dict(json.loads(path.read_text()))


def settle(visit: Visit, unsettled: Mapping[str, str]) -> int:
    """Says of each call how it ended, as the log has it; returns how many they were."""
    done = (visit.folder / "log").read_text().splitlines()

    async def say() -> None:
        with store_at(visit.address) as store:
            in_doubt = {call.key for call in await store.calls()}  # a file that failed leaves more in doubt
            for key, ref in unsettled.items():
                if key not in in_doubt:
                    continue
                await store.settle(key, encode_result(f"paid {ref}") if f"effect {ref}" in done else None)

    anyio.run(say)
    return len(unsettled)


class _Locks:
    """Holds the file, or the records of a server, for moments, as a backup would, longer than anybody waits for it.

    It is a process of its own: SQLite forbids that a connection is open in a process that forks, and visits are forks.
    """

    def __init__(self, address: str, dice: random.Random) -> None:
        self._address = address
        self._dice = random.Random(dice.random())
        self._pid = 0

    def __enter__(self) -> None:
        self._pid = os.fork()
        if self._pid == 0:
            try:
                until = time.monotonic() + 2 * PATIENCE_S
                while time.monotonic() < until:
                    time.sleep(self._dice.uniform(0.02, 0.5))
                    hold(self._address, self._dice.uniform(0.05, 0.4))
            finally:
                os._exit(0)

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _wave(visits: list[Visit], dice: random.Random, *, sleeps: bool = False) -> list[dict[str, Any] | None]:
    """Runs visits that start together, to their ends; one of them may stand still meanwhile."""
    running = {begun(visit, f"read-{at}"): f"read-{at}" for at, visit in enumerate(visits)}
    still = dice.choice([*running]) if sleeps and dice.random() < 0.3 else None
    sleeps_at, wakes_at = time.monotonic() + dice.uniform(0.05, 0.6), 0.0
    until = time.monotonic() + PATIENCE_S
    reads: list[dict[str, Any] | None] = []
    while running:
        now = time.monotonic()
        if still in running and sleeps_at and now >= sleeps_at:
            os.kill(still, signal.SIGSTOP)
            sleeps_at, wakes_at = 0.0, now + dice.uniform(0.0, 3 * HURRIED["lease"])
        elif still in running and wakes_at and now >= wakes_at:
            os.kill(still, signal.SIGCONT)
            wakes_at = 0.0
        for pid, name in list(running.items()):
            if now > until:
                os.kill(pid, signal.SIGUSR1)
                time.sleep(1)
                os.kill(pid, signal.SIGKILL)
            done, status = os.waitpid(pid, 0 if now > until else os.WNOHANG)
            if done:
                del running[pid]
                shown = visits[0].folder / f"{name}.tasks"
                hangs = {"raised": f"it hangs\n{shown.read_text() if shown.exists() else ''}"}
                reads.append(hangs if now > until else ended(visits[0].folder / name, status))
        time.sleep(0.005)
    return reads


def run(
    folder: Path, place: Place, wire: str, seed: int, *, faulty: bool, made: type[Visit] = Visit
) -> tuple[list[dict[str, Any]], Counter[str], list[str]]:
    """Runs one schedule; returns what its quiet visits read, what happened, and the errors that nobody expects."""
    dice = random.Random(f"{'faulty' if faulty else 'journaled'} {seed}")
    counts, unexpected, address = Counter[str](schedules=1), list[str](), place.address(folder)
    quiet_visit = made(folder, address, wire)
    for _ in range(dice.choice((1, 2, 2, 3))):
        visits = [_drawn(quiet_visit, dice, faulty=faulty) for _ in range(dice.choice((1, 2)) if faulty else 1)]
        (folder / "log").touch()
        with _Locks(address, dice) if faulty else nullcontext():
            reads = _wave(visits, dice, sleeps=faulty)
        counts.update(kills=reads.count(None), meetings=len(visits) > 1)
        known = [read for read in reads if read is not None]
        unexpected += [read["raised"] for read in known if "raised" in read and read.get("kind") not in SAID * faulty]
        counts["settled"] += settle(quiet_visit, {key: ref for read in known for key, ref in read.get("unsettled", ())})
    quiet: list[dict[str, Any]] = []
    for _ in range(MOST_QUIET):
        (read,) = _wave([quiet_visit], dice)
        assert read is not None, "nobody kills it"
        quiet.append(read)
        if read.get("unsettled"):
            counts["settled"] += settle(quiet_visit, dict(read["unsettled"]))
        elif [one.get("outcome") for one in quiet[-2:]] == ["answered", "answered"]:
            break
    return quiet, counts, unexpected


def _drawn(visit: Visit, dice: random.Random, *, faulty: bool) -> Visit:
    dies_at = dice.randint(1, 110) if not faulty or dice.random() < 0.4 else None
    faults = (HURRIED, dice.choice((0.0, 0.0, 0.05, 0.2))) if faulty else ()
    return type(visit)(visit.folder, visit.address, visit.wire, dies_at, dice.randrange(1 << 32), *faults)


def problems(reads: list[dict[str, Any]], folder: Path, *, may_skip: bool = False) -> list[str]:
    """Returns what happened in a schedule and may not; `may_skip`: a call may end without having begun."""
    lines = (folder / "log").read_text().splitlines()
    effects = Counter(line.split()[1] for line in lines if line.startswith("effect"))
    entries = reads[-1].get("messages") or []
    history = json.dumps(entries)
    found = [f"{ref} has {count} effects" for ref, count in effects.items() if count > (ref in EFFECTS)]
    # A step that was broken off, by people or by its connection, leaves out its calls, and the model reads that.
    may_skip = may_skip or "cut now" in lines or "the turn ended with an error" in history
    for ref in EFFECTS:
        if not effects[ref] and (f"paid {ref}" in history or not may_skip):
            found.append(f"{ref} has no effect")
        if effects[ref] and f"paid {ref}" not in history and "taken effect" not in history:
            found.append(f"{ref} has an effect of which the model reads nothing")
    for step, calls in enumerate(STEPS):
        had = [f"effect {_ran(name, ref)}" for name, ref in calls]
        first = min((lines.index(line) for line in had if line in lines), default=len(lines))
        again = [line.split()[2] for line in lines[first:] if line.startswith(f"asked {step} ")]
        if any(not _is_overtaken(pid, lines, first) for pid in again):
            found.append(f"step {step} is asked for again after it has had an effect")
    for _, words, shown in (line.split() for line in lines if line.startswith("shown ")):
        place = next((at for at, entry in enumerate(entries) if words in json.dumps(entry)), None)
        if place is not None and digest(entries[:place]) != shown:
            found.append(f"the model said {words} to another history than the one it stands in")
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


def _is_overtaken(pid: str, lines: Sequence[str], at: int) -> bool:
    """Returns whether a visit had lost the run to a later one by then; it may stand still before it asks."""
    entered = [line.split()[1] for line in lines[:at] if line.startswith("entered ")]
    return pid in entered and entered[-1] != pid


def main(made: type[Visit] = Visit, judge: Callable[..., list[str]] = problems, about: str | None = __doc__) -> int:
    """Runs schedules until so many were made, or killed so many; returns 1, and prints which, if any went wrong."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, metavar="N", help="how many (default: 50)")
    parser.add_argument("--schedules", type=int, metavar="N", help="so many schedules with a faulty file instead")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first schedule's seed (default: 0)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the files of the last schedule there")
    parser.add_argument("--on", choices=[*places], default="sqlite", help="what keeps the runs (default: sqlite)")
    options = parser.parse_args()
    faulty = options.schedules is not None
    wanted, count = ("schedules", options.schedules) if faulty else ("kills", options.kills)
    began, counts, seed = time.monotonic(), Counter[str](), options.seed
    with places[options.on]() as place:
        while counts[wanted] < count:
            folder = Path(tempfile.mkdtemp(prefix="journaled-"))
            wire = WIRES[seed % len(WIRES)]
            try:
                reads, happened, unexpected = run(folder, place, wire, seed, faulty=faulty, made=made)
                counts += happened
                if found := [*judge(reads, folder, may_skip=faulty), *unexpected]:
                    counts["wrong"] += 1
                    print(f"seed {seed} ({wire}): {'; '.join(found)}", flush=True)
            finally:
                if options.keep is not None:
                    shutil.rmtree(options.keep, ignore_errors=True)
                    shutil.copytree(folder, options.keep)
                shutil.rmtree(folder, ignore_errors=True)
            seed += 1
    print(
        f"journaled on {options.on}: {counts['kills']} kills in {counts['schedules']} runs over {len(WIRES)} wires, "
        f"{counts['meetings']} times two at once, {counts['wrong']} went wrong, {counts['settled']} calls settled; "
        f"{time.monotonic() - began:.1f} s"
    )
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
