"""A test that hangs fails, by its name, and the tests beside it are judged as ever."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import deadlines
import pytest

TESTS = Path(__file__).resolve().parent

HANGING = """
import threading

import anyio
import pytest
from hypothesis import given, strategies

BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
def never():
    threading.Event().wait()


def test_waits():
    threading.Event().wait()


def test_loops():
    while True:
        pass


@given(strategies.integers())
def test_law(number):
    threading.Event().wait()


def test_begins_never(never):
    pass


@BOTH
async def test_awaits(anyio_backend):
    await anyio.sleep_forever()


@BOTH
async def test_swallows_its_cancellation(anyio_backend):
    while True:
        try:
            await anyio.sleep_forever()
        except BaseException:
            pass


@BOTH
async def test_ends(anyio_backend):
    await anyio.sleep(0)
"""


@pytest.mark.costly
@pytest.mark.deadline(120)
def test_a_test_that_hangs_fails_by_its_name_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "test_hanging.py").write_text(HANGING, encoding="utf-8")
    (tmp_path / "conftest.py").write_text("from deadlines import pytest_addoption, pytest_configure\n")
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {TESTS}\nanyio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-n",
            "2",
            "-p",
            "no:cacheprovider",
            "--deadline",
            "0.5",
            "--tb=short",
            "-rfE",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1
    failed = set(re.findall(r"^(?:FAILED|ERROR) test_hanging\.py::(\S+)", done.stdout, re.MULTILINE))
    on_loops = ("test_awaits", "test_swallows_its_cancellation")
    both = [f"{name}[{backend}]" for name in on_loops for backend in ("asyncio", "trio")]
    assert failed == {"test_waits", "test_loops", "test_law", "test_begins_never", *both}
    assert "7 failed, 2 passed, 1 error" in done.stdout
    assert "expected test_hanging.py::test_waits (call) to end within 0.5 s" in done.stdout
    assert "expected test_hanging.py::test_begins_never (setup) to end within 0.5 s" in done.stdout
    place = HANGING[: HANGING.index("await anyio.sleep_forever()")].count("\n") + 1
    for backend in ("asyncio", "trio"):
        said = f"test_awaits[{backend}] (call) to end within 0.5 s; it waits at test_hanging.py:{place} > "
        assert said in done.stdout
        assert f"crashed while running 'test_hanging.py::test_swallows_its_cancellation[{backend}]'" in done.stdout


def test_every_kind_of_test_that_has_a_deadline_exists_and_no_deadline_is_shorter_than_a_quick_tests(
    request: pytest.FixtureRequest,
) -> None:
    options = tomllib.loads((TESTS.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]
    marks = {mark.partition(":")[0] for mark in options["ini_options"]["markers"]}
    assert set(deadlines.BY_MARKER) == marks
    assert [name for name in deadlines.BY_FOLDER if not (TESTS / name).is_dir()] == []
    assert min([*deadlines.BY_MARKER.values(), *deadlines.BY_FOLDER.values()]) > deadlines.QUICK_S
    assert request.config.pluginmanager.has_plugin("deadlines-of-tests")
