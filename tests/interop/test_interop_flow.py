"""The whole way: a freeform tool's source schema, a chat provider, a streamed call, a cleaned history, the tool's run,
the next request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from interop_cards import APPLY_PATCH, APPLY_PATCH_AS_FUNCTION
from streams import chat

from streamtools import Observation, parse, pipeline, tool
from streamtools.content import Grammar
from streamtools.interop import (
    Contribution,
    MemoryAttachments,
    SanitizedCall,
    ToolDescriptor,
    ToolInteropRegistry,
    build_request_context,
    from_turn,
    get_registry_from_context,
    initialize_stack,
    ready_messages,
    to_native_messages,
    tool_calls_of,
)
from streamtools.tools import Tool

READ_FILE = {
    "name": "read_file",
    "description": "Read a file.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


class Patches:
    """A plugin with a freeform tool; it guesses no provider."""

    def __init__(self) -> None:
        self.patched: list[str] = []
        self.read: list[str] = []

    def get_tool_interop_contribution(self) -> Contribution:
        return Contribution(input_descriptions={"apply_patch": "Patch text."})

    def tools(self) -> list[Tool[..., Any]]:
        def apply_patch(text: str) -> str:
            """Apply a textual patch to files in the workspace."""
            self.patched.append(text)
            return "patched"

        def read_file(path: str) -> dict[str, str]:
            """Read a file."""
            self.read.append(path)
            return {"path": path, "content": "# Project title"}

        grammar = Grammar(syntax="lark", definition="start: /.+/")
        return [tool(apply_patch, grammar=grammar), tool(read_file, effect="pure")]


class Chat:
    """A provider that knows functions only."""

    wire = "openai.chat_completions"
    accepted_tool_schema_formats = ("openai.chat_completions.function",)


@pytest.mark.anyio
async def test_a_freeform_tool_goes_through_a_provider_that_has_only_functions() -> None:
    plugin, provider, store = Patches(), Chat(), MemoryAttachments()
    descriptors = [
        ToolDescriptor("patches", "apply_patch", APPLY_PATCH),
        ToolDescriptor("files", "read_file", READ_FILE),
    ]
    context = build_request_context(provider=provider, tools=[plugin], descriptors=descriptors)
    registry = get_registry_from_context(context)
    stored: list[dict[str, Any]] = [{"role": "user", "content": "fix the title"}]

    # the request
    native = to_native_messages(stored, "openai.chat_completions", registry=registry)
    state: dict[str, Any] = {"_tools": [APPLY_PATCH, READ_FILE]}
    _, state = initialize_stack(native, state, context=context, provider=provider)
    assert state["request"]["payload"]["tools"][0] == APPLY_PATCH_AS_FUNCTION

    # the model's answer: one call of each kind of tool, and one that was cut
    body = chat(
        ["Let me see."],
        [
            ("call_1", "read_file", '{"path":"README.md"}'),
            ("call_2", "apply_patch", '{"input":"*** Begin Patch"}'),
            ("call_3", "read_file", '{"path":"unfini'),
        ],
    )
    turn = parse(body, tools=plugin.tools())
    assert [call.status for call in turn.calls] == ["ready", "ready", "truncated"]
    async with pipeline(body, tools=plugin.tools()) as events:
        outcomes = [(event.call_id, event.outcome) async for event in events if isinstance(event, Observation)]
    assert sorted(outcomes) == [("call_1", "ok"), ("call_2", "ok"), ("call_3", "truncated")]
    assert (plugin.patched, plugin.read) == (["*** Begin Patch"], ["README.md"])

    # the store: raw where the tool is, cleaned where the call was cut
    stored += from_turn(events.turn, registry=registry, attachments=store)
    stored = json.loads(json.dumps(stored))
    first, second, third = tool_calls_of(stored[1])
    assert registry.inspect_call(first).payload == {"path": "README.md"}
    assert second == {"id": "call_2", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin Patch"}}
    assert isinstance(third, SanitizedCall)
    assert not registry.inspect_call(third).dispatchable

    # the next request, to the same provider and to another
    native = to_native_messages(
        stored, "openai.chat_completions", registry=registry, target_formats=Chat.accepted_tool_schema_formats
    )
    sent = ready_messages(native, store, target="openai.chat_completions")
    assert "unfini" not in json.dumps(sent)
    assert sent[1]["tool_calls"][1]["function"] == {"name": "apply_patch", "arguments": '{"input":"*** Begin Patch"}'}
    assert sent[1]["tool_calls"][2]["function"]["arguments"] == "{}"
    assert [message["tool_call_id"] for message in sent[2:]] == ["call_1", "call_2", "call_3"]
    assert sent == [stored[0], *events.turn.messages()]
    elsewhere = to_native_messages(stored, "openai.responses", registry=registry)
    assert elsewhere[3] == {
        "type": "custom_tool_call",
        "call_id": "call_2",
        "name": "apply_patch",
        "input": "*** Begin Patch",
    }


RESPONSES = [
    {"type": "response.created", "response": {"id": "resp_1", "model": "m", "status": "in_progress", "output": []}},
    *(
        event
        for index, item in enumerate(
            [
                {
                    "type": "function_call",
                    "id": "fc_1",
                    "call_id": "call_1",
                    "name": "read_file",
                    "arguments": '{"path":"a"}',
                },
                {
                    "type": "custom_tool_call",
                    "id": "ctc_1",
                    "call_id": "call_2",
                    "name": "apply_patch",
                    "input": "*** patch",
                },
            ]
        )
        for event in (
            {"type": "response.output_item.added", "output_index": index, "item": item},
            {"type": "response.output_item.done", "output_index": index, "item": {**item, "status": "completed"}},
        )
    ),
    {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "usage": None}},
]


@pytest.mark.anyio
async def test_tools_of_objects_and_of_raw_text_run_in_one_pipeline() -> None:
    plugin = Patches()
    async with pipeline(RESPONSES, tools=plugin.tools()) as events:
        outcomes = [event.outcome async for event in events if isinstance(event, Observation)]
    assert outcomes == ["ok", "ok"]
    assert (plugin.patched, plugin.read) == (["*** patch"], ["a"])
    registry = ToolInteropRegistry.of()
    answer, *_ = from_turn(events.turn)
    by_name = {tool.name: tool for tool in plugin.tools()}
    for call in answer["metadata"]["tool_calls"]:
        inspected = registry.inspect_call(call)
        arguments = inspected.arguments
        assert arguments is not None
        assert by_name[inspected.tool_name].validate(arguments).validated


@pytest.mark.anyio
async def test_a_call_that_was_cleaned_runs_nothing_and_its_text_stays_on_the_turn() -> None:
    plugin = Patches()
    body = chat([], [("call_1", "read_file", '{"path":')])
    async with pipeline(body, tools=plugin.tools()) as events:
        async for _ in events:
            pass
    assert plugin.read == []
    (call,) = events.turn.calls
    assert call.arguments_text == '{"path":'
    answer, result = from_turn(events.turn)
    assert answer["metadata"]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert result["toolResult"]["is_error"] is True
