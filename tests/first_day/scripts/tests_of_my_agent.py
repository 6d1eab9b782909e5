"""The tests of one's own agent: no key, no network, and a tool that returns what the test wants."""

import pytest

from streamtools import agent_loop, tool
from streamtools.testing import FakeTool, ScriptedSource


@tool(effect="idempotent")
async def fetch(url: str) -> str:
    """Fetch a page."""
    raise AssertionError("a test does not fetch")


def says(text):
    return ScriptedSource([{"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}])


def calls(url):
    call = {"index": 0, "id": "c1", "function": {"name": "fetch", "arguments": f'{{"url": "{url}"}}'}}
    return ScriptedSource([{"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}])


async def answer(question, answers, tools):
    """The agent under test."""
    waiting = iter(answers)

    async def ask(messages, tools):
        return next(waiting)

    run = agent_loop(ask, [{"role": "user", "content": question}], tools=tools, wire="openai.chat_completions")
    return (await run).text, run.messages


@pytest.mark.anyio
async def test_the_model_reads_the_page():
    page = FakeTool(fetch, results=["rain"])
    text, messages = await answer("weather?", [calls("https://a.example"), says("It rains.")], [page.tool])
    assert page.calls == [{"url": "https://a.example"}]
    assert messages[-2]["content"] == "rain"
    assert text == "It rains."


@pytest.mark.anyio
async def test_a_page_that_cannot_be_fetched_is_no_end():
    page = FakeTool(fetch, results=[ConnectionError("refused")])
    text, messages = await answer("weather?", [calls("https://a.example"), says("No idea.")], [page.tool])
    assert messages[-2]["content"].startswith("Error:")
    assert "refused" not in messages[-2]["content"]
    assert text == "No idea."
