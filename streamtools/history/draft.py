"""Exchanges single results in a history: all else stays as it is, in its place.

Theory of operation. The replacement for a result's site is noted first; `Draft.messages` then goes through the history
once. The blocks of a message with several results are counted in its native shape, a block being a result if the wire
reads it as one: so blocks of unknown kinds stay where they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..wires.answer import CallResult
from ..wires.transcript import Returned
from .native import Messages, are_same
from .repair import joined

__all__ = ["Draft", "Site", "Spot", "is_same"]


class Site(NamedTuple):
    """The position of a result."""

    place: int
    """The place of the result's message."""
    number: int
    """The result's number within the message, from 0."""


@dataclass(slots=True)
class Spot:
    """The replacement of a site: messages, or blocks of one."""

    before: list[Any] = field(default_factory=list)
    instead: Any = None
    """The new result; None if the old one stays."""
    after: list[Any] = field(default_factory=list)

    def around(self, standing: Any, plain: Any) -> list[Any]:
        """Returns the site's new content, given its present content, which `plain` holds as a plain value."""
        stays = self.instead is None or is_same(self.instead, plain)
        return [*self.before, standing if stays else self.instead, *self.after]


class Draft:
    """One history, with the changes to be made to it."""

    def __init__(self, read: Messages) -> None:
        self._read = read
        self._spots: dict[int, dict[int, Spot]] = defaultdict(lambda: defaultdict(Spot))
        self._list_fields: dict[int, str | None] = {}
        self._ahead: dict[int, list[Any]] = {}
        self._instead: dict[int, list[Any]] = {}
        self._sites: dict[int, Site] = {}
        self._counts: dict[int, int] = {}
        for (place, _), entries in read.members.items():
            results = [result for entry in entries if isinstance(entry, Returned) for result in entry.results]
            self._sites |= {id(result): Site(place, number) for number, result in enumerate(results)}
            self._counts[place] = len(results)

    def site(self, result: CallResult) -> Site:
        """Returns the site of a result of this history."""
        return self._sites[id(result)]

    def count(self, place: int) -> int:
        """Returns how many results the message at a place holds."""
        return self._counts[place]

    def spot(self, site: Site, list_field: str | None) -> Spot:
        """Returns a site's replacement, to be filled in.

        Args:
            site: the site.
            list_field: the field that holds a message's results, if it may hold several: then blocks are to stand
                there.
        """
        self._list_fields[site.place] = list_field
        return self._spots[site.place][site.number]

    def add(self, place: int, messages: list[Any]) -> None:
        """Puts messages ahead of those at a place, and behind those put there before."""
        self._ahead.setdefault(place, []).extend(messages)

    def put(self, place: int, messages: list[Any]) -> None:
        """Puts messages in the place of one that holds no results."""
        self._instead[place] = messages

    def messages(self) -> list[Any]:
        """Returns the messages with all changes; the very objects wherever nothing is changed."""
        found: list[Any] = []
        for place in range(len(self._read.given) + 1):
            now = self._now(place)
            ahead = self._ahead.get(place)
            found += joined([*ahead, *now], self._read.wire) if ahead else now
        return found

    def _now(self, place: int) -> list[Any]:
        if place in self._instead or place == len(self._read.given):
            return self._instead.get(place, [])
        message, plain, spots = self._read.given[place], self._read.plain[place], self._spots.get(place)
        if spots is None:
            return [message]
        list_field = self._list_fields[place]
        if list_field is None:
            return spots[0].around(message, plain)
        held = plain[list_field]
        blocks = [block for one in self._with_numbers(plain, list_field) for block in _placed(*one, spots)]
        return [message if are_same(blocks, held) else {**plain, list_field: blocks}]

    def _with_numbers(self, plain: dict[str, Any], list_field: str) -> Iterator[tuple[Any, int | None]]:
        """Yields the blocks of a message, with their numbers if they are results."""
        number = 0
        for block in plain[list_field]:
            entries = self._read.wire.read([{**plain, list_field: [block]}])
            if any(isinstance(entry, Returned) and entry.results for entry in entries):
                yield block, number
                number += 1
            else:
                yield block, None


def _placed(block: Any, number: int | None, spots: dict[int, Spot]) -> list[Any]:
    return [block] if number is None or number not in spots else spots[number].around(block, block)


def is_same(one: Any, other: Any) -> bool:
    """Returns whether two plain values are the same, also by their types: 1 is neither 1.0 nor True. The order of keys
    does not matter."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)
