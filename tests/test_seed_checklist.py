"""Every capability that the project was begun for has a test that shows it, and that test is there."""

from __future__ import annotations

from named_tests import missing
from seed_checklist import CHECKLIST


def test_the_checklist_is_whole() -> None:
    assert list(CHECKLIST) == [f"S{number}" for number in range(1, 109)]


def test_a_capability_names_tests_that_exist() -> None:
    assert [key for key, (capability, tests) in CHECKLIST.items() if not capability or not tests] == []
    assert {key: missing(tests) for key, (_, tests) in CHECKLIST.items() if missing(tests)} == {}
