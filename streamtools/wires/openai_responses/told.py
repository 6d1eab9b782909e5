"""A response that was cut, as events: what its stream had said, each text in one piece.

A decoder that is fed these stands where the cut one stood. The arguments of a call that was growing are not here: they
are in the turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

from .facts import ARGUMENTS, TEXT_DELTAS
from .items import Item

__all__ = ["Told", "account"]

Told: TypeAlias = "tuple[dict[str, Any], int | None]"
"""An event; and the number of the call whose arguments belong into it."""

_DELTAS = {(type_, channel): (event, number) for event, (type_, channel, number) in TEXT_DELTAS.items()}
_ARGUMENTS = {type_: event for event, (type_, _) in ARGUMENTS.items()}


def account(
    response: Mapping[str, Any], lane: Mapping[str, Any], items: Iterable[Item], elsewhere: str | None
) -> Iterator[Told]:
    """Yields the events of a response.

    Args:
        response: as it was created.
        lane: its lane, as a field of each event.
        items: its items so far.
        elsewhere: the id of another response on its lane, whose events came last.
    """
    yield {"type": "response.created", "response": dict(response), **lane}, None
    for item in items:
        for event, number in _of_item(item):
            yield {**event, **lane}, number
    if elsewhere is not None:
        yield {"type": "response.created", "response": {"id": elsewhere}, **lane}, None


def _of_item(item: Item) -> Iterator[Told]:
    place: dict[str, Any] = {} if item.index is None else {"output_index": item.index}
    if item.announced:
        yield {"type": "response.output_item.added", **place, "item": dict(item.head)}, None
    if item.done:
        yield {"type": "response.output_item.done", **place, "item": dict(item.head)}, None
        return
    for event in _texts(item):
        yield event | place, None
    if item.kind is not None and (prefix := _ARGUMENTS.get(item.type)) is not None:
        yield {"type": f"{prefix}.delta", **place, "delta": ""}, item.call_number
        if item.text_done:
            yield {"type": f"{prefix}.done", **place, "arguments": ""}, None


def _texts(item: Item) -> Iterator[dict[str, Any]]:
    """Yields the texts of an item in the order in which they were told, each paragraph by itself."""
    ends = {channel: len(pieces) for channel, pieces in item.told.items()}
    for (channel, paragraph, start), following in pairwise([*item.paragraphs, ("", None, 0)]):
        end = following[2] if following[0] == channel else ends[channel]
        if text := "".join(item.told[channel][start:end]):
            event, number = _DELTAS[item.type, channel]
            yield {"type": event, **({} if paragraph is None else {number: paragraph}), "delta": text}
