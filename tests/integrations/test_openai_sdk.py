"""The openai SDK: its streams of both APIs; the model is real."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

import anyio
import pytest
from loopback import Loopback
from pydantic import BaseModel
from streams import chat, chat_chunk, sse
from weather import ask_and_answer, get_weather, leaves_in_the_middle

from streamtools import pipeline
from streamtools.events import OutputDelta
from streamtools.exports import export_output

openai = pytest.importorskip("openai", reason="THE openai SDK IS NOT INSTALLED: nox -s integrations")
pytestmark = pytest.mark.anyio


CHAT, RESPONSES = "openai.chat_completions", "openai.responses"
CHAT_TOOLS: list[Any] = [get_weather.to(CHAT)]
CHAT_TOOLS[0]["function"]["strict"] = True  # the helper of openai 2 insists; llama.cpp does not mind
KEY = {"api_key": "none"}


def chat_request(messages: list[Any], **more: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": messages, "tools": CHAT_TOOLS, "temperature": 0, **more}


def responses_request(items: list[Any]) -> dict[str, Any]:
    return {"model": "tiny", "input": items, "tools": [get_weather.to(RESPONSES)], "temperature": 0}


async def test_chat_completions_two_turns(llama: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{llama}/v1", **KEY) as client:

        def ask(messages: list[Any]) -> Any:
            usage = {"stream_options": {"include_usage": True}}
            return client.chat.completions.create(**chat_request(messages, **usage), stream=True)

        first, second = await ask_and_answer(ask, CHAT)
    assert first.usage is not None
    assert second.usage is not None
    assert (first.usage.output_tokens or 0) > (second.usage.output_tokens or 0) > 0


async def test_responses_two_turns(llama: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{llama}/v1", **KEY) as client:
        await ask_and_answer(lambda items: client.responses.create(**responses_request(items), stream=True), RESPONSES)


ENDLESS = chat(["Hel"], finish=None)
MORE = sse([chat_chunk({"content": "lo"})])[0]


def begun_sync(stream: Any) -> Any:
    next(stream)
    return stream


SYNC: dict[str, Callable[[Any], Any]] = {
    "new": lambda completions: completions.create(**chat_request([]), stream=True),
    "begun": lambda completions: begun_sync(completions.create(**chat_request([]), stream=True)),
    "helper": lambda completions: completions.stream(**chat_request([])),
    "raw": lambda completions: completions.with_streaming_response.create(**chat_request([]), stream=True),
}


@pytest.mark.parametrize("how", ["new", "helper", "raw"])
async def test_leaving_in_the_middle_hangs_up(how: str) -> None:
    with Loopback(ENDLESS, forever=MORE) as server:
        async with openai.AsyncOpenAI(base_url=server.url, **KEY) as client:
            await leaves_in_the_middle(SYNC[how](client.chat.completions))
            assert await server.has_lost_its_client()


@pytest.mark.parametrize("how", SYNC)
async def test_leaving_the_synchronous_client_in_the_middle_hangs_up(how: str) -> None:
    with Loopback(ENDLESS, forever=MORE) as server, openai.OpenAI(base_url=server.url, **KEY) as client:
        await leaves_in_the_middle(SYNC[how](client.chat.completions))
        assert await server.has_lost_its_client()


class Seen(BaseModel):
    """An answer that a model of this size can give."""

    city: Literal["Oslo", "Lima"]
    is_port: bool = True
    twins: dict[str, bool] = {}


@pytest.mark.parametrize("question", ["Say: Oslo", "Tell me a story"])
async def test_an_answer_that_is_held_to_a_schema_becomes_its_type(llama: str, question: str) -> None:
    """The server makes a grammar of the strict form, in which nothing may be left out."""
    answer = export_output(Seen, CHAT)
    async with openai.AsyncOpenAI(base_url=f"{llama}/v1", **KEY) as client:
        messages: Any = [{"role": "user", "content": question}]
        stream = await client.chat.completions.create(
            model="tiny", messages=messages, temperature=0, max_tokens=300, stream=True, **answer.request
        )
        with anyio.fail_after(20):
            async with pipeline(stream, output=answer) as events:
                previews = [event.preview async for event in events if isinstance(event, OutputDelta)]
    assert isinstance(events.turn.output, Seen)
    assert json.loads(events.turn.text).keys() == {"city", "is_port", "twins"}
    assert len(previews) > 5
