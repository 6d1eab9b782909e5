"""Calls that must not meet: limits of one tool, conflict keys, barriers, and a dispatcher that pipelines share."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from profiles import every
from pydantic import BaseModel
from streams import anthropic, stream, turn_of

from streamtools import Limits, Observation, Tool, ToolCallValidated, pipeline, run_calls, tool
from streamtools.dispatch import CallPool
from streamtools.errors import ToolDefinitionError

pytestmark = pytest.mark.anyio


class Order(BaseModel):
    id: int


def of_model(order: Order) -> str:
    """Handle an order."""
    return "done"


OF_SCHEMA: Any = Tool.from_schema(
    lambda **given: "done",
    {"type": "object", "properties": {"id": {}}},
    name="of_model",
    description="",
    effect="pure",
    conflict_key="id",
)
MADE: list[tuple[Tool[..., Any], str, str]] = [
    (Tool.from_model(Order, of_model, effect="pure", conflict_key="id"), '{"id": 1}', "ok"),
    (OF_SCHEMA, "{}", "ok"),
    (OF_SCHEMA, '{"id": [1]}', "failed"),
]


@every(("made", "arguments", "outcome"), MADE)
async def test_a_key_is_taken_of_models_and_foreign_arguments_and_fails_the_call_where_it_is_none(
    made: Tool[..., Any], arguments: str, outcome: str
) -> None:
    turn = await turn_of([("a", "of_model", arguments)], [made])
    (observation,) = turn.observations
    assert observation.outcome == outcome
    if outcome == "failed":
        assert observation.model_content == "Error: not run: the conflict_key of of_model raised TypeError"
        assert observation.attempts == 0


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


@every("given", [3, Limits()])
def test_what_is_no_pool_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"pool must be a streamtools\.dispatch\.CallPool\(\), not"):
        pipeline(stream([]), pool=given)
    if isinstance(given, int):
        with pytest.raises(TypeError, match=r"limits: expected a streamtools\.Limits"):
            CallPool(given)  # type: ignore[arg-type]


REFUSED: list[tuple[Mapping[str, Any], str]] = [
    ({"max_concurrency": 0}, "max_concurrency: expected an integer of 1 or more, or None, got 0"),
    ({"max_concurrency": True}, "max_concurrency: expected"),
    ({"exclusive": 1}, "exclusive: expected True or False, got 1"),
    ({"conflict_key": "nothing"}, "conflict_key: expected one of its arguments (n), got 'nothing'"),
    ({"conflict_key": 3}, "conflict_key: expected an argument's name, or a plain function"),
    ({"retries": -1}, "retries: expected an integer of 0 or more, got -1"),
    ({"retries": 1}, "retries would run a 'once' tool twice; write effect='idempotent'"),
    (
        {"retries": 1, "effect": "pure", "retry_delay_s": 0},
        "retry_delay_s: expected a number of seconds greater than 0",
    ),
]


@every(("options", "words"), REFUSED)
@every("how", ["tool", "from_schema", "from_model"])
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
