"""Compiles a document: one function per schema, so that the schema is not read again for each value.

The functions of the keywords come from `Maker`: a table of them is handed to the `Compiler`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...limits import Limits
from .document import Document, Place, Resource
from .patterns import Pattern, PatternError, compile_pattern
from .reading import escaped, refuse_size
from .run import ENTRIES_PER_STEP, At, Check, Exhausted, Rule, ValidationRun, accept
from .values import KINDS, OTHER, is_integer, kind_of
from .vocabulary import TYPES

__all__ = ["ANY", "ARRAY", "NUMBER", "OBJECT", "TEXT", "Compiler", "Maker", "Makers", "Making", "size_bound"]

ANY: tuple[type, ...] = (*KINDS, OTHER)
OBJECT: tuple[type, ...] = (dict,)
ARRAY: tuple[type, ...] = (list,)
TEXT: tuple[type, ...] = (str,)
NUMBER: tuple[type, ...] = (int, float)


class Making:
    """One schema while its keywords become checks."""

    __slots__ = ("compiler", "keywords", "place")

    def __init__(self, place: Place, compiler: Compiler) -> None:
        self.place = place
        self.compiler = compiler
        self.keywords: dict[str, Any] = place.keywords

    def rule(self, keyword: str, message: str, *names: str) -> Rule:
        """Returns a rule of a keyword; `names` lead on from the keyword to the place that is meant."""
        return Rule(keyword, message, self.place, "".join(f"/{escaped(name)}" for name in (keyword, *names)))

    def one(self, keyword: str) -> Check | None:
        """Returns the check of the one schema under a keyword."""
        held = self.place.children.get(keyword)
        return None if held is None else self.compiler.check(held[0])

    def many(self, keyword: str) -> list[Check]:
        """Returns the checks of the schemas in the list under a keyword."""
        return [self.compiler.check(place) for place in self.place.children.get(keyword, {}).values()]

    def named(self, keyword: str) -> dict[str, Check]:
        """Returns the checks of the schemas under a keyword, by name."""
        held = self.place.children.get(keyword, {})
        return {str(name): self.compiler.check(place) for name, place in held.items()}


class Maker(NamedTuple):
    """Makes a check of keywords."""

    keywords: tuple[str, ...]
    """The keywords, any of which makes the check; several that work together make one."""
    kinds: tuple[type, ...]
    """The Python types of values that the check concerns."""
    make: Callable[[Making], Check | None]
    """Makes the check; returns None if the keywords demand nothing."""


def size_bound(keyword: str, kinds: tuple[type, ...], one: str, many: str) -> Maker:
    """Returns the maker of a bound on the size of values, which is counted in `many`: ``minItems``, ``maxLength``."""
    which = "least" if keyword.startswith("min") else "most"

    def make(making: Making) -> Check:
        limit = int(making.keywords[keyword])
        rule = making.rule(keyword, f"should have at {which} {limit} {one if limit == 1 else many}")

        def at_least(value: Any, at: At, run: ValidationRun) -> bool:
            return len(value) >= limit or rule.broken(at, run)

        def at_most(value: Any, at: At, run: ValidationRun) -> bool:
            return len(value) <= limit or rule.broken(at, run)

        return at_least if which == "least" else at_most

    return Maker((keyword,), kinds, make)


class Makers:
    """Makers in the order in which their checks run, and by keyword."""

    def __init__(self, *makers: Maker) -> None:
        self.all = makers
        self.number = {keyword: number for number, maker in enumerate(makers) for keyword in maker.keywords}


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}

MAX_PATTERN_WEIGHT = 200_000
"""Largest weight of all patterns of a document together, as `patterns` counts it: some 0.2 s of compiling."""
USUAL_CHECKS = 4  # checks of one type of value that a step pays for
MAX_LINES = 64  # about patterns that are not enforced

_Table = dict[type, tuple[Check, ...]]


@dataclass(slots=True, eq=False)
class _Cell:
    """A schema's check, which may not be made yet."""

    check: Check = accept


class Compiler:
    """Compiles a document's schemas, as far as they can be reached.

    Args:
        document: the document.
        limits: ``max_pattern_chars``.
        first: the makers of a schema's checks.
        last: the makers of checks that come after all others of their schema.
    """

    def __init__(self, document: Document, limits: Limits, first: Makers, last: Makers) -> None:
        self.document = document
        self._first = first
        self._last = last
        self._refused: dict[tuple[Place, str], str] = {}
        self._limits = limits
        self._checks: dict[Place, Check] = {}
        self._cells: dict[Place, _Cell] = {}
        self._waiting: list[Place] = []
        self._done = False
        self._patterns: dict[str, Pattern | str] = {}
        self.weight = 0
        """Weight of all patterns together, each counted once."""
        self.memory: dict[Any, Any] = {}
        """Objects that makers want to make only once."""

    def compile(self) -> Check:
        """Returns the check of the whole schema."""
        check = self.check(self.document.root)
        while self._waiting:
            place = self._waiting.pop()
            self._cells[place].check = self.check(place)
        self._done = True
        return check

    def check(self, place: Place) -> Check:
        """Returns the check of a schema. Recursion goes no deeper than schemas are nested; references wait."""
        made = self._checks.get(place)
        if made is None:
            made = self._checks[place] = self._make(place)
        return made

    def reference(self, place: Place) -> Check:
        """Returns the check of a schema anywhere; it need not be made before it is used."""
        cell = self._cells.get(place)
        if cell is None:
            assert not self._done, "what is made later (`unevaluated`) refers to nothing new"
            cell = self._cells[place] = _Cell()
            self._waiting.append(place)

        def follow(value: Any, at: At, run: ValidationRun) -> bool:
            return cell.check(value, at, run)

        return _entering(place.resource, follow) if self.document.is_dynamic else follow

    def pattern(self, pattern: str, place: Place, step: str) -> Pattern | None:
        """Returns a compiled pattern; None, and a line in `unenforced`, if it cannot be compiled."""
        longest = self._limits.max_pattern_chars
        if len(pattern) > longest:
            raise refuse_size("has a pattern longer than", "max_pattern_chars", longest, place.pointer + step)
        if pattern not in self._patterns:
            self._patterns[pattern] = self._compile_pattern(pattern)
        compiled = self._patterns[pattern]
        if not isinstance(compiled, str):
            return compiled
        self._refused[place, step] = compiled
        return None

    @property
    def unenforced(self) -> tuple[str, ...]:
        """The patterns that cannot be enforced, each with its place and the reason."""
        lines = [f"{place.pointer}{step}: {why}" for (place, step), why in self._refused.items()]
        return tuple(lines[:MAX_LINES])

    def _compile_pattern(self, pattern: str) -> Pattern | str:
        if self.weight > MAX_PATTERN_WEIGHT:
            return "the patterns of this schema are too large together"
        try:
            compiled = compile_pattern(pattern)
        except PatternError as error:
            self.weight += 100
            return str(error)
        self.weight += compiled.weight
        return compiled

    # -- one schema --------------------------------------------------------------------------------------------

    def _make(self, place: Place) -> Check:
        making = Making(place, self)
        if place.schema is True:
            return accept
        if place.schema is False:
            return _reject(making)
        lasting = _table(making, self._last)
        table = _table(making, self._first, first=[*self._references(making)])
        _restrict(table, making)
        if not any(table.values()) and not any(lasting.values()):
            return accept
        check = _schema_check(table) if not any(lasting.values()) else _schema_check_with_last(table, lasting)
        begins_resource = place.resource.root is place
        return _entering(place.resource, check) if begins_resource and self.document.is_dynamic else check

    def _references(self, making: Making) -> Iterable[Check]:
        place = making.place
        for keyword, target in place.references.items():
            if keyword == "$dynamicRef" and place.dynamic_name is not None:
                yield self._dynamic(place.dynamic_name, target)
            else:
                yield self.reference(target)

    def _dynamic(self, name: str, target: Place) -> Check:
        key = ("$dynamicRef", name)
        if key not in self.memory:
            self.memory[key] = {place: self.reference(place) for place in self.document.holders(name)}
        checks: dict[Place, Check] = self.memory[key]

        def dynamic(value: Any, at: At, run: ValidationRun) -> bool:
            return checks[run.find(name, target)](value, at, run)

        return dynamic


def _entering(resource: Resource, check: Check) -> Check:
    """Returns a check in whose course `resource` is part of the dynamic scope."""

    def enter(value: Any, at: At, run: ValidationRun) -> bool:
        run.scope.append(resource)
        ok = check(value, at, run)
        run.scope.pop()
        return ok

    return enter


def _table(making: Making, makers: Makers, first: Iterable[Check] = ()) -> _Table:
    """Returns the checks by the types of values that they concern, in the order of the makers."""
    found: dict[type, list[Check]] = {kind: list(first) for kind in (*KINDS, OTHER)}
    for number in sorted({makers.number[keyword] for keyword in making.keywords if keyword in makers.number}):
        maker = makers.all[number]
        check = maker.make(making)
        if check is not None:
            for kind in maker.kinds:
                found[kind].append(check)
    shared: dict[tuple[Check, ...], tuple[Check, ...]] = {}  # shared, so that the garbage collector has fewer to visit
    return {kind: shared.setdefault(tuple(checks), tuple(checks)) for kind, checks in found.items()}


def _restrict(table: _Table, making: Making) -> None:
    """Applies ``type``: values of another type have that problem and no other."""
    given = making.keywords.get("type")
    if given is None:
        return
    names = [given] if isinstance(given, str) else given
    rule = making.rule("type", f"should be {' or '.join(TYPES[name] for name in names)}")
    allowed = {kind for name in names for kind in _PYTHON_TYPES[name]}

    def wrong(value: Any, at: At, run: ValidationRun) -> bool:
        return rule.broken(at, run)

    def whole(value: Any, at: At, run: ValidationRun) -> bool:
        return is_integer(value) or rule.broken(at, run)

    refused = (wrong,)
    for kind in table:
        if kind is float and "integer" in names and "number" not in names:
            table[kind] = (whole, *table[kind])
        elif kind not in allowed:
            table[kind] = refused


def _reject(making: Making) -> Check:
    place = making.place
    rule = making.rule("", "is not allowed here")
    rule.keyword, rule.step = place.keyword, ""

    def reject(value: Any, at: At, run: ValidationRun) -> bool:
        run.spend_on(1)
        return rule.broken(at, run)

    return reject


def _schema_check(table: _Table) -> Check:
    find = table.get
    step = ENTRIES_PER_STEP + 2 * max(0, max(map(len, table.values())) - USUAL_CHECKS)

    def schema(value: Any, at: At, run: ValidationRun) -> bool:
        run.units -= step
        if run.units < 0:
            raise Exhausted
        checks = find(type(value))
        if checks is None:
            checks = table[kind_of(value)]
        ok = True
        for check in checks:
            if not check(value, at, run):
                if run.found is None:
                    return False
                ok = False
        return ok

    return schema


def _schema_check_with_last(table: _Table, lasting: _Table) -> Check:
    first = _schema_check(table)

    def schema(value: Any, at: At, run: ValidationRun) -> bool:
        if not first(value, at, run):
            return False
        for check in lasting[kind_of(value)]:  # noqa: SIM110  # a generator would cost as much as the check
            if not check(value, at, run):
                return False
        return True

    return schema
