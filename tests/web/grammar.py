"""Runs of every kind by their seeds, as the log of a conversation has them: what encoders are judged by.

A seed makes a *plan*: what a model says in each step and attempt, where it breaks off, who decides about its calls and
when, and where the process dies. The run is a real one, with a journal, and what its readers see is real, too.
"""

from __future__ import annotations

import json
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
from every_wire import framed
from interleaved_answers import Part, arranged
from streams import stream
from wire_cases.names import ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, MISTRAL, RESPONSES

from streamtools import AgentLoop, Decision, Limits, Retry, ToolContext, Turn, agent_loop, tool
from streamtools.dispatch import SqliteStore
from streamtools.durable.journal import Journal
from streamtools.errors import AnswerError, AnswerPending, ApprovalPending, DecisionError, StreamError, ToolError
from streamtools.events import (
    AnswerRequested,
    ApprovalRequested,
    Event,
    EventBase,
    Observation,
    StepEnd,
    StepStart,
    StreamEnd,
)
from streamtools.parts import ToolCall
from streamtools.web.live import LiveRun
from streamtools.web.log import Entry, VisitEnd
from streamtools.web.shown import ShownRun

__all__ = ["GeneratedRun", "GeneratedVisit", "generated"]

WIRES = (CHAT, ANTHROPIC, RESPONSES, GEMINI, BEDROCK, COHERE, MISTRAL)
_ON_RECORD = (StreamEnd, Observation, StepEnd)
_CUT = (StreamError, ConnectionError)


@dataclass(frozen=True)
class GeneratedVisit:
    """A visit to a run: what a client has answered before it, and the entries that it adds to the log."""

    approvals: tuple[tuple[int, str, str, bool, str], ...] = ()
    """Step, call id, fingerprint, verdict, reason."""
    results: tuple[tuple[int, str, Any], ...] = ()
    """Step, call id, value."""
    entries: tuple[Entry, ...] = ()
    died: bool = False
    """The process did not live to end it."""


@dataclass
class GeneratedRun:
    """A run and its truth."""

    seed: int
    wire: str
    visits: list[GeneratedVisit] = field(default_factory=list)
    turns: tuple[Turn, ...] = ()
    """All of the run, as the last visit has them."""
    outcome: str | None = None
    said: list[str] = field(default_factory=list)
    """What the user has added, as far as it was read."""

    @property
    def run_id(self) -> str:
        return f"run#{self.seed}"

    @property
    def entries(self) -> list[Entry]:
        """The whole log."""
        return [entry for visit in self.visits for entry in visit.entries]


# -- what the model says ----------------------------------------------------------------------------------------------


class _Plan:
    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.wire = WIRES[seed % len(WIRES)]
        self.words = (f"w{number}. " for number in range(1 << 20))
        self.numbers = iter(range(1 << 20))
        self.recurs = chance.random() < 0.3  # each step has the same call ids
        self.steps = [self._attempts(is_last=False) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
        self.steps.append(self._attempts(is_last=True))
        breaks = chance.random() < 0.08
        self.broken_step = chance.randrange(len(self.steps)) if breaks else -1
        after_output = chance.random() < 0.8
        self.retry = Retry(attempts=4, backoff=0, after_output=after_output, jitter=lambda: 0.0)
        self.options: dict[str, Any] = {"retry": self.retry} if chance.random() < 0.8 else {}
        if chance.random() < 0.1:
            self.options["max_steps"] = chance.randint(1, 2)
        if chance.random() < 0.1:
            self.options["limits"] = Limits(max_tool_calls=chance.randint(1, 3))
        self.lives = [chance.randrange(2, 40) if chance.random() < 0.25 else None for _ in range(2)]
        self.stops_at = chance.randrange(2, 60) if chance.random() < 0.06 else None
        if self.lives[0] is not None:
            self.stops_at = None  # a page has seen more of a run that died when it was stopped than its turns have
        self.says_at = {chance.randrange(2, 40) for _ in range(chance.choice((0, 0, 0, 1, 2)))}
        self.decides_at_once = chance.random() < 0.4
        self.never_decides = chance.random() < 0.1

    def _attempts(self, *, is_last: bool) -> list[list[Part]]:
        count = self.chance.choice((1, 1, 1, 2, 3))
        return [self._answer(is_last=is_last) for _ in range(count)]

    def _answer(self, *, is_last: bool) -> list[Part]:
        chance, ids = self.chance, iter(range(9))
        calls = [] if is_last else [self._call(next(ids)) for _ in range(chance.choice((1, 2, 2, 3)))]
        parts: list[Part] = []
        if chance.random() < 0.4:
            parts.append(("reasoning", [next(self.words) for _ in range(2)]))
        for call in [*calls, None]:
            if chance.random() < 0.5 or (call is None and is_last):
                parts.append(("text", [next(self.words) for _ in range(chance.randint(1, 3))]))
            if call is not None:
                parts.append(("calls", [call]))
        return parts

    def _call(self, place: int) -> tuple[str, str, str]:
        number = place if self.recurs else next(self.numbers)
        wanted = _WANTED[:-1] if self.wire == GEMINI else _WANTED  # whose arguments are no text
        name, given = self.chance.choice(wanted)
        text = given if isinstance(given, str) else json.dumps(given)
        return f"{number:0>9}", name, text  # nine characters, as Mistral wants

    def body(self, step: int, attempt: int) -> list[bytes]:
        """A response, which breaks off unless it is the last attempt."""
        attempts = self.steps[min(step, len(self.steps) - 1)]
        parts = attempts[min(attempt, len(attempts) - 1)]
        items = framed(self.wire, arranged(self.wire, parts, pieces=2, response=f"{step}-{attempt}"))
        if self.wire in (CHAT, MISTRAL):
            items.append(b"data: [DONE]\n\n")
        if attempt < len(attempts) - 1 or step == self.broken_step:
            return items[: self.chance.randrange(len(items))]
        return items


_BROKEN = '{"at": "x", '
_WANTED: list[tuple[str, Any]] = [
    ("look", {"at": "x"}), ("look", {"at": "map"}), ("look", {"at": "é\u2028"}), ("fail", {"why": "no such place"}),
    ("fail", {"why": ""}), ("count", {}), ("pay", {"amount": 3}), ("pay", {"amount": 4, "to": "ann"}),
    ("choose", {"question": "which"}), ("choose", {"question": "who"}), ("ask", {}), ("sleep", {}),
    ("fly", {"to": "x"}), ("look", {"at": ["x"]}), ("vote", {"on": "it"}), ("look", _BROKEN),
]  # fmt: skip


@tool(effect="pure")
async def look(at: str) -> Any:
    """Look."""
    return {"at": at, "size": [1, 2.5, None]} if at == "map" else at


@tool(effect="pure")
async def fail(why: str) -> str:
    """Fail."""
    raise (ToolError(why) if why else KeyError("secret"))


@tool(effect="pure")
async def count(ctx: ToolContext) -> int:
    """Count aloud."""
    for value in (1, {"two": 2}):
        ctx.progress(value)
    return 3


@tool(effect="idempotent", needs_approval=True)
async def pay(amount: int, to: str = "bob") -> str:
    """Pay."""
    return f"paid {amount} to {to}"


@tool(deferred=True)
async def choose(question: str, most: int = 1) -> str:
    """Ask the user."""
    raise AssertionError("nothing here runs it")


@tool(deferred=True, needs_approval=True)
async def vote(on: str) -> str:
    """Let the user vote, if somebody allows it."""
    raise AssertionError("nothing here runs it")


@tool(effect="idempotent")
async def ask(ctx: ToolContext) -> str:
    """Ask in the middle."""
    return str(await ctx.ask({"which": "one"}))


@tool(effect="pure", timeout=0.001)
async def sleep() -> str:
    """Take too long."""
    await anyio.sleep_forever()
    return ""


_EDITED: dict[str, list[Any]] = {
    "pay": [{"amount": 1}, {"amount": 2, "to": "é\u2028"}, {"amount": "much"}, {}],
    "vote": [{"on": "that"}, {"on": 7}],
}
"""Arguments that a person gives a call instead, not all of them fit."""

_TOOLS = [look, fail, count, pay, choose, vote, ask, sleep]

# -- the run -----------------------------------------------------------------------------------------------------------


class _Conversation:
    """Visits a run until it is over."""

    def __init__(self, seed: int, journal: Journal) -> None:
        self.plan, self.journal = _Plan(seed), journal
        self.found = GeneratedRun(seed, self.plan.wire)
        self.requests: list[str] = []
        self.attempts: Counter[int] = Counter()
        self.seen = 0
        self.is_replayed = False

    async def ask(self, messages: list[Any], tools: Any) -> AsyncIterator[bytes]:
        request = json.dumps(messages, default=str)
        if request not in self.requests:
            self.requests.append(request)
        step = self.requests.index(request)
        attempt = self.attempts[step]
        self.attempts[step] += 1
        return stream(self.plan.body(step, attempt))

    async def run(self) -> GeneratedRun:
        asked = {"role": "user", "content": "Go."}
        if self.plan.wire == GEMINI:
            asked = {"role": "user", "parts": [{"text": "Go."}]}  # type: ignore[dict-item]
        elif self.plan.wire == BEDROCK:
            asked["content"] = [{"text": "Go."}]  # type: ignore[assignment]
        answered = GeneratedVisit()
        for number in range(12):
            loop = agent_loop(
                self.ask,
                [asked],
                tools=_TOOLS,
                wire=self.plan.wire,
                journal=self.journal,
                run_id=self.found.run_id,
                **self.plan.options,
            )
            died, entries = await self._visit(number, loop)
            self.found.visits.append(replace(answered, entries=tuple(entries), died=died))
            self.found.turns, self.found.outcome = loop.turns, loop.outcome
            answered = GeneratedVisit()
            if not died:
                answered = await self._answers()
                if not (answered.approvals or answered.results):
                    break
        return self.found

    async def _visit(self, number: int, loop: AgentLoop) -> tuple[bool, Sequence[Entry]]:
        nowhere: Any = SimpleNamespace(append=lambda *_: _at_once)
        live = LiveRun(self.found.run_id, number, nowhere, lambda *_: _at_once)
        live.begin(None, number, ShownRun(self.found.entries), ())
        live.attach(loop)
        life = self.plan.lives[number] if number < len(self.plan.lives) else None
        failure: Exception | None = None
        died = False
        known: list[Entry] = []
        try:
            async with loop:
                async for event in loop:
                    await self._act(loop, event)
                    life = None if life is None else life - 1
                    if life == 0:
                        died, known = True, list(live.since(-1) or ())
                        break
        except _CUT as error:
            failure = error
        await live.finish(failure)
        entries = list(live.since(-1) or ())
        if not died:
            return False, entries
        # What is on record is shown: the log is handed over with it. Of the rest, some is lost.
        least = max((place for place, one in enumerate(known, 1) if isinstance(one, _ON_RECORD)), default=0)
        kept = known[: self.plan.chance.randint(least, len(known))]
        return True, [*kept, VisitEnd((kept[-1].seq if kept else live.first) + 1, "interrupted")]

    async def _act(self, loop: AgentLoop, event: Event) -> None:
        plan = self.plan
        self.seen += 1
        if isinstance(event, StepStart):
            self.is_replayed = event.replayed
        if self.is_replayed:
            return
        if isinstance(event, AnswerRequested) and event.question is not None:
            with _unless_over():
                loop.answer(event, "B")
        elif isinstance(event, ApprovalRequested) and plan.decides_at_once:
            with _unless_over():
                loop.approve(event) if plan.chance.random() < 0.7 else loop.deny(event, "not today")
        if self.seen in plan.says_at:
            self.found.said.append(text := next(plan.words))
            loop.say(text)
        if self.seen == plan.stops_at and not self.found.visits:
            loop.stop()

    async def _answers(self) -> GeneratedVisit:
        """Answers some of the calls that wait, as a client does."""
        waiting = await self.journal.suspended(self.found.run_id) if self.found.outcome == "suspended" else None
        if waiting is None or self.plan.never_decides:
            return GeneratedVisit()
        chance, calls = self.plan.chance, list(waiting.calls)
        step = max(entry.step for entry in self.found.entries if isinstance(entry, EventBase))
        approvals: list[Any] = []
        results: list[Any] = []
        for call in chance.sample(calls, chance.randint(1, len(calls))):
            if call.waits_for == "approval":
                verdict = chance.random() < 0.7
                edited = chance.choice(_EDITED[call.tool_name]) if verdict and chance.random() < 0.4 else None
                decision = Decision.on(call, verdict, by="ann", reason="so be it", arguments=edited)
                await self.journal.decide(waiting, decision)
                approvals.append((step, call.call_id, call.fingerprint, verdict, "so be it"))
            elif call.waits_for == "answer":
                value = {"of": call.call_id}
                await self.journal.answer(waiting.run_id, call.call_id, value)
                results.append((step, call.call_id, value))
        return GeneratedVisit(tuple(approvals), tuple(results))


@contextmanager
def _unless_over() -> Iterator[None]:
    """Passes over a call that was over before its event was read."""
    try:
        yield
    except (AnswerError, DecisionError) as error:
        if error.code not in ("unknown_call", "over"):
            raise


async def _at_once() -> None:
    return None


def is_pending(turn: Turn, call: ToolCall) -> bool:
    """Returns whether a call of a turn has no end yet."""
    ends = {one.call_id: one for one in turn.observations}
    end = ends.get(call.call_id)
    return end is None or isinstance(end.error, (ApprovalPending, AnswerPending))


@cache
def generated(count: int, directory: Path, first: int = 0) -> list[GeneratedRun]:
    """Returns the runs of as many seeds.

    Args:
        directory: gets the journal.
    """

    async def made() -> list[GeneratedRun]:
        journal = Journal(SqliteStore(directory / "runs.db"))
        return [await _Conversation(seed, journal).run() for seed in range(first, first + count)]

    logger = logging.getLogger("streamtools")
    before = logger.level
    logger.setLevel(logging.CRITICAL)  # tools fail by the hundred
    try:
        return anyio.run(made)
    finally:
        logger.setLevel(before)
