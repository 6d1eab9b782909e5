"""What records cost on SQLite, Redis and Postgres, and how soon another process hears of a change.

A claim and its completion are two commits; a step of a run is one: a check of its lease, a response, the ends of its
calls, two deletes. The median in the best of ten repeats counts, on a disk in bare commits of one row that take turns
with them. A reader in another process knows of a change so long after its commit's answer (99 of 100), having waited
for up to 30 ms before. All in wall time. A server that is not installed is left out.
"""

from __future__ import annotations

import multiprocessing
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import anyio
import anyio.to_thread
import pytest

from streamtools.durable.record_store import RecordStore
from streamtools.durable.records import Check, DeletePrefix, Put
from streamtools.durable.store_sqlite import SqliteRecords

from .measure import Figure

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from servers import postgres_server, redis_server

ROUNDS, REPEATS, WAKES = 500, 10, 500
WATCHED = ("watched", "by another")


def run(rounds: int = ROUNDS, wakes: int = WAKES) -> list[Figure]:
    """Measure each place."""
    figures = list[Figure]()
    for place in (_sqlite, _redis, _postgres, lambda: _postgres("fsync=on")):
        with suppress(pytest.skip.Exception), place() as (name, make, bare):
            figures += anyio.run(_costs, name, make(), bare, rounds)
            figures += anyio.run(_wakes, name, make, wakes) if "without" not in name else []
    return figures


@contextmanager
def _sqlite() -> Iterator[Any]:
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(sqlite3.connect(f"{folder}/bare", isolation_level=None)) as db,
    ):
        for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE bare (value BLOB)"):
            db.execute(statement)
        insert = "INSERT INTO bare VALUES (zeroblob(300))"
        yield "SQLite", partial(SqliteRecords, f"{folder}/records"), partial(db.execute, insert)


@contextmanager
def _redis() -> Iterator[Any]:
    with redis_server() as server:
        from streamtools.durable.store_redis import RedisRecords

        yield "Redis", partial(RedisRecords, server.url), None


@contextmanager
def _postgres(*settings: str) -> Iterator[Any]:
    with postgres_server(*settings) as server:
        import psycopg

        from streamtools.durable.store_postgres import PostgresRecords

        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE bare (value bytea)")
            bare = partial(connection.execute, "INSERT INTO bare VALUES (%s)", [bytes(300)])
            name = "Postgres" if settings else "Postgres without fsync"
            yield name, partial(PostgresRecords, server.url), bare if settings else None


async def _costs(name: str, records: Any, bare: Callable[[], object] | None, rounds: int) -> list[Figure]:
    store = RecordStore(records)
    await records.commit(Put(("lease", "run"), b"", stale_in=600.0, rev=1))

    async def claim(key: str) -> None:
        await store.claim(key, "print")
        await store.complete(key, bytes(200))

    async def step(key: str) -> None:
        puts = (Put((kind, "run", key), bytes(size)) for kind, size in (("response", 4_000), ("ends", 1_000)))
        deletes = (DeletePrefix((kind, "run", key)) for kind in ("inbox", "waiting"))
        await records.commit(Check(("lease", "run"), 1), *puts, *deletes)

    async def plain(key: str) -> None:
        if bare is not None:
            bare()

    took: dict[Any, list[float]] = {claim: [], step: [], plain: []}
    for number in range(rounds):
        for work, times in took.items():
            begun = time.perf_counter()
            await work(f"{number:08x}")
            times.append((time.perf_counter() - begun) * 1e3)
    await anyio.to_thread.run_sync(records.close)
    return [
        _cost(f"{name}: a claim and its completion", took[claim], took[plain] if bare else None),
        _cost(f"{name}: a step", took[step], took[plain] if bare else None),
    ]


def _cost(name: str, took: list[float], plain: list[float] | None) -> Figure:
    """Returns the median of the best of the repeats, in milliseconds, or in bare commits of the same repeat."""
    size = len(took) // REPEATS
    repeats = (slice(at, at + size) for at in range(0, size * REPEATS, size))
    best, by = min((median(took[one]), median(plain[one]) if plain else 1.0) for one in repeats)
    name, unit = (f"{name}, on a disk", "bare commits") if plain else (name, "ms")
    told = f"{best:.2f} ms; of all repeats {median(took):.2f} ms, 99 %: {quantiles(took, n=100)[98]:.2f} ms"
    return Figure(name=name, value=best / by, unit=unit, detail=told)


def _read(make: Callable[[], Any], told: Any, wakes: int) -> None:
    async def read() -> None:
        records, last = make(), 0
        since = await records.changed(WATCHED, 0, 0.0)
        told.send(0.0)
        for _ in range(wakes):
            while (found := (await records.get(WATCHED))[0]) is None or found.rev == last:
                since = await records.changed(WATCHED, since, 10.0)
            last = found.rev
            told.send(time.monotonic())
        records.close()

    anyio.run(read)


async def _wakes(name: str, make: Callable[[], Any], wakes: int) -> list[Figure]:
    """Changes a record again and again, each time that the other process has told when it knew of the last."""
    records, (here, there), took = make(), multiprocessing.Pipe(), list[float]()
    reader = multiprocessing.get_context("spawn").Process(target=_read, args=(make, there, wakes))
    reader.start()
    await anyio.to_thread.run_sync(here.recv)
    for _ in range(wakes):
        await anyio.sleep(random.uniform(0.0, 0.03))
        await records.commit(Put(WATCHED, b"", "any"))
        answered = time.monotonic()
        took.append(max(0.0, await anyio.to_thread.run_sync(here.recv) - answered) * 1e3)
    await anyio.to_thread.run_sync(reader.join)
    records.close()
    late, told = quantiles(took, n=100)[98], f"50 %: {median(took):.1f} ms"
    return [Figure(name=f"{name}: another process knows", value=late, unit="ms", detail=told)]
