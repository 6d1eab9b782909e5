"""Compiles a document to one function per schema, and runs it over values within a budget of work.

Each function is a `Check`, and returns whether a value fits. Those of the keywords come from `Maker`: a table of them
is handed to the `Compiler`. If the reasons are wanted, a check notes each `Rule` that is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from ...limits import Limits
from .document import TYPES, Document, Place, Resource
from .patterns import Pattern, PatternError, compile_pattern
from .values import KINDS, OTHER, deeper_than, escaped, is_integer, kind_of, refuse_size

# All work has a price, so that a bound on steps is one on time. A step, a schema applied to a value, takes some 0.4 µs.
# Work is counted in eighths of it: going through an entry, asking an alternative and noting a problem have their price,
# and texts and long numbers have one by their length.

CHARS_PER_STEP = 64  # of a text that is compared, or matched against a pattern: some 0.3 µs
ENTRIES_PER_STEP = 8
"""Entries (options, names, items) that cost about as much to go through as a schema."""
_STEP = ENTRIES_PER_STEP  # in units of work
_MAX_AT_ONCE = 800_000  # units of work that may hold the interpreter: some 40 ms
_ASKING = 8  # units for asking an alternative, whatever its cost
_EXPLAINING = 24  # units for asking an alternative for its problems, and deciding by them whether it was meant
MAX_PROBLEMS = 64  # kept of one validation; a list of a thousand bad items shows no more than its first ones

At: TypeAlias = Any
"""The place of a value in the arguments: ``(place of its parent, name or position)``; None for the arguments
themselves. One is made at every step down, so it is the cheapest form that can be turned into a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaProblem:
    """Describes a rule of a schema that a value breaks."""

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
    """Stops a validation that has used up its steps."""


class Budget:
    """Bounds the work for one value, by as many validations as it takes, to `steps`: schemas that may be applied to
    values. Exceeding it is a problem of the value, or not `as_problem` raises `Exhausted`, so that the work can begin
    again elsewhere. `native`: engines that cannot be stopped may be asked, too."""

    __slots__ = ("as_problem", "native", "units")

    def __init__(self, steps: int, *, as_problem: bool = True, native: bool = True) -> None:
        self.units = steps * _STEP
        self.as_problem = as_problem
        self.native = native


class ValidationRun:
    """Keeps the state of one validation."""

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
        # Alternatives inside alternatives are asked again for each of those around them: each question has its price.
        self.units -= _ASKING
        if self.units < 0:
            raise Exhausted
        kept, self.found = self.found, None
        fits = check(value, at, self)
        self.found = kept
        return fits

    def explain(self, check: Check, value: Any, at: At) -> list[Found]:
        """Returns the broken rules of an alternative; notes nothing."""
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
        """Returns the target of a ``$dynamicRef`` to `name` in the present scope."""
        # "the outermost schema resource in the dynamic scope (Section 7.1) that defines an identically named fragment
        # with "$dynamicAnchor"": https://json-schema.org/draft/2020-12/json-schema-core#section-8.2.3.2
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
        """Counts work that nothing can interrupt, and refuses too much of it."""
        # A regular expression is one step of native code, during which no other thread runs.
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
    """Holds a demand of a keyword, with the message for breaking it."""

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
    # At the end, and for as many as are shown: a validation that only notes a rule and a place stays cheap.
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
        # The verdict first: most values fit, and it stops at the first broken rule.
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
        """Returns whether a value fits, or the limit that was exceeded on the way to the verdict."""
        limits = self._limits
        run = ValidationRun(budget.units, self._resource, found)
        try:
            # The checks recurse, and with a recursive schema the value decides how deep.
            if self._is_recursive and found is None and deeper_than(value, limits.max_schema_depth, run.spend_on):
                what = "is nested deeper than this schema is followed"
                return _limit("max_schema_depth", limits.max_schema_depth, what)
            return self._check(value, None, run)
        except Exhausted:
            if not budget.as_problem:
                raise
            return _limit("max_validation_steps", limits.max_validation_steps, "takes too much work to check")
        except Stop:
            return False
        except RecursionError:
            # The interpreter's own limit, most of which the caller may have used up.
            return _limit("max_schema_depth", limits.max_schema_depth, "is nested too deep to be checked from here")
        finally:
            budget.units = run.units


def _limit(setting: str, limit: int, message: str) -> SchemaProblem:
    return SchemaProblem(path=(), keyword="limit", message=f"{message} (Limits({setting}={limit}))", schema_path="#")


# -- from a document to functions --------------------------------------------------------------------------------------


ANY: tuple[type, ...] = (*KINDS, OTHER)
OBJECT: tuple[type, ...] = (dict,)
ARRAY: tuple[type, ...] = (list,)
TEXT: tuple[type, ...] = (str,)
NUMBER: tuple[type, ...] = (int, float)


class Making:
    """Gives a maker what it needs of one schema: its keywords, and the checks of the schemas inside."""

    __slots__ = ("compiler", "keywords", "place")

    def __init__(self, place: Place, compiler: Compiler) -> None:
        self.place = place
        self.compiler = compiler
        self.keywords: dict[str, Any] = place.keywords

    def rule(self, keyword: str, message: str, *names: str) -> Rule:
        """Returns a rule of a keyword; `names` lead on from the keyword to the exact place."""
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
    """Returns the check; None if the keywords have no demand."""


def size_bound(keyword: str, kinds: tuple[type, ...], one: str, many: str) -> Maker:
    """Returns the maker of a bound on the size of values, which is counted in `many`: ``minItems``, ``maxLength``."""
    which = "least" if keyword.startswith("min") else "most"

    def make(making: Making) -> Check:
        limit = int(making.keywords[keyword])
        rule = making.rule(keyword, f"should have at {which} {limit} {one if limit == 1 else many}")

        # For texts, too: Python counts code points, and the length of a string is "the number of its characters as
        # defined by RFC 8259". https://json-schema.org/draft/2020-12/json-schema-validation#section-6.3.1
        def at_least(value: Any, at: At, run: ValidationRun) -> bool:
            return len(value) >= limit or rule.broken(at, run)

        def at_most(value: Any, at: At, run: ValidationRun) -> bool:
            return len(value) <= limit or rule.broken(at, run)

        return at_least if which == "least" else at_most

    return Maker((keyword,), kinds, make)


class Makers:
    """Holds makers in the order in which their checks run, and by keyword."""

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
"""The largest weight of all patterns of a document together, as `patterns` counts it: some 0.2 s of compiling."""
USUAL_CHECKS = 4  # checks of one type of value that a step pays for
MAX_LINES = 64  # about patterns that are not enforced

_Table = dict[type, tuple[Check, ...]]


@dataclass(slots=True, eq=False)
class _Cell:
    """Holds a schema's check, which may not be made yet."""

    check: Check = accept


class Compiler:
    """Compiles a document's schemas, as far as they can be reached, with the checks of `last` after others."""

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
        """Returns the check of a schema."""
        # Recursion goes no deeper than schemas are nested: references wait for `compile`.
        made = self._checks.get(place)
        if made is None:
            made = self._checks[place] = self._make(place)
        return made

    def reference(self, place: Place) -> Check:
        """Returns the check of a reference's target, which is made later."""
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
    """Returns a check that enters `resource` into the dynamic scope."""
    # Only for documents with a dynamic reference: all others save the price of two calls for each schema.

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
    """Applies ``type``."""
    # In the table itself: a value of another type has that problem and no other, and one of the right type costs
    # nothing.
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
    # The inner function runs once for each schema and value: everything that can be computed before is.
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
    # `unevaluated...` depends on all other keywords of the schema, so it is asked only about a value that fits these.
    first = _schema_check(table)

    def schema(value: Any, at: At, run: ValidationRun) -> bool:
        if not first(value, at, run):
            return False
        for check in lasting[kind_of(value)]:  # noqa: SIM110  # a generator would cost as much as the check
            if not check(value, at, run):
                return False
        return True

    return schema
