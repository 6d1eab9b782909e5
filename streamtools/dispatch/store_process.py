"""Identifies the process that made a claim and finds out whether it still lives, though its number may be reused.

A process is identified by its number, the machine's start (its boot id) and its own start. Where there is no ``/proc``,
all but the number is empty, and only a claim's lease shows whether it is alive.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from platform import node as gethostname

__all__ = ["Holder", "boot_id", "machine_clock", "this_process"]


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that has made a claim."""

    host: str
    pid: int
    boot: str
    """Tells this run of the machine from others; empty if that is not known."""
    start: str
    """Tells the process from others with its number: their namespace, and when it began; empty if not known."""

    def is_gone(self) -> bool:
        """Returns whether the process has certainly ended, as far as this one can see."""
        if not self.start or self.boot != boot_id() or self.start.split()[0] != _namespace():
            return False
        return self.start != _start(self.pid)


def this_process() -> Holder:
    """Returns the holder of claims that are made here; a fork's child is a different one."""
    return Holder(gethostname(), os.getpid(), boot_id(), _start(os.getpid()))


def machine_clock() -> float:
    """Returns the seconds since the machine's start, the same in all of its processes; setting a clock does not move
    them. Where a machine's start is not known, returns those of the wall clock."""
    return time.monotonic() if boot_id() else time.time()


@cache
def boot_id() -> str:
    """Returns the name of this run of the machine; empty if it has none."""
    return _read("/proc/sys/kernel/random/boot_id")


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:  # pragma: no cover - no Linux
        return ""


def _start(pid: int) -> str:
    """Returns the namespace and the start of a process; empty if it has ended."""
    state = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()  # its name, in brackets, may contain anything
    # https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: the fields from the third on
    return f"{_namespace()} {state[19]}" if state and state[0] not in "ZX" else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:  # no such process; or no Linux
        return ""
