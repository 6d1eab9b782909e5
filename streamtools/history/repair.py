"""Repairs a history so that its provider takes it.

Theory of operation. The steps of a history are settled and become native messages: those that they were read from where
these are right, else new ones. A step is split into pieces: a prompt, the model's answer, results. A piece that is
unchanged since it was read names its entry; any other has messages of its own. One message may hold several entries
(results, and text behind them): it is kept if all of these entries still follow one another in the same order;
otherwise each is written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..content import Media
from ..wires import Wire
from ..wires.transcript import Entry, Prompt, Returned
from .native import Messages, are_same, mended, plain_of, refuse_another_wires, role_of, wire_named
from .pairing import pair
from .settling import BadArguments, HistorySettling, Settled, SettledResult, Step

__all__ = ["assembled", "joined", "repair", "written"]


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    entry: Entry | None
    """The entry that the piece was read from; None if it has to be written."""
    write: Callable[[], list[dict[str, Any]]]


def written(step: Step, wire: Wire) -> list[dict[str, Any]]:
    """Returns a step as messages of a wire, all of them new."""
    return _prompt(step, wire) if isinstance(step, Prompt) else wire.render(step.whole)


def assembled(steps: Sequence[Step], read: Messages) -> list[Any]:
    """Returns the messages of a history whose steps were settled: the given ones, wherever a step is unchanged."""
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
    """Joins messages of the same role in a row into one where the wire wants that; returns the same list if none are
    joined."""
    join = wire.rules.join
    if not wire.rules.alternate or join is None:
        return messages
    runs: list[list[Any]] = []
    for message in messages:
        role = role_of(message, wire.rules)
        if runs and role is not None and role_of(runs[-1][-1], wire.rules) == role:
            runs[-1].append(message)
        else:
            runs.append([message])
    if len(runs) == len(messages):
        return messages
    return [run[0] if len(run) == 1 else join([plain_of(message, wire.rules) for message in run]) for run in runs]


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
    # the message of a picture is written for all results together
    is_shared = wire.rules.results_in_one_message or any(map(_has_media, new))
    if is_shared and len(runs) > 1:
        runs = [(False, step.outcomes)]
    for is_kept, run in runs:
        yield _Piece(run[0].source if is_kept else None, partial(_results, step, run, wire))


def _runs(outcomes: tuple[SettledResult, ...]) -> Iterator[tuple[bool, tuple[SettledResult, ...]]]:
    """Splits the outcomes into runs, and says of each whether it is exactly the content of one message, as read."""
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
    """Returns whether these are all results of one message, in its order, and none of them has to be written anew."""
    source = run[0].source if run else None
    if source is None or len(run) < len(source.results):
        return False
    pairs = zip(run, source.results, strict=True)
    return all(outcome.source is source and outcome.given is result for outcome, result in pairs)


def _results(step: Settled, outcomes: Sequence[SettledResult], wire: Wire) -> list[dict[str, Any]]:
    """Returns the messages of these results alone, without the answer."""
    alone = wire.render(step.answer)
    results = tuple(outcome.result for outcome in outcomes)
    return wire.render(replace(step.answer, results=results))[len(alone) :]


def _has_media(outcome: SettledResult) -> bool:
    return any(isinstance(block, Media) for block in outcome.result.blocks)


_MAX_ROUNDS = 8
"""A wire's own mending may cause one more round of repairs; more rounds are a safeguard."""


def repair(
    messages: list[Any],
    wire: Wire | str,
    *,
    model: str | None = None,
    last: bool = False,
    bad_arguments: BadArguments = "empty",
) -> list[Any]:
    """Repairs messages so that the provider takes them; returns the same list if it does already.

    Every call gets its one result, right behind the answer and in call order: a result that stands later is moved
    there, a missing one says that the call was interrupted, and one that answers no call is dropped. Ids become unique
    and valid, for a call and its result alike; arguments become an object; empty messages are dropped, and so are items
    that are no message of this wire. Content between calls and results goes behind the results. Messages that need no
    repair stay the same objects, so that a provider's cache of the prompt still fits; and the same history is always
    repaired in the same way.

    Args:
        messages: native messages of `wire`. They are not changed.
        wire: the wire, or its name.
        model: the model's name, where an endpoint has models that demand more than others (Bedrock).
        last: also answer calls without a result at the very end. Without it they count as still running.
        bad_arguments: the replacement for arguments that are no JSON object: ``empty`` (``{}``), or ``wrap_raw``
            (``{"INVALID_JSON": ...}``, which lets the model see what it wrote).

    Raises:
        ExportError: no such wire; or no message is of it, and some are of another wire.
        TypeError: `messages` is no list.
    """
    found = wire_named(wire, model)
    settling = HistorySettling(found, last=last, bad_arguments=bad_arguments)
    read = Messages(messages, found)
    refuse_another_wires(read)
    for _ in range(_MAX_ROUNDS):  # pragma: no branch - two suffice
        after = _once(messages, read, settling)
        if after is messages:
            break
        messages, read = after, Messages(after, found)
    return messages


def _once(messages: list[Any], read: Messages, settling: HistorySettling) -> list[Any]:
    wire = read.wire
    after = joined(assembled(settling.settle(pair(read.entries, wire.rules).steps), read), wire)
    after = mended(after, wire.rules)
    return messages if are_same(after, messages) else after
