"""Whatever happens in a run, its requests keep the rules of its provider, and each only adds to the one before."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from itertools import pairwise
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from every_wire import ANTHROPIC, BEDROCK
from profiles import FULL, every
from scripted_apis import RULED, RULES, Api, Refused, Request
from spoken_histories import NATIVE, flow

from streamtools import Deny, Retry, ToolContext, agent_loop, tool
from streamtools.dispatch import Decision, MemoryStore, Suspended
from streamtools.durable.journal import Journal
from streamtools.errors import StreamError, ToolFailed
from streamtools.events import StepEnd, StreamEnd, StreamWarning
from streamtools.front.run_face import AgentLoop
from streamtools.history import repair
from streamtools.limits import Limits
from streamtools.wires import find

RUNS = int(os.environ.get("STREAMTOOLS_RUNS", "300"))
"""How many runs of each wire the sweep makes."""
KEY = b"a key of 16 bytes or more"
BROKEN = (StreamError, ConnectionError)
MOST_VISITS = 6


@tool(effect="pure")
async def look(at: str) -> str:
    """Look."""
    if at == "bad":
        raise ToolFailed("no such place")
    return f"seen {at}"


@tool(effect="once", needs_approval=True)
async def pay(at: str) -> str:
    """Pay."""
    return f"paid {at}"


@tool(effect="idempotent")
async def note(at: str = "here") -> str:
    """Note."""
    return f"noted {at}"


@tool(effect="idempotent", background=True, name="note")
async def later(at: str = "here") -> str:
    """Note, when the run has gone on."""
    for _ in range(60 * (len(at) - 1)):
        await anyio.lowlevel.checkpoint()
    return f"noted {at}"


@tool(effect="pure")
async def more(ctx: ToolContext, at: str = "here") -> str:
    """Add a tool."""
    ctx.add_tools(tool(name=f"other_{len(at) % 4}", effect="pure")(look.fn))
    return "added"


class World:
    """A conversation of some runs, and the accounts that it asks."""

    def __init__(self, wire: str, seed: int, *, binding: str = "error") -> None:
        self.wire, self.dice = wire, Random(f"{wire} {seed}")
        dice, chain = self.dice, find(wire).chain
        self.here, self.there = (Api(wire, name, dice, binding=binding, codes=name == "a") for name in "ab")
        self.there.signed = self.here.signed
        self.wholes: list[list[Any]] = []
        self.ask = self.here.ask if chain or wire == ANTHROPIC or dice.random() < 0.5 else self.here.plainly
        there = self.there.ask if self.ask == self.here.ask else self.there.plainly
        self.fallback = dice.choice(([], [], [self.ask], [there], [self.ask, there]))
        self.here.is_sole = there not in self.fallback
        retry = Retry(attempts=2, backoff=0, after_output=dice.random() < 0.6)
        self.options: dict[str, Any] = {
            "retry": dice.choice((None, retry, retry)),
            "start": "auto" if retry.after_output else dice.choice(("auto", "early")),
            "max_steps": dice.choice((3, 8)),
            "limits": Limits(**dice.choice(({}, {"max_tool_calls": 4}, {"token_budget": 9}, {"max_model_retries": 1}))),
        }
        self.keeps = dice.choice(("nothing", "nothing", "store", "journal"))
        self.store = MemoryStore()
        self.decided: dict[tuple[str, str], Decision] = {}
        self.carry: Any = {chain: None} if chain and dice.random() < 0.6 else None
        self.messages: list[Any] = [NATIVE[wire].user("Go.")]
        self.changes = dice.choice(("", "", "function", "calls"))
        for api in (self.here, self.there):
            # A fallback may be another model, and is told of a change by its list; Bedrock always is.
            if self.changes and (api is self.there or wire == BEDROCK):
                api.binding = "drop"
            if not self.changes or api is self.here:
                api.sound = lambda request: self.wholes.append(request.messages)
        self.tools = [look, pay, later if not self.changes and dice.random() < 0.5 else note]
        self.others = [tool(name=f"other_{at}", effect="pure")(look.fn) for at in range(4)]
        self.named = 0  # changes of which the program was told what they cost
        self.lost: list[str] = []

    def run(self, run_id: str, **more: Any) -> AgentLoop:
        kept: dict[str, Any] = {}
        if self.keeps == "journal":
            kept = {"journal": Journal(self.store), "run_id": run_id}
        elif self.keeps == "store":
            kept = {"store": self.store}
        elif self.keeps == "nothing":
            kept = {"approve": self.verdict}
        options = {**self.options, **kept, "fallback": self.fallback, **more}
        tools: Any = (lambda run: self.now(run)) if self.changes else self.tools
        return agent_loop(self.ask, self.messages, tools=tools, wire=self.wire, **options)

    def now(self, run: AgentLoop) -> list[Any]:
        """The tools of the next step: some come and go, or calls add some."""
        if self.changes == "function":
            return [*self.tools, *self.others[: (len(run.turns) * 3) % 4]]
        return [*self.tools, more, *(one for one in self.others if one.name in run.added_tools)]

    def verdict(self, call: Any) -> Any:
        verdict = self.dice.choice((True, Deny("no"), "edit", False))
        if verdict != "edit":
            return verdict
        return Decision.on(call, True, arguments={"at": "there"})

    def decision(self, call: Any) -> Decision:
        shown = call.call_id, call.fingerprint
        if shown not in self.decided:
            found = self.verdict(call)
            self.decided[shown] = found if isinstance(found, Decision) else Decision.on(call, found is True)
        return self.decided[shown]

    async def visit(self, run: AgentLoop, unread: Sequence[Any], *, is_last: bool) -> None:
        """Reads a run to its end, or leaves it somewhere."""
        leaves = self.dice.randint(3, 80) if self.keeps == "journal" and not is_last else 0
        async with run:
            for one in unread:  # in the run that was suspended, and has no journal
                run.say(one["messages"])
            async for event in run:
                self.named += isinstance(event, StreamWarning) and event.code == "tools_changed"
                leaves -= 1
                if leaves == 0:
                    return
                speaks = isinstance(event, (StepEnd, StreamEnd)) and run.outcome is None
                if speaks and self.dice.random() < 0.15:
                    run.say("And?", when=self.dice.choice(("next", "now")))

    async def lives(self) -> None:
        for number in range(self.dice.randint(1, 3)):
            await self.goes_on(f"run {number}")

    async def goes_on(self, run_id: str) -> None:
        given = {"carry": self.carry} if self.carry is not None else {}
        run, begun = self.run(run_id, **given), str(self.messages)
        unread: Sequence[Any] = ()
        for number in range(MOST_VISITS):
            with suppress(*BROKEN):
                await self.visit(run, unread, is_last=number == MOST_VISITS - 1)
            again: dict[str, Any] = {}
            if run.outcome == "suspended" and run.suspended is not None:
                waits = Suspended.from_text(run.suspended.to_text(KEY), KEY)
                again = {"suspended": waits, "decisions": [self.decision(call) for call in waits.calls]}
            elif self.keeps != "journal" or run.outcome not in ("left", "error", "interrupted"):
                break
            if number < MOST_VISITS - 1:
                unread = run.unread if self.keeps == "store" else ()
                self.messages = run.messages if self.keeps == "store" else self.messages
                run = self.run(run_id, **(given if self.keeps == "journal" else {}), **again)
        told = str(run.messages)
        for job in re.findall(r"Started as background job (\w+)", told) if run.outcome == "answered" else ():
            if told.count(f"the result of background job {job} ") != 1 and job not in begun:
                self.lost.append(f"{job} is told {told.count(f'of background job {job} ')} times")
        self.ends(run)

    def ends(self, run: AgentLoop) -> None:
        """The next run goes on where this one has ended; what its program says, it says behind that."""
        self.messages = run.messages
        if flow(self.wire, self.messages)[-1][0] == "model" and not self.here.waits(self.messages):
            self.messages = [*self.messages, NATIVE[self.wire].user("Go on.")]
        if not (self.changes and find(self.wire).tool_changes):  # two messages about tools would be joined
            self.messages = repair(self.messages, self.wire)
        if find(self.wire).carries and self.ask == self.here.ask:
            self.carry = run.carry or (self.carry and {find(self.wire).chain: None})

    def unlike(self) -> Iterator[tuple[Any, Any]]:
        """Requests that are no continuation of the one before."""
        wholes = self.wholes
        if self.named:  # by a list that lacks what was added or removed: a message about that would be refused
            wholes = [[one for one in whole if one.get("role") not in ("system", "developer")] for whole in wholes]
        for before, after in pairwise(wholes):
            if self.keeps == "journal" and before[-1].get("role") in ("system", "developer"):
                before = before[:-1]  # its answer may be lost in a crash, and what was said meanwhile comes before it
            grown = after[: len(before)]
            before, grown = self.plain(before), self.plain(grown)
            if grown != before and not (grown[:-1] == before[:-1] and _grows(before[-1], grown[-1])):
                yield before, after

    def plain(self, messages: list[Any]) -> list[Any]:
        """What the provider has kept of a chain is in its own words."""
        if find(self.wire).chain is None:
            return messages
        return [{key: value for key, value in one.items() if key not in _WORDS} for one in messages]


_WORDS = ("arguments", "id", "signature", "status", "summary")


def _grows(before: Any, after: Any) -> bool:
    old, new = (one.get("content", one.get("parts")) or [] for one in (before, after))
    old, new = ([{"type": "text", "text": one}] if isinstance(one, str) else one for one in (old, new))
    return bool(new[: len(old)] == old)


def spoiled(request: Request, dice: Random) -> Request:
    """A request in which one thing is another: one of its messages or of what is in them, or what goes beside them."""
    messages, tools, carry, chance = deepcopy(request.messages), request.tools, request.carry, dice.random()
    inside: list[tuple[Any, Any]] = [(messages, at) for at in range(len(messages))]
    for holder, key in inside:
        value = holder[key]
        if isinstance(value, (dict, list)):
            inside += [(value, one) for one in (value if isinstance(value, dict) else range(len(value)))]
    holder, key = dice.choice(inside)
    if chance < 0.1:
        tools, carry = ([], carry) if chance < 0.05 else (tools, dict.fromkeys(find(request.api.wire).carries, "x"))
    elif isinstance(holder, list) and chance < 0.7:
        one = holder.pop(key)
        block = {"text": "x", **({"type": "text"} if "type" in str(one) else {})}
        holder[key:key] = dice.choice(([], [one, one], [{"role": "user", "content": "x"}, one], [block, one]))
    else:
        holder[key] = dice.choice(("", "x", "x" * 70, "a b", [], {}, "user", "a00010000"))
    return Request(request.api, messages, tools, carry)


async def _tried(wire: str, seeds: range, told: list[str]) -> dict[str, int]:
    counts = dict.fromkeys(("runs", "requests", "refused", "dropped", "unlike"), 0)
    for seed in seeds:
        world = World(wire, seed, binding="drop_block" if seed % 3 == 0 else "error")
        with suppress(Refused), anyio.fail_after(30):
            await world.lives()
        apis, unlike = (world.here, world.there), list(world.unlike())
        refused = [one for api in apis for one in api.refused if not (world.named and ": prefix:" in one)]
        told += [f"seed {seed}: {one}" for one in world.lost]
        dropped = 0 if world.named else sum(api.dropped for api in apis if api.binding != "drop")
        counts["runs"] += 1
        for name, found in (("requests", len(world.wholes)), ("refused", len(refused)), ("dropped", dropped)):
            counts[name] += found
        counts["unlike"] += len(unlike)
        told += [f"seed {seed}: {one}" for one in refused]
        told += [f"seed {seed}: unlike {json.dumps(a)} and {json.dumps(b)}" for a, b in unlike[:1]]
        told += [f"seed {seed}: {dropped} thinking blocks dropped"] if dropped else []
    return counts


def check(wire: str, runs: int) -> None:
    told: list[str] = []
    counts = anyio.run(_tried, wire, range(runs), told)
    print(f"{wire}: {', '.join(f'{number} {name}' for name, number in counts.items())}")
    assert not told, f"{len(told)} faults, the first: {told[0]}"


@every("wire", RULED)
def test_no_request_of_a_random_run_is_refused_and_each_adds_to_the_one_before(wire: str) -> None:
    check(wire, 30 if FULL else 8)


@pytest.mark.thorough
@every("wire", RULED)
def test_each_rule_refuses_what_breaks_it(wire: str) -> None:
    dice, whole, seen = Random(wire), {rule.name for rule in RULES if wire in rule.sources}, list[Request]()
    for seed in range(8):
        world = World(wire, seed)
        world.here.sound = world.there.sound = seen.append
        anyio.run(world.lives)
    few = [one for one in seen if len(one.messages) < 16]
    for _ in range(5000):
        with suppress(KeyError, TypeError, AttributeError, IndexError, AssertionError):  # it is nothing at all any more
            request = spoiled(dice.choice(few), dice)
            for rule, _ in request.api.objections(request):
                whole -= {rule.name}
        if not whole:
            break
    assert whole == set()


@every("wire", [ANTHROPIC, BEDROCK])
def test_thinking_behind_a_change_is_refused_or_dropped(wire: str) -> None:
    for binding in ("error", "drop_block"):
        worlds, seen = (World(wire, seed, binding=binding) for seed in range(1, 20)), list[Request]()
        world = next(one for one in worlds if not one.changes)
        world.here.sound = seen.append
        anyio.run(world.lives)
        api, request = world.here, seen[-1]
        assert list(api.unbound(request)) == []
        changed = Request(api, [NATIVE[wire].user("Stay."), *request.messages[1:]], request.tools, request.carry)
        assert [rule.name for rule, _ in api.objections(changed)][:1] == (["prefix"] if binding == "error" else [])
        assert len(list(api.unbound(changed))) > 1


@pytest.mark.sweep
@pytest.mark.deadline(3600)
@pytest.mark.parametrize("wire", RULED)
def test_nor_of_very_many(wire: str) -> None:
    check(wire, RUNS)
