"""Programs that keep traces, started on a port of this machine and ended by their handle."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar

import httpx

__all__ = ["eventually", "free_ports", "lacks", "served"]

T = TypeVar("T")

START_S = 180  # for a server: its first start makes a database, and imports a hundred packages
PATIENCE_S = 30  # for a span to be found after it was sent
PAUSE_S = 0.1  # between two questions
LOG_CHARS = 4000  # of a server's log that a failure shows


@contextmanager
def served(command: Sequence[str], url: str, health: str, folder: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Runs a server while the block runs. Gives its URL when it answers at the path `health`."""
    log = folder / "server.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
        )
        try:
            eventually(lambda: _is_healthy(process, url + health), START_S, lambda: _tail(log))
            yield url
        finally:
            process.terminate()
            try:
                process.wait(START_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def eventually(look: Callable[[], T | None], within_s: float = PATIENCE_S, said: Callable[[], str] = str) -> T:
    """Returns what `look` finds, asked again and again until it is true."""
    pause, until = threading.Event(), time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < until, f"nothing within {within_s} s; {said()}"
        pause.wait(PAUSE_S)
    return found


def lacks(distribution: str) -> bool:
    """Whether a package is not installed. Imports nothing: the imports of these warn, which is an error in tests."""
    try:
        version(distribution)
    except PackageNotFoundError:
        return True
    return False


def free_ports(count: int) -> list[int]:
    """Returns ports that nobody listens at just now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _is_healthy(process: subprocess.Popen[bytes], url: str) -> bool:
    assert process.poll() is None, f"the server ended with status {process.returncode}"
    try:
        return httpx.get(url, timeout=PATIENCE_S, trust_env=False).is_success
    except httpx.TransportError:
        return False


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-LOG_CHARS:]
