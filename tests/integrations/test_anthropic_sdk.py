"""The anthropic SDK: its streams; the model is real."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from bedrock_streams import chunk
from loopback import Loopback
from streams import anthropic as messages
from streams import sse
from weather import ask_and_answer, get_weather, leaves_in_the_middle, read

anthropic = pytest.importorskip("anthropic", reason="THE anthropic SDK IS NOT INSTALLED: nox -s integrations")
pytestmark = pytest.mark.anyio


WIRE = "anthropic.messages"
KEY = {"api_key": "none"}

STREAMS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "create": lambda client, messages: client.messages.create(**request(messages), stream=True),
    "helper": lambda client, messages: client.messages.stream(**request(messages)),
}


def request(messages: list[Any]) -> dict[str, Any]:
    more = {"temperature": 0}  # the helper does not take it by name
    return {
        "model": "tiny",
        "max_tokens": 500,
        "messages": messages,
        "tools": [get_weather.to(WIRE)],
        "extra_body": more,
    }


@pytest.mark.parametrize("how", STREAMS)
async def test_two_turns(llama: str, how: str) -> None:
    async with anthropic.AsyncAnthropic(base_url=llama, **KEY) as client:
        first, _ = await ask_and_answer(lambda messages: STREAMS[how](client, messages), WIRE)
    assert first.usage is not None


BEGIN: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "model": "m", "usage": {}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
]
DELTA = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}}
(MORE,) = sse([DELTA], named=True)


@pytest.mark.parametrize("how", STREAMS)
async def test_leaving_in_the_middle_hangs_up(how: str) -> None:
    with Loopback(sse(BEGIN, named=True), forever=MORE) as server:
        async with anthropic.AsyncAnthropic(base_url=server.url, **KEY) as client:
            await leaves_in_the_middle(STREAMS[how](client, []))
            assert await server.has_lost_its_client()


@pytest.mark.parametrize("how", STREAMS)
async def test_leaving_the_synchronous_client_in_the_middle_hangs_up(how: str) -> None:
    with (
        Loopback(sse(BEGIN, named=True), forever=MORE) as server,
        anthropic.Anthropic(base_url=server.url, **KEY) as client,
    ):
        await leaves_in_the_middle(STREAMS[how](client, []))
        assert await server.has_lost_its_client()


@pytest.mark.parametrize("begun", [False, True])
async def test_the_bedrock_client_whose_events_come_in_frames_of_aws(begun: bool, anyio_backend: str) -> None:
    pytest.importorskip("botocore", reason="THE boto3 SDK IS NOT INSTALLED: nox -s integrations")
    payloads = [orjson.loads(item.partition(b"data: ")[2]) for item in messages(["Hel", "lo"], stop="end_turn")]
    body = [chunk(payload) for payload in payloads]
    keys = {"aws_access_key": "a", "aws_secret_key": "b", "aws_region": "us-east-1", "max_retries": 0}
    with Loopback(body, content_type="application/vnd.amazon.eventstream") as server:
        async with anthropic.AsyncAnthropicBedrock(base_url=server.url, **keys) as client:
            stream = await client.messages.create(model="m", max_tokens=9, messages=[], stream=True)
            if (
                begun and anyio_backend == "asyncio"
            ):  # it leaves a begun stream to the garbage collector, which trio reports
                await stream.__anext__()
            turn = await read(stream, WIRE)
    assert (turn.text, turn.complete) == ("Hello", True)
