"""Pipelines and runs in programs without an event loop."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from streams import chat

from streamtools import Deny, Observation, TextDelta, agent_loop, pipeline, run_calls, tool
from streamtools.errors import LocalProtocolError, StreamError
from streamtools.events import ApprovalRequested

BACKENDS = ("asyncio", "trio")
CALL = ("c1", "add", '{"a": 1, "b": 2}')


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="pure")
async def add_async(a: int, b: int) -> int:
    """Add two numbers."""
    await anyio.lowlevel.checkpoint()
    return a + b


@tool(needs_approval=True)
def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_events_come_in_a_for_loop_and_the_calls_run(backend: str) -> None:
    with pipeline(iter(chat(["so", "me"], calls=[CALL])), tools=[add]).sync(backend) as events:
        seen = list(events)
        assert events.turn.text == "some"
    assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == "some"
    assert [event.value for event in seen if isinstance(event, Observation)] == [3]
    assert events.turn.messages()[-1]["content"] == "3"


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_call_reads_to_the_end(backend: str) -> None:
    turn = pipeline(iter(chat(calls=[CALL])), tools=[add]).sync(backend).finish()
    assert turn.observations[0].value == 3
    done = run_calls([("a", "add_async", {"a": 1, "b": 2})], [add_async]).sync(backend).finish()
    assert done.observations[0].unwrap() == 3


def test_a_stream_that_fails_raises_at_the_for_loop_and_the_bodys_exception_comes_out_as_it_is() -> None:
    with pytest.raises(StreamError), pipeline(iter(chat(["a"])[:-2]), tools=[add]).sync() as events:
        for _ in events:
            pass
    with pytest.raises(KeyError, match="mine"), pipeline(iter(chat(["a"])), tools=[add]).sync() as events:
        for _ in events:
            raise KeyError("mine")
    assert events.turn.observations == ()


def test_leaving_the_block_cancels_what_runs() -> None:
    ended: list[str] = []

    @tool(effect="pure")
    async def forever() -> None:
        """Never end."""
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("tool")

    with run_calls([("a", "forever", {})], [forever]).sync() as events:
        for event in events:
            if type(event).__name__ == "ToolStarted":
                break
    assert ([seen.outcome for seen in events.turn.observations], ended) == (["cancelled"], ["tool"])


def test_an_interrupt_while_an_event_is_awaited_leaves_the_block() -> None:
    ended: list[str] = []
    started = threading.Event()

    @tool(effect="pure")
    async def forever() -> None:
        """Never end."""
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("tool")

    class Interrupted(BaseException):
        """As KeyboardInterrupt, for which a test would be interrupted itself."""

    def interrupt(frame: Any, kind: str, argument: Any) -> Any:
        if started.is_set() and frame.f_code.co_name == "result":
            raise Interrupted
        return interrupt

    import sys

    before = sys.gettrace()
    with pytest.raises(Interrupted), run_calls([("a", "forever", {})], [forever]).sync() as events:
        next(events)
        assert started.wait(5)
        sys.settrace(interrupt)
        try:
            for _ in events:
                pass
        finally:
            sys.settrace(before)
    assert ([seen.outcome for seen in events.turn.observations], ended) == (["cancelled"], ["tool"])


def test_calls_are_approved_and_denied_in_the_loop_over_the_events() -> None:
    calls = [("a", "pay", {"to": "x"}), ("b", "pay", {"to": "y"})]
    with run_calls(calls, [pay]).sync() as events:
        for event in events:
            if isinstance(event, ApprovalRequested):
                assert events.approve(event) if event.call_id == "a" else events.deny(event, "no")
        for _ in events:
            pass
    assert [seen.outcome for seen in events.turn.observations] == ["ok", "denied"]


def test_calls_that_wait_are_suspended() -> None:
    with run_calls([("a", "pay", {"to": "x"})], [pay]).sync() as events:
        events.finish()
        assert events.resting
        assert events.suspended is not None
    assert events.suspended is not None
    assert events.suspended.run_id == events.run_id
    turn = run_calls([("a", "pay", {"to": "x"})], [pay], approve=lambda _: Deny("no")).sync().finish()
    assert turn.observations[0].outcome == "denied"


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


def test_a_call_is_run_by_hand() -> None:
    with pipeline(iter(chat(calls=[CALL])), tools=[add], start="manual").sync() as events:
        for event in events:
            if type(event).__name__ == "ToolCallValidated":
                assert events.run_call("c1").value == 3
        for _ in events:
            pass
    assert events.turn.observations[0].value == 3


def test_tools_see_the_callers_context_variables() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return variable.get()

    variable.set("callers")
    assert run_calls([("a", "look", {})], [look]).sync().finish().observations[0].value == "callers"


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
