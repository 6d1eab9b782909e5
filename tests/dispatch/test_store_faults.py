"""Whatever a store does at whichever verb, no effect happens twice, and none that may have happened is told as not run.

The expectations are rules over a ledger that the tools keep themselves, and over the words that a model reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import pytest
from profiles import FULL, every, thorough_unless
from streams import chat, exhaust, stream

from streamtools import Decision, Observation, Trajectory, agent_loop, pipeline, resume, run_calls, tool
from streamtools.dispatch import Claim, MemoryStore
from streamtools.errors import StreamToolsError, ToolFailed, ToolNotStarted, ToolOutcomeUnknown
from streamtools.integrations.hosting import CallHost
from streamtools.seams import call_fingerprint
from streamtools.tools import Toolset

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns

CHAT = "openai.chat_completions"
ASKED = [{"role": "user", "content": "Pay them."}]
CALLS = [("a", "pay", '{"to": "x"}'), ("b", "look", '{"to": "z"}'), ("c", "transfer", '{"to": "y"}')]
NOT_RUN = re.compile(r"not run(?! again)|cancelled before it started")


class Faulty:
    """A store of a user's own: the verb goes wrong for the calls of `pay`, until it is mended.

    Args:
        verb: which one.
        how: ``raises``: before it does anything. ``slow``: later, likewise. ``lost``: after it has been done.
    """

    def __init__(self, verb: str, how: str) -> None:
        self.verb, self.how = verb, how
        self.inner = MemoryStore()
        self.is_mended = False
        self.met = anyio.Event()
        """The fault was met."""
        self._theirs: set[str] = set()

    @property
    def lease(self) -> float:
        self._fail("lease")
        return 0.01 if self.verb == "renew" else 30.0

    def _fail(self, verb: str) -> None:
        if verb == self.verb and not self.is_mended:
            self.met.set()
            raise {"raises": OSError, "slow": TimeoutError, "lost": ConnectionResetError, "wrong": TypeError}[self.how]

    async def _do(self, verb: str, key: str, work: Awaitable[Any]) -> Any:
        if verb == self.verb and key in self._theirs and not self.is_mended:
            if self.how == "slow":
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
            if self.how == "lost":
                await work
            else:
                work.close()  # type: ignore[attr-defined]
            self._fail(verb)
        return await work

    async def lapse(self) -> None:
        """Time passes: the store works again, and the leases of claims that nobody renews have run out."""
        self.is_mended = True
        for key in self._theirs:
            await self.inner.abandon(key)

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        if fingerprint == call_fingerprint("pay", {"to": "x"}):
            self._theirs.add(key)
        claim: Claim = await self._do("claim", key, self.inner.claim(key, fingerprint))
        return claim

    async def complete(self, key: str, result: bytes, /) -> None:
        await self._do("complete", key, self.inner.complete(key, result))

    async def release(self, key: str, /) -> None:
        await self._do("release", key, self.inner.release(key))

    async def abandon(self, key: str, /) -> None:
        await self._do("abandon", key, self.inner.abandon(key))

    async def renew(self, key: str, /) -> None:
        await self._do("renew", key, anyio.lowlevel.checkpoint())

    async def decide(self, key: str, record: bytes | None, /) -> bytes | None:
        if self.verb == "decide":
            self._theirs.add(key)
        found: bytes | None = await self._do("decide", key, self.inner.decide(key, record))
        return found


@dataclass
class Ledger:
    """The tools, and what they did."""

    effect: Any
    ends: str
    gated: bool
    store: Faulty
    done: list[str] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    def tools(self) -> list[Any]:
        @tool(effect=self.effect, needs_approval=self.gated)
        async def pay(to: str) -> str:
            """Pay."""
            if self.ends == "refuses" and not self.store.is_mended:
                raise ToolNotStarted("not run: the bank is closed")
            self.done.append("pay")
            if self.store.verb == "renew":
                await self.store.met.wait()
            if self.ends == "fails":
                raise ToolFailed("the card was declined")
            if self.ends == "vanishes":
                raise ToolOutcomeUnknown("the bank does not answer")
            return "paid x"

        @tool(effect="pure")
        async def look(to: str) -> str:
            """Look."""
            return "seen z"

        @tool(effect="once")
        async def transfer(to: str) -> str:
            """Transfer."""
            self.done.append("transfer")
            return "paid y"

        return [pay, look, transfer]


@dataclass
class Told:
    """What one dispatch came to."""

    observations: dict[str, Observation]
    warnings: list[str]
    error: Exception | None = None
    read: str = ""
    """The history that a model reads, if there is one."""


Host: TypeAlias = Callable[[Ledger, Path], Awaitable[Told]]


def told(turn: Any, **more: Any) -> Told:
    return Told({one.call_id: one for one in turn.observations}, [one.code for one in turn.warnings], **more)


async def in_a_pipeline(ledger: Ledger, folder: Path) -> Told:
    source, run = stream(chat(calls=CALLS)), Trajectory(run_id="r")
    async with pipeline(
        source, tools=ledger.tools(), store=ledger.store, trajectory=run, approve=lambda asked: True
    ) as events:
        turn = await events.finish()
    return told(turn)


async def at_hand(ledger: Ledger, folder: Path) -> Told:
    run, store = Trajectory(run_id="r"), ledger.store
    turn = await run_calls(CALLS, ledger.tools(), store=store, identity="r", trajectory=run, approve=lambda asked: True)
    return told(turn)


async def resumed(ledger: Ledger, folder: Path) -> Told:
    path = folder / "suspended"
    if not path.exists():
        before = Ledger(ledger.effect, ledger.ends, True, ledger.store)  # it is asked about, and left
        async with pipeline(stream(chat(calls=CALLS)), tools=before.tools(), trajectory=Trajectory(run_id="r")) as left:
            await left.finish()
        assert left.suspended is not None
        path.write_text(left.suspended.to_text("s" * 32))
    from streamtools.dispatch import Suspended

    state = Suspended.from_text(path.read_text(), "s" * 32)
    decisions = ledger.decisions = ledger.decisions or [Decision.on(state.calls[0], True)]
    try:
        turn = await resume(state, tools=ledger.tools(), store=ledger.store, decisions=decisions)
    except (OSError, TypeError) as error:  # the store's own, for those who decide
        assert ledger.store.verb == "decide"
        return Told({}, [], error)
    return told(turn)


def in_a_loop(**given: Any) -> Host:
    async def looped(ledger: Ledger, folder: Path) -> Told:
        read: list[list[Any]] = []

        async def ask(messages: list[Any], tools: Any) -> Any:
            read.append(messages)
            return stream(chat(calls=CALLS) if len(messages) == 1 else chat(text=["Done."], finish="stop"))

        options = {name: value(folder) for name, value in given.items()}
        options = options or {"trajectory": Trajectory(run_id="r")}
        run = agent_loop(
            ask, ASKED, tools=ledger.tools(), wire=CHAT, store=ledger.store, approve=lambda asked: True, **options
        )
        error = None
        try:
            async with run:
                await exhaust(run)
        except StreamToolsError as raised:
            error = raised
        seen = told(run.turns[0], error=error)
        return Told(seen.observations, seen.warnings, error, json.dumps(run.messages))

    return looped


async def under_a_framework(ledger: Ledger, folder: Path) -> Told:
    host = CallHost("Test", Toolset(), store=ledger.store, observers=None, options={"approve": lambda asked: True})
    found = {}
    for call_id, name, text in CALLS:
        known = next(one for one in Toolset(ledger.tools()).values() if one is not None and one.name == name)
        found[call_id] = await host.run((call_id, name, json.loads(text)), known, identity=("r", "c"), place=None)
    return Told(found, [])


HOSTS: dict[str, Host] = {
    "pipeline": in_a_pipeline,
    "run_calls": at_hand,
    "resume": resumed,
    "agent_loop": in_a_loop(),
    "journal": in_a_loop(journal=lambda folder: folder / "runs.db", run_id=lambda folder: "r"),
    "adapter": under_a_framework,
}
VERBS = ("none", "lease", "claim", "renew", "complete", "release", "abandon", "decide")
HOWS = ("raises", "slow", "lost", "wrong")
ENDS = ("returns", "fails", "refuses", "vanishes")
EFFECTS = ("pure", "idempotent", "once", "approved")


def is_quick(case: tuple[str, ...]) -> bool:
    """Those that meet the fault, as a store fails first of all."""
    host, verb, how, effect, ends = case
    if host in ("run_calls", "agent_loop") and how != "raises":
        return False  # as in a pipeline, which they are made of
    if effect in ("pure", "idempotent"):
        return (verb, how, ends) == ("claim", "raises", "returns")
    meets = {"release": "refuses", "abandon": "vanishes"}.get(verb, "returns")
    return ends == meets and (how == "raises" or (how == "lost" and verb in ("claim", "complete", "release")))


CASES = [
    (host, verb, how, effect, ends)
    for host, verb, how, effect, ends in product(HOSTS, VERBS, HOWS, EFFECTS, ENDS)
    if (verb != "none" or how == "raises") and not (verb == "lease" and how in ("slow", "lost"))
    if not (host == "resume" and effect != "approved")
    if not (verb == "renew" and (effect in ("pure", "idempotent") or ends == "refuses"))  # nothing is renewed
]
CASES = [case for at, case in enumerate(CASES) if is_quick(case) or at % 5 == 0]  # each fault meets each host and end


@pytest.mark.costly
@pytest.mark.deadline(300 if FULL else 60)
@every("host, verb, how, effect, ends", thorough_unless(is_quick, CASES))
async def test_no_fault_of_a_store_repeats_an_effect_or_denies_one(
    tmp_path: Path, host: str, verb: str, how: str, effect: str, ends: str
) -> None:
    folder = tmp_path / f"{host}-{verb}-{how}-{effect}-{ends}"
    folder.mkdir()
    store = Faulty(verb, how)
    ledger = Ledger("once" if effect == "approved" else effect, ends, effect == "approved", store)
    before = 0
    for number in range(3):
        if number:
            await store.lapse()
        with anyio.fail_after(20):
            seen = await HOSTS[host](ledger, folder)
        now = ledger.done.count("pay")
        assert seen.error is None or not (store.is_mended or now > before), "it is not raised into what has an effect"
        if host != "resume":  # nothing else of the turn is lost
            assert seen.observations["b"].model_content == "seen z"
            if verb != "lease":  # which is that of all claims
                assert seen.observations["c"].model_content == "paid y"
                assert ledger.done.count("transfer") == 1
        if (paid := seen.observations.get("a")) is not None:
            judge(paid, effect, has_run=now > 0, runs_now=now - before, seen=seen, is_faulty=not store.is_mended)
        if effect in ("once", "approved"):
            assert now <= 1, "an effect has happened twice"
        before = now
    await anyio.lowlevel.checkpoint()


def judge(paid: Observation, effect: str, *, has_run: bool, runs_now: int, seen: Told, is_faulty: bool) -> None:
    """The rules for what is told of one call."""
    words = paid.model_content
    if has_run:
        assert not NOT_RUN.search(words), f"an effect is told as none: {words}"
        if paid.outcome not in ("ok", "failed") and effect in ("once", "approved"):
            assert "may have taken effect" in words, f"it is not said that it may have happened: {words}"
    else:
        assert paid.outcome != "ok", f"no effect is told as one: {words}"
    if runs_now and is_faulty:
        assert "TypeError" not in words
        assert "OSError" not in words
    if seen.read:
        assert json.dumps(words)[1:-1] in seen.read, "the model reads something else"
