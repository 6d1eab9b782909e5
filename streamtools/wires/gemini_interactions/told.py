"""An interaction that was cut, as events: what its stream had said, each text in one piece.

A decoder that is fed these stands where the cut one stood. The arguments of a call that was growing are not here: they
are in the turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from .steps import GrowingStep

__all__ = ["Told", "account"]

Told: TypeAlias = "tuple[dict[str, Any], int | None]"
"""An event; and the number of the call whose arguments belong into it."""


def account(
    model: object,
    ids: Sequence[str | None],
    steps: Iterable[GrowingStep],
    since: int,
    earlier: Mapping[str, int],
    usage: Mapping[str, Any] | None,
    elsewhere: str | None,
    strays: Iterable[object] = (),
) -> Iterator[Told]:
    """Yields the events of a turn.

    Args:
        model: its model.
        ids: of its first interaction, and of the one that was cut, if that is another.
        steps: all its steps.
        since: the number of the first step of the one that was cut.
        earlier: the counts of those before, by their names.
        usage: the counts of the one that was cut.
        elsewhere: the id of another turn, whose events came last.
        strays: the places of steps that are over, or are no calls, at which arguments came.
    """
    first, *others = ids
    yield _interaction("created", id=first, model=model, status="in_progress"), None
    for step in steps:
        if others and step.number >= since:
            yield from _next_hop(first, others.pop(), earlier)
        yield from _of_step(step)
    if others:
        yield from _next_hop(first, others.pop(), earlier)
    for index in strays:
        yield _piece({"index": index}, " "), None
    if usage is not None:
        status = {"interaction_id": ids[-1] or "", "status": "in_progress", "usage": dict(usage)}
        yield {"event_type": "interaction.status_update", **status}, None
    if elsewhere is not None:
        yield _interaction("created", id=elsewhere, status="in_progress"), None


def _next_hop(first: str | None, id_: str | None, earlier: Mapping[str, int]) -> Iterator[Told]:
    yield _interaction("completed", id=first, status="requires_continuation", usage=dict(earlier)), None
    yield _interaction("created", id=id_, status="in_progress"), None


def _interaction(event: str, **interaction: Any) -> dict[str, Any]:
    return {"event_type": f"interaction.{event}", "interaction": interaction}


def _of_step(step: GrowingStep) -> Iterator[Told]:
    place = {"index": step.index}
    arguments = list(_arguments(step, place))
    begun = step.announced and not step.early
    if not begun:  # a decoder that is fed this has to find them before the start, too
        yield from arguments or [(_piece(place, " " if step.early else ""), None)]
    if step.announced:
        yield {"event_type": "step.start", **place, "step": dict(step.as_sent())}, None
    if begun:
        yield from arguments
    if step.stopped and not step.cut:
        yield {"event_type": "step.stop", **place}, None


def _arguments(step: GrowingStep, place: Mapping[str, Any]) -> Iterator[Told]:
    text, _ = step.arguments
    if step.grows:
        yield _piece(place), step.call_number
    elif step.is_call_of_ours and text not in ("", "{}"):
        yield _piece(place, text), None


def _piece(place: Mapping[str, Any], *text: str) -> dict[str, Any]:
    arguments = {"arguments": text[0]} if text else {}
    return {"event_type": "step.delta", **place, "delta": {"type": "arguments_delta", **arguments}}
