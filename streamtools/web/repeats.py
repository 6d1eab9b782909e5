"""Matches the results that a client sends with the calls of a run, and finds where a client that repeats them reads on.

A call's id may recur in a later step, where it is ``id@step``, so that a late repetition answers no other call.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..dispatch import Journal
from ..errors import AnswerError, ChatConflict, JournalError
from ..events import AnswerRequested, ApprovalRequested
from .approval_ids import read_approval_id
from .client_input import ClientInput, ClientResult
from .log import Entry, VisitEnd


def steps_asked(seen: Sequence[Entry]) -> dict[str, list[int]]:
    """Returns the steps in which each call id was handed out, in order."""
    steps: dict[str, list[int]] = {}
    for entry in seen:
        if isinstance(entry, AnswerRequested):
            steps.setdefault(entry.call_id, []).append(entry.step)
    return steps


def is_about(given: ClientResult, run_id: str, call_id: str, steps: Sequence[int]) -> bool:
    """Returns whether a result is that of a run's latest call with this id, which was handed out in these steps."""
    named = read_approval_id(given.call_id)
    if named is not None:
        return (named.run_id, named.call_id) == (run_id, call_id) and (not steps or named.step == steps[-1])
    if given.call_id == call_id:
        return len(set(steps)) < 2
    return bool(steps) and given.call_id == f"{call_id}@{steps[-1]}"


def rested_at(seen: Sequence[Entry], call_ids: Collection[str]) -> VisitEnd | None:
    """Returns the end of the visit that left the latest of these calls to people; None if none did."""
    for entry in reversed(seen):
        if isinstance(entry, VisitEnd):
            if not set(entry.call_ids).isdisjoint(call_ids):
                return entry
        elif isinstance(entry, (AnswerRequested, ApprovalRequested)) and entry.call_id in call_ids:
            return None
    return None


async def repeated(journal: Journal, run_id: str, given: ClientInput, seen: Sequence[Entry]) -> int | None:
    """Returns the number of the entry behind which a run has gone on with these results; None if it has not. Raises a
    `ChatConflict` if it has gone on with other results."""
    answered = {
        call_id: one
        for call_id, steps in steps_asked(seen).items()
        for one in given.results
        if is_about(one, run_id, call_id, steps)
    }
    end = None if given.approvals else rested_at(seen, answered)
    if end is None:
        return None
    try:
        for call_id in answered.keys() & set(end.call_ids):
            one = answered[call_id]
            await journal.answer(run_id, call_id, one.value, is_error=one.is_error)
    except (AnswerError, JournalError) as error:
        raise ChatConflict("decided", str(error)) from error
    return end.seq
