"""LangChain's chat models against the real model: its chunks are a dialect of their own."""

from __future__ import annotations

from typing import Any

import pytest
from loopback import Loopback
from streams import chat, chat_chunk, sse
from weather import ask_and_answer, get_weather, leaves_in_the_middle

langchain_openai = pytest.importorskip("langchain_openai", reason="LangChain IS NOT INSTALLED: nox -s integrations")
langchain_anthropic = pytest.importorskip("langchain_anthropic", reason="langchain-anthropic IS NOT INSTALLED")
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

CHAT = "openai.chat_completions"  # what its chunks are read as, whoever made them


def openai(url: str, **more: Any) -> Any:
    model = langchain_openai.ChatOpenAI(
        base_url=f"{url}/v1", api_key="none", model="tiny", temperature=0, stream_usage=True, **more
    )
    return model.bind_tools([get_weather.to(CHAT)])


def anthropic(url: str) -> Any:
    model = langchain_anthropic.ChatAnthropic(base_url=url, api_key="none", model="tiny", temperature=0, max_tokens=500)
    return model.bind_tools([get_weather.to("anthropic.messages")])


MODELS = {
    "chat": openai,
    "responses": lambda url: openai(url, use_responses_api=True),
    "anthropic": anthropic,
}


@pytest.mark.parametrize("model", MODELS)
async def test_two_turns(llama: str, model: str) -> None:
    """The history is that of Chat Completions, which LangChain takes for every provider."""
    # llama.cpp leaves out the index that LangChain goes by, which makes one call of two there; not here.
    tolerated = frozenset({"index_reused"} if model == "responses" else ())
    first, _ = await ask_and_answer(lambda messages: MODELS[model](llama).astream(messages), CHAT, warnings=tolerated)
    assert first.usage is not None
    assert (first.usage.output_tokens or 0) > 10


async def test_leaving_in_the_middle_hangs_up() -> None:
    with Loopback(chat(finish=None), forever=sse([chat_chunk({"content": "lo"})])[0]) as server:
        await leaves_in_the_middle(openai(server.url).astream("Hi"))
        assert await server.has_lost_its_client()
