"""Makes the payloads that say again what a cut turn has, for the stream that goes on with it.

A decoder that is fed these stands where the cut one stood, so that nothing else about the cut stream has to be kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..events import Observation
from ..parts import OUTCOMES
from ..turn import Turn
from ..wires import Wire, find

__all__ = ["account", "resumable", "settled"]


def resumable(turn: Turn) -> Wire:
    """Returns the wire of a turn that can be continued.

    Raises:
        ValueError: it cannot.
    """
    if turn.wire is None:
        raise ValueError("the turn cannot be continued: its wire was never found")
    wire = turn.record or find(turn.wire)
    if wire.resumed_arguments is None:
        raise ValueError(f"the turn cannot be continued: {wire.name} has no way to resume a response")
    if turn.resume_from is None:
        why = "it is complete" if turn.complete else "it did not begin, or its provider ended it with an error"
        raise ValueError(f"the turn cannot be continued: {why}")
    return wire


def account(turn: Turn) -> Iterator[dict[str, Any]]:
    """Yields payloads that say what the turn has."""
    path = resumable(turn).resumed_arguments
    assert path is not None, "the wire resumes"
    assert turn.resume_from is not None, "the turn can be continued"
    texts = {call.index: call.arguments_text for call in turn.calls}
    for payload, number in turn.resume_from.account:
        if number is None:
            yield dict(payload)
        elif text := texts.get(number):
            yield _with_text(payload, path, text)


def settled(turn: Turn) -> dict[str, Observation]:
    """Returns the observations of a turn that stand however it goes on, by the ids of their calls."""
    return {one.call_id: one for one in turn.observations if not OUTCOMES[one.outcome].may_run_later}


def _with_text(payload: Mapping[str, Any], path: Sequence[str], text: str) -> dict[str, Any]:
    first, *rest = path
    return {**payload, first: _with_text(payload[first], rest, text) if rest else text}
