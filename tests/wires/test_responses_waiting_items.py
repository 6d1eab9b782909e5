"""Every item of a response that waits for an answer of ours is a call with an observation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from decisions import decisions_on
from profiles import every
from responses_streams import CREATED, Payload, added, done, ended
from wire_cases.responses import check_items

from streamtools import AgentLoop, ApprovalRequested, Deny, Suspended, Tool, Turn, agent_loop, pipeline, resume, tool
from streamtools.content import Media, RequestHints, ToolResult
from streamtools.dispatch import MemoryStore
from streamtools.history import convert, lint, with_results

pytestmark = pytest.mark.anyio

RESPONSES = "openai.responses"
KEY = b"a secret of sixteen bytes or more"
CHECKS = [{"id": "sc_1", "code": "malicious_instructions", "message": "Take care."}]
COMPUTER: Payload = {
    "type": "computer_call",
    "id": "cu_1",
    "call_id": "call_1",
    "status": "completed",
    "actions": [{"type": "screenshot"}],
    "pending_safety_checks": CHECKS,
}
SEARCH: Payload = {
    "type": "tool_search_call",
    "id": "ts_1",
    "call_id": "call_2",
    "execution": "client",
    "status": "completed",
    "arguments": {"goal": "shipping"},
}
APPROVAL: Payload = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "shop",
    "name": "buy",
    "arguments": '{"what":"a boat"}',
}
FOUND = [{"type": "function", "name": "get_eta", "parameters": {"type": "object", "properties": {}}, "strict": False}]
REFUSALS = {
    "computer_call": "No tool output found for computer call call_1.",
    "tool_search_call": "No tool output found for tool search call call_1.",
}
QUESTION: Payload = {"role": "user", "content": "Go on."}


@tool(effect="pure", hints=RequestHints(entry={"type": "computer"}))
def computer_call(actions: list[dict[str, Any]], pending_safety_checks: list[dict[str, Any]]) -> ToolResult:
    """Work at the computer."""
    shot = Media(kind="image", mime_type="image/png", data="aW1n")
    return ToolResult(blocks=(shot,), native={RESPONSES: {"acknowledged_safety_checks": pending_safety_checks}})


@tool(effect="pure", hints=RequestHints(entry={"type": "tool_search", "execution": "client"}))
def tool_search_call(arguments: dict[str, str]) -> list[dict[str, Any]]:
    """Find tools."""
    return FOUND


def stream(*items: Payload) -> list[Payload]:
    events = [CREATED]
    for place, item in enumerate(items):
        events += [added(place, item | {"status": "in_progress"}), done(place, item)]
    return [*events, ended(output=items)]


async def each(payloads: Iterable[Payload]) -> AsyncIterator[Payload]:
    for payload in payloads:
        yield payload


async def turn_of(*items: Payload, tools: Iterable[Tool[..., Any]] = (), **options: Any) -> Turn:
    return await pipeline(each(stream(*items)), tools=list(tools), **options)


async def loop_of(turns: list[list[Payload]], **options: Any) -> AgentLoop:
    async def ask(*_: Any) -> AsyncIterator[Payload]:
        return each(turns.pop(0))

    async with agent_loop(ask, [QUESTION], wire=RESPONSES, **options) as run:
        async for _ in run:
            pass
    return run


# -- tools that the provider defines and we run --


async def test_a_computers_call_is_answered_with_the_picture_that_the_tool_returned() -> None:
    turn = await turn_of(COMPUTER, tools=[computer_call])
    (call,) = turn.calls
    assert (call.name, call.kind, call.awaits) == ("computer_call", "function", "computer_call_output")
    said, answer = turn.messages()
    assert said == COMPUTER
    assert answer == {
        "type": "computer_call_output",
        "call_id": "call_1",
        "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,aW1n"},
        "acknowledged_safety_checks": CHECKS,
    }
    check_items([answer])
    assert lint([QUESTION, said, answer], RESPONSES) == []


async def test_safety_checks_are_acknowledged_by_nobody_but_the_tool() -> None:
    @tool(effect="pure", name="computer_call")
    def careless(actions: list[dict[str, Any]], pending_safety_checks: list[dict[str, Any]]) -> ToolResult:
        """Work at the computer."""
        return ToolResult(blocks=(Media(kind="image", mime_type="image/png", data="aW1n"),))

    (_, answer) = (await turn_of(COMPUTER, tools=[careless])).messages()
    assert "acknowledged_safety_checks" not in answer


async def test_a_search_of_ours_is_answered_with_the_tools_that_it_found() -> None:
    said, answer = (await turn_of(SEARCH, tools=[tool_search_call])).messages()
    assert answer == {
        "type": "tool_search_output",
        "call_id": "call_2",
        "execution": "client",
        "status": "completed",
        "tools": FOUND,
    }
    check_items([answer])
    assert lint([QUESTION, said, answer], RESPONSES) == []


# -- what nobody answers --


@every("item", [COMPUTER, SEARCH])
async def test_a_call_that_nobody_answers_is_unknown_and_says_what_the_provider_waits_for(item: Payload) -> None:
    turn = await turn_of(item)
    (seen,) = turn.observations
    assert seen.outcome == "unknown_tool"
    answer = "computer_call_output" if item is COMPUTER else "tool_search_output"
    assert f"the provider waits for a {answer}: pass a tool with that name" in str(seen.error)
    assert [call.name for call in turn.unanswered] == [item["type"]]
    assert turn.messages() == [item], "no result is made up"
    (found,) = lint([QUESTION, *turn.messages(), QUESTION], RESPONSES)
    assert (found.code, found.provider_text) == ("unanswered_call", REFUSALS[item["type"]])


async def test_a_run_with_a_call_that_nobody_answers_is_unanswered() -> None:
    run = await loop_of([stream(COMPUTER)], tools=[tool_search_call])
    assert run.outcome == "unanswered"
    run = await loop_of([stream(COMPUTER), stream()], tools=[computer_call])
    assert run.outcome == "answered"
    assert [item["type"] for item in run.messages[1:]] == ["computer_call", "computer_call_output"]


async def test_on_another_wire_such_a_call_has_a_result_in_words() -> None:
    turn = await turn_of(COMPUTER)
    _, result = turn.messages("openai.chat_completions")
    assert result["role"] == "tool"
    assert result["content"].startswith("Error: unknown tool 'computer_call'")
    history = [QUESTION, *(await turn_of(COMPUTER, tools=[computer_call])).messages()]
    moved = convert(history, RESPONSES, "openai.chat_completions")
    assert lint(moved.messages, "openai.chat_completions") == []


# -- approvals of the provider's own calls --


@every(("decision", "approve"), [(True, True), (False, False), (Deny("too dear"), False)])
async def test_a_question_for_approval_goes_where_all_approvals_go(decision: bool | Deny, approve: bool) -> None:
    asked: list[ApprovalRequested] = []

    def decide(request: ApprovalRequested) -> bool | Deny:
        asked.append(request)
        return decision

    turn = await turn_of(APPROVAL, approve=decide)
    assert asked[0].arguments == {"server_label": "shop", "name": "buy", "arguments": '{"what":"a boat"}'}
    said, answer = turn.messages()
    assert said == APPROVAL
    assert (answer["approval_request_id"], answer["approve"]) == ("mcpr_1", approve)
    assert ("too dear" in answer.get("reason", "")) is (decision == Deny("too dear"))
    check_items([answer])
    assert lint([QUESTION, said, answer], RESPONSES) == []


async def test_an_approval_that_nobody_has_decided_is_suspended_and_no_answer_is_made_up() -> None:
    async with pipeline(each(stream(APPROVAL)), tools=[]) as events:
        async for _ in events:
            pass
    assert events.suspended is not None
    history = [QUESTION, *events.turn.messages()]
    assert history == [QUESTION, APPROVAL]
    kept = Suspended.from_text(events.suspended.to_text(KEY), KEY)
    turn = await resume(kept, tools=[], store=MemoryStore(), decisions=decisions_on(kept, {"mcpr_1": True}))
    whole = with_results(history, turn.observations, RESPONSES)
    assert whole[-1] == {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    assert lint(whole, RESPONSES) == []


# -- calls of the provider's programs and agents --


async def test_calls_of_a_program_are_answered_with_their_caller_and_the_rest_goes_back_as_it_came() -> None:
    caller = {"type": "program", "caller_id": "call_p"}
    agent = {"agent_name": "/root"}
    function = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    said: list[Payload] = [
        {"type": "program", "id": "prog_1", "call_id": "call_p", "code": "await f()", "fingerprint": "fp"},
        {**function, "id": "fc_1", "caller": caller},
        {"type": "multi_agent_call", "id": "ma_1", "call_id": "c2", "action": "spawn_agent", "arguments": "{}"}
        | {"agent": agent},
        {"type": "agent_message", "id": "am_1", "author": "/root", "recipient": "/srv/a", "content": []}
        | {"agent": agent},
        {**function, "id": "fc_2", "call_id": "c3", "async": True, "agent": agent},
    ]

    @tool(effect="pure")
    def f() -> str:
        """Say it."""
        return "said"

    turn = await turn_of(*said, tools=[f])
    *back, first, second = turn.messages()
    assert back == said
    assert first == {"type": "function_call_output", "call_id": "c1", "output": "said", "caller": caller}
    assert second == {"type": "function_call_output", "call_id": "c3", "output": "said"}
    check_items([first, second])
    assert turn.unanswered == ()
