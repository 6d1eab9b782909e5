"""Calls that are reported and left: without tools, or with ``start="off"`` or ``"pure"``; and results that somebody
else brings."""

from __future__ import annotations

from typing import Any

import pytest
from profiles import every
from streams import anthropic, chat, exhaust, stream

from streamtools import Observation, Turn, agent_loop, parse, pipeline, tool
from streamtools.content import ToolResult
from streamtools.errors import LocalProtocolError
from streamtools.events import Event, StepStart, ToolCallEnd, ToolCallValidated
from streamtools.history import lint, with_results

pytestmark = pytest.mark.anyio

CALLS = [("c1", "double", '{"number": 2}'), ("c2", "other", "{}")]
CHAT = "openai.chat_completions"
ASKED = {"role": "user", "content": "Go."}


@tool(effect="pure")
def double(number: int) -> int:
    """Doubles a number."""
    raise AssertionError("it must not run")


async def events_of(body: list[bytes], **options: Any) -> tuple[list[Event], Turn]:
    async with pipeline(stream(body), **options) as events:
        return [event async for event in events], events.turn


async def test_without_tools_calls_are_reported_and_left() -> None:
    there, turn = await events_of(chat(["Hi"], CALLS))
    assert [event.call.name for event in there if isinstance(event, ToolCallEnd)] == ["double", "other"]
    assert not any(isinstance(event, Observation) for event in there)
    assert turn.observations == ()
    assert [call.arguments for call in turn.calls] == [{"number": 2}, {}]
    assert turn.messages() == [
        {
            "role": "assistant",
            "content": "Hi",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "double", "arguments": '{"number": 2}'}},
                {"id": "c2", "type": "function", "function": {"name": "other", "arguments": "{}"}},
            ],
        }
    ]


async def test_with_start_off_calls_are_validated_and_left() -> None:
    there, turn = await events_of(
        chat(["Hi"], [*CALLS, ("c3", "double", '{"number": "two"}')]), tools=[double], start="off"
    )
    assert [event.call.call_id for event in there if isinstance(event, ToolCallValidated)] == ["c1"]
    assert [call.status for call in turn.calls] == ["ready", "ready", "invalid"]
    assert turn.observations == ()
    assert [event.dispatches for event in there if isinstance(event, StepStart)] == [False]


async def test_results_of_ones_own_go_into_the_history() -> None:
    _, turn = await events_of(chat(["Hi"], [*CALLS, ("c3", "double", '{"number": ')]))
    failed = ToolResult(blocks=["no such thing"], is_error=True)
    history = [ASKED, *turn.messages(results={"c2": failed, "c1": {"doubled": 4}})]
    assert [message["content"] for message in history[2:]] == [
        '{"doubled":4}',
        "no such thing",
        "Error: the call was cut before its end, so it was not run.",
    ]
    assert lint(history, CHAT) == []


async def test_a_result_that_is_missing_is_not_made_up() -> None:
    _, turn = await events_of(chat(["Hi"], CALLS))
    history = [ASKED, *turn.messages(results={"c1": "4"})]
    assert [message["tool_call_id"] for message in history[2:]] == ["c1"]
    assert [found.code for found in lint(history, CHAT, last=True)] == ["unanswered_call"]
    assert lint(with_results(history, {"c2": [1, 2]}, CHAT), CHAT) == []


@every("results", [{"c9": "4"}, {"c1": "4", "nothing": 3}])
def test_a_result_of_no_call_is_refused(results: dict[str, Any]) -> None:
    turn = parse(b"".join(chat(["Hi"], CALLS)))
    with pytest.raises(ValueError, match="is not in this turn"):
        turn.messages(results=results)


async def test_with_start_pure_only_calls_of_pure_tools_are_run() -> None:
    @tool(effect="pure")
    async def look_up(key: str) -> str:
        """Looks a key up."""
        return key.upper()

    @tool(effect="pure", needs_approval=True)
    def peek(key: str) -> str:
        """Looks where one has to ask."""
        raise AssertionError("it must not run")

    @tool
    def send(key: str) -> str:
        """Sends a key."""
        raise AssertionError("it must not run")

    names = ("look_up", "peek", "send", "unknown")
    body = anthropic(["Hi"], [(f"c{at}", name, '{"key": "a"}') for at, name in enumerate(names)])
    there, turn = await events_of(body, tools=[look_up, peek, send], start="pure")
    assert [(seen.tool_name, seen.outcome, seen.value) for seen in turn.observations] == [("look_up", "ok", "A")]
    assert [event.call.name for event in there if isinstance(event, ToolCallEnd)] == list(names)
    assert [event.dispatches for event in there if isinstance(event, StepStart)] == [False]
    results = [part for message in turn.messages()[1:] for part in message["content"]]
    assert [(part["tool_use_id"], part["content"]) for part in results] == [("c0", "A")]
    given = [part for message in turn.messages(results={"c2": "sent"})[1:] for part in message["content"]]
    assert [(part["tool_use_id"], part["content"]) for part in given] == [("c0", "A"), ("c2", "sent")]


async def test_a_call_that_is_left_cannot_be_run_by_hand_and_is_not_suspended() -> None:
    async with pipeline(stream(chat([], CALLS)), tools=[double], start="off") as events:
        await exhaust(events)
        with pytest.raises(LocalProtocolError, match="calls are left to you"):
            await events.run_call("c1")
        assert events.cancel("c1") is False
        assert events.suspended is None
        assert events.resting is False


@every("start", ["off", "pure"])
async def test_a_loop_refuses_to_leave_calls(start: Any) -> None:
    with pytest.raises(ValueError, match="use pipeline in your own loop"):
        agent_loop(lambda *_: stream([]), [], wire=CHAT, start=start)
