"""`make test` stays quick: what makes it slow little by little is counted, since a clock would judge the machine."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from profiles import QUICK_EXAMPLES

TESTS = Path(__file__).resolve().parent

MOST_QUICK_TESTS = 20_500
"""Each takes some milliseconds whatever it does. Before this grows, let one test judge a table, or leave cases to
`make test-all`."""

MOST_QUICK_EXAMPLES = 20

ALL_EXAMPLES_ALWAYS = {  # these count what they have come across, and few examples show too little of it
    "history/test_with_results.py": 1,
    "tools/jsonschema/test_jsonschema_engines.py": 1,
    "security/test_validation_fuzzed.py": 1,  # a sweep
}


def test_the_quick_tests_are_not_too_many(request: pytest.FixtureRequest) -> None:
    quick = [
        item
        for item in request.session.items
        if not any(item.get_closest_marker(name) for name in ("thorough", "sweep"))
    ]
    assert len(quick) <= MOST_QUICK_TESTS


def test_a_law_tries_few_examples_unless_all_are_asked_for() -> None:
    assert QUICK_EXAMPLES <= MOST_QUICK_EXAMPLES
    found = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        count = sum(1 for _ in _fixed_examples(ast.parse(path.read_text(encoding="utf-8"))))
        if count:
            found[path.relative_to(TESTS).as_posix()] = count
    assert found == ALL_EXAMPLES_ALWAYS, "say max_examples=examples(...), from profiles"


def _fixed_examples(tree: ast.Module) -> Iterator[ast.keyword]:
    """Each `max_examples` that is no call of `examples`, nor a multiple of one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "max_examples":
            names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
            if "examples" not in names:
                yield node
