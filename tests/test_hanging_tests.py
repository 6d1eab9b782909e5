"""A test that hangs fails, by its name, and the tests beside it are judged as ever."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent

HANGING = """
import threading

import anyio
import pytest


def test_waits():
    threading.Event().wait()


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_awaits(anyio_backend):
    await anyio.sleep_forever()


def test_ends():
    pass
"""


@pytest.mark.thorough
def test_a_test_that_hangs_fails_by_its_name_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "test_hanging.py").write_text(HANGING, encoding="utf-8")
    (tmp_path / "conftest.py").write_text("from deadlines import pytest_addoption, pytest_configure\n")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS}\nanyio_mode = auto\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", "--deadline", "0.2", "-rf"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    failed = set(re.findall(r"^FAILED test_hanging\.py::(\S+)", done.stdout, re.MULTILINE))
    assert failed == {"test_waits", "test_awaits[asyncio]", "test_awaits[trio]"}, done.stdout
    assert "expected test_hanging.py::test_waits (call) to end within 0.2 s" in done.stdout
    assert "1 passed" in done.stdout
