"""Runs with a journal that are killed anywhere have every effect once, and end by the line that began them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from profiles import FULL

for _needed in ("opentelemetry.sdk", "hypothesis"):  # DBOS has a venv without them
    pytest.importorskip(_needed, reason=f"{_needed} is not installed: no run with a journal was killed")

FOLDER = Path(__file__).resolve().parents[1] / "crashes"
PROGRAMS = {"journaled.py": 50 if FULL else 4, "chats.py": 50 if FULL else 3}
"""How often each kills its processes."""
DEADLINE_S = 300


@pytest.mark.deadline(2 * DEADLINE_S + 10)
def test_a_killed_run_goes_on_with_every_effect_once_and_its_page_has_every_event_once() -> None:
    for program, kills in PROGRAMS.items():
        done = subprocess.run(
            [sys.executable, str(FOLDER / program), "--kills", str(kills)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        assert "0 went wrong" in done.stdout
