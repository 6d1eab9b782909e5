"""Calls that must not meet: limits of one tool, conflict keys, barriers, and a dispatcher that pipelines share."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel
from streams import anthropic, chat, hanging, stream

from streamtools import Limits, Observation, Tool, ToolCallValidated, Turn, pipeline, run_calls, tool
from streamtools.dispatch import CallPool
from streamtools.errors import ToolDefinitionError
from streamtools.events import ToolStarted

pytestmark = pytest.mark.anyio


class Room:
    """A body for tools that notes who is inside together, and the order in which they came."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.met: set[frozenset[str]] = set()
        self.came: list[str] = []

    async def visit(self, who: str) -> str:
        self.came.append(who)
        self.met |= {frozenset((who, other)) for other in self.inside}
        self.inside.append(who)
        for _ in range(4):
            await anyio.lowlevel.checkpoint()
        self.inside.remove(who)
        return who


async def turn_of(calls: list[tuple[str, str, str]], tools: list[Any], **options: Any) -> Turn:
    async with pipeline(stream(chat(calls=calls)), tools=tools, **options) as events:
        _ = [event async for event in events]
    return events.turn


def pair(*names: str) -> frozenset[str]:
    return frozenset(names)


async def test_no_more_calls_of_one_tool_run_at_once_than_it_allows() -> None:
    room = Room()

    @tool(effect="pure", max_concurrency=1)
    async def narrow(n: int) -> str:
        """One at a time."""
        return await room.visit(f"narrow {n}")

    @tool(effect="pure")
    async def wide(n: int) -> str:
        """All at once."""
        return await room.visit(f"wide {n}")

    calls = [(f"{name}{n}", name, f'{{"n": {n}}}') for n in range(3) for name in ("narrow", "wide")]
    turn = await turn_of(calls, [narrow, wide])
    assert [o.outcome for o in turn.observations] == ["ok"] * 6
    assert not any(all(name.startswith("narrow") for name in met) for met in room.met)
    assert pair("wide 0", "wide 1") in room.met


KEYS: list[Any] = ["path", lambda arguments: arguments["path"]]


@pytest.mark.parametrize("key", KEYS, ids=["name", "function"])
async def test_calls_with_one_key_run_one_at_a_time_in_call_order_and_readers_side_by_side(key: Any) -> None:
    room = Room()

    @tool(effect="pure", conflict_key=key)
    async def read(path: str, n: int) -> str:
        """Read."""
        return await room.visit(f"read {path}{n}")

    @tool(effect="idempotent", conflict_key=key)
    async def write(path: str, n: int) -> str:
        """Write."""
        return await room.visit(f"write {path}{n}")

    def call(name: str, path: str, n: int) -> tuple[str, str, str]:
        return (f"{name}{path}{n}", name, f'{{"path": "{path}", "n": {n}}}')

    turn = await turn_of(
        [
            call("read", "a", 1),
            call("read", "a", 2),
            call("write", "a", 3),
            call("write", "b", 1),
            call("read", "a", 4),
        ],
        [read, write],
    )
    assert [o.outcome for o in turn.observations] == ["ok"] * 5
    of_a = [who for who in room.came if " a" in who]
    assert (set(of_a[:2]), of_a[2:]) == ({"read a1", "read a2"}, ["write a3", "read a4"])
    assert pair("read a1", "read a2") in room.met
    assert not any(pair("write a3", other) in room.met for other in ("read a1", "read a2", "read a4"))
    assert any("write b1" in met for met in room.met)


async def test_a_call_that_is_held_keeps_its_place_and_one_that_will_never_run_gives_it_up() -> None:
    room = Room()

    @tool(effect="once", conflict_key="path")
    async def write(path: str) -> str:
        """Write."""
        return await room.visit("write")

    @tool(effect="pure", conflict_key="path")
    async def read(path: str) -> str:
        """Read."""
        return await room.visit("read")

    calls = [("a", "write", '{"path": "x"}'), ("b", "read", '{"path": "x"}')]
    turn = await turn_of(calls, [write, read])
    assert (room.came, [o.outcome for o in turn.observations]) == (["write", "read"], ["ok", "ok"])
    room.came.clear()
    shared = CallPool()
    cut = stream(anthropic(calls=calls, stop="max_tokens"))
    async with pipeline(cut, tools=[write, read], pool=shared) as events:
        _ = [event async for event in events]
    assert (room.came, [o.outcome for o in events.turn.observations]) == ([], ["skipped", "skipped"])
    assert (shared.running, shared.waiting) == (0, 0)


async def test_an_exclusive_call_runs_alone_and_what_came_later_waits_for_it() -> None:
    room = Room()

    @tool(effect="pure")
    async def any_time(n: int) -> str:
        """Run whenever."""
        return await room.visit(f"any {n}")

    @tool(effect="pure", exclusive=True)
    async def alone() -> str:
        """Run alone."""
        return await room.visit("alone")

    calls = [("a", "any_time", '{"n": 1}'), ("b", "any_time", '{"n": 2}'), ("c", "alone", "{}")]
    turn = await turn_of([*calls, ("d", "any_time", '{"n": 3}')], [any_time, alone])
    assert [o.outcome for o in turn.observations] == ["ok"] * 4
    assert room.came[2:] == ["alone", "any 3"]
    assert not any("alone" in met for met in room.met)


class Order(BaseModel):
    id: int


def of_model(order: Order) -> str:
    """Handle an order."""
    return "done"


MADE: list[tuple[str, Callable[[], Tool[..., Any]], str, str]] = [
    ("model", lambda: Tool.from_model(Order, of_model, effect="pure", conflict_key="id"), '{"id": 1}', "ok"),
    (
        "schema",
        lambda: Tool.from_schema(
            lambda **given: "done",
            {"type": "object", "properties": {"id": {}}},
            name="of_model",
            description="",
            effect="pure",
            conflict_key="id",
        ),
        "{}",
        "ok",
    ),
    (
        "unhashable",
        lambda: Tool.from_schema(
            lambda **given: "done",
            {"type": "object", "properties": {"id": {}}},
            name="of_model",
            description="",
            effect="pure",
            conflict_key="id",
        ),
        '{"id": [1]}',
        "failed",
    ),
]


@pytest.mark.parametrize(("make", "arguments", "outcome"), [case[1:] for case in MADE], ids=[case[0] for case in MADE])
async def test_a_key_is_taken_of_models_and_foreign_arguments_and_fails_the_call_where_it_is_none(
    make: Callable[[], Tool[..., Any]], arguments: str, outcome: str
) -> None:
    turn = await turn_of([("a", "of_model", arguments)], [make()])
    (observation,) = turn.observations
    assert observation.outcome == outcome
    if outcome == "failed":
        assert observation.model_content == "Error: not run: the conflict_key of of_model raised TypeError"
        assert observation.attempts == 0


async def test_the_limits_of_a_shared_dispatcher_hold_across_its_pipelines_and_they_take_turns() -> None:
    shared, order = CallPool(Limits(max_concurrency=1)), []
    now = most = 0

    @tool(effect="pure")
    async def work(owner: str, n: int) -> str:
        """Work."""
        nonlocal now, most
        now += 1
        most = max(most, now)
        order.append(owner)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        now -= 1
        return "done"

    async def one(owner: str, calls: int) -> None:
        body = anthropic(calls=[(f"c{n}", "work", f'{{"owner": "{owner}", "n": {n}}}') for n in range(calls)])
        async with pipeline(stream(body), tools=[work], pool=shared, start="turn_end") as events:
            _ = [event async for event in events]
        assert [o.outcome for o in events.turn.observations] == ["ok"] * calls

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(one, "many", 12)
            group.start_soon(one, "few", 3)
    assert most == 1
    assert (shared.running, shared.waiting) == (0, 0)
    last = max(n for n, owner in enumerate(order) if owner == "few")
    assert last < len(order) - 6


async def test_a_pipeline_that_is_left_gives_its_places_in_a_shared_dispatcher_to_the_others() -> None:
    shared, inside = CallPool(Limits(max_concurrency=1)), anyio.Event()

    @tool(effect="pure", conflict_key="path")
    async def stay(path: str) -> str:
        """Stay."""
        inside.set()
        await anyio.sleep_forever()
        return "never"

    @tool(effect="pure")
    async def brief() -> str:
        """Be brief."""
        return "done"

    calls = [("a", "stay", '{"path": "x"}'), ("b", "stay", '{"path": "x"}'), ("c", "brief", "{}")]
    with anyio.fail_after(30):
        async with pipeline(hanging(anthropic(calls=calls, stop=None)), tools=[stay, brief], pool=shared) as left:
            async for event in left:
                if isinstance(event, ToolCallValidated) and event.call_id == "c":
                    break
            await inside.wait()
            assert (shared.running, shared.waiting) == (1, 2)
            async with pipeline(stream(chat(calls=[("z", "brief", "{}")])), tools=[brief], pool=shared) as other:
                await left.aclose()
                seen = [event async for event in other if isinstance(event, Observation)]
    assert [o.outcome for o in seen] == ["ok"]
    assert [o.outcome for o in left.turn.observations] == ["cancelled"] * 3
    assert [o.attempts for o in left.turn.observations] == [1, 0, 0]
    assert (shared.running, shared.waiting) == (0, 0)


LOOPS = (("asyncio", "asyncio"), ("asyncio", "trio"), ("trio", "asyncio"))
BOUNDS: tuple[tuple[dict[str, Any], Limits], ...] = (
    ({"exclusive": True}, Limits()),
    ({"conflict_key": lambda arguments: "disk"}, Limits()),
    ({"max_concurrency": 1}, Limits()),
    ({}, Limits(max_concurrency=1)),
)


def test_limits_and_conflicts_of_a_shared_pool_hold_across_event_loops_in_threads() -> None:
    """The calls of each loop wait for those of the other, until all have run."""
    broken: list[Any] = []
    for backends in LOOPS:
        for options, limits in BOUNDS:
            most, ran = at_once_in_loops(backends, options, limits)
            if (most, ran) != (1, {"ok": 20}):
                broken.append((backends, options, limits.max_concurrency, most, ran))
    assert broken == []


def at_once_in_loops(backends: tuple[str, ...], options: dict[str, Any], limits: Limits) -> tuple[int, Counter[str]]:
    """Runs calls in an event loop for each of `backends`, in threads; returns how many ran at once, and outcomes."""
    shared, lock, inside, most = CallPool(limits), threading.Lock(), 0, 0
    ended: Counter[str] = Counter()

    def enter(by: int) -> None:
        nonlocal inside, most
        with lock:
            inside += by
            most = max(most, inside)

    @tool(effect="idempotent", **options)
    async def write(n: int) -> int:
        """Write."""
        enter(1)
        await anyio.sleep(0.0005)
        enter(-1)
        return n

    async def use() -> None:
        turn = await run_calls([(f"c{n}", "write", {"n": n}) for n in range(10)], [write], pool=shared)
        ended.update(seen.outcome for seen in turn.observations)

    def run(backend: str) -> None:
        if backend == "asyncio":
            asyncio.run(use())  # unlike anyio's, it leaves no trace in the context of a callback
        else:
            anyio.run(use, backend=backend)

    threads = [threading.Thread(target=run, args=(one,)) for one in backends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (shared.running, shared.waiting) == (0, 0)
    return most, ended


def test_a_call_that_is_given_up_while_another_loop_starts_it_keeps_no_place() -> None:
    shared, entered, left = CallPool(Limits(max_concurrency=1)), threading.Event(), threading.Event()

    @tool(effect="pure")
    async def hold() -> str:
        """Hold the place until the other loop has given its call up."""
        entered.set()
        await anyio.to_thread.run_sync(left.wait)
        return "held"

    @tool(effect="pure")
    async def brief() -> str:
        """Be brief."""
        return "done"

    async def other() -> Observation:
        async with run_calls([("b", "brief", {})], [hold, brief], pool=shared) as events:
            while shared.waiting != 1:
                await anyio.lowlevel.checkpoint()
            left.set()
            while shared.running or shared.waiting != 0:  # the place may have come here, and not have been taken
                events.cancel("b")
                await anyio.lowlevel.checkpoint()
        return events.turn.observations[0]

    async def first() -> None:
        await run_calls([("a", "hold", {})], [hold, brief], pool=shared)

    thread = threading.Thread(target=anyio.run, args=(first,))
    thread.start()
    entered.wait()
    seen = anyio.run(other)
    thread.join()
    assert (seen.outcome in ("cancelled", "ok"), shared.running, shared.waiting) == (True, 0, 0)


def test_calls_of_an_event_loop_that_was_cut_off_give_their_places_to_the_next() -> None:
    shared = CallPool(Limits(max_concurrency=1))
    left: list[Any] = []

    @tool(effect="pure")
    async def stay() -> None:
        """Stay."""
        await anyio.sleep_forever()

    @tool(effect="pure")
    async def brief() -> str:
        """Be brief."""
        return "done"

    async def cut() -> None:
        left.append(run_calls([("a", "stay", {})], [stay], pool=shared))
        await left[0].__aenter__()
        while not shared.running:
            await anyio.lowlevel.checkpoint()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(cut())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loop.close()
        gc.collect()

        async def use() -> str:
            return (await run_calls([("b", "brief", {})], [brief], pool=shared)).observations[0].outcome

        assert anyio.run(use) == "ok"
        left.clear()
        gc.collect()


@pytest.mark.parametrize("given", [3, Limits()], ids=["a number", "limits"])
def test_what_is_no_pool_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"pool is a streamtools\.dispatch\.CallPool\(\), not"):
        pipeline(stream([]), pool=given)
    if isinstance(given, int):
        with pytest.raises(TypeError, match=r"limits is a streamtools\.Limits"):
            CallPool(given)  # type: ignore[arg-type]


REFUSED: list[tuple[Mapping[str, Any], str]] = [
    ({"max_concurrency": 0}, "max_concurrency: expected an integer of 1 or more, or None, got 0"),
    ({"max_concurrency": True}, "max_concurrency: expected"),
    ({"exclusive": 1}, "exclusive: expected True or False, got 1"),
    ({"conflict_key": "nothing"}, "conflict_key: expected one of its arguments (n), got 'nothing'"),
    ({"conflict_key": 3}, "conflict_key: expected an argument's name, or a plain function"),
    ({"retries": -1}, "retries: expected an integer of 0 or more, got -1"),
    ({"retries": 1}, "retries would run a 'once' tool twice; say effect='idempotent'"),
    (
        {"retries": 1, "effect": "pure", "retry_delay_s": 0},
        "retry_delay_s: expected a number of seconds greater than 0",
    ),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
@pytest.mark.parametrize("how", ["tool", "from_schema", "from_model"])
def test_options_that_make_no_sense_are_refused_where_the_tool_is_defined(
    options: Mapping[str, Any], words: str, how: str
) -> None:
    class Arguments(BaseModel):
        n: int

    async def act(n: int) -> str:
        """Act."""
        return "done"

    async def act_on(arguments: Arguments) -> str:
        """Act."""
        return "done"

    with pytest.raises(ToolDefinitionError) as raised:
        if how == "tool":
            tool(act, **options)
        elif how == "from_schema":
            Tool.from_schema(act, {"type": "object", "properties": {"n": {"type": "integer"}}}, **options)
        else:
            Tool.from_model(Arguments, act_on, **options)
    assert words in str(raised.value)


async def test_a_started_call_names_what_released_it() -> None:
    @tool(effect="once")
    async def act() -> str:
        """Act."""
        return "done"

    async with pipeline(stream(chat(calls=[("a", "act", "{}")])), tools=[act]) as events:
        seen = [event async for event in events]
    (started,) = [event for event in seen if isinstance(event, ToolStarted)]
    (end,) = [event for event in seen if type(event).__name__ == "StreamEnd"]
    assert end.seq in started.causes


async def test_a_once_call_that_is_held_on_an_open_stream_holds_up_no_other_users_call_of_the_same_key() -> None:
    """Its line begins at its release: else one stream that pings on would keep everybody's orders waiting."""
    shared, ready, ran = CallPool(), anyio.Event(), list[str]()

    @tool(conflict_key="order")
    async def change(order: str, who: str) -> str:
        """Change an order."""
        ran.append(who)
        return who

    def call(who: str) -> list[tuple[str, str, str]]:
        return [(who, "change", f'{{"order": "7", "who": "{who}"}}')]

    async def pings_on() -> AsyncIterator[bytes]:
        for item in anthropic(calls=call("first"), stop=None):
            yield item
        while True:
            await anyio.lowlevel.checkpoint()
            yield b": ping\n\n"

    async def first() -> None:
        async with pipeline(pings_on(), tools=[change], pool=shared) as events:
            async for event in events:
                if isinstance(event, ToolCallValidated):
                    ready.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(first)
            await ready.wait()
            turn = await turn_of(call("second"), [change], pool=shared)
            assert shared.waiting == 1, "the first is held still"
            group.cancel_scope.cancel()
    assert [(seen.call_id, seen.outcome) for seen in turn.observations] == [("second", "ok")]
    assert ran == ["second"]
    assert (shared.waiting, shared.running) == (0, 0)
