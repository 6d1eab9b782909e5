"""The store in a file: whose file it is, who waits for whom, and whether a claim is alive."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint
from processes import PATIENCE_S, program, says
from profiles import every

from streamtools.dispatch import Claimed, EndUnknown, Recorded, SqliteStore, StillRunning
from streamtools.errors import LocalProtocolError, ToolNotStarted

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="THERE ARE NO FORKS HERE: none was tested")
linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="THERE IS NO /proc: only leases tell here")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.sqlite3"


@contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else's connection to the file."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)) as connection:
        yield connection


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """The file is held by another process. It is free again behind this, or its connection's rollback."""
    with connected(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


async def test_a_closed_store_says_so(path: Path) -> None:
    store = SqliteStore(path)
    store.close()
    store.close()
    with pytest.raises(LocalProtocolError, match="the SqliteStore is closed"):
        await store.claim("key", "print")


# -- whose file it is ----------------------------------------------------------------------------------------------


@every("given", ["", ":memory:", "file:calls?mode=memory"])
def test_a_path_that_keeps_nothing_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match=r"needs the path of a file, not .*; MemoryStore keeps calls in memory"):
        SqliteStore(given)


STRANGERS = {
    "a table of that name": "CREATE TABLE calls (caller TEXT, callee TEXT)",
    "a table of that name, and a version": "CREATE TABLE calls (caller TEXT, callee TEXT); PRAGMA user_version=1",
    "no tables, but a version": "PRAGMA user_version=1",
    "no tables, but a version of its own": "PRAGMA user_version=99",
    "no tables, but an application": "PRAGMA application_id=1234",
    "other tables": "CREATE TABLE contacts (name TEXT)",
    "our number, and another table": "PRAGMA application_id=1937011572; PRAGMA user_version=2; CREATE TABLE calls (x)",
}


@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS)
def test_the_file_of_another_application_is_refused_and_left_as_it_is(path: Path, stranger: str) -> None:
    with connected(path) as connection:
        connection.executescript(stranger)
    before = path.read_bytes()
    with pytest.raises(LocalProtocolError, match=r"calls.sqlite3' is not a store of calls; nothing was written to it"):
        SqliteStore(path)
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_file_of_a_newer_version_is_refused_by_name(path: Path) -> None:
    SqliteStore(path).close()
    with connected(path) as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(LocalProtocolError, match=r"calls.sqlite3' has version 99, but this library reads up to 5"):
        SqliteStore(path)


VERSION_1 = """
CREATE TABLE calls (number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL,
    claimed_at REAL NOT NULL, completed INTEGER NOT NULL DEFAULT 0, result BLOB);
INSERT INTO calls VALUES (1, 'done', 'print', 1700000000.5, 1, '1'), (2, 'open', 'print', 1700000001.5, 0, NULL),
    (3, 'free', 'print', 1700000002.5, 0, NULL);
PRAGMA user_version=1;
"""


async def test_a_file_of_the_first_version_is_read_and_goes_on(path: Path) -> None:
    with connected(path) as connection:
        connection.executescript(VERSION_1)
    for _ in range(2):
        with SqliteStore(path, max_entries=3) as store:
            assert await store.claim("open", "print") == EndUnknown(1700000001.5)
            assert isinstance(await store.claim("done", "print"), Recorded)
    with SqliteStore(path, max_entries=3) as store:
        assert [(call.key, call.state, call.host, call.pid) for call in await store.calls()] == [
            ("open", "unknown", "", 0),
            ("free", "unknown", "", 0),
        ]
        await store.release("free")
        await store.complete("open", b"2")
        assert await store.claim("new", "print") == Claimed()  # in the place of `free`
        assert await store.claim("newer", "print") == Claimed()  # in that of `done`
        assert await store.claim("open", "print") == Recorded(b"2")


VERSION_3 = """
CREATE TABLE calls (number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL,
    claimed_at REAL NOT NULL, completed INTEGER NOT NULL DEFAULT 0, result BLOB, claim_id TEXT, host TEXT, pid INTEGER,
    boot TEXT, start TEXT, lease_until REAL);
CREATE TABLE counted (calls INTEGER NOT NULL);
INSERT INTO counted VALUES (0);
CREATE TRIGGER call_added AFTER INSERT ON calls BEGIN UPDATE counted SET calls = calls + 1; END;
CREATE TRIGGER call_deleted AFTER DELETE ON calls BEGIN UPDATE counted SET calls = calls - 1; END;
CREATE TABLE decisions (number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, record BLOB NOT NULL);
CREATE TABLE held (key TEXT NOT NULL, run INTEGER NOT NULL, step INTEGER NOT NULL, PRIMARY KEY (key, run, step))
    WITHOUT ROWID;
CREATE INDEX held_by ON held (run, step);
INSERT INTO calls VALUES (1, 'held', 'print', 1.5, 1, CAST('1' AS BLOB), 'c', 'h', 1, 'b', 's', 7),
    (2, 'large', 'print', 2.5, 1, NULL, 'c', 'h', 1, 'b', 's', 7), (3, 'open', 'print', 3.5, 0, NULL, 'c', 'h', 1, 'b',
    's', 7), (4, 'run:r:lease', 'lease', 4.5, 0, NULL, 'c', 'h', 1, 'b', 's', 7);
INSERT INTO decisions VALUES (1, 'decision:d', CAST('first' AS BLOB)), (2, 'decision:e', CAST('e' AS BLOB));
INSERT INTO held VALUES ('held', 1, 0), ('decision:d', 1, 0);
PRAGMA user_version=3;
PRAGMA application_id=1937011572;
"""


async def test_a_file_of_the_third_version_keeps_calls_decisions_and_what_a_run_may_ask_for_again(path: Path) -> None:
    with connected(path) as connection:
        connection.executescript(VERSION_3)
    for _ in range(2):
        with SqliteStore(path, max_entries=2) as store:
            assert await store.claim("held", "print") == Recorded(b"1")
            assert await store.claim("open", "print") == EndUnknown(3.5)
            assert [await store.decide(f"decision:{key}", b"later") for key in "de"] == [b"first", b"e"]
    with SqliteStore(path, max_entries=2) as store:
        assert [call.key for call in await store.calls(completed=True)] == ["held", "large", "open"]
        assert await store.claim("large", "print") == Recorded(None)
        assert isinstance(await store.take("r", 7), Claimed), "its holder is gone"
        assert await store.decide("decision:f", b"f") == b"f"
        assert [await store.decide(f"decision:{key}", None) for key in "de"] == [b"first", None]


def test_what_is_no_database_is_refused(path: Path) -> None:
    path.write_text("no database, but long enough to be looked at" * 50)
    with pytest.raises(sqlite3.DatabaseError, match="not a database") as caught:
        SqliteStore(path)
    assert caught.value.__notes__ == [f"the file is {str(path)!r}"]


@pytest.mark.parametrize("content", [None, b""])
def test_a_store_that_must_exist_is_not_made(path: Path, content: bytes | None) -> None:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((sqlite3.OperationalError, LocalProtocolError), match=r"unable to open|not a store of calls"):
        SqliteStore(path, must_exist=True)
    assert [found.stat().st_size for found in path.parent.iterdir()] == ([] if content is None else [0])


@pytest.mark.parametrize("again", [False, True], ids=["removed", "replaced"])
@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
async def test_nothing_is_claimed_in_a_file_that_was_taken_away(path: Path, again: bool, is_open: bool) -> None:
    """Whoever opens a new one of that name claims there, and both would run."""
    with SqliteStore(path) as store:
        if is_open:
            await store.claim("warm", "print")
        aside = path.with_name("aside")
        aside.mkdir()
        for part in list(path.parent.glob("calls*")):
            shutil.move(part, aside / part.name)
        other = SqliteStore(path) if again else None
        with pytest.raises(LocalProtocolError, match=r"calls.sqlite3' was removed or replaced"):
            await store.claim("key", "print")
        if other is not None:
            assert await other.claim("key", "print") == Claimed()
            other.close()
            for part in list(path.parent.glob("calls*")):
                part.unlink()
        for part in aside.iterdir():
            shutil.move(part, path.parent / part.name)
        assert await store.claim("key", "print") == Claimed()


def test_a_file_that_was_emptied_is_no_new_store(path: Path) -> None:
    with SqliteStore(path) as store:
        path.write_bytes(b"")

        with pytest.raises(LocalProtocolError, match="not a store of calls"):
            anyio.run(store.claim, "key", "print")


# -- who waits for whom --------------------------------------------------------------------------------------------


async def test_a_store_needs_none_of_the_threads_that_tools_take(path: Path) -> None:
    """Forty sync endpoints in anyio's forty threads, each with a pipeline and one store, waited for ever."""
    limiter, ends = anyio.to_thread.current_default_thread_limiter(), threading.Event()
    limiter.total_tokens = 1
    with SqliteStore(path) as store:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, ends.wait)
            while limiter.available_tokens:
                await checkpoint()
            with anyio.move_on_after(PATIENCE_S / 6) as bound:
                assert await store.claim("key", "print") == Claimed()
            ends.set()
    assert not bound.cancelled_caught


def test_a_new_file_that_another_process_is_about_to_set_up_is_waited_for(path: Path) -> None:
    """Workers of one program open it at the same time, and SQLite does not wait before it changes the kind of log."""
    with locked(path) as other:
        ends = threading.Timer(0.1, other.rollback)
        ends.start()
        SqliteStore(path).close()
        ends.join()


def test_a_file_that_is_held_for_too_long_is_not_opened(path: Path) -> None:
    SqliteStore(path).close()
    with (
        locked(path),
        pytest.raises(TimeoutError, match=r"calls.sqlite3' was locked by other processes for busy_timeout=0.1 s"),
    ):
        SqliteStore(path, busy_timeout=0.1)


@pytest.mark.thorough
async def test_who_waits_for_a_file_waits_no_longer_than_the_bound_also_behind_others(path: Path) -> None:
    refused: list[str] = []
    with SqliteStore(path, busy_timeout=2) as store:

        async def claim(number: int) -> None:
            with pytest.raises(ToolNotStarted) as caught:
                await store.claim(f"key {number}", "print")
            refused.append(str(caught.value))

        with locked(path), anyio.fail_after(7):  # one after the other, they would wait for 8 s
            async with anyio.create_task_group() as group:
                for number in range(4):
                    group.start_soon(claim, number)
        expected = f"not run: {str(path)!r} was locked by other processes for busy_timeout=2 s"
        assert refused == [expected] * 4
        for number in range(4):
            assert await store.claim(f"key {number}", "print") == Claimed()


async def test_a_caller_that_is_cancelled_while_the_file_is_held_leaves_at_once_and_claims_nothing(path: Path) -> None:
    with SqliteStore(path, busy_timeout=100 * PATIENCE_S) as store, SqliteStore(path) as another:
        with anyio.fail_after(PATIENCE_S):
            with locked(path):
                for key in ("a", "b", "c"):
                    with anyio.move_on_after(0.05) as bound:
                        await store.claim(key, "print")
                    assert bound.cancelled_caught
            for key in ("a", "b", "c"):
                assert await another.claim(key, "print") == Claimed()
                assert isinstance(await store.claim(key, "print"), StillRunning)


async def test_closing_waits_for_what_was_asked_for(path: Path) -> None:
    store = SqliteStore(path)
    await store.claim("key", "print")
    with locked(path) as other:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.complete("key", b"1")
        ends = threading.Timer(0.1, other.rollback)
        ends.start()
        store.close()
        ends.join()
    with SqliteStore(path) as after:
        assert await after.claim("key", "print") == Recorded(b"1")


FORGOTTEN = """
import sys, anyio
from streamtools.dispatch import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    await store.claim("done", "print")
    await store.claim("open", "print")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.complete("done", b"1")

anyio.run(main)
"""


@pytest.mark.thorough
async def test_a_store_that_was_never_closed_keeps_no_program_alive_and_loses_nothing(path: Path) -> None:
    with program(FORGOTTEN, path) as running:
        assert await anyio.to_thread.run_sync(running.wait, PATIENCE_S) == 0
    with SqliteStore(path) as store:
        assert await store.claim("done", "print") == Recorded(b"1")
        assert isinstance(await store.claim("open", "print"), EndUnknown)


async def test_a_store_of_another_process_is_not_closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqliteStore(path) as store:
        await store.claim("key", "print")
        with monkeypatch.context() as forked:
            forked.setattr(os, "getpid", lambda: 1)
            store.close()
            with pytest.raises(LocalProtocolError, match="forked by other means"):
                await store.claim("another", "print")
        assert await store.claim("another", "print") == Claimed()


# -- whether a claim is alive --------------------------------------------------------------------------------------

CLAIMS = """
import sys, anyio
from streamtools.dispatch import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1], lease=float(sys.argv[2]))
    print(type(await store.claim("key", "print")).__name__, flush=True)
    await anyio.to_thread.run_sync(sys.stdin.readline)

anyio.run(main)
"""


async def eventually(store: SqliteStore, expected: type) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not isinstance(await store.claim("key", "print"), expected):  # noqa: ASYNC110 - nobody tells of a lease
            await anyio.sleep(0.01)


@pytest.mark.thorough
@posix
async def test_a_claim_of_a_process_that_stands_still_is_unknown_until_it_goes_on(path: Path) -> None:
    with SqliteStore(path) as store, program(CLAIMS, path, "0.3") as running:
        assert await says(running) == "Claimed"
        running.send_signal(signal.SIGSTOP)
        await eventually(store, EndUnknown)
        running.send_signal(signal.SIGCONT)
        await eventually(store, StillRunning)
        running.kill()


async def test_a_claim_stays_alive_while_its_store_does_other_things(path: Path) -> None:
    def lease() -> float:
        with connected(path) as connection:
            return float(connection.execute("SELECT stale_at FROM records").fetchone()[0])

    with SqliteStore(path, lease=0.2) as store:
        await store.claim("key", "print")
        first = lease()
        with anyio.fail_after(PATIENCE_S):
            while lease() < first + 0.5:
                await store.claim("another", "print")
        await store.complete("key", b"1")
        assert await store.claim("key", "print") == Recorded(b"1")


ANOTHERS = [
    ("value = replace(value, '\",\"end', '0\",\"end')", EndUnknown),  # its number was given to another process
    ("value = replace(value, 'start\":\"', 'start\":\"x ')", StillRunning),  # of another container: its lease tells
    ("boot = 'x'", EndUnknown),  # before the machine was started again
    ("stale_at = 0", EndUnknown),
    ("value = 'no call'", EndUnknown),  # nobody here has written it
    ("value = zeroblob(70000)", EndUnknown),
]


@linux
@pytest.mark.parametrize(("change", "expected"), ANOTHERS, ids=[case[0] for case in ANOTHERS])
async def test_a_claim_is_alive_if_its_process_may_be(path: Path, change: str, expected: type) -> None:
    with SqliteStore(path) as store:
        await store.claim("key", "print")
        with connected(path) as connection:
            connection.execute(f"UPDATE records SET {change}")
        assert isinstance(await store.claim("key", "print"), expected)


async def test_a_call_that_ends_behind_the_release_of_its_claim_is_not_put_on_record(path: Path) -> None:
    """A person has released it by force, and it runs again elsewhere."""
    with SqliteStore(path) as first, SqliteStore(path) as second:
        await first.claim("key", "print")
        await second.settle("key", None, force=True)
        assert await second.claim("key", "print") == Claimed()
        with pytest.raises(LocalProtocolError, match="not claimed"):
            await first.complete("key", b"1")
        assert isinstance(await first.claim("key", "print"), StillRunning)


# -- how large it may grow -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0, -1, True, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["busy_timeout", "lease"])
def test_a_time_that_is_none_is_refused(path: Path, name: str, seconds: Any) -> None:
    with pytest.raises(ValueError, match=r"must be a number of seconds greater than 0"):
        SqliteStore(path, **{name: seconds})
