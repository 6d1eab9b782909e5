"""`Tap.tool`: calls start in the tapped stream, and the function that a framework calls gets the run of its call."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, get_type_hints

import anyio
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint
from streams import anthropic, chat
from tapping import CALL, Server, called, read, tapped

from streamtools import Event, Limits, Observation, StreamEnd, ToolCallValidated, ToolContext, pipeline, tool
from streamtools.errors import ToolDefinitionError, ToolError
from streamtools.events import ToolStarted
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


async def test_a_call_that_is_asked_for_in_the_same_turn_of_the_loop_gets_its_run() -> None:
    """As google-genai does: it calls the function as soon as it has read the call, before the copy is decoded."""
    work = LookUp()
    async with tapped(Server([b"".join(CALL[0]), *CALL[1]])) as (tap, client):
        look_up = tap.tool(work.look_up, effect="pure")
        async with client.stream("POST", "http://model/") as response:
            chunks = response.aiter_raw()
            await anext(chunks)
            assert await look_up("a") == "aa"
            async for _ in chunks:
                pass
        assert work.keys == ["a"]
        assert tap.summary().missed == {}


@pytest.mark.parametrize("arguments", ['{"key": "a"}', '{"times": 2, "key": "a"}'])
async def test_arguments_are_compared_with_their_defaults_in_any_order(arguments: str) -> None:
    work = LookUp()
    async with tapped(Server([b"".join(part) for part in called(arguments=arguments)])) as (tap, client):
        look_up = tap.tool(work.look_up, effect="pure")
        for call in (lambda: look_up("a"), lambda: look_up("a", 2), lambda: look_up(times=2, key="a")):
            await read(client)
            assert await call() == "aa"
        assert work.keys == ["a"] * 3


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


async def test_a_run_of_the_latest_response_is_taken_first() -> None:
    numbers = iter(range(9))

    async def look_up(key: str) -> int:
        """Looks a key up."""
        return next(numbers)

    async with tapped(Server(ALL), scope=lambda: "a conversation") as (tap, client):
        early = tap.tool(look_up, effect="pure")
        await read(client)
        await read(client)
        assert [await early("a") for _ in range(3)] == [1, 2, 3]
        assert tap.summary().missed == {"other_request": 2}


async def test_with_shared_a_call_gets_any_run_the_latest_response_s_first() -> None:
    numbers = iter(range(9))

    async def look_up(key: str) -> int:
        """Looks a key up."""
        return next(numbers)

    async with tapped(Server(ALL), shared=True) as (tap, client):
        early = tap.tool(look_up, effect="pure")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, client)
        await read(client)
        assert [await early("a") for _ in range(3)] == [1, 0, 2]
        assert tap.summary().missed == {"no_run": 1}


@dataclass
class Place:
    name: str


async def test_typed_arguments_are_compared_as_the_function_gets_them() -> None:
    places: list[Place] = []

    async def visit(place: Place) -> str:
        """Visits a place."""
        places.append(place)
        return place.name

    head, rest = called("visit", '{"place": {"name": "Rome"}}')
    async with tapped(Server(head + rest)) as (tap, client):
        early = tap.tool(visit, effect="pure")
        await read(client)
        assert await early(Place("Rome")) == "Rome"
        assert places == [Place("Rome")]


async def test_values_that_only_look_alike_are_not_taken_for_each_other() -> None:
    from pydantic import SecretStr

    async def unlock(code: SecretStr) -> str:
        """Unlocks."""
        return code.get_secret_value()

    head, rest = called("unlock", '{"code": "1234"}')
    async with tapped(Server(head + rest)) as (tap, client):
        early = tap.tool(unlock, effect="pure")
        await read(client)
        assert await early(SecretStr("9999")) == "9999"
        assert await early(SecretStr("1234")) == "1234"


class Odd:
    def __repr__(self) -> str:
        return "odd"


@pytest.mark.parametrize("value", [Odd(), b"\xff", {1, 2}, None, ToolError], ids=repr)
async def test_a_value_comes_back_as_it_is_whatever_it_is(value: Any) -> None:
    runs: list[str] = []

    async def look_up(key: str) -> Any:
        """Looks a key up."""
        runs.append(key)
        return value

    async with tapped(Server(ALL)) as (tap, client):
        early = tap.tool(look_up, effect="pure")
        await read(client)
        assert await early("a") is value
        assert runs == ["a"]


@pytest.mark.parametrize("how", ["async", "sync"])
@pytest.mark.parametrize(
    "error", [KeyError("no such key"), ToolError("try another"), ExceptionGroup("two", [OSError()])]
)
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


async def test_a_sync_function_that_is_called_in_the_event_loop_does_not_block_it() -> None:
    def look_up(key: str) -> str:
        """Looks a key up."""
        return key.upper()

    async with tapped(Server(ALL)) as (tap, client):
        early = tap.tool(look_up, effect="pure")
        await read(client)
        assert early("a") == "A"  # its own run can only end after this


async def test_a_plain_function_around_an_async_one_works() -> None:
    work = LookUp()

    def look_up(key: str) -> Any:
        """Looks a key up."""
        return work.look_up(key)

    over = anyio.Event()

    def note(event: Event) -> None:
        if isinstance(event, Observation):
            over.set()

    async with tapped(Server(ALL), on_event=note) as (tap, client):
        early = tap.tool(look_up, effect="pure")
        await read(client)
        await over.wait()
        assert await early("a") == "aa"


async def test_a_run_may_be_awaited_in_another_event_loop() -> None:
    work = LookUp()
    async with tapped(Server(ALL)) as (tap, client):
        look_up = tap.tool(work.look_up, effect="pure")
        await read(client)
        assert await to_thread.run_sync(lambda: asyncio.run(look_up("a"))) == "aa"
        assert work.keys == ["a"]


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


def test_under_plain_asyncio_a_response_that_was_left_takes_its_runs_along() -> None:
    """anyio has not started the loop, and finds it by the current task alone."""

    async def main() -> None:
        work = LookUp(waits=True)
        async with tapped(Server([*CALL[0], anyio.Event()])) as (tap, client):
            tap.tool(work.look_up, effect="pure")
            await _leave_when(client, work.started)
            while not work.cancelled:
                await checkpoint()
            assert tap.warnings == {}

    asyncio.run(main())


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
        await checkpoint()
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


async def test_a_run_beyond_its_timeout_leads_to_a_plain_call() -> None:
    work = LookUp(waits=True)
    async with tapped(Server(ALL)) as (tap, client):
        look_up = tap.tool(work.look_up, effect="pure", timeout=0.001)
        await read(client)
        while not work.cancelled:
            await checkpoint()
        work.may_end.set()
        assert await look_up("a") == "aa"
        assert work.keys == ["a", "a"]


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


@pytest.mark.parametrize("given", ["the user", "nothing"])
async def test_a_call_gets_runs_of_its_own_conversation_only(given: str) -> None:
    """Two users share a client. Each response has two equal calls, of which each user asks for one, and then for more,
    while runs of the other user are left."""
    user: ContextVar[str] = ContextVar("user")
    bodies_run: list[str] = []

    async def whoami(key: str) -> str:
        """Says for whom it runs."""
        bodies_run.append(user.get())
        return user.get()

    async def converse(name: str, *, ask: int) -> None:
        user.set(name)
        await read(client)
        arrived.append(name)
        while len(arrived) < 2:
            await checkpoint()
        said[name] = [await early("a") for _ in range(ask)]

    said: dict[str, list[str]] = {}
    arrived: list[str] = []
    head, rest = called("whoami", times=2)
    options: dict[str, Any] = {"scope": lambda: user.get(None)} if given == "the user" else {}
    async with tapped(Server(head + rest), **options) as (tap, client):
        early = tap.tool(whoami, effect="pure")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(converse, "ada", ask=1))
            tasks.start_soon(partial(converse, "bob", ask=4))
    assert said == {"ada": ["ada"], "bob": ["bob"] * 4}
    assert sorted(bodies_run) == ["ada"] * 2 + ["bob"] * 4  # two of each were started early
    assert tap.warnings == {}


async def test_tasks_that_a_conversation_starts_get_its_runs_and_those_apart_from_it_get_none() -> None:
    """A framework may run its tools in tasks of their own: they are started after the request."""
    work = LookUp()
    may_call = anyio.Event()
    values: list[str] = []

    async def call(*, wait: bool) -> None:
        if wait:
            await may_call.wait()
        values.append(await early("a"))

    async with tapped(Server(ALL)) as (tap, client), anyio.create_task_group() as tasks:
        early = tap.tool(work.look_up, effect="pure")
        tasks.start_soon(partial(call, wait=True))  # before the request: nothing says that it is of this conversation
        await read(client)
        async with anyio.create_task_group() as of_the_framework:
            of_the_framework.start_soon(partial(call, wait=False))
        assert work.keys == ["a"]
        await read(client)
        may_call.set()
        while len(values) < 2:
            await checkpoint()
    assert values == ["aa"] * 2
    assert len(work.keys) == 3  # two early, one of which nobody has asked for, and one plain


async def test_a_scope_that_names_nobody_shares_nothing() -> None:
    work = LookUp()
    async with tapped(Server(ALL), scope=lambda: None) as (tap, client):
        look_up = tap.tool(work.look_up, effect="pure")
        await read(client)
        assert await look_up("a") == "aa"
    assert work.keys == ["a", "a"]


async def test_a_scope_that_fails_leads_to_a_plain_call() -> None:
    work = LookUp()
    async with tapped(Server(ALL), scope=lambda: 1 / 0) as (tap, client):  # type: ignore[arg-type, return-value]
        look_up = tap.tool(work.look_up, effect="pure")
        assert await read(client) == ALL
        assert await look_up("a") == "aa"
    assert tap.warnings == {"tap_failed": 1}
    assert tap.summary().missed == {"no_run": 1}


async def test_on_chat_completions_calls_start_with_the_end_of_the_response() -> None:
    work = LookUp()
    seen: list[Event] = []
    body = chat([], [("c1", "look_up", '{"key": "a"}')])
    async with tapped(Server(body), on_event=seen.append) as (tap, client):
        look_up = tap.tool(work.look_up, effect="pure")
        await read(client)
        assert await look_up("a") == "aa"
        assert work.keys == ["a"]
    kinds = [type(event) for event in seen]
    assert kinds.index(StreamEnd) < kinds.index(ToolStarted)


async def test_other_tools_are_left_to_the_framework() -> None:
    work = LookUp()
    seen: list[Event] = []
    calls = [("c1", "look_up", '{"key": "a"}'), ("c2", "send", "{}")]
    async with tapped(Server(anthropic([], calls)), on_event=seen.append) as (tap, client):
        look_up = tap.tool(work.look_up, effect="pure")
        await read(client)
        assert await look_up("a") == "aa"
    assert [event.tool_name for event in seen if isinstance(event, Observation)] == ["look_up"]


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
    (_with_context(), {"effect": "pure"}, "has a parameter that is filled when it is called"),
    (_generator(), {"effect": "pure"}, "is an async generator"),
]


@pytest.mark.parametrize(("fn", "options", "text"), REFUSED)
def test_a_tool_that_may_not_start_early_is_refused(fn: Callable[..., Any], options: dict[str, Any], text: str) -> None:
    tap = Tap(Server(ALL).transport())
    with pytest.raises(ToolDefinitionError, match=text):
        tap.tool(fn, require_hints=False, **options)


def test_a_tool_of_a_framework_is_refused_with_the_right_order() -> None:
    framework = type("FunctionTool", (), {"__module__": "agents.tool"})()
    framework.name, framework.description, framework.params_json_schema = "look_up", "", {"type": "object"}
    framework.on_invoke_tool, framework.needs_approval = None, False
    with pytest.raises(ToolDefinitionError, match="pass its function, and make the framework's tool of the new"):
        Tap(Server(ALL).transport()).tool(framework, effect="pure")


def test_a_function_may_be_given_again_but_no_other_of_its_name() -> None:
    tap = Tap(Server(ALL).transport())
    work = LookUp()
    tap.tool(work.look_up, effect="pure")
    tap.tool(work.look_up, effect="pure")
    with pytest.raises(ToolDefinitionError, match="another tool has this name"):
        tap.tool(LookUp().look_up, effect="pure")


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


async def test_a_call_whose_pipeline_ended_without_observing_it_is_made_directly() -> None:
    work = LookUp()
    kept = EarlyRuns(lambda code, error: None, scope=lambda: "all")
    look_up = kept.wrapped(tool(work.look_up, effect="pure"))
    response = ResponseRuns(kept, anyio.lowlevel.current_token())
    (validated,) = [event for event in await _events_of(ALL, kept) if isinstance(event, ToolCallValidated)]
    response.on_event(validated)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look_up, "a")
        await checkpoint()
        await checkpoint()
        assert work.keys == []
        response.settle()
    assert work.keys == ["a"]


async def _events_of(body: list[bytes], kept: EarlyRuns) -> list[Event]:
    async with pipeline(body, tools=kept.tools, start="off") as events:
        return [event async for event in events]


async def test_runs_are_bounded_by_the_limits_of_their_pipeline() -> None:
    work = LookUp()
    head, rest = called(times=3)
    async with tapped(Server(head + rest), limits=Limits(max_repeated_calls=1)) as (tap, client):
        look_up = tap.tool(work.look_up, effect="pure")
        await read(client)
        assert [await look_up("a") for _ in range(3)] == ["aa"] * 3
        assert work.keys == ["a"] * 3
