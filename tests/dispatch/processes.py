"""What tests that kill processes ask about them, and the calls that they make."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from streamtools.dispatch import Begin
from streamtools.executors import Invocation

PATIENCE_S = 60  # for a process to end on a busy machine


def is_gone(pid: int) -> bool:
    """Whether there is no such process, or only what is left of it until its parent asks."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end between the opening and the reading
        return True


async def wait_until_gone(pid: int) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not is_gone(pid):  # noqa: ASYNC110 - nobody tells of another's child
            await anyio.sleep(0.01)


def program(text: str, *arguments: str | Path) -> subprocess.Popen[str]:
    """Another process, which says on its standard output what it has come to."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", text, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment)


async def says(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    with anyio.fail_after(PATIENCE_S):
        return (await anyio.to_thread.run_sync(running.stdout.readline)).strip()


# -- calls of executors --


def call(name: str, key: str = "key", /, **arguments: Any) -> Invocation:
    return Invocation(tool=name, arguments=arguments, key=key)


def begin_with(seconds: float = math.inf, *before: Callable[[], object]) -> Begin:
    """Returns a `begin` that lets a call run for so long, and does something before."""

    async def begin() -> float:
        for act in before:
            if isinstance(done := act(), Awaitable):
                await done
        return seconds

    return begin


begin = begin_with()


def nobody(value: Any) -> None:
    raise AssertionError("nothing is reported here")


async def never() -> float:
    raise AssertionError("it should not begin")


def wait_for(holds: Callable[[], object]) -> None:
    """Wait in a thread, or block the event loop, until it holds."""
    pause, until = threading.Event(), time.monotonic() + PATIENCE_S
    while not holds() and time.monotonic() < until:
        pause.wait(0.002)
    assert holds()
