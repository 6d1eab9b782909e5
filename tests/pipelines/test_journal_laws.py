"""After each visit of a run with a journal, the next one's model reads what the run had, and nothing has run twice."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from profiles import FULL, every, examples
from streams import anthropic, chat, exhaust

from streamtools import Decision, Retry, agent_loop, tool
from streamtools.dispatch import SqliteStore
from streamtools.dispatch.results import encode_result
from streamtools.durable.journal import Journal
from streamtools.errors import AlreadyDecided, StreamError, StreamToolsError, ToolFailed
from streamtools.events import ToolStarted
from streamtools.front.run_face import AgentLoop
from streamtools.history import lint, repair

WIRES = {"openai.chat_completions": chat, "anthropic.messages": anthropic}
NOT_RUN = re.compile(r"not run(?! again)|cancelled before it started")
ASKED = [{"role": "user", "content": "Pay them."}]
FAULTS = {
    "lease": "INSERT ON records WHEN NEW.kind = 'lease'",
    "give back": "DELETE ON records WHEN OLD.kind = 'lease'",
    "claim": "INSERT ON records WHEN NEW.kind = 'call'",
    "complete": "UPDATE OF value ON records WHEN NEW.kind = 'call'",
    "renew": "UPDATE ON records WHEN NEW.rev = OLD.rev",
    "release": "DELETE ON records WHEN OLD.kind = 'call'",
    "decide": "INSERT ON records WHEN NEW.kind = 'decided'",
    "begin": "UPDATE OF value ON records WHEN NEW.kind = 'run' AND instr(NEW.value, CAST('outcome\": null' AS BLOB))",
    "end": "UPDATE OF value ON records WHEN NEW.kind = 'run' AND NOT instr(NEW.value, CAST('outcome\": null' AS BLOB))",
    "response": "INSERT ON records WHEN NEW.kind = 'response'",
    "ends": "INSERT ON records WHEN NEW.kind = 'ends'",
    "say": "INSERT ON records WHEN NEW.kind = 'inbox'",
    "read": "DELETE ON records WHEN OLD.kind = 'inbox'",
    "waits": "INSERT ON records WHEN NEW.kind = 'waiting'",
    "is over": "UPDATE ON records WHEN NEW.kind = 'waiting'",
}
"""The verbs of the file, by what each does to its records."""
FATES = ("say", "now", "elsewhere", "leave", "hang", "crash", "stop")
DEADLINE_S = 900 if FULL else 60
MOST_VISITS, MOST_STEPS = 5, 4
SEEDS = [(wire, seed) for seed in range(examples(40, 2)) for wire in WIRES]
TRIED = (*FAULTS, "lock") if FULL else (*FAULTS, "lock")[::2]
FAULTY = [(fault, list(WIRES)[seed % 2], seed) for seed in range(examples(5, 1)) for fault in TRIED]


class Died(Exception):
    """Ends a visit where it is: what comes after it is another process."""


@dataclass
class World:
    """A random run: its model, its tools with a ledger of their effects, and what becomes of each visit."""

    seed: int
    folder: Path
    wire: str
    dice: random.Random = field(init=False)
    effects: list[str] = field(default_factory=list)
    asked: list[list[Any]] = field(default_factory=list)
    """What the model has read, in this visit."""
    said: list[str] = field(default_factory=list)
    """All that was said to the run, in order."""
    called: dict[str, str] = field(default_factory=dict)
    """The effect of each call, by its id."""
    steps: int = 0
    hangs: bool = False
    is_dead: bool = False
    is_calm: bool = False
    fault: str | None = None
    """What goes wrong with the file in this visit."""
    lock: sqlite3.Connection | None = None
    """Holds the file, as a backup does."""

    def __post_init__(self) -> None:
        self.dice = random.Random(f"{self.seed} {self.wire}")
        self.was_asked = False
        self.path = self.folder / "runs.db"
        self.options: dict[str, Any] = {
            "start": self.dice.choice(["auto", "early"]),
            "retry": self.dice.choice([None, None, Retry(attempts=2, backoff=0)]),
            "max_steps": 4 * MOST_STEPS,
            "drafts": self.dice.random() < 0.2,
        }
        if self.options["retry"] is not None and self.options["start"] == "auto" and self.dice.random() < 0.5:
            self.options["retry"] = Retry(attempts=2, backoff=0, after_output=True)

    # -- the tools --

    async def _did(self, name: str, ref: str) -> str:
        if self.is_dead:
            await anyio.sleep_forever()
        self.effects.append(f"{name} {ref}")
        hangs = self.hangs
        await anyio.lowlevel.checkpoint()
        if hangs or self.is_dead:
            await anyio.sleep_forever()
        if ref.endswith("3"):
            raise ToolFailed(f"{name} {ref} failed")
        return f"done {name} {ref}"

    def tools(self) -> list[Any]:
        @tool(effect="once")
        async def pay(to: str) -> str:
            """Pay."""
            return await self._did("pay", to)

        @tool(effect="once", needs_approval=True)
        async def refund(to: str) -> str:
            """Pay back."""
            return await self._did("refund", to)

        @tool(effect="idempotent")
        async def note(to: str) -> str:
            """Note."""
            return await self._did("note", to)

        @tool(effect="pure")
        async def look(to: str) -> str:
            """Look."""
            return await self._did("look", to)

        return [pay, refund, note, look]

    # -- the model --

    async def ask(self, messages: list[Any], tools: Any) -> AsyncIterator[Any]:
        self.asked.append(json.loads(json.dumps(messages)))
        self.judge(messages)
        self.steps += 1
        dice, number = self.dice, self.steps
        names = [dice.choice(["pay", "note", "look", "look", "pay", "refund"]) for _ in range(dice.randrange(4))]
        if number >= MOST_STEPS and (self.is_calm or dice.random() < 0.5):
            names = []
        self.called |= {f"call_{number}_{at}": f"{name} {number}{at}" for at, name in enumerate(names)}
        calls = [(f"call_{number}_{at}", name, json.dumps({"to": f"{number}{at}"})) for at, name in enumerate(names)]
        text = [f"Step {number}", ", I go", " on."][: dice.randrange(1, 4)]
        body = WIRES[self.wire](
            text,
            calls,
            **(
                {}
                if calls
                else {"finish" if self.wire[0] == "o" else "stop": "stop" if self.wire[0] == "o" else "end_turn"}
            ),
        )
        if not self.is_calm and dice.random() < 0.2:
            body = [*body[: dice.randrange(len(body))], dice.choice([ConnectionResetError(), StreamError("malformed")])]
        for item in body:
            await anyio.lowlevel.checkpoint()
            if isinstance(item, BaseException):
                raise item
            yield item

    def judge(self, messages: list[Any]) -> None:
        """The rules for what is told of each call: no effect as none, and none as one."""
        blocks = (part for one in messages if isinstance(one["content"], list) for part in one["content"])
        for one in (*messages, *blocks):
            if (call_id := one.get("tool_call_id") or one.get("tool_use_id")) is not None:
                effect, words = self.called[call_id], str(one["content"])
                assert not (effect in self.effects and NOT_RUN.search(words) and effect[0] in "pr"), (effect, words)
                assert effect in self.effects or "done" not in words, (effect, words)

    # -- visits --

    def run(self, **options: Any) -> AgentLoop:
        given = {"ask": self.ask, **self.options, **options}
        return agent_loop(
            given.pop("ask"),
            ASKED,
            tools=self.tools(),
            wire=self.wire,
            journal=self.journal(),
            run_id="order-7",
            **given,
        )

    def journal(self) -> Journal:
        return Journal(SqliteStore(self.path, busy_timeout=0.05 if self.fault == "lock" else 10.0))

    def breaks(self) -> None:
        """From now on the file is locked, or a verb of it fails."""
        if self.fault == "lock":
            self.lock = sqlite3.connect(self.path, isolation_level=None)
            self.lock.execute("BEGIN IMMEDIATE")
        else:
            with closing(sqlite3.connect(self.path)) as file, file:
                file.execute(
                    f"CREATE TRIGGER broken BEFORE {FAULTS[str(self.fault)]} BEGIN SELECT RAISE(ABORT, 'broken'); END"
                )

    def mend(self) -> None:
        """The file works again, and the leases that nobody has given back have run out."""
        if self.lock is not None:
            self.lock.close()
            self.lock = None
        with closing(sqlite3.connect(self.path)) as file, file:
            file.execute("DROP TRIGGER IF EXISTS broken")
            file.execute("UPDATE records SET stale_at = 0 WHERE stale_at IS NOT NULL")
            if self.fault is not None:
                self.forget_unstored(file)

    async def visit(self, run: AgentLoop, fates: dict[int, str]) -> str | None:
        """Goes on with the run; returns the fate by which the visit ended, if it was one of these."""
        self.hangs = False
        seen = 0
        async with run:
            async for event in run:
                seen += 1
                fate = fates.get(seen)
                if fate == "fault":
                    self.breaks()
                if fate in ("say", "now"):
                    run.say(self.words(), when="next" if fate == "say" else "now")
                elif fate == "elsewhere":
                    with suppress(*(() if self.fault is None else (OSError, sqlite3.Error))):
                        await self.journal().say("order-7", self.words(), when=self.dice.choice(["next", "now"]))
                elif fate == "stop" and self.dice.random() < 0.1:
                    run.stop()
                elif fate == "leave":
                    return fate
                elif fate == "hang":
                    self.hangs = True
                if fate == "crash" or (self.hangs and isinstance(event, ToolStarted)):
                    self.crash()
                    return "crash"
        return None

    def words(self) -> str:
        self.said.append(f"said {len(self.said)}.")
        return self.said[-1]

    def unread(self, had: list[Any]) -> list[Any]:
        """What was said and is in no request."""
        written = json.dumps(had)
        return [{"role": "user", "content": one} for one in self.said if one not in written]

    def forget_unstored(self, file: sqlite3.Connection) -> None:
        """Of what was said, only what the file has outlives its process."""
        rows = file.execute("SELECT value FROM records WHERE kind IN ('inbox', 'response')")
        written = " ".join(map(str, rows))
        self.said = [one for one in self.said if one in written]

    def crash(self) -> None:
        """The process dies here: the file stays as it is, and nobody holds what it held."""
        self.is_dead = True
        path = self.path.with_name(f"{self.path.name}+")
        with closing(sqlite3.connect(self.path)) as before, closing(sqlite3.connect(path)) as after:
            before.backup(after)
            with after:
                after.execute("DROP TRIGGER IF EXISTS broken")
                after.execute("UPDATE records SET stale_at = 0 WHERE stale_at IS NOT NULL")
            self.forget_unstored(after)
        self.path = path

    async def probe(self) -> list[Any]:
        """What the next visit's model would read, or the history if it is not asked."""
        read: list[list[Any]] = []

        async def refuse(messages: list[Any], tools: Any) -> Any:
            read.append(json.loads(json.dumps(messages)))
            raise Died

        run = self.run(ask=refuse, retry=None)
        with suppress(Died):
            async with run:
                await exhaust(run)
        self.was_asked = bool(read)
        return read[0] if read else json.loads(json.dumps(run.messages))

    async def settle(self, run: AgentLoop) -> None:
        """A person finds out what became of calls, and decides about those that wait."""
        with SqliteStore(self.path) as store:
            for call in await store.calls():
                for seen in run.unsettled:
                    if seen.idempotency_key == call.key:
                        ref = next(made.arguments["to"] for made in run.turn.calls if made.call_id == seen.call_id)
                        has_run = f"{seen.tool_name} {ref}" in self.effects
                        await store.settle(call.key, encode_result(f"done {seen.tool_name} {ref}") if has_run else None)
        for call in () if run.suspended is None else run.suspended.calls:
            verdict = self.dice.random() < 0.7
            with suppress(AlreadyDecided):  # and nobody has read it yet
                await Journal(self.path).decide("order-7", Decision.on(call, verdict))


def in_order(messages: list[Any]) -> list[Any]:
    """A history whose last messages of the user's are sorted: one from elsewhere may come in front of another."""
    at = len(messages)
    while at > 1 and messages[at - 1]["role"] == "user" and isinstance(messages[at - 1]["content"], str):
        at -= 1
    return [*messages[:at], *sorted(messages[at:], key=lambda one: str(one["content"]))]


def before_results(messages: list[Any]) -> list[Any]:
    """A history up to the model's latest answer."""
    last = max((at for at, one in enumerate(messages) if one["role"] == "assistant"), default=-1)
    return messages[: last + 1]


async def lives(world: World, faults: Sequence[str | None]) -> None:
    """Goes on with a run, visit by visit, until it is over; judges each by the next one."""
    for number in range(2 * MOST_VISITS):
        world.is_calm = number >= MOST_VISITS
        fates = {} if world.is_calm else {world.dice.randrange(1, 60): world.dice.choice(FATES) for _ in range(4)}
        world.fault = faults[number] if number < len(faults) else None
        world.is_dead = world.hangs = False
        if world.fault is not None:
            begins = world.dice.randrange(0 if number and world.fault != "lock" else 1, 60)
            world.breaks() if begins == 0 else fates.update({begins: "fault"})
        run, error, ended = world.run(), None, None
        world.asked.clear()
        try:
            with anyio.fail_after(30):
                ended = await world.visit(run, fates)
        except (StreamToolsError, ConnectionResetError) as raised:
            error = raised
        finally:
            world.mend()
        had, asked = json.loads(json.dumps(run.messages)), list(world.asked)
        said, seen = world.unread(had), (number, fates, world.fault, ended, run.outcome, repr(error))
        is_left, world.fault, world.is_dead, world.hangs = world.fault or ended, None, False, False
        read = await world.probe()
        world.judge(read)
        # Else the calls of its last step are gone on with, perhaps cut by news, or it is asked for again.
        goes_on = run.unsettled or (run.suspended is not None and "elsewhere" in fates.values())
        if is_left is None and not goes_on and not (world.options["drafts"] and error is not None):
            expected = [*had, *(said if world.was_asked else ())]
            expected = in_order(repair(expected, world.wire) if said else expected)
            at = next((i for i, pair in enumerate(zip_longest(in_order(read), expected)) if pair[0] != pair[1]), None)
            assert at is None, (seen, in_order(read)[at : at + 2], expected[at : at + 2])
        elif asked:
            before = before_results(asked[-1])
            assert read[: len(before)] == before, seen
        once = [one for one in world.effects if one[0] in "pr"]
        assert len(once) == len(set(once)), seen
        if is_left is None and run.outcome in ("answered", "cancelled", "max_steps"):
            assert lint(run.messages, world.wire) == []
            return
        if is_left is None:
            await world.settle(run)
    raise AssertionError(f"the run does not end: {run.outcome}")


@pytest.mark.costly
@pytest.mark.deadline(DEADLINE_S)
@pytest.mark.anyio
@every("wire, seed", SEEDS)
async def test_the_next_visit_reads_what_the_run_had_and_no_effect_happens_twice(
    tmp_path: Path, wire: str, seed: int
) -> None:
    (folder := tmp_path / f"{wire}-{seed}").mkdir()
    await lives(World(seed, folder, wire), ())


@pytest.mark.costly
@pytest.mark.deadline(DEADLINE_S)
@pytest.mark.anyio
@every("fault, wire, seed", FAULTY)
async def test_no_fault_of_the_file_repeats_an_effect_denies_one_or_changes_what_was_read(
    tmp_path: Path, fault: str, wire: str, seed: int
) -> None:
    (folder := tmp_path / f"{fault}-{seed}").mkdir()
    world = World(seed, folder, wire)
    await lives(world, [fault if world.dice.random() < 0.7 else None for _ in range(MOST_VISITS - 1)])
