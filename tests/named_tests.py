"""Which tests there are, by name: for the lists that say which test holds which promise."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

__all__ = ["missing", "tests_of"]

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent

Definition = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tests_of(file: str) -> frozenset[str]:
    """The names of the tests of a file, as pytest would write them: ``test_it``, ``TestIt::test_it``.

    Args:
        file: Its path below ``tests/``, or from the project's root (``benchmarks/load.py``).

    Returns:
        No names where there is no such file. Methods of a state machine count by the test that it is bound to
        (``TestIt = Machine.TestCase``: ``TestIt``).
    """
    path = next((path for path in (TESTS / file, ROOT / file) if path.is_file()), None)
    if path is None:
        return frozenset()
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, Definition):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names.update(f"{node.name}::{item.name}" for item in node.body if isinstance(item, Definition))
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return frozenset(name for name in names if name.rpartition("::")[2].startswith(("test_", "Test")))


def missing(names: Iterable[str]) -> list[str]:
    """Those of the names that nothing stands behind.

    Args:
        names: ``dispatch/test_dispatch.py::test_calls_run_at_the_same_time``, with or without a leading ``tests/``;
            ``dispatch/test_approval.py::*`` for a file with any tests; ``benchmarks/load.py`` for a script.
    """
    return [name for name in names if not _is_there(name.removeprefix("tests/"))]


def _is_there(name: str) -> bool:
    file, separator, test = name.partition("::")
    if not separator:
        return (ROOT / file).is_file()
    return bool(tests_of(file)) if test == "*" else test in tests_of(file)
