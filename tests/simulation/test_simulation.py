"""Programs that meet at the same calls have each effect once, and read the same answer, whatever becomes of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from profiles import examples
from simulation.schedules import Schedule
from simulation.simulate import search, shown

DEADLINE_S = 300
"""Of a search, which takes less than a minute on a machine that does nothing else."""
ROOT = Path(__file__).resolve().parents[2]

BROKEN: dict[str, tuple[str, str, str]] = {
    "no check after the claim": (
        "dispatch/attempts.py",
        "            self._check()\n        except BeginRefused:",
        "            pass\n        except BeginRefused:",
    ),
    "a call that was cancelled between two attempts is not settled": (
        "dispatch/attempts.py",
        "await self._settle(call, call.claim, call.ending or cancelled(call))",
        "call.ending and await self._settle(call, call.claim, call.ending)",
    ),
    "a suspended call keeps its claim": (
        "dispatch/attempts.py",
        "elif OUTCOMES[ending.outcome].frees_claim or",
        "elif",
    ),
    "who meets a running call is told that its end is unknown": (
        "dispatch/store.py",
        "if now >= until:",
        "if True:",
    ),
    "a lease is not renewed": (
        "dispatch/store.py",
        "await self._store.renew(self._key)",
        "pass",
    ),
    "a known end that the store would not take is forgotten": (
        "dispatch/store.py",
        "            self._unsaved(data)\n",
        "",
    ),
}
"""What is broken: in which file, the text that is replaced, and by what."""


def test_programs_that_meet_have_each_effect_once_and_read_the_same_answers() -> None:
    found = search(range(examples(1000, 40)))
    assert not found, "\n".join(shown(seed) for seed in list(found)[:3])


def test_a_seed_gives_the_same_schedule_each_time() -> None:
    def run() -> list[str]:
        schedule = Schedule("7")
        schedule.run()
        return [str(answer) for answer in schedule.answers]

    assert run() == run()


@pytest.mark.sweep
@pytest.mark.deadline(DEADLINE_S + 10)
@pytest.mark.parametrize("broken", BROKEN)
def test_the_simulator_notices_what_is_broken_within_a_minute(broken: str, tmp_path: Path) -> None:
    file, text, instead = BROKEN[broken]
    shutil.copytree(ROOT / "streamtools", tmp_path / "streamtools", ignore=shutil.ignore_patterns("__pycache__"))
    module = tmp_path / "streamtools" / file
    source = module.read_text(encoding="utf-8")
    assert source.count(text) == 1, f"{file} has changed: the text to break is there {source.count(text)} times"
    module.write_text(source.replace(text, instead), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/simulation/simulate.py"), "--schedules", "4000", "--first"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "went wrong" in done.stdout
