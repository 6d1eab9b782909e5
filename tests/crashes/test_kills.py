"""Runs with a journal, conversations, MCP's tasks, and servers that share them are killed: nothing happens twice or is
lost.

A row is a program of this folder, what it keeps its records in, how much it tries, and the first seed. By hand, say
``python tests/crashes/replicas.py --on postgres --schedules 500``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from profiles import FULL

FOLDER = Path(__file__).resolve().parent
BACKENDS = ("sqlite", "postgres", "redis")


def _rows(mark: Any, program: str, backends: tuple[str, ...], option: str, count: int, *seeds: int) -> list[Any]:
    return [pytest.param(program, on, option, count, seed, marks=mark) for on in backends for seed in seeds or (0,)]


PROGRAMS: list[Any] = [
    ("journaled.py", "sqlite", "--kills", 20 if FULL else 2, 0),
    *_rows(pytest.mark.thorough, "journaled.py", BACKENDS[1:], "--kills", 20),
    *_rows(pytest.mark.thorough, "background.py", BACKENDS[:1], "--kills", 3),
    *_rows(pytest.mark.sweep, "background.py", BACKENDS[:1], "--kills", 40, 1000),
    *_rows(pytest.mark.thorough, "chats.py", BACKENDS, "--kills", 20),
    *_rows(pytest.mark.thorough, "replicas.py", BACKENDS[:1], "--schedules", 3),
    *_rows(pytest.mark.sweep, "mcp_tasks.py", BACKENDS[:1], "--schedules", 15),
    *_rows(pytest.mark.sweep, "journaled.py", BACKENDS[:1], "--schedules", 100, 1000, 2000, 3000),
    *_rows(pytest.mark.sweep, "journaled.py", BACKENDS[1:], "--schedules", 50, 1000),
    *_rows(pytest.mark.sweep, "replicas.py", ("postgres",), "--schedules", 50, 1000),
    *_rows(pytest.mark.sweep, "replicas.py", ("sqlite", "redis"), "--schedules", 25, 1000),
]
DEADLINE_S = 900


@pytest.mark.deadline(DEADLINE_S + 10)
@pytest.mark.parametrize(("program", "on", "option", "count", "seed"), PROGRAMS)
def test_what_is_killed_goes_on_with_every_effect_once_and_all_that_was_said_and_shown(
    program: str, on: str, option: str, count: int, seed: int
) -> None:
    if program == "replicas.py":
        for name in ("starlette", "uvicorn", "httpx"):
            pytest.importorskip(name, reason=f"THERE IS NO {name}: servers that share their records were not killed")
    done = subprocess.run(
        [sys.executable, str(FOLDER / program), "--on", on, option, str(count), "--seed", str(seed)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    reason = done.stderr.strip().rpartition("\n")[2].partition("Skipped: ")[2]
    if done.returncode and reason:
        pytest.skip(reason)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "0 went wrong" in done.stdout
