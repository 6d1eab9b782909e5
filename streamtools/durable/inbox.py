"""The inbox of a run on record: messages, decisions, answers and stops from any process, and the calls that wait.

A decision is taken only while a consumer iterates over the run. If the consumer pauses and leaves, the call must not
begin only to be cancelled in the middle: the decision stays in the inbox, and the next visit takes it.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import AnswerPending, ApprovalPending, JournalError, LocalProtocolError
from ..events import AnswerRequested, ApprovalRequested, ApprovalResolved, Event, Observation, StepStart
from ..ground import type_name
from ..observers import Observer
from ..pipelines.runner import Runner
from ..seams import Decision
from .lease import JournalLease, Waiter
from .place import JournalPlace, fail
from .run_records import read_put
from .suspended_steps import suspended_in

if TYPE_CHECKING:
    from ..seams import RunView
    from .suspended import Suspended

_LOOKS_EVERY_S = 60.0  # even without notice of a change
_PAUSE_S = 0.2
_logger = logging.getLogger("streamtools")


class StoredInbox(Observer):
    """The inbox of one run, and an observer that notes which of its calls wait."""

    sees_originals = True

    @property
    def event_types(self) -> Collection[type[Event]]:
        return frozenset({StepStart, ApprovalRequested, ApprovalResolved, AnswerRequested, Observation})

    def __init__(self, place: JournalPlace) -> None:
        self._place = place
        self._run: RunView | None = None
        self._known: set[str] = set()  # the ids of entries
        self._putting: list[Waiter] = []
        self._noting: list[Waiter] = []  # which calls wait
        self._read: list[str] = []  # entries that were read, and that no stored response names yet
        self._step = -1
        self._asked: dict[str, Suspended] = {}  # the step's calls that were asked about, by their ids
        self._over: set[str] = set()  # the step's calls that have ended
        self._resolved: set[str] = set()  # the keys of calls that were decided
        self._decided: list[tuple[str, int, str, Decision]] = []  # not taken yet: entry id, step, key

    async def begin(self, run: RunView) -> None:
        """Reads what earlier processes left; from then on, in the background, what others put there."""
        self._run = run
        await self._place.stored(self._look, "its inbox", "read")
        run.watch(self._watch)

    async def _watch(self) -> None:
        since = 0
        while (lease := self._place.held) is not None:
            try:
                since = await lease.changed(since, _LOOKS_EVERY_S if since else 0.0)
                await self._look()
            except (JournalError, LocalProtocolError):  # the journal is gone: the next response shows it
                return
            except (OSError, sqlite3.Error):  # try again, whether anything changes or not
                since = 0
                await anyio.sleep(_PAUSE_S)

    async def _look(self) -> None:
        if self._place.held is None:
            return
        for entry_id, entry in await self._place.held.inbox():
            if entry_id not in self._known:
                self._known.add(entry_id)
                try:
                    self._take(read_put(entry_id, entry))
                except (TypeError, ValueError, LookupError) as error:
                    words = "run %s: an entry of its inbox is not a user message on this wire (%s)"
                    _logger.warning(words, self._place.run_id, type_name(error))

    def _take(self, entry: Mapping[str, Any]) -> None:
        assert self._run is not None, "known since the run began"
        runner = self._runner
        if entry["kind"] == "answer":
            self._read.append(entry["id"])
            if runner is not None:  # a step that begins reads its answers itself
                runner.look_again(entry["call_id"])
        elif entry["kind"] == "decision":
            step, key = entry["step"], entry["key"]
            if type(step) is not int or type(key) is not str:
                raise ValueError("a step and a key were expected")
            self._decided.append((entry["id"], step, key, Decision(**entry["decision"])))
            if self._run.is_iterated:
                self.apply()
        elif entry["kind"] == "stop":
            self._run.stop()
        else:
            self._run.say(entry["message"], entry["when"], entry["id"])

    @property
    def _runner(self) -> Runner | None:
        return None if self._run is None or self._run.step is None else self._run.step._runner

    def apply(self) -> None:
        runner = self._runner
        for one in list(self._decided):
            entry_id, step, key, decision = one
            taken = runner.look_again(decision.call_id, key) if runner is not None and step == self._step else None
            if step < self._step:
                taken = False
            elif step == self._step and taken is None and decision.call_id in self._over:
                taken = True  # by a process that has died
            if taken is None:
                continue
            self._decided.remove(one)
            self._read.append(entry_id)
            if not taken and key not in self._resolved:
                words = "run %s: ignored a decision for step %d from its inbox: it matches no waiting call"
                _logger.warning(words, self._place.run_id, step)

    def put(self, entry: Mapping[str, Any]) -> None:
        """Stores an entry that was put into the run here, until the model has read it. Raises a `TypeError` or
        `ValueError` if it is not JSON, or too large; a `LocalProtocolError` if the store is closed."""
        if self._place.held is not None:
            written = {"kind": entry["kind"], "message": entry.get("messages"), "when": entry.get("when")}
            self._putting.append(self._place.held.put(entry["id"], written))
            self._known.add(entry["id"])

    def take_read(self) -> list[str]:
        """Returns the ids of the entries that were read, and that no stored response names yet."""
        read, self._read = self._read, []
        return read

    # -- calls that wait for people --

    def on_event(self, event: Event) -> None:
        if isinstance(event, StepStart):
            self._step, self._asked, self._over = event.step, {}, set()
        elif isinstance(event, (ApprovalRequested, AnswerRequested)):
            runner = self._runner
            asked = [] if runner is None else runner.attempt.calls.waiting.asked_about(event.call_id)
            waiting = None if runner is None else suspended_in(runner, asked)
            if waiting is not None:
                self._asked[event.call_id] = waiting
                self._note(lambda lease: lease.note_waiting(waiting))
        elif isinstance(event, ApprovalResolved) and event.call_id in self._asked:
            self._resolved.add(self._asked[event.call_id].calls[0].idempotency_key)
        elif isinstance(event, Observation):
            waited = self._asked.pop(event.call_id, None)
            if isinstance(event.error, (ApprovalPending, AnswerPending)):
                return
            if waited is not None:
                self._note(lambda lease: lease.note_over(waited))
            self._over.add(event.call_id)
            if self._run is not None and self._run.is_iterated:
                self.apply()

    def _note(self, write: Callable[[JournalLease], Waiter]) -> None:
        if self._place.held is None:
            return
        try:
            waiter = write(self._place.held)
        except Exception as error:  # the store is closed; the run raises this when it is left
            waiter = partial(fail, error)
        self._noting.append(waiter)

    async def noted(self) -> None:
        """Waits until the journal has the waiting calls; raises a `JournalError` if they could not be stored."""
        while self._noting:
            await self._place.stored(self._noting[0], "its waiting calls")
            del self._noting[0]

    async def leave(self) -> None:
        for putting in self._putting:
            await self._place.stored(putting, "a message to it")
        await self.noted()
