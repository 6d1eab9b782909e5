"""How much the tests try: little in `make test`, all of it in `make test-all`, which sets STREAMTOOLS_TESTS=full.

A fuzzing run, which asks for many times as much by STREAMTOOLS_FUZZ_TIMES, has all of it, too.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

__all__ = ["FULL", "QUICK_EXAMPLES", "each_with_each", "every", "examples", "mostly_thorough", "thorough_unless"]

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


def every(names: str | Iterable[str], cases: Iterable[Any]) -> Callable[[Any], Any]:
    """Try each case of a table in one test, where `parametrize` makes a test of each; report all that fail.

    Args:
        names: The test's parameters that a case fills: `"wire, cut"`, or a list. Its other parameters are fixtures.
        cases: The rows, each a value, a tuple or a `pytest.param`. Those marked `thorough` are left to `make test-all`.

    A case that skips ends itself alone; the test is skipped if no case was tried.
    """
    listed = [one.strip() for one in names.split(",")] if isinstance(names, str) else list(names)
    rows = [row for case in cases for row, is_quick in [_row(case, len(listed))] if FULL or is_quick]

    def decorated(test: Any) -> Any:
        async def tried_async(**fixtures: Any) -> None:
            with _failures(listed, rows) as tried_row:
                for row in rows:
                    with tried_row(row):
                        await test(**fixtures, **dict(zip(listed, row, strict=True)))

        def tried(**fixtures: Any) -> None:
            with _failures(listed, rows) as tried_row:
                for row in rows:
                    with tried_row(row):
                        test(**fixtures, **dict(zip(listed, row, strict=True)))

        trial: Any = tried_async if inspect.iscoroutinefunction(test) else tried
        functools.update_wrapper(trial, test)
        del trial.__wrapped__  # pytest would look through it, and take the cases' names for fixtures
        signature = inspect.signature(test)
        others = [one for one in signature.parameters.values() if one.name not in listed]
        trial.__signature__ = signature.replace(parameters=others)
        return trial

    return decorated


@contextmanager
def _failures(names: list[str], rows: list[tuple[Any, ...]]) -> Iterator[Callable[[tuple[Any, ...]], Any]]:
    """Give what a case is tried in; raise, at the end, all that the cases have raised."""
    found: list[BaseException] = []
    skipped: list[str] = []

    @contextmanager
    def tried(row: tuple[Any, ...]) -> Iterator[None]:
        try:
            yield
        except pytest.skip.Exception as reason:  # this and the next are no Exceptions
            skipped.append(str(reason))
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"case: {dict(zip(names, row, strict=True))!r:.500}")
            found.append(error)

    yield tried
    if len(found) == 1:
        raise found[0]
    if found:
        raise BaseExceptionGroup(f"{len(found)} of {len(rows)} cases", found)
    if len(skipped) == len(rows):
        pytest.skip("; ".join(dict.fromkeys(skipped)) or "no quick case")


def _row(case: Any, count: int) -> tuple[tuple[Any, ...], bool]:
    """Give the values of a case, and whether it is quick."""
    if isinstance(case, type(pytest.param())):
        return tuple(case.values), all(mark.name != "thorough" for mark in case.marks)
    return ((case,) if count == 1 else tuple(case)), True


def _thorough(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.thorough)
