"""Every kind of stream, and every way out of the block: read alike, and closed."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from held import BLOCKING, EVERY, Held
from streams import anthropic, chat

from streamtools import Limits, TextDelta, pipeline, tool

pytestmark = pytest.mark.anyio

CALLS = [("call_a", "add", '{"a": 1, "b": 2}')]
CHAT = chat(["Hel", "lo"], CALLS)
LONG = chat(["x"] * 200, finish="stop")
SMALL = Limits(event_buffer=1)  # the reader is never far ahead of the consumer

every_kind = pytest.mark.parametrize("kind", EVERY)


@tool(effect="pure")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@every_kind
@pytest.mark.parametrize("body", [CHAT, anthropic(["Hel", "lo"], CALLS)], ids=["chat", "anthropic"])
async def test_it_is_read_to_its_end_and_closed(kind: str, body: list[bytes]) -> None:
    held = Held(body)
    async with pipeline(EVERY[kind](held), tools=[add]) as events:
        _ = [event async for event in events]
    assert (events.turn.text, events.turn.complete, events.turn.error) == ("Hello", True, None)
    assert [observation.value for observation in events.turn.observations] == [3]
    assert events.turn.warnings == ()
    is_closed(held, kind)


@every_kind
@pytest.mark.parametrize("leave", ["break", "aclose", "exception", "cancellation", "timeout"])
async def test_it_is_closed_however_the_block_is_left(kind: str, leave: str) -> None:
    held = Held(LONG)
    with anyio.CancelScope() as scope:
        try:
            async with pipeline(EVERY[kind](held), limits=SMALL) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        await leave_by(leave, events, scope)
                        break
        except KeyError:
            assert leave == "exception"
    assert held.pulled < len(LONG)
    is_closed(held, kind)
    assert events.turn.warnings == ()


async def leave_by(leave: str, events: Any, scope: anyio.CancelScope) -> None:
    if leave == "aclose":
        await events.aclose()
    elif leave == "exception":
        raise KeyError("mine")
    elif leave == "cancellation":
        scope.cancel()
        await anyio.lowlevel.checkpoint()
    elif leave == "timeout":
        scope.deadline = anyio.current_time()
        await anyio.sleep_forever()


@every_kind
async def test_it_is_closed_when_it_fails_and_its_error_comes_out_as_it_was(kind: str) -> None:
    error = ConnectionResetError("reset")
    held = Held(chat(["Hi"], finish=None), then=error)
    async with pipeline(EVERY[kind](held)) as events:
        with pytest.raises(ConnectionResetError) as raised:
            _ = [event async for event in events]
    assert raised.value is error
    assert events.turn.text == "Hi"
    is_closed(held, kind)


BODIES = ("an SDK's stream", "a response", "a response of aiohttp")


@pytest.mark.parametrize("kind", [kind for kind in EVERY if "typed" not in kind])  # they have no end marker
async def test_it_is_closed_at_the_end_marker_and_not_read_past_it(kind: str) -> None:
    held = Held([*CHAT, *CHAT])
    async with pipeline(EVERY[kind](held), tools=[add]) as events:
        _ = [event async for event in events]
    assert held.pulled == len(CHAT) + (kind in BODIES)  # the body might have been at its end
    assert events.turn.text == "Hello"
    is_closed(held, kind)


@pytest.mark.parametrize("kind", BODIES)
async def test_a_body_is_read_to_its_end_so_that_its_connection_can_be_used_again(kind: str) -> None:
    held = Held(CHAT)
    async with pipeline(EVERY[kind](held)) as events:
        _ = [event async for event in events]
    assert held.ended
    assert events.turn.warnings == ()


@pytest.mark.parametrize("kind", BODIES)
async def test_a_body_that_ends_badly_after_its_last_event_is_whole(kind: str) -> None:
    held = Held(CHAT, then=ConnectionResetError("reset"))
    async with pipeline(EVERY[kind](held)) as events:
        _ = [event async for event in events]
    assert (events.turn.complete, events.turn.error, events.turn.warnings) == (True, None, ())
    is_closed(held, kind)


@pytest.mark.parametrize("kind", BODIES)
async def test_a_body_that_does_not_end_is_not_waited_for(kind: str) -> None:
    held = Held([*CHAT, anyio.Event()])
    async with pipeline(EVERY[kind](held)) as events:
        _ = [event async for event in events]
    assert (events.turn.complete, events.turn.error, events.turn.warnings) == (True, None, ())
    assert not held.ended
    is_closed(held, kind)


@every_kind
async def test_it_is_closed_although_nobody_took_an_event(kind: str) -> None:
    held = Held(LONG)
    async with pipeline(EVERY[kind](held), limits=SMALL):
        pass
    # What was not opened yet need not be closed: neither a manager nor a generator holds anything before it is begun.
    if held.opened or held.pulled or kind in BODIES:
        is_closed(held, kind)


@every_kind
async def test_it_is_closed_when_a_transform_fails(kind: str) -> None:
    async def broken(events: Any) -> Any:
        async for event in events:
            yield event
            if isinstance(event, TextDelta):
                raise ValueError("mine")

    held = Held(LONG)
    async with pipeline(EVERY[kind](held), transforms=[broken], limits=SMALL) as events:
        with pytest.raises(ValueError, match="mine"):
            _ = [event async for event in events]
    is_closed(held, kind)


def is_closed(held: Held, kind: str) -> None:
    assert held.closed >= 1
    if held.opened:
        assert (held.opened, held.closed) == (1, 1)
    if kind in BLOCKING:
        assert held.at_once <= 1
        if kind != "an asynchronous manager of a blocking stream":
            assert len(held.threads) == 1
            assert threading.get_ident() not in held.threads
