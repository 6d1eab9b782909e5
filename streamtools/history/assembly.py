"""Settled steps as native messages: those that they were read from wherever these are right, else written anew.

Theory of operation. A step falls into pieces: a prompt, what the model said, results. A piece that stands as it was
read names its entry; one that does not has messages of its own. One message may hold several entries (results, and text
behind them): it is kept if all of these follow one another as they did; otherwise each is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..content import Media
from ..wires import Wire
from ..wires.transcript import Entry, Prompt, Returned
from .native import Messages, plain_of, role_of
from .settling import Settled, SettledResult, Step

__all__ = ["assembled", "joined", "written"]


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    entry: Entry | None
    """What it is as it was read; None if it has to be written."""
    write: Callable[[], list[dict[str, Any]]]


def written(step: Step, wire: Wire) -> list[dict[str, Any]]:
    """A step as messages of a wire, all of them new."""
    return _prompt(step, wire) if isinstance(step, Prompt) else wire.render(step.whole)


def assembled(steps: Sequence[Step], read: Messages) -> list[Any]:
    """The messages of a history whose steps were settled: as they were given, wherever a step stayed what it was."""
    pieces = [piece for step in steps for piece in _pieces(step, read.wire)]
    mixed = read.mixed
    messages: list[Any] = []
    at = 0
    while at < len(pieces):
        entry = pieces[at].entry
        origin = entry.origin if entry is not None else None
        together = read.members[origin] if origin is not None else []
        as_read = [piece.entry for piece in pieces[at : at + len(together)]] == together
        if origin is not None and origin not in mixed and as_read:
            messages += read.given[origin[0] : origin[1]]
            at += len(together)
        else:
            messages += pieces[at].write()
            at += 1
    return messages


def joined(messages: list[Any], wire: Wire) -> list[Any]:
    """The messages, those of one role in a row as one where the wire wants that; the same list if there are none."""
    join = wire.rules.join
    if not wire.rules.alternate or join is None:
        return messages
    runs: list[list[Any]] = []
    for message in messages:
        if runs and role_of(message) is not None and role_of(runs[-1][-1]) == role_of(message):
            runs[-1].append(message)
        else:
            runs.append([message])
    if len(runs) == len(messages):
        return messages
    return [run[0] if len(run) == 1 else join([plain_of(message) for message in run]) for run in runs]


def _prompt(prompt: Prompt, wire: Wire) -> list[dict[str, Any]]:
    assert wire.render_prompt is not None, "a wire that can be read can be written"
    return wire.render_prompt(prompt)


def _pieces(step: Step, wire: Wire) -> Iterator[_Piece]:
    if isinstance(step, Prompt):
        yield _Piece(None if step.flaws else step, partial(_prompt, step, wire))
        return
    yield _Piece(step.source, partial(wire.render, step.answer))
    runs = list(_runs(step.outcomes))
    new = [outcome for is_kept, run in runs if not is_kept for outcome in run]
    is_shared = wire.rules.results_in_one_message or any(map(_has_media, new))  # a message that is written for all
    if is_shared and len(runs) > 1:
        runs = [(False, step.outcomes)]
    for is_kept, run in runs:
        yield _Piece(run[0].source if is_kept else None, partial(_results, step, run, wire))


def _runs(outcomes: tuple[SettledResult, ...]) -> Iterator[tuple[bool, tuple[SettledResult, ...]]]:
    """The outcomes in runs, and whether a run is all that stands in one message, just as it stands there."""
    at = begin = 0
    while at < len(outcomes):
        run = outcomes[at : at + _size(outcomes[at].source)]
        if not _is_whole(run):
            at += 1
            continue
        if begin < at:
            yield False, outcomes[begin:at]
        yield True, run
        begin = at = at + len(run)
    if begin < at:
        yield False, outcomes[begin:at]


def _size(source: Returned | None) -> int:
    return len(source.results) if source is not None else 0


def _is_whole(run: Sequence[SettledResult]) -> bool:
    """Whether these are all results of one message, in its order, and none of them has to be written."""
    source = run[0].source if run else None
    if source is None or len(run) < len(source.results):
        return False
    pairs = zip(run, source.results, strict=True)
    return all(outcome.source is source and outcome.given is result for outcome, result in pairs)


def _results(step: Settled, outcomes: Sequence[SettledResult], wire: Wire) -> list[dict[str, Any]]:
    """The messages of these results alone."""
    alone = wire.render(step.answer)
    results = tuple(outcome.result for outcome in outcomes)
    return wire.render(replace(step.answer, results=results))[len(alone) :]


def _has_media(outcome: SettledResult) -> bool:
    return any(isinstance(block, Media) for block in outcome.result.blocks)
