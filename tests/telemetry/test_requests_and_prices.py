"""Spans tell the request, where the caller gave it, and its cost, by prices of the caller's."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from profiles import every
from scripted import Spans
from streams import anthropic, chat, stream
from telemetry.scripted import capturing

from streamtools import Trajectory, Usage, agent_loop, pipeline, tool
from streamtools.events import TextDelta
from streamtools.telemetry import Tracing
from streamtools.telemetry.names import cost_of

pytestmark = pytest.mark.anyio

ENDS = anthropic(["Rain."], stop="end_turn")
ASKS = anthropic([], [("c1", "get_weather", '{"city": "Oslo"}')])


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Get the weather."""
    return "rain"


def traced(*, capture: bool = False, **options: Any) -> tuple[Tracing, Spans]:
    spans = Spans()
    return capturing(spans.provider, capture=capture, **options), spans


def chats(spans: Spans) -> list[ReadableSpan]:
    return [span for span in spans.all if span.name.startswith("chat")]


async def test_the_model_and_the_parameters_of_the_request_are_on_the_chat() -> None:
    tracing, spans = traced()
    request = {"model": "claude-x", "temperature": 0.5, "max_tokens": 64, "top_p": True, "messages": [{"role": "user"}]}
    await pipeline(ENDS, observers=[tracing], request=request)
    (chat,) = chats(spans)
    assert chat.name == "chat claude-x"
    found = {name: value for name, value in chat.attributes.items() if name.startswith("gen_ai.request")}
    assert found == {
        "gen_ai.request.model": "claude-x",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 64,
    }
    assert chat.attributes["gen_ai.response.model"] == "c"


SAID = [{"role": "user", "parts": [{"type": "text", "content": "Oslo?"}]}]
CALL = {"type": "tool_call", "id": "c1", "name": "get_weather", "arguments": {"city": "Oslo"}}
RESULT = {"type": "tool_call_response", "id": "c1", "response": "rain"}


@every(
    ("request_", "told"),
    [
        ({"messages": [{"role": "user", "content": "Oslo?"}]}, SAID),
        ({"input": "Oslo?"}, SAID),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "Oslo?"}]}]}, SAID),
        ({"contents": [{"role": "user", "parts": [{"text": "Oslo?"}]}]}, SAID),
        ({"messages": [{"role": "user", "content": [{"text": "Oslo?"}]}]}, SAID),
        (
            {
                "messages": [
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "Oslo"}}],
                    }
                ]
            },
            [{"role": "assistant", "parts": [CALL]}],
        ),
        (
            {
                "contents": [
                    {
                        "role": "model",
                        "parts": [{"functionCall": {"id": "c1", "name": "get_weather", "args": {"city": "Oslo"}}}],
                    }
                ]
            },
            [{"role": "assistant", "parts": [CALL]}],
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "rain"}]}
                ]
            },
            [{"role": "user", "parts": [RESULT]}],
        ),
        (
            {"messages": [{"role": "tool", "tool_call_id": "c1", "content": "rain"}]},
            [{"role": "tool", "parts": [RESULT]}],
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "c1", "output": "rain"}]},
            [{"role": "tool", "parts": [RESULT]}],
        ),
        (
            {
                "messages": [
                    {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [{"id": "c1", "function": {"name": "get_weather", "arguments": "{}"}}],
                    }
                ]
            },
            [{"role": "assistant", "parts": [CALL | {"arguments": "{}"}]}],
        ),
    ],
)
async def test_messages_of_every_provider_are_told_alike_where_content_is_captured(request_: Any, told: Any) -> None:
    tracing, spans = traced(capture=True)
    await pipeline(ENDS, observers=[tracing], request={"system": "Be brief.", **request_})
    (chat,) = chats(spans)
    assert json.loads(str(chat.attributes["gen_ai.input.messages"])) == told
    assert json.loads(str(chat.attributes["gen_ai.system_instructions"])) == [{"type": "text", "content": "Be brief."}]


async def test_a_response_has_its_cost_and_a_run_the_sum() -> None:
    tracing, spans = traced(prices={"c": {"output_tokens": 2_000_000}, "cx": {"output_tokens": 1}})
    bodies = iter([ASKS, ENDS])
    await agent_loop(
        lambda messages, tools: next(bodies), [], tools=[get_weather], wire="anthropic.messages",
        trajectory=Trajectory(observers=[tracing]),
    )  # fmt: skip
    costs = {span.name: (span.attributes or {}).get("streamtools.cost") for span in spans.all}
    assert costs["chat c"] == 2.0
    assert costs["invoke_agent"] == 4.0


@every(
    ("price", "usage", "cost"),
    [
        ({"input_tokens": 2, "output_tokens": 10}, Usage(input_tokens=100, output_tokens=10), 300),
        ({"input_tokens": 2}, Usage(input_tokens=100, cached_input_tokens=60), 200),
        ({"input_tokens": 2, "cached_input_tokens": 1}, Usage(input_tokens=100, cached_input_tokens=60), 140),
        (
            {"input_tokens": 1, "cache_write_input_tokens": 2, "long_cache_write_input_tokens": 4},
            Usage(input_tokens=100, cache_write_input_tokens=50, long_cache_write_input_tokens=10),
            50 + 80 + 40,
        ),
        (
            {"input_tokens": 1, "long_cache_write_input_tokens": 4},
            Usage(input_tokens=100, cache_write_input_tokens=50, long_cache_write_input_tokens=10),
            90 + 40,
        ),
        ({"output_tokens": 3, "reasoning_tokens": 1}, Usage(output_tokens=10, reasoning_tokens=4), 22),
        ({"tool_use_input_tokens": 5}, Usage(input_tokens=7, tool_use_input_tokens=2), 10),
    ],
)
def test_each_token_is_paid_once(price: dict[str, float], usage: Usage, cost: float) -> None:
    found = cost_of({"m": price}, ("m-2026",), usage)
    assert found is not None
    assert found * 1_000_000 == pytest.approx(cost)


def test_the_longest_name_that_a_models_begins_with_has_its_price() -> None:
    prices = {"gpt": {"output_tokens": 1}, "gpt-5": {"output_tokens": 2}}
    usage = Usage(output_tokens=1_000_000)
    assert cost_of(prices, ("gpt-5-mini", None), usage) == 2
    assert cost_of(prices, ("gpt-4", None), usage) == 1
    assert cost_of(prices, (None, "gpt-5"), usage) == 2
    assert cost_of(prices, ("claude", None), usage) is None
    assert cost_of(lambda model, used: 0.5 if model == "x" else None, ("x", "y"), usage) == 0.5


def test_prices_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown count 'input'; known: input_tokens"):
        Tracing(prices={"m": {"input": 1}})
    with pytest.raises(TypeError, match="expected a number, got str"):
        Tracing(prices={"m": {"input_tokens": "1"}})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="prices must be a function or a mapping by model"):
        Tracing(prices={"m": 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="request must be a mapping of the request's fields, not list"):
        pipeline(ENDS, request=[{"role": "user"}])  # type: ignore[arg-type]


async def test_a_response_is_captured_in_the_order_in_which_it_came_without_watching_its_deltas() -> None:
    tracing, spans = traced(capture=True)
    body = [
        b"data: " + json.dumps(chunk).encode() + b"\n\n"
        for chunk in (
            {"choices": [{"delta": {"reasoning_content": "It is far."}}]},
            {"choices": [{"delta": {"content": "Look"}}]},
            {"choices": [{"delta": {"content": "ing."}}]},
            {
                "choices": [
                    {
                        "delta": {
                            "tool_calls": [
                                {
                                    "index": 0,
                                    "id": "c1",
                                    "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
                                }
                            ]
                        },
                        "finish_reason": "tool_calls",
                    }
                ]
            },
        )
    ]
    await pipeline([*body, b"data: [DONE]\n\n"], tools=[get_weather], observers=[tracing])
    (chat,) = chats(spans)
    (message,) = json.loads(str((chat.attributes or {})["gen_ai.output.messages"]))
    assert message["parts"] == [
        {"type": "reasoning", "content": "It is far."},
        {"type": "text", "content": "Looking."},
        CALL,
    ]
    assert TextDelta not in tracing.event_types


async def test_a_chat_names_its_server_and_nothing_else_of_the_address(spans: Spans) -> None:
    body = b"".join(chat(text=["a"]))
    for address, server in (
        ("https://me:secret@api.example.com/v1/chat?key=secret", ("api.example.com", 443)),
        ("http://localhost:8443/secret", ("localhost", 8443)),
        ("http://[::1]/secret", ("::1", 80)),
    ):
        spans.exporter.clear()
        transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body))
        async with httpx.AsyncClient(transport=transport) as client:
            request = client.stream("POST", address)
            await pipeline(request, observers=[Tracing(spans.provider)])
        said = dict(spans.named("chat m").attributes or {})
        assert (said["server.address"], said["server.port"]) == server
        assert "secret" not in "".join(span.to_json() for span in spans.all)
    for source in (stream(chat(text=["a"])), httpx.Response(200, content=body)):  # made without a request
        await pipeline(source, observers=[Tracing(spans.provider)])
        assert "server.address" not in (spans.named("chat m").attributes or {})


async def test_a_run_names_the_provider_of_its_first_response(spans: Spans) -> None:
    async with Trajectory(observers=[Tracing(spans.provider)]) as run:
        for _ in range(2):
            await pipeline(stream(chat(text=["a"])), trajectory=run)
    assert (spans.named("invoke_agent").attributes or {})["gen_ai.provider.name"] == "openai"
