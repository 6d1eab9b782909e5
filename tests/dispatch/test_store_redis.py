"""The store on a Redis server: several machines, answers that are lost, and a server that goes away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from processes import PATIENCE_S, call, program, says
from profiles import mostly_thorough
from servers import Proxy, RedisServer, redis_server
from stores import Runs

from streamtools.dispatch import Claimed, EndUnknown, Recorded, StillRunning
from streamtools.errors import LocalProtocolError, ToolNotStarted
from streamtools.executors import run_once

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns

pytest.importorskip("redis", reason="THE CLIENT OF REDIS IS NOT INSTALLED: the store there was not tested")
redis_asyncio = pytest.importorskip("redis.asyncio")

from redis import Redis, ResponseError  # noqa: E402 - as below

from streamtools.durable.record_store import call_key  # noqa: E402 - as below
from streamtools.durable.records import written_key  # noqa: E402 - as below
from streamtools.durable.store_redis import RedisStore  # noqa: E402 - it needs the client

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="THERE IS NO /proc: only leases tell here")


@pytest.fixture(name="server")
def empty(redis: RedisServer) -> RedisServer:
    if redis.process is None:
        redis.start()
    with Redis.from_url(redis.url) as client:
        client.flushall()
        client.config_set("maxmemory", 0)
        client.config_set("maxmemory-policy", "noeviction")
    return redis


@pytest.fixture
def client(server: RedisServer) -> Iterator[Any]:
    with Redis.from_url(server.url, socket_timeout=PATIENCE_S) as client:
        yield client


def name(key: str) -> bytes:
    """Returns the name under which the server has a call."""
    return b"streamtools:" + written_key(call_key(key))


def change(client: Any, key: str, old: bytes, new: bytes) -> None:
    client.hset(name(key), "value", client.hget(name(key), "value").replace(old, new))


async def eventually(store: RedisStore, expected: type) -> list[type]:
    """Returns what `claim` says of a key until it says this."""
    seen: list[type] = []
    with anyio.fail_after(PATIENCE_S):
        while not seen or seen[-1] is not expected:
            seen.append(type(await store.claim("key", "print")))
    return seen


# -- what it is given ----------------------------------------------------------------------------------------------


def test_a_url_that_cannot_be_read_is_refused_without_its_words() -> None:
    for url in ("redis://:hun#ter2@host:6379", "hunter2://host", "redis://host:hunter2"):
        with pytest.raises(ValueError, match="the URL of the Redis server cannot be read") as caught:
            RedisStore(url)
        assert not any(part in str(caught.value) for part in ("hun", "ter2"))
        assert caught.value.__suppress_context__


async def test_a_password_is_in_no_error_and_no_repr(server: RedisServer) -> None:
    with RedisStore(server.url.replace("//", "//app:hunter2@")) as store:
        with pytest.raises(OSError, match="Redis refused") as caught:
            await store.claim("key", "print")
        assert "hunter2" not in f"{caught.value} {caught.value.__cause__} {store!r}"


def test_a_client_that_decodes_or_is_none_is_refused(server: RedisServer) -> None:
    with pytest.raises(ValueError, match="decode_responses"):
        RedisStore(Redis.from_url(server.url, decode_responses=True))
    with pytest.raises(TypeError, match=r"needs a URL or a redis.Redis, not redis.asyncio.client.Redis"):
        RedisStore(redis_asyncio.Redis.from_url(server.url))  # type: ignore[arg-type]


REFUSED = [
    *((name, 0, f"{name}=0: must be a number of seconds greater than 0") for name in ("timeout", "lease")),
    ("keep_completed", 0, "keep_completed=0: must be a number of seconds greater than 0"),
    ("replicas", -1, "replicas=-1: .*integer greater than 0"),
    ("replicas", True, "replicas=True: .*integer greater than 0"),
    *(("epoch", name, "expected an epoch's name, a text that is not empty, or None") for name in ("", 5)),
]


def test_a_setting_that_is_none_is_refused() -> None:
    for name, value, words in REFUSED:
        options: dict[str, Any] = {name: value}
        with pytest.raises(ValueError, match=words):
            RedisStore("redis://localhost", **options)


async def test_a_client_of_the_callers_is_used_and_left_open(client: Any) -> None:
    with RedisStore(client) as store:
        assert await store.claim("key", "print") == Claimed()
    connections = client.connection_pool._available_connections
    assert connections
    assert all(connection._sock is not None for connection in connections)


async def test_programs_with_other_prefixes_know_nothing_of_each_other(server: RedisServer) -> None:
    with RedisStore(server.url, prefix="a:") as one, RedisStore(server.url, prefix="b:") as other:
        assert await one.claim("key", "print") == Claimed()
        assert await other.claim("key", "print") == Claimed()


# -- several programs ----------------------------------------------------------------------------------------------

CLAIMS = """
import sys, anyio
from streamtools.durable.store_redis import RedisStore

async def main():
    url, lease, *keys = sys.argv[1:]
    store = RedisStore(url, lease=float(lease))
    await anyio.to_thread.run_sync(sys.stdin.readline)
    for key in keys:
        print(key, type(await store.claim(key, "print")).__name__, flush=True)
    await anyio.to_thread.run_sync(sys.stdin.readline)

anyio.run(main)
"""


@pytest.mark.costly
@linux
@pytest.mark.parametrize("elsewhere", mostly_thorough([True, False], 1))
async def test_a_claim_of_a_process_that_was_killed_is_unknown_and_never_free(
    server: RedisServer, client: Any, elsewhere: bool
) -> None:
    """On the same machine at once, on another as soon as its lease is over."""
    with RedisStore(server.url) as store, program(CLAIMS, server.url, "3" if elsewhere else "3600", "key") as claimer:
        claimer.stdin.write("go\n")
        claimer.stdin.flush()
        assert await says(claimer) == "key Claimed"
        if elsewhere:
            change(client, "key", b'"boot":"', b'"boot":"another')
        claim = await store.claim("key", "print")
        assert isinstance(claim, StillRunning)
        assert claim.pid == claimer.pid
        claimer.kill()
        await anyio.to_thread.run_sync(claimer.wait)
        seen = await eventually(store, EndUnknown)
        assert set(seen[:-1]) <= {StillRunning}
        assert elsewhere or len(seen) == 1
        assert client.ttl(name("key")) == -1


# -- what is forgotten ---------------------------------------------------------------------------------------------


async def test_only_calls_on_record_are_forgotten_and_only_after_their_time(server: RedisServer, client: Any) -> None:
    with RedisStore(server.url, keep_completed=0.05) as brief, RedisStore(server.url, keep_completed=None) as ever:
        for store, key in ((brief, "open"), (brief, "key"), (ever, "kept")):
            await store.claim(key, "print")
        await brief.complete("key", b"1")
        await ever.complete("kept", b"1")
        assert set((await eventually(brief, Claimed))[:-1]) <= {Recorded}
        assert [client.ttl(name(key)) for key in ("open", "kept")] == [-1, -1]


async def test_a_server_that_would_drop_calls_is_refused(server: RedisServer, client: Any) -> None:
    """Calls on record have a time to live, so `volatile-*` drops those first. A store that was in use notices, too."""
    kinds = [f"{which}-{order}" for which in ("allkeys", "volatile") for order in ("lru", "lfu", "random")]
    answers = {}
    for policy in ["noeviction", "volatile-ttl", *kinds]:
        client.config_set("maxmemory-policy", policy)
        client.config_set("maxmemory", 0)
        with RedisStore(server.url) as store:  # without a bound, nothing is dropped
            assert await store.claim(f"before {policy}", "print") == Claimed()
            client.config_set("maxmemory", 1 << 30)
            for renewed in (False, True):
                if renewed:
                    client.client_kill_filter(_type="normal", skipme=True)
                try:
                    answers[policy] = str(await store.claim(policy, "print"))
                except LocalProtocolError as error:
                    answers[policy] = str(error)
                await store.release(policy)
    assert answers.pop("noeviction") == "Claimed()"
    for policy, answer in answers.items():
        assert answer.startswith(f"expected a Redis server with maxmemory-policy noeviction, got {policy}: when its")
        assert client.exists(name(policy)) == 0


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[Proxy]:
    made = Proxy(server.port)
    yield made
    made.close()


# -- a server that has lost calls ----------------------------------------------------------------------------------


def epoch_to_confirm(refused: pytest.ExceptionInfo[ToolNotStarted]) -> str:
    """Returns the epoch that a person is to confirm, by the words of the refusal."""
    found = re.search(r"RedisStore\(\.\.\., epoch='(.*)'\)\.confirm_server\(\)", str(refused.value))
    return found[1]


@pytest.mark.costly
async def test_a_server_that_has_lost_calls_is_refused_until_a_person_confirms_it(
    server: RedisServer, client: Any
) -> None:
    """The hash of the epoch has the name of the prefix, and no time to live."""

    async def emptied() -> str:
        client.flushall()
        return "got none"

    async def restarted() -> str:
        server.stop()
        server.start()
        return "got none"

    async def met_by_another_first() -> str:
        client.flushall()
        with RedisStore(server.url) as another:
            await another.claim("another", "print")
        return "got '[0-9a-f]{16}' and claim 1"

    async def set_back() -> str:
        client.delete(name("last"))
        client.restore("streamtools:", 0, copy, replace=True)
        return "and claim 2, got '[0-9a-f]{16}' and claim 1"

    async def refused_until_confirmed(store: RedisStore, words: str) -> None:
        for _ in range(2):
            with pytest.raises(ToolNotStarted, match=words) as refused:
                await store.claim("last", "print")
        assert not client.exists(name("last"))
        epoch = epoch_to_confirm(refused)
        with RedisStore(server.url, epoch=epoch) as person:
            assert await person.confirm_server() == epoch
        assert await store.claim("last", "print") == Claimed()

    for lose in (emptied, restarted, met_by_another_first, set_back):
        client.flushall()
        with RedisStore(server.url) as store, RedisStore(server.url) as beside:
            assert await store.claim("first", "print") == Claimed()
            assert isinstance(await beside.claim("first", "print"), StillRunning)
            copy = client.dump("streamtools:")
            assert await store.claim("last", "print") == Claimed()
            words = await lose()
            await refused_until_confirmed(store, f"^not run: the Redis server lost calls.*{words}")
            assert isinstance(await beside.claim("last", "print"), StillRunning), lose
            await emptied()
            await refused_until_confirmed(store, "got none")
            assert isinstance(await beside.claim("last", "print"), StillRunning), lose
            assert client.ttl("streamtools:") == -1


@pytest.mark.costly
async def test_a_loss_before_the_first_claim_of_a_process_is_noticed_by_the_name_of_its_epoch(
    server: RedisServer, client: Any
) -> None:
    """Not without one: nothing is left that could tell the server from a new one."""
    with RedisStore(server.url, epoch="orders") as store:
        with pytest.raises(ToolNotStarted, match="the epoch 'orders' and claim 0, got none") as refused:
            await store.claim("key", "print")
        assert epoch_to_confirm(refused) == "orders"
        assert await store.confirm_server() == "orders"
        assert await store.claim("key", "print") == Claimed()
    with RedisStore(server.url) as plain, RedisStore(server.url, epoch="orders") as named:
        for each in (plain, named):
            assert isinstance(await each.claim("key", "print"), EndUnknown)
        assert await plain.confirm_server() == "orders"
    client.flushall()
    with RedisStore(server.url) as plain, RedisStore(server.url, epoch="orders") as named:
        assert await plain.claim("key", "print") == Claimed(), "not promised: it has met this server first"
        with pytest.raises(ToolNotStarted, match=r"got '[0-9a-f]{16}' and claim 1"):
            await named.claim("key", "print")
        await named.confirm_server()
        for each in (plain, named):
            assert isinstance(await each.claim("key", "print"), StillRunning)
    client.flushall()
    with RedisStore(server.url) as plain:
        made = await plain.confirm_server()
        assert client.hget("streamtools:", "epoch").decode() == made


async def test_a_server_of_an_older_version_is_refused_until_a_person_confirms_it_and_refuses_it_then(
    server: RedisServer, client: Any
) -> None:
    client.hset("streamtools:", mapping={"epoch": "orders", "claims": 7})
    with RedisStore(server.url) as store:
        with pytest.raises(ToolNotStarted, match="has calls of an older version of this library"):
            await store.claim("key", "print")
        assert await store.confirm_server() == "orders"
        assert await store.claim("key", "print") == Claimed()
    with pytest.raises(ResponseError, match="not an integer"):  # as that version counts
        client.hincrby("streamtools:", "claims", 1)


# -- replicas ------------------------------------------------------------------------------------------------------


@pytest.fixture
def replica(server: RedisServer, client: Any, tmp_path: Path) -> Iterator[RedisServer]:
    """Copies `server`, and has all that it holds."""
    client.config_set("repl-diskless-sync-delay", 0)
    with redis_server("--replicaof", f"127.0.0.1 {server.port}", "--dir", str(tmp_path)) as running:
        everything_is_copied(client)
        yield running


def everything_is_copied(client: Any) -> None:
    """Wait until the replica has all; a server waits for the writes of the connection that asks."""
    client.set("something", 1)
    assert client.wait(1, PATIENCE_S * 1000) == 1


async def until_one_waits(client: Any) -> None:
    """Return when a connection is waiting for the replica."""
    with anyio.fail_after(PATIENCE_S):
        while not any(each["cmd"] == "wait" for each in client.client_list()):  # noqa: ASYNC110
            await anyio.sleep(0.01)


def hasty(url: str, **options: Any) -> RedisStore:
    """Returns a store that gives up soon, and by its own bound before the client's."""
    return RedisStore(Redis.from_url(url, socket_timeout=PATIENCE_S), timeout=0.5, **options)


@pytest.mark.thorough
@pytest.mark.costly
async def test_a_call_that_a_replica_has_not_acknowledged_does_not_run(
    server: RedisServer, client: Any, replica: RedisServer
) -> None:
    """Its claim is given back. A result is reported as not kept, and may be kept by a second try."""
    words = "expected the call to be acknowledged by fsync=False and replicas=1 within timeout=0.5 s, got 0 replicas"
    store, brief = RedisStore(server.url, timeout=PATIENCE_S, replicas=1), hasty(server.url, replicas=1)
    with store, brief, Redis.from_url(replica.url) as copy:
        assert (await run_once(store, Runs("paid"), call("pay", "first"))).not_kept is None
        assert b'"end":"kept"' in copy.hget(name("first"), "value")
        assert await store.claim("second", "print") == Claimed()

        replica.pause()
        with pytest.raises(TimeoutError, match=words):
            await brief.complete("second", b"1")
        runs = Runs("paid")
        with pytest.raises(ToolNotStarted, match=f"^not run: {words}"):
            await run_once(brief, runs, call("pay", "third"))
        assert runs.begun == 0
        assert not client.exists(name("third"))
        assert (await run_once(store, runs, call("pay", "first"))).recorded  # and nobody is waited for

        answers: list[object] = []

        async def claim() -> None:
            answers.append(await store.claim("fourth", "print"))

        async with anyio.create_task_group() as group:
            group.start_soon(claim)
            await until_one_waits(client)
            client.client_kill_filter(_type="normal", skipme=True)  # the next connection waits for the claim, too
            await until_one_waits(client)
            assert not answers
            replica.go_on()
        assert answers == [Claimed()]
        assert b'"end":null' in copy.hget(name("fourth"), "value")
        client.config_set("maxmemory", 1)
        with pytest.raises(OSError, match="used memory > 'maxmemory'"):
            await store.complete("second", b"1")
        client.config_set("maxmemory", 0)
        await store.complete("second", b"1")
        assert b'"end":"kept"' in copy.hget(name("second"), "value")
        assert not (await run_once(store, runs, call("pay", "third"))).recorded


@pytest.mark.costly
async def test_a_failover_loses_what_the_replica_did_not_have_unless_replicas_are_waited_for(
    server: RedisServer, client: Any, replica: RedisServer, proxy: Proxy
) -> None:
    """Not promised: after it the call runs again. Only a store that made a claim which was lost notices that.
    A store that waits is refused, also when another server takes over between claim and acknowledgement.
    """

    def takes_over() -> str:
        client.delete(name("key"))
        return "pass"

    with RedisStore(proxy.url, timeout=PATIENCE_S, replicas=1) as between:
        proxy.does = takes_over
        with pytest.raises(ToolNotStarted, match="another server has taken over, without the claim"):
            await between.claim("key", "print")
        proxy.does = lambda: "pass"
        client.flushall()
    with RedisStore(proxy.url) as store, hasty(server.url, replicas=1) as waits, RedisStore(replica.url) as new:
        assert await store.claim("before", "print") == Claimed()
        everything_is_copied(client)
        with Redis.from_url(replica.url) as promoted:
            promoted.replicaof("NO", "ONE")
        assert await store.claim("key", "print") == Claimed()
        with pytest.raises(ToolNotStarted, match="got 0 replicas"):
            await waits.claim("another", "print")

        proxy.port = replica.port
        server.stop()
        assert isinstance(await new.claim("before", "print"), StillRunning)
        with pytest.raises(ToolNotStarted, match=r"and claim 2, got '[0-9a-f]{16}' and claim 1"):
            await store.claim("key", "print")
        assert await new.claim("key", "print") == Claimed()


@pytest.mark.costly
async def test_an_fsync_is_waited_for_or_refused_where_the_server_has_none(
    server: RedisServer, client: Any, tmp_path: Path
) -> None:
    """The version counts, and an append-only file."""
    has_it = tuple(map(int, client.info("server")["redis_version"].split(".")))[:2] >= (7, 2)
    with redis_server("--appendonly", "yes", "--dir", str(tmp_path)) as keeping:
        for running, works in ((server, False), (keeping, has_it)):
            with RedisStore(running.url, fsync=True) as store, hasty(running.url, fsync=True, replicas=1) as both:
                if works:
                    assert await store.claim("key", "print") == Claimed()
                    await store.complete("key", b"1")
                    with pytest.raises(ToolNotStarted, match=r"fsync=True and replicas=1 .* got 0 replicas$"):
                        await both.claim("another", "print")
                else:
                    with pytest.raises(LocalProtocolError, match=r"a Redis server with WAITAOF \(7.2 or later\)"):
                        await store.claim("another", "print")
            with RedisStore(running.url) as reads:
                assert await reads.claim("another", "print") == Claimed(), "it was given back"


# -- answers that are lost -----------------------------------------------------------------------------------------


def lose(client: Any, proxy: Proxy, how: str) -> None:
    """Lose the first answer that comes once the key is claimed."""
    left = [how]
    proxy.does = lambda: left.pop() if left and client.exists(name("key")) else "pass"


LOST = [
    ("close", Claimed, StillRunning),  # asked again by itself, and known by its id
    ("swallow", ToolNotStarted, Claimed),  # given back
]


@pytest.mark.costly
@pytest.mark.parametrize(("how", "first", "then"), LOST, ids=["closed", "swallowed"])
async def test_a_claim_whose_answer_is_lost_is_no_claim_or_ours(
    server: RedisServer, client: Any, proxy: Proxy, how: str, first: type, then: type
) -> None:
    with RedisStore(proxy.url, timeout=0.5) as store, RedisStore(server.url) as another:
        await store.claim("warm", "print")
        lose(client, proxy, how)
        if first is Claimed:
            assert await store.claim("key", "print") == Claimed()
        else:
            with pytest.raises(ToolNotStarted, match=r"Redis did not answer within timeout=0.5 s"):
                await store.claim("key", "print")
        with anyio.fail_after(PATIENCE_S):
            while then is Claimed and client.exists(name("key")):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert isinstance(await another.claim("key", "print"), then)


@pytest.mark.costly
async def test_a_claim_that_can_not_even_be_given_back_is_unknown_in_the_end(
    server: RedisServer, client: Any, proxy: Proxy
) -> None:
    with RedisStore(proxy.url, timeout=0.2, lease=0.5) as store, RedisStore(server.url) as another:
        await store.claim("warm", "print")

        def cut() -> str:
            if not client.exists(name("key")):
                return "pass"
            proxy.listener.close()
            return "close"

        proxy.does = cut
        with pytest.raises(OSError, match="Redis refused"):
            await store.claim("key", "print")
        assert set((await eventually(another, EndUnknown))[:-1]) <= {StillRunning}


@pytest.mark.costly
async def test_a_server_that_does_not_answer_holds_nobody_longer_than_the_bound(proxy: Proxy) -> None:
    with RedisStore(proxy.url, timeout=0.5) as store:
        proxy.does = lambda: "swallow"

        async def claim(number: int) -> None:
            with pytest.raises(ToolNotStarted, match=r"not run: Redis did not answer within timeout=0.5 s"):
                await store.claim(f"key {number}", "print")

        with anyio.fail_after(30):  # one after the other they would wait for 5 s
            async with anyio.create_task_group() as group:
                for number in range(10):
                    group.start_soon(claim, number)


@pytest.mark.costly
async def test_without_a_server_nothing_runs_and_behind_its_start_all_goes_on(server: RedisServer) -> None:
    runs = Runs("paid")
    with RedisStore(server.url) as store:
        assert await store.claim("before", "print") == Claimed()
        server.stop()
        pays = call("pay")
        with pytest.raises(ToolNotStarted, match=r"the idempotency store failed \(ConnectionError\)"):
            await run_once(store, runs, pays)
        assert runs.begun == 0
        server.start()
        with pytest.raises(ToolNotStarted, match="the Redis server lost calls"):
            await run_once(store, runs, pays)
        await store.confirm_server()
        assert (await run_once(store, runs, pays)).value == "paid"
