"""``streamtools store``: a person sees the calls whose end is not known, and settles them."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from socket import gethostname
from typing import Any

import anyio
import pytest
from profiles import every
from pydantic_core import to_json

from streamtools.cli import main
from streamtools.dispatch import Claimed, EndUnknown, Recorded, SqliteStore, StillRunning
from streamtools.durable.claims import recorded_value
from streamtools.durable.record_store import ClaimedCall

FILE, ODD = "calls.sqlite3", "order:\x1b[2J\n:東京"


@pytest.fixture(autouse=True)
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    """A store with a call of each state, in a program that runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    async def make(store: SqliteStore) -> None:
        for key in ("runs", "lost", "done", ODD):
            await store.claim(key, "print")
        await store.complete("done", b'{"value": "a secret"}')
        await store.abandon("lost")
        await store.abandon(ODD)

    with SqliteStore(FILE) as store:
        anyio.run(make, store)
        yield store


@pytest.fixture
def claim(calls: SqliteStore) -> Callable[[str], Any]:
    return lambda key: anyio.run(calls.claim, key, "print")


def since(out: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(\d+ s\)", "JUST NOW", out)


def test_list_shows_what_runs_and_what_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "list", FILE]) == 0
    assert [line.split("  ") for line in since(re.sub("   +", "  ", capsys.readouterr().out)).splitlines()] == [
        ["KEY", "STATE", "SINCE", "HOST", "PROCESS"],
        ["runs", "running", "JUST NOW", gethostname(), str(os.getpid())],
        ["lost", "unknown", "JUST NOW", gethostname(), str(os.getpid())],
        ["order:\\x1b[2J :東京", "unknown", "JUST NOW", gethostname(), str(os.getpid())],
    ]


@pytest.mark.parametrize(("ago", "said"), [(-5, "0 s"), (90, "2 min"), (7200, "2 h"), (86400 * 3, "3 d")])
def test_list_tells_how_long_ago(ago: float, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect(FILE)) as connection, connection:
        connection.execute(
            "UPDATE records SET value = ? || char(10)", (to_json(asdict(ClaimedCall("print", time.time() - ago))),)
        )
    assert main(["store", "list", FILE]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert all(re.search(rf"\({re.escape(said)}\) +\?     \?$", line) for line in lines), lines


def test_release_lets_a_call_run_again(claim: Callable[[str], Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "release", FILE, ODD]) == 0
    assert capsys.readouterr().out == "released: the call may run again\n"
    assert claim(ODD) == Claimed()


@pytest.mark.parametrize("action", ["release", "complete"])
def test_a_call_that_runs_is_settled_by_force_only(
    action: str, claim: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", action, FILE, "runs"]) == 1
    text = f"the call 'runs' is still running (process {os.getpid()} on {gethostname()}); only force settles it"
    assert capsys.readouterr().err == f"streamtools: error: {text}\n"
    assert isinstance(claim("runs"), StillRunning)
    assert main(["store", action, FILE, "runs", "--force"]) == 0
    assert isinstance(claim("runs"), Claimed if action == "release" else Recorded)


@pytest.mark.parametrize(("options", "value"), [([], None), (["--result", '{"paid": 7}'], {"paid": 7})])
def test_complete_puts_a_result_on_record(
    options: list[str], value: Any, claim: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "complete", FILE, "lost", *options]) == 0
    assert capsys.readouterr().out == "completed: the call will not run again\n"
    assert recorded_value("pay", claim("lost")) == value


WRONG = [
    (["release", FILE, "nothing"], 1, "no call has the key 'nothing'"),
    (["release", FILE, "done"], 1, "the call 'done' is completed: its result is stored"),
    (["complete", FILE, "done"], 1, "the call 'done' is completed"),
    (["list", "nothing"], 1, "nothing does not exist"),
    (["list", "."], 1, ". does not exist"),
    (["list", "empty"], 1, "empty' is not a store of calls; nothing was written to it"),
    (["list", "text"], 1, "cannot use text: file is not a database"),
    (["complete", FILE, "lost", "--result", "done"], 2, "argument --result: expected JSON; put a text in quotes"),
    (["complete", FILE, "lost", "--result", "1", "--error", "x"], 2, "not allowed with argument --result"),
    (["complete", FILE, "lost", "--error", ""], 2, "argument --error: expected text, got nothing"),
    (["release", FILE, "\udcff"], 2, "argument KEY: expected text, got other bytes"),
    (["complete", FILE, "lost", "--result", r'{"a": "\ud800"}'], 1, "cannot be written as JSON"),
    (["release", FILE], 2, "the following arguments are required: KEY"),
    ([], 2, "the following arguments are required: ACTION"),
]


@every(("arguments", "status", "says"), WRONG)
def test_a_mistake_is_one_line_and_settles_nothing(
    arguments: list[str], status: int, says: str, claim: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty").write_bytes(b"")
    Path("text").write_text("no database, but long enough to be looked at" * 50)
    before = sorted(os.listdir())
    assert main(["store", *arguments]) == status
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert says in err
    assert isinstance(claim("lost"), EndUnknown)
    assert isinstance(claim("done"), Recorded)
    assert sorted(os.listdir()) == before
