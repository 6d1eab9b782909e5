"""Brings decisions that people make elsewhere to the calls of a journaled run, and shows its journal which calls wait.

    ApprovalRequested,
    AnswerRequested         the call is noted in the journal, with its arguments
    an entry "decision"     is given to the call it is about, as `Pipeline.approve` would, once that was asked about
    Observation             the call is over, in the journal, too, unless it is suspended

A decision is taken only while somebody iterates over the run. If its consumer has come to rest and leaves, the call
must not begin, only to be cancelled in the middle: the decision stays in the inbox, and the next visit takes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ..dispatch.approval import Decision
from ..errors import AnswerPending, ApprovalPending
from ..events import AnswerRequested, ApprovalRequested, ApprovalResolved, Event, Observation, StepStart

if TYPE_CHECKING:
    from .hosted import OpenPipeline
    from .journaled import JournaledRun

_logger = logging.getLogger("streamtools")


class DecidedElsewhere:
    """The decisions about the calls of one run that came through its inbox: an observer of the run. `block` returns the
    step that goes on, if any."""

    sees_originals = True
    event_types: Collection[type[Event]] | None = frozenset(
        {StepStart, ApprovalRequested, ApprovalResolved, AnswerRequested, Observation}
    )

    def __init__(self, journaled: JournaledRun, block: Callable[[], OpenPipeline | None]) -> None:
        self._journaled = journaled
        self._block = block
        self._step = -1
        self._asked: dict[str, str] = {}  # the keys of the step's calls that were asked about, by call id
        self._resolved: set[str] = set()  # the keys of calls that were decided: by what is on record, so as it says
        self._waiting: list[tuple[str, int, str, Decision]] = []  # entry id, step, key

    def take(self, entry: Mapping[str, Any], *, is_iterated: bool) -> None:
        """Takes an entry of the inbox; raises a `ValueError`, `TypeError` or `LookupError` if no journal has written
        it."""
        step, key = entry["step"], entry["key"]
        if type(step) is not int or type(key) is not str:
            raise ValueError("a step and a key were expected")
        self._waiting.append((entry["id"], step, key, Decision(**entry["decision"])))
        if is_iterated:
            self.apply()

    def apply(self) -> None:
        """Gives the decisions to the calls that they are about; drops those that come too late."""
        block = self._block()
        for one in list(self._waiting):
            entry_id, step, key, decision = one
            taken = block.take_decision(key, decision) if block is not None and step == self._step else None
            if step < self._step:
                taken = False
            if taken is None:
                continue
            self._waiting.remove(one)
            self._journaled.take_out(entry_id)
            if not taken and key not in self._resolved:
                words = "run %s: a decision from elsewhere, of step %d, is about no call that waits"
                _logger.warning(words, self._journaled.run_id, step)

    # -- as an observer --

    def around_tool(self, call_id: str) -> AbstractContextManager[object] | None:
        """Returns None: nothing is to be held."""
        return None

    def on_event(self, event: Event) -> None:
        """Notes which calls wait."""
        if isinstance(event, StepStart):
            self._step, self._asked = event.step, {}
        elif isinstance(event, (ApprovalRequested, AnswerRequested)):
            block = self._block()
            waiting = None if block is None else block.asked_about(event.call_id)
            if waiting is not None:
                self._asked[event.call_id] = waiting.calls[0].idempotency_key
                self._journaled.note_waiting(waiting)
        elif isinstance(event, ApprovalResolved) and event.call_id in self._asked:
            self._resolved.add(self._asked[event.call_id])
        elif isinstance(event, Observation) and event.call_id in self._asked:
            key = self._asked.pop(event.call_id)
            if not isinstance(event.error, (ApprovalPending, AnswerPending)):
                self._journaled.note_over(key)
