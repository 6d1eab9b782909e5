"""Workflows that are killed, recovered and met by another process have every effect of a call once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dbos.cli", reason="dbos is not installed: nothing about durable runs was tested")

PROGRAM = Path(__file__).resolve().parents[1] / "crashes" / "schedules.py"
SCHEDULES = 10
DEADLINE_S = 300


@pytest.mark.deadline(DEADLINE_S + 10)
def test_each_effect_happens_once_and_an_end_that_was_read_stays_known() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "dbos", "--schedules", str(SCHEDULES)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"{SCHEDULES} schedules, 0 went wrong" in done.stdout
