"""Calls that are dear to judge: they are judged in a thread, within their timeout, and nothing else changes by that."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from decisions import decisions_on
from profiles import every
from streams import anthropic, chat, stream, until

from streamtools import (
    ApprovalRequested,
    Event,
    Limits,
    Observation,
    StreamDecoder,
    StreamEnd,
    Suspended,
    TextDelta,
    Tool,
    pipeline,
    resume,
)
from streamtools.dispatch import MemoryStore
from streamtools.errors import LimitExceeded
from streamtools.events import ToolCallEnd
from streamtools.observers import Observer

pytestmark = [pytest.mark.anyio, pytest.mark.costly]

LARGE = json.dumps({"text": "x" * 50_000})
SMALL = json.dumps({"text": "x"})
DEAR: dict[str, Any] = {"properties": {"text": {"items": {"oneOf": [{"const": number} for number in range(4000)]}}}}
"""By this one ten numbers are 40,000 comparisons."""
MUCH = json.dumps({"text": list(range(3990, 4000))})


def threads_of(schema: dict[str, Any] | None = None) -> tuple[Tool[..., Any], list[int]]:
    """A tool, and the threads in which its arguments were judged."""
    seen: list[int] = []

    def check(arguments: dict[str, Any]) -> None:
        seen.append(threading.get_ident())

    async def take(text: Any) -> str:
        return "taken"

    made = Tool.from_schema(take, schema or {"type": "object"}, name="take", description="", check=check)
    return made, seen


async def run(body: Sequence[bytes], tools: Sequence[Any], **options: Any) -> tuple[list[Event], list[Observation]]:
    seen: list[Event] = []
    with anyio.fail_after(30):
        async with pipeline(stream(body), tools=tools, **options) as events:
            async for event in events:
                seen.append(event)
    return seen, [event for event in seen if isinstance(event, Observation)]


@every(("text", "schema", "elsewhere"), [(SMALL, None, False), (LARGE, None, True), (MUCH, DEAR, True)])
async def test_a_call_is_judged_outside_the_event_loop_if_that_takes_long(
    text: str, schema: dict[str, Any] | None, elsewhere: bool
) -> None:
    take, threads = threads_of(schema)
    _, (seen,) = await run(chat(calls=[("a", "take", text)]), [take])
    assert seen.outcome == "ok"
    assert [thread != threading.get_ident() for thread in threads] == [elsewhere]


CALLS = [
    ("a", "take", SMALL),
    ("b", "take", LARGE),
    ("c", "take", LARGE[:-2]),
    ("d", "take", "{}"),
    ("e", "take", MUCH),
]


@every("body, joined", [(chat, False), (anthropic, True)])
async def test_the_events_come_in_the_order_of_the_stream(body: Any, joined: bool) -> None:
    take, _ = threads_of(DEAR)
    chunks = body(text=["one ", "two"], calls=CALLS)
    chunks = [b"".join(chunks)] if joined else chunks
    decoder = StreamDecoder(tools=[take])
    wanted = [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.finish()
    seen, observations = await run(chunks, [take])
    told = [event for event in seen if type(event) in set(map(type, wanted))]
    assert list(map(_told, told)) == list(map(_told, wanted))
    assert [(one.call_id, one.outcome) for one in sorted(observations, key=lambda one: one.call_id)] == [
        ("a", "ok"),
        ("b", "ok"),
        ("c", "truncated"),
        ("d", "invalid"),
        ("e", "ok"),
    ]


def _told(event: Event) -> tuple[Any, ...]:
    if isinstance(event, ToolCallEnd):
        return type(event), event.call.call_id, event.call.status, event.call.arguments, str(event.error)
    return type(event), getattr(event, "text", None), getattr(event, "call_id", None)


async def test_text_behind_a_large_call_does_not_overtake_it() -> None:
    """In one chunk, on a wire whose text comes between calls."""
    take, _ = threads_of()
    body = anthropic(calls=[("a", "take", LARGE)], stop=None)
    body += [chunk.replace(b'"index":0', b'"index":1') for chunk in anthropic(text=["after"])[1:]]
    seen, _ = await run([b"".join(body)], [take])
    kinds = [type(event) for event in seen if isinstance(event, (ToolCallEnd, TextDelta, StreamEnd))]
    assert kinds == [ToolCallEnd, TextDelta, StreamEnd]


class Waiting:
    """A validator that does not come to an end with a large call before it is let."""

    name = "waiting"

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let = threading.Event()

    def validate(self, arguments: dict[str, Any]) -> list[str]:
        if len(arguments["text"]) > 1:
            self.begun.set()
            self.let.wait(20)
        return []


def waiting_tool(validator: Waiting, **options: Any) -> Tool[..., Any]:
    async def take(text: str) -> str:
        return "taken"

    return Tool.from_schema(take, {"type": "object"}, name="take", description="", validator=validator, **options)


async def test_judging_counts_for_the_calls_timeout() -> None:
    validator = Waiting()
    take = waiting_tool(validator, timeout=0.01)
    try:
        _, (seen,) = await run(chat(calls=[("a", "take", LARGE)]), [take])
    finally:
        validator.let.set()
    assert seen.outcome == "invalid"
    assert "could not be checked within the call's timeout of 0.01 s" in seen.model_content


async def test_what_came_behind_a_large_call_is_in_the_turn_of_a_block_that_is_left() -> None:
    validator = Waiting()
    body = anthropic(calls=[("a", "take", LARGE)], stop=None)
    body += [chunk.replace(b'"index":0', b'"index":1') for chunk in anthropic(text=["after"])[1:]]
    branch: list[Event] = []

    class Ends(Observer):
        event_types = frozenset({StreamEnd})

        def on_event(self, event: Event) -> None:
            branch.append(event)

    try:
        with anyio.fail_after(30):
            source = stream([b"".join(body)])
            async with pipeline(source, tools=[waiting_tool(validator)], observers=[Ends()]) as events:
                await anyio.to_thread.run_sync(validator.begun.wait)
    finally:
        validator.let.set()
    (seen,) = events.turn.observations
    assert (seen.outcome, events.turn.text) == ("invalid", "after")
    assert "could not be checked before the stream was ended" in seen.model_content
    assert len(branch) == 1


async def test_a_limit_that_is_exceeded_behind_a_large_call_ends_the_stream() -> None:
    take, _ = threads_of()
    body = b"".join(chat(calls=[("a", "take", LARGE), ("b", "take", LARGE)]))
    seen: list[Event] = []
    with anyio.fail_after(30), pytest.raises(LimitExceeded) as caught:
        limits = Limits(max_total_argument_bytes=60_000)
        async with pipeline(stream([body]), tools=[take], limits=limits) as events:
            async for event in events:
                seen.append(event)
    assert caught.value.setting == "max_total_argument_bytes"
    assert {one.call_id: one.outcome for one in events.turn.observations}["a"] != "ok"


async def test_a_large_call_that_waits_for_an_approval_is_judged_again_when_it_goes_on() -> None:
    threads: list[int] = []

    def check(arguments: dict[str, Any]) -> None:
        threads.append(threading.get_ident())

    async def take(text: Any) -> str:
        return "taken"

    made = Tool.from_schema(
        take, {"type": "object"}, name="take", description="", check=check, needs_approval=lambda given: True
    )
    key = b"0" * 32
    with anyio.fail_after(30):
        async with pipeline(stream(chat(calls=[("a", "take", LARGE)])), tools=[made]) as events:
            await until(events, ApprovalRequested)
        state = events.suspended.to_text(key, max_bytes=len(LARGE) * 3)
        suspended = Suspended.from_text(state, key, max_bytes=len(state))
        given = decisions_on(suspended, {"a": True})
        turn = await resume(suspended, tools=[made], decisions=given, store=MemoryStore())
    assert [one.outcome for one in turn.observations] == ["ok"]
    assert len(threads) == 2
    assert threading.get_ident() not in threads
