"""A store that processes share, for the simulator: a server with entries and leases, and a client a process.

Requests and answers take time, and may be lost, as a schedule says. `Client` has the verbs of `DecidingStore`;
`LeasingClient` renews leases and waits for a claim's end, too.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from streamtools.dispatch import Claim, Claimed, EndUnknown, Recorded, StillRunning
from streamtools.durable.holders import checked_fingerprint, not_claimed

from .world import Process, World

__all__ = ["VISIT", "Client", "Entry", "Faults", "LeasingClient", "Server", "StoreDown"]


VISIT: ContextVar[Any] = ContextVar("visit", default=None)
"""Whose turn at the calls it is."""


class StoreDown(Exception):
    """The store has failed."""


@dataclass
class Faults:
    """What happens to requests."""

    slowest: float = 0.0
    """The longest time that a message takes."""
    lossy: float = 0.0
    """How likely a message is lost; half of the lost ones are answers."""
    down: tuple[float, float] = (math.inf, math.inf)
    """From when to when the server answers nobody."""
    forgets_at: float = math.inf
    """When the server is started again without what it was told during the last second."""


@dataclass
class Entry:
    """A key that is claimed, or on record."""

    fingerprint: str
    claim: int
    holder: Process
    claimed_at: float
    until: float
    runs: bool = True
    completed_at: float | None = None
    result: bytes | None = None
    changed_at: float = 0.0
    visit: Any = None
    """Whose turn at the calls the claim was made in."""


@dataclass
class Server:
    """The entries of all processes. A claim is alive for `lease` seconds, and longer if it is renewed; without leases,
    while its process lives."""

    world: World
    faults: Faults = field(default_factory=Faults)
    lease: float | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    decisions: dict[str, bytes] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    """The keys of which a request was lost, or met a server that was down."""
    lost_claims: set[str] = field(default_factory=set)
    """Those of which that was a claim, or its being taken back: such a claim may stay, and nobody knows of it."""
    watchers: dict[str, list[Callable[[], None]]] = field(default_factory=dict)
    claims: int = 0

    def __post_init__(self) -> None:
        if self.faults.forgets_at < math.inf:
            self.world.at(self.faults.forgets_at, self._forget)

    def _forget(self) -> None:
        late = [key for key, entry in self.entries.items() if entry.changed_at > self.world.now - 1]
        for key in late:
            del self.entries[key]
        self.forgotten.update(late)

    def is_alive(self, entry: Entry) -> bool:
        if not entry.runs:
            return False
        return entry.holder.alive if self.lease is None else self.world.now < entry.until

    def claim(self, key: str, fingerprint: str, claim: int, holder: Process, visit: Any) -> Claim:
        entry = self.entries.get(key)
        if entry is not None:
            checked_fingerprint(key, fingerprint, entry.fingerprint)
            if entry.completed_at is not None:
                return Recorded(entry.result)
            if self.is_alive(entry):
                return StillRunning(entry.claimed_at, entry.holder.name, 1)
            return EndUnknown(entry.claimed_at)
        now = self.world.now
        until = now + (self.lease or math.inf)
        self.entries[key] = Entry(fingerprint, claim, holder, now, until, changed_at=now, visit=visit)
        return Claimed()

    def complete(self, key: str, claim: int | None, result: bytes) -> None:
        entry = self._open(key, claim)
        if entry is None:
            raise not_claimed(key)
        entry.completed_at, entry.result = self.world.now, result
        self._changed(key, entry)

    def release(self, key: str, claim: int | None) -> None:
        entry = self._open(key, claim)
        if entry is not None:
            del self.entries[key]
            self._changed(key, entry)

    def abandon(self, key: str, claim: int | None) -> None:
        entry = self._open(key, claim)
        if entry is not None:
            entry.runs = False
            self._changed(key, entry)

    def renew(self, key: str, claim: int | None) -> None:
        entry = self._open(key, claim)
        if entry is not None and self.lease is not None:
            entry.until = self.world.now + self.lease

    def _open(self, key: str, claim: int | None) -> Entry | None:
        entry = self.entries.get(key)
        ours = entry is not None and entry.completed_at is None and claim in (None, entry.claim)
        return entry if ours else None

    def _changed(self, key: str, entry: Entry) -> None:
        entry.changed_at = self.world.now
        for watcher in self.watchers.pop(key, []):
            watcher()


class Client:
    """The store of one process: a `DecidingStore`."""

    def __init__(self, server: Server, process: Process) -> None:
        self.server, self.process, self.world = server, process, server.world
        self._claims: dict[str, int] = {}
        self._arrives = 0.0  # one connection: requests arrive in their order

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        self.server.claims += 1
        number, visit = self.server.claims, VISIT.get(None)
        try:
            found: Claim = await self._ask(
                key, lambda: self.server.claim(key, fingerprint, number, self.process, visit)
            )
        except BaseException:  # nobody waits for it any more, or its answer was lost: it must not stay
            self._send(key, lambda: self.server.release(key, number), lambda answer, error: None, is_claim=True)
            raise
        if isinstance(found, Claimed):
            self._claims[key] = number
        return found

    async def complete(self, key: str, result: bytes, /) -> None:
        number = self._claims.get(key)
        await self._ask(key, lambda: self.server.complete(key, number, result))

    async def release(self, key: str, /) -> None:
        number = self._claims.get(key)
        await self._ask(key, lambda: self.server.release(key, number))

    async def abandon(self, key: str, /) -> None:
        number = self._claims.get(key)
        await self._ask(key, lambda: self.server.abandon(key, number))

    async def decide(self, key: str, record: bytes | None, /) -> bytes | None:
        def work() -> bytes | None:
            known = self.server.decisions
            return known.get(key) if record is None else known.setdefault(key, record)

        found: bytes | None = await self._ask(key, work)
        return found

    async def _ask(self, key: str, work: Callable[[], Any], *, is_claim: bool = False) -> Any:
        """Sends a request, and waits for its answer; whoever leaves takes nothing back of what was sent."""
        loop, answered = self.process, self.process.create_future()

        def answer(value: Any, error: Exception | None) -> None:
            if loop.alive and not answered.done():
                loop.call_soon(_settle, answered, value, error)

        self._send(key, work, answer, is_claim=is_claim)
        return await answered

    def _send(
        self, key: str, work: Callable[[], Any], answer: Callable[[Any, Exception | None], None], *, is_claim: bool
    ) -> None:
        if not self.process.alive:  # a killed process' frames are closed at the end, and send nothing
            return
        world, faults, server = self.world, self.server.faults, self.server
        there, back = (world.dice.uniform(0, faults.slowest) for _ in range(2))
        lost = world.dice.random() < faults.lossy
        lost_there = lost and world.dice.random() < 0.5

        def arrive() -> None:
            value, error = None, None
            down = faults.down[0] <= world.now < faults.down[1]
            if lost or down:
                server.refused.add(key)
                if is_claim:
                    server.lost_claims.add(key)
            if lost_there or down:
                error = StoreDown("no answer")
            else:
                try:
                    value = work()
                except Exception as raised:
                    error = raised
                if lost:
                    error = StoreDown("the answer was lost")
            world.at(world.now + back, lambda: answer(value, error))

        self._arrives = max(self._arrives, world.now + there)
        world.at(self._arrives, arrive)


class LeasingClient(Client):
    """The store of one process: a `LeasingStore`."""

    @property
    def lease(self) -> float:
        assert self.server.lease is not None
        return self.server.lease

    async def renew(self, key: str, /) -> None:
        number = self._claims.get(key)
        await self._ask(key, lambda: self.server.renew(key, number))

    async def changed(self, key: str, seconds: float, /) -> None:
        changed = asyncio.Event()

        def ring() -> None:
            if self.process.alive:
                self.process.call_soon(changed.set)

        self.server.watchers.setdefault(key, []).append(ring)
        timer = self.process.call_later(seconds, changed.set)
        try:
            await changed.wait()
        finally:
            timer.cancel()


def _settle(answered: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    if answered.done():
        return
    if error is None:
        answered.set_result(value)
    else:
        answered.set_exception(error)
