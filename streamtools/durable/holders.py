"""Identifies the process that holds a claim; has the checks and errors that all stores share.

A process is identified by its number, which may be reused, the machine's start (its boot id) and its own start. Without
``/proc``, all but the number are empty, and only a claim's lease shows whether the process is alive.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from platform import node as gethostname

from ..errors import LocalProtocolError, ToolNotStarted

MAX_KEY_CHARS = 1024  # three ids of at most 256 bytes, and room


@dataclass(frozen=True, slots=True)
class Holder:
    host: str
    pid: int
    boot: str  # distinguishes this boot of the machine from others; empty if unknown
    start: str  # distinguishes processes with the same number: their namespace and start; empty if unknown

    def is_gone(self) -> bool:
        """Returns whether the process has certainly ended, as far as this one can see."""
        if not self.start or self.boot != boot_id() or self.start.split()[0] != _namespace():
            return False
        return self.start != _start(self.pid)


def this_process() -> Holder:
    return Holder(gethostname(), os.getpid(), boot_id(), _start(os.getpid()))


def machine_clock() -> float:
    """Returns the seconds since the machine's start, the same in all its processes and unaffected by setting the clock.
    If the machine's start is unknown, returns the wall clock's seconds."""
    return time.monotonic() if boot_id() else time.time()


@cache
def boot_id() -> str:
    return _read("/proc/sys/kernel/random/boot_id")


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:  # pragma: no cover - no Linux
        return ""


def _start(pid: int) -> str:
    state = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()  # its name, in brackets, may contain anything
    # https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: the fields from the third on
    return f"{_namespace()} {state[19]}" if state and state[0] not in "ZX" else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:  # no such process; or no Linux
        return ""


# -- checks and errors that all stores share --


def checked_fingerprint(key: str, fingerprint: str, known: str) -> None:
    if fingerprint != known:
        raise ToolNotStarted(f"not run: the idempotency key {key!r} belongs to a call with another tool or arguments")


def checked_key(key: str) -> None:
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_CHARS:
        raise ValueError(f"an idempotency key must be text of 1 to {MAX_KEY_CHARS} characters")


def no_room(max_entries: int) -> ToolNotStarted:
    return ToolNotStarted(
        f"not run: the store is full: max_entries={max_entries} calls have an unknown outcome or an unfinished run; "
        "check the calls and complete or release them, and end or forget the runs"
    )


def not_claimed(key: str) -> LocalProtocolError:
    return LocalProtocolError(f"complete({key!r}): the key is not claimed; claim it before the call runs")
