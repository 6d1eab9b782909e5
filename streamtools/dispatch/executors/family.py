"""Kills a worker process together with the processes that it has started.

Input: the worker, and the mark that is in its environment and in that of all that it starts. Guarantee:

| | killed with the worker |
|---|---|
| Linux | its process group, and all that have its mark in their environment, in sessions of their own too |
| macOS, other Unix | its process group |
| Windows | nothing but the worker |

Beyond reach is a process that has left the worker's group and, on Linux, has cleared its environment as well.

Theory of operation. Linux shows an environment as ``/proc/PID/environ``. A process that is replacing its program (exec)
has none for a moment: the new memory is there, and the environment has not been put into it yet
(https://github.com/torvalds/linux/blob/master/fs/binfmt_elf.c: ``create_elf_tables`` sets ``env_start``). Whoever looks
at that moment sees an empty file. So a process of our own user without an environment is looked at again, until it has
one, or has ended, or turns out to have been started without: ``/proc/PID/stat`` then has the place of the empty one.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import Process

__all__ = ["kill_all_marked", "kill_family", "kill_late", "kill_marked", "new_mark"]

MARK = "STREAMTOOLS_WORKER_"
"""The beginning of the environment variable that marks a worker's processes. Each worker has a variable of its own, so
that a process that is started by a worker's worker carries the marks of both."""

ROUNDS = 20  # a process may fork while the others are looked at
LOOKS = 50  # at processes that have no environment at this moment
PAUSE_S = 0.01  # between two looks; an exec takes less than a millisecond where processors are free

PROC = Path("/proc")  # on Linux only
KERNEL_THREAD = 0x00200000  # PF_KTHREAD, in the flags of /proc/PID/stat
STATE, FLAGS, BORN, ENVIRONMENT = 0, 6, 19, slice(47, 49)  # in /proc/PID/stat, behind the program's name


def new_mark() -> str:
    """Returns the name of an environment variable that no other worker has."""
    return MARK + secrets.token_hex(8)


def kill_family(worker: Process, mark: str) -> bool:
    """Kills a worker and what it has started, as far as that shows now; returns whether `kill_late` has to look for
    more. Takes a millisecond or two per hundred processes of the machine."""
    if hasattr(os, "killpg"):
        # not worker.kill(): that reaps, and asyncio then reports exit code 255
        if worker.returncode is None or not _exists(worker.pid):  # ended and there: its number is another's by now
            with suppress(ProcessLookupError, PermissionError):  # none left; macOS raises the second for zombies
                os.killpg(worker.pid, signal.SIGKILL)
    elif worker.returncode is None:  # pragma: no cover - Windows
        worker.kill()
    return kill_marked(mark)


async def kill_late(
    mark: str, *, proc: Path = PROC, kill: Callable[[int, int], object] = os.kill, looks: int = LOOKS
) -> None:
    """Kills the marked processes whose environment did not show at first; gives up after half a second."""
    for _ in range(looks):
        if not kill_marked(mark, proc=proc, kill=kill):
            return
        await anyio.sleep(PAUSE_S)


def kill_all_marked(mark: str) -> None:  # pragma: no cover - in a worker
    """Does what `kill_late` does, in a process that has no event loop to keep from running."""
    for _ in range(LOOKS):
        if not kill_marked(mark):
            return
        time.sleep(PAUSE_S)


def kill_marked(mark: str, *, proc: Path = PROC, kill: Callable[[int, int], object] = os.kill) -> bool:
    """Kills all other processes that show the mark in their environment. Returns whether some process shows no
    environment at this moment, so that it may have the mark: look again.

    Args:
        mark: see `new_mark`.
        proc: the system's account of its processes.
        kill: sends a signal to a process.
    """
    hidden = False
    for _ in range(ROUNDS):
        marked, hidden = _look(mark, proc)
        if not marked:
            break
        for pid in marked:
            with suppress(ProcessLookupError, PermissionError):  # it has just ended, or is another user's
                kill(pid, signal.SIGKILL)
    return hidden


def _look(mark: str, proc: Path) -> tuple[list[int], bool]:
    """Returns the processes that show the mark, and whether some process may yet show it."""
    start, marked, hidden = f"{mark}=".encode(), list[int](), False
    since = _born(proc)
    for directory in proc.glob("[0-9]*"):
        pid = int(directory.name)
        if pid == os.getpid():
            continue
        environment = _environment(directory)
        if environment.startswith(start) or b"\0" + start in environment:
            marked.append(pid)
        hidden = hidden or (environment == b"" and _may_show_one(directory, since))
    return marked, hidden


def _environment(directory: Path) -> bytes:
    """Returns a process's environment; a placeholder if nobody may read it, or the process has just ended."""
    with suppress(OSError):
        return (directory / "environ").read_bytes()
    return b"\0"


def _may_show_one(directory: Path, since: int) -> bool:
    """Returns whether a process that showed an empty environment may show another: not if it has ended, is older than
    this process, or was started with an empty one, which then has its place."""
    try:
        before = _status(directory)
        if before[STATE] in "ZX" or int(before[FLAGS]) & KERNEL_THREAD or int(before[BORN]) < since:
            return False
        is_empty = "0" not in before[ENVIRONMENT] and _environment(directory) == b""
        return not is_empty or _status(directory)[ENVIRONMENT] != before[ENVIRONMENT]
    except (OSError, IndexError):  # it has just ended
        return False


def _born(proc: Path) -> int:
    """Returns when this process began, in the system's clock ticks."""
    try:
        return int(_status(proc / "self")[BORN])
    except (OSError, IndexError):
        return 0


def _status(directory: Path) -> list[str]:
    return (directory / "stat").read_text().rpartition(")")[2].split()


def _exists(pid: int) -> bool:
    try:
        with suppress(PermissionError):  # another user's
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
