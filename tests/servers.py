"""Database servers on this machine, for tests that need one, and what stands between a store and its server."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["PostgresServer", "Proxy", "RedisServer", "pooled", "postgres_server", "redis_server"]


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
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)

    def go_on(self) -> None:
        """Let it go on after `pause`."""
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
    server = RedisServer(free_port())
    server.start(*options)
    try:
        yield server
    finally:
        server.stop()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class PostgresServer:
    """A cluster on this machine, which does not wait for the disk; tests have a schema each."""

    def __init__(self, folder: str, port: int) -> None:
        self.folder, self.port = folder, port
        self.url = f"postgresql://tester@127.0.0.1:{port}/postgres"
        # It refuses to run as root: then it does as the user that its package has made.
        self.user = "postgres" if os.getuid() == 0 else None
        if self.user is not None:
            shutil.chown(folder, self.user)
        command = [_postgres("initdb"), "-D", folder, "-U", "tester", "-A", "trust", "-N", "--locale=C", "-E", "UTF8"]
        subprocess.run(command, check=True, capture_output=True, user=self.user, cwd="/")

    def start(self, *settings: str) -> None:
        settings = ("fsync=off", "unix_socket_directories=", "listen_addresses=127.0.0.1", *settings)
        self._control("start", "-o", " ".join(["-p", str(self.port), *(f"-c {one}" for one in settings)]))

    def stop(self, mode: str = "immediate") -> None:
        """End it where it stands: it goes on, when it starts, from what was committed."""
        self._control("stop", "-m", mode)

    def _control(self, what: str, *options: str) -> None:
        command = [_postgres("pg_ctl"), what, "-w", "-D", self.folder, "-l", f"{self.folder}/log", *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, user=self.user, cwd="/")


def _postgres(name: str) -> str:
    found = shutil.which(name) or max(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), default=None)
    if found is None:
        pytest.skip(f"THERE IS NO {name} OF POSTGRES: the store there was not tested")
    return found


@contextmanager
def postgres_server(*settings: str) -> Iterator[PostgresServer]:
    """A server that runs, on a free port."""
    pytest.importorskip("psycopg", reason="THE CLIENT OF POSTGRES IS NOT INSTALLED: the store there was not tested")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = PostgresServer(folder, free_port())
        server.start(*settings)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def pooled(server: PostgresServer) -> Iterator[int]:
    """The port of a pgbouncer in front of a server, which lends a connection for each transaction."""
    if (found := shutil.which("pgbouncer")) is None:
        pytest.skip("THERE IS NO pgbouncer: nothing was tested behind one")
    port, place = free_port(), f"host=127.0.0.1 port={server.port} user=tester dbname=postgres"
    settings = {"listen_addr": "127.0.0.1", "listen_port": port, "auth_type": "any", "pool_mode": "transaction"}
    settings |= {"default_pool_size": 3, "unix_socket_dir": ""}
    lines = ["[databases]", f"postgres = {place}", "[pgbouncer]", *(f"{name} = {settings[name]}" for name in settings)]
    path = Path(server.folder) / "pgbouncer.ini"
    path.write_text("\n".join(lines))
    process = subprocess.Popen([found, str(path)], user=server.user, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        assert any(b"process up" in line for line in process.stderr), "it has ended"
        yield port
    finally:
        process.kill()
        process.communicate()


class Proxy:
    """Stands between a store and a server: passes its answers, swallows them, or closes the connection instead."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listens = self.listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.listens}/0"
        self.does: Callable[[], str] = lambda: "pass"
        self.sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            self.sockets += [client, server]
            for ends, answers in (((client, server), False), ((server, client), True)):
                threading.Thread(target=self._carry, args=[*ends, answers], daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                does = self.does() if answers else "pass"
                if does == "close":
                    target.shutdown(socket.SHUT_RDWR)
                    return
                if does == "pass":
                    target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        for each in (self.listener, *self.sockets):
            each.close()
