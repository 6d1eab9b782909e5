"""Records: what memory, SQLite, Postgres and Redis promise alike."""

from __future__ import annotations

import ast
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint
from profiles import FULL, every
from servers import PostgresServer, Proxy, pooled

from streamtools.durable.memory import MemoryRecords
from streamtools.durable.records import (
    MAX_KEY_BYTES,
    MAX_VALUE_BYTES,
    Append,
    Check,
    Conflict,
    DeletePrefix,
    Done,
    Expire,
    Key,
    Op,
    Put,
    Record,
    RecordsFull,
    Rev,
    Touch,
    log_key,
    new_rev,
    read_key,
    written_key,
)
from streamtools.durable.store_sqlite import STATEMENTS, SqliteRecords
from streamtools.errors import LocalProtocolError, ToolNotStarted

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns

BACKENDS = ("memory", "sqlite", "redis", "postgres", "pooled", "polled")  # the latter behind a pgbouncer
SERVERS = ("redis", "postgres")
PATIENCE_S = 20
Make: TypeAlias = Callable[..., Any]
"""Makes `Records` of one place; by way of a `Proxy`, if one is given."""
A, B, C = ("a", "run"), ("b", "run"), ("c", "run")


@pytest.fixture(scope="module")
def pool(postgres: PostgresServer) -> Iterator[int]:
    with pooled(postgres) as port:
        yield port


def schema_of(path: Path) -> str:
    return f"{path.parent.name} {path.name}"[-60:]


@pytest.fixture
def make(request: pytest.FixtureRequest, backend: str, tmp_path: Path) -> Iterator[Make]:
    made: list[Any] = []

    def ports() -> tuple[int, int]:
        return request.getfixturevalue("postgres").port, request.getfixturevalue("pool")

    def make(**options: Any) -> Any:
        if backend == "memory":
            made[:] = made or [MemoryRecords(**options)]
        elif backend == "sqlite":
            made.append(SqliteRecords(tmp_path / "records.db", **options))
        elif backend == "postgres":
            from streamtools.durable.store_postgres import PostgresRecords

            port = options.pop("proxy", None) or request.getfixturevalue("postgres").port
            url = f"postgresql://tester@127.0.0.1:{port}/postgres?sslmode=disable"
            made.append(PostgresRecords(url, schema=schema_of(tmp_path), **{"timeout": PATIENCE_S, **options}))
        elif backend in ("pooled", "polled"):
            from streamtools.durable.store_postgres import PostgresRecords

            direct, url = (f"postgresql://tester@127.0.0.1:{port}/postgres" for port in ports())
            listen = direct if backend == "pooled" else False
            made.append(PostgresRecords(url, schema=schema_of(tmp_path), timeout=PATIENCE_S, listen=listen, **options))
        else:
            from streamtools.durable.store_redis import RedisRecords

            port = options.pop("proxy", None) or request.getfixturevalue("redis").port
            url = f"redis://127.0.0.1:{port}/0"
            made.append(RedisRecords(url, prefix=f"{tmp_path}:", **{"timeout": PATIENCE_S, **options}))
        return made[-1]

    yield make
    for records in made:
        records.close()


@pytest.fixture
def proxy(request: pytest.FixtureRequest, backend: str) -> Iterator[Proxy]:
    made = Proxy(request.getfixturevalue(backend).port)
    yield made
    made.close()


on_each = pytest.mark.parametrize("backend", BACKENDS)
on_servers = pytest.mark.parametrize("backend", SERVERS)


async def values(records: Any, *keys: Key) -> list[bytes | None]:
    return [None if one is None else one.value for one in await records.get(*keys)]


# -- what a commit does --

LEASE, CLAIM, HEAD, LOG, BOX = ("lease", "run"), ("call", "run", "c"), ("head", "run"), ("log", "run"), ("box", "run")
OURS, THEIRS = Check(LEASE, 7), Check(LEASE, 8)
USES: dict[str, list[tuple[list[Op], Key | None]]] = {
    "claim and completion": [
        ([OURS, Put(CLAIM, b"claimed", rev=1)], None),
        ([THEIRS, Put(("call", "run", "d"), b"claimed")], LEASE),
        ([OURS, Put(CLAIM, b"again")], CLAIM),
        ([Put(CLAIM, b"ended", Rev(2))], CLAIM),
        ([Put(CLAIM, b"ended", Rev(1), rev=3)], None),
        ([Put(CLAIM, b"ended", Rev(1), rev=3)], None),  # whose answer was lost
        ([Put(CLAIM, b"ended otherwise", Rev(1))], CLAIM),
    ],
    "a lease with its epoch": [
        ([Put(LEASE, b"2", Rev(7, stale=True), rev=8)], LEASE),
        ([Touch(LEASE, 6, 60.0)], LEASE),
        ([Touch(LEASE, 7, 0.0)], None),
        ([Put(LEASE, b"2", Rev(7, stale=False), rev=8)], LEASE),
        ([Put(LEASE, b"2", Rev(7, stale=True), rev=8)], None),
        ([OURS], LEASE),
        ([Check(LEASE, None)], None),
        ([Check(("lease", "run", "other"), None)], ("lease", "run", "other")),
    ],
    "a decision": [
        ([Put(HEAD, b"waits", rev=1), Put((*BOX, "0"), b"asked")], None),
        ([Check(LEASE, None), Put(HEAD, b"approved", Rev(1)), Put((*BOX, "1"), b"approved")], None),
        ([Check(LEASE, None), Put(HEAD, b"denied", Rev(1)), Put((*BOX, "2"), b"denied")], HEAD),
    ],
    "a step": [
        ([Put((*BOX, "1"), b"say"), Put((*BOX, "1", "x"), b"more"), Put(("box", "run-2"), b"another's")][:2], None),
        ([THEIRS, Put(("step", "run", "0"), b"response"), DeletePrefix(BOX)], LEASE),
        ([OURS, Put(("step", "run", "0"), b"response"), DeletePrefix(BOX)], None),
    ],
    "a log": [
        ([OURS, Append(LOG, 0, [b"1", b"2"])], None),
        ([OURS, Append(LOG, 0, [b"1"])], log_key(LOG, 1)),
        ([OURS, Append(LOG, 3, [b"4"])], log_key(LOG, 3)),
        ([THEIRS, Append(LOG, 2, [b"3"])], LEASE),
        ([OURS, Append(LOG, 2, [b"3"])], None),
    ],
    "the end of a run": [
        ([Put(CLAIM, b"claimed", stale_in=60.0, rev=1), Put((*CLAIM, "x"), b"ended", rev=2)], None),
        ([THEIRS, Expire((*CLAIM, "x"), 60.0)], LEASE),
        ([OURS, Expire(CLAIM, 0.001), Expire((*CLAIM, "x"), 60.0), Expire((*CLAIM, "y"), 60.0)], None),
        ([Check((*CLAIM, "x"), 2), Expire((*CLAIM, "x"), None)], None),
    ],
    "a conversation": [
        ([Put(HEAD, b"1", "any", rev=1), Put(("turn", "run", "1"), b"1")], None),
        ([Put(HEAD, b"2", "any", rev=2), Put(("turn", "run", "2"), b"2")], None),
        ([Put(HEAD, b"3", Rev(1), rev=3), Put(("turn", "run", "3"), b"3")], HEAD),
        ([Check(HEAD, 2), DeletePrefix(HEAD), DeletePrefix(("turn", "run"))], None),
        ([Check(HEAD, None)], HEAD),
    ],
}
LEFT = {
    "claim and completion": {CLAIM: b"ended"},
    "a lease with its epoch": {},
    "a decision": {HEAD: b"approved", (*BOX, "0"): b"asked", (*BOX, "1"): b"approved"},
    "a step": {("step", "run", "0"): b"response"},
    "a log": {log_key(LOG, n): b"%d" % n for n in (1, 2, 3)},
    "the end of a run": {CLAIM: b"claimed", (*CLAIM, "x"): b"ended"},
    "a conversation": {},
}


@on_each
@every("use", USES)
async def test_each_use_is_one_commit_that_is_made_whole_or_not_at_all(make: Make, backend: str, use: str) -> None:
    records = make()
    for kind in ("lease", "call", "head", "log", "box", "step", "turn"):
        await records.commit(DeletePrefix((kind, "run")))
    assert await records.commit(Put(LEASE, b"1", stale_in=60.0, rev=7)) == Done()
    for number, (ops, refused) in enumerate(USES[use]):
        before = {key: one.rev for key, one in (await everything(records)).items()}
        end = await records.commit(*ops)
        if refused is None:
            assert end == Done(), number
        else:
            assert isinstance(end, Conflict), number
            assert (end.key, end.found) == (refused, (await records.get(refused))[0]), number
            assert before == {key: one.rev for key, one in (await everything(records)).items()}, number
    assert {key: one.value for key, one in (await everything(records)).items() if key != LEASE} == LEFT[use]


async def everything(records: Any) -> dict[Key, Record]:
    kinds = ("lease", "call", "head", "log", "box", "step", "turn")
    return {one.key: one for kind in kinds for one in await records.scan((kind, "run"))}


# -- keys --

PARTS = ("", "\0", "\0\0", "\1", "\x7f", "a", "a\0", "a/b", "aa", "\xff", "\u20ac", "\ud800", "\ufffd", "\U0010ffff")


@on_each
async def test_keys_are_ordered_by_their_parts_and_a_prefix_is_whole_parts(make: Make, backend: str) -> None:
    records = make()
    keys = sorted(("k", "run", *more) for one in PARTS for more in ((one,), (one, ""), (one, "x"), (one, "\0")))
    for at in range(0, len(keys), 7):
        assert await records.commit(*(Put(key, repr(key).encode()) for key in keys[at : at + 7][::-1])) == Done()
    found = await records.scan(("k", "run"))
    assert [one.key for one in found] == keys
    assert [one.value for one in found] == [repr(key).encode() for key in keys]
    paged, after = list[Key](), None
    while page := [one.key for one in await records.scan(("k", "run"), after, 5)]:
        paged, after = paged + page, page[-1]
    assert paged == keys
    for part in PARTS:
        assert [one.key for one in await records.scan(("k", "run", part))] == [key for key in keys if key[2] == part]
    assert await records.commit(DeletePrefix(("k", "run", "a"))) == Done()
    assert [one.key for one in await records.scan(("k", "run"))] == [key for key in keys if key[2] != "a"]
    assert all(read_key(written_key(key)) == key for key in keys)
    assert sorted(keys, key=written_key) == keys


@on_each
async def test_what_is_no_key_no_value_or_no_commit_is_refused(make: Make, backend: str) -> None:
    records = make()
    largest = ("k", "x" * (MAX_KEY_BYTES - 3))
    assert await records.commit(Put(largest, os.urandom(1 << 20))) == Done()
    assert [one.key for one in await records.scan(largest)] == [largest]
    refused: list[tuple[Any, str]] = [
        (Put((), b""), "non-empty"),
        (Put(("k", 5), b""), "strings"),  # type: ignore[arg-type]
        (Put(("k", f"{largest[1]}x"), b""), f"at most {MAX_KEY_BYTES} bytes, not {MAX_KEY_BYTES + 1}"),
        (DeletePrefix(()), "non-empty"),
        (Put(A, bytes(MAX_VALUE_BYTES + 1)), f"at most {MAX_VALUE_BYTES} bytes"),
    ]
    for op, words in refused:
        with pytest.raises(ValueError, match=words):
            await records.commit(op)
    with pytest.raises(ValueError, match="must not put a record twice"):
        await records.commit(Put(A, b"1"), Put(A, b"2"))
    with pytest.raises(ValueError, match="non-empty"):
        await records.get(())
    assert await records.get(A) == [None]


@on_each
async def test_a_commit_and_a_scan_reach_all_keys(make: Make, backend: str) -> None:
    records, other = make(), ("b", "another", "x")
    assert await records.commit(Put(A, b"1"), Put(("a",), b"2"), Put(other, b"3"), Put(("", "keys"), b"4")) == Done()
    assert [one.value for one in await records.scan(("a",))] == [b"2", b"1"]
    assert [one.value for one in await records.scan(("a",), limit=1)] == [b"2"]
    assert [one.value for one in await records.scan(("b",))] == [b"3"]
    assert await records.commit(DeletePrefix(("a",)), Put(B, b"")) == Done()
    assert await values(records, A, ("a",), other, ("", "keys")) == [None, None, b"3", b"4"]


@on_each
async def test_commits_that_were_handed_over_are_made_in_order_whoever_waits(make: Make, backend: str) -> None:
    records = make()
    first, *_ = [records.hand_over(Put(A, b"%d" % n, "any", rev=n)) for n in range(1, 30)]
    refused = records.hand_over(Check(A, 7), Put(B, b""))
    with pytest.raises(ValueError, match="non-empty"):
        records.hand_over(Check((), 1))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await refused()
    assert await values(records, A, B) == [b"29", None]
    assert await first() == Done()
    assert await refused() == Conflict(A, (await records.get(A))[0])


# -- time --


async def until(check: Callable[[], Any]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not await check():  # noqa: ASYNC110 - a clock tells nobody
            await anyio.sleep(0.01)


@on_each
async def test_a_record_goes_stale_and_stays_and_drops_by_the_clock_of_the_database(
    make: Make, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = make()
    await records.commit(Put(A, b"stale", stale_in=0.05, rev=1), Put(B, b"kept", stale_in=3600.0, rev=2))
    await records.commit(Put(C, b"dropped", drop_in=0.05), Put(("d", "run", "x"), b"", drop_in=0.05))
    now = time.time
    for step in (-7200.0, 7200.0):  # this program's clock is wrong
        monkeypatch.setattr(time, "time", lambda step=step: now() + step)

        async def is_stale() -> bool:
            return [one.is_stale for one in await records.get(A, B)] == [True, False]

        await until(is_stale)
    monkeypatch.undo()

    async def gone(*keys: Key) -> bool:
        return not any(await records.get(*keys))

    await until(lambda: gone(C, ("d", "run", "x")))
    assert await records.scan(("d", "run")) == []
    assert await records.commit(Put(C, b"put again")) == Done()
    log = ("log", "run")
    await records.commit(Append(log, 0, [b"1"] * 5, drop_in=0.05), Put(("log", "run", "x"), b"", rev=3))
    await records.commit(Append(log, 5, [b"1"]), Expire(C, 0.05), Expire(B, 0.05))

    async def are_gone() -> bool:
        return [one.key for one in await records.scan(("log",), limit=2)] == [log_key(log, 6), ("log", "run", "x")]

    await until(are_gone)
    await until(lambda: gone(C))
    await records.commit(Expire(C, None), Expire(log_key(log, 1), None))
    assert await values(records, C, B, log_key(log, 1)) == [None, b"kept", None]
    assert await records.commit(Touch(A, 1, 3600.0), Touch(B, 2, 0.0)) == Done()
    assert [(one.rev, one.is_stale) for one in await records.get(A, B)] == [(1, False), (2, True)]


@on_each
async def test_what_is_renewed_does_not_go_stale_until_it_is_changed_or_its_records_close(
    make: Make, backend: str
) -> None:
    records, other = make(), make()
    await records.commit(Put(A, b"", stale_in=0.3, renewed=True, rev=1), Put(B, b"", stale_in=0.3, rev=2))

    async def is_stale() -> bool:
        return bool((await other.get(B))[0].is_stale)

    await until(is_stale)
    assert [one.is_stale for one in await other.get(A, B)] == [False, True]
    assert isinstance(await records.commit(Put(A, b"", Rev(5))), Conflict)
    await anyio.to_thread.run_sync(records.close)
    if backend != "memory":
        assert [one.is_stale for one in await other.get(A, B)] == [True, True]


@on_each
async def test_beyond_the_bound_of_a_kind_the_first_that_may_drop_does_and_no_other(make: Make, backend: str) -> None:
    if backend not in ("memory", "sqlite"):
        pytest.skip("servers forget by age, not by number")
    records = make(most={"k": 2})
    await records.commit(Put(("k", "1"), b""), Put(("k", "2"), b"", drop_in=float("inf")))
    assert await records.commit(Put(("k", "3"), b"", drop_in=float("inf")), Put(("other", "1"), b"")) == Done()
    assert await values(records, ("k", "1"), ("k", "2"), ("k", "3")) == [b"", None, b""]
    assert await records.commit(Put(("k", "1"), b"changed", "any")) == Done()
    await records.commit(Put(("k", "4"), b""))
    with pytest.raises(RecordsFull):
        await records.commit(Put(("k", "5"), b""))
    await records.commit(Expire(("k", "1"), float("inf")))
    await records.commit(Put(("k", "5"), b""))
    assert [one.key for one in await records.scan(("k",))] == [("k", "4"), ("k", "5")]


# -- others --


@on_each
async def test_a_reader_is_woken_by_what_others_change_under_its_prefix(make: Make, backend: str) -> None:
    records, other = make(), make()
    since = await records.changed(("k", "run"), 0, 0.0)
    for op in (Put(("k", "run", "1"), b""), Append(("k", "run", "log"), 0, [b"1"]), DeletePrefix(("k", "run"))):
        assert await other.commit(op) == Done()  # before it waits
        with anyio.fail_after(PATIENCE_S):
            since = await records.changed(("k", "run"), since, 10 * PATIENCE_S)
    for writer in (records, other):
        async with anyio.create_task_group() as group:
            with anyio.fail_after(PATIENCE_S):
                group.start_soon(records.changed, ("k", "run"), since, 10 * PATIENCE_S)
                await anyio.wait_all_tasks_blocked()
                await writer.commit(Put(("k", "run", "2"), b"", "any"))
        since = await records.changed(("k", "run"), 0, 0.0)
    await records.changed(("k", "run"), since, 0.01)


@pytest.mark.costly
@on_each
async def test_commits_in_opposed_orders_all_end_and_each_is_made_once(make: Make, backend: str) -> None:
    """Without an order of locks, two of them would wait for each other."""
    keys = [("k", "run", str(n)) for n in range(6)]
    first = make()
    await first.commit(*(Put(key, b"0") for key in keys))
    done = list[int]()

    def count(turns: int, turn: int) -> None:
        async def counted() -> None:
            records = make()
            for _ in range(turns):
                while True:
                    order = keys[::turn] if turn else keys
                    found = {one.key: one for one in await records.get(*keys)}
                    ops = [Put(key, b"%d" % (int(found[key].value) + 1), Rev(found[key].rev)) for key in order]
                    if (
                        await records.commit(*ops, DeletePrefix(("gone", "run")), Check(keys[2], found[keys[2]].rev))
                        == Done()
                    ):
                        done.append(1)
                        break

        anyio.run(counted)

    turns = 40 if FULL else 10
    async with anyio.create_task_group() as group:
        for turn in (1, -1, 1, -1):
            group.start_soon(anyio.to_thread.run_sync, count, turns, turn)
    assert await values(first, *keys) == [b"%d" % (4 * turns)] * 6
    assert len(done) == 4 * turns


@on_each
async def test_a_commit_that_nobody_waits_for_is_not_made_if_it_can_be_undone(make: Make, backend: str) -> None:
    records, ends = make(), list[Any]()

    async def put() -> None:
        ends.append(await records.commit(Put(A, b"", rev=5), undo=[Check(A, 5), DeletePrefix(A)]))

    for turns in range(20):
        async with anyio.create_task_group() as group:
            group.start_soon(put)
            for _ in range(turns):
                await checkpoint()
            group.cancel_scope.cancel()
        if not ends:
            assert await records.get(A) == [None], f"made for nobody behind {turns} turns"
        ends.clear()
        await records.commit(DeletePrefix(A))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await records.commit(Put(B, b"", rev=5))
    assert await values(records, B) == [b""], "it goes on to its end"


FORK = """
import os, sys, anyio
from streamtools.durable.records import Done, Put
from streamtools.durable.{module} import {kind}

made = lambda: {kind}(*sys.argv[1:2], **eval(sys.argv[2]))
records, closes = made(), sys.argv[3] == "closes"
put = lambda name, **more: anyio.run(lambda: records.commit(Put(("k", name), b"", **more)))
assert put("before", stale_in=3600.0, renewed=True) == Done()
ready, go = os.pipe()
if (child := os.fork()) == 0:
    os.close(go)
    os.read(ready, 1)
    assert put("child") == Done() and put("parent") != Done() and put("before") != Done()
    records.close()
    os._exit(0)
assert put("parent") == Done()
if closes:
    records.close()
    records = made()  # somebody looks, and goes: the log of a file must not vanish under the child
    assert put("parent") != Done()
    records.close()
os.close(go)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
records = made() if closes else records
assert put("child") != Done()
found = anyio.run(records.get, ("k", "before"))
assert found[0].is_stale == closes, "it is the parent's, not the child's"
records.close()
print("all is well")
"""


@pytest.mark.costly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="THERE ARE NO FORKS HERE: none was tested")
@pytest.mark.parametrize(
    ("backend", "how"), [("sqlite", "closes"), *((one, "goes on") for one in ("sqlite", *SERVERS))]
)
async def test_records_that_were_opened_before_a_fork_are_good_on_both_sides(
    make: Make, backend: str, how: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A server opens them and forks its workers; then it closes its own, or goes on."""
    from dispatch.processes import program

    modules = {"sqlite": "SqliteRecords", "redis": "RedisRecords", "postgres": "PostgresRecords"}
    where = str(tmp_path / "records.db") if backend == "sqlite" else request.getfixturevalue(backend).url
    options = {"sqlite": {}, "redis": {"prefix": f"{tmp_path}:"}, "postgres": {"schema": schema_of(tmp_path)}}[backend]
    with program(FORK.format(module=f"store_{backend}", kind=modules[backend]), where, repr(options), how) as running:
        told, wrong = await anyio.to_thread.run_sync(lambda: running.communicate(timeout=60))
    assert told.strip() == "all is well", wrong


# -- faults --


@pytest.mark.thorough
@on_servers
async def test_an_answer_that_is_lost_loses_and_repeats_no_commit(make: Make, backend: str, proxy: Proxy) -> None:
    """Before it is sent, while it is made, or behind it; told by the numbers of its records."""
    direct, records = make(), make(proxy=proxy.listens, timeout=5.0)
    for number, (skips, does) in enumerate([(0, "close"), (1, "close"), (2, "close"), (3, "close"), (0, "swallow")]):
        key, count = ("k", str(number)), 0
        await records.commit(Put(("warm", "run"), b"", "any"))

        def lose(skips: int = skips, does: str = does) -> str:
            nonlocal count
            count += 1
            return does if count == skips + 1 or (does == "swallow" and count > skips) else "pass"

        proxy.does = lose
        with suppress(Exception):
            assert await records.commit(Put(key, b"1", rev=number + 10)) == Done()
        proxy.does = lambda: "pass"
        end = await records.commit(Put(key, b"1", rev=number + 10))
        assert end == Done(), "it is its own record"
        assert await direct.commit(Put(key, b"2", Rev(number + 10), rev=number + 20)) == Done()
        assert isinstance(await records.commit(Put(key, b"1", rev=number + 10)), Conflict)
        assert await values(direct, key) == [b"2"]


@pytest.mark.thorough
@on_servers
async def test_whatever_a_verb_meets_on_its_way_the_next_one_works(make: Make, backend: str, proxy: Proxy) -> None:
    direct, records = make(), make(proxy=proxy.listens, timeout=2.0)
    await records.commit(Put(A, b"1", rev=1, stale_in=60.0))
    verbs: list[Callable[[], Any]] = [
        lambda: records.get(A),
        lambda: records.scan(("a", "run")),
        lambda: records.commit(Touch(A, 1, 60.0)),
        lambda: records.commit(Check(A, 1), Put(B, b"1", "any"), Put(C, b"1", "any")),
        lambda: records.commit(DeletePrefix(B), DeletePrefix(C)),
    ]
    for verb in verbs:
        for skips in range(3):
            left = [skips]

            def once(left: list[int] = left) -> str:
                left[0] -= 1
                return "close" if left[0] == -1 else "pass"

            proxy.does = once
            with anyio.fail_after(PATIENCE_S), suppress(Exception):
                await verb()
            proxy.does = lambda: "pass"
            with anyio.fail_after(PATIENCE_S):
                await verb()
            there = await values(direct, B, C)
            assert there in ([None, None], [b"1", b"1"]), "whole, or not at all"
    since = await records.changed(A, 0, 0.0)
    proxy.does = lambda: "close"
    with suppress(Exception):
        await records.get(A)
    proxy.does = lambda: "pass"
    await direct.commit(Put(A, b"2", "any"))
    with anyio.fail_after(PATIENCE_S):
        await records.changed(A, since, 10 * PATIENCE_S)


@on_servers
async def test_what_a_server_refuses_is_an_error_of_the_system_without_values(
    make: Make, backend: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    records, server = make(), request.getfixturevalue(backend)
    await records.commit(Put(A, b"1"))
    if backend == "postgres":
        import psycopg

        with psycopg.connect(server.url, autocommit=True) as connection:
            table = f'"{schema_of(tmp_path)}".records'
            connection.execute(f"ALTER TABLE {table} ADD CHECK (value <> 'hunter2'), DROP COLUMN drop_at".encode())
    else:
        import redis

        with redis.Redis.from_url(server.url) as client:
            client.set(f"{tmp_path}:".encode() + written_key(A), b"hunter2")
    for verb in (
        records.get(A), records.commit(Put(A, b"hunter2", "any"), Check(A, None)), records.scan(("a",)),
        records.hand_over(Put(A, b"hunter2"))(),
    ):  # fmt: skip
        with pytest.raises(OSError, match=r"^(Postgres|Redis) refused an operation: ") as caught:
            await verb
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("backend", ["redis"])
async def test_on_redis_the_keys_of_what_has_dropped_are_not_kept(
    make: Make, backend: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    import redis

    records, keys = make(), [("k", str(number)) for number in range(200)]
    await records.commit(*(Put(key, b"", drop_in=0.001) for key in keys))
    await records.commit(Put(keys[0], b"", "any"), Put(keys[1], b"", "any", drop_in=60.0))
    with redis.Redis.from_url(request.getfixturevalue(backend).url) as client:

        async def swept() -> bool:
            await records.commit(Put(A, b"", "any"))
            return bool(client.zcard(f"{tmp_path}:".encode() + b"\xffkeys") == 3)

        await until(swept)
    assert [one.key for one in await records.scan(("k",))] == keys[:2]


async def test_a_fault_in_the_middle_of_a_file_s_commit_leaves_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    records = SqliteRecords(path, busy_timeout=0.2)
    await records.commit(Put(A, b"1", rev=1), Put(C, b"1"))
    for fault in ("INSERT", "UPDATE", "DELETE"):
        with closing(sqlite3.connect(path)) as other, other:
            other.execute(f"CREATE TRIGGER broken AFTER {fault} ON records BEGIN SELECT RAISE(ABORT, 'broken'); END")
        with pytest.raises(sqlite3.Error, match="broken"):
            await records.commit(Put(B, b"2", "any"), Put(A, b"2", "any"), Touch(A, 1, 5.0), DeletePrefix(C))
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("DROP TRIGGER broken")
        assert await values(records, A, B, C) == [b"1", None, b"1"]
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert await values(records, A) == [b"1"], "a read takes no lock"
        with pytest.raises(TimeoutError, match=r"busy_timeout=0.2 s"):
            await records.commit(Put(B, b"2"))
    records.close()


async def test_bytes_in_a_file_that_nobody_here_has_written_are_no_code_and_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    records = SqliteRecords(path)
    await records.commit(Put(A, b"1"), Put(B, b"1"), Put(("a", "run", "x"), b"1"))
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(
            "UPDATE records SET value = 'text', rev = 'seven', stale_at = 'soon' WHERE key = ?", (written_key(A),)
        )
        other.execute(
            "UPDATE records SET key = ? WHERE key = ?", (b"a\0run\0\xfe\xfe\0", written_key(("a", "run", "x")))
        )
    assert await values(records, A) == [b"text"]
    with pytest.raises(ValueError, match="utf-8"):
        await records.scan(("a", "run"))
    records.close()


# -- what a statement costs --


def test_no_statement_of_a_file_looks_through_a_table_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    SqliteRecords(path).close()
    with closing(sqlite3.connect(path)) as file, file:
        row = "('call', CAST('call' || char(0) || n AS BLOB), x'00', n, n % 2, 'b', CASE n % 3 WHEN 0 THEN 9e999 END)"
        file.execute(
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 100000) INSERT INTO records"
            f" (kind, key, value, rev, stale_at, boot, drop_at) SELECT {row[1:-1]} FROM c"
        )
        file.execute("ANALYZE")
        for name, statement in STATEMENTS.items():
            plan = [
                str(line[-1]) for line in file.execute(f"EXPLAIN QUERY PLAN {statement}", [1] * statement.count("?"))
            ]
            assert not [line for line in plan if re.match(r"SCAN (?!CONSTANT)", line)], (name, plan)


def logged(postgres: PostgresServer) -> str:
    return Path(postgres.folder, "log").read_text()


@pytest.mark.costly
@pytest.mark.parametrize("backend", ["postgres"])
async def test_no_statement_of_postgres_looks_through_a_table_that_grows(
    make: Make, backend: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    """The server logs how it has done each, those inside a commit, too."""
    import psycopg

    from streamtools.durable.store_postgres import STATEMENTS as KNOWN

    quoted = f'"{schema_of(tmp_path)}"'
    known = {text.replace("{s}", quoted).partition("{c}")[0] for text in KNOWN.values()}
    await make().commit(Put(A, b""))
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(
            f"""INSERT INTO {quoted}.records SELECT 'call'::bytea || '\\x00'::bytea || n::text::bytea,
            '', n, now(), now() + n * interval '1 second' FROM generate_series(1, 100000) n""".encode()
        )
        connection.execute(f"ANALYZE {quoted}.records".encode())
        explains = ("log_min_duration = 0", "log_nested_statements = on")
        for setting in ("session_preload_libraries = auto_explain", *(f"auto_explain.{one}" for one in explains)):
            connection.execute(f"ALTER ROLE tester SET {setting}".encode())
        records = make()
        await records.get(A)
        before = len(logged(postgres))
        for n in range(10):  # a plan is made for all values behind the fifth
            key, log_of = ("k", str(n)), ("log", str(n))
            await records.commit(Append(log_of, 0, [b"1"] * 3, drop_in=60.0), Put(key, b"", stale_in=60.0, rev=n + 1))
            await records.commit(Put(key, b""), Put(A, b"", "any"))
            await records.commit(Append(log_of, 3, [b"1"]), Touch(key, n + 1, 60.0), Expire(log_key(log_of, 1), 1.0))
            await records.commit(DeletePrefix(key), Check(A, None))
            await records.scan(("call",), limit=10)
            await records.get(key)
        await records.commit(Put(B, b"", stale_in=0.3, renewed=True))

        async def all_are_seen() -> bool:
            text = logged(postgres)[before:]
            return all(one in text for one in known)

        await until(all_are_seen)
        connection.execute("ALTER ROLE tester RESET ALL")
    done = logged(postgres)[before:].split("Query Text: ")
    assert len(done) > 150
    assert [one for one in done if "Seq Scan" in one] == []


SETS_UP = ("_set_up", "_check_version", "_version_of", "_row")


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_nothing_is_executed_but_these_statements_and_what_sets_up_and_frames(backend: str) -> None:
    spec = find_spec(f"streamtools.durable.store_{backend}")
    assert spec is not None
    assert spec.origin is not None
    others = set[str]()
    for function in ast.walk(ast.parse(Path(spec.origin).read_text("utf-8"))):
        if isinstance(function, ast.FunctionDef) and function.name not in SETS_UP:
            for call in (one for one in ast.walk(function) if isinstance(one, ast.Call) and one.args):
                name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
                if name.startswith(("exec", "send_", "prepare")) and name != "exec_prepared":
                    others.add(
                        ast.unparse(call.args[name == "prepare"]).partition("[")[0].partition(" ")[0].strip("'\"f")
                    )
    assert others <= {"STATEMENTS", "self._sql", "BEGIN", "COMMIT", "ROLLBACK", "PRAGMA", "LISTEN"}


@pytest.mark.parametrize("backend", ["postgres"])
async def test_behind_a_pooler_that_nobody_told_of_statements_are_prepared_no_more(
    make: Make, backend: str, pool: int
) -> None:
    records = [make(proxy=pool) for _ in range(6)]  # more than the pooler's connections
    async with anyio.create_task_group() as group:
        for number, one in enumerate(records * 3):
            group.start_soon(one.commit, Put(("k", str(number)), b""))
    assert len(await records[0].scan(("k",))) == 18


@pytest.mark.costly
@pytest.mark.parametrize("backend", ["postgres"])
async def test_a_schema_is_made_once_and_one_of_another_version_is_refused_aloud(
    make: Make, backend: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    import psycopg

    made = [make() for _ in range(6)]
    async with anyio.create_task_group() as group:  # as workers of a program that is new
        for number, records in enumerate(made):
            group.start_soon(records.commit, Put(("k", str(number)), b""))
    assert len(await made[0].scan(("k",))) == 6
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f'UPDATE "{schema_of(tmp_path)}".version SET version = 99')
    with pytest.raises(LocalProtocolError, match="has version 99, but this library reads 1; use another schema"):
        await make().get(A)


@pytest.mark.costly
@pytest.mark.parametrize("backend", ["postgres"])
async def test_behind_a_restart_of_postgres_all_goes_on_and_readers_are_woken(
    make: Make, backend: str, postgres: PostgresServer
) -> None:
    records, other = make(), make()
    await records.commit(Put(A, b"1", rev=1))
    since = await records.changed(A, 0, 0.0)
    postgres.stop()
    async with anyio.create_task_group() as group:
        group.start_soon(records.commit, Put(B, b"1"))  # it waits
        await anyio.to_thread.run_sync(postgres.start)
    assert await values(other, A, B) == [b"1", b"1"]
    for _ in range(3):
        await other.commit(Put(A, b"2", "any"))
        with anyio.fail_after(PATIENCE_S):
            since = await records.changed(A, since, 10 * PATIENCE_S)
    hasty = make(timeout=0.3)
    postgres.stop()
    try:
        with pytest.raises(TimeoutError, match=r"Postgres did not answer within timeout=0.3 s \(.*refused"):
            await hasty.get(A)
    finally:
        postgres.start()


@pytest.mark.costly
@pytest.mark.parametrize("backend", ["postgres"])
async def test_a_database_with_settings_of_its_own_keeps_what_is_promised_and_tells_no_password(
    make: Make, backend: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    from psycopg import connect

    from streamtools.dispatch import PostgresStore

    with connect(postgres.url, autocommit=True) as connection:
        connection.execute("ALTER ROLE tester SET default_transaction_isolation = 'serializable'")
        try:
            await test_commits_in_opposed_orders_all_end_and_each_is_made_once(make, backend)
            connection.execute("ALTER ROLE tester SET default_transaction_read_only = on")  # as a standby is
            standby = make(timeout=0.3)
            with pytest.raises(TimeoutError, match="read-only transaction"):
                await standby.commit(Put(A, b""))
            connection.execute("ALTER ROLE tester RESET default_transaction_read_only")
            assert await standby.commit(Put(A, b"")) == Done()
        finally:
            connection.execute("ALTER ROLE tester RESET ALL")
    with pytest.raises(ValueError, match="the URL of the Postgres database cannot be read") as caught:
        PostgresStore("postgresql//app:hunter2@db")
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__}"
    with PostgresStore("postgresql://app:hunter2@127.0.0.1:1/app", timeout=0.2) as store:
        with pytest.raises(ToolNotStarted) as refused:
            await store.claim("key", "print")
        assert "hunter2" not in f"{refused.value} {refused.value.__cause__} {store!r}"


def test_a_number_is_of_nobody_else() -> None:
    assert len({new_rev() for _ in range(1_000)}) == 1_000
    assert new_rev("a", b"b", 3) == new_rev("a", b"b", 3) != new_rev("a", "b", 3)


def test_threads_share_records_in_memory() -> None:
    records, ends = MemoryRecords(), list[Any]()
    threads = [
        threading.Thread(target=lambda: ends.append(anyio.run(lambda: records.commit(Put(A, b""))))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(end == Done() for end in ends) == 1
