"""Every capability that the project was begun for has a test that shows it, and that test is there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from seed_checklist import CHECKLIST

TESTS = Path(__file__).resolve().parent


@cache
def functions(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def test_the_checklist_is_whole() -> None:
    assert list(CHECKLIST) == [f"S{number}" for number in range(1, 109)]


@pytest.mark.parametrize("key", CHECKLIST)
def test_a_capability_names_tests_that_exist(key: str) -> None:
    capability, tests = CHECKLIST[key]
    assert capability
    assert tests, f"{key} is shown by no test"
    for test in tests:
        file, _, function = test.partition("::")
        assert function in functions(file), f"{key}: there is no {test}"
