"""Reads a run for one page: first its log, then its new events, from this process or another one.

A reader stores nothing of the run. A slow or late reader gets joined deltas, without what was discarded before it could
be shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from .folded import joined
from .live import LiveRun
from .log import Entry, RunLog, VisitEnd

_BEFORE = 2  # a visit may begin by retracting something, under the number before its first
_MOST_LOOKS = 10
_LOOKS_EVERY_S = 0.2  # seconds between two looks for a process that continues a run
_LOOKS_AGAIN_S = 1.0  # seconds after which a reader without news checks whether the run's process lives


class RunReader:
    """The place of one page in a run.

    `is_held` returns whether a process is running it; `has_news` whether a decision has arrived, so that it will
    continue; `find_kept` its answer, which is kept longer than its log; `go_on` continues it.
    """

    def __init__(
        self,
        run_id: str,
        log: RunLog,
        find_live: Callable[[str], LiveRun | None],
        is_held: Callable[[str], Awaitable[bool]],
        has_news: Callable[[str], Awaitable[bool]],
        find_kept: Callable[[], Awaitable[Sequence[Entry] | None]],
        go_on: Callable[[], Awaitable[bool]],
    ) -> None:
        self._run_id = run_id
        self._log = log
        self._find_live = find_live
        self._live: LiveRun | None = find_live(run_id)
        self._is_held = is_held
        self._has_news = has_news
        self._find_kept = find_kept
        self._go_on: Callable[[], Awaitable[bool]] | None = go_on  # None once it was called
        self._looks = 0  # how many are left, until no process is expected to continue the run
        self._changes = 0  # of the log, at the latest look
        self.seq = -1  # the number of the last entry that was taken
        self.seen = -1  # the number of the last entry that the page has seen already
        self._passed: VisitEnd | None = None  # the end of a visit that another one follows

    async def past(self) -> list[Entry]:
        found: list[Entry] = []
        while entries := await self._now():
            found.extend(entries)
            self.seq = entries[-1].seq
        return found

    async def next(self) -> Sequence[Entry]:
        """Waits for new entries and returns all of them, joined. The end of a visit is the last one. If the run's
        process is gone, the run continues here, once; after that, or if it cannot, it ends as ``interrupted``."""
        self._looks = max(self._looks, 1)
        while True:
            entries = await self._now()
            if entries:
                # A reader that comes back may have seen the first few.
                if entries[0].seq <= self.seen < entries[-1].seq:
                    entries = [entry for entry in entries if entry.seq <= self.seen]
                last, shown = entries[-1], max(self.seq, self.seen)
                # Taken only after the wait: a reader that is cancelled in it reads them again.
                if isinstance(last, VisitEnd) and await self._goes_on(last):
                    self._passed = last
                    while entries and isinstance(entries[-1], VisitEnd):  # a visit that added nothing else
                        entries = entries[:-1]
                self.seq = last.seq
                if found := joined(entries, shown):
                    return found
                continue
            if self._live is not None and self._live.ended is None and not self._live.has_moved:
                await self._live.wait()
            elif self._looks:
                known, seconds = self._changes, _LOOKS_AGAIN_S
                self._changes = await self._log.changed(self._run_id, 0, 0.0)
                if not await self._is_held(self._run_id):
                    self._looks -= 1  # and once more, if it has ended since the last look
                    seconds = _LOOKS_EVERY_S if self._looks else 0.0
                if known and seconds:
                    await self._log.changed(self._run_id, known, seconds)
            elif self.seq < 0 and (kept := await self._find_kept()):
                self.seq = kept[-1].seq
                return kept
            elif self._go_on is not None:
                go_on, self._go_on = self._go_on, None
                self._looks = _MOST_LOOKS if await go_on() else 0
            else:
                end = self._passed
                if end is None or end.seq <= self.seen:  # the page would wait for another one
                    end = VisitEnd(max(self.seq, self.seen) + 1, "interrupted")
                return [end]

    async def _goes_on(self, end: VisitEnd) -> bool:
        """Returns whether another visit follows the end of this one."""
        live = self._find_live(self._run_id) if self._live is None or self._live.has_moved else self._live
        if await self._is_held(self._run_id) if live is None else live.first > end.seq or not live.has_begun:
            return True
        if end.outcome != "suspended" or not await self._has_news(self._run_id):
            return False
        self._looks = _MOST_LOOKS  # a decision arrived while the run was being left
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
