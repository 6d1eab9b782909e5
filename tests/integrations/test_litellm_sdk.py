"""litellm against the real model. It needs asyncio, and gives chunks only: there is no response to read."""

from __future__ import annotations

import inspect
import os
from typing import Any

import anyio
import pytest
from loopback import Loopback
from streams import chat, chat_chunk, exhaust, sse
from weather import PATIENCE_S, ask_and_answer, get_weather, leaves_in_the_middle

from streamtools import pipeline
from streamtools.errors import TruncatedStream

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it asks the network when it is imported
litellm = pytest.importorskip("litellm", reason="litellm IS NOT INSTALLED: nox -s integrations")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.filterwarnings("ignore"),  # its own
]

CHAT = "openai.chat_completions"


def request(url: str, messages: list[Any]) -> dict[str, Any]:
    place = {"model": "openai/tiny", "api_base": f"{url}/v1", "api_key": "none"}
    usage = {"stream_options": {"include_usage": True}}
    return {**place, "messages": messages, "tools": [get_weather.to(CHAT)], "temperature": 0, "stream": True, **usage}


async def test_two_turns(llama: str) -> None:
    first, _ = await ask_and_answer(lambda messages: litellm.acompletion(**request(llama, messages)), CHAT)
    assert first.usage is not None


async def test_a_response_that_was_cut_is_not_complete_whether_litellm_raises_or_ends_it() -> None:
    call = ("call_1", "get_weather", '{"city": "Tokyo"}')
    with Loopback(chat(["Hi"], [call], finish=None)) as server:
        for function in (litellm.acompletion, litellm.completion):
            made = function(**request(server.url, [{"role": "user", "content": "Hi"}]))
            stream = await made if inspect.isawaitable(made) else made
            # Since 1.110 litellm raises an error of its own, which passes unchanged; before, it made up a finish.
            events = pipeline(stream, tools=[get_weather])
            with anyio.fail_after(PATIENCE_S), pytest.raises((TruncatedStream, litellm.ServiceUnavailableError)):
                async with events:
                    await exhaust(events)
            assert isinstance(events.turn.error, (TruncatedStream, litellm.ServiceUnavailableError))
            assert [seen.outcome for seen in events.turn.observations] == ["skipped"]


async def test_leaving_in_the_middle_hangs_up() -> None:
    with Loopback(chat(finish=None), forever=sse([chat_chunk({"content": "lo"})])[0]) as server:
        await leaves_in_the_middle(litellm.acompletion(**request(server.url, [{"role": "user", "content": "Hi"}])))
        assert await server.has_lost_its_client()
