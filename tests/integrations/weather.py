"""What all SDKs are asked, and what must come of it: the tool runs, and the results go back to the same server."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import anyio

from streamtools import TextDelta, Turn, pipeline, tool

__all__ = ["QUESTION", "ask_and_answer", "get_weather", "leaves_in_the_middle", "read"]

QUESTION = "weather in Tokyo and Oslo?"
PATIENCE_S = 20  # all of it takes a tenth of a second


@tool(effect="pure")
async def get_weather(city: str, days: int = 1) -> str:
    """Weather forecast for a city.

    Args:
        city: City name, as a person would write it.
        days: How many days ahead, 1 to 14.
    """
    return f"{len(city)} degrees"


async def read(stream: Any, wire: str | None = None, *, named: bool = False) -> Turn:
    """Read the whole stream and run what it calls.

    Args:
        wire: what it must be found to speak.
        named: it cannot be found: it is named.
    """
    with anyio.fail_after(PATIENCE_S):
        if inspect.isawaitable(stream):
            stream = await stream
        turn = await pipeline(stream, tools=[get_weather], wire=wire if named else None)
    if wire is not None:
        assert turn.wire == wire
    return turn


async def ask_and_answer(
    ask: Callable[[list[Any]], Any],
    wire: str,
    question: Any = None,
    *,
    text: str = "",
    answer: str = "degrees",
    warnings: frozenset[str] = frozenset(),
    named: bool = False,
) -> tuple[Turn, Turn]:
    """Ask; run the two calls that come; send the history back, and read the answer.

    Args:
        ask: takes the messages, gives the stream.
        wire: what the stream must be found to speak.
        question: the first message, in the form of the wire.
        text: what the model says beside its calls.
        answer: a part of what it says at last.
        warnings: the tolerances that the server needs, and no others.
        named: the wire cannot be found: it is named.
    """
    messages = [question or {"role": "user", "content": QUESTION}]
    first = await read(ask(messages), wire, named=named)
    assert (first.text, first.finish, first.complete, first.error) == (text, "tool_calls", True, None)
    assert [(call.name, call.arguments["city"]) for call in first.calls] == [  # type: ignore[index]
        ("get_weather", "Tokyo"),
        ("get_weather", "Oslo"),
    ]
    assert [(seen.outcome, seen.value) for seen in first.observations] == [("ok", "5 degrees"), ("ok", "4 degrees")]
    second = await read(ask([*messages, *first.messages()]), wire, named=named)
    assert (second.calls, second.finish, second.complete, second.error) == ((), "stop", True, None)
    assert answer in second.text
    assert {warning.code for turn in (first, second) for warning in turn.warnings} <= warnings
    return first, second


async def leaves_in_the_middle(stream: Any) -> Turn:
    """Leave the block after the first text; the caller looks at the server, which must notice."""
    with anyio.fail_after(PATIENCE_S):
        if inspect.isawaitable(stream):
            stream = await stream
        async with pipeline(stream) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
    assert events.turn.text
    assert (events.turn.complete, events.turn.error) == (False, None)
    return events.turn
