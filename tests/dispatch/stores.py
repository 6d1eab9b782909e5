"""What tests of stores share: a Redis server for those that need one, and an executor that counts."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import pytest

from streamtools.dispatch import Begin, Emit, Invocation

__all__ = ["RedisServer", "Runs", "redis_server"]


class RedisServer:
    """A server on this machine that keeps nothing on the disk."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"redis://127.0.0.1:{port}/0"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        """Start it, and wait until it takes connections. It begins with nothing."""
        settings = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", *options]
        self.process = subprocess.Popen(["redis-server", *settings], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert any(b"Ready to accept connections" in line for line in self.process.stdout), "it has ended"

    def pause(self) -> None:
        """Stop it where it stands, until `go_on`: it acknowledges nothing, and its connections stay open."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)

    def go_on(self) -> None:
        """Let it go on after `pause`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Kill it, with all that it holds."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


@contextmanager
def redis_server(*options: str) -> Iterator[RedisServer]:
    """A server that runs, on a free port."""
    pytest.importorskip("redis", reason="THE CLIENT OF REDIS IS NOT INSTALLED: the store there was not tested")
    if shutil.which("redis-server") is None:
        pytest.skip("THERE IS NO redis-server: the store there was not tested")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        server = RedisServer(found.getsockname()[1])
    server.start(*options)
    try:
        yield server
    finally:
        server.stop()


class Runs:
    """An executor that runs this, or raises it; it counts what has begun."""

    def __init__(self, result: Any = None, *, refuses: bool = False) -> None:
        self.result = result
        self.refuses = refuses
        self.begun = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        return None

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        if self.refuses:
            raise self.result
        await begin()
        self.begun += 1
        if isinstance(self.result, BaseException):
            raise self.result
        return await self.result() if callable(self.result) else self.result
