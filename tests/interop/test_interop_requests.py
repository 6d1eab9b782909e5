"""A request from its start, where tools go in, to its end, where calls are cleaned."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from interop_cards import (
    APPLY_PATCH,
    ASSISTANT,
    CHAT_CALL,
    CHAT_FUNCTION,
    CLEAN_CALL,
    CORRUPT_CALL,
    MCP,
    function_schema,
)
from profiles import every
from wire_cases import CASES

from streamtools.content import Media, Text, ToolResult
from streamtools.errors import ExportError
from streamtools.interop import (
    MemoryAttachments,
    SanitizedCall,
    ToolInteropRegistry,
    ToolInteropTarget,
    assistant_message,
    build_request_context,
    finalize,
    format_tool_result,
    get_registry_from_context,
    initialize_request,
    initialize_stack,
    ready_messages,
    reference,
    to_native_messages,
)

CHAT = ToolInteropTarget("openai.chat_completions")
MESSAGES = [{"role": "user", "content": "hi"}]


class ChatProvider:
    wire = "openai.chat_completions"
    accepted_tool_schema_formats = (CHAT_FUNCTION,)


def payload(state: dict[str, Any], target: Any = CHAT, context: Any = None) -> dict[str, Any]:
    messages, after = initialize_request(MESSAGES, state, context=context, target=target)
    assert messages is MESSAGES
    found: dict[str, Any] = after["request"]["payload"]
    return found


# -- tools go into the request -----------------------------------------------------------------------------------------


def test_source_schemas_are_converted_when_the_request_is_made() -> None:
    context = build_request_context(provider=ChatProvider())
    state = {"_tools": [APPLY_PATCH, None, "odd"], "request": {"payload": {"model": "gpt-4.1"}, "kept": 1}, "more": 2}
    before = copy.deepcopy(state)
    _, after = initialize_request(MESSAGES, state, context=context, target=CHAT)
    (tool,) = after["request"]["payload"]["tools"]
    assert tool["function"]["parameters"]["required"] == ["input"]
    assert after["request"]["payload"]["model"] == "gpt-4.1"
    assert after["request"]["payload"]["tool_choice"] == "auto"
    assert (after["request"]["kept"], after["more"]) == (1, 2)
    assert state == before


def test_a_history_without_attachments_needs_no_loader() -> None:
    _, after = initialize_request(MESSAGES, {"_tools": [APPLY_PATCH]}, target=CHAT, messages=True)
    assert after["request"]["payload"]["messages"] == ready_messages(MESSAGES) == MESSAGES
    with pytest.raises(ExportError, match=r"attachment 'sha256:0' needs a loader; pass loader=\.\.\."):
        initialize_request([{"role": "user", "content": [reference("sha256:0")]}], {}, target=CHAT, messages=True)
    _, tools_only = initialize_request(MESSAGES, {}, target=CHAT, loader=MemoryAttachments(), messages=False)
    assert tools_only["request"]["payload"] == {}


def test_tools_that_are_there_already_stay() -> None:
    given = {"tools": [{"mine": 1}]}
    assert payload({"_tools": [APPLY_PATCH], "request": {"payload": given}}) == given
    assert payload({"_tools": [APPLY_PATCH], "request": {"payload": {"tools": []}}}) == {"tools": []}


@every("state", [{}, {"_tools": None}, {"_tools": []}, {"_tools": ["odd"]}, {"request": None}])
def test_without_tools_nothing_is_added(state: dict[str, Any]) -> None:
    assert payload(state) == {}


SCHEMA = function_schema(MCP)
WANTED = {wire: cases.request(function_schema(cases.formats[0].name)) for wire, cases in CASES.items()}


@every("wire", WANTED)
def test_each_provider_has_its_tools_where_it_wants_them(wire: str) -> None:
    assert payload({"_tools": [SCHEMA]}, target=wire) == WANTED[wire]


# -- extensions, and the provider where none of them did it ------------------------------------------------------------


class Handles:
    """An extension that puts the tools in itself."""

    def initialize_request(self, messages: Any, state: Any, *, context: Any = None) -> Any:
        return initialize_request(messages, state, context=context, target="openai.responses")


class Marks:
    """An extension, or a provider, that does something else."""

    wire = "openai.chat_completions"

    def initialize_request(self, messages: Any, state: Any, *, context: Any = None) -> Any:
        return [*messages, {"role": "user", "content": "marked"}], {**state, "marked": True}


def test_the_provider_puts_the_tools_in_where_no_extension_did() -> None:
    context = build_request_context(provider=ChatProvider(), extensions=[Marks()])
    messages, state = initialize_stack(
        MESSAGES, {"_tools": [SCHEMA]}, context=context, provider=ChatProvider(), extensions=[Marks(), object()]
    )
    assert state["marked"]
    assert len(messages) == 2
    assert state["request"]["payload"] == WANTED["openai.chat_completions"]


def test_tools_that_nobody_handles_are_not_dropped_silently() -> None:
    with pytest.raises(ExportError, match="no extension added the tools to the request, and object has no attribute"):
        initialize_stack(MESSAGES, {"_tools": [SCHEMA]}, provider=object())
    assert initialize_stack(MESSAGES, {}, provider=object()) == (MESSAGES, {})
    _, state = initialize_stack(MESSAGES, {"_tools": [SCHEMA]}, provider=object(), extensions=[Handles()])
    assert state["request"]["payload"] == WANTED["openai.responses"]


# -- calls are cleaned before they are kept ----------------------------------------------------------------------------


def test_the_calls_of_a_stream_are_cleaned_in_its_state() -> None:
    context = build_request_context()
    given: list[Any] = [copy.deepcopy(CORRUPT_CALL), None, "odd", CHAT_CALL]
    state: dict[str, Any] = {"partial": {"tool_calls": given, "more": 1}}
    final, native, after = finalize(["final"], ["native"], state, context=context)
    assert (final, native) == (["final"], ["native"])
    assert after is state
    clean, untouched = state["partial"]["tool_calls"]
    assert clean == CLEAN_CALL
    assert untouched is CHAT_CALL
    assert not get_registry_from_context(context).inspect_call(clean).dispatchable


def test_a_stream_that_was_cut_leaves_no_call_without_arguments_to_run() -> None:
    started = {"id": "c", "type": "function", "function": {"name": "launch", "arguments": ""}}
    state: dict[str, Any] = {"partial": {"tool_calls": [started]}}
    finalize(None, None, state, complete=False)
    (clean,) = state["partial"]["tool_calls"]
    assert isinstance(clean, SanitizedCall)


def test_a_corrupt_fragment_is_nowhere_in_the_next_request() -> None:
    context = build_request_context(provider=ChatProvider())
    registry = get_registry_from_context(context)
    corrupt = {"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": '{"path":"unfini'}}
    state: dict[str, Any] = {"_tools": [SCHEMA], "partial": {"tool_calls": [corrupt]}}
    finalize(None, None, state, context=context)
    stored = [*MESSAGES, assistant_message("", state["partial"]["tool_calls"])]
    native = to_native_messages(stored, CHAT, registry=registry)
    _, ready = initialize_request(
        native, {"_tools": [SCHEMA]}, context=context, target=CHAT, loader=MemoryAttachments()
    )
    sent = json.dumps(ready["request"]["payload"])
    assert "unfini" not in sent
    assert json.loads(sent)["messages"][1]["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
    ]


# -- messages go into the request --------------------------------------------------------------------------------------


def test_attachments_are_expanded_in_the_payload_only() -> None:
    store = MemoryAttachments()
    picture = Media(kind="image", mime_type="image/png", data="aW1hZ2U=")
    result = format_tool_result(
        ToolResult(blocks=(Text("see"), picture)), tool_name="read_file", tool_call_id="call_123", attachments=store
    )
    native = to_native_messages([*MESSAGES, ASSISTANT, result], "anthropic.messages", registry=ToolInteropRegistry.of())
    same, state = initialize_request(native, {}, target="anthropic.messages", loader=store)
    assert same is native
    assert "aW1hZ2U=" not in json.dumps(native)
    assert "aW1hZ2U=" in json.dumps(state["request"]["payload"]["messages"])
    _, mine = initialize_request(
        native, {"request": {"payload": {"messages": []}}}, target="anthropic.messages", loader=store
    )
    assert mine["request"]["payload"]["messages"] == []
