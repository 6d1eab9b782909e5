"""Runs with a journal that are killed anywhere have every effect once, and end by the line that began them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from profiles import FULL

FOLDER = Path(__file__).resolve().parent
PROGRAMS: list[Any] = [
    ("journaled.py", "--kills", 20 if FULL else 2, 0),
    pytest.param("chats.py", "--kills", 20, 0, marks=pytest.mark.thorough),
    *(pytest.param("journaled.py", "--schedules", 100, seed, marks=pytest.mark.sweep) for seed in (1000, 2000, 3000)),
]
"""Each with how often it kills its processes, or how many schedules it runs, and the seed of the first."""
DEADLINE_S = 600


@pytest.mark.deadline(DEADLINE_S + 10)
@pytest.mark.parametrize(("program", "option", "count", "seed"), PROGRAMS)
def test_a_run_that_is_killed_or_whose_file_fails_goes_on_with_every_effect_once_and_all_it_said(
    program: str, option: str, count: int, seed: int
) -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / program), option, str(count), "--seed", str(seed)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "0 went wrong" in done.stdout
