"""Makes the checks of ``unevaluatedProperties`` and ``unevaluatedItems``, for parts that no other keyword has
evaluated.

The evaluated names or positions are needed only here, from a second kind of compiled function, `Collect`: it goes
through the keywords that apply to the same value, except for alternatives that do not fit, and gathers the parts that
each evaluates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias

from .compiler import ARRAY, OBJECT, Compiler, Maker, Making
from .document import Place
from .objects import common, patterns_of, spend_on_names
from .run import At, Check, ValidationRun, accept

__all__ = ["MAKERS", "Collect"]

_COLLECTING = 24  # units of work for a schema that is asked for its evaluated parts

Collect: TypeAlias = Callable[[Any, At, ValidationRun, set[Any]], bool]
"""Adds the evaluated parts to the set. Returns True if those are all parts, whatever is in the set."""

Own: TypeAlias = Callable[[Making], Iterator[Collect]]
"""Yields the collectors of the parts that a schema's own keywords evaluate."""


def _make(keyword: str, own: Own, parts: Callable[[Any], Iterable[tuple[Any, Any]]], making: Making) -> Check | None:
    """Makes the check of a keyword.

    Args:
        keyword: its name.
        own: gives the collectors of a schema's own keywords.
        parts: the parts of a value, with their names or places.
        making: the schema.
    """
    check = making.one(keyword)
    if check is None or check is accept:
        return None
    collect = _collector(making.place, making.compiler, own, keyword)

    def unevaluated(value: Any, at: At, run: ValidationRun) -> bool:
        run.spend(2)
        seen: set[Any] = set()
        if not value or collect(value, at, run, seen):
            return True
        run.spend_on(len(value))
        ok = True
        for part, item in parts(value):
            if part not in seen and not check(item, (at, part), run):
                if run.found is None:
                    return False
                ok = False
        return ok

    return unevaluated


def _own_properties(making: Making) -> Iterator[Collect]:
    if "additionalProperties" in making.keywords:
        yield _everything
        return
    names = frozenset(making.keywords.get("properties", {}))
    if names:
        yield _names(names)
    patterns = [pattern for pattern, _ in patterns_of(making)]
    if len(patterns) < len(making.keywords.get("patternProperties", {})):
        yield _everything  # a pattern that cannot be enforced may match any name
    elif patterns:

        def matching(value: Any, at: At, run: ValidationRun, seen: set[Any]) -> bool:
            spend_on_names(patterns, value, run)
            seen.update(name for name in value if any(pattern.matches(name) for pattern in patterns))
            return False

        yield matching


def _own_items(making: Making) -> Iterator[Collect]:
    if "items" in making.keywords:
        yield _everything
        return
    count = len(making.keywords.get("prefixItems", ()))
    if count:
        yield _positions(count)
    contained = making.one("contains")
    if contained is not None:

        def containing(value: Any, at: At, run: ValidationRun, seen: set[Any]) -> bool:
            run.spend_on(len(value))
            seen.update(index for index, item in enumerate(value) if run.fits(contained, item, at))
            return False

        yield containing


def _names(names: frozenset[str]) -> Collect:
    def named(value: Any, at: At, run: ValidationRun, seen: set[Any]) -> bool:
        found = common(names, value)
        run.spend_on(min(len(names), len(value)))
        seen.update(found)
        return False

    return named


def _positions(count: int) -> Collect:
    def positions(value: Any, at: At, run: ValidationRun, seen: set[Any]) -> bool:
        looked_at = min(count, len(value))
        run.spend_on(looked_at)
        seen.update(range(looked_at))
        return False

    return positions


def _everything(value: Any, at: At, run: ValidationRun, seen: set[Any]) -> bool:
    return True


def _collector(place: Place, compiler: Compiler, own: Own, keyword: str) -> Collect:
    """Returns a collector of the parts that the schema at `place` evaluates, except by its own `keyword`."""
    making = Making(place, compiler)

    def again(inner: Place) -> Collect:
        return _whole_collector(inner, compiler, own, keyword)

    return _together([*own(making), *_in_place(making, again)])


def _whole_collector(place: Place, compiler: Compiler, own: Own, keyword: str) -> Collect:
    made: Collect | None = compiler.memory.get((place, keyword))
    if made is None:
        made = _everything if keyword in place.keywords else _collector(place, compiler, own, keyword)
        compiler.memory[place, keyword] = made
    return made


def _together(collects: list[Collect]) -> Collect:
    def collect(value: Any, at: At, run: ValidationRun, seen: set[Any]) -> bool:
        run.spend_on(_COLLECTING + len(collects))
        everything = False
        for each in collects:
            everything = each(value, at, run, seen) or everything
        return everything

    return collect


def _in_place(making: Making, again: Callable[[Place], Collect]) -> Iterator[Collect]:
    """Yields the collectors of the schemas that apply to the same value."""
    held = making.place.children
    for keyword, target in making.place.references.items():
        yield from _referred(making, keyword, target, again)
    yield from (again(place) for place in held.get("allOf", {}).values())
    for keyword in ("anyOf", "oneOf"):
        yield from (_if_fits(place, making, again) for place in held.get(keyword, {}).values())
    for name, place in held.get("dependentSchemas", {}).items():
        yield _if_there(str(name), again(place))
    if "if" in held:
        yield _conditional(making, again)


def _if_fits(place: Place, making: Making, again: Callable[[Place], Collect]) -> Collect:
    check, collect = making.compiler.check(place), again(place)

    def alternative(value: Any, at: At, run: ValidationRun, seen: set[Any]) -> bool:
        return run.fits(check, value, at) and collect(value, at, run, seen)

    return alternative


def _if_there(name: str, collect: Collect) -> Collect:
    def dependent(value: Any, at: At, run: ValidationRun, seen: set[Any]) -> bool:
        return isinstance(value, dict) and name in value and collect(value, at, run, seen)

    return dependent


def _conditional(making: Making, again: Callable[[Place], Collect]) -> Collect:
    held = making.place.children
    condition, met = making.compiler.check(held["if"][0]), again(held["if"][0])
    then = again(held["then"][0]) if "then" in held else None
    otherwise = again(held["else"][0]) if "else" in held else None

    def conditional(value: Any, at: At, run: ValidationRun, seen: set[Any]) -> bool:
        if not run.fits(condition, value, at):
            return otherwise is not None and otherwise(value, at, run, seen)
        everything = met(value, at, run, seen)
        return (then is not None and then(value, at, run, seen)) or everything

    return conditional


def _referred(making: Making, keyword: str, target: Place, again: Callable[[Place], Collect]) -> Iterator[Collect]:
    compiler = making.compiler
    name = making.place.dynamic_name if keyword == "$dynamicRef" else None
    made: dict[Place, Collect] = {}

    def referred(value: Any, at: At, run: ValidationRun, seen: set[Any]) -> bool:
        found = target if name is None else run.find(name, target)
        collect = made.get(found)
        if collect is None:  # made when it is needed: the target may be the schema being compiled
            collect = made[found] = again(found)
        if not compiler.document.is_dynamic:
            return collect(value, at, run, seen)
        run.scope.append(found.resource)
        everything = collect(value, at, run, seen)
        run.scope.pop()
        return everything

    yield referred


MAKERS = (
    Maker(("unevaluatedItems",), ARRAY, partial(_make, "unevaluatedItems", _own_items, enumerate)),
    Maker(("unevaluatedProperties",), OBJECT, partial(_make, "unevaluatedProperties", _own_properties, dict.items)),
)
"""The makers of checks that come after all others of their schema."""
