"""`examples/dbos_durable.py` survives its process: tests end one somewhere, and start it again."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("dbos.cli", reason="dbos is not installed: nothing about durable runs was tested")

from streamtools.durable.records import read_key

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "examples" / "dbos_durable.py"
PATIENCE_S = 120


def run(directory: Path, crash_at: str = "nowhere") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLE), "Pay Ada what she is owed.", crash_at],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@contextmanager
def _started(directory: Path, crash_at: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE), "Pay Ada what she is owed.", crash_at],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()


def _wait_for(path: Path, count: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while len(lines(path)) < count:
        assert time.monotonic() < until, f"{path.name} has no {count} lines"
        time.sleep(0.05)


def crash_and_start_again(directory: Path, crash_at: str) -> str:
    """Returns what the second process says of the calls."""
    crashed = run(directory, crash_at)
    assert (crashed.returncode, crashed.stdout) == (1, ""), crashed.stderr
    again = run(directory)
    assert again.returncode == 0, again.stderr
    return again.stdout.strip()


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def claimed(directory: Path) -> list[str]:
    """Returns the keys in the store; each ends with the id that the model gave its call."""
    with closing(sqlite3.connect(directory / "calls.sqlite3")) as database, database:
        return [read_key(key)[-1] for (key,) in database.execute("SELECT key FROM records WHERE kind = 'call'")]


def times_asked(directory: Path) -> list[str]:
    """Returns one line for each time that the model was asked: how many messages it was given."""
    return [line.split()[0] for line in lines(directory / "asked.txt")]


def last_offered(directory: Path) -> str:
    """Returns the id under which the model, when it was last asked for a call, made one."""
    return [line.split()[1] for line in lines(directory / "asked.txt") if line.startswith("1 ")][-1]


def test_without_a_crash_the_model_is_asked_twice_and_pays_once(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "ok: paid 7 to Ada"), done.stderr
    assert times_asked(tmp_path) == ["1", "3"]
    assert len(lines(tmp_path / "payments.txt")) == 1


def test_a_run_that_has_ended_is_answered_without_asking_or_paying_again(tmp_path: Path) -> None:
    run(tmp_path)
    assert run(tmp_path).stdout.strip() == "ok: paid 7 to Ada"
    assert times_asked(tmp_path) == ["1", "3"]
    assert len(lines(tmp_path / "payments.txt")) == 1


def test_killed_in_the_middle_of_the_tool_the_call_is_unknown_and_does_not_run_again(tmp_path: Path) -> None:
    assert crash_and_start_again(tmp_path, "tool").startswith("unknown: ")
    assert times_asked(tmp_path) == ["1", "3"]
    assert len(lines(tmp_path / "payments.txt")) == 1


def test_killed_after_the_tool_the_call_is_answered_from_the_record(tmp_path: Path) -> None:
    assert crash_and_start_again(tmp_path, "after") == "ok, on record: paid 7 to Ada"
    assert times_asked(tmp_path) == ["1", "3"]
    assert len(lines(tmp_path / "payments.txt")) == 1


def test_killed_in_the_middle_of_the_response_nothing_had_begun_and_the_model_is_asked_again(tmp_path: Path) -> None:
    crashed = run(tmp_path, "response")
    assert crashed.returncode == 1
    assert not (tmp_path / "calls.sqlite3").exists()
    assert run(tmp_path).stdout.strip() == "ok: paid 7 to Ada"
    assert times_asked(tmp_path) == ["1", "1", "3"]
    assert len(lines(tmp_path / "payments.txt")) == 1


def test_killed_between_response_and_tool_the_response_is_replayed_with_its_call_id(tmp_path: Path) -> None:
    assert crash_and_start_again(tmp_path, "before") == "ok: paid 7 to Ada"
    assert times_asked(tmp_path) == ["1", "3"], "the first response was durable"
    assert len(lines(tmp_path / "payments.txt")) == 1
    (key,) = claimed(tmp_path)
    assert key.endswith(last_offered(tmp_path))


def test_another_process_that_takes_the_run_over_meets_its_call_and_gets_the_same_answer(tmp_path: Path) -> None:
    with _started(tmp_path, "hold") as first:
        _wait_for(tmp_path / "payments.txt", 1)
        with _started(tmp_path, "nowhere") as second:
            _wait_for(tmp_path / "turns.txt", 2)  # and now it meets the call that runs, or will
            assert first.stdin is not None
            print(file=first.stdin, flush=True)
            outputs = [process.communicate(timeout=PATIENCE_S) for process in (first, second)]
    answers = [out.strip() for out, _ in outputs]
    assert all(answer in ("ok: paid 7 to Ada", "ok, on record: paid 7 to Ada") for answer in answers), outputs
    assert len(lines(tmp_path / "payments.txt")) == 1
    assert len(claimed(tmp_path)) == 1


def test_killed_again_and_again_it_still_pays_once(tmp_path: Path) -> None:
    for crash_at in ("response", "before", "after"):
        assert run(tmp_path, crash_at).returncode == 1
    assert run(tmp_path).stdout.strip() == "ok, on record: paid 7 to Ada"
    assert len(lines(tmp_path / "payments.txt")) == 1
    assert len(claimed(tmp_path)) == 1
