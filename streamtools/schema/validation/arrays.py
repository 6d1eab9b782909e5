"""Makes the checks of keywords about arrays, in both dialects."""

from __future__ import annotations

from typing import Any

from .compiler import ARRAY, Maker, Making, size_bound
from .run import At, Check, ValidationRun, accept
from .values import TooDeep, key_of

__all__ = ["MAKERS"]

MAX_COMPARED_DEPTH = 256  # nesting of items that uniqueItems can compare


def _make_items(making: Making) -> Check | None:
    """Makes the check of ``prefixItems`` and ``items``; in draft-07 of ``items`` as a list, and ``additionalItems``."""
    if "prefixItems" in making.keywords:
        first, rest = making.many("prefixItems"), making.one("items")
    elif isinstance(making.keywords.get("items"), list):
        first, rest = making.many("items"), making.one("additionalItems")
    else:
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
    if not making.keywords["uniqueItems"]:
        return None
    rule = making.rule("uniqueItems", "should have no two equal items")
    deep = making.rule("uniqueItems", f"has items nested deeper than {MAX_COMPARED_DEPTH} levels, too deep to compare")

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
    assert check is not None, "the keyword is there; minContains and maxContains mean nothing alone"
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


MAKERS = (
    size_bound("minItems", ARRAY, "item", "items"),
    size_bound("maxItems", ARRAY, "item", "items"),
    Maker(("prefixItems", "items", "additionalItems"), ARRAY, _make_items),
    Maker(("contains",), ARRAY, _make_contains),
    Maker(("uniqueItems",), ARRAY, _make_unique),
)
