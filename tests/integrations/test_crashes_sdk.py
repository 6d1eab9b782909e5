"""Under each framework, processes that are killed, interrupted, retried and met have every effect of a call once."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[1] / "crashes" / "schedules.py"
HOSTS = {
    "langgraph": "langgraph.prebuilt",
    "pydantic_ai": "pydantic_ai",
    "strands": "strands",
    "smolagents": "smolagents",
}
SCHEDULES = 10
DEADLINE_S = 240


@pytest.mark.deadline(DEADLINE_S + 10)
@pytest.mark.parametrize("host", HOSTS)
def test_each_effect_happens_once_and_an_end_that_was_read_stays_known(host: str) -> None:
    package, _, module = HOSTS[host].partition(".")
    if importlib.util.find_spec(package) is None or (module and importlib.util.find_spec(HOSTS[host]) is None):
        pytest.skip(f"{package} is not installed: nothing was run under it")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), host, "--schedules", str(SCHEDULES)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"{SCHEDULES} schedules, 0 went wrong" in done.stdout
