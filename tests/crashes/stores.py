"""Where the runs and conversations of these programs are kept: files, or servers that are started for them.

An address is a path, or a server's URL with the name of a part of it behind ``#``; each process opens it anew.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers import PostgresServer, postgres_server, redis_server

from streamtools.dispatch import SqliteStore
from streamtools.durable.record_store import RecordStore

__all__ = ["Place", "hold", "places", "store_at"]


@dataclass
class Place:
    """What keeps them."""

    url: str = ""
    postgres: PostgresServer | None = None

    def address(self, folder: Path) -> str:
        """The part of it that is named as a folder, or a file there."""
        return f"{self.url}#{folder.name}" if self.url else str(folder / "records.db")

    @property
    def faults(self) -> tuple[str, ...]:
        """What may happen to its servers, and to it."""
        return ("kill", "kill", "stop", "pause", "pause") + ("restart",) * (self.postgres is not None)

    def restart(self) -> None:
        """Ends Postgres where it stands, and starts it."""
        assert self.postgres is not None
        self.postgres.stop()
        self.postgres.start()


@contextmanager
def _sqlite() -> Iterator[Place]:
    yield Place()


@contextmanager
def _postgres() -> Iterator[Place]:
    with postgres_server() as server:
        yield Place(server.url, server)


@contextmanager
def _redis() -> Iterator[Place]:
    with redis_server() as server:
        yield Place(server.url)


places: dict[str, Callable[[], AbstractContextManager[Place]]] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
    "redis": _redis,
}


def store_at(address: str, *, patience: float = 5.0, **options: Any) -> RecordStore:
    """A store: a file, a schema of a Postgres database, or what has a prefix in a Redis server."""
    url, _, part = address.partition("#")
    if url.startswith("postgresql:"):
        from streamtools.durable.store_postgres import PostgresStore

        return PostgresStore(url, schema=part, timeout=patience, **options)
    if url.startswith("redis:"):
        from streamtools.durable.store_redis import RedisStore

        return RedisStore(url, prefix=f"{part}:", timeout=patience, **options)
    return SqliteStore(url, busy_timeout=patience, **options)


def hold(address: str, seconds: float) -> None:
    """Lets nobody write for a while, once there is something to hold."""
    url, _, part = address.partition("#")
    if url.startswith("redis:"):
        from redis import Redis

        with Redis.from_url(url) as server:
            server.execute_command("CLIENT", "PAUSE", int(seconds * 1000), "WRITE")
            time.sleep(seconds)
    elif url.startswith("postgresql:"):
        import psycopg

        with suppress(psycopg.Error), psycopg.connect(url) as connection:
            connection.execute(f'LOCK TABLE "{part}".records IN EXCLUSIVE MODE'.encode())
            time.sleep(seconds)
    elif Path(url).exists():
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(url, timeout=1.0)) as file:  # others hold it
            file.execute("BEGIN IMMEDIATE")
            time.sleep(seconds)
