"""`make test` stays quick: what makes it slow little by little is counted, since a clock would judge the machine."""

from __future__ import annotations

import pytest
from profiles import FULL, every

MOST_QUICK_TESTS = 6_000
"""Each takes some milliseconds whatever it does. Before this grows, let one test judge a table, or leave cases to
`make test-all`."""


def test_the_quick_tests_are_not_too_many(request: pytest.FixtureRequest) -> None:
    quick = [
        item
        for item in request.session.items
        if not any(item.get_closest_marker(name) for name in ("thorough", "sweep"))
    ]
    assert len(quick) <= MOST_QUICK_TESTS


def test_each_case_of_a_table_is_tried_whatever_the_others_do() -> None:
    tried: list[int] = []

    @every("case", [1, pytest.param(2, marks=pytest.mark.thorough), 3, 4, 5])
    def judged(case: int) -> None:
        tried.append(case)
        if case == 1:
            pytest.skip("not here")
        if case == 3:
            pytest.fail("wrong")
        assert case != 4

    with pytest.raises(BaseExceptionGroup, match="cases") as caught:
        judged()
    assert tried == ([1, 2, 3, 4, 5] if FULL else [1, 3, 4, 5])
    assert [error.__notes__ for error in caught.value.exceptions] == [["case: {'case': 3}"], ["case: {'case': 4}"]]
