"""Writes a run to its journal: an observer that sees each body as it is read, and shows nothing.

A response is handed over as soon as it is whole, and the ends of its calls with the next response, or at the end.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import JournalError, StreamError
from ..events import AttemptBegan, Event, StepEnd, StepStart, StreamEnd
from ..observers import Observer, StreamFacts
from ..parts import FINISHES
from ..turn import Turn
from .lease import Waiter
from .lines import written_ends, written_item, written_items, written_json
from .place import JournalPlace, fail
from .run_records import JournaledResponse, marked

if TYPE_CHECKING:
    from ..pipelines import Trajectory
    from ..seams import RunView
    from .inbox import StoredInbox


class ResponseWriter(Observer):
    sees_originals = True

    @property
    def event_types(self) -> Collection[type[Event]]:
        return frozenset({StepStart, AttemptBegan, StreamEnd, StepEnd})

    def __init__(self, place: JournalPlace, run: Trajectory, inbox: StoredInbox) -> None:
        self._place = place
        self._run = run
        self._inbox = inbox
        self._view: RunView | None = None
        self._said = 0  # how many entries the history of the latest stored response had
        self._ends: list[tuple[int, bytes]] = []  # of steps that are over, and may not be stored yet
        self._handed_over = 0  # how many of them went with the response
        self._items: list[bytes | dict[str, Any]] = []
        self._salt = 0
        self._attempt, self._fallback = 1, 0  # the attempt at the step's answer, and which function was called
        self.step = -1
        self.has_ended: anyio.Event | None = None  # of the response; None since a run may be made outside a loop
        self.is_stored: Waiter | None = None  # waits until the response is stored; None if it will not be

    def begin(self, view: RunView) -> None:
        self._view = view

    def go_on_from(self, step: int, said: int) -> None:
        """Notes that the response of this step is stored, with `said` new entries of the history."""
        self.step, self.is_stored = step, _at_once
        self._said += said

    async def end_step(self, turn: Turn) -> None:
        """Keeps the ends of a step that is over. Raises a `JournalError` if its response could not be stored."""
        broken = self._keep_broken()
        if self.is_stored is None:
            return
        await self._place.stored(self.is_stored, f"the response of step {self.step}")
        del self._ends[: self._handed_over]
        self._handed_over = 0
        if broken is None and not any(seen.outcome == "unknown" for seen in turn.observations):
            self._ends.append((self.step, self._ends_of(turn)))

    def leave(self, outcome: str) -> list[tuple[Waiter, str]]:
        """Hands over the end of this visit to the run, and what is not stored yet; returns waiters for both."""
        if self._place.held is None:
            return []
        broken = self._keep_broken()
        end = partial(self._place.held.end, outcome, self._ends, self._inbox.take_read())
        waiters: list[tuple[Waiter, str]] = [(lambda: end()(), "its end")]  # it may be refused at once
        return waiters if broken is None else [*waiters, (broken, f"the response of step {self.step}")]

    def _keep_broken(self) -> Waiter | None:
        """Hands over what the history has of a response that broke off: its turn, or, if the run was stopped, the
        messages before it; returns a waiter, or None if there is nothing to store."""
        if self._view is None or self.is_stored is not None:
            return None
        turn = self._view.standing
        if turn is None and not (self._view.is_stopped and len(self._view.said) > self._said):
            return None
        self._items = [] if turn is None else self._items
        self.is_stored = self._kept(self._ends_of(turn))
        return self.is_stored

    def _ends_of(self, turn: Turn | None) -> bytes:
        spent = self._run.spent
        return written_ends(() if turn is None else turn.observations, spent.calls, spent.tokens)

    def _kept(self, ends: bytes | None = None) -> Waiter:
        """Hands the response over for storage; one that broke off with the ends of its calls, since those that have not
        begun must not begin in another visit."""
        try:
            return self._keep(ends)
        except Exception as error:  # from anything in the response, or a closed store; the step raises it
            return partial(fail, error)
        finally:
            self._items = []

    def _keep(self, ends: bytes | None) -> Waiter:
        if self._place.held is None:
            return _no_lease
        assert self._view is not None, "known since the run began"
        kind, body = written_items(self._items)
        said = self._view.said[self._said :]
        self._said += len(said)
        facts = {
            "kind": kind,
            "salt": self._salt,
            "attempt": self._attempt,
            **({"fallback": self._fallback} if self._attempt > 1 else {}),
            "broken": ends is not None,
            "traceparent": self._run.traceparent(),
            "proposed_by": self._run.proposed_by(),
            "said": [marked(one) for one in said],
        }
        read = [*(str(one["id"]) for one in said), *self._inbox.take_read()]
        self._handed_over = len(self._ends)
        return self._place.held.keep(JournaledResponse(self.step, written_json(facts), body, ends), self._ends, read)

    # -- as an observer --

    def begin_stream(self, stream: StreamFacts, /) -> None:
        self._items, self._salt = [], self._run.salts

    def on_item(self, item: Any, /) -> None:
        self._items.append(written_item(item))

    def end_stream(self, error: StreamError | None, /) -> None:
        """Does nothing: `StreamEnd` follows."""

    def on_event(self, event: Event) -> None:
        if self.has_ended is None or isinstance(event, StepStart):
            self.has_ended, self._items, self._attempt, self._fallback = anyio.Event(), [], 1, 0
            if event.step != self.step:
                self.step, self.is_stored = event.step, None
            return
        if isinstance(event, AttemptBegan):  # what came before it is discarded
            self._attempt, self._fallback, self._items = event.attempt, event.fallback, []
            return
        if isinstance(event, StreamEnd) and self.is_stored is None and _is_whole(event):
            self.is_stored = self._kept()
        self.has_ended.set()


def _is_whole(end: StreamEnd) -> bool:
    return end.complete and end.error is None and (end.finish is None or FINISHES[end.finish].is_over)


async def _at_once() -> None:
    return


async def _no_lease() -> None:
    raise JournalError("the run was left")
