"""Finds the call of a history that an observation belongs to.

Theory of operation. A turn's ids are unique, a history's need not be: an id that the provider refuses is replaced by
another (`stand_ins`), an id that it gives anew in each turn appears several times, and some wires have no ids. So an
observation's call is the latest with its id; a call of the observation's tool is preferred, if there is one. A call
without an id is found by its tool and its place in the answer, which is weak evidence for a single call: therefore all
observations of such calls have to belong to one answer, the latest that has all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..events import Observation
from ..parts import ToolCall
from ..wires import Wire
from ..wires.saying import id_as_read
from .calls import stand_ins
from .native import shown
from .pairing import Exchange, Paired

__all__ = ["Observed", "observed_calls"]

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
