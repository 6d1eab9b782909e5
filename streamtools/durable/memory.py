"""Keeps records in this process, for any number of event loops and threads: `MemoryRecords` and `MemoryStore`."""

from __future__ import annotations

import bisect
import heapq
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from anyio.lowlevel import checkpoint

from ..limits import checked_bound
from .record_store import RecordStore
from .records import (
    Conflict,
    DeletePrefix,
    Done,
    Expire,
    Key,
    News,
    Op,
    Put,
    Record,
    RecordsFull,
    Step,
    Touch,
    changed_keys,
    checked_written_key,
    dropping,
    is_under,
    judged,
    steps_of,
)


@dataclass(slots=True)
class _Kept:
    put: Put
    stale_at: float | None
    drop_at: float | None


@dataclass(slots=True, eq=False)
class MemoryRecords:
    """`most` limits the records of a kind, which is the first part of a key: beyond it, the oldest one that may be
    dropped is dropped."""

    most: Mapping[str, int] = field(default_factory=dict)
    _kept: dict[Key, _Kept] = field(default_factory=dict)
    _order: list[Key] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)
    _drops: list[tuple[float, Key]] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _news: News = field(default_factory=News)

    async def get(self, *keys: Key) -> list[Record | None]:
        await checkpoint()
        with self._lock:
            return [self._found(key) for key in keys if checked_written_key(key)]

    async def scan(self, prefix: Key, after: Key | None = None, limit: int = 1_000) -> list[Record]:
        await checkpoint()
        with self._lock:
            first = bisect.bisect_left(self._order, prefix)
            first = first if after is None else max(first, bisect.bisect_right(self._order, after))
            under = takewhile(lambda at: is_under(self._order[at], prefix), range(first, len(self._order)))
            found = [self._order[at] for _, at in zip(range(limit), under, strict=False)]
            return [one for key in found if (one := self._found(key)) is not None]

    async def commit(self, *ops: Op, undo: Sequence[Op] = ()) -> Done | Conflict:
        if undo:  # if the caller is cancelled, nothing is begun
            await checkpoint()
        return await self.hand_over(*ops)()

    def hand_over(self, *ops: Op) -> Callable[[], Coroutine[Any, Any, Done | Conflict]]:
        end: Done | Conflict | RecordsFull
        try:
            end = self._commit(steps_of(ops))
        except RecordsFull as error:
            end = error

        async def answer() -> Done | Conflict:
            if isinstance(end, RecordsFull):
                raise end
            return end

        return answer

    async def changed(self, prefix: Key, since: int, seconds: float) -> int:
        return await self._news.wait(prefix, since, seconds) if since else self._news.number

    def close(self) -> None: ...

    def _commit(self, steps: Sequence[Step]) -> Done | Conflict:
        with self._lock:
            while self._drops and self._drops[0][0] <= time.monotonic():
                self._found(heapq.heappop(self._drops)[1])
            found = {one.key: self._found(one.key) for one in steps if not isinstance(one, DeletePrefix)}
            if (end := judged(steps, found)) is not None:
                return end
            self._make_room(steps)
            for step in steps:
                self._make(step)
            for drops in dropping(steps):
                heapq.heappush(self._drops, (_at(drops.drop_in) or 0.0, drops.key))
            if len(self._drops) > 2 * len(self._kept) + 100:  # of records that were put repeatedly
                self._drops = sorted((one.drop_at or 0.0, key) for key, one in self._kept.items() if one.drop_at)
        self._news.tell(*changed_keys(steps))
        return Done()

    def _found(self, key: Key) -> Record | None:
        if (kept := self._kept.get(key)) is None:
            return None
        now = time.monotonic()
        if kept.drop_at is not None and kept.drop_at <= now:
            self._forget(key)
            return None
        return Record(key, kept.put.value, kept.put.rev, kept.stale_at is not None and kept.stale_at <= now)

    def _make(self, step: Step) -> None:
        if isinstance(step, Put):
            if step.key not in self._kept:
                bisect.insort(self._order, step.key)
                self._counts[step.key[0]] = self._counts.get(step.key[0], 0) + 1
            self._kept[step.key] = _Kept(step, None if step.renewed else _at(step.stale_in), _at(step.drop_in))
        elif isinstance(step, Expire):
            if (one := self._kept.get(step.key)) is not None and one.put.stale_in is None and one.stale_at is None:
                one.drop_at = _at(step.drop_in)
        elif isinstance(step, Touch):
            kept = self._kept[step.key]
            kept.stale_at = None if kept.put.renewed and step.stale_in else _at(step.stale_in)
        elif isinstance(step, DeletePrefix):
            first = bisect.bisect_left(self._order, step.prefix)
            under = takewhile(lambda key: is_under(key, step.prefix), self._order[first:])
            for key in list(under):
                self._forget(key)

    def _forget(self, key: Key) -> None:
        del self._kept[key]
        del self._order[bisect.bisect_left(self._order, key)]
        self._counts[key[0]] -= 1

    def _make_room(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if not isinstance(step, Put) or step.key in self._kept:
                continue
            kind = step.key[0]
            if self._counts.get(kind, 0) >= self.most.get(kind, 1 << 62):
                droppable = (key for key, one in self._kept.items() if key[0] == kind and one.drop_at is not None)
                if (first := next(droppable, None)) is None:
                    raise RecordsFull(kind, self.most[kind])
                self._forget(first)


def _at(seconds: float | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds


class MemoryStore(RecordStore):
    """A `DecidingStore` for one process.

    Args:
        max_entries: the number of keys to keep. Beyond that, the completed key that was claimed first is forgotten, and
            its call would run again; if none is completed, a claim is refused. Decisions have the same limit; the
            oldest is forgotten.
        max_result_bytes: the largest result to keep. For a larger one the store only notes that there was a result.
    """

    def __init__(self, *, max_entries: int = 10_000, max_result_bytes: int = 1 << 20) -> None:
        most: dict[str, int] = dict.fromkeys(("call", "decided"), checked_bound("max_entries", max_entries))
        super().__init__(MemoryRecords(most), max_result_bytes=max_result_bytes)
