"""One validation while it runs: what it has found, and what it may still spend.

A schema is compiled to functions of one type, `Check`. Each says whether a value fits; where somebody wants to know why
not (`ValidationRun.found` is a list), it looks at everything and notes each `Rule` that is broken.

All work has a price, so that a bound on steps is one on time. A step, a schema applied to a value, takes some 0.4 µs.
Work is counted in eighths of it: going through an entry, asking an alternative and noting a problem have their price,
and texts and long numbers one by their length. What is found is made words of at the end, for as many problems as are
shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .document import Place, Resource

__all__ = [
    "CHARS_PER_STEP",
    "ENTRIES_PER_STEP",
    "At",
    "Budget",
    "Check",
    "Exhausted",
    "Found",
    "Rule",
    "ValidationRun",
    "SchemaProblem",
    "Stop",
    "accept",
    "problems_of",
]

CHARS_PER_STEP = 64  # of a text that is compared, or that a pattern is held against: some 0.3 µs
ENTRIES_PER_STEP = 8
"""Going through that many entries (options, names, items) costs about what a schema does."""
_STEP = ENTRIES_PER_STEP  # in units of work
_MAX_AT_ONCE = 800_000  # units that the interpreter may be held for: some 40 ms
_ASKING = 8  # units for asking an alternative, whatever it does
_EXPLAINING = 24  # units for asking it for its problems, and judging by them whether it was meant
MAX_PROBLEMS = 64  # kept of one validation; a list of a thousand bad items says nothing more than its first ones

At: TypeAlias = Any
"""Where in the arguments a value is: ``(where its parent is, name or position)``; None for the arguments themselves.
Made at every step down, so it is the cheapest thing that can be turned into a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaProblem:
    """One rule of a schema that a value breaks."""

    path: tuple[str | int, ...]
    """Where in the value: names and positions. A name that is missing, or is there and should not, is the last one."""
    keyword: str
    """The keyword that says so (``minimum``); ``limit`` if the value could not be checked to its end."""
    message: str
    """What it should be. Never the value itself."""
    schema_path: str
    """JSON pointer of the keyword in the schema (``#/properties/city/minLength``)."""


class Stop(Exception):
    """Nothing more is looked at: enough has been found, or too much been spent."""


class Exhausted(Stop):
    """``max_validation_steps`` are used up."""


class Budget:
    """What may be spent on one value, by as many validations as it takes.

    Args:
        steps: schemas that may be applied to values.
        tells: exceeding it is a problem of the value; if not, `Exhausted` is raised, so that the work can be begun
            again elsewhere with more.
        native: engines that cannot be stopped may be asked, too.
    """

    __slots__ = ("native", "tells", "units")

    def __init__(self, steps: int, *, tells: bool = True, native: bool = True) -> None:
        self.units = steps * _STEP
        self.tells = tells
        self.native = native


class ValidationRun:
    """The state of one validation."""

    __slots__ = ("found", "scope", "units")

    def __init__(self, units: int, resource: Resource, found: list[Found] | None = None) -> None:
        self.units = units
        """What may still be spent, in eighths of a step."""
        self.scope = [resource]
        """The resources that were entered, the outermost first; kept up only in documents that need it."""
        self.found = found
        """The rules that were found broken; None while only the verdict counts."""

    def fits(self, check: Check, value: Any, at: At) -> bool:
        """The verdict alone; nothing is noted."""
        self.units -= _ASKING
        if self.units < 0:
            raise Exhausted
        kept, self.found = self.found, None
        fits = check(value, at, self)
        self.found = kept
        return fits

    def explain(self, check: Check, value: Any, at: At) -> list[Found]:
        """The broken rules alone; they are not noted, either."""
        self.spend_on(_EXPLAINING)
        kept, depth = self.found, len(self.scope)
        found: list[Found] = []
        self.found = found
        try:
            check(value, at, self)
        except Exhausted:
            raise
        except Stop:
            del self.scope[depth:]  # it is full; the check was left in the middle
        self.found = kept
        return found

    def note(self, found: Found) -> None:
        """Keep what was found; stop when there is enough."""
        assert self.found is not None, "rules are noted only where they are wanted"
        self.found.append(found)
        self.spend(1)
        if len(self.found) >= MAX_PROBLEMS:
            raise Stop

    def find(self, name: str, otherwise: Place) -> Place:
        """What a ``$dynamicRef`` to `name` means here: its anchor in the outermost resource that has one."""
        self.spend_on(len(self.scope))
        for resource in self.scope:
            if name in resource.dynamic:
                return resource.dynamic[name]
        return otherwise

    def spend_on(self, entries: int) -> None:
        """Count the work of going through entries, whatever is done with each."""
        self.units -= entries
        if self.units < 0:
            raise Exhausted

    def spend(self, steps: int) -> None:
        """Count work that no schema counts by itself."""
        self.units -= steps * _STEP
        if self.units < 0:
            raise Exhausted

    def spend_at_once(self, units: int) -> None:
        """Count work that nothing can interrupt, and give up what would take too long."""
        self.units -= units
        if self.units < 0 or units > _MAX_AT_ONCE:
            raise Exhausted

    def spend_on_text(self, chars: int) -> None:
        """Count the work of comparing texts of that many characters together; short ones are not worth counting."""
        if chars >= CHARS_PER_STEP:
            self.spend(chars // CHARS_PER_STEP)


Check: TypeAlias = Callable[[Any, At, ValidationRun], bool]
"""Whether a value fits. Its arguments: value, where it is, the run."""


class Rule:
    """What a keyword demands, as it is told when it is broken."""

    __slots__ = ("keyword", "message", "place", "step")

    def __init__(self, keyword: str, message: str, place: Place, step: str) -> None:
        self.keyword = keyword
        self.message = message
        self.place = place
        self.step = step
        """From the schema to the keyword: ``/minimum``."""

    def broken(self, at: At, run: ValidationRun) -> Literal[False]:
        """Note that it is broken. Always False: the verdict."""
        if run.found is not None:
            run.note((at, self))
        return False


Found: TypeAlias = tuple[At, Rule]
"""A rule that is broken, and where."""


def problems_of(found: Iterable[Found]) -> list[SchemaProblem]:
    """What was found, in words."""
    return [
        SchemaProblem(
            path=path_of(at), keyword=rule.keyword, message=rule.message, schema_path=rule.place.pointer + rule.step
        )
        for at, rule in found
    ]


def path_of(at: At) -> tuple[str | int, ...]:
    """The path as a tuple, from the arguments down."""
    steps = []
    while at is not None:
        at, step = at
        steps.append(step)
    return tuple(reversed(steps))


def accept(value: Any, at: At, run: ValidationRun) -> bool:
    """What a schema without rules says."""
    return True
