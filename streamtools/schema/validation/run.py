"""Runs a compiled schema over a value: keeps the broken rules found, and the work that may still be done.

A schema is compiled to functions of one type, `Check`. Each returns whether a value fits; if the reasons are wanted
(`ValidationRun.found` is a list), it checks everything and notes each `Rule` that is broken.

All work has a price, so that a bound on steps is one on time. A step, a schema applied to a value, takes some 0.4 µs.
Work is counted in eighths of it: going through an entry, asking an alternative and noting a problem have their price,
and texts and long numbers have one by their length. The broken rules are put into words at the end, for as many
problems as are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ...limits import Limits
from .document import Place, Resource
from .values import deeper_than

__all__ = [
    "ENTRIES_PER_STEP",
    "At",
    "Budget",
    "Check",
    "Exhausted",
    "Found",
    "OwnValidator",
    "Rule",
    "SchemaProblem",
    "ValidationRun",
    "accept",
]


CHARS_PER_STEP = 64  # of a text that is compared, or matched against a pattern: some 0.3 µs
ENTRIES_PER_STEP = 8
"""Entries (options, names, items) that cost about as much to go through as a schema."""
_STEP = ENTRIES_PER_STEP  # in units of work
_MAX_AT_ONCE = 800_000  # units of work that may hold the interpreter: some 40 ms
_ASKING = 8  # units for asking an alternative, whatever its cost
_EXPLAINING = 24  # units for asking an alternative for its problems, and deciding by them whether it was meant
MAX_PROBLEMS = 64  # kept of one validation; a list of a thousand bad items tells no more than its first ones

At: TypeAlias = Any
"""The place of a value in the arguments: ``(place of its parent, name or position)``; None for the arguments
themselves. One is made at every step down, so it is the cheapest form that can be turned into a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaProblem:
    """One rule of a schema that a value breaks."""

    path: tuple[str | int, ...]
    """The place in the value: names and positions. A name that is missing, or not allowed, is the last one."""
    keyword: str
    """The keyword that is broken (``minimum``); ``limit`` if the value could not be checked to its end."""
    message: str
    """The demand that the value breaks. Never the value itself."""
    schema_path: str
    """JSON pointer of the keyword in the schema (``#/properties/city/minLength``)."""


class Stop(Exception):
    """Stops a validation: enough problems were found, or too much work was done."""


class Exhausted(Stop):
    """``max_validation_steps`` are used up."""


class Budget:
    """The work that may be done for one value, by as many validations as it takes.

    Args:
        steps: schemas that may be applied to values.
        tells: exceeding the budget is a problem of the value; if not, `Exhausted` is raised, so that the work can begin
            again elsewhere with a larger budget.
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
        """Work that may still be done, in eighths of a step."""
        self.scope = [resource]
        """The resources that were entered, the outermost first; maintained only for documents that need it."""
        self.found = found
        """The rules found to be broken; None while only the verdict counts."""

    def fits(self, check: Check, value: Any, at: At) -> bool:
        """Returns the verdict alone; notes nothing."""
        self.units -= _ASKING
        if self.units < 0:
            raise Exhausted
        kept, self.found = self.found, None
        fits = check(value, at, self)
        self.found = kept
        return fits

    def explain(self, check: Check, value: Any, at: At) -> list[Found]:
        """Returns the broken rules alone; does not note them, either."""
        self.spend_on(_EXPLAINING)
        kept, depth = self.found, len(self.scope)
        found: list[Found] = []
        self.found = found
        try:
            check(value, at, self)
        except Exhausted:
            raise
        except Stop:
            del self.scope[depth:]  # there are enough; the check was left in the middle
        self.found = kept
        return found

    def note(self, found: Found) -> None:
        """Notes a broken rule; stops when there are enough."""
        assert self.found is not None, "rules are noted only where they are wanted"
        self.found.append(found)
        self.spend(1)
        if len(self.found) >= MAX_PROBLEMS:
            raise Stop

    def find(self, name: str, otherwise: Place) -> Place:
        """Returns the target of a ``$dynamicRef`` to `name` here: its anchor in the outermost resource that has one."""
        self.spend_on(len(self.scope))
        for resource in self.scope:
            if name in resource.dynamic:
                return resource.dynamic[name]
        return otherwise

    def spend_on(self, entries: int) -> None:
        """Counts the work of going through entries, whatever is done with each."""
        self.units -= entries
        if self.units < 0:
            raise Exhausted

    def spend(self, steps: int) -> None:
        """Counts work that no schema counts by itself."""
        self.units -= steps * _STEP
        if self.units < 0:
            raise Exhausted

    def spend_at_once(self, units: int) -> None:
        """Counts work that nothing can interrupt, and refuses work that would take too long."""
        self.units -= units
        if self.units < 0 or units > _MAX_AT_ONCE:
            raise Exhausted

    def spend_on_text(self, chars: int) -> None:
        """Counts the work of comparing texts of that many characters in all; short ones are not worth counting."""
        if chars >= CHARS_PER_STEP:
            self.spend(chars // CHARS_PER_STEP)


Check: TypeAlias = Callable[[Any, At, ValidationRun], bool]
"""Returns whether a value fits. Its arguments: the value, its place, the run."""


@dataclass(slots=True, eq=False)
class Rule:
    """A demand of a keyword, with the message for breaking it."""

    keyword: str
    message: str
    place: Place
    step: str
    """The steps from the schema to the keyword: ``/minimum``."""

    def broken(self, at: At, run: ValidationRun) -> Literal[False]:
        """Notes that the rule is broken. Returns False, as the verdict."""
        if run.found is not None:
            run.note((at, self))
        return False


Found: TypeAlias = tuple[At, Rule]
"""A broken rule, and the place of the value that breaks it."""


def problems_of(found: Iterable[Found]) -> list[SchemaProblem]:
    """Puts the broken rules into words."""
    return [
        SchemaProblem(
            path=path_of(at), keyword=rule.keyword, message=rule.message, schema_path=rule.place.pointer + rule.step
        )
        for at, rule in found
    ]


def path_of(at: At) -> tuple[str | int, ...]:
    """Returns the path as a tuple, from the arguments down."""
    steps = []
    while at is not None:
        at, step = at
        steps.append(step)
    return tuple(reversed(steps))


def accept(value: Any, at: At, run: ValidationRun) -> bool:
    """Accepts any value, as a schema without rules does."""
    return True


@dataclass(slots=True, eq=False)
class OwnValidator:
    """Validates by this package's own checks."""

    _check: Check
    _resource: Resource
    _is_recursive: bool
    unenforced: tuple[str, ...]
    _limits: Limits
    name: str = field(default="jsonschema", init=False)

    def is_valid(self, value: Any) -> bool:
        """Returns whether a value fits."""
        return self._judge(value, Budget(self._limits.max_validation_steps), None) is True

    def validate(self, value: Any, budget: Budget | None = None) -> list[SchemaProblem]:
        """Returns the problems of a value."""
        budget = budget or Budget(self._limits.max_validation_steps)
        verdict = self._judge(value, budget, None)
        if verdict is True:
            return []
        found: list[Found] = []
        if verdict is False:
            verdict = self._judge(value, budget, found)
        problems = problems_of(found)
        if isinstance(verdict, SchemaProblem):
            return [*problems, verdict]
        if not problems:  # pragma: no cover - a check that fails notes the broken rule; if not, better refused than run
            return [SchemaProblem(path=(), keyword="", message="does not fit the schema", schema_path="#")]
        return problems

    def _judge(self, value: Any, budget: Budget, found: list[Found] | None) -> bool | SchemaProblem:
        """Returns whether a value fits, or the limit that keeps this from being found out."""
        limits = self._limits
        run = ValidationRun(budget.units, self._resource, found)
        try:
            if self._is_recursive and found is None and deeper_than(value, limits.max_schema_depth, run.spend_on):
                what = "is nested deeper than this schema is followed"
                return _limit("max_schema_depth", limits.max_schema_depth, what)
            return self._check(value, None, run)
        except Exhausted:
            if not budget.tells:
                raise
            return _limit("max_validation_steps", limits.max_validation_steps, "takes too much work to check")
        except Stop:
            return False
        except RecursionError:  # the interpreter's own limit, most of which the caller may have used up
            return _limit("max_schema_depth", limits.max_schema_depth, "is nested too deep to be checked from here")
        finally:
            budget.units = run.units


def _limit(setting: str, limit: int, message: str) -> SchemaProblem:
    return SchemaProblem(path=(), keyword="limit", message=f"{message} (Limits({setting}={limit}))", schema_path="#")
