"""Shows a run of this process to its readers, and writes its log.

Theory of operation. `LiveRun` is an observer of the run: each event becomes an entry at once, and waiting readers are
woken. One task writes new entries in batches, under the run's lease. They are also handed over at the end of each
response, before the response itself. The store's thread works in order, so the log is never a step behind the journal.
"""

from __future__ import annotations

import logging
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from time import monotonic
from typing import TYPE_CHECKING, Any

import anyio

from .. import events as of
from ..durable.journal_steps import place_of
from ..durable.lease import JournalLease, Waiter
from ..errors import RunStillRunning, RunTakenOver
from ..front import AgentLoop
from ..ground import type_name
from ..observers import Observer
from ..parts import RUN_OUTCOMES
from .conversations import ChatTurn, fault_of
from .encoding import told_of
from .folded import folded
from .log import DELTAS, VISIT, Entry, RunLog, VisitEnd
from .shown import ShownRun, is_left
from .sources import shown_raw, shown_state

if TYPE_CHECKING:
    from ..seams import Shown

_BATCH_S = 0.05
_WAKE_EACH_S = 0.005  # deltas that come faster are joined for readers
_MOST_KEPT = 20_000  # entries in memory; earlier ones are read from the log
_HIDDEN = (of.OutputDelta, of.ToolCallFragment, of.UnknownPayload)
_UNSHOWN = frozenset({"carry", "request", "resume_from", "provider_state", "usage_raw"})
_logger = logging.getLogger("streamtools")
_set = object.__setattr__
_number = attrgetter("seq")


class LiveRun(Observer):
    """One visit to a run, as its readers see it; `visit` is the number of visits before it.

    `begin` is called once no other process continues the run. `finish` stores the end of the visit under the lease; it
    gets the run's outcome and all entries that readers have. A run whose records failed is ``left`` and can continue.
    """

    sees_originals = True

    def __init__(
        self,
        run_id: str,
        visit: int,
        log: RunLog,
        finish: Callable[[AgentLoop, JournalLease, ChatTurn, str | None, Sequence[Entry]], Waiter],
    ) -> None:
        self.run_id = run_id
        self.first = visit * VISIT  # the number before those of this visit
        self.ended: VisitEnd | None = None
        self.has_begun = False  # True once its entries have numbers: all others are in the log
        self.has_moved = False  # True if another process continues the run
        self.has_finished = False  # True once its end was handed over
        self._shown: ShownRun | None = None
        self._turn: ChatTurn | None = None  # None if it was removed
        self._log = log
        self._finish = finish
        self._loop: AgentLoop | None = None
        self._guard: Shown | None = None
        self.is_leaving = False
        """True if this process leaves the run, which continues later: its calls then end for this visit only."""
        self.is_removed = False  # True if the conversation was removed before the run could begin
        self._is_withheld = False  # True if the rest is not shown, since the policy failed
        self._before: list[Entry] = []  # the entries that are not in `_entries`, folded
        self._entries: list[Entry] = []
        self._dropped = 0  # how many, from the beginning of `_entries`
        self._dropped_to = -1  # the number of the last of them
        self._is_lost = False  # True if some entries are only here
        self._written = 0  # how many of all entries
        self._writing: list[Waiter] = []
        self._end: VisitEnd | None = None
        self._awaited: anyio.Event | None = None
        self._unwritten = anyio.Event()
        self._is_unwritten = False
        self._overdue = anyio.Event()
        self._woken_at = -math.inf

    # -- the run --

    def attach(self, loop: AgentLoop) -> None:
        self._loop = loop
        guard = loop.trajectory.guard
        self._guard = None if guard is None else guard.page(loop.trajectory)
        loop.trajectory.observers = (self, *loop.trajectory.observers)

    def begin(self, turn: ChatTurn | None, visit: int, shown: ShownRun, before: Iterable[Entry]) -> None:
        """Sets the visit's number and the entries of earlier visits, before its first event."""
        self.first, self._turn, self._shown, self.has_begun = visit * VISIT, turn, shown, True
        self._before = folded(before)

    def on_event(self, event: of.Event) -> None:
        if self._is_withheld or isinstance(event, _HIDDEN) or (self.is_leaving and is_left(event)):
            return
        assert self._shown is not None, "it has begun"
        for added in self._shown.added(event, self.first + event.seq - 1):
            try:
                copies: Iterable[of.Event] = (added,) if self._guard is None else self._guard.event(added)
            except Exception as error:  # the policy's function failed: show nothing more
                self._is_withheld = True
                _logger.error(
                    "run %s: readers see no more events, since its policy failed (%s)",
                    self.run_id,
                    type_name(error),
                )
                return
            for one in copies:
                self._add(_entry(one, self.first, is_new=added is not event))
        if isinstance(event, of.StreamEnd) or (isinstance(event, of.StepEnd) and event.outcome != "complete"):
            self._hand_over()

    def end_run(self, outcome: str | None, error: BaseException | None, /) -> None:
        """Writes the rest and the end while this process still holds the run."""
        assert self._loop is not None, "it was attached"
        suspended = self._loop.suspended
        kind = retry_after = None
        if self._is_withheld:
            outcome, kind = "error", "internal_error"
        elif outcome is not None and RUN_OUTCOMES[outcome].is_error:  # type: ignore[index]
            last = self._loop.turns[-1].error if self._loop.turns else None  # a client's own exception is its cause
            is_lost = last is None and fault_of(error)
            kind, retry_after = ("unavailable", None) if is_lost else told_of(last or error)
        waiting = () if suspended is None else tuple(call.call_id for call in suspended.calls)
        self._end = VisitEnd(self._last + 1, outcome or "left", kind, waiting, retry_after)
        if self.has_begun:  # else the number is another visit's
            self._hand_over(self._end)
        lease, turn = self._lease, self._turn
        if lease is not None and turn is not None:
            outcome = "left" if kind == "unavailable" else self._loop.outcome
            entries = [*self._before, *self._entries, self._end]
            self.has_finished = self._wrote(partial(self._finish, self._loop, lease, turn, outcome, entries))

    # -- readers --

    def move(self) -> None:
        """Notes that another process goes on with the run. Readers go on with its log."""
        self.has_moved = True
        self._wake()

    def since(self, seq: int) -> Sequence[Entry] | None:
        """Returns the entries with numbers above this one; None if some of them are only in the log."""
        if seq < self._dropped_to:
            return None
        entries = self._entries
        at = len(entries)
        if at and entries[-1].seq <= seq:
            return ()
        if at > 1 and entries[-2].seq <= seq:  # a reader that keeps up
            return entries[-1:]
        return entries[bisect_right(entries, seq, key=_number) :]

    async def wait(self) -> None:
        if self._awaited is None:
            self._awaited = anyio.Event()
        await self._awaited.wait()

    def _add(self, entry: Entry) -> None:
        self._entries.append(entry)
        if not self._is_unwritten:
            self._is_unwritten = True
            self._unwritten.set()
        if self._awaited is not None:
            if type(entry) not in DELTAS or monotonic() >= self._woken_at + _WAKE_EACH_S:
                self._wake()
            else:
                self._overdue.set()

    def _wake(self) -> None:
        if self._awaited is not None:
            awaited, self._awaited = self._awaited, None
            self._woken_at = monotonic()
            awaited.set()

    async def keep_waking(self) -> None:
        """Wakes the readers of deltas that follow each other closely, until it is cancelled."""
        while True:
            await self._overdue.wait()
            await anyio.sleep(_WAKE_EACH_S)
            self._overdue = anyio.Event()
            self._wake()

    # -- the log --

    async def keep_writing(self) -> None:
        """Writes what is new, batch by batch, until it is cancelled."""
        while True:
            await self._unwritten.wait()
            await anyio.sleep(_BATCH_S)
            self._unwritten, self._is_unwritten = anyio.Event(), False
            self._hand_over()
            await self._settle()
            self._forget_early()

    async def finish(self, failure: Exception | None) -> None:
        await self._settle()
        if isinstance(failure, (RunStillRunning, RunTakenOver)):
            self.move()
            return
        if self._end is None and failure is None:
            self._end = VisitEnd(self._last + 1, "left")
        elif self._end is None:
            self._end = VisitEnd(self._last + 1, "error", "unavailable" if fault_of(failure) else told_of(failure)[0])
        self._entries.append(self._end)
        self.ended, self.has_begun = self._end, True
        self._wake()

    @property
    def _last(self) -> int:
        return self._entries[-1].seq if self._entries else self.first

    @property
    def _lease(self) -> JournalLease | None:
        place = None if self._loop is None else place_of(self._loop.sources)
        return None if place is None else place.held

    def _hand_over(self, *ends: Entry) -> None:
        lease = self._lease
        batch = [*self._entries[self._written - self._dropped :], *ends]
        if lease is None or self._turn is None or not batch:
            return
        self._written = self._dropped + len(self._entries)
        self._wrote(partial(self._log.append, self.run_id, batch, lease))

    def _wrote(self, hand_over: Callable[[], Waiter]) -> bool:
        try:
            self._writing.append(hand_over())
        except Exception as error:  # the store is closed, or the batch is too large
            self._lost(error)
            return False
        return True

    async def _settle(self) -> None:
        while self._writing:
            waiter = self._writing.pop(0)
            try:
                await waiter()
            except Exception as error:  # the run continues: its journal decides whether it may
                self._lost(error)

    def _lost(self, error: Exception) -> None:
        if isinstance(error, RunTakenOver):
            self.move()
            return
        self._is_lost = True
        words = "run %s: readers in other processes miss some events, since its log could not be written (%s)"
        _logger.warning(words, self.run_id, type_name(error))

    def _forget_early(self) -> None:
        if len(self._entries) > 2 * _MOST_KEPT and not (self._is_lost or self._writing):
            kept = min(self._written - self._dropped, len(self._entries) - _MOST_KEPT)
            if kept:
                self._dropped_to = self._entries[kept - 1].seq
                self._before = folded([*self._before, *self._entries[:kept]])
            del self._entries[:kept]
            self._dropped += kept


def _entry(event: of.Event, first: int, *, is_new: bool) -> of.Event:
    """Returns an event as the log has it: numbered across all visits, without the fields that readers do not see."""
    shift = 0 if is_new else first
    if not isinstance(event, of.CausedEvent) and not shift:  # a delta, as most are
        return event
    kind: Any = type(event)
    entry: of.Event = object.__new__(kind)
    for name in kind.__dataclass_fields__:  # a request would be copied as it is read
        _set(entry, name, None if name in _UNSHOWN else getattr(event, name))
    if isinstance(event, of.TextEnd):
        _set(entry, "provider_state", shown_state(event.provider_state) if event.provider_state else None)
    if isinstance(event, of.ProviderItem):
        _set(entry, "raw", shown_raw(event.raw))
    if shift:
        _set(entry, "seq", shift + event.seq)
        if isinstance(event, of.CausedEvent):
            _set(entry, "causes", tuple(shift + seq for seq in event.causes))
        if isinstance(event, of.AttemptDiscarded):
            _set(entry, "from_seq", shift + event.from_seq)
    return entry
