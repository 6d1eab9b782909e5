"""Bedrock: boto3, whose event streams block, and the binary stream itself; against aimock."""

from __future__ import annotations

from typing import Any

import httpx
import orjson
import pytest
from aimock import ANSWER, SAYS
from bedrock_streams import START, chunk, converse, events, text_deltas
from loopback import Loopback
from streams import anthropic
from weather import QUESTION, ask_and_answer, get_weather, leaves_in_the_middle, read

from streamtools import pipeline

pytestmark = pytest.mark.anyio

WIRE = "bedrock.converse_stream"
FRAMES = "application/vnd.amazon.eventstream"
ASKED = {"role": "user", "content": [{"text": QUESTION}]}
TOOLS = {"tools": [get_weather.to(WIRE)]}
(MORE,) = events(text_deltas(["lo"])[:1])


def boto3_client(url: str) -> Any:
    boto3 = pytest.importorskip("boto3", reason="THE boto3 SDK IS NOT INSTALLED: nox -s integrations")
    config = pytest.importorskip("botocore.config").Config(retries={"total_max_attempts": 1})
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    return boto3.client("bedrock-runtime", endpoint_url=url, config=config, **keys)


async def test_two_turns() -> None:
    """Composed, since botocore refuses how aimock begins a block of text."""
    calls = [("tooluse_1", "get_weather", '{"city": "Tokyo"}'), ("tooluse_2", "get_weather", '{"city": "Oslo"}')]
    answer = converse(["It is ", "5 degrees."], stop="end_turn")
    with Loopback(converse(["Let me ", "look."], calls), answer, content_type=FRAMES) as server:
        client = boto3_client(server.url)

        def ask(messages: list[Any]) -> Any:
            return client.converse_stream(modelId="m", messages=messages, toolConfig=TOOLS)["stream"]

        first, _ = await ask_and_answer(ask, WIRE, ASKED, text="Let me look.")
    assert server.requests[1][1]["messages"][1:] == first.messages()


async def test_the_whole_response_is_refused_and_one_is_told_what_to_pass() -> None:
    with Loopback(converse(["Hi"], stop="end_turn"), content_type=FRAMES) as server:
        response = boto3_client(server.url).converse_stream(modelId="m", messages=[ASKED])
        with pytest.raises(TypeError, match=r"pass response\['stream'\]"):
            pipeline(response)
        assert (await read(response["stream"], WIRE)).text == "Hi"


async def test_redacted_reasoning_is_given_back_as_the_bytes_that_it_was() -> None:
    delta = {"reasoningContent": {"redactedContent": "+/+/AAE="}}
    told: list[dict[str, Any]] = [
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": delta}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
    ]
    call = [("tooluse_1", "get_weather", '{"city": "Tokyo"}')]
    first = [*events([START, *told]), *converse(["Hm."], call)[1:]]
    with Loopback(first, converse(["Warm."], stop="end_turn"), content_type=FRAMES) as server:
        client = boto3_client(server.url)

        def ask(messages: list[Any]) -> Any:
            return client.converse_stream(modelId="m", messages=messages, toolConfig=TOOLS)["stream"]

        turn = await read(ask([ASKED]), WIRE)
        again = await read(ask([ASKED, *turn.messages()]), WIRE)
    assert again.text == "Warm."
    block = server.requests[1][1]["messages"][1]["content"][0]
    assert block == {"reasoningContent": {"redactedContent": "+/+/AAE="}}


async def test_leaving_in_the_middle_hangs_up() -> None:
    with Loopback(converse(stop=None), forever=MORE, content_type=FRAMES) as server:
        response = boto3_client(server.url).converse_stream(modelId="m", messages=[ASKED])
        await leaves_in_the_middle(response["stream"])
        assert await server.has_lost_its_client()


async def test_a_models_own_stream_inside_the_frames() -> None:
    payloads = [orjson.loads(item.partition(b"data: ")[2]) for item in anthropic(["Hel", "lo"], stop="end_turn")]
    with Loopback([chunk(payload) for payload in payloads], content_type=FRAMES) as server:
        client = boto3_client(server.url)
        response = client.invoke_model_with_response_stream(modelId="m", body=b"{}")
        turn = await read(response["body"], "anthropic.messages")
    assert (turn.text, turn.complete) == ("Hello", True)


async def test_the_binary_stream_two_turns(mock: str) -> None:
    async with httpx.AsyncClient(base_url=mock, trust_env=False) as client:

        def ask(messages: list[Any]) -> Any:
            body = {"messages": messages, "toolConfig": TOOLS}
            return client.stream("POST", "/model/anthropic.tiny/converse-stream", json=body)

        await ask_and_answer(ask, WIRE, ASKED, text=SAYS, answer=ANSWER)
