"""Makes the checks of keywords about the value itself: ``enum``, ``const``, numbers and strings. (The compiler itself
handles ``type``.)"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .compiler import ANY, NUMBER, TEXT, Maker, Making, size_bound
from .run import At, Check, ValidationRun
from .values import division_cost, equal, is_multiple, scalar_key, size_of, spelled

__all__ = ["MAKERS"]

MAX_SHOWN_OPTIONS = 10  # allowed values that a message lists


def _make_enum(making: Making) -> Check:
    options = making.keywords["enum"]
    shown = ", ".join(spelled(option) for option in options[:MAX_SHOWN_OPTIONS])
    if len(options) > MAX_SHOWN_OPTIONS:
        shown += f" and {len(options) - MAX_SHOWN_OPTIONS} more"
    return _one_of(options, making, "enum", f"should be one of {shown}" if options else "is not allowed to be anything")


def _make_const(making: Making) -> Check:
    option = making.keywords["const"]
    return _one_of([option], making, "const", f"should be {spelled(option)}")


def _one_of(options: list[Any], making: Making, keyword: str, message: str) -> Check:
    rule = making.rule(keyword, message)
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
    matches = compiled.matches
    rule = making.rule("pattern", f"should match the pattern {spelled(pattern)}")

    def match(value: Any, at: At, run: ValidationRun) -> bool:
        run.spend_at_once(compiled.units(len(value)))
        return matches(value) or rule.broken(at, run)

    return match


MAKERS = (
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
