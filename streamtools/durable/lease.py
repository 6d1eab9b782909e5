"""Writes a run to its journal, and claims its calls, while its lease is held."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ..errors import JournalError, RunTakenOver
from . import journal_waiting
from .record_store import RecordStore, call_key, is_operation, lease_key
from .records import Check, Conflict, DeletePrefix, Done, Expire, Key, Op, Put, new_rev
from .run_records import (
    MOST_ENTRIES,
    JournaledResponse,
    JournaledRun,
    hashed,
    inbox_is_full,
    inbox_key,
    read_number,
    step_key,
    written_entry,
)
from .store import Claim, IdempotencyStore
from .suspended import Suspended

Waiter: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""Waits until something is stored, and raises the error if it could not be."""
EACH_STEP = -1  # in place of a step: for operations, and for background calls, which outlast their steps


@dataclass(slots=True)
class JournalLease:
    store: RecordStore
    run_id: str
    epoch: int = field(default_factory=new_rev)
    marker: str = ""  # names the run in this journal, for tickets
    head: JournaledRun | None = None
    steps: int = 0  # how many responses are stored
    _calls: dict[int, set[Key]] = field(default_factory=dict)  # of steps whose ends are not stored
    _entries: dict[str, list[Key]] = field(default_factory=dict)  # of the inbox
    _latest: int = 0  # of them
    _handed: list[tuple[int, str, str]] = field(default_factory=list)  # as `handed_out` returns them
    _handed_read: bool = False

    @property
    def fence(self) -> Check:
        """Expects, in a commit, that no other process has continued the run."""
        return Check(lease_key(self.run_id), self.epoch)

    def check(self, end: Done | Conflict) -> None:
        """Raises `RunTakenOver` if a commit shows that another process has continued the run, and a `JournalError` if
        it met any other unexpected record."""
        if isinstance(end, Conflict) and end.key == lease_key(self.run_id):
            raise RunTakenOver(self.run_id)
        if isinstance(end, Conflict):
            raise JournalError(f"the journal of the run {self.run_id!r} was changed without its lease ({end.key[0]})")

    async def claim(self, store: IdempotencyStore, step: int, key: str, fingerprint: str) -> Claim:
        """Claims a call of a step: in the commit that checks the lease, if the store is on the journal's records, and
        otherwise right after checking it. Raises `RunTakenOver`, and claims nothing, if another process has continued
        the run."""
        if not isinstance(store, RecordStore) or store.records is not self.store.records:
            await self.check_held()
            return await store.claim(key, fingerprint)
        kept = call_key(key)
        # The step claims no call twice; a later step may ask for an operation again.
        self._calls.setdefault(EACH_STEP if is_operation(key) else step, set()).add(kept)
        claim = await store.claim_within(self.fence, key, fingerprint)
        if claim is None:
            raise RunTakenOver(self.run_id)
        return claim

    async def check_held(self) -> None:
        """Raises `RunTakenOver` if another process has continued the run."""
        (found,) = await self.store.records.get(lease_key(self.run_id))
        if found is None or found.rev != self.epoch:
            raise RunTakenOver(self.run_id)

    def keep(self, response: JournaledResponse, ends: Sequence[tuple[int, bytes]], read: Sequence[str] = ()) -> Waiter:
        value, step = response.facts + b"\n" + response.body, response.step
        puts = [Put(step_key("response", self.run_id, step), value)]
        if response.ends is not None:
            puts.append(Put(step_key("ends", self.run_id, step), response.ends, "any"))
        self.steps += 1
        return self.commit(*self._noted(ends, read), *puts)

    def put(self, entry_id: str, entry: Mapping[str, Any]) -> Waiter:
        written = written_entry(entry)
        if len(self._entries) >= MOST_ENTRIES:
            raise inbox_is_full(self.run_id)
        self._latest += 1
        key = inbox_key(self.run_id, self._latest, entry_id)
        self._entries.setdefault(entry_id, []).append(key)
        return self.commit(Put(key, written, "any"))

    def note_waiting(self, suspended: Suspended) -> Waiter:
        return self.commit(*journal_waiting.noted(self.run_id, suspended))

    def note_over(self, suspended: Suspended) -> Waiter:
        return self.commit(*journal_waiting.noted(self.run_id, suspended, is_over=True))

    async def note_handed_out(self, step: int, call_id: str, key: str) -> None:
        if not self._handed_read:
            found = await journal_waiting.handed_out(self.store.records, self.run_id)
            if not self._handed_read:  # calls ask side by side
                self._handed, self._handed_read = found, True
        question = step, call_id, key
        if next((one for one in reversed(self._handed) if one[1] == call_id), None) == question:
            return
        at = len(self._handed)
        place = f"{at:08x}{hashed([key])}"
        stored = self.commit(
            Put((*step_key("handed", self.run_id, step), place), json.dumps([call_id, key]).encode(), "any")
        )
        self._handed.append(question)  # counts even if this wait is cancelled, as it is stored then, too
        try:
            await stored()
        except Exception:
            self._handed[at] = step, "", ""  # the next look notes it again
            raise

    async def inbox(self) -> list[tuple[str, bytes]]:
        found = await self.store.records.scan(("inbox", self.run_id), limit=MOST_ENTRIES)
        for one in found:
            keys = self._entries.setdefault(one.key[-1], [])
            if one.key not in keys:
                keys.append(one.key)
            self._latest = max(self._latest, read_number(one.key[2]))
        return [(one.key[-1], one.value) for one in found]

    async def changed(self, since: int, seconds: float) -> int:
        """Waits for a change of the inbox; see `Records.changed`."""
        return await self.store.records.changed(("inbox", self.run_id), since, seconds)

    def end(self, outcome: str | None, ends: Sequence[tuple[int, bytes]], read: Sequence[str] = ()) -> Waiter:
        assert self.head is not None, "the run has begun"
        ops = self._noted(ends, read)
        head = replace(self.head, ended_at=time.time(), outcome=outcome, steps=self.steps)
        ops.append(Put(("run", self.run_id), head.written(), "any"))
        if head.is_over:
            ops.append(Put(head.over_key(self.run_id), b"", "any"))
            ops += [op for keys in self._calls.values() for key in keys for op in dropped(key, self.store.keep)]
        return self.commit(*ops, DeletePrefix(lease_key(self.run_id)))

    def let_go(self) -> Waiter:
        """Releases the lease, unless another process has it."""
        made = self.store.records.hand_over(self.fence, DeletePrefix(lease_key(self.run_id)))

        async def over() -> None:
            await made()

        return over

    def _noted(self, ends: Sequence[tuple[int, bytes]], read: Sequence[str]) -> list[Op]:
        ops: list[Op] = [DeletePrefix(key) for one in read for key in self._entries.pop(one, ())]
        for step, written in ends:
            ops.append(Put(step_key("ends", self.run_id, step), written, "any"))
            ops += [op for key in self._calls.pop(step, ()) for op in dropped(key, self.store.keep)]
        return ops

    def commit(self, *ops: Op) -> Waiter:
        """Hands over a commit, which changes nothing if another process has continued the run."""
        made = self.store.records.hand_over(self.fence, *ops)

        async def stored() -> None:
            self.check(await made())

        return stored


def dropped(call: Key, keep: float | None) -> tuple[Op, ...]:
    return () if keep is None else (Expire(call, keep),)
