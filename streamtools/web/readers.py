"""Reads a run for one page: what its log has, then what goes on, in this process or in another one.

A reader holds nothing of the run. It takes what lies behind its place in one go, so that one that is slow, or late,
gets joined deltas, and nothing that was taken back before it could be shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import anyio

from ..events import AttemptDiscarded, Event, ToolCallDelta
from .live import LiveRun
from .log import DELTAS, Entry, Log, VisitEnd

_BEFORE = 2  # a visit may begin by taking something back, with the number in front of its first
_MOST_LOOKS = 10
LOOKS_EVERY_S = 0.2
"""Seconds between two looks into the log of a run of another process."""


class RunReader:
    """The place of one page in a run.

    Args:
        run_id: the run's.
        log: the entries so far.
        find_live: returns the run where it goes on in this event loop.
        is_held: returns whether any process goes on with it.
        has_news: returns whether somebody has decided, so that it will be gone on with.
    """

    def __init__(
        self,
        run_id: str,
        log: Log,
        find_live: Callable[[str], LiveRun | None],
        is_held: Callable[[str], Awaitable[bool]],
        has_news: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._run_id = run_id
        self._log = log
        self._find_live = find_live
        self._live: LiveRun | None = find_live(run_id)
        self._is_held = is_held
        self._has_news = has_news
        self._looks = 0  # that are left, until nobody is expected to go on
        self.seq = -1
        """The number of the last entry that was taken."""
        self.seen = -1
        """The number of the last entry that the page has seen already."""
        self._passed: VisitEnd | None = None  # the end of a visit behind which somebody goes on

    async def past(self) -> list[Entry]:
        """Returns what there is now, to the last entry, and takes it."""
        found: list[Entry] = []
        while entries := await self._now():
            found.extend(entries)
            self.seq = entries[-1].seq
        return found

    async def next(self) -> Sequence[Entry]:
        """Waits for more, and takes all there is, joined. The end of a visit is the last; it is of the outcome
        ``interrupted`` if the process that went on with the run is gone."""
        self._looks = max(self._looks, 1)
        while True:
            entries = await self._now()
            if entries:
                # One that comes back may have seen the first of a row.
                if entries[0].seq <= self.seen < entries[-1].seq:
                    entries = [entry for entry in entries if entry.seq <= self.seen]
                last, shown = entries[-1], max(self.seq, self.seen)
                # Taken only behind the wait: whoever is cancelled in it reads them again.
                if isinstance(last, VisitEnd) and await self._goes_on(last):
                    self._passed = last
                    while entries and isinstance(entries[-1], VisitEnd):  # one that has added nothing else
                        entries = entries[:-1]
                self.seq = last.seq
                if found := joined(entries, shown):
                    return found
                continue
            if self._live is not None and self._live.ended is None and not self._live.has_moved:
                await self._live.wait()
            elif self._looks:
                if not await self._is_held(self._run_id):
                    self._looks -= 1  # and once more, if it has ended since the last look
                await anyio.sleep(LOOKS_EVERY_S if self._looks else 0)
            else:
                end = self._passed
                if end is None or end.seq <= self.seen:  # the page would wait for another one
                    end = VisitEnd(max(self.seq, self.seen) + 1, "interrupted")
                return [end]

    async def _goes_on(self, end: VisitEnd) -> bool:
        """Returns whether somebody goes on with the run behind the end of a visit."""
        live = self._live or self._find_live(self._run_id)
        if await self._is_held(self._run_id) if live is None else live.first > end.seq or not live.has_begun:
            return True
        if end.outcome != "suspended" or not await self._has_news(self._run_id):
            return False
        self._looks = _MOST_LOOKS  # a decision met a run that was being left
        return True

    async def _now(self) -> Sequence[Entry]:
        known = self._live
        if known is None or known.has_moved or (known.ended is not None and self.seq >= known.ended.seq):
            self._live = self._find_live(self._run_id)
        live = self._live
        if live is not None and live.has_begun and self.seq >= live.first - _BEFORE:
            entries = live.since(self.seq)
            if entries is not None:
                return entries
        entries = await self._log.read(self._run_id, self.seq)
        if entries or live is None or not live.has_begun:
            return entries
        self.seq = max(self.seq, live.first - _BEFORE)  # all earlier visits are read
        return live.since(self.seq) or ()


def joined(entries: Sequence[Entry], shown: int = -1) -> Sequence[Entry]:
    """Returns entries without what was taken back among them, and with the deltas of a row as one.

    Args:
        entries: what follows.
        shown: the number of the last entry that the page was shown; by default it was shown none.
    """
    if len(entries) == 1 and not isinstance(entries[0], AttemptDiscarded):
        return entries
    kept = _kept(entries, shown) if AttemptDiscarded in set(map(type, entries)) else entries
    found: list[Entry] = []
    row: list[Any] = []
    key: Any = None
    for entry in kept:
        kind = type(entry)
        if key is not None and kind is key[0] and (entry.step, getattr(entry, "call_id", None)) == key[1]:  # type: ignore[union-attr]
            row.append(entry)
            continue
        if row:
            found.append(_joined(row))
        if kind in DELTAS:
            row, key = [entry], (kind, (entry.step, getattr(entry, "call_id", None)))  # type: ignore[union-attr]
        else:
            row, key = [], None
            found.append(entry)
    return [*found, _joined(row)] if row else found


def _kept(entries: Sequence[Entry], shown: int) -> list[Entry]:
    kept: list[Entry] = []
    for entry in entries:
        if isinstance(entry, AttemptDiscarded):
            while kept and kept[-1].seq >= entry.from_seq:
                kept.pop()
            if entry.from_seq > shown:
                continue
        kept.append(entry)
    return kept


def _joined(row: Sequence[Any]) -> Event:
    last = row[-1]
    if len(row) == 1:
        return last  # type: ignore[no-any-return]
    if isinstance(last, ToolCallDelta):
        return ToolCallDelta(last.call_id, "".join([one.delta for one in row]), seq=last.seq, step=last.step)
    return replace(last, text="".join([one.text for one in row]))  # type: ignore[no-any-return]
