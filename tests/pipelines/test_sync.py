"""Pipelines and runs in programs without an event loop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from profiles import every
from streams import chat

from streamtools import Observation, TextDelta, agent_loop, pipeline, run_calls, tool
from streamtools.errors import LocalProtocolError, StreamError
from streamtools.events import ApprovalRequested

BACKENDS = ("asyncio", "trio")
CALL = ("c1", "add", '{"a": 1, "b": 2}')


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(needs_approval=True)
def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


@every("backend", BACKENDS)
def test_the_events_come_in_a_for_loop_and_the_calls_run(backend: str) -> None:
    with pipeline(iter(chat(["so", "me"], calls=[CALL])), tools=[add]).sync(backend) as events:
        seen = list(events)
        assert events.turn.text == "some"
    assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == "some"
    assert [event.value for event in seen if isinstance(event, Observation)] == [3]
    assert events.turn.messages()[-1]["content"] == "3"


def test_a_stream_that_fails_raises_at_the_for_loop_and_the_bodys_exception_comes_out_as_it_is() -> None:
    with pytest.raises(StreamError), pipeline(iter(chat(["a"])[:-2]), tools=[add]).sync() as events:
        for _ in events:
            pass
    with pytest.raises(KeyError, match="mine"), pipeline(iter(chat(["a"])), tools=[add]).sync() as events:
        for _ in events:
            raise KeyError("mine")
    assert events.turn.observations == ()


def test_calls_are_approved_and_denied_in_the_loop_over_the_events() -> None:
    calls = [("a", "pay", {"to": "x"}), ("b", "pay", {"to": "y"})]
    with run_calls(calls, [pay]).sync() as events:
        for event in events:
            if isinstance(event, ApprovalRequested):
                assert events.approve(event) if event.call_id == "a" else events.deny(event, "no")
        for _ in events:
            pass
    assert [seen.outcome for seen in events.turn.observations] == ["ok", "denied"]


def test_a_loop_of_a_script_asks_a_client_that_blocks_in_a_thread() -> None:
    steps = [chat(calls=[CALL]), chat(["three"], finish="stop")]
    threads: list[threading.Thread] = []

    def ask(messages: list[Any], tools: list[Any]) -> Iterator[bytes]:
        threads.append(threading.current_thread())
        return iter(steps.pop(0))

    run = agent_loop(ask, [{"role": "user", "content": "1 + 2?"}], tools=[add], wire="openai.chat_completions").sync()
    with run:
        text = "".join(event.text for event in run if isinstance(event, TextDelta))
    assert (text, run.outcome, len(run.turns), len(run.messages)) == ("three", "answered", 2, 4)
    assert run.usage is not None
    assert threading.current_thread() not in threads


def test_mistakes_are_named() -> None:
    block = pipeline(iter(chat(["a"])), tools=[add]).sync()
    with pytest.raises(TypeError, match=r"was not entered; write:  with pipeline\(stream"):
        next(block)
    with block:
        list(block)
    with pytest.raises(TypeError, match="was left"):
        next(block)
    with pytest.raises(LocalProtocolError, match="entered once"):
        block.__enter__()
    with pytest.raises(TypeError, match=r"with pipeline\(...\).sync\(\) as events"):
        iter(pipeline(iter(chat(["a"]))))


@pytest.mark.anyio
async def test_inside_an_event_loop_it_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="would block it; write `async with` instead"):
        pipeline(iter(chat(["a"]))).sync().finish()
