"""Lists that are kept: for whom, for how long, and what makes them be asked for again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp_session import FakeSession, listed
from profiles import every

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


@every(("caching", "seconds"), LIFETIMES)
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


@every("caching", [{"ttlMs": 0}, {"ttlMs": -5}])
async def test_a_list_that_holds_for_no_time_is_not_kept(caching: Any) -> None:
    session, cache = FakeSession(**caching), SchemaCache()
    await resolve(session, cache)
    await resolve(session, cache)
    assert (session.lists, len(cache)) == (2, 0)


# -- for whom ------------------------------------------------------------------------------------------------------


@every(
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


async def test_a_public_list_is_shared_by_all_callers_of_its_server() -> None:
    session, cache = FakeSession(cacheScope="public"), SchemaCache()
    await resolve(session, cache, credentials="a")
    await resolve(session, cache, credentials=b"b")
    await resolve(session, cache, "other", credentials="a")
    assert session.lists == 2


async def test_the_secret_is_nowhere_in_the_cache() -> None:
    cache = SchemaCache()
    await resolve(FakeSession(), cache, credentials="sesame")
    assert "sesame" not in repr(vars(cache))
    assert repr(cache) == "<SchemaCache of 1 lists>"


# -- when it changed -----------------------------------------------------------------------------------------------


LIST_CHANGED = "notifications/tools/list_changed"


@every(
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
