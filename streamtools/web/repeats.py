"""Finds the place at which a run rested for the calls that a client has answered.

A client that lost its response sends the same results once more: it is to read on from there, and nothing begins.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..dispatch.journal import Journal
from ..errors import AnswerError, ChatConflict, JournalError
from ..events import AnswerRequested, ApprovalRequested
from .approval_ids import read_approval_id
from .client_input import ClientInput, ClientResult
from .log import Entry, VisitEnd


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
    """Returns the number of the entry behind which a run has gone on with these results; None if it has not.

    Raises:
        ChatConflict: it has gone on with other results.
    """
    answered = {_call_id(one): one for one in given.results}
    end = None if given.approvals else rested_at(seen, answered)
    if end is None:
        return None
    try:
        for call_id in set(end.call_ids) & answered.keys():
            one = answered[call_id]
            await journal.answer(run_id, call_id, one.value, is_error=one.is_error)
    except (AnswerError, JournalError) as error:
        raise ChatConflict("decided", str(error)) from error
    return end.seq


def _call_id(given: ClientResult) -> str:
    named = read_approval_id(given.call_id)
    if named is not None:
        return named.call_id
    call_id, at, step = given.call_id.rpartition("@")  # the step stands there if the id had come before
    return call_id if at and step.isdecimal() else given.call_id
