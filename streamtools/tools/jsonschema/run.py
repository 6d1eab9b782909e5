"""One validation while it runs: what it has found, and what it may still spend.

A schema is compiled to functions of one type, `Check`. Each says whether a value fits; where somebody wants to know why
not (`Run.problems` is a list), it looks at everything and notes each `Rule` that is broken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .document import Place, Resource

__all__ = ["CHARS_PER_STEP", "ENTRIES_PER_STEP", "At", "Check", "Rule", "Run", "SchemaProblem", "Stop", "accept"]

CHARS_PER_STEP = 64  # of a text that a pattern is held against: some 0.3 µs
ENTRIES_PER_STEP = 8
"""Going through that many entries (options, names, items) costs about what a schema does."""
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


class Run:
    """The state of one validation."""

    __slots__ = ("problems", "scope", "steps")

    def __init__(self, steps: int, resource: Resource, problems: list[SchemaProblem] | None = None) -> None:
        self.steps = steps
        """How many schemas may still be applied to values."""
        self.scope = [resource]
        """The resources that were entered, the outermost first; kept up only in documents that need it."""
        self.problems = problems
        """What was found; None while only the verdict counts."""

    def fits(self, check: Check, value: Any, at: At) -> bool:
        """The verdict alone; nothing is noted."""
        kept, self.problems = self.problems, None
        fits = check(value, at, self)
        self.problems = kept
        return fits

    def explain(self, check: Check, value: Any, at: At) -> list[SchemaProblem]:
        """The problems alone; they are not noted, either."""
        kept, depth = self.problems, len(self.scope)
        found: list[SchemaProblem] = []
        self.problems = found
        try:
            check(value, at, self)
        except Exhausted:
            raise
        except Stop:
            del self.scope[depth:]  # it is full; the check was left in the middle
        self.problems = kept
        return found

    def note(self, problem: SchemaProblem) -> None:
        """Keep a problem; stop when there are enough."""
        assert self.problems is not None, "problems are made only where they are wanted"
        self.problems.append(problem)
        if len(self.problems) >= MAX_PROBLEMS:
            raise Stop

    def find(self, name: str, otherwise: Place) -> Place:
        """What a ``$dynamicRef`` to `name` means here: its anchor in the outermost resource that has one."""
        self.spend(len(self.scope) // 8)
        for resource in self.scope:
            if name in resource.dynamic:
                return resource.dynamic[name]
        return otherwise

    def spend_on(self, entries: int) -> None:
        """Count the work of going through entries, whatever is done with each."""
        self.spend(entries // ENTRIES_PER_STEP)

    def spend(self, steps: int) -> None:
        """Count work that no schema counts by itself."""
        self.steps -= steps
        if self.steps < 0:
            raise Exhausted


Check: TypeAlias = Callable[[Any, At, Run], bool]
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

    def broken(self, at: At, run: Run) -> Literal[False]:
        """Note the problem. Always False: the verdict."""
        if run.problems is not None:
            run.note(
                SchemaProblem(
                    path=path_of(at),
                    keyword=self.keyword,
                    message=self.message,
                    schema_path=self.place.pointer + self.step,
                )
            )
        return False


def path_of(at: At) -> tuple[str | int, ...]:
    """The path as a tuple, from the arguments down."""
    steps = []
    while at is not None:
        at, step = at
        steps.append(step)
    return tuple(reversed(steps))


def accept(value: Any, at: At, run: Run) -> bool:
    """What a schema without rules says."""
    return True
