"""Limits on what a stream and a call hold, through `pipeline`: one less than the limit, as much, one more."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from profiles import every
from streams import chat, exhaust, sse, stream

from streamtools import Limits, StreamEnd, StreamError, TextDelta, pipeline, tool

GEMINI, RESPONSES = "gemini.generate_content", "openai.responses"


@tool(effect="once")
async def f(a: Any = None) -> str:
    """Take anything."""
    return "ran"


async def read(body: list[Any], limits: Limits, tools: tuple[Any, ...] = (f,)) -> tuple[Any, StreamError | None]:
    """The turn, and the error that was raised."""
    raised = None
    with anyio.fail_after(30):
        async with pipeline(stream(body), tools=tools, limits=limits) as events:
            try:
                await exhaust(events)
            except StreamError as error:
                raised = error
    assert raised is events.turn.error
    assert len(events.turn.observations) == sum(call.kind != "server" for call in events.turn.calls)
    return events.turn, raised


def lists(count: int) -> str:
    return json.dumps({"a": [[]] * (count - 2)})


def arguments(size: int) -> str:
    return '{"a":"' + "x" * (size - 8) + '"}'


def nested(depth: int) -> str:
    return '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)


# -- what concerns one call ------------------------------------------------------------------------------------------


def gemini_pieces(*paths: str) -> list[bytes]:
    """A call whose arguments come by paths."""
    pieces = [{"jsonPath": path, "stringValue": "x"} for path in paths]
    parts = [
        {"functionCall": {"name": "f", "willContinue": True}},
        {"functionCall": {"partialArgs": pieces, "willContinue": True}},
        {"functionCall": {}},
    ]
    payloads = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    return sse([*payloads, {"candidates": [{"finishReason": "STOP"}]}])


CALL: dict[str, tuple[int, str, Callable[[int], list[bytes]]]] = {
    "max_argument_bytes": (20, "argument_too_large", lambda n: chat(calls=[("a", "f", arguments(n))])),
    "max_argument_containers": (9, "argument_too_large", lambda n: chat(calls=[("a", "f", lists(n))])),
    "max_json_depth": (5, "too_deep", lambda n: chat(calls=[("a", "f", nested(n))])),
    "max_name_bytes": (20, "name_too_long", lambda n: chat(calls=[("a", "f" * n, "{}")])),
    "max_path_depth": (5, "bad_path", lambda n: gemini_pieces("$" + ".a" * n)),
    "max_array_index": (5, "bad_path", lambda n: gemini_pieces(*(f"$.a[{at}]" for at in range(n + 1)))),
}


@pytest.mark.anyio
@every("setting", CALL)
async def test_a_call_that_holds_more_is_observed_as_invalid_and_does_not_run(setting: str) -> None:
    limit, problem, make = CALL[setting]
    named = tuple(tool(f.fn, name="f" * size) for size in (limit - 1, limit))
    tools = named if setting == "max_name_bytes" else (f,)
    for size in (limit - 1, limit):
        turn, error = await read(make(size), Limits(**{setting: limit}), tools)
        assert error is None
        assert [observation.outcome for observation in turn.observations] == ["ok"]
    turn, error = await read(make(limit + 1), Limits(**{setting: limit}), tools)
    assert error is None
    (observation,) = turn.observations
    assert (observation.outcome, observation.attempts, turn.calls[0].problem) == ("invalid", 0, problem)
    assert f"{setting}={limit}" in observation.model_content or problem == "bad_path"


# -- the hop to the consumer -----------------------------------------------------------------------------------------


@pytest.mark.anyio
@every("limit", [1, 2, 10])
async def test_the_source_is_no_further_ahead_of_the_consumer(limit: int) -> None:
    pulled = taken = ahead = 0

    async def source() -> AsyncIterator[bytes]:
        nonlocal pulled
        for item in chat(["x"] * 50, finish="stop"):
            pulled += 1
            yield item

    async with pipeline(source(), limits=Limits(event_buffer=limit)) as events:
        async for event in events:
            taken += isinstance(event, (TextDelta, StreamEnd))
            await anyio.wait_all_tasks_blocked()
            if isinstance(event, TextDelta):
                ahead = max(ahead, pulled - taken)
    assert pulled == 53
    assert limit - 2 <= ahead <= limit + 2
