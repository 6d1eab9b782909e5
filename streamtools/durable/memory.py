"""Keeps claims, the ends of calls and decisions in this process: `MemoryStore`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from platform import node as gethostname

import anyio
from anyio.lowlevel import checkpoint, current_token

from ..dispatch.event_loop import call_soon
from ..limits import checked_bound
from .holders import checked_fingerprint, checked_key, no_room, not_claimed
from .store import Claim, Claimed, EndUnknown, Recorded, StillRunning


class MemoryStore:
    """A `DecidingStore` for one process and one event loop.

    Args:
        max_entries: how many keys are kept. Beyond that, the completed key that was claimed first is forgotten, and its
            call would run again; if none is completed, a claim is refused. Of decisions, the oldest is forgotten.
        max_result_bytes: how large a kept result may be. Of a larger result the store keeps only that there was one.
    """

    def __init__(self, *, max_entries: int = 10_000, max_result_bytes: int = 1 << 20) -> None:
        self._max_entries = checked_bound("max_entries", max_entries)
        self._max_result_bytes = checked_bound("max_result_bytes", max_result_bytes)
        self._entries: dict[str, _Entry] = {}
        self._decisions: dict[str, bytes] = {}

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        """See `IdempotencyStore`."""
        await checkpoint()
        checked_key(key)
        entry = self._entries.get(key)
        if entry is not None:
            checked_fingerprint(key, fingerprint, entry.fingerprint)
            if entry.completed:
                return Recorded(entry.result)
            alive = entry.runs
            return StillRunning(entry.claimed_at, gethostname(), os.getpid()) if alive else EndUnknown(entry.claimed_at)
        if len(self._entries) >= self._max_entries:
            self._forget_one()
        self._entries[key] = _Entry(fingerprint, time.time())
        return Claimed()

    async def complete(self, key: str, result: bytes, /) -> None:
        """See `IdempotencyStore`."""
        entry = self._entries.get(key)
        if entry is None or entry.completed:
            raise not_claimed(key)
        entry.completed = True
        entry.result = result if len(result) <= self._max_result_bytes else None
        entry.ends()

    async def release(self, key: str, /) -> None:
        """See `IdempotencyStore`."""
        entry = self._entries.get(key)
        if entry is not None and not entry.completed:
            del self._entries[key]
            entry.ends()

    async def abandon(self, key: str, /) -> None:
        """See `IdempotencyStore`."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.runs = False
            entry.ends()

    async def decide(self, key: str, record: bytes | None, /) -> bytes | None:
        """See `DecidingStore`."""
        await checkpoint()
        checked_key(key)
        if record is not None and key not in self._decisions:
            self._decisions[key] = record
            if len(self._decisions) > self._max_entries:
                del self._decisions[next(iter(self._decisions))]
        return self._decisions.get(key)

    async def changed(self, key: str, seconds: float, /) -> None:
        """See `LeasingStore`."""
        entry = self._entries.get(key)
        if entry is None or entry.completed or not entry.runs:
            return
        ended = anyio.Event()
        wake = partial(call_soon, current_token(), ended.set)  # the call may run in another event loop
        entry.waiting.append(wake)
        try:
            with anyio.move_on_after(seconds):
                await ended.wait()
        finally:
            entry.waiting.remove(wake)

    def _forget_one(self) -> None:
        oldest = next((key for key, entry in self._entries.items() if entry.completed), None)
        if oldest is None:
            raise no_room(self._max_entries)
        del self._entries[oldest]


@dataclass(slots=True)
class _Entry:
    fingerprint: str
    claimed_at: float
    runs: bool = True
    completed: bool = False
    result: bytes | None = None
    waiting: list[Callable[[], None]] = field(default_factory=list)  # wake those who wait for the claim's end

    def ends(self) -> None:
        for wake in list(self.waiting):
            wake()
