"""Kills a worker together with the processes that it has started.

| | killed with the worker |
|---|---|
| Linux | its process group, and all that have its mark in their environment, in sessions of their own too |
| macOS, other Unix | its process group |
| Windows | nothing but the worker |

Beyond reach is a process that has left the worker's group and, on Linux, has cleared its environment as well.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from anyio.abc import Process

__all__ = ["MARK", "kill_family", "kill_marked", "new_mark"]

MARK = "STREAMTOOLS_WORKER_"
"""The beginning of the environment variable that marks a worker's processes. Each worker has a variable of its own, so
that a process that is started by a worker's worker carries the marks of both."""

ROUNDS = 20  # a process may fork while the others are looked at


def new_mark() -> str:
    """Returns the name of an environment variable that no other worker has."""
    return MARK + secrets.token_hex(8)


def kill_family(worker: Process, mark: str) -> None:
    """Kills a worker and what it has started. Takes a millisecond or two per hundred processes of the machine."""
    if hasattr(os, "killpg"):
        # not worker.kill(): that reaps, and asyncio then reports exit code 255
        if worker.returncode is None or not _exists(worker.pid):  # ended and there: its number is another's by now
            with suppress(ProcessLookupError, PermissionError):  # none left; macOS raises the second for zombies
                os.killpg(worker.pid, signal.SIGKILL)
    elif worker.returncode is None:  # pragma: no cover - Windows
        worker.kill()
    kill_marked(mark)


def kill_marked(mark: str) -> None:
    """Kills all other processes that have the mark, as far as the system shows their environment."""
    for found in islice(iter(lambda: list(_marked(mark)), []), ROUNDS):
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):  # it has just ended, or is another user's
                os.kill(pid, signal.SIGKILL)


def _marked(mark: str) -> Iterator[int]:
    start = f"{mark}=".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):  # on Linux only
        pid, environment = int(path.parent.name), b""
        with suppress(OSError):  # it has just ended, or is another user's
            environment = path.read_bytes()
        if pid != os.getpid() and (environment.startswith(start) or b"\0" + start in environment):
            yield pid


def _exists(pid: int) -> bool:
    try:
        with suppress(PermissionError):  # another user's
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
