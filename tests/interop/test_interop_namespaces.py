"""Groups of tools and their calls, read from the Responses API and written for every provider."""

from __future__ import annotations

from typing import Any

import pytest
from profiles import every

from streamtools import parse
from streamtools.errors import ExportError
from streamtools.interop import ToolInteropRegistry, assistant_message, from_native_messages, to_native_messages

RESPONSES = "openai.responses"
OTHERS = ["openai.chat_completions", "openai.realtime", "anthropic.messages", "gemini.generate_content", "mcp"]


def function(name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return {"type": "function", "name": name, "description": "Tell it.", "parameters": parameters}


PATCH = {"type": "custom", "name": "patch", "description": "Change it."}
BILLING = {"type": "namespace", "name": "billing", "description": "Bills.", "tools": [function("get_eta"), PATCH]}
SHIPPING = {"type": "namespace", "name": "shipping", "description": "Ships.", "tools": [function("get_eta")]}
TOOLS = [BILLING, SHIPPING, function("get_eta")]
CALL = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "get_eta",
    "namespace": "billing",
    "arguments": '{"city":"Bern"}',
}
RAW = {"type": "custom_tool_call", "call_id": "call_2", "name": "patch", "namespace": "billing", "input": "+1"}


def registry() -> ToolInteropRegistry:
    return ToolInteropRegistry(descriptors=ToolInteropRegistry().describe("shop", TOOLS))


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [entry.get("name") or entry[entry["type"]]["name"] for entry in entries]


def test_a_group_goes_to_its_own_provider_as_it_came() -> None:
    assert registry().convert_schemas(TOOLS, target=RESPONSES) == TOOLS


@every("wire", OTHERS)
def test_elsewhere_each_tool_of_a_group_stands_alone_under_a_name_that_the_provider_takes(wire: str) -> None:
    told = registry()
    entries = told.convert_schemas(TOOLS, target=wire)
    own = ["billing.get_eta", "billing.patch", "shipping.get_eta", "get_eta"]
    assert names(entries) == [told.name_on(name, wire) for name in own]
    assert len(set(names(entries))) == 4
    assert wire in ("mcp", "gemini.generate_content") or not any("." in name for name in names(entries))


@every("wire", [wire for wire in OTHERS if wire != "openai.realtime"])
def test_calls_of_a_group_go_to_another_provider_and_find_the_way_back(wire: str) -> None:
    told = registry()
    told.convert_schemas(TOOLS, target=wire)
    given = [{**call, "call_id": f"c{at}"} for at, call in enumerate((CALL, RAW))]
    there = told.convert_tool_calls(given, target=wire)
    assert [told.inspect_call(call).tool_name for call in there] == ["billing.get_eta", "billing.patch"]
    assert [told.inspect_call(call).payload for call in there] == [{"city": "Bern"}, "+1"]
    assert all("namespace" not in call for call in there)
    back = told.convert_tool_calls(there, target=RESPONSES, id_seed="r")
    assert [{**call, "call_id": None} for call in back] == [{**call, "call_id": None} for call in given]


def test_a_call_of_realtime_finds_the_way_back_when_its_wire_is_named() -> None:
    told = registry()
    told.convert_schemas(TOOLS, target="openai.realtime")
    (there,) = told.convert_tool_calls([CALL], target="openai.realtime")
    assert "namespace" not in there
    stored = told.stored_tool_call(there, wire="openai.realtime")
    assert told.convert_tool_calls([stored], target=RESPONSES) == [CALL]


@every("call", [CALL, RAW])
def test_a_stored_call_goes_back_with_its_namespace(call: dict[str, Any]) -> None:
    told = registry()
    stored = told.stored_tool_call(call)
    assert stored[stored["type"]]["name"] in ("billing.get_eta", "billing.patch")
    history = [{"role": "user", "content": "Go."}, assistant_message("", [stored])]
    native = to_native_messages(history, RESPONSES, registry=told)
    assert native[1] == call
    assert from_native_messages(native, RESPONSES, registry=told) == history


def test_a_group_of_several_tools_has_no_one_meaning() -> None:
    with pytest.raises(ExportError, match=r"one tool, got 2; .*describe"):
        registry().inspect_schema(BILLING)


def test_a_turn_of_the_responses_api_is_told_to_realtime_under_whole_names() -> None:
    done = {"type": "response.output_item.done", "output_index": 0, "item": CALL}
    created = {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}
    ended = {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [CALL]}}
    turn = parse([created, done, ended])
    (call, _) = turn.messages("openai.realtime")
    assert (call["name"], "namespace" in call) == ("billing_get_eta", False)
    assert turn.messages()[0] == CALL
