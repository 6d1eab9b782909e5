"""One name in two namespaces is two tools, from the request to the next one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from decisions import decisions_on
from profiles import every
from responses_streams import CREATED, Payload, added, done, ended, event, function

from streamtools import Limits, Observation, Suspended, Turn, parse, pipeline, resume, tool
from streamtools.content import Media, Namespace, RequestHints, ToolResult
from streamtools.dispatch import MemoryStore
from streamtools.errors import ToolDefinitionError
from streamtools.executors import ProcessExecutor
from streamtools.exports import export_all
from streamtools.history import convert, lint, repair
from streamtools.tools import Toolset

pytestmark = pytest.mark.anyio

KEY = b"a secret of sixteen bytes or more"
RESPONSES, CHAT, ANTHROPIC = "openai.responses", "openai.chat_completions", "anthropic.messages"


@tool(effect="pure", namespace=Namespace("billing", "Bills and refunds."))
def look(at: int) -> str:
    """Look a bill up."""
    return f"bill {at}"


@tool(effect="pure", name="look", namespace="shipping")
def look_for_a_parcel(at: int) -> str:
    """Look a parcel up."""
    return f"parcel {at}"


@tool(effect="pure", name="look")
def look_around(at: int) -> str:
    """Look around."""
    return f"around {at}"


@tool(effect="pure", name="billing.look")
def dotted(at: int) -> str:
    """Have a dot in the name."""
    return f"dotted {at}"


def item(number: int, namespace: str | None, name: str = "look") -> Payload:
    group = {} if namespace is None else {"namespace": namespace}
    return function(number, '{"at": 1}', **group) | {"name": name, "status": "completed"}


def stream(*items: Payload) -> list[Payload]:
    events = [CREATED]
    for place, one in enumerate(items):
        events += [added(place, one | {"arguments": "", "status": "in_progress"}), done(place, one)]
    return [*events, ended(output=items)]


async def each(payloads: Iterable[Payload]) -> AsyncIterator[Payload]:
    for payload in payloads:
        yield payload


async def run(payloads: list[Payload], tools: list[Any], **options: Any) -> tuple[Turn, dict[str, Observation]]:
    async with pipeline(each(payloads), tools=tools, **options) as events:
        seen = [event async for event in events if isinstance(event, Observation)]
    return events.turn, {one.call_id: one for one in seen}


async def test_a_call_runs_the_tool_of_its_namespace() -> None:
    items = [item(1, "billing"), item(2, "shipping"), item(3, None)]
    turn, seen = await run(stream(*items), [look, look_for_a_parcel, look_around])
    assert [seen[f"call_{n}"].model_content for n in (1, 2, 3)] == ["bill 1", "parcel 1", "around 1"]
    named = [(call.name, call.namespace, call.local_name) for call in turn.calls]
    assert named == [("billing.look", "billing", "look"), ("shipping.look", "shipping", "look"), ("look", None, "look")]
    assert [one.tool_name for one in map(seen.get, ("call_1", "call_3")) if one] == ["billing.look", "look"]


@every(
    ("called", "tools"),
    [
        (("billing", "look"), [look_around]),
        (("billing", "look"), [look_for_a_parcel]),
        (("billing", "look"), [dotted]),
        ((None, "look"), [look]),
        (("functions", "look"), [look_around]),
    ],
)
async def test_a_call_never_runs_a_tool_of_another_namespace(called: tuple[str | None, str], tools: list[Any]) -> None:
    _, seen = await run(stream(item(1, *called)), tools)
    assert seen["call_1"].outcome == "unknown_tool"


async def test_a_tool_that_was_found_by_searching_is_in_a_namespace_of_its_own_name() -> None:
    """dust-tt/dust#31323"""
    turn, seen = await run(stream(item(1, "look")), [look_around])
    assert seen["call_1"].model_content == "around 1"
    assert turn.calls[0].namespace is None
    assert turn.messages()[0]["namespace"] == "look", "without it the API refuses the history: vercel/ai#15193"


async def test_a_call_of_an_item_that_was_never_announced_waits_for_its_namespace() -> None:
    named = event("function_call_arguments.done", item_id="fc_1", name="look", arguments='{"at": 1}')
    turn, seen = await run([CREATED, named, done(0, item(1, "billing")), ended()], [look_around, look])
    assert [one.model_content for one in seen.values()] == ["bill 1"]
    assert [one["call_id"] for one in turn.messages()] == ["call_1", "call_1"], "the provider's id, too"


async def test_the_same_call_in_another_namespace_is_no_repetition() -> None:
    limits = Limits(max_repeated_calls=1)
    items = [item(1, "billing"), item(2, "shipping"), item(3, "billing")]
    _, seen = await run(stream(*items), [look, look_for_a_parcel], limits=limits)
    assert {id_: one.outcome for id_, one in seen.items()} == {"call_1": "ok", "call_2": "ok", "call_3": "denied"}


def test_a_request_has_one_entry_for_each_group() -> None:
    other = tool(effect="pure", name="pay", namespace="billing")(look.fn)
    exports = export_all([look, look_around, other, look_for_a_parcel], RESPONSES, strict=True)
    entries = exports.payloads
    assert [(entry["type"], entry["name"]) for entry in entries] == [
        ("namespace", "billing"),
        ("function", "look"),
        ("namespace", "shipping"),
    ]
    assert [one["name"] for one in entries[0]["tools"]] == ["look", "pay"]
    assert entries[0]["description"] == "Bills and refunds."
    assert all(one["strict"] for one in entries[0]["tools"])
    assert look.to(RESPONSES)["tools"][0]["name"] == "look"
    assert exports.payloads == entries, "making the groups changes no tool's own entry"


@every("wire", [CHAT, ANTHROPIC])
async def test_a_provider_without_namespaces_has_a_name_for_each_tool(wire: str) -> None:
    exports = export_all([look, look_for_a_parcel, look_around], wire)
    names = [one.name for one in exports]
    assert len(set(names)) == 3
    assert Toolset(exports)[names[0]] is look
    answer = {
        "role": "assistant",
        "tool_calls": [{"index": 0, "id": "c", "function": {"name": names[1], "arguments": "{}"}}],
    }
    chunk = {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": answer, "finish_reason": "tool_calls"}],
    }
    answer["tool_calls"][0]["function"]["arguments"] = '{"at": 2}'  # type: ignore[index]
    _, seen = await run([chunk], list(exports), wire=CHAT)
    assert seen["c"].model_content == "parcel 2"


def test_gemini_takes_the_whole_name() -> None:
    assert look.to("gemini.generate_content")["name"] == "billing.look"
    part = {"functionCall": {"id": "c", "name": "billing.look", "args": {"at": 1}}}
    body = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}]}
    call = parse([body], tools=[look]).calls[0]
    assert (call.name, call.dispatchable) == ("billing.look", True)
    assert Toolset([look]).called(call) is look


async def test_a_history_keeps_the_namespaces() -> None:
    items = [item(1, "billing"), item(2, "shipping")]
    turn, _ = await run(stream(*items), [look, look_for_a_parcel])
    history = [{"role": "user", "content": "Look."}, *turn.messages()]
    assert [one.get("namespace") for one in history[1:3]] == ["billing", "shipping"]
    assert [one["name"] for one in history[1:3]] == ["look", "look"]
    assert lint(history, RESPONSES) == []
    assert repair(history, RESPONSES) is history
    moved = convert(history, RESPONSES, CHAT).messages
    assert [one["function"]["name"] for one in moved[1]["tool_calls"]] == ["billing_look", "shipping_look"]
    assert convert(history, RESPONSES, RESPONSES).messages == history


async def test_a_toolset_of_anthropics_is_a_namespace() -> None:
    block = {"type": "tool_use", "id": "t1", "name": "look", "input": {}, "toolset_name": "billing"}
    delta = {"type": "input_json_delta", "partial_json": '{"at": 1}'}
    payloads: list[Payload] = [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    ]
    turn, seen = await run(payloads, [look_around, look])
    assert seen["t1"].model_content == "bill 1"
    assert turn.messages()[0]["content"] == [block | {"input": {"at": 1}}]
    assert lint([{"role": "user", "content": "Look."}, *turn.messages()], ANTHROPIC) == []


async def test_a_toolset_that_anthropic_defines_has_one_entry_and_runs_tools_of_ours() -> None:
    hints = RequestHints(entry={"type": "computer_toolset_20260801"})

    @tool(effect="pure", namespace="computer", hints=hints)
    def left_click(coordinate: list[int]) -> str:
        """Click."""
        return f"clicked {coordinate}"

    @tool(effect="pure", namespace="computer", hints=hints)
    def screenshot() -> ToolResult:
        """Take a picture."""
        return ToolResult(blocks=(Media(kind="image", mime_type="image/png", data="AA=="),))

    exports = export_all([left_click, screenshot], ANTHROPIC)
    assert exports.payloads == [{"type": "computer_toolset_20260801"}]
    assert exports.losses == {}
    blocks: list[Payload] = [
        {"type": "tool_use", "id": "t1", "name": "left_click", "input": {}, "toolset_name": "computer"},
        {"type": "tool_use", "id": "t2", "name": "screenshot", "input": {}, "toolset_name": "computer"},
    ]
    payloads: list[Payload] = [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": blocks[0]},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"coordinate": [1, 2]}'},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": blocks[1]},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    ]
    for tools in ([left_click, screenshot], exports):
        turn, seen = await run(payloads, tools)
        assert [one.outcome for one in seen.values()] == ["ok", "ok"]
        said, told = turn.messages()
        assert said["content"] == [blocks[0] | {"input": {"coordinate": [1, 2]}}, blocks[1]]
        clicked, taken = told["content"]
        assert clicked == {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": "clicked [1, 2]",
            "toolset_name": "computer",
        }
        assert (taken["toolset_name"], taken["content"][0]["type"]) == ("computer", "image")
        assert lint([{"role": "user", "content": "Look."}, said, told], ANTHROPIC) == []


async def test_an_approved_call_runs_in_its_namespace_after_a_restart() -> None:
    gated = tool(effect="once", name="look", namespace="billing", needs_approval=True)(look.fn)
    async with pipeline(each(stream(item(1, "billing"))), tools=[gated, look_around]) as events:
        async for _ in events:
            pass
    kept = Suspended.from_text(events.suspended.to_text(KEY), KEY)
    assert kept.calls[0].namespace == "billing"
    for tools, outcome in ([gated, look_around], "ok"), ([look_around, dotted], "unknown_tool"):
        async with resume(
            kept, tools=tools, store=MemoryStore(), decisions=decisions_on(kept, {"call_1": True})
        ) as again:
            seen = [event async for event in again if isinstance(event, Observation)]
        assert [one.outcome for one in seen] == [outcome]


async def test_an_executor_tells_the_tools_apart() -> None:
    with pytest.raises(ValueError, match=r"two tools are called 'billing\.look'"):
        ProcessExecutor([look, dotted])


def test_a_namespace_has_a_plain_name() -> None:
    with pytest.raises(ValueError, match=r"Namespace\('a b'\): a name is 1 to 64 letters"):
        tool(look.fn, namespace="a b")
    with pytest.raises(ToolDefinitionError, match="has the name of its namespace"):
        tool(look.fn, name="look", namespace="look")
    with pytest.raises(ToolDefinitionError, match="namespace: expected a name, or a Namespace"):
        tool(look.fn, namespace=3)  # type: ignore[call-overload]
    with pytest.raises(ToolDefinitionError, match="another tool has this name"):
        Toolset([look, dotted])
