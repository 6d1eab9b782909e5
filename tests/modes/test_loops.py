"""Calls of scripted models in every mode: the same record, and nothing set that only the program sets."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from profiles import every
from ran import ran
from streams import anthropic, chat

from streamtools import Event, Observation, ToolContext, pipeline, tool
from streamtools.modes import ParsedAdapter, StreamingAdapter, ValidatedAdapter, get_adapter
from streamtools.testing import ScriptedSource

Body = list[bytes]


@tool(effect="pure")
async def get_weather(city: str, days: int = 1) -> dict[str, Any]:
    """Weather forecast for a city.

    Args:
        city: City name.
        days: How many days ahead.
    """
    if city == "Atlantis":
        raise LookupError("there is no such city")
    return {"city": city, "days": days}


@tool
def delete(path: str) -> str:
    """Delete a file."""
    ran.append(path)
    return "gone"


def content(text: str, *, step: int = 4, finish: str | None = "stop") -> Body:
    return chat([text[at : at + step] for at in range(0, len(text), step)], finish=finish)


def payload(**members: Any) -> Body:
    return content(json.dumps(members))


async def run_turn(
    body: Body, adapter: StreamingAdapter, tools: Sequence[Any] = (get_weather, delete)
) -> tuple[list[Event], Any]:
    with anyio.fail_after(30):
        async with pipeline(ScriptedSource(body), tools=tools, stages=adapter.stages()) as events:
            return [event async for event in events], events.turn


# -- one tool, five models ---------------------------------------------------------------------------------------

FIVE: dict[str, tuple[StreamingAdapter, Callable[[str], Body]]] = {
    "GPT-4, native": (get_adapter("gpt-4"), lambda arguments: chat(calls=[("call_abc", "get_weather", arguments)])),
    "Claude, native": (
        get_adapter("claude-3-5-sonnet"),
        lambda arguments: anthropic(["Let me look."], [("toolu_1", "get_weather", arguments)]),
    ),
    "Llama 2, JSON in prose": (
        get_adapter("llama-2-13b"),
        lambda arguments: content(f'Sure!\n\n{{"tool": "get_weather", "arguments": {arguments}}}\n\nHope it helps!'),
    ),
    "Mistral, held to a schema": (
        get_adapter("mistral-large", "structured"),
        lambda arguments: content(f'{{"response":{{"tool":"get_weather","arguments":{arguments}}}}}'),
    ),
    "a local model, ReAct": (
        get_adapter("local-model"),
        lambda arguments: content(
            "Thought: I have to look up the weather.\nAction:\n```json\n"
            f'{{"scratchpad": "Paris", "tool": "get_weather", "arguments": {arguments}}}\n```\n'
        ),
    ),
}


def record(observation: Observation) -> dict[str, Any]:
    """A call's record but for what is of the one run: identity, position and time."""
    names = (
        *("tool_name", "outcome", "value", "model_content", "schema_source", "schema_present", "validated"),
        *("validator", "boundary", "coercions", "validation_error", "validated_args", "observation_type", "attempts"),
    )
    return {name: getattr(observation, name) for name in names} | {"error": str(observation.error)}


ARGUMENTS = {
    "ok": '{"city": "Paris", "days": 2}',
    "failed": '{"city": "Atlantis", "days": 2}',
    "invalid": '{"city": "Paris", "days": "soon"}',
}


@pytest.mark.anyio
@every("outcome", ARGUMENTS)
async def test_five_models_that_call_one_tool_give_one_record(outcome: str) -> None:
    records = {}
    for name, (adapter, body) in FIVE.items():
        events, _ = await run_turn(body(ARGUMENTS[outcome]), adapter)
        (observation,) = [event for event in events if isinstance(event, Observation)]
        records[name] = record(observation)
    first = records["GPT-4, native"]
    assert first["outcome"] == outcome
    assert records == dict.fromkeys(FIVE, first)


# -- what must not run ------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_parsed_calls_run_unvalidated_and_their_record_says_so() -> None:
    events, _ = await run_turn(payload(tool="delete", arguments={"path": 5}), ParsedAdapter())
    (found,) = [event for event in events if isinstance(event, Observation)]
    assert (found.outcome, found.validated) == ("ok", False)
    assert ran == [5]
    events, _ = await run_turn(payload(tool="delete", arguments={"path": 5}), ValidatedAdapter())
    (found,) = [event for event in events if isinstance(event, Observation)]
    assert (found.outcome, found.validated) == ("invalid", False)
    assert ran == [5], "not again"


class Secret:
    """What only the program may give."""


UNCHECKED_CALLS = [
    ({"path": "x"}, "ok"),
    ({"path": "x", "options": {"force": True}}, "ok"),
    ({"path": "x", "ctx": "mine"}, "invalid"),
    ({"path": "x", "options": {"ctx": "mine"}}, "invalid"),
    ({"path": "x", "secret": "mine"}, "invalid"),
    ({"path": "x", "options": {"secret": "mine"}}, "invalid"),
    ({"path": "x", "options": 5}, "invalid"),
    ({}, "failed"),
]


@pytest.mark.anyio
@every(("arguments", "outcome"), UNCHECKED_CALLS)
async def test_even_unvalidated_a_call_cannot_set_what_only_the_program_sets(
    arguments: dict[str, Any], outcome: str
) -> None:
    def wipe(path: str, ctx: ToolContext, secret: Secret, **options: bool) -> str:
        """Wipe."""
        assert isinstance(ctx, ToolContext)
        assert isinstance(secret, Secret)
        return path

    wiping = tool(functools.partial(wipe, secret=Secret()), name="wipe")
    events, _ = await run_turn(payload(tool="wipe", arguments=arguments), ParsedAdapter(), [wiping])
    (found,) = [event for event in events if isinstance(event, Observation)]
    assert (found.outcome, "mine" in str(found.error)) == (outcome, False), found.error
