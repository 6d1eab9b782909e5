"""Makes the checks of keywords that apply other schemas to the same value: ``allOf``, ``anyOf``, ``oneOf``, ``not``,
``if``."""

from __future__ import annotations

from typing import Any

from .compiler import ANY, Maker, Making
from .run import At, Check, Found, Rule, ValidationRun, accept
from .vocabulary import TYPES

__all__ = ["MAKERS"]

TELLING = {"type": 0, "enum": 1, "const": 1, "required": 1, "additionalProperties": 1}
"""Keywords that tell the alternatives of a union apart, and how deep inside the value: an alternative none of whose
such keywords is broken is the one that was meant."""


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
    """Returns the rule for a value whose type no alternative takes; None if some alternative takes any type."""
    names: dict[str, None] = {}
    for place in making.place.children[keyword].values():
        types = place.keywords.get("type")
        if types is None:
            return None
        names.update(dict.fromkeys([types] if isinstance(types, str) else types))
    return making.rule(keyword, f"should be {' or '.join(TYPES[name] for name in names)}")


def _explain(checks: list[Check], types: Rule | None, rule: Rule, value: Any, at: At, run: ValidationRun) -> bool:
    """Notes the problems of a value that fits no alternative: those of the alternative that was meant, if only one can
    have been."""
    if run.found is None:
        return False
    meant: list[list[Found]] = []  # the problems of each alternative that can have been meant
    typed: list[list[Found]] = []  # the problems of each alternative that takes a value of this type
    for check in checks:
        found = run.explain(check, value, at)
        if not any(_tells_apart(one, at) for one in found):
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


def _tells_apart(found: Found, where: At) -> bool:
    at, rule = found
    levels = TELLING.get(rule.keyword, -1)
    return levels >= 0 and (at is where or (levels == 1 and at is not None and at[0] is where))


def _make_not(making: Making) -> Check:
    check = making.one("not")
    assert check is not None, "the keyword is there"
    rule = making.rule("not", "should not be what 'not' describes")

    def fits_not(value: Any, at: At, run: ValidationRun) -> bool:
        return not run.fits(check, value, at) or rule.broken(at, run)

    return fits_not


def _make_if(making: Making) -> Check | None:
    condition = making.one("if")
    then, otherwise = making.one("then") or accept, making.one("else") or accept
    assert condition is not None, "the keyword is there"
    if then is accept and otherwise is accept:
        return None

    def conditional(value: Any, at: At, run: ValidationRun) -> bool:
        return then(value, at, run) if run.fits(condition, value, at) else otherwise(value, at, run)

    return conditional


MAKERS = (
    Maker(("allOf",), ANY, _make_all),
    Maker(("anyOf",), ANY, _make_any),
    Maker(("oneOf",), ANY, _make_one),
    Maker(("not",), ANY, _make_not),
    Maker(("if",), ANY, _make_if),
)
