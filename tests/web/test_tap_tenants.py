"""`Tap.tool` with several users over one client: nobody gets a result that was made for another, however a framework
runs its requests and tools; what cannot be attributed to one request runs again, and is counted with the reason."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import random
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from anyio import to_thread
from profiles import examples
from streams import anthropic
from tapping import Server, read, tapped

from streamtools.integrations.httpx import Tap

pytestmark = pytest.mark.anyio

USER: ContextVar[str] = ContextVar("user")


class Bank:
    """A tool whose result depends on a context variable, which it should not."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def my_balance(self) -> str:
        """Returns the user's balance."""
        self.asked.append(USER.get("nobody"))
        return USER.get("nobody")

    def my_balance_sync(self) -> str:
        """Returns the user's balance."""
        self.asked.append(USER.get("nobody"))
        return USER.get("nobody")


def asking(calls: int = 1, name: str = "my_balance") -> list[bytes]:
    return anthropic([], [(f"c{number}", name, "{}") for number in range(calls)])


async def settled(tap: Tap, count: int) -> None:
    """Waits until so many calls of a tap have been started or are done with."""
    while True:
        counts = tap.summary()
        if counts.waiting + counts.claimed + counts.never_asked >= count:
            return
        await anyio.lowlevel.checkpoint()


@pytest.mark.asyncio_only
async def test_a_request_in_a_task_apart_from_the_tools_is_missed_and_says_so(
    caplog: pytest.LogCaptureFixture, anyio_backend: str
) -> None:
    bank = Bank()
    async with tapped(Server(asking())) as (tap, client):
        my_balance = tap.tool(bank.my_balance, effect="pure")
        USER.set("alice")
        with caplog.at_level(logging.WARNING, "streamtools"):
            await asyncio.create_task(read(client))
            await settled(tap, 1)
            assert await my_balance() == "alice"
            await read(client)
            await settled(tap, 2)
            await asyncio.create_task(read(client))
            await settled(tap, 3)
            assert [await my_balance() for _ in range(2)] == ["alice"] * 2
        assert bank.asked == ["alice"] * 5
        # The first call's context may have a request of another tap: that of a test before this one.
        assert tap.summary().missed in ({"no_request": 1, "other_request": 1}, {"other_request": 2})
        assert {record.levelname for record in caplog.records} == {"WARNING"}
        assert "pass scope=" in caplog.text
        assert "alice" not in caplog.text


@pytest.mark.asyncio_only
async def test_a_call_in_a_thread_gets_its_run_if_the_thread_has_the_context(anyio_backend: str) -> None:
    bank = Bank()
    async with tapped(Server(asking(2, "my_balance_sync"))) as (tap, client):
        my_balance = tap.tool(bank.my_balance_sync, effect="pure")
        USER.set("alice")
        await read(client)
        await settled(tap, 2)
        assert await asyncio.to_thread(my_balance) == "alice"
        with ThreadPoolExecutor(1) as pool:  # whose thread has a context of its own, which is empty
            assert await asyncio.wrap_future(pool.submit(my_balance)) == "nobody"
        assert (tap.summary().claimed, tap.summary().missed) == (1, {"no_request": 1})


async def test_a_scope_replaces_the_context() -> None:
    bank = Bank()
    async with tapped(Server(asking()), scope=lambda: USER.get(None)) as (tap, client):
        my_balance = tap.tool(bank.my_balance, effect="pure")
        for user in ("alice", "bob"):
            USER.set(user)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read, client)  # apart from the tools
        other: ContextVar[str] = ContextVar("a variable of no interest")
        other.set("changed")
        for user in ("alice", "bob"):
            USER.set(user)
            assert await my_balance() == user
        assert tap.summary().claimed == 2
        USER.set("carol")
        assert await my_balance() == "carol"
        assert tap.summary().missed == {"no_run": 1}


async def test_of_one_scope_only_the_latest_response_answers() -> None:
    """What an earlier response has left over is of an earlier question."""
    numbers = iter(range(9))

    async def look_up() -> int:
        """Looks up."""
        return next(numbers)

    async with tapped(Server(asking(name="look_up")), scope=lambda: "alice") as (tap, client):
        early = tap.tool(look_up, effect="pure")
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read, client)
        await settled(tap, 2)
        assert [await early(), await early()] == [1, 2]
        assert tap.summary().missed == {"other_request": 1}


@pytest.mark.deadline(600)
async def test_two_users_of_one_client_never_get_each_other_s_results() -> None:
    """Two users, one client, and every way in which a framework may run a request and its tools, in any order."""
    ways: dict[str, Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]] = {
        "here": lambda run: run(),
        "in a task": _in_a_task,
        "in a task without the context": _without_context,
    }
    count, rng = examples(2_000, 150), random.Random(7)
    claimed = 0
    bank = Bank()
    async with tapped(Server(asking(4)), patience_s=500) as (tap, client):
        my_balance = tap.tool(bank.my_balance, effect="pure")
        made = 0
        while made < count:
            user = rng.choice(["alice", "bob"])
            USER.set(user)
            if rng.random() < 0.7:
                await ways[rng.choice(["here", "here", "in a task"])](functools.partial(read, client))
            for _ in range(rng.randrange(6)):
                if rng.random() < 0.2:
                    USER.set(user := rng.choice(["alice", "bob"]))
                way = rng.choice([*ways])
                said = await ways[way](my_balance)
                assert said == ("nobody" if "without" in way else user)
                made += 1
        claimed = tap.summary().claimed
        assert claimed + sum(tap.summary().missed.values()) == made
    assert claimed > made / 20


async def _in_a_task(run: Callable[[], Awaitable[Any]]) -> Any:
    found: list[Any] = []

    async def task() -> None:
        found.append(await run())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(task)
    return found[0]


async def _without_context(run: Callable[[], Awaitable[Any]]) -> Any:
    return await to_thread.run_sync(_in_an_empty_context, run)


def _in_an_empty_context(run: Callable[[], Awaitable[Any]]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(contextvars.Context().run(asyncio.run, _await(run))))
    thread.start()
    thread.join()
    return found[0]


async def _await(run: Callable[[], Awaitable[Any]]) -> Any:
    return await run()
