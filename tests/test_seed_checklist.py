"""Every capability that the project was begun for has a test that shows it, and that test is there."""

from __future__ import annotations

import pytest
from named_tests import missing
from seed_checklist import CHECKLIST


def test_the_checklist_is_whole() -> None:
    assert list(CHECKLIST) == [f"S{number}" for number in range(1, 109)]


@pytest.mark.parametrize("key", CHECKLIST)
def test_a_capability_names_tests_that_exist(key: str) -> None:
    capability, tests = CHECKLIST[key]
    assert capability
    assert tests, f"{key} is shown by no test"
    assert missing(tests) == []
