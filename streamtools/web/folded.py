"""Folds the events that readers were shown into an answer: the events that still hold, from which messages are written.

    folded([*folded(before), *after]) == folded([*before, *after])

So an answer may be folded once more, with what follows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from typing import Any

from .. import events as of
from ..parts import changed
from .log import DELTAS, Entry, VisitEnd, row_of, text_of, written_entries

MAX_ANSWER_BYTES = 16 << 20
"""The most bytes of a kept answer, and of a page of messages. A larger one loses results and texts."""
_SMALL = 1_000  # bytes of an entry that stays whole
_SHOWN = DELTAS | {
    of.AnswerRequested, of.ApprovalRequested, of.ApprovalResolved, of.AttemptDiscarded, of.MessageAdded, of.Observation,
    of.ProviderItem, of.ReasoningEnd, of.ReasoningStart, of.StepEnd, of.StepStart, of.StreamEnd, of.TextEnd,
    of.TextStart, of.ToolCallEnd, of.ToolCallStart, of.ToolCallValidated, of.ToolProgress, of.ToolStarted, VisitEnd,
}  # fmt: skip


def folded(entries: Iterable[Entry]) -> list[Entry]:
    kept = joined([entry for entry in entries if type(entry) in _SHOWN])
    pieces: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    whole: dict[tuple[int, str], str] = {}
    latest: dict[tuple[int, str], int] = {}  # what is known of a call that runs
    for entry in kept:
        if isinstance(entry, of.ToolCallDelta):
            pieces[entry.step, entry.call_id].append(entry.delta)
        elif isinstance(entry, of.ToolCallEnd):
            whole[entry.step, entry.call_id] = entry.call.arguments_text
        elif isinstance(entry, (of.ToolProgress, of.Observation)):
            latest[entry.step, entry.call_id] = entry.seq
    told = {key for key, text in whole.items() if text.startswith("".join(pieces[key]))}
    stands = [
        entry
        for entry in kept
        if not (isinstance(entry, of.ToolCallDelta) and (entry.step, entry.call_id) in told)
        and not (isinstance(entry, of.ToolProgress) and latest[entry.step, entry.call_id] > entry.seq)
    ]
    return [*joined(stands)]  # a report may have stood between two pieces of a call


def joined(entries: Sequence[Entry], shown: int = -1) -> Sequence[Entry]:
    """Returns entries without what was taken back among them since the one that was `shown` last, with the deltas of a
    row as one.
    """
    if len(entries) == 1 and not isinstance(entries[0], of.AttemptDiscarded):
        return entries
    kept = _kept(entries, shown) if of.AttemptDiscarded in set(map(type, entries)) else entries
    found: list[Entry] = []
    for row, group in groupby(kept, row_of):
        same = [*group]
        found += same if row is None else [_joined(same)]
    return found


def _kept(entries: Sequence[Entry], shown: int) -> list[Entry]:
    kept: list[Entry] = []
    for entry in entries:
        if isinstance(entry, of.AttemptDiscarded):
            while kept and kept[-1].seq >= entry.from_seq:
                kept.pop()
            if entry.from_seq > shown:
                continue
        kept.append(entry)
    return kept


def _joined(row: Sequence[Any]) -> of.Event:
    last = row[-1]
    if len(row) == 1:
        return last  # type: ignore[no-any-return]
    whole = "".join(map(text_of, row))
    if isinstance(last, of.ToolCallDelta):  # without what previews of it read
        return of.ToolCallDelta(last.call_id, whole, seq=last.seq, step=last.step)
    return replace(last, text=whole)  # type: ignore[no-any-return]


def written_answer(answer: Sequence[Entry]) -> bytes:
    """Returns a folded answer as JSON, without its largest contents where it exceeds `MAX_ANSWER_BYTES`, and no more
    than its beginning where that is not enough."""
    written = written_entries(answer)
    if len(written) <= MAX_ANSWER_BYTES:
        return written
    kept: list[Entry | None] = [*answer]
    sizes = [len(written_entries([entry])) for entry in answer]
    left = sum(sizes)
    for at in sorted(range(len(kept)), key=sizes.__getitem__, reverse=True):
        if left <= MAX_ANSWER_BYTES or sizes[at] < _SMALL:
            break
        kept[at] = short = _without_content(answer[at], f"[not kept: {sizes[at]} bytes]")
        left -= sizes[at]
        sizes[at] = 0 if short is None else len(written_entries([short]))
        left += sizes[at]
    most = bisect_right([*accumulate(sizes)], MAX_ANSWER_BYTES)
    return written_entries([entry for entry in kept[:most] if entry is not None])


def _without_content(entry: Any, words: str) -> Entry | None:
    match entry:
        case of.Observation():
            return replace(entry, value=words, model_content=words, result=None, validated_args=None, edited=None)
        case of.ToolCallEnd() | of.ToolCallValidated():
            return replace(entry, call=changed(entry.call, arguments=None, arguments_text=words, provider_state=None))
        case of.AnswerRequested() | of.ApprovalRequested() | of.ApprovalResolved():
            return replace(entry, arguments={"": words})
        case of.ToolCallDelta():
            return replace(entry, delta=words)
        case _ if type(entry) in DELTAS:
            return replace(entry, text=words)  # type: ignore[no-any-return]
    return None if isinstance(entry, (of.ProviderItem, of.ToolProgress)) else entry
