"""Every kind of stream, and every way out of the block: read alike, and closed."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from blocking_sources import BLOCKING, EVERY, Held
from profiles import every
from streams import add, anthropic, chat

from streamtools import Limits, TextDelta, pipeline

pytestmark = pytest.mark.anyio

CALLS = [("call_a", "add", '{"a": 1, "b": 2}')]
CHAT = chat(["Hel", "lo"], CALLS)
LONG = chat(["x"] * 200, finish="stop")
SMALL = Limits(event_buffer=1)  # the reader is never far ahead of the consumer

every_kind = every("kind", EVERY)


@every_kind
@every("body", [CHAT, anthropic(["Hel", "lo"], CALLS)])
async def test_it_is_read_to_its_end_and_closed(kind: str, body: list[bytes]) -> None:
    held = Held(body)
    turn = await pipeline(EVERY[kind](held), tools=[add])
    assert (turn.text, turn.complete, turn.error) == ("Hello", True, None)
    assert [observation.value for observation in turn.observations] == [3]
    assert turn.warnings == ()
    is_closed(held, kind)


@every_kind
@every("leave", ["break", "aclose", "exception", "cancellation", "timeout"])
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


@every("kind", [kind for kind in EVERY if "typed" not in kind])  # they have no end marker
async def test_it_is_closed_at_the_end_marker_and_not_read_past_it(kind: str) -> None:
    held = Held([*CHAT, *CHAT])
    turn = await pipeline(EVERY[kind](held), tools=[add])
    assert held.pulled == len(CHAT) + (kind in BODIES)  # the body might have been at its end
    assert turn.text == "Hello"
    is_closed(held, kind)


@every("kind", BODIES)
async def test_a_body_is_read_to_its_end_so_that_its_connection_can_be_used_again(kind: str) -> None:
    held = Held(CHAT)
    turn = await pipeline(EVERY[kind](held))
    assert held.ended
    assert turn.warnings == ()


@every("kind", BODIES)
async def test_a_body_that_ends_badly_after_its_last_event_is_whole(kind: str) -> None:
    held = Held(CHAT, then=ConnectionResetError("reset"))
    turn = await pipeline(EVERY[kind](held))
    assert (turn.complete, turn.error, turn.warnings) == (True, None, ())
    is_closed(held, kind)


@every("kind", BODIES)
async def test_a_body_that_does_not_end_is_not_waited_for(kind: str) -> None:
    held = Held([*CHAT, anyio.Event()])
    turn = await pipeline(EVERY[kind](held))
    assert (turn.complete, turn.error, turn.warnings) == (True, None, ())
    assert not held.ended
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
