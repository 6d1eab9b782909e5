"""Killing what a worker has started: also a process that shows no environment while it is replacing its program."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from streamtools.executors.worker import kill_late, kill_marked, new_mark

pytestmark = pytest.mark.anyio

MARK = new_mark()
MARKED, OTHER = f"A=b\0{MARK}=1\0".encode(), b"A=b\0"
BORN, PLACE = 1000, 140_000


@dataclass
class Account:
    """A system's account of its processes, made by hand."""

    proc: Path
    killed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.says("self", OTHER, born=BORN)
        (self.proc / "version").write_text("no process")

    def says(self, pid: object, environment: bytes, *, state: str = "S", born: int = BORN, place: int = PLACE) -> None:
        """Tells of a process; `place` is that of its environment, 0 in the middle of an exec."""
        fields = ["0"] * 50
        fields[0], fields[19], fields[47:49] = state, str(born), [str(place)] * 2
        directory = self.proc / str(pid)
        directory.mkdir(exist_ok=True)
        (directory / "stat").write_text(f"{pid} (a (b) c) {' '.join(fields)}")
        (directory / "environ").write_bytes(environment)

    def kill(self, pid: int, number: int) -> None:
        assert number == signal.SIGKILL
        self.killed.append(pid)
        self.says(pid, b"", state="Z", place=0)

    def look(self) -> bool:
        return kill_marked(MARK, proc=self.proc, kill=self.kill)


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return Account(tmp_path)


async def test_a_process_in_the_middle_of_an_exec_is_killed_when_its_environment_shows(account: Account) -> None:
    account.says(7, b"", place=0)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:

            async def kill() -> None:
                await kill_late(MARK, proc=account.proc, kill=account.kill, looks=1_000_000)
                account.killed.append(0)

            group.start_soon(kill)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            assert account.killed == []
            account.says(7, MARKED)
    assert account.killed == [7, 0]


async def test_it_is_not_waited_for_without_an_end(account: Account) -> None:
    account.says(7, b"", place=0)
    with anyio.fail_after(60):
        await kill_late(MARK, proc=account.proc, kill=account.kill, looks=2)
    assert account.killed == []


def test_marked_processes_are_killed_and_no_others(account: Account) -> None:
    for pid, environment in ((2, MARKED), (3, OTHER), (4, f"{MARK}=1\0".encode()), (5, f"X={MARK}=1\0".encode())):
        account.says(pid, environment)
    account.says(os.getpid(), MARKED)
    assert account.look() is False
    assert sorted(account.killed) == [2, 4]


SETTLED = {
    "ended": {"state": "Z", "place": 0},
    "older than this process": {"born": BORN - 1, "place": 0},
    "started with an empty environment": {},
}


def test_a_process_that_has_no_environment_for_good_is_not_looked_at_again(account: Account) -> None:
    for what, said in SETTLED.items():
        account.says(7, b"", **said)  # type: ignore[arg-type]
        assert account.look() is False, what


def test_one_that_may_be_a_workers_and_has_none_yet_is(account: Account) -> None:
    for born in (BORN, BORN + 1):
        account.says(7, b"", born=born, place=0)
        assert account.look() is True


def test_one_that_ends_while_it_is_looked_at_is_passed_over(account: Account) -> None:
    for pid in (7, 8):
        (account.proc / str(pid)).mkdir()
    (account.proc / "8" / "environ").write_bytes(b"")
    (account.proc / "self" / "stat").unlink()
    account.says(9, MARKED)
    assert account.look() is False
    assert account.killed == [9]
