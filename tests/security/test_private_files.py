"""Files that hold what a model, a person or a tool said are their owner's alone, and are written nowhere else."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest

from streamtools import pipeline
from streamtools.cli import main
from streamtools.dispatch import SqliteStore
from streamtools.record import record
from streamtools.telemetry import configure
from streamtools.view import Watch, page, write_private

BODY = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

posix = pytest.mark.skipif(os.name != "posix", reason="THERE ARE NO MODES HERE: none was looked at")


def recorded(path: Path) -> None:
    async def run() -> None:
        async with pipeline(BODY, observers=[record(path)]) as events:
            warnings = [event async for event in events if type(event).__name__ == "StreamWarning"]
        if warnings:
            raise OSError(str(warnings))

    anyio.run(run)


def traced(path: Path) -> None:
    configure("otlp-file", path=path, set_global=False).shutdown()


def stored(path: Path) -> None:
    async def claim(store: SqliteStore) -> None:
        await store.claim("key", "print")

    with SqliteStore(path) as store:
        anyio.run(claim, store)


def viewed(path: Path) -> None:
    with TemporaryDirectory() as folder:
        recorded(run := Path(folder) / "run.jsonl")
        if main(["view", str(run), "-o", str(path)]):
            raise OSError("the command refused it")


WRITERS: dict[str, Callable[[Path], None]] = {
    "a recording": recorded,
    "a trace": traced,
    "a store": stored,
    "the command's page": viewed,
    "a page": lambda path: write_private(path, page(Watch())),
    "bytes": lambda path: write_private(path, b"\xff"),
}


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@posix
def test_a_file_is_its_owners_alone_from_the_start_whatever_the_umask_says(tmp_path: Path) -> None:
    with umask(0):
        for name, write in WRITERS.items():
            write(tmp_path / name)
    assert {path.name: oct(mode(path)) for path in tmp_path.iterdir()} == dict.fromkeys(WRITERS, "0o600")


@posix
def test_a_file_that_others_may_read_is_taken_away_from_them(tmp_path: Path) -> None:
    for name, write in WRITERS.items():
        path = tmp_path / name
        write(path)
        path.chmod(0o666)
        write(path)
        assert (name, oct(mode(path))) == (name, "0o600")
        assert [found.name for found in tmp_path.glob(".*")] == []


@posix
def test_a_path_that_is_a_link_or_no_file_is_refused_and_nothing_is_written_there(tmp_path: Path) -> None:
    kinds: dict[str, Callable[[Path, Path], None]] = {
        "a link": lambda path, target: path.symlink_to(target),
        "a link that leads nowhere": lambda path, target: path.symlink_to(tmp_path / "nowhere"),
        "a pipe": lambda path, target: os.mkfifo(path),
    }
    refused = set()
    target = tmp_path / "target"
    target.write_bytes(b"")
    target.chmod(0o644)
    for name, write in WRITERS.items():
        for kind, lay in kinds.items():
            path = tmp_path / "path"
            lay(path, target)
            try:
                write(path)
            except OSError:
                refused.add((name, kind))
            path.unlink()
    assert refused == {(name, kind) for name in WRITERS for kind in kinds}
    assert (target.read_bytes(), mode(target)) == (b"", 0o644)
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


@posix
def test_the_error_says_what_was_expected_and_what_was_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    for refused in (lambda: SqliteStore(link), lambda: traced(link), lambda: write_private(link, "")):
        with pytest.raises(OSError, match="expected a regular file, got a symbolic link"):
            refused()
    recorded(tmp_path / "run.jsonl")
    assert main(["view", str(tmp_path / "run.jsonl"), "-o", str(link)]) == 1
    assert "expected a regular file, got a symbolic link" in capsys.readouterr().err


@posix
def test_the_log_of_a_store_has_its_mode_also_where_another_process_made_it(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite3"
    names = [f"{path.name}{suffix}" for suffix in ("", "-shm", "-wal")]
    with umask(0):
        stored(path)
        for wide in (0o600, 0o666):
            path.chmod(wide)
            with closing(sqlite3.connect(path)) as other:  # as long as it is open, the log is there
                other.execute("SELECT * FROM records").fetchall()
                assert {found.name: mode(found) for found in tmp_path.iterdir()} == dict.fromkeys(names, wide)
                stored(path)
                assert {found.name: mode(found) for found in tmp_path.iterdir()} == dict.fromkeys(names, 0o600)


@posix
def test_the_mode_of_another_applications_file_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "contacts.sqlite3"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE contacts (name TEXT)")
    path.chmod(0o644)
    with pytest.raises(Exception, match="not a store of calls"):
        SqliteStore(path)
    assert mode(path) == 0o644
