"""The Interactions of google-genai, whose stream resumes an interaction by itself: over composed bodies."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from loopback import Loopback
from weather import get_weather, read

from streamtools import parse

genai = pytest.importorskip("google.genai", reason="THE google-genai SDK IS NOT INSTALLED: nox -s integrations")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),  # what the SDK needs
    pytest.mark.filterwarnings("ignore:.*experimental"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

WIRE = "gemini.interactions"


def client(url: str) -> Any:
    return genai.Client(api_key="none", http_options={"base_url": url, "api_version": "v1beta"})


def body(*payloads: dict[str, Any]) -> list[bytes]:
    events = [
        b"event: %b\ndata: %b\n\n" % (payload["event_type"].encode(), orjson.dumps(payload)) for payload in payloads
    ]
    return [*events, b"event: done\ndata: [DONE]\n\n"]


def hop(id_: str, status: str, *inside: dict[str, Any], **more: Any) -> list[bytes]:
    usage = {"total_input_tokens": 5, "total_output_tokens": 2}
    return body(
        {"event_type": "interaction.created", "interaction": {"id": id_, "status": "in_progress", "model": "m"}},
        *inside,
        {"event_type": "interaction.completed", "interaction": {"id": id_, "status": status, "usage": usage, **more}},
    )


def step(index: int, begun: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"event_type": "step.start", "index": index, "step": begun},
        *({"event_type": "step.delta", "index": index, "delta": each} for each in deltas),
        {"event_type": "step.stop", "index": index},
    ]


SUMMARY = {"type": "thought_summary", "content": {"type": "text", "text": "Hm."}}
SIGNATURE = {"type": "thought_signature", "signature": "+/+/"}
CALL = {"type": "function_call", "id": "k1", "name": "get_weather", "arguments": {}}
FIRST = hop(
    "v1_a",
    "requires_continuation",
    *step(0, {"type": "thought"}, SUMMARY, SIGNATURE),
    *step(1, {"type": "model_output"}, {"type": "text", "text": "Let me "}, {"type": "text", "text": "see. "}),
    continuation_token="t1",
)
SECOND = hop(
    "v1_b",
    "requires_action",
    *step(0, {"type": "model_output"}, {"type": "text", "text": "Well:"}),
    *step(
        1,
        CALL,
        {"type": "arguments_delta", "arguments": '{"city": "To'},
        {"type": "arguments_delta", "arguments": 'kyo"}'},
    ),
)
LAST = hop("v1_c", "completed", *step(0, {"type": "model_output"}, {"type": "text", "text": "Warm."}))


@pytest.mark.parametrize("stored", [True, False])
async def test_the_hops_that_the_sdk_resumes_are_one_turn_and_its_steps_go_back(stored: bool) -> None:
    question: list[Any] = [{"type": "user_input", "content": [{"type": "text", "text": "How warm is it?"}]}]
    request: dict[str, Any] = {"model": "m", "tools": [get_weather.to(WIRE)], "stream": True, "store": stored}
    with Loopback(FIRST, SECOND, LAST) as server:
        sdk = client(server.url)
        create = sdk.aio.interactions.create
        turn = await read(await create(input=question, **request), WIRE)
        steps = turn.messages()
        if stored:
            results = [each for each in steps if each["type"] == "function_result"]
            request |= {"input": results, "previous_interaction_id": turn.response_id}
        else:
            request["input"] = [*question, *steps]
        again = await read(await create(**request), WIRE)
    expected = parse([*FIRST, *SECOND], tools=[get_weather])
    assert (turn.text, turn.finish, turn.complete) == ("Let me see. Well:", "tool_calls", True)
    assert turn.usage == expected.usage
    assert turn.usage is not None
    assert turn.usage.input_tokens == 10
    assert [part.text for part in turn.parts] == [part.text for part in expected.parts]
    assert steps[0] == {"type": "thought", "signature": "+/+/", "summary": [{"type": "text", "text": "Hm."}]}
    assert [each.outcome for each in turn.observations] == ["ok"]
    assert again.text == "Warm."
    resumed, answered = (request for _, request in server.requests[1:])
    assert resumed["continuation_token"] == "t1"
    assert answered.get("previous_interaction_id") == ("v1_b" if stored else None)
    sent = {each["type"]: each for each in answered["input"]}
    assert sent["function_result"]["call_id"] == "k1"
    assert ("thought" in sent) is not stored
