"""What is promised of calls, each in a situation that would break the promise: starts, ends, threads, contexts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
from every_wire import FRAMINGS, framed, said
from profiles import every
from sansio import check_histories
from streams import anthropic, chat, double, stream
from wire_cases import CASES

from streamtools import Observation, pipeline, tool
from streamtools.events import ToolStarted
from streamtools.observers import Observer
from streamtools.wires import WIRES

pytestmark = pytest.mark.anyio


class Started(Observer):
    """An observer that counts the calls that were started."""

    event_types = frozenset({ToolStarted})

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_event(self, event: Any) -> None:
        self.calls.append(event.call_id)


# -- when a call starts ------------------------------------------------------------------------------------------

ENDS_ITSELF = [wire for wire in WIRES if CASES[wire].events_of_a_call is not None]
ENDS_WITH_THE_RESPONSE = [wire for wire in WIRES if wire not in ENDS_ITSELF]


@every("policy", ["early", "auto"])
@every("wire", ENDS_ITSELF)
async def test_a_call_starts_at_its_own_end_marker_and_not_an_event_before(wire: str, policy: Any) -> None:
    before = len(framed(wire, said(wire, text=["Hi"], ends=False)))
    items = framed(wire, said(wire, text=["Hi"], calls=[("a", "double", '{"n":123}')], pieces=3, ends=False))
    assert len(items) == before + (CASES[wire].events_of_a_call or 0)
    gate, started = anyio.Event(), Started()

    async def source() -> AsyncIterator[bytes]:
        for item in items[:-1]:
            yield item
        await gate.wait()
        yield items[-1]
        await anyio.sleep_forever()

    with anyio.fail_after(30):
        async with pipeline(source(), wire=wire, tools=[double], start=policy, observers=[started]) as events:
            await anyio.wait_all_tasks_blocked()
            assert started.calls == []
            gate.set()
            async for event in events:  # the stream goes on, for ever
                if isinstance(event, Observation):
                    break
    assert started.calls == ["a"]
    assert [observation.value for observation in events.turn.observations] == [246]


async def test_a_call_starts_before_more_is_read_however_fast_the_source_is() -> None:
    pulled, at_start = 0, -1

    @tool(effect="pure")
    async def look() -> str:
        """Look how much was read."""
        nonlocal at_start
        at_start = pulled
        return "looked"

    call = anthropic(calls=[("a", "look", "{}")], stop=None)
    text = anthropic(["x"] * 100, stop="end_turn")[1:]

    async def source() -> AsyncIterator[bytes]:
        nonlocal pulled
        for item in [*call, *text]:
            pulled += 1
            yield item  # without a checkpoint: everything is there already

    await pipeline(source(), tools=[look])
    assert at_start == len(call)


@every("wire", ENDS_WITH_THE_RESPONSE)
async def test_where_calls_have_no_end_marker_they_start_when_the_response_says_that_it_has_ended(wire: str) -> None:
    payloads = said(wire, calls=[("a", "double", '{"n":123}'), ("b", "double", '{"n":4}')], pieces=3)
    items, gate, started = framed(wire, payloads), anyio.Event(), Started()

    async def source() -> AsyncIterator[bytes]:
        for item in items[:-1]:
            yield item
        await gate.wait()
        yield items[-1]
        if FRAMINGS[wire][0] == "sse":
            yield b"data: [DONE]\n\n"

    with anyio.fail_after(30):
        async with pipeline(source(), wire=wire, tools=[double], start="early", observers=[started]) as events:
            await anyio.wait_all_tasks_blocked()
            assert started.calls == []
            gate.set()
            _ = [event async for event in events]
    assert sorted(started.calls) == ["a", "b"]


# -- results in call order ---------------------------------------------------------------------------------------


@every("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
async def test_events_come_in_the_order_of_completion_with_the_calls_place_and_histories_in_call_order(
    order: tuple[int, ...],
) -> None:
    gates = [anyio.Event() for _ in range(5)]
    gates[0].set()

    @tool(effect="pure")
    async def work(n: int) -> int:
        """End when it is its turn."""
        await gates[order.index(n)].wait()
        return n

    seen: list[int] = []
    calls = [(f"c{n}", "work", f'{{"n": {n}}}') for n in range(4)]
    with anyio.fail_after(30):
        async with pipeline(stream(chat(calls=calls)), tools=[work]) as events:
            async for event in events:
                if isinstance(event, Observation):
                    assert event.value == event.index
                    seen.append(event.index)
                    gates[len(seen)].set()
    assert tuple(seen) == order
    assert [message["content"] for message in events.turn.messages()[1:]] == ["0", "1", "2", "3"]
    check_histories(events.turn)
