"""The ollama SDK and Ollama's JSON lines, against aimock."""

from __future__ import annotations

from typing import Any

import httpx
import orjson
import pytest
from aimock import ANSWER, SAYS
from loopback import Loopback
from weather import ask_and_answer, get_weather, leaves_in_the_middle

pytestmark = pytest.mark.anyio

WIRE = "ollama.chat"
JSON_LINES = "application/x-ndjson"
LINE = orjson.dumps({"model": "m", "message": {"role": "assistant", "content": "lo"}, "done": False}) + b"\n"
ODD = frozenset({"finish_reason_normalized", "missing_call_id"})


def request(messages: list[Any]) -> dict[str, Any]:
    return {"model": "tiny", "messages": messages, "tools": [get_weather.to(WIRE)], "stream": True}


def sdk() -> Any:
    return pytest.importorskip("ollama", reason="THE ollama SDK IS NOT INSTALLED: nox -s integrations")


async def test_json_lines_two_turns(mock: str) -> None:
    async with httpx.AsyncClient(base_url=mock, trust_env=False) as client:

        def ask(messages: list[Any]) -> Any:
            return client.stream("POST", "/api/chat", json=request(messages))

        await ask_and_answer(ask, WIRE, text=SAYS, answer=ANSWER, warnings=ODD)


@pytest.mark.asyncio_only
async def test_two_turns(mock: str) -> None:
    client = sdk().AsyncClient(host=mock)
    await ask_and_answer(
        lambda messages: client.chat(**request(messages)), WIRE, text=SAYS, answer=ANSWER, warnings=ODD
    )


@pytest.mark.asyncio_only
@pytest.mark.parametrize("how", ["AsyncClient", "Client"])
async def test_leaving_in_the_middle_hangs_up(how: str) -> None:
    with Loopback([LINE], forever=LINE, content_type=JSON_LINES) as server:
        client = getattr(sdk(), how)(host=server.url)
        await leaves_in_the_middle(client.chat(**request([])))
        assert await server.has_lost_its_client()
