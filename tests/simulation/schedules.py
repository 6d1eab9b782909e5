"""One schedule: programs that meet at the same calls, and what may come of it.

Some programs run the same calls under one identity, at times of their own: a framework's retry, a second process, a
double click, a restart. Some are killed, some leave early; the store is slow, fails, is down for a while, or forgets.
At the end, when all is quiet, the calls are made three times more. `problems` compares what happened with what may.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from streamtools import Limits, Pipeline, ToolContext, resume, run_calls, tool
from streamtools.dispatch import Begin, Emit, Invocation
from streamtools.durable.suspended import Suspended
from streamtools.errors import ToolError, ToolNotStarted, ToolOutcomeUnknown, ToolSuspended
from streamtools.events import Observation

from .shared_store import VISIT, Client, Faults, LeasingClient, Server
from .world import Process, StandsStill, World

__all__ = ["Answer", "Schedule", "problems"]

LONG_S = 60.0
"""The time of calls that have no timeout of their own."""
SHORT_S = 5.0
QUIET_S = 500.0
"""After all that happens, until the calls are made again."""


# -- what is drawn -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """How the runs of one call go: how long before its effect and behind it, and how each ends."""

    tool: str
    before: float
    after: float
    ends: tuple[str, ...]


@dataclass(eq=False)
class Visit:
    """One program's turn at the calls."""

    number: int
    schedule: Schedule = field(repr=False)
    at: float
    leave_after: float = math.inf
    stops_calls: bool = False
    """It leaves by stopping its calls, as a button does."""
    process: Process | None = None
    began_at: float = 0.0
    ended_at: float | None = None
    bodies: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """How often each call's code was entered."""

    @property
    def is_killed(self) -> bool:
        return self.ended_at is None

    @property
    def is_left(self) -> bool:
        return self.leave_after < math.inf


@dataclass(frozen=True)
class Answer:
    """What a visit was told about a call."""

    visit: Visit
    call_id: str
    at: float
    seen: Observation

    def __str__(self) -> str:
        seen = self.seen
        how = "recorded" if seen.recorded else f"{seen.attempts} attempts"
        return f"{self.at:9.3f} visit {self.visit.number}: {self.call_id} {seen.outcome} ({how}; {seen.error!r})"


@tool(name="pay", timeout=SHORT_S)
async def pay(ctx: ToolContext, amount: int) -> str:
    """Pay."""
    return await VISIT.get().schedule.body(ctx, amount)


@tool(name="order")
async def order(ctx: ToolContext, amount: int) -> str:
    """Order."""
    return await VISIT.get().schedule.body(ctx, amount)


@tool(name="refund", effect="idempotent", needs_approval=True, timeout=SHORT_S, retries=2, retry_delay_s=1.0)
async def refund(ctx: ToolContext, amount: int) -> str:
    """Refund."""
    return await VISIT.get().schedule.body(ctx, amount)


TOOLS = [pay, order, refund]
NAMED = [tool(each.fn, name=each.name, timeout=each.timeout, idempotency_key="amount") for each in (pay, order)]
GATED = [tool(each.fn, name=each.name, effect=each.effect, needs_approval=True) for each in TOOLS]
LIMITS = Limits(tool_timeout=LONG_S)


class Schedule:
    """One schedule, drawn from a seed."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        dice = random.Random(f"schedule {seed}")
        self.world = World(f"world {seed}")
        self.approved = dice.random() < 0.25
        self.named = not self.approved and dice.random() < 0.3
        """The calls are known by their operations: a model makes them anew each time, some twice."""
        self.elsewhere = not self.approved and dice.random() < 0.15
        leasing = dice.random() < 0.5
        self.faults = _faults(dice)
        self.server = Server(self.world, self.faults, 10.0 if leasing else None)
        self._client: Callable[[Server, Process], Client] = LeasingClient if leasing else Client
        self._clients: dict[Process, Client] = {}
        names = ["pay", "order", "refund"] if self.approved else ["pay", "order"]
        self.plans = {f"c{number}": _plan(dice, dice.choice(names)) for number in range(dice.choice((1, 1, 1, 2, 3)))}
        self.visits = [self._visit(dice, number) for number in range(dice.choice((1, 2, 2, 2, 3, 4)))]
        self.together = dice.random() < 0.25
        """All visits are in one program, as of a double click."""
        self.kills = [] if dice.random() < 0.5 else [(dice.choice(self.visits), dice.uniform(0, 12))]
        self.answers: list[Answer] = []
        self.effects: dict[str, list[Visit]] = defaultdict(list)
        """By call, the visits in which it had its effect."""
        self.begun: dict[str, int] = defaultdict(int)
        self.cut: set[str] = set()
        """The calls of which a body was entered that did not come to its own end."""
        self.suspended: Suspended | None = None
        self.left_open: list[str] = []

    def _visit(self, dice: random.Random, number: int) -> Visit:
        leave = dice.uniform(0, 8) if dice.random() < 0.25 else math.inf
        at = dice.choice((0.0, dice.uniform(0, 1), dice.uniform(0, 15)))
        return Visit(number, self, at, leave, dice.random() < 0.5)

    def __str__(self) -> str:
        kinds = {"approved": self.approved, "named": self.named, "elsewhere": self.elsewhere, "together": self.together}
        lease = self.server.lease
        return f"{', '.join(kind for kind, is_so in kinds.items() if is_so) or 'plain'}; lease {lease}; {self.faults}"

    @property
    def is_healthy(self) -> bool:
        """The store does all that it is asked, at once."""
        return self.faults.slowest <= 0.05 and self.faults == Faults(self.faults.slowest)

    # -- running it --

    def run(self) -> None:
        """Runs it to its end."""
        began = self.world.now
        try:
            if self.approved:
                self._suspend()
                began = self.world.now
            shared = self._process("p") if self.together else None
            for visit in self.visits:
                self._begin(visit, began, shared)
            for visit, after in self.kills:
                assert visit.process is not None
                self.world.at(began + visit.at + after, visit.process.kill)
            self.world.run()
            self.server.faults = Faults(self.faults.slowest)
            for number in range(3):
                self.world.now += QUIET_S
                late = Visit(100 + number, self, 0.0)
                self.visits.append(late)
                self._begin(late, self.world.now, None)
                self.world.run()
        finally:
            self.world.close()

    def _process(self, name: str) -> Process:
        async def nothing(process: Process) -> None:
            self._clients[process] = self._client(self.server, process)

        return self.world.start(name, nothing)

    def _begin(self, visit: Visit, began: float, shared: Process | None) -> None:
        visit.process = process = shared or self._process(f"p{visit.number}")
        self.world.at(began + visit.at, lambda: process.alive and process.create_task(self._turn(visit, process)))

    async def _turn(self, visit: Visit, process: Process) -> None:
        VISIT.set(visit)
        visit.began_at = self.world.now
        options: dict[str, Any] = {"limits": LIMITS, "store": self._clients[process], "observers": ()}
        if self.elsewhere:
            options["executor"] = Elsewhere(self)
        if self.suspended is None:
            tools = NAMED if self.named else TOOLS
            run = run_calls(self._calls(visit), tools, identity="thread/1", **options)
        else:
            run = resume(self.suspended, tools=TOOLS, approve=lambda request: True, **options)
        with anyio.move_on_after(math.inf if visit.stops_calls else visit.leave_after):
            async with run as events:
                if visit.stops_calls and visit.is_left:
                    process.call_later(visit.leave_after, self._stop, run)
                async for event in events:
                    if isinstance(event, Observation):
                        self._answered(visit, event)
        known = {answer.call_id for answer in self.answers if answer.visit is visit}
        for seen in run.turn.observations:
            if seen.call_id not in known:
                self._answered(visit, seen)
        visit.ended_at = self.world.now
        slack = 2 * self.server.faults.slowest + 0.001
        self.world.at(self.world.now + slack, lambda: self._look_for_open_claims(visit))

    def _stop(self, run: Pipeline) -> None:
        for call in run.turn.calls:
            run.cancel(call.call_id)

    def _look_for_open_claims(self, visit: Visit) -> None:
        found = [(key, entry) for key, entry in self.server.entries.items() if entry.visit is visit]

        def note() -> None:
            for key, entry in found:
                if self.server.entries.get(key) is entry and entry.completed_at is None and entry.runs:
                    self.left_open.append(f"visit {visit.number} left the claim of {key} open")

        # A worker that was thought lost may be claiming its call, and gives the claim back at once.
        self.world.at(self.world.now + self.elsewhere * (4 * self.server.faults.slowest + 0.001), note)

    def _answered(self, visit: Visit, seen: Observation) -> None:
        self.answers.append(Answer(visit, seen.call_id, self.world.now, seen))

    def _calls(self, visit: Visit | None) -> list[tuple[str, str, dict[str, int]]]:
        calls = [(call_id, plan.tool, {"amount": number}) for number, (call_id, plan) in enumerate(self.plans.items())]
        if not self.named or visit is None:
            return calls
        times = range(self.world.dice.choice((1, 1, 2, 3)))
        return [(f"{call_id}.{visit.number}.{time}", name, given) for call_id, name, given in calls for time in times]

    def _suspend(self) -> None:
        """Has the calls wait for an approval."""

        async def ask(process: Process) -> None:
            self._clients[process] = self._client(self.server, process)
            async with run_calls(self._calls(None), GATED, limits=LIMITS, observers=()) as events:
                async for event in events:
                    if events.resting:
                        break
            self.suspended = events.suspended

        self.world.start("first", ask)
        self.world.run()

    # -- the tools' code --

    async def body(self, ctx: ToolContext, amount: int) -> str:
        """Has the effect of a call that was made, if its plan says so, and ends."""
        visit, call_id = VISIT.get(), ctx.call_id.partition(".")[0]
        plan = self.plans[call_id]
        ends = plan.ends[min(self.begun[call_id], len(plan.ends) - 1)]
        self.begun[call_id] += 1
        visit.bodies[call_id] += 1
        self.cut.add(call_id)
        await asyncio.sleep(plan.before)
        if ends in ("not_started", "suspend"):
            self.cut.discard(call_id)
            raise ToolNotStarted("the bank is closed") if ends == "not_started" else ToolSuspended("a person is asked")
        if visit.process is not None and visit.process.alive:
            self.effects[call_id].append(visit)
        await asyncio.sleep(plan.after)
        self.cut.discard(call_id)
        if ends == "raise":
            raise ToolError("declined")
        if ends == "crash":
            raise ConnectionError("the bank hung up")
        return f"did {amount}"


class Elsewhere:
    """An executor whose workers are lost, before a call begins and after."""

    carries_context = True

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        dice, loop = self._schedule.world.dice, asyncio.get_running_loop()
        await asyncio.sleep(dice.uniform(0, 1))
        if dice.random() < 0.15:
            raise ToolNotStarted("no worker")
        lost_after = dice.uniform(0, 6) if dice.random() < 0.15 else math.inf
        work = loop.create_task(self._work(call, begin))  # goes on where this is cancelled, as a worker does
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        done, _ = await asyncio.wait({work}, timeout=min(lost_after, 1e6))
        if done:
            return work.result()
        raise ToolOutcomeUnknown("the worker was lost")

    async def _work(self, call: Invocation, begin: Begin) -> Any:
        await begin()
        known = {each.name: each for each in TOOLS}[call.tool]
        return await known.fn(ToolContext(call_id=call.call_id, key=call.key, run_id=call.run_id), **call.arguments)


def _plan(dice: random.Random, name: str) -> Plan:
    longest = 4.0 if name != "order" else dice.choice((4.0, 25.0))
    draw = dice.random()
    if draw < 0.6:
        ends: tuple[str, ...] = ("return",)
    elif draw < 0.7:
        ends = ("raise",)
    elif draw < 0.8:
        ends = ("not_started", "return")
    elif draw < 0.9:
        ends = ("suspend", "return")
    elif draw < 0.95:
        ends = ("suspend", "suspend", "return")
    else:
        ends = ("suspend", "raise")
    if name == "refund" and dice.random() < 0.5:
        ends = ("crash", "return")
    elif dice.random() < 0.05:
        ends = ("crash",)
    # Mostly shorter than a call may take, so that most ends are known.
    times = [dice.choice((0.0, dice.uniform(0, longest / 2))) for _ in range(2)]
    if name == "pay" and dice.random() < 0.1:
        times[1] = 2 * SHORT_S
    return Plan(name, *times, ends)


def _faults(dice: random.Random) -> Faults:
    slowest = dice.choice((0.0, 0.0, 0.05, 0.05, 1.0))
    kind = dice.choice(("none", "none", "none", "none", "lossy", "down", "forgets"))
    if kind == "lossy":
        return Faults(slowest, lossy=dice.choice((0.1, 0.3)))
    if kind == "down":
        start = 1000.0 + dice.uniform(0, 10)
        return Faults(slowest, down=(start, start + dice.uniform(0, 15)))
    if kind == "forgets":
        return Faults(slowest, forgets_at=1000.0 + dice.uniform(0, 15))
    return Faults(slowest)


# -- what may come of it -----------------------------------------------------------------------------------------------


def problems(schedule: Schedule) -> list[str]:
    """Returns what happened and may not; empty if all is well."""
    try:
        schedule.run()
    except StandsStill as error:
        return [str(error)]
    found = [f"raised outside of the calls: {text}" for text in schedule.world.errors]
    if schedule.is_healthy:
        found += schedule.left_open
    for call_id in schedule.plans:
        found += [f"{call_id}: {text}" for text in _problems_of(schedule, call_id)]
    return found


def _problems_of(schedule: Schedule, call_id: str) -> list[str]:
    found: list[str] = []
    plan, server = schedule.plans[call_id], schedule.server
    answers = [answer for answer in schedule.answers if answer.call_id.partition(".")[0] == call_id]
    keys = {answer.seen.idempotency_key for answer in answers}
    if schedule.named:  # a call that did not come to its turn has its own key
        keys = {key for key in keys if key is not None and key.startswith("operation:")}
    if len(keys) != 1:
        return [f"has the keys {keys}"]
    (key,) = keys
    visits = set(map(id, schedule.effects[call_id]))
    forgotten = key in server.forgotten
    if len(visits) > 1 and not forgotten:
        numbers = [visit.number for visit in schedule.effects[call_id]]
        found.append(f"has its effect in the visits {numbers}")
    for answer in answers:
        ran = answer.visit.bodies[call_id]
        said = sum(other.seen.attempts for other in answers if other.visit is answer.visit)
        if ran != said and not answer.visit.is_killed:
            found.append(f"visit {answer.visit.number} has run it {ran} times and says {said}")
        if answer.seen.outcome == "ok" and not visits:
            found.append(f"visit {answer.visit.number} has a result without an effect")
    words = {answer.seen.value for answer in answers if answer.seen.outcome == "ok"}
    if len(words) > 1:
        found.append(f"has the results {words}")
    excused = (
        call_id in schedule.cut
        or forgotten
        or key in server.lost_claims
        or (key in server.refused and (schedule.kills or plan.tool == "refund"))
        or any(visit.is_killed for visit in schedule.visits)
        or (plan.before + plan.after > SHORT_S - 1 and plan.tool == "pay")
        or schedule.elsewhere
        or any(visit.is_left and visit.bodies[call_id] for visit in schedule.visits)
    )
    entry = server.entries.get(key)
    known_at = math.inf if entry is None or entry.completed_at is None else entry.completed_at
    for answer in answers:
        error, outcome = answer.seen.error, answer.seen.outcome
        is_unknown = outcome == "unknown"
        if is_unknown and answer.visit.at + 1000 > known_at and not forgotten and key not in server.refused:
            found.append(f"visit {answer.visit.number} is told {error!r}, although the end is on record")
        if is_unknown and not excused and schedule.is_healthy:
            found.append(f"visit {answer.visit.number} is told {error!r}, although nobody was lost")
    late = [answer for answer in answers if answer.visit.number >= 100 and answer.seen.recorded]
    trips = 2 if schedule.approved else 1  # the decision is looked up before the call is claimed
    slack = 2 * trips * schedule.faults.slowest + 0.001 + schedule.elsewhere
    if not schedule.named and any(answer.at > answer.visit.began_at + slack for answer in late):
        found.append("is answered from the record late")
    if not excused:
        last = answers[-1].seen
        good = "ok" if plan.ends[-1] == "return" else "failed"
        if last.outcome != good or len(visits) != 1:
            found.append(f"ends {last.outcome} ({last.error!r}) with {len(visits)} effects")
    return found
