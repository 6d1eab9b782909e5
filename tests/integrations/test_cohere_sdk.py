"""The cohere SDK (v2), against aimock. It gives typed events only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aimock import ANSWER, SAYS
from cohere_streams import START, block
from loopback import Loopback
from streams import sse
from weather import ask_and_answer, get_weather, leaves_in_the_middle

cohere = pytest.importorskip("cohere", reason="THE cohere SDK IS NOT INSTALLED: nox -s integrations")
pytestmark = pytest.mark.anyio

WIRE = "cohere.chat"

CLIENTS: dict[str, Callable[[str], Any]] = {
    "asynchronous": lambda url: cohere.AsyncClientV2(api_key="none", base_url=url),
    "synchronous": lambda url: cohere.ClientV2(api_key="none", base_url=url),
}
# The asynchronous client leaves generators of httpx to the garbage collector, which trio reports.
every_way = pytest.mark.parametrize(
    ("how", "anyio_backend"), [("asynchronous", "asyncio"), ("synchronous", "asyncio"), ("synchronous", "trio")]
)


def request(messages: list[Any]) -> dict[str, Any]:
    hello = [{"role": "user", "content": "Hi"}]
    return {"model": "tiny", "messages": messages or hello, "tools": [get_weather.to(WIRE)]}


@every_way
async def test_two_turns(mock: str, how: str) -> None:
    client = CLIENTS[how](mock)
    await ask_and_answer(lambda messages: client.chat_stream(**request(messages)), WIRE, text=SAYS, answer=ANSWER)


@every_way
async def test_leaving_in_the_middle_hangs_up(how: str) -> None:
    start, delta, *_ = sse(block(0, "lo"), named=True)
    with Loopback([*sse([START], named=True), start], forever=delta) as server:
        client = CLIENTS[how](server.url)
        await leaves_in_the_middle(client.chat_stream(**request([])))
        assert await server.has_lost_its_client()
