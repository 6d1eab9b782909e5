"""Every promise about lifetimes and calls has a test that holds it, and that test is there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from named_tests import missing
from reliability_checklist import NEEDS, OTHERWISE, PROMISES

LIBRARY = Path(__file__).resolve().parent.parent / "streamtools"
ONE_EVENT_LOOP = {"asyncio", "trio", "uvloop"}


def test_the_promises_are_all_there() -> None:
    assert list(PROMISES) == [f"AT-{number}" for number in range(1, 33)]


def test_the_needs_are_all_there() -> None:
    numbers = (2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 14, 18, 19)
    assert list(NEEDS) == [f"2.{number}" for number in numbers]
    assert all(len(clauses) > 1 for clauses in NEEDS.values())


@pytest.mark.parametrize("key", PROMISES)
def test_a_promise_names_tests_that_exist(key: str) -> None:
    promise, tests = PROMISES[key]
    assert promise
    assert tests, f"{key} is held by no test"
    assert missing(tests) == []


@pytest.mark.parametrize("key", NEEDS)
def test_a_need_names_tests_that_exist_clause_by_clause(key: str) -> None:
    for clause, tests in NEEDS[key]:
        assert bool(tests) is not (f"{key}: {clause}" in OTHERWISE), f"{key}: {clause}"
        assert missing(tests) == []


def test_what_is_decided_otherwise_is_a_clause_and_has_its_reason() -> None:
    clauses = {f"{key}: {clause}" for key, clauses in NEEDS.items() for clause, _ in clauses}
    assert all(clause in clauses or clause.partition(":")[0] in PROMISES for clause in OTHERWISE)
    assert all(len(reason) > 40 for reason in OTHERWISE.values())


def test_async_tests_run_on_asyncio_and_on_trio() -> None:
    source = Path(__file__).with_name("conftest.py").read_text(encoding="utf-8")
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    (fixture,) = [function for function in functions if function.name == "anyio_backend"]
    (decorator,) = fixture.decorator_list
    assert isinstance(decorator, ast.Call)
    assert {word.arg: ast.literal_eval(word.value) for word in decorator.keywords} == {"params": ["asyncio", "trio"]}


def test_nothing_but_joining_and_what_runs_in_ray_imports_one_event_loop() -> None:
    """Ray's actors run asyncio and nothing else."""
    found = set()
    for path in LIBRARY.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            if any(name.partition(".")[0] in ONE_EVENT_LOOP for name in names):
                found.add(path.relative_to(LIBRARY).as_posix())
    # `group_exit` looks at what an interrupt has done to asyncio, and a Ray actor lives in Ray's own loop.
    assert found == {"pipelines/group_exit.py", "dispatch/executors/ray.py"}
