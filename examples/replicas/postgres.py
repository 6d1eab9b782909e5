"""A Postgres of its own for a while, in a temporary directory."""

from __future__ import annotations

import glob
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

MISSING = (
    "There is no Postgres on this machine: `initdb` was not found. Install it (Debian, Ubuntu: apt install postgresql),"
    " name one of yours with --url postgresql://..., or pass --sqlite for a file."
)


class Cluster:
    """A cluster on loopback that trusts everybody there."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        # Postgres refuses to run as root: then it runs as the user that its package has made.
        self._user = "postgres" if os.getuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.url = f"postgresql://example@127.0.0.1:{self._port}/postgres"
        self._run("initdb", "-U", "example", "-A", "trust", "-E", "UTF8", "--locale=C")

    def start(self) -> None:
        """Starts it, and waits until it takes connections."""
        settings = f"-p {self._port} -c unix_socket_directories= -c listen_addresses=127.0.0.1"
        self._run("pg_ctl", "start", "-w", "-l", f"{self._folder}/log", "-o", settings)

    def restart(self) -> None:
        """Ends it as `stop` does, and starts it again."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """Ends it where it stands, as a power cut would."""
        self._run("pg_ctl", "stop", "-w", "-m", "immediate")

    def _run(self, name: str, *options: str) -> None:
        command = [_found(name), *options, "-D", self._folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, user=self._user, cwd="/")


def _found(name: str) -> str:
    """Returns where a program of Postgres is, which Debian keeps out of the path."""
    found = shutil.which(name) or max(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), default=None)
    if found is None:
        raise SystemExit(MISSING)
    return found


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster that runs until the block ends."""
    with tempfile.TemporaryDirectory(prefix="replicas-", ignore_cleanup_errors=True) as folder:
        made = Cluster(folder)
        made.start()
        try:
            yield made
        finally:
            made.stop()
