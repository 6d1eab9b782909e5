"""The google-genai SDK: against aimock, and over composed bodies. It gives typed chunks only."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from aimock import ANSWER, SAYS
from gemini_streams import call, gemini, response, text
from loopback import Loopback
from weather import QUESTION, ask_and_answer, get_weather, leaves_in_the_middle, read

from streamtools import parse

genai = pytest.importorskip("google.genai", reason="THE google-genai SDK IS NOT INSTALLED: nox -s integrations")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),  # what the SDK needs
    pytest.mark.filterwarnings("ignore:.*is not a valid FinishReason"),  # aimock's word
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

WIRE = "gemini.generate_content"
ASKED = {"role": "user", "parts": [{"text": QUESTION}]}

STREAMS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "asynchronous": lambda client, contents: client.aio.models.generate_content_stream(**request(contents)),
    "synchronous": lambda client, contents: client.models.generate_content_stream(**request(contents)),
}
every_way = pytest.mark.parametrize("how", STREAMS)


def client(url: str) -> Any:
    return genai.Client(api_key="none", http_options={"base_url": url, "api_version": "v1beta"})


def request(contents: list[Any]) -> dict[str, Any]:
    tools = [{"functionDeclarations": [get_weather.to(WIRE)]}]
    config = {"tools": tools, "automaticFunctionCalling": {"disable": True}}
    return {"model": "gemini-9", "contents": contents, "config": config}


@every_way
async def test_two_turns(mock: str, how: str) -> None:
    sdk = client(mock)
    odd = frozenset({"finish_reason_normalized", "missing_call_id"})
    await ask_and_answer(
        lambda contents: STREAMS[how](sdk, contents), WIRE, ASKED, text=SAYS, answer=ANSWER, warnings=odd
    )


SIGNATURE = base64.b64encode(bytes(range(244, 256))).decode()


@every_way
async def test_signatures_and_names_come_through_the_typed_chunks_as_the_wire_has_them(how: str) -> None:
    assert "+" in SIGNATURE or "/" in SIGNATURE
    payloads = [
        response(text("Hm.", thought=True)),
        response(call("get_weather", {"city": "Tokyo"}, signature=SIGNATURE)),
        response(call("get_weather", {"city": "Oslo", "days": 12345678901234567890})),
        response(text(""), finish="STOP", usageMetadata={"promptTokenCount": 5, "candidatesTokenCount": 7}),
    ]
    body = [b"data: " + orjson.dumps(payload) + b"\r\n\r\n" for payload in payloads]
    with Loopback(body, gemini(["It is warm."])) as server:
        sdk = client(server.url)
        turn = await read(STREAMS[how](sdk, [ASKED]), WIRE)
        again = await read(STREAMS[how](sdk, [ASKED, *turn.messages()]), WIRE)
    expected = parse(body, tools=[get_weather])
    assert (turn.parts, turn.usage, turn.finish) == (expected.parts, expected.usage, expected.finish)
    assert turn.complete
    assert [call.provider_state for call in turn.calls] == [call.provider_state for call in expected.calls]
    assert again.text == "It is warm."
    sent = server.requests[1][1]["contents"]
    signature = sent[1]["parts"][-2]["thoughtSignature"]  # in the SDK's own alphabet, which the API takes as well
    assert base64.urlsafe_b64decode(signature) == base64.b64decode(SIGNATURE)
    assert [part["functionResponse"]["name"] for part in sent[2]["parts"]] == ["get_weather"] * 2


@every_way
async def test_leaving_in_the_middle_hangs_up(how: str) -> None:
    (chunk,) = gemini(["lo"], finish=None)
    with Loopback([chunk], forever=chunk) as server:
        sdk = client(server.url)
        await leaves_in_the_middle(STREAMS[how](sdk, [ASKED]))
        assert await server.has_lost_its_client()
