"""Lists that are kept: for whom, for how long, and what makes them be asked for again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp_session import FakeSession, listed

from streamtools import Limits
from streamtools.mcp import SchemaCache, fetch_tools

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def resolve(session: Any, cache: SchemaCache, server: str = "s", **options: Any) -> list[str]:
    return [made.name for made in await fetch_tools(session, server=server, cache=cache, **options)]


async def test_two_resolves_ask_once() -> None:
    session, cache = FakeSession(listed("a")), SchemaCache()
    assert await resolve(session, cache) == await resolve(session, cache) == ["a"]
    assert session.lists == 1


async def test_resolves_at_the_same_time_ask_once() -> None:
    session, cache = FakeSession(listed("a")), SchemaCache()
    session.gate = anyio.Event()
    seen: list[list[str]] = []

    async def one() -> None:
        seen.append(await resolve(session, cache))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(one)
        await anyio.wait_all_tasks_blocked()
        session.gate.set()
    assert (seen, session.lists) == ([["a"]] * 5, 1)


async def test_a_failed_list_is_asked_for_by_the_next_who_waits() -> None:
    cache = SchemaCache()
    failing, working = FakeSession(pages=[ConnectionError()]), FakeSession(listed("a"))
    failing.gate = anyio.Event()
    seen: list[object] = []

    async def one(session: FakeSession) -> None:
        try:
            seen.append(await resolve(session, cache))
        except ConnectionError:
            seen.append("failed")

    async with anyio.create_task_group() as group:
        group.start_soon(one, failing)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(one, working)
        await anyio.wait_all_tasks_blocked()
        assert working.lists == 0
        failing.gate.set()
    assert seen == ["failed", ["a"]]


async def test_a_cancelled_list_is_asked_for_by_the_next_who_waits() -> None:
    cache, stuck, working = SchemaCache(), FakeSession(), FakeSession(listed("a"))
    stuck.gate = anyio.Event()
    scope = anyio.CancelScope()
    seen: list[object] = []

    async def first() -> None:
        with scope:
            await resolve(stuck, cache)

    async def second() -> None:
        seen.append(await resolve(working, cache))

    async with anyio.create_task_group() as group:
        group.start_soon(first)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
    assert seen == [["a"]]


# -- how long ------------------------------------------------------------------------------------------------------

LIFETIMES: list[tuple[dict[str, Any], float]] = [
    ({}, 300),
    ({"ttlMs": 5000}, 5),
    ({"ttlMs": 500}, 0.5),
    ({"ttlMs": 2500.0}, 2.5),
    ({"ttlMs": 10**12}, 86_400),
    ({"ttlMs": True}, 300),
    ({"ttlMs": "5000"}, 300),
    ({"ttlMs": float("inf")}, 300),
    ({"ttlMs": 10**400}, 300),
]


@pytest.mark.parametrize(("caching", "seconds"), LIFETIMES)
async def test_a_list_holds_as_long_as_the_server_says_or_for_the_default(caching: Any, seconds: float) -> None:
    clock = Clock()
    session, cache = FakeSession(**caching), SchemaCache(clock=clock)
    await resolve(session, cache)
    clock.now += seconds - 0.001
    await resolve(session, cache)
    assert session.lists == 1
    clock.now += 0.002
    await resolve(session, cache)
    assert session.lists == 2


@pytest.mark.parametrize("caching", [{"ttlMs": 0}, {"ttlMs": -5}])
async def test_a_list_that_holds_for_no_time_is_not_kept(caching: Any) -> None:
    session, cache = FakeSession(**caching), SchemaCache()
    await resolve(session, cache)
    await resolve(session, cache)
    assert (session.lists, len(cache)) == (2, 0)


async def test_the_default_may_be_not_to_keep() -> None:
    session, cache = FakeSession(), SchemaCache(default_ttl_s=0)
    await resolve(session, cache)
    assert len(cache) == 0


async def test_of_several_pages_the_shortest_lifetime_counts() -> None:
    clock = Clock()
    pages = [{"tools": [], "nextCursor": "1", "ttlMs": 9000}, {"tools": [], "ttlMs": 1000}]
    session, cache = FakeSession(pages=pages), SchemaCache(clock=clock)
    await resolve(session, cache)
    clock.now += 1
    await resolve(session, cache)
    assert session.lists == 2


async def test_a_lifetime_counts_from_the_question() -> None:
    clock = Clock()
    session, cache = FakeSession(ttlMs=1000), SchemaCache(clock=clock)
    session.gate = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(resolve, session, cache)
        await anyio.wait_all_tasks_blocked()
        clock.now += 2
        session.gate.set()
    await resolve(session, cache)
    assert session.lists == 2


async def test_a_lifetime_that_the_sdk_filled_in_is_not_the_servers_word() -> None:
    silent = SimpleNamespace(tools=[], ttl_ms=0, cache_scope="private", model_fields_set={"tools"})
    said = SimpleNamespace(tools=[], ttl_ms=0, cache_scope="private", model_fields_set={"tools", "ttl_ms"})
    for page, kept in ((silent, 1), (said, 0)):
        cache = SchemaCache()
        await resolve(FakeSession(pages=[page]), cache)
        assert len(cache) == kept


async def test_a_list_that_was_not_read_to_its_end_is_not_kept() -> None:
    session, cache = FakeSession(pages=[{"tools": "junk"}]), SchemaCache()
    await resolve(session, cache)
    assert len(cache) == 0


# -- for whom ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"server": "s"}, {"server": "t"}),
        ({"credentials": "a"}, {"credentials": "b"}),
        ({"credentials": None}, {"credentials": ""}),
        ({"credentials": {"authorization": "a"}}, {"credentials": {"authorization": "b"}}),
        ({"version": "1"}, {"version": "2"}),
        ({"limits": Limits()}, {"limits": Limits(max_listed_tools=1)}),
    ],
)
async def test_lists_are_kept_apart(one: dict[str, Any], other: dict[str, Any]) -> None:
    session, cache = FakeSession(), SchemaCache()
    for options in (one, other, one, other):
        await resolve(session, cache, **options)
    assert (session.lists, len(cache)) == (2, 2)


async def test_the_order_of_headers_does_not_matter() -> None:
    session, cache = FakeSession(), SchemaCache()
    await resolve(session, cache, credentials={"a": "1", "b": "2"})
    await resolve(session, cache, credentials={"b": "2", "a": "1"})
    assert session.lists == 1


async def test_a_public_list_is_shared_by_all_callers_of_its_server() -> None:
    session, cache = FakeSession(cacheScope="public"), SchemaCache()
    await resolve(session, cache, credentials="a")
    await resolve(session, cache, credentials=b"b")
    await resolve(session, cache, "other", credentials="a")
    assert session.lists == 2


async def test_a_list_is_public_only_if_every_page_is() -> None:
    pages = [{"tools": [], "nextCursor": "1", "cacheScope": "public"}, {"tools": []}]
    session, cache = FakeSession(pages=pages), SchemaCache()
    await resolve(session, cache, credentials="a")
    await resolve(session, cache, credentials="b")
    assert session.lists == 2


async def test_a_session_of_another_server_version_asks_again() -> None:
    cache = SchemaCache()
    sessions = [FakeSession(listed(f"v{n}")) for n in (1, 2)]
    for n, session in enumerate(sessions, 1):
        session.server_info = SimpleNamespace(version=str(n))  # type: ignore[attr-defined]
    assert [await resolve(session, cache) for session in sessions] == [["v1"], ["v2"]]


async def test_the_secret_is_nowhere_in_the_cache() -> None:
    cache = SchemaCache()
    await resolve(FakeSession(), cache, credentials="sesame")
    assert "sesame" not in repr(vars(cache))
    assert repr(cache) == "<SchemaCache of 1 lists>"


async def test_the_oldest_list_goes_first() -> None:
    session, cache = FakeSession(), SchemaCache(max_entries=2)
    for server in "abc":
        await resolve(session, cache, server)
    assert len(cache) == 2
    await resolve(session, cache, "c")
    assert session.lists == 3
    await resolve(session, cache, "a")
    assert session.lists == 4


def test_a_cache_holds_something() -> None:
    assert len(SchemaCache(max_entries=1)) == 0
    with pytest.raises(ValueError, match="max_entries: expected at least 1, got 0"):
        SchemaCache(max_entries=0)


# -- when it changed -----------------------------------------------------------------------------------------------


async def test_a_list_is_given_up_by_name_or_all_at_once() -> None:
    session, cache = FakeSession(), SchemaCache()
    for server in "ab":
        await resolve(session, cache, server)
    cache.invalidate("a")
    assert len(cache) == 1
    await resolve(session, cache, "b")
    assert session.lists == 2
    cache.invalidate()
    assert len(cache) == 0


LIST_CHANGED = "notifications/tools/list_changed"


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        (SimpleNamespace(method=LIST_CHANGED), 1),
        (SimpleNamespace(root=SimpleNamespace(method=LIST_CHANGED)), 1),
        ({"method": LIST_CHANGED}, 1),
        (SimpleNamespace(method="notifications/prompts/list_changed"), 2),
        (ValueError("transport"), 2),
    ],
)
async def test_the_servers_notice_gives_up_its_list(message: Any, kept: int) -> None:
    cache = SchemaCache()
    for server in "ab":
        await resolve(FakeSession(), cache, server)
    seen: list[Any] = []

    async def then(message: Any) -> None:
        seen.append(message)

    await cache.message_handler("a")(message)
    await cache.message_handler("a", then)(message)
    assert (len(cache), seen) == (kept, [message])


async def test_a_list_that_changes_while_it_is_asked_for_is_not_kept() -> None:
    session, cache = FakeSession(listed("a")), SchemaCache()
    session.gate = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(resolve, session, cache)
        await anyio.wait_all_tasks_blocked()
        cache.invalidate("s")
        session.gate.set()
    assert len(cache) == 0
