"""How much the tests try: little in `make test`, all of it in `make test-all`, which sets STREAMTOOLS_TESTS=full.

A fuzzing run, which asks for many times as much by STREAMTOOLS_FUZZ_TIMES, has all of it, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest

__all__ = ["FULL", "QUICK_EXAMPLES", "each_with_each", "examples", "mostly_thorough", "thorough_unless"]

FULL = os.environ.get("STREAMTOOLS_TESTS") == "full" or "STREAMTOOLS_FUZZ_TIMES" in os.environ
QUICK_EXAMPLES = 10


def examples(full: int, quick: int = QUICK_EXAMPLES) -> int:
    """Choose how many examples of a law are tried: all in `make test-all`, else no more than `quick`."""
    return full if FULL else min(full, quick)


def thorough_unless(quick: Callable[[Any], bool], cases: Iterable[Any]) -> list[Any]:
    """Leave the cases that are not `quick` to `make test-all`; a case of several parameters is a tuple."""
    return [case if quick(case) else _thorough(case) for case in cases]


def mostly_thorough(cases: Iterable[Any], quick: int) -> list[Any]:
    """Leave all cases but the first `quick` to `make test-all`."""
    listed = list(cases)
    return [*listed[:quick], *map(_thorough, listed[quick:])]


def each_with_each(names: Iterable[str]) -> list[Any]:
    """Pair each name with each, itself too; in `make test`, each is first once and second once."""
    listed = list(names)
    following = dict(zip(listed, [*listed[1:], *listed[:1]], strict=True))
    return thorough_unless(lambda pair: pair[1] == following[pair[0]], [(a, b) for a in listed for b in listed])


def _thorough(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.thorough)
