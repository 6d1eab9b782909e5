"""Finds the call of a history that an observation belongs to, and exchanges results at their sites.

Theory of operation. A turn's ids are unique, a history's need not be: an id that the provider refuses is replaced by
another (`stand_ins`), an id that it gives anew in each turn appears several times, and some wires have no ids. So an
observation's call is the latest with its id; a call of the observation's tool is preferred, if there is one. A call
without an id is found by its tool and its place in the answer, which is weak evidence for a single call: therefore all
observations of such calls have to belong to one answer, the latest that has all of them.

The replacement for a result's site is noted first; `Draft.messages` then goes through the history once, and all else
stays as it is, in its place. The blocks of a message with several results are counted in its native shape, a block
being a result if the wire reads it as one: so blocks of unknown kinds stay where they are.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..events import Observation
from ..parts import ToolCall
from ..wires import Wire
from ..wires.answer_builder import id_as_read
from ..wires.transcript import CallResult, Returned
from .calls import stand_ins
from .native import Messages, are_same, shown
from .pairing import Exchange, Paired
from .repair import joined

__all__ = ["Draft", "Observed", "Site", "Spot", "is_same", "observed_calls"]

Observed = Mapping[str, Observation]
"""Observations by their call's name as read (`ToolCall.call_id` in an `Exchange`)."""

# as the stage `accumulate` generates them: only such calls may have no id there
_MADE_UP = re.compile(r"call_[0-9a-f]{24}")


class _Place(NamedTuple):
    """A call of a history, with its answer."""

    answer: int
    """The number of its answer, counted from the first."""
    exchange: Exchange
    call: ToolCall


def observed_calls(observations: Iterable[Observation], paired: Paired, wire: Wire) -> dict[Exchange, Observed]:
    """Returns the observations by the answers and calls they belong to. Costs time linear in the history.

    Raises:
        ValueError: an observation's call is not in the history, or two observations are of one call.
    """
    calls = _Calls(paired, wire)
    found: dict[Exchange, dict[str, Observation]] = {}
    nameless: list[Observation] = []
    for observation in observations:
        place = calls.by_id(observation)
        if place is not None:
            _add(found, place.exchange, place.call, observation)
        elif _MADE_UP.fullmatch(observation.call_id):
            nameless.append(observation)
        else:
            raise ValueError(f"no call {shown(observation.call_id)} is in the history: its result has no place there")
    if nameless:
        exchange, asked = calls.without_ids(nameless)
        for call, observation in zip(asked, nameless, strict=True):
            _add(found, exchange, call, observation)
    return {**found}


def _add(
    found: dict[Exchange, dict[str, Observation]], exchange: Exchange, call: ToolCall, observation: Observation
) -> None:
    observed = found.setdefault(exchange, {})
    if call.call_id in observed:
        raise ValueError(f"two observations of the call {shown(observation.call_id)}: a call has one result")
    observed[call.call_id] = observation


class _Calls:
    """The calls of a history."""

    def __init__(self, paired: Paired, wire: Wire) -> None:
        self._exchanges = [step for step in paired.steps if isinstance(step, Exchange)]
        self._wire = wire
        self._latest: dict[str, dict[str, _Place]] = {}  # by id, then by name of the tool
        for number, exchange in enumerate(self._exchanges):
            # Of several calls with one id in one answer, the first keeps it; a turn generates ids for the others.
            by_own_id = {id_as_read(call.call_id): call for call in reversed(exchange.calls)}
            for own, call in by_own_id.items():
                if own:
                    self._latest.setdefault(own, {})[call.name] = _Place(number, exchange, call)

    def by_id(self, observation: Observation) -> _Place | None:
        """Returns the call that has the observation's id, or None."""
        names = stand_ins(observation.call_id, self._wire, self._latest)
        places = [(place, number) for number, name in enumerate(names) for place in self._latest[name].values()]

        def likelihood(at: tuple[_Place, int]) -> tuple[bool, int, int]:
            place, number = at
            return self._is_of(observation, place.call), place.answer, number

        return max(places, key=likelihood)[0] if places else None

    def without_ids(self, observations: Sequence[Observation]) -> tuple[Exchange, list[ToolCall]]:
        """Returns the latest answer that has all these calls without ids, and the calls in the observations' order."""
        for exchange in reversed(self._exchanges) if self._wire.rules.call_ids_optional else ():
            calls = {call.index: call for call in exchange.calls if not id_as_read(call.call_id)}
            if len(calls) < len({observation.index for observation in observations}):
                continue
            asked = [(calls.get(observation.index), observation) for observation in observations]
            fit = [call for call, observation in asked if call is not None and self._is_of(observation, call)]
            if len(fit) == len(observations):
                return exchange, fit
        first, more = observations[0], len(observations) - 1
        raise ValueError(
            f"no call {shown(first.call_id)} is in the history: its result has no place there"
            + (f"; nor has any answer there {more} more without ids: give those of one turn at a time" if more else "")
        )

    def _is_of(self, observation: Observation, call: ToolCall) -> bool:
        """Returns whether the call is of the observation's tool, as far as the tool's name could stand in a history."""
        return call.name == observation.tool_name or not self._wire.rules.names.takes(observation.tool_name)


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
