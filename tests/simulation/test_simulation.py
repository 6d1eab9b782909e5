"""Programs that meet at the same calls have each effect once, and read the same answer, whatever becomes of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from mutations import TIMES
from profiles import examples
from simulation.schedules import Schedule, problems


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    logging.disable(logging.CRITICAL)  # the tools fail on purpose
    yield
    logging.disable(logging.NOTSET)


def test_programs_that_meet_have_each_effect_once_and_read_the_same_answers() -> None:
    for seed in range(examples(300, 40) * TIMES):
        schedule = Schedule(str(seed))
        found = problems(schedule)
        answers = "\n".join(map(str, schedule.answers))
        assert not found, f"seed {seed}: {schedule}\n{schedule.plans}\n{schedule.visits}\n{answers}"


def test_a_seed_gives_the_same_schedule_each_time() -> None:
    def run() -> list[str]:
        schedule = Schedule("7")
        schedule.run()
        return [str(answer) for answer in schedule.answers]

    assert run() == run()
