"""A real model behind the real llama.cpp server calls a tool and answers, in each mode.

The model is too small to choose the form of its answer, so the server holds it to one payload after the other: by the
schema of the request in the structured mode, by llama.cpp's own option where the mode asks for nothing. Every word
between the keys is the model's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from demo.server import ModelServer
from streamtools import Observation, Turn, agent_loop, tool
from streamtools.history import lint
from streamtools.modes import (
    JSONObjectAdapter,
    NativeToolAdapter,
    OpenAIStructuredAdapter,
    StreamingAdapter,
    ValidatedAdapter,
    tool_prompt,
)

CHAT = "openai.chat_completions"
QUESTION = "What is the weather in Lima?"
SHAPES = ["scratchpad", "tool", "answer"]
"""The payloads that the model is held to, one a step."""


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    pytest.importorskip("xllamacpp", reason="THE MODEL SERVER IS NOT INSTALLED: no mode was tried on a real model")
    with ModelServer() as server:
        yield server.url


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Get the weather of a city.

    Args:
        city: City name.
    """
    return "18 degrees and clear"


class Asker:
    """Sends requests to the server; a mode's answers are held to one shape each."""

    def __init__(self, client: Any, shapes: list[str]) -> None:
        self.asked: list[list[Any]] = []
        self._client = client
        self._shapes = shapes

    async def __call__(self, messages: list[Any], fields: dict[str, Any]) -> Any:
        self.asked.append(messages)
        request = {"model": "tiny", "messages": messages, "stream": True, "temperature": 0, "max_tokens": 120, **fields}
        if self._shapes:
            request |= held_to(self._shapes[len(self.asked) - 1], fields)
        built = self._client.build_request("POST", "/v1/chat/completions", json=request)
        return await self._client.send(built, stream=True)


def held_to(shape: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The request's fields that leave the model one shape of payload."""
    given = fields.get("response_format", {})
    if given.get("type") != "json_schema":
        members = {"tool": {"const": "get_weather"}, "arguments": get_weather.schema}
        members = members if shape == "tool" else {shape: {"type": "string"}}
        schema = {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}
        return {"response_format": {"type": "json_object", "schema": bounded(schema)}}
    schema = json.loads(json.dumps(given["json_schema"]["schema"]))
    union = schema["properties"]["response"] if "response" in schema.get("properties", {}) else schema
    union["anyOf"] = [bounded(variant) for variant in union["anyOf"] if shape in variant["properties"]]
    return {"response_format": {"type": "json_schema", "json_schema": {**given["json_schema"], "schema": schema}}}


def bounded(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with strings of a bounded length: the model does not know when to end one."""
    members = {name: bounded(member) for name, member in schema.get("properties", {}).items()}
    bound = {"maxLength": 40} if schema.get("type") == "string" and "enum" not in schema else {}
    return {**schema, **bound, **({"properties": members} if members else {})}


async def run_on_the_model(url: str, mode: StreamingAdapter, shapes: list[str], messages: list[Any]) -> Any:
    import httpx

    each_its_own = httpx.Limits(max_keepalive_connections=0)  # llama.cpp closes a connection without saying so
    with anyio.fail_after(60):
        async with httpx.AsyncClient(base_url=url, timeout=60, limits=each_its_own, trust_env=False) as client:
            ask = Asker(client, shapes)
            async with agent_loop(ask, messages, tools=[get_weather], wire=CHAT, mode=mode, max_steps=4) as run:
                seen = [event.value async for event in run if isinstance(event, Observation)]
    return run, seen, ask


@pytest.mark.anyio
@pytest.mark.costly
async def test_natively_it_calls_and_answers(server_url: str) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    run, seen, _ = await run_on_the_model(server_url, NativeToolAdapter(), [], messages)
    assert (run.outcome, seen) == ("answered", ["18 degrees and clear"])
    assert [message["role"] for message in run.messages] == ["user", "assistant", "tool", "assistant"]
    assert run.turns[0].calls[0].arguments == {"city": "Lima"}


MODES: list[StreamingAdapter] = [
    OpenAIStructuredAdapter(),
    OpenAIStructuredAdapter(wrapped=False),
    JSONObjectAdapter(),
    ValidatedAdapter(),
]


@pytest.mark.anyio
@pytest.mark.costly
@pytest.mark.parametrize("mode", MODES, ids=repr)
async def test_in_text_it_thinks_calls_and_answers(server_url: str, mode: StreamingAdapter) -> None:
    messages = [{"role": "system", "content": tool_prompt([get_weather])}, {"role": "user", "content": QUESTION}]
    run, seen, ask = await run_on_the_model(server_url, mode, SHAPES, messages)
    assert (run.outcome, seen) == ("answered", ["18 degrees and clear"])
    assert [decided(mode, turn) for turn in run.turns] == SHAPES
    assert run.turn.text
    assert [message["role"] for message in run.messages[2:]] == ["assistant", "user", "assistant", "user", "assistant"]
    assert run.messages[5] == {"role": "user", "content": "Observation: 18 degrees and clear"}
    assert "tool_calls" not in json.dumps(ask.asked)
    assert lint(run.messages, CHAT) == []


def decided(mode: StreamingAdapter, turn: Turn) -> str:
    return next(iter(mode.extract_tool_call(turn) or {"nothing": None}))
