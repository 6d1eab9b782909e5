"""Makes the checks of all keywords but ``type``, which the compiler itself handles.

A keyword is about the value itself (``enum``, ``const``, numbers, strings), its entries (arrays and objects, in both
dialects), other schemas for the same value (``allOf``, ``anyOf``, ``oneOf``, ``not``, ``if``), or the parts that no
other keyword has evaluated. Each section ends with its table of `Maker` functions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias

from .compiler import (
    ANY,
    ARRAY,
    NUMBER,
    OBJECT,
    TEXT,
    At,
    Check,
    Compiler,
    Found,
    Maker,
    Making,
    Rule,
    ValidationRun,
    accept,
    size_bound,
)
from .document import TYPES, Place
from .patterns import Pattern
from .values import TooDeep, division_cost, equal, escaped, is_multiple, key_of, scalar_key, size_of, spelled

MAX_SHOWN_OPTIONS = 10  # allowed values that a message lists


def _make_enum(making: Making) -> Check:
    options = making.keywords["enum"]
    # "This array SHOULD have at least one element": an empty one is a schema all the same, which nothing fits.
    # https://json-schema.org/draft/2020-12/json-schema-validation#section-6.1.2
    shown = ", ".join(spelled(option) for option in options[:MAX_SHOWN_OPTIONS])
    if len(options) > MAX_SHOWN_OPTIONS:
        shown += f" and {len(options) - MAX_SHOWN_OPTIONS} more"
    return _one_of(options, making, "enum", f"should be one of {shown}" if options else "is not allowed to be anything")


def _make_const(making: Making) -> Check:
    option = making.keywords["const"]
    return _one_of([option], making, "const", f"should be {spelled(option)}")


def _one_of(options: list[Any], making: Making, keyword: str, message: str) -> Check:
    rule = making.rule(keyword, message)
    # Scalars are looked up by a key, in which 1 is 1.0 and not True; objects and arrays are compared, at a price.
    plain = frozenset(scalar_key(option) for option in options if not isinstance(option, (dict, list)))
    nested = [(option, size_of(option)) for option in options if isinstance(option, (dict, list))]

    def one_of(value: Any, at: At, run: ValidationRun) -> bool:
        if type(value) is str:
            run.spend_on_text(len(value))
            return value in plain or rule.broken(at, run)
        if not isinstance(value, (dict, list)):
            return scalar_key(value) in plain or rule.broken(at, run)
        run.spend(len(nested))
        for option, size in nested:
            if len(value) == len(option):
                run.spend(size)
                if equal(value, option):
                    return True
        return rule.broken(at, run)

    return one_of


def _bound(keyword: str, holds: Callable[[Any, Any], bool], words: str) -> Maker:
    def make(making: Making) -> Check:
        limit = making.keywords[keyword]
        rule = making.rule(keyword, f"should be {words} {spelled(limit)}")

        def bound(value: Any, at: At, run: ValidationRun) -> bool:
            return holds(value, limit) or rule.broken(at, run)

        return bound

    return Maker((keyword,), NUMBER, make)


def _make_multiple(making: Making) -> Check:
    divisor = making.keywords["multipleOf"]
    rule = making.rule("multipleOf", f"should be a multiple of {spelled(divisor)}")

    def multiple(value: Any, at: At, run: ValidationRun) -> bool:
        run.spend(division_cost(value, divisor))
        return is_multiple(value, divisor) or rule.broken(at, run)

    return multiple


def _make_pattern(making: Making) -> Check | None:
    pattern = making.keywords["pattern"]
    compiled = making.compiler.pattern(pattern, making.place, "/pattern")
    if compiled is None:
        return None
    # Anywhere in the text: "Recall: regular expressions are not implicitly anchored."
    # https://json-schema.org/draft/2020-12/json-schema-validation#section-6.3.3
    matches = compiled.matches
    rule = making.rule("pattern", f"should match the pattern {spelled(pattern)}")

    def match(value: Any, at: At, run: ValidationRun) -> bool:
        run.spend_at_once(compiled.units(len(value)))
        return matches(value) or rule.broken(at, run)

    return match


SCALARS = (
    Maker(("const",), ANY, _make_const),
    Maker(("enum",), ANY, _make_enum),
    _bound("minimum", operator.ge, "at least"),
    _bound("exclusiveMinimum", operator.gt, "greater than"),
    _bound("maximum", operator.le, "at most"),
    _bound("exclusiveMaximum", operator.lt, "less than"),
    Maker(("multipleOf",), NUMBER, _make_multiple),
    size_bound("minLength", TEXT, "character", "characters"),
    size_bound("maxLength", TEXT, "character", "characters"),
    Maker(("pattern",), TEXT, _make_pattern),
)


# -- arrays ------------------------------------------------------------------------------------------------------------


MAX_COMPARED_DEPTH = 256  # nesting of items that uniqueItems can compare


def _make_items(making: Making) -> Check | None:
    """Makes the check of ``prefixItems`` and ``items``; in draft-07 of ``items`` and ``additionalItems``."""
    if "prefixItems" in making.keywords:
        first, rest = making.many("prefixItems"), making.one("items")
    elif isinstance(making.keywords.get("items"), list):
        first, rest = making.many("items"), making.one("additionalItems")
    else:
        # Without the list, "additionalItems" "MUST be ignored": the schema "is applied to all elements".
        # https://json-schema.org/draft-07/json-schema-validation#rfc.section.6.4.2
        first, rest = [], making.one("items")
    if rest is None or rest is accept:
        return _prefix(first) if first else None
    return _prefix_and_rest(first, rest) if first else _every(rest)


def _every(check: Check) -> Check:
    def every(value: Any, at: At, run: ValidationRun) -> bool:
        ok = True
        for index, item in enumerate(value):
            if not check(item, (at, index), run):
                if run.found is None:
                    return False
                ok = False
        return ok

    return every


def _prefix(checks: list[Check]) -> Check:
    def prefix(value: Any, at: At, run: ValidationRun) -> bool:
        run.spend_on(min(len(value), len(checks)))
        ok = True
        for index, (item, check) in enumerate(zip(value, checks, strict=False)):
            if not check(item, (at, index), run):
                if run.found is None:
                    return False
                ok = False
        return ok

    return prefix


def _prefix_and_rest(checks: list[Check], rest: Check) -> Check:
    prefix, start = _prefix(checks), len(checks)

    def prefix_and_rest(value: Any, at: At, run: ValidationRun) -> bool:
        ok = prefix(value, at, run)
        for index in range(start, len(value)):
            if not ok and run.found is None:
                return False
            ok = rest(value[index], (at, index), run) and ok
        return ok

    return prefix_and_rest


def _make_unique(making: Making) -> Check | None:
    # "If this keyword has boolean value false, the instance validates successfully."
    # https://json-schema.org/draft/2020-12/json-schema-validation#section-6.4.3
    if not making.keywords["uniqueItems"]:
        return None
    rule = making.rule("uniqueItems", "should have no two equal items")
    deep = making.rule("uniqueItems", f"has items nested deeper than {MAX_COMPARED_DEPTH} levels, too deep to compare")

    # By keys in a set, since comparing each item with each other would be quadratic.
    def unique(value: Any, at: At, run: ValidationRun) -> bool:
        run.spend(len(value))
        run.spend_on_text(sum(len(item) for item in value if type(item) is str))
        try:
            keys = {key_of(item, MAX_COMPARED_DEPTH, run) for item in value}
        except TooDeep:
            return deep.broken(at, run)
        return len(keys) == len(value) or rule.broken(at, run)

    return unique


def _make_contains(making: Making) -> Check:
    check = making.one("contains")
    assert check is not None, "the keyword is present; minContains and maxContains mean nothing alone"
    # "Omitting this keyword has the same behavior as a value of 1"; with 0 an array without any is valid.
    # https://json-schema.org/draft/2020-12/json-schema-validation#section-6.4.5
    fewest, most = making.keywords.get("minContains", 1), making.keywords.get("maxContains")
    few = making.rule("contains", f"should contain at least {int(fewest)} of the items that 'contains' describes")
    many = making.rule(
        "maxContains", f"should contain at most {most and int(most)} of the items that 'contains' describes"
    )

    def contains(value: Any, at: At, run: ValidationRun) -> bool:
        run.spend_on(len(value))
        count = sum(run.fits(check, item, at) for item in value)
        if count < fewest:
            return few.broken(at, run)
        return most is None or count <= most or many.broken(at, run)

    return contains


ARRAYS = (
    size_bound("minItems", ARRAY, "item", "items"),
    size_bound("maxItems", ARRAY, "item", "items"),
    Maker(("prefixItems", "items", "additionalItems"), ARRAY, _make_items),
    Maker(("contains",), ARRAY, _make_contains),
    Maker(("uniqueItems",), ARRAY, _make_unique),
)


# -- objects -----------------------------------------------------------------------------------------------------------


MAX_SHOWN_NAMES = 10  # allowed names that a message lists


def _make_properties(making: Making) -> Check | None:
    """Makes the one check of ``properties``, ``patternProperties`` and ``additionalProperties``."""
    # One pass over the object: the behaviour of `additionalProperties` "depends on the presence and annotation results
    # of "properties" and "patternProperties" within the same schema object".
    # https://json-schema.org/draft/2020-12/json-schema-core#section-10.3.2.3
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
        if run.found is None and len(value) < fewest:  # too few to have them all: enough for the verdict
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
    """Makes the check of ``dependentRequired`` and ``dependentSchemas``; in draft-07 of ``dependencies``."""
    dependencies: dict[str, list[Check]] = {}
    # Draft-07 has one keyword for both: "Each dependency value MUST be an array or a valid JSON Schema."
    # https://json-schema.org/draft-07/json-schema-validation#rfc.section.6.5.7
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
    """Returns the names in both, by going through the shorter."""
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


OBJECTS = (
    Maker(("required",), OBJECT, _make_required),
    size_bound("minProperties", OBJECT, "property", "properties"),
    size_bound("maxProperties", OBJECT, "property", "properties"),
    Maker(("properties", "patternProperties", "additionalProperties"), OBJECT, _make_properties),
    Maker(("propertyNames",), OBJECT, _make_names),
    Maker(("dependentRequired", "dependentSchemas", "dependencies"), OBJECT, _make_dependent),
)


# -- other schemas for the same value ----------------------------------------------------------------------------------


DISTINGUISHING = {"type": 0, "enum": 1, "const": 1, "required": 1, "additionalProperties": 1}
"""Keywords that distinguish the alternatives of a union, with the depth inside the value to which they do."""


def _make_all(making: Making) -> Check | None:
    checks = [check for check in making.many("allOf") if check is not accept]
    if len(checks) <= 1:
        return checks[0] if checks else None

    def all_of(value: Any, at: At, run: ValidationRun) -> bool:
        ok = True
        for check in checks:
            if not check(value, at, run):
                if run.found is None:
                    return False
                ok = False
        return ok

    return all_of


def _make_any(making: Making) -> Check:
    checks = making.many("anyOf")
    rule = making.rule("anyOf", f"fits none of the {len(checks)} alternatives")
    types = _types(making, "anyOf")

    def any_of(value: Any, at: At, run: ValidationRun) -> bool:
        for check in checks:
            if run.fits(check, value, at):
                return True
        return _explain(checks, types, rule, value, at, run)

    return any_of


def _make_one(making: Making) -> Check:
    checks = making.many("oneOf")
    none = making.rule("oneOf", f"fits none of the {len(checks)} alternatives")
    several = making.rule("oneOf", f"fits several of the {len(checks)} alternatives and should fit exactly one")
    types = _types(making, "oneOf")

    def one_of(value: Any, at: At, run: ValidationRun) -> bool:
        count = 0
        for check in checks:
            if run.fits(check, value, at):
                count += 1
                if count > 1:
                    return several.broken(at, run)
        return count == 1 or _explain(checks, types, none, value, at, run)

    return one_of


def _types(making: Making, keyword: str) -> Rule | None:
    """Returns the rule for a value of a type that no alternative accepts; None if an alternative accepts any type."""
    names: dict[str, None] = {}
    for place in making.place.children[keyword].values():
        types = place.keywords.get("type")
        if types is None:
            return None
        names.update(dict.fromkeys([types] if isinstance(types, str) else types))
    return making.rule(keyword, f"should be {' or '.join(TYPES[name] for name in names)}")


def _explain(checks: list[Check], types: Rule | None, rule: Rule, value: Any, at: At, run: ValidationRun) -> bool:
    """Notes the problems of a value that fits no alternative, and returns False."""
    if run.found is None:
        return False
    # An alternative is meant if none of its distinguishing keywords is broken. If only one can have been meant, its own
    # problems help a model more than "fits none of the alternatives".
    meant: list[list[Found]] = []  # the problems of each alternative that can have been meant
    typed: list[list[Found]] = []  # the problems of each alternative that accepts a value of this type
    for check in checks:
        found = run.explain(check, value, at)
        if not any(_distinguishes(one, at) for one in found):
            meant.append(found)
        if not any(place is at and broken.keyword == "type" for place, broken in found):
            typed.append(found)
        if len(meant) > 1:  # all of them are among `typed`, too
            return rule.broken(at, run)
        del typed[2:]
    if not meant:
        if not typed and types is not None:
            return types.broken(at, run)
        meant = typed
    if len(meant) != 1:
        return rule.broken(at, run)
    for one in meant[0]:
        run.note(one)
    return False


def _distinguishes(found: Found, where: At) -> bool:
    at, rule = found
    levels = DISTINGUISHING.get(rule.keyword, -1)
    return levels >= 0 and (at is where or (levels == 1 and at is not None and at[0] is where))


def _make_not(making: Making) -> Check:
    check = making.one("not")
    assert check is not None, "the keyword is present"
    # By the verdict alone: the problems of what a value should not be are none of its own.
    rule = making.rule("not", "should not be what 'not' describes")

    def fits_not(value: Any, at: At, run: ValidationRun) -> bool:
        return not run.fits(check, value, at) or rule.broken(at, run)

    return fits_not


def _make_if(making: Making) -> Check | None:
    condition = making.one("if")
    then, otherwise = making.one("then") or accept, making.one("else") or accept
    assert condition is not None, "the keyword is present"
    if then is accept and otherwise is accept:
        return None

    # The verdict of `if` alone decides: its own problems are none of the value's, since it "has no direct effect on the
    # overall validation result". https://json-schema.org/draft/2020-12/json-schema-core#section-10.2.2.1
    def conditional(value: Any, at: At, run: ValidationRun) -> bool:
        return then(value, at, run) if run.fits(condition, value, at) else otherwise(value, at, run)

    return conditional


COMBINED = (
    Maker(("allOf",), ANY, _make_all),
    Maker(("anyOf",), ANY, _make_any),
    Maker(("oneOf",), ANY, _make_one),
    Maker(("not",), ANY, _make_not),
    Maker(("if",), ANY, _make_if),
)


# -- parts that no other keyword has evaluated -------------------------------------------------------------------------

# `unevaluatedProperties` and `unevaluatedItems` are about the parts that no other keyword has evaluated. Only they need
# those, from a second kind of compiled function, `Collect`: it goes through the keywords that apply to the same value,
# except for alternatives that do not fit, and gathers the names or positions that each evaluates.
# https://json-schema.org/draft/2020-12/json-schema-core#section-11

_COLLECTING = 24  # units of work for a schema that is asked for its evaluated parts

Collect: TypeAlias = Callable[[Any, At, ValidationRun, set[Any]], bool]
"""Adds the evaluated parts to the set; returns True if those are all parts."""

Own: TypeAlias = Callable[[Making], Iterator[Collect]]
"""Yields the collectors of the parts that a schema's own keywords evaluate."""


def _make(keyword: str, own: Own, parts: Callable[[Any], Iterable[tuple[Any, Any]]], making: Making) -> Check | None:
    """Makes the check of a keyword about the `parts` of a value that none of the `own` keywords evaluates."""
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
    # An item that `contains` describes is evaluated, too, wherever it stands: what counts are "the annotations from
    # "prefixItems", "items", and "contains"". https://json-schema.org/draft/2020-12/json-schema-core#section-11.2
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
        # The same keyword of an inner schema has judged all that was left there: nothing remains for the outer one.
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
    # Not `not`: where it holds, its schema has failed, and "schema objects that produce a false assertion result MUST
    # NOT produce any annotation results". For the same reason an alternative counts only if it fits.
    # https://json-schema.org/draft/2020-12/json-schema-core#section-7.7.1.2
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
        # A condition that is met has evaluated its parts, even "without either "then" or "else"".
        # https://json-schema.org/draft/2020-12/json-schema-core#section-10.2.2.1
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


UNEVALUATED = (
    Maker(("unevaluatedItems",), ARRAY, partial(_make, "unevaluatedItems", _own_items, enumerate)),
    Maker(("unevaluatedProperties",), OBJECT, partial(_make, "unevaluatedProperties", _own_properties, dict.items)),
)
"""The makers of checks that come after all others of their schema."""
