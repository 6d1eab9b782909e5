"""Admits a call of a run with a journal once its response is stored, and while this process holds the run.

It wraps the gate of the run's store. If that store is the journal's own, claim and lease are checked in one
transaction; with any other gate, the lease is checked right before the call enters.
"""

from __future__ import annotations

from copy import copy

from ..errors import RunTakenOver, ToolNotStarted
from ..seams import CallEnd, Entered, Gate, GateView
from .gate import StoreGate
from .lease import EACH_STEP, JournalLease
from .place import JournalPlace, words
from .store import Claim, IdempotencyStore
from .writer import ResponseWriter


class JournalGate:
    def __init__(
        self, place: JournalPlace, written: ResponseWriter, gate: Gate | None, *, starts_by_hand: bool
    ) -> None:
        within = StoreGate(place.journal.store) if gate is None else gate
        self._claims = isinstance(within, StoreGate)
        self._within: Gate = within.claiming(self._claim) if isinstance(within, StoreGate) else within
        self._place = place
        self._written = written
        self._by_hand = starts_by_hand
        self._is_beside = False

    def beside(self) -> JournalGate:
        """Returns the gate for calls that run in the background of the steps: their responses are stored."""
        made = copy(self)
        made._is_beside = True
        if isinstance(self._within, StoreGate):
            made._within = self._within.claiming(made._claim)
        return made

    def key(self, call: GateView, /) -> str:
        name = getattr(self._within, "key", None)
        key: str = call.key if name is None else name(call)
        return key

    async def look(self, call: GateView, /) -> CallEnd | None:
        await self.ready()
        return await self._within.look(call)

    async def enter(self, call: GateView, /) -> Entered | CallEnd:
        await self.ready()
        return await self._within.enter(call)

    async def ready(self) -> None:
        """Waits until the response is stored. Raises `ToolNotStarted` if it will not be."""
        if self._is_beside:
            await self._look_at_lease()
            return
        written = self._written
        assert written.has_ended is not None, "calls are made in a step"
        if not written.has_ended.is_set():
            if self._by_hand:
                raise ToolNotStarted("not run: the response must be stored first; run the call after StreamEnd")
            await written.has_ended.wait()
        if written.is_stored is None:
            raise ToolNotStarted("not run: the response broke off, so it is not in the journal")
        try:
            await written.is_stored()
        except Exception as error:
            raise ToolNotStarted(f"not run: the response could not be stored ({words(error)})") from error
        await self._look_at_lease()

    async def _look_at_lease(self) -> None:
        if not self._claims:
            held = self._held()
            try:
                await held.check_held()
            except RunTakenOver as error:
                raise self._lost(error) from error

    async def _claim(self, store: IdempotencyStore, key: str, fingerprint: str) -> Claim:
        held = self._held()
        try:
            return await held.claim(store, EACH_STEP if self._is_beside else self._written.step, key, fingerprint)
        except RunTakenOver as error:
            raise self._lost(error) from error

    def _held(self) -> JournalLease:
        if self._place.held is None:
            raise ToolNotStarted("not run: the run was left")
        return self._place.held

    def _lost(self, error: RunTakenOver) -> ToolNotStarted:
        self._place.lost = error
        return ToolNotStarted(f"not run: {error}")
