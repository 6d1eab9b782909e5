"""Pairs results with the calls they answer, before a history is linted or repaired.

Theory of operation. Entries are walked once. A result belongs to a call of the latest answer, by id; if no call there
has it, to the oldest open call with the id; a result without an id, to the first open call of the latest answer with
its name. Ids need not be unique: a provider that counts its calls anew in each turn gives the same ids again, and then
the latest turn is meant (can1357/oh-my-pi#2055). A result that belongs to no call is a stray.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from ..parts import ToolCall
from ..wires.answer_builder import id_as_read
from ..wires.history_rules import HistoryRules
from ..wires.transcript import CallResult, Entry, Prompt, Returned, Said
from .native import is_empty

__all__ = ["Exchange", "Given", "Paired", "Stray", "pair"]


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """A result and the entry that it stands in."""

    result: CallResult
    source: Returned


@dataclass(slots=True, eq=False)
class Exchange:
    """An answer of the model and the results of its calls."""

    said: Said
    given: dict[str, Given] = field(default_factory=dict)
    """The results that are there, by id of the call."""
    live: bool = False
    """True if nothing follows, and calls are open: they may still be running."""

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that need a result, in call order."""
        return self.said.answer.our_calls

    @property
    def open_calls(self) -> list[ToolCall]:
        """The calls that still need a result."""
        return [call for call in self.calls if call.call_id not in self.given]


@dataclass(frozen=True, slots=True, eq=False)
class Stray:
    """A result that answers no call."""

    result: CallResult
    source: Returned
    is_duplicate: bool
    """True if a call with its id has a result already."""


@dataclass(slots=True, eq=False)
class Paired:
    """A history whose results stand with their calls."""

    steps: list[Prompt | Exchange]
    strays: list[Stray]


def pair(entries: Iterable[Entry], rules: HistoryRules) -> Paired:
    """Gives each result to its call. Empty entries are left out. Costs time linear in the history."""
    pairing = _Pairing(rules)
    for entry in entries:
        if is_empty(entry):
            continue
        if isinstance(entry, Prompt):
            pairing.steps.append(entry)
        elif isinstance(entry, Said):
            pairing.say(entry)
        else:
            for result in entry.results:
                pairing.give(result, entry)
    last = pairing.steps[-1] if pairing.steps else None
    if isinstance(last, Exchange):
        last.live = bool(last.open_calls)
    return Paired(pairing.steps, pairing.strays)


class _Pairing:
    def __init__(self, rules: HistoryRules) -> None:
        self.steps: list[Prompt | Exchange] = []
        self.strays: list[Stray] = []
        self._ids_optional = rules.call_ids_optional
        self._latest: Exchange | None = None
        self._open: dict[_Key, deque[str]] = {}  # calls of the latest answer, under all that a result may say of them
        self._earlier: dict[str, deque[tuple[Exchange, str]]] = defaultdict(deque)
        self._answered: set[str] = set()

    def say(self, said: Said) -> None:
        if self._latest is not None:
            for call in self._latest.open_calls:
                self._earlier[id_as_read(call.call_id)].append((self._latest, call.call_id))
        self._latest = Exchange(said)
        self.steps.append(self._latest)
        self._open = defaultdict(deque)
        for call in self._latest.calls:
            own = id_as_read(call.call_id)
            known: tuple[_Key, ...] = (("id", own, ""), ("id", own, call.name))
            unknown: tuple[_Key, ...] = (("no id", "", ""), ("no id", "", call.name))
            for key in (*(known if own else unknown), ("any", "", ""), ("any", "", call.name)):
                self._open[key].append(call.call_id)

    def give(self, result: CallResult, source: Returned) -> None:
        found = self._call_of(result)
        if found is None:
            is_duplicate = bool(result.call_id) and result.call_id in self._answered
            self.strays.append(Stray(result, source, is_duplicate))
            return
        exchange, call_id = found
        exchange.given[call_id] = Given(result, source)
        self._answered.add(id_as_read(call_id))

    def _call_of(self, result: CallResult) -> tuple[Exchange, str] | None:
        name = result.name or ""
        if not result.call_id:
            return self._next("no id", "", name) or self._next("any", "", name) if name or self._ids_optional else None
        if found := self._next("id", result.call_id, name) or self._next("id", result.call_id, ""):
            return found
        if waiting := self._earlier.get(result.call_id):
            return waiting.popleft()
        return self._next("no id", "", name) if self._ids_optional else None

    def _next(self, *told: str) -> tuple[Exchange, str] | None:
        """Returns the first open call of the latest answer that the key fits."""
        queue = self._open.get((told[0], told[1], told[2]))
        while self._latest is not None and queue:
            call_id = queue.popleft()
            if call_id not in self._latest.given:
                return self._latest, call_id
        return None


_Key: TypeAlias = tuple[str, str, str]
"""A result's description of its call: the kind of its id (one, none, or any), the id, and the name, ``""`` for any."""
