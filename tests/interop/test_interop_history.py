"""A stored history and each provider's own, rebuilt from one another; and a turn on its way into the store."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop_cards import ASSISTANT, CHAT_CALL, CHAT_RESULT, ENVELOPE, RESPONSES_CALL, RESPONSES_RESULT, RESULT
from profiles import examples
from streams import anthropic, chat, chat_chunk
from wire_cases import CASES

from streamtools import parse, pipeline, tool
from streamtools.content import Media, Text, ToolResult
from streamtools.errors import ExportError, ToolError
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


# -- the examples of the specification ---------------------------------------------------------------------------------


def test_an_answer_is_stored_with_its_calls() -> None:
    assert assistant_message("", [CHAT_CALL]) == ASSISTANT
    (stored,) = from_native_messages([RESPONSES_CALL], "openai.responses", registry=registry())
    assert stored == ASSISTANT


def test_the_example_goes_to_a_chat_provider_and_back() -> None:
    native = to_native_messages([ASSISTANT, RESULT], "openai.chat_completions", registry=registry())
    assert native == [{"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}, CHAT_RESULT]
    assert from_native_messages(native, "openai.chat_completions", registry=registry()) == [ASSISTANT, RESULT]


def test_the_example_goes_to_a_responses_provider_and_back() -> None:
    native = to_native_messages([ASSISTANT, RESULT], "openai.responses", registry=registry())
    assert native == [RESPONSES_CALL, RESPONSES_RESULT]
    assert from_native_messages(native, "openai.responses", registry=registry()) == [ASSISTANT, RESULT]


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


@pytest.mark.parametrize("first", WIRES)
@pytest.mark.parametrize("second", WIRES)
def test_a_history_moves_from_one_provider_to_another(first: str, second: str) -> None:
    stored = [
        {"role": "user", "content": "patch it"},
        assistant_message(
            "I will.", [function("call00001", "read_file", {"path": "a"}), raw("call00002", "*** patch")]
        ),
        format_tool_result("text", tool_name="read_file", tool_call_id="call00001"),
        format_tool_result("done", tool_name="apply_patch", tool_call_id="call00002"),
        assistant_message("Done."),
    ]
    own = registry()
    native = to_native_messages(stored, first, registry=own)
    moved = to_native_messages(from_native_messages(native, first, registry=own), second, registry=own)
    for wire in (first, second):
        stored = as_far_as_it_can_say(wire, stored)
    assert from_native_messages(moved, second, registry=own) == stored


def test_raw_calls_become_functions_where_the_request_has_only_these() -> None:
    stored = [assistant_message("", [raw("call_1", "*** patch")])]
    formats = ["openai.chat_completions.function"]
    (answer,) = to_native_messages(stored, "openai.chat_completions", registry=registry(), target_formats=formats)
    assert answer["tool_calls"] == [function("call_1", "apply_patch", {"input": "*** patch"})]
    assert from_native_messages([answer], "openai.chat_completions", registry=registry()) == stored


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


def test_ids_that_a_provider_refuses_are_replaced_alike_in_call_and_result() -> None:
    native = to_native_messages([ASSISTANT, RESULT], "mistral.chat", registry=registry())
    call_id = native[0]["tool_calls"][0]["id"]
    assert len(call_id) == 9
    assert native[1]["tool_call_id"] == call_id
    assert native[1]["_metadata"] == {"tool_name": "read_file"}


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


@pytest.mark.parametrize(
    "message", [{}, {"role": "user"}, {"role": "user", "content": ""}, {"role": "other", "content": "x"}]
)
def test_a_message_that_says_nothing_is_left_out(message: dict[str, Any]) -> None:
    for wire in WIRES:
        assert to_native_messages([message], wire, registry=registry()) == []


@pytest.mark.parametrize(
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


def test_results_with_images_are_references_in_both_histories() -> None:
    store = MemoryAttachments()
    picture = Media(kind="image", mime_type="image/png", data=ENCODED)
    stored = [
        assistant_message("", [CHAT_CALL]),
        format_tool_result(
            ToolResult(blocks=(Text("see"), picture)), tool_name="read_file", tool_call_id="call_123", attachments=store
        ),
    ]
    for wire in ("anthropic.messages", "bedrock.converse_stream", "openai.responses"):
        native = to_native_messages(stored, wire, registry=registry())
        assert ENCODED not in json.dumps(native)
        assert from_native_messages(native, wire, registry=registry()) == stored


# -- what is for one provider only -------------------------------------------------------------------------------------


def test_an_envelope_goes_into_its_own_history_only() -> None:
    stored = [ASSISTANT, format_tool_result(ENVELOPE, tool_name="read_file", tool_call_id="call_123")]
    for wire in WIRES:
        said = json.dumps(to_native_messages(stored, wire, registry=registry()))
        assert ("data:image/png;base64" in said) is (wire == "openai.chat_completions")


# -- odd histories -----------------------------------------------------------------------------------------------------


def test_a_result_without_its_call_is_kept_for_repair_to_mend() -> None:
    for wire in WIRES:
        alone = to_native_messages([RESULT], wire, registry=registry())
        later = to_native_messages([{"role": "user", "content": "x"}, RESULT], wire, registry=registry())
        assert later[1:] == alone != []
        assert {violation.code for violation in lint(ready_messages(alone), wire)} & {"orphan_result", "first_not_user"}
        other = to_native_messages(
            [assistant_message("", [{**CHAT_CALL, "id": "call_other"}]), RESULT], wire, registry=registry()
        )
        assert other[1:] == alone or wire == "openai.responses"


def test_ids_that_stand_twice_are_refused() -> None:
    twice = assistant_message("", [CHAT_CALL, CHAT_CALL])
    with pytest.raises(ExportError, match="two calls of one answer have the same id"):
        to_native_messages([twice], "openai.responses", registry=registry())
    with pytest.raises(ExportError, match="two results are for one call"):
        to_native_messages([ASSISTANT, RESULT, RESULT], "openai.responses", registry=registry())


def test_a_wire_that_is_none_is_refused() -> None:
    for translate in (to_native_messages, from_native_messages):
        with pytest.raises(ExportError, match="no wire is called 'acme'"):
            translate([], "acme", registry=registry())


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
        {"role": "user", "parts": [response("b", "1"), response("a", "2"), response("c", "3"), response("d", "4")]},
    ]
    answer, *results = from_native_messages(native, "gemini.generate_content", registry=registry())
    first, second, third = (call["id"] for call in answer["metadata"]["tool_calls"])
    paired = [(result["content"], result["metadata"]["tool_call_id"]) for result in results]
    assert paired == [("1", second), ("2", first), ("3", third), ("4", "")]
    again = to_native_messages([answer, *results[:3]], "gemini.generate_content", registry=registry())
    assert [p["functionCall"]["name"] for p in again[0]["parts"]] == ["a", "b", "a"]


def test_a_refusal_stays_one() -> None:
    native = [{"role": "assistant", "content": None, "refusal": "I will not."}]
    stored = from_native_messages(native, "openai.chat_completions", registry=registry())
    assert stored == [{"role": "assistant", "content": "", "metadata": {"refusal": "I will not."}}]
    (again,) = to_native_messages(stored, "openai.chat_completions", registry=registry())
    assert again["refusal"] == "I will not."
    body = [chat_chunk({"refusal": "I will not."}), chat_chunk({}, "stop")]
    assert from_turn(parse(body)) == stored


def test_what_says_nothing_on_its_own_wire_is_left_out() -> None:
    thinking = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}
    empty = {"role": "user", "content": []}
    assert from_native_messages([thinking, empty, {"role": "odd"}], "anthropic.messages", registry=registry()) == []


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
    async with pipeline(
        chat([], [("call_1", "look", '{"at":"me"}'), ("call_2", "look", '{"at":"nothing"}')]), tools=[look]
    ) as events:
        async for _ in events:
            pass
    _, first, second = from_turn(events.turn, attachments=store)
    assert ENCODED not in json.dumps(first)
    assert first["metadata"]["display"] == {"shown": "me"}
    assert [block["type"] for block in first["toolResult"]["blocks"]] == ["text", "media"]
    assert second["toolResult"] == {"type": "tool_result", "text": "Error: there is nothing", "is_error": True}


def test_a_raw_call_that_was_cut_is_stored_empty() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "apply_patch", "input": ""}
    cut: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "resp_1", "model": "m", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": "*** Beg"},
    ]
    answer, _ = from_turn(parse(cut))
    (call,) = answer["metadata"]["tool_calls"]
    assert call == raw("call_1", "")
    assert isinstance(call, SanitizedCall)
    assert call.raw == "*** Beg"


def test_a_history_of_nothing_is_nothing() -> None:
    for wire in WIRES:
        assert to_native_messages([], wire, registry=registry()) == []
        assert from_native_messages([], wire, registry=registry()) == []


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
