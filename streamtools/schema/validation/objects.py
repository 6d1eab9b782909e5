"""Makes the checks of keywords about objects, in both dialects."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .compiler import OBJECT, Maker, Making, size_bound
from .patterns import Pattern
from .reading import escaped
from .run import At, Check, Rule, ValidationRun, accept
from .values import spelled

__all__ = ["MAKERS", "common", "patterns_of", "spend_on_names"]

MAX_SHOWN_NAMES = 10  # allowed names that a message lists


def _make_properties(making: Making) -> Check | None:
    """Makes the check of ``properties``, ``patternProperties`` and ``additionalProperties``, which go over the object
    together."""
    named: dict[str, Check | None] = {
        name: None if check is accept else check for name, check in making.named("properties").items()
    }
    patterns = patterns_of(making)
    # With a pattern that cannot be enforced, it is unknown which names are additional.
    other = _additional(making) if len(patterns) == len(making.keywords.get("patternProperties", {})) else None
    if patterns:
        return _properties_and_patterns(named, patterns, other)
    return _properties(named, other) if other is not None or any(named.values()) else None


def patterns_of(making: Making) -> list[tuple[Pattern, Check]]:
    """Returns the patterns of ``patternProperties`` that can be enforced, with their schemas' checks."""
    found = []
    for pattern, check in making.named("patternProperties").items():
        compiled = making.compiler.pattern(pattern, making.place, f"/patternProperties/{escaped(pattern)}")
        if compiled is not None:
            found.append((compiled, check))
    return found


def _additional(making: Making) -> Check | None:
    check = making.one("additionalProperties")
    if check is None or check is accept:
        return None
    if making.keywords["additionalProperties"] is not False:
        return check
    names = list(making.keywords.get("properties", {}))
    shown = ", ".join(spelled(name) for name in names[:MAX_SHOWN_NAMES])
    more = f" and {len(names) - MAX_SHOWN_NAMES} more" if len(names) > MAX_SHOWN_NAMES else ""
    rule = making.rule("additionalProperties", f"is not allowed here; what is: {shown or 'nothing'}{more}")

    def refuse(value: Any, at: At, run: ValidationRun) -> bool:
        return rule.broken(at, run)

    return refuse


def _properties(named: dict[str, Check | None], other: Check | None) -> Check:
    find = named.get

    def properties(value: Any, at: At, run: ValidationRun) -> bool:
        run.spend_on(len(value))
        ok = True
        for name, item in value.items():
            check = find(name, other)
            if check is not None and not check(item, (at, name), run):
                if run.found is None:
                    return False
                ok = False
        return ok

    return properties


def _properties_and_patterns(
    named: dict[str, Check | None], patterns: list[tuple[Pattern, Check]], other: Check | None
) -> Check:
    held = [pattern for pattern, _ in patterns]
    matching = [(pattern.matches, check) for pattern, check in patterns]

    def properties(value: Any, at: At, run: ValidationRun) -> bool:
        ok = True
        spend_on_names(held, value, run)
        for name, item in value.items():
            checks = [check for matches, check in matching if matches(name)]
            if name in named:
                checks.append(named[name] or accept)
            elif not checks and other is not None:
                checks.append(other)
            for check in checks:
                if not check(item, (at, name), run):
                    if run.found is None:
                        return False
                    ok = False
        return ok

    return properties


def _make_required(making: Making) -> Check | None:
    names = tuple(dict.fromkeys(making.keywords["required"]))
    return _missing(names, making.rule("required", "is required but missing")) if names else None


def _missing(names: tuple[str, ...], rule: Rule) -> Check:
    fewest = len(names)

    def required(value: Any, at: At, run: ValidationRun) -> bool:
        if run.found is None and len(value) < fewest:
            return False
        run.spend_on(fewest)
        ok = True
        for name in names:
            if name not in value:
                ok = rule.broken((at, name), run)
                if run.found is None:
                    return False
        return ok

    return required


def _make_dependent(making: Making) -> Check | None:
    """Makes the check of ``dependentRequired`` and ``dependentSchemas``; in draft-07 of ``dependencies``, which is
    both."""
    dependencies: dict[str, list[Check]] = {}
    for keyword in ("dependentRequired", "dependencies"):
        for name, names in making.keywords.get(keyword, {}).items():
            if isinstance(names, list):
                message = f"is required beside {spelled(name)} but missing"
                check = _missing(tuple(dict.fromkeys(names)), making.rule(keyword, message, name))
                dependencies.setdefault(name, []).append(check)
    for keyword in ("dependentSchemas", "dependencies"):
        for name, check in making.named(keyword).items():
            dependencies.setdefault(name, []).append(check)

    def dependent(value: Any, at: At, run: ValidationRun) -> bool:
        run.spend_on(min(len(value), len(dependencies)))
        ok = True
        for name in common(value, dependencies):
            run.spend(1)
            for check in dependencies[name]:
                if not check(value, at, run):
                    if run.found is None:
                        return False
                    ok = False
        return ok

    return dependent if dependencies else None


def common(one: Collection[str], other: Collection[str]) -> list[str]:
    """Returns the names in both; the work is that of the shorter."""
    fewer, more = (one, other) if len(one) < len(other) else (other, one)
    return [name for name in fewer if name in more]


def spend_on_names(patterns: Collection[Pattern], value: Collection[str], run: ValidationRun) -> None:
    """Counts the work of matching each pattern against all names of an object."""
    run.spend(len(patterns) * len(value))
    chars = sum(map(len, value))
    for pattern in patterns:
        run.spend_at_once(pattern.units(chars))


def _make_names(making: Making) -> Check | None:
    check = making.one("propertyNames")
    if check is None or check is accept:
        return None
    rule = making.rule("propertyNames", "has a name that is not allowed here")

    def names(value: Any, at: At, run: ValidationRun) -> bool:
        ok = True
        for name in value:
            if not run.fits(check, name, at):
                ok = rule.broken((at, name), run)
                if run.found is None:
                    return False
        return ok

    return names


MAKERS = (
    Maker(("required",), OBJECT, _make_required),
    size_bound("minProperties", OBJECT, "property", "properties"),
    size_bound("maxProperties", OBJECT, "property", "properties"),
    Maker(("properties", "patternProperties", "additionalProperties"), OBJECT, _make_properties),
    Maker(("propertyNames",), OBJECT, _make_names),
    Maker(("dependentRequired", "dependentSchemas", "dependencies"), OBJECT, _make_dependent),
)
