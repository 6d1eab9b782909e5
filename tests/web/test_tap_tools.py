"""`Tap.tool`: calls start in the tapped stream, and the function that a framework calls gets the run of its call."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any, get_type_hints

import anyio
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint
from profiles import every
from streams import chat, exhaust
from tapping import CALL, Server, called, read, tapped

from streamtools import Event, Observation, ToolContext, tool
from streamtools.errors import ToolDefinitionError, ToolError
from streamtools.integrations.early_runs import EarlyRun, EarlyRuns, ResponseRuns
from streamtools.integrations.httpx import Tap

pytestmark = pytest.mark.anyio

ALL = CALL[0] + CALL[1]


class LookUp:
    """A tool that says when it runs, and waits for a word before it is done."""

    def __init__(self, *, waits: bool = False) -> None:
        self.keys: list[str] = []
        self.started = anyio.Event()
        self.may_end = anyio.Event()
        self.cancelled = 0
        if not waits:
            self.may_end.set()

    async def look_up(self, key: str, times: int = 2) -> str:
        """Looks a key up."""
        self.keys.append(key)
        self.started.set()
        try:
            await self.may_end.wait()
        except BaseException:
            self.cancelled += 1
            raise
        return key * times


async def test_a_call_starts_before_its_response_ends_and_its_run_is_the_answer() -> None:
    work = LookUp()
    async with tapped(Server([*CALL[0], work.started, *CALL[1]])) as (tap, client):
        look_up = tap.tool(work.look_up, effect="pure")
        assert await read(client) == ALL  # which ends only when the tool has started
        assert await look_up("a") == "aa"
        assert work.keys == ["a"]
        assert tap.warnings == {}


@every("finish", ["tool_calls", "length"])
async def test_a_call_that_is_tried_is_the_answer_if_its_response_ends_well(finish: str) -> None:
    work = LookUp()
    body = chat(calls=[("c0", "look_up", '{"key": "a"}')], finish=finish)
    async with tapped(Server([*body[:-2], work.started, *body[-2:]])) as (tap, client):
        look_up = tap.tool(work.look_up, effect="pure")
        assert await read(client) == body  # which ends only when the tool has started
        assert await look_up("a") == "aa"
        assert work.keys == (["a"] if finish == "tool_calls" else ["a", "a"])


async def test_a_call_that_is_asked_for_in_the_same_turn_of_the_loop_gets_its_run() -> None:
    """As google-genai does: it calls the function as soon as it has read the call, before the copy is decoded."""
    work = LookUp()
    async with tapped(Server([b"".join(CALL[0]), *CALL[1]])) as (tap, client):
        look_up = tap.tool(work.look_up, effect="pure")
        async with client.stream("POST", "http://model/") as response:
            chunks = response.aiter_raw()
            await anext(chunks)
            assert await look_up("a") == "aa"
            await exhaust(chunks)
        assert work.keys == ["a"]
        assert tap.summary().missed == {}


async def test_a_call_with_other_arguments_is_made_directly() -> None:
    work = LookUp()
    async with tapped(Server(ALL)) as (tap, client):
        look_up = tap.tool(work.look_up, effect="pure")
        await read(client)
        assert await look_up("b") == "bb"
        assert await look_up("a", times=3) == "aaa"
        assert await look_up("a") == "aa"
        assert sorted(work.keys) == ["a", "a", "b"]


async def test_the_same_call_twice_has_two_runs_and_a_third_is_made_directly() -> None:
    numbers = iter(range(9))

    async def look_up(key: str) -> int:
        """Looks a key up."""
        return next(numbers)

    head, rest = called(times=2)
    async with tapped(Server(head + rest)) as (tap, client):
        early = tap.tool(look_up, effect="pure")
        await read(client)
        assert [await early("a") for _ in range(3)] == [0, 1, 2]


@every("how", ["async", "sync"])
@every("error", [KeyError("no such key"), ToolError("try another"), ExceptionGroup("two", [OSError()])])
async def test_an_exception_is_raised_as_the_tool_raised_it(how: str, error: Exception) -> None:
    runs: list[str] = []

    def fails(key: str) -> str:
        """Fails."""
        runs.append(key)
        raise error

    async def fails_later(key: str) -> str:
        """Fails."""
        return fails(key)

    head, rest = called("fails")
    async with tapped(Server(head + rest)) as (tap, client):
        early: Any = tap.tool(fails if how == "sync" else fails_later, effect="pure", name="fails")
        await read(client)
        with pytest.raises(type(error)) as raised:
            await to_thread.run_sync(early, "a") if how == "sync" else await early("a")
        assert raised.value is error
        assert runs == ["a"]


async def test_a_sync_function_waits_in_its_thread_for_the_run() -> None:
    threads: list[int] = []

    def look_up(key: str) -> str:
        """Looks a key up."""
        threads.append(threading.get_ident())
        return key.upper()

    async with tapped(Server(ALL)) as (tap, client):
        early = tap.tool(look_up, effect="pure")
        await read(client)
        assert await to_thread.run_sync(early, "a") == "A"
        assert len(threads) == 1


async def test_a_response_that_was_left_takes_its_unclaimed_runs_along() -> None:
    work = LookUp(waits=True)
    async with tapped(Server([*CALL[0], anyio.Event()])) as (tap, client):
        look_up = tap.tool(work.look_up, effect="pure")
        await _leave_when(client, work.started)
        while not work.cancelled:
            await checkpoint()
        work.may_end.set()
        assert await look_up("a") == "aa"
        assert work.keys == ["a", "a"]


async def test_a_run_that_was_claimed_goes_on_when_its_response_is_left() -> None:
    work = LookUp(waits=True)
    server = Server([*CALL[0], anyio.Event()])
    async with tapped(server, scope=lambda: "all") as (tap, client), anyio.create_task_group() as tasks:
        look_up = tap.tool(work.look_up, effect="pure")
        values: list[str] = []

        async def call() -> None:
            await work.started.wait()
            claimed.set()
            values.append(await look_up("a"))

        claimed = anyio.Event()
        tasks.start_soon(call)
        await _leave_when(client, claimed)
        work.may_end.set()
        while not values:
            await checkpoint()
        assert values == ["aa"]
        assert (work.keys, work.cancelled) == (["a"], 0)


async def _leave_when(client: Any, event: anyio.Event) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, client)
        await event.wait()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()


async def test_a_call_that_is_cancelled_cancels_its_run() -> None:
    work = LookUp(waits=True)
    async with tapped(Server(ALL)) as (tap, client):
        look_up = tap.tool(work.look_up, effect="pure")
        await read(client)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look_up, "a")
            await work.started.wait()
            await checkpoint()
            tasks.cancel_scope.cancel()
        while not work.cancelled:
            await checkpoint()
        assert work.keys == ["a"]


async def test_closing_the_client_cancels_runs_that_nobody_has_claimed() -> None:
    work = LookUp(waits=True)
    seen: list[Event] = []
    async with tapped(Server(ALL), on_event=seen.append) as (tap, client):
        tap.tool(work.look_up, effect="pure")
        await read(client)
        await work.started.wait()
    assert work.cancelled == 1
    assert [event.outcome for event in seen if isinstance(event, Observation)] == ["cancelled"]


async def test_a_retry_replaces_what_the_run_has_raised() -> None:
    tries: list[str] = []

    async def look_up(key: str) -> str:
        """Looks a key up."""
        tries.append(key)
        if len(tries) == 1:
            raise OSError("once")
        return "found"

    async with tapped(Server(ALL)) as (tap, client):
        early = tap.tool(look_up, effect="pure", retries=1, retry_delay_s=0.001)
        await read(client)
        assert await early("a") == "found"
        assert tries == ["a", "a"]


def test_the_function_keeps_what_frameworks_make_their_schemas_of() -> None:
    tap = Tap(Server(ALL).transport())

    @tap.tool(effect="pure")
    async def look_up(key: str, *, times: int = 2) -> str:
        """Looks a key up."""
        return key * times

    def count(words: list[str]) -> int:
        """Counts."""
        return len(words)

    early = tap.tool(count, effect="pure")
    assert (look_up.__name__, look_up.__doc__) == ("look_up", "Looks a key up.")  # type: ignore[attr-defined]
    assert str(inspect.signature(look_up)) == "(key: 'str', *, times: 'int' = 2) -> 'str'"
    assert get_type_hints(look_up) == {"key": str, "times": int, "return": str}
    assert inspect.iscoroutinefunction(look_up)
    assert not inspect.iscoroutinefunction(early)
    assert early(["a"]) == 1
    renamed: Any = tap.tool(tool(count, effect="pure", name="count_words"))
    assert renamed.__name__ == "count_words"


def _generator() -> Callable[..., Any]:
    async def look_up(key: str) -> Any:
        """Looks a key up."""
        yield key

    return look_up


def _with_context() -> Callable[..., Any]:
    async def look_up(key: str, ctx: ToolContext) -> str:
        """Looks a key up."""
        return key

    return look_up


REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (LookUp.look_up, {}, "its effect is 'once'; only a tool with effect='pure'"),
    (LookUp.look_up, {"effect": "idempotent"}, "its effect is 'idempotent'"),
    (LookUp.look_up, {"effect": "pure", "needs_approval": True}, "needs an approval, which the framework asks for"),
    (_with_context(), {"effect": "pure"}, "has a parameter that is filled at the call"),
    (_generator(), {"effect": "pure"}, "is an async generator"),
]


@every(("fn", "options", "text"), REFUSED)
def test_a_tool_that_may_not_start_early_is_refused(fn: Callable[..., Any], options: dict[str, Any], text: str) -> None:
    tap = Tap(Server(ALL).transport())
    with pytest.raises(ToolDefinitionError, match=text):
        tap.tool(fn, require_hints=False, **options)


# -- what is kept ----------------------------------------------------------------------------------------------------


async def test_runs_that_nobody_asks_for_are_forgotten_with_time_and_number() -> None:
    now = 0.0
    kept = EarlyRuns(lambda code, error: None, scope=lambda: "all", clock=lambda: now)
    look_up = tool(LookUp().look_up, effect="pure")
    kept.wrapped(look_up)
    response = ResponseRuns(kept, anyio.lowlevel.current_token())

    def add(key: str) -> EarlyRun:
        run = EarlyRun(key, "look_up", {"key": key}, response, now)
        kept.add(run)
        return run

    def claim(key: str) -> EarlyRun | None:
        return kept.claim(look_up, (key,), {})

    cancelled: list[str] = []
    response.cancel_call = cancelled.append
    old = add("old")
    now = 299.0
    assert claim("old") is old
    add("old")
    now = 599.0
    assert claim("old") is None
    for number in range(1025):
        add(str(number))
    assert claim("0") is None
    assert claim("1") is not None
    while len(cancelled) < 2:
        await checkpoint()
    assert cancelled == ["old", "0"]
