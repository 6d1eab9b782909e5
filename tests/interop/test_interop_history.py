"""A stored history and each provider's own, rebuilt from one another; and a turn on its way into the store."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop_cards import CHAT_CALL, RESPONSES_CALL, RESULT
from profiles import every, examples
from streams import anthropic, chat
from wire_cases import CASES

from streamtools import parse, pipeline, tool
from streamtools.content import Media, Text, ToolResult
from streamtools.errors import ToolError
from streamtools.history import lint
from streamtools.interop import (
    MemoryAttachments,
    SanitizedCall,
    ToolDescriptor,
    ToolInteropRegistry,
    assistant_message,
    format_tool_result,
    from_native_messages,
    from_turn,
    ready_messages,
    system_text,
    to_native_messages,
    tool_calls_of,
)
from streamtools.wires import WIRES

PATCH = ToolDescriptor("patches", "apply_patch", {"type": "custom", "name": "apply_patch"})
ENCODED = base64.b64encode(b"\x89PNG the image").decode()


def registry() -> ToolInteropRegistry:
    return ToolInteropRegistry.of(descriptors=[PATCH])


def raw(call_id: str, text: str) -> dict[str, Any]:
    return {"id": call_id, "type": "custom", "custom": {"name": "apply_patch", "input": text}}


def function(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    text = json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


# -- there and back, for every wire ------------------------------------------------------------------------------------

WORDS = st.text("abc äß{}\"'\\\n", min_size=1, max_size=12).filter(lambda text: text.strip() == text != "")
NAMES = st.sampled_from(["read_file", "find", "ping"])
VALUES = st.dictionaries(st.text("abc_", min_size=1, max_size=4), st.integers(-9, 9) | WORDS | st.none(), max_size=3)


@st.composite
def turns(draw: st.DrawFn, number: int) -> list[dict[str, Any]]:
    """What the user says, what the model answers, and what its calls come to."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": draw(WORDS)}]
    kinds = draw(st.lists(st.booleans(), max_size=3))
    # nine letters and digits: an id that every provider takes
    calls = [
        raw(f"call{number:03}{place:02}", draw(WORDS))
        if is_raw
        else function(f"call{number:03}{place:02}", draw(NAMES), draw(VALUES))
        for place, is_raw in enumerate(kinds)
    ]
    messages.append(assistant_message(draw(WORDS) if not calls else draw(st.just("") | WORDS), calls))
    for call in calls:
        messages.append(
            format_tool_result(
                draw(WORDS), tool_name=call[call["type"]]["name"], tool_call_id=call["id"], is_error=draw(st.booleans())
            )
        )
    return messages


HISTORIES = (
    st.integers(1, 3)
    .flatmap(lambda count: st.tuples(*(turns(number) for number in range(count))))
    .map(lambda pieces: [message for piece in pieces for message in piece] + [{"role": "user", "content": "and now?"}])
)


def as_far_as_it_can_say(wire: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages without what a wire has no place for: failures of tools, the text beside calls."""
    for message in messages:
        if not CASES[wire].says_failures:
            message.get("toolResult", {}).pop("is_error", None)
        if not CASES[wire].text_beside_calls and message.get("metadata", {}).get("tool_calls"):
            message["content"] = ""
    return messages


@pytest.mark.parametrize("wire", WIRES)
@settings(derandomize=True, deadline=None, max_examples=examples(30))
@given(HISTORIES, WORDS)
def test_a_stored_history_is_rebuilt_from_each_native_one(
    wire: str, messages: list[dict[str, Any]], system: str
) -> None:
    if CASES[wire].native.system is not None:
        messages = [{"role": "system", "content": system}, *messages]
    messages = as_far_as_it_can_say(wire, messages)
    before = copy.deepcopy(messages)
    native = to_native_messages(messages, wire, registry=registry())
    assert messages == before
    assert from_native_messages(native, wire, registry=registry()) == messages
    again = to_native_messages(from_native_messages(native, wire, registry=registry()), wire, registry=registry())
    assert again == native
    bare = ready_messages(native)
    assert "_metadata" not in json.dumps(bare)
    assert lint(ready_messages(native, target=wire), wire) == []


def test_a_history_tells_a_provider_the_names_that_it_was_told() -> None:
    own = registry()
    schema = {"name": "files.read", "inputSchema": {"type": "object", "properties": {}}}
    (converted,) = own.convert_schemas([schema], target="anthropic.messages")
    stored = [
        assistant_message("", [function("toolu_1", "files.read", {})]),
        format_tool_result("x", tool_name="files.read", tool_call_id="toolu_1"),
    ]
    native = to_native_messages(stored, "anthropic.messages", registry=own)
    assert native[0]["content"][0]["name"] == converted["name"] != "files.read"
    assert from_native_messages(native, "anthropic.messages", registry=own) == stored


# -- prompts -----------------------------------------------------------------------------------------------------------


def test_system_prompts_go_where_the_wire_has_them() -> None:
    stored: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "content": "hi"},
    ]
    assert system_text(stored) == "Be brief.\n\nBe kind."
    for wire in WIRES:
        said = json.dumps(to_native_messages(stored, wire, registry=registry()))
        assert ("Be brief." in said) is (CASES[wire].native.system is not None)


@every(
    "wire",
    [
        "openai.chat_completions",
        "openai.responses",
        "anthropic.messages",
        "gemini.generate_content",
        "bedrock.converse_stream",
    ],
)
def test_an_image_of_the_users_is_a_reference_in_both_histories(wire: str) -> None:
    store = MemoryAttachments()
    picture = Media(kind="image", mime_type="image/png", data=ENCODED)
    blocks = format_tool_result(
        ToolResult(blocks=(Text("what is this?"), picture)), tool_name="", tool_call_id="", attachments=store
    )["toolResult"]["blocks"]
    stored = [{"role": "user", "content": blocks}]
    native = to_native_messages(stored, wire, registry=registry())
    assert ENCODED not in json.dumps(native)
    sent = ready_messages(native, store)
    assert ENCODED in json.dumps(sent, default=lambda data: base64.b64encode(data).decode())
    assert from_native_messages(native, wire, registry=registry()) == stored
    assert from_native_messages(sent, wire, registry=registry(), attachments=store) == stored
    (message,) = from_native_messages(sent, wire, registry=registry())
    assert "[image: image/png] [left out: there is no store for attachments]" in json.dumps(message)


# -- odd histories -----------------------------------------------------------------------------------------------------


def test_a_result_without_its_call_is_left_out() -> None:
    for wire in WIRES:
        other = [assistant_message("", [{**CHAT_CALL, "id": "call_other"}])]
        native = to_native_messages([*other, RESULT], wire, registry=registry())
        assert native == to_native_messages(other, wire, registry=registry()) != []


def test_corrupt_calls_are_written_without_arguments() -> None:
    stored = [
        assistant_message("", [function("call_1", "read_file", {}) | {"function": {"name": "f", "arguments": '{"a'}}])
    ]
    for wire in WIRES:
        assert '{\\"a' not in json.dumps(to_native_messages(stored, wire, registry=registry()))
    item = {**RESPONSES_CALL, "arguments": '{"a'}
    (back,) = from_native_messages([item], "openai.responses", registry=registry())
    assert isinstance(back["metadata"]["tool_calls"][0], SanitizedCall)
    assert back["metadata"]["sanitized"] == {"call_123": "incomplete_json"}


def test_calls_without_ids_are_paired_by_name_and_order() -> None:
    def part(name: str) -> dict[str, Any]:
        return {"functionCall": {"name": name, "args": {}}}

    def response(name: str, text: str) -> dict[str, Any]:
        return {"functionResponse": {"name": name, "response": {"output": text}}}

    native = [
        {"role": "model", "parts": [part("a"), part("b"), part("a")]},
        {"role": "user", "parts": [response("b", "1"), response("a", "2"), response("c", "3"), response("a", "4")]},
    ]
    answer, *results = from_native_messages(native, "gemini.generate_content", registry=registry())
    first, second, third = (call["id"] for call in answer["metadata"]["tool_calls"])
    paired = [(result["content"], result["metadata"]["tool_call_id"]) for result in results]
    assert paired == [("2", first), ("1", second), ("4", third)]
    again = to_native_messages([answer, *results], "gemini.generate_content", registry=registry())
    assert [p["functionCall"]["name"] for p in again[0]["parts"]] == ["a", "b", "a"]


# -- a turn is stored --------------------------------------------------------------------------------------------------


def test_a_turn_is_stored_with_one_result_for_each_call() -> None:
    body = chat(["Let me see."], [("call_1", "read_file", '{"path":"a"}'), ("call_2", "ping", "")])
    stored = from_turn(parse(body))
    assert stored == [
        assistant_message(
            "Let me see.", [function("call_1", "read_file", {"path": "a"}), function("call_2", "ping", {})]
        ),
        format_tool_result(
            "Error: the call was not run (interrupted).", tool_name="read_file", tool_call_id="call_1", is_error=True
        ),
        format_tool_result(
            "Error: the call was not run (interrupted).", tool_name="ping", tool_call_id="call_2", is_error=True
        ),
    ]
    assert from_turn(parse(chat([], []))) == []


@pytest.mark.anyio
async def test_what_a_tool_returned_is_stored_with_its_images_apart() -> None:
    @tool(effect="pure")
    def look(at: str) -> ToolResult:
        """Look at something."""
        if at == "nothing":
            raise ToolError("there is nothing")
        picture = Media(kind="image", mime_type="image/png", data=ENCODED)
        return ToolResult(blocks=(Text("see"), picture), display={"shown": at})

    store = MemoryAttachments()
    turn = await pipeline(
        chat([], [("call_1", "look", '{"at":"me"}'), ("call_2", "look", '{"at":"nothing"}')]), tools=[look]
    )
    _, first, second = from_turn(turn, attachments=store)
    assert ENCODED not in json.dumps(first)
    assert first["metadata"]["display"] == {"shown": "me"}
    assert [block["type"] for block in first["toolResult"]["blocks"]] == ["text", "media"]
    assert second["toolResult"] == {"type": "tool_result", "text": "Error: there is nothing", "is_error": True}


def test_a_cut_call_is_stored_without_its_text_and_never_runs() -> None:
    stored = from_turn(
        parse(chat([], [("call_1", "read_file", '{"path":"secr')], finish="length")), registry=registry()
    )
    assert "secr" not in json.dumps(stored)
    call = tool_calls_of(json.loads(json.dumps(stored[0])))[0]
    assert not registry().inspect_call(call).dispatchable
    (kept,) = stored[0]["metadata"]["tool_calls"]
    assert kept.raw == '{"path":"secr'


def test_a_turn_is_stored_under_the_names_of_the_tools_authors() -> None:
    own = registry()
    schema = {"name": "files.read", "inputSchema": {"type": "object", "properties": {"a b": {"type": "integer"}}}}
    (converted,) = own.convert_schemas([schema], target="anthropic.messages")
    (key,) = converted["input_schema"]["properties"]
    body = anthropic(
        [], [("toolu_1", converted["name"], json.dumps({key: 1})), ("toolu_2", "apply_patch", '{"input":"x"}')]
    )
    answer, first, second = from_turn(parse(body), registry=own)
    assert answer["metadata"]["tool_calls"] == [function("toolu_1", "files.read", {"a b": 1}), raw("toolu_2", "x")]
    assert first["metadata"]["tool_name"] == "files.read"
    assert second["metadata"]["tool_name"] == "apply_patch"
