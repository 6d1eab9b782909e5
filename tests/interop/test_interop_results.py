"""Results: how they are stored, what they mean, and what each provider gets of them; attachments on the way."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from interop_cards import CHAT_RESULT, ENVELOPE, RESPONSES_RESULT, RESULT, RESULT_TEXT
from wire_cases import CASES

from streamtools.content import Media, Opaque, Text, ToolResult
from streamtools.errors import ExportError
from streamtools.interop import (
    TARGET_FORMATS,
    Attachment,
    Contribution,
    MemoryAttachments,
    ToolDescriptor,
    ToolInteropRegistry,
    ToolResultAdapter,
    compact_attachments,
    expand_attachments,
    format_tool_result,
    ready_messages,
    reference,
)

VALUE = {"path": "README.md", "content": "# Project title"}
PNG = b"\x89PNG the image"
ENCODED = base64.b64encode(PNG).decode()
IMAGE = Media(kind="image", mime_type="image/png", data=ENCODED)


def registry() -> ToolInteropRegistry:
    return ToolInteropRegistry.of()


def formatted(value: Any, **more: Any) -> dict[str, Any]:
    return format_tool_result(value, tool_name="read_file", tool_call_id="call_123", **more)


# -- the examples of the specification ---------------------------------------------------------------------------------


def test_a_value_is_stored_as_its_json() -> None:
    assert formatted(VALUE) == RESULT


def test_a_chat_provider_gets_a_tool_message() -> None:
    assert registry().convert_results([RESULT], target="openai.chat_completions") == [CHAT_RESULT]


def test_a_responses_provider_gets_an_output_item() -> None:
    assert registry().convert_results([RESULT], target="openai.responses") == [RESPONSES_RESULT]


# -- what is stored ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        ([1, "x"], '[1,"x"]'),
        (None, "null"),
        ({"type": "text", "text": "an ordinary dict"}, '{"type":"text","text":"an ordinary dict"}'),
        (ToolResult(value={"a": 1}), '{"a":1}'),
        (ToolResult(blocks=(Text("one"), Text("two"), Opaque({"type": "odd"}))), "one\ntwo"),
    ],
)
def test_the_stored_text(value: Any, text: str) -> None:
    stored = formatted(value)
    assert (stored["content"], stored["toolResult"]) == (text, {"type": "tool_result", "text": text})


def test_a_failure_is_stored_as_one() -> None:
    for stored in (
        formatted("no such file", is_error=True),
        formatted(ToolResult(blocks=(Text("no"),), is_error=True)),
    ):
        assert stored["toolResult"]["is_error"] is True
        assert registry().inspect_result(stored).is_error


def test_what_a_person_is_shown_is_never_sent() -> None:
    for stored in (
        formatted("the text", display={"chart": "for eyes only"}),
        formatted(ToolResult(blocks=(Text("the text"),), display={"chart": "for eyes only"})),
    ):
        assert stored["metadata"]["display"] == {"chart": "for eyes only"}
        for wire in TARGET_FORMATS:
            sent = registry().convert_results([stored], target=wire)
            assert "eyes only" not in json.dumps(sent)
            assert "the text" in json.dumps(sent)


# -- what a provider alone understands ---------------------------------------------------------------------------------

PLACEHOLDER = '<image path="/tmp/image.png">\n[image_url]\n</image>'


def test_an_envelope_stays_a_structure_for_its_own_provider_only() -> None:
    stored = formatted(copy.deepcopy(ENVELOPE))
    assert (stored["toolResult"], stored["content"]) == (ENVELOPE, PLACEHOLDER)
    (own,) = registry().convert_results([stored], target="openai.chat_completions")
    assert own["content"] == ENVELOPE["content"]
    for wire in TARGET_FORMATS:
        if wire != "openai.chat_completions":
            said = json.dumps(registry().convert_results([stored], target=wire))
            assert "[image_url]" in said
            assert "base64" not in said


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a text", "a text"),
        ([], "[a result that only acme can read]"),
        ([{"inlineData": {"mimeType": "image/png"}}, 7], "[inlineData]\n[block]"),
        ({"json": 1}, "[json]"),
        ([{}], "[block]"),
    ],
)
def test_the_placeholder_of_an_envelope(content: Any, text: str) -> None:
    assert formatted({"type": "provider_native_tool_result", "format": "acme", "content": content})["content"] == text


def test_a_tools_native_content_is_an_envelope() -> None:
    content = [{"type": "text", "text": "x"}]
    stored = formatted(ToolResult(native={"anthropic.messages": content}))
    assert stored["toolResult"] == {
        "type": "provider_native_tool_result",
        "format": "anthropic.messages",
        "content": content,
    }
    (block,) = registry().convert_results([stored], target="anthropic.messages")
    assert block["content"] == content


def test_native_content_beside_blocks_goes_to_its_wire_and_the_blocks_to_others() -> None:
    native = {"anthropic.messages": [{"type": "search_result", "source": "s", "title": "t", "content": []}]}
    stored = formatted(ToolResult(blocks=(Text("found"),), native=native))
    assert stored["toolResult"] == {"type": "tool_result", "text": "found", "native": native}
    (own,) = registry().convert_results([stored], target="anthropic.messages")
    assert own["content"] == native["anthropic.messages"]
    assert registry().convert_results([stored], target="openai.responses")[0]["output"] == "found"
    bare = {**stored, "toolResult": {**stored["toolResult"], "native": "odd"}}
    assert registry().convert_results([bare], target="anthropic.messages")[0]["content"] == "found"


def test_an_adapter_writes_the_content_and_the_wire_its_place() -> None:
    def shout(result: Any) -> Any:
        return None if result.is_error else [{"type": "text", "text": result.text.upper()}]

    own = ToolInteropRegistry.of(
        tools=[Contribution(result_adapters=(ToolResultAdapter("anthropic.messages", shout),))]
    )
    (block,) = own.convert_results([formatted("quiet")], target="anthropic.messages")
    assert block == {
        "type": "tool_result",
        "tool_use_id": "call_123",
        "content": [{"type": "text", "text": "QUIET"}],
    }
    (failed,) = own.convert_results([formatted("quiet", is_error=True)], target="anthropic.messages")
    assert failed["content"] == "quiet"
    assert own.convert_results([formatted("quiet")], target="openai.responses")[0]["output"] == "quiet"
    assert own.result_content(own.inspect_result(formatted("x")), "mcp") is None


def test_an_adapter_may_write_for_mcp() -> None:
    structured = ToolResultAdapter("mcp", lambda result: {"content": [], "structuredContent": {"a": 1}})
    listed = ToolResultAdapter("mcp", lambda result: [{"type": "text", "text": "x"}])
    for adapter, written in (
        (structured, {"content": [], "structuredContent": {"a": 1}}),
        (listed, {"content": [{"type": "text", "text": "x"}], "isError": False}),
    ):
        own = ToolInteropRegistry.of(tools=[Contribution(result_adapters=(adapter,))])
        assert own.convert_results([formatted("y")], target="mcp") == [written]


# -- each wire's own ---------------------------------------------------------------------------------------------------

FAILED = formatted("no such file", is_error=True)
WRITTEN = {
    "anthropic.messages": {
        "type": "tool_result",
        "tool_use_id": "call_123",
        "content": "no such file",
        "is_error": True,
    },
    "gemini.generate_content": {
        "functionResponse": {"id": "call_123", "name": "read_file", "response": {"error": "no such file"}}
    },
    "mcp": {"content": [{"type": "text", "text": "no such file"}], "isError": True},
    "openai.responses": {
        "type": "function_call_output",
        "call_id": "call_123",
        "output": "no such file",
        "_metadata": {"is_error": True},
    },
    "openai.chat_completions": {
        "role": "tool",
        "tool_call_id": "call_123",
        "content": "no such file",
        "_metadata": {"tool_name": "read_file", "is_error": True},
    },
}


@pytest.mark.parametrize("wire", WRITTEN)
def test_a_failure_says_so_where_the_wire_can(wire: str) -> None:
    assert registry().convert_results([FAILED], target=wire) == [WRITTEN[wire]]


@pytest.mark.parametrize("first", [wire for wire in TARGET_FORMATS if wire != "mcp"])
@pytest.mark.parametrize("second", TARGET_FORMATS)
def test_a_native_result_is_understood_and_written_for_another(first: str, second: str) -> None:
    for stored in (RESULT, FAILED):
        (native,) = registry().convert_results([stored], target=first)
        found = registry().inspect_result(native)
        assert (found.text, found.call_id) == (stored["content"], "call_123")
        if CASES[first].says_failures:
            assert found.is_error is stored["toolResult"].get("is_error", False)
        (there,) = registry().convert_results([native], target=second)
        assert stored["content"] in json.dumps(there).replace('\\"', '"')


def test_a_result_of_mcp_is_understood() -> None:
    given = {"content": [{"type": "text", "text": "one"}, {"type": "image", "data": ENCODED}, "odd"], "isError": True}
    found = registry().inspect_result(given)
    assert (found.format, found.text, found.is_error) == ("mcp", "one\n[image]\n[block]", True)
    assert registry().inspect_result({"content": [], "structuredContent": {"a": 1}}).text == '{"a":1}'
    with pytest.raises(ExportError, match="a result of a tool has no call id"):
        registry().convert_results([given], target="anthropic.messages")


def test_results_without_ids_go_where_names_pair_them() -> None:
    given = [{"functionResponse": {"name": "f", "response": {"output": text}}} for text in ("one", "two")]
    assert registry().convert_results(given, target="gemini.generate_content") == given
    first, second = registry().convert_results(given, target="ollama.chat")
    assert (first["content"], second["content"]) == ("one", "two")
    old = {"role": "tool", "tool_name": "f", "content": "one"}
    found = registry().inspect_result(old)
    assert (found.format, found.tool_name, found.call_id, found.text) == ("ollama.chat", "f", None, "one")


def test_a_custom_calls_result_answers_as_one() -> None:
    schema = {"type": "custom", "name": "apply_patch"}
    own = ToolInteropRegistry.of(descriptors=[ToolDescriptor("p", "apply_patch", schema)])
    stored = format_tool_result("done", tool_name="apply_patch", tool_call_id="call_9")
    item = {"type": "custom_tool_call_output", "call_id": "call_9", "output": "done"}
    assert own.convert_results([stored], target="openai.responses") == [item]
    assert registry().inspect_result(item).kind == "custom"
    assert registry().convert_results([item], target="openai.responses") == [item]


def test_a_freeform_tool_that_was_called_as_a_function_is_answered_as_one() -> None:
    schema = {"type": "custom", "name": "apply_patch"}
    own = ToolInteropRegistry.of(descriptors=[ToolDescriptor("p", "apply_patch", schema)])
    stored = format_tool_result("done", tool_name="apply_patch", tool_call_id="call_9")
    formats = ["openai.responses.function"]
    item = {"type": "function_call_output", "call_id": "call_9", "output": "done"}
    assert own.convert_results([stored], target="openai.responses", target_formats=formats) == [item]
    assert own.inspect_result(item).kind == "function"


def test_two_results_for_one_call_are_refused() -> None:
    with pytest.raises(ExportError, match="two results are for one call"):
        registry().convert_results([RESULT, RESULT], target="anthropic.messages")


def test_a_target_that_is_no_wire_is_refused() -> None:
    with pytest.raises(ExportError, match="cannot write results for 'acme'"):
        registry().convert_results([RESULT], target="acme")


def test_what_is_no_dict_is_left_out() -> None:
    given: list[object] = [None, "x", RESULT]
    assert registry().convert_results(given, target="openai.responses") == [RESPONSES_RESULT]


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"role": "tool"},
        {"role": "tool", "toolResult": "x"},
        {"role": "tool", "toolResult": {"type": "other"}},
        {"role": "user", "content": "x"},
        {"type": "other", "tool_use_id": "t"},
        {"functionResponse": None},
        {"toolResult": 3},
        {"content": "text"},
    ],
)
def test_what_is_no_result_is_refused(odd: dict[str, Any]) -> None:
    with pytest.raises(ExportError, match="no accessor knows this result"):
        registry().inspect_result(odd)


def test_a_stored_payload_may_stand_alone() -> None:
    found = registry().inspect_result(RESULT["toolResult"])
    assert (found.format, found.text, found.call_id) == ("tool_result", RESULT_TEXT, None)
    assert registry().inspect_result(ENVELOPE).native == {"openai.chat_completions": ENVELOPE["content"]}
    assert registry().inspect_result({"type": "tool_result", "text": 3}).text == ""


# -- attachments -------------------------------------------------------------------------------------------------------

STORES: list[Any] = [
    ToolResult(blocks=(Text("see:"), IMAGE)),
    {
        "type": "provider_native_tool_result",
        "format": "openai.responses",
        "content": [
            {"type": "input_image", "image_url": f"data:image/png;base64,{ENCODED}"},
        ],
    },
    {
        "type": "provider_native_tool_result",
        "format": "anthropic.messages",
        "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ENCODED}},
        ],
    },
    {
        "type": "provider_native_tool_result",
        "format": "bedrock.converse_stream",
        "content": [
            {"image": {"format": "png", "source": {"bytes": PNG}}},
        ],
    },
    {
        "type": "provider_native_tool_result",
        "format": "gemini.generate_content",
        "content": {
            "output": "see",
            "more": ({"inlineData": {"mimeType": "image/png", "data": ENCODED}},),
        },
    },
]


@pytest.mark.parametrize("value", STORES)
def test_no_base64_is_stored_and_the_request_has_it_again(value: Any) -> None:
    store = MemoryAttachments()
    stored = formatted(value, attachments=store)
    assert ENCODED not in json.dumps(stored)
    assert len(store) == 1
    for wire in TARGET_FORMATS:
        if wire == "mcp":
            continue
        native = registry().convert_results([stored], target=wire)
        assert ENCODED not in json.dumps(native)
        sent = json.dumps(ready_messages(native, store), default=lambda data: base64.b64encode(data).decode())
        own = CASES[wire].pictures_in_results if isinstance(value, ToolResult) else value["format"] == wire
        assert (ENCODED in sent) is own


def test_a_native_result_takes_its_attachments_to_another_wire() -> None:
    store = MemoryAttachments()
    stored = formatted(STORES[0], attachments=store)
    for first in ("anthropic.messages", "bedrock.converse_stream", "gemini.generate_content", "openai.responses"):
        native = registry().convert_results([stored], target=first)
        for second in ("anthropic.messages", "bedrock.converse_stream", "openai.responses"):
            there = registry().convert_results(native[:1], target=second)
            assert ENCODED not in json.dumps(there)
            sent = ready_messages(there, store)
            assert ENCODED in json.dumps(sent, default=lambda data: base64.b64encode(data).decode())


def test_what_was_compacted_expands_to_what_it_was() -> None:
    store = MemoryAttachments()
    for value in STORES[1:]:
        content = value["content"]
        compact = compact_attachments(content, store)
        assert ENCODED not in json.dumps(compact)
        assert json.dumps(expand_attachments(compact, store), default=str) == json.dumps(content, default=str)
    assert len(store) == 1  # the same bytes are kept once


def test_what_holds_no_attachment_stays_the_same_object() -> None:
    for value in ({"a": [1, {"data": "x"}, "data:,x", "data:image/png;base64,@"], "t": (1,)}, "text", None):
        assert compact_attachments(value, MemoryAttachments()) is value
        assert expand_attachments(value, MemoryAttachments()) is value
    odd = {"data": "no base64!", "format": "wav"}
    assert compact_attachments(odd, MemoryAttachments()) is odd
    sound = {"data": ENCODED, "format": "wav"}
    assert expand_attachments(compact_attachments(sound, store := MemoryAttachments()), store) == sound


def test_a_text_is_never_taken_for_an_attachment() -> None:
    store = MemoryAttachments()
    id_ = store.put(Attachment(b"secret"))
    said = json.dumps(reference(id_))
    assert expand_attachments([{"role": "user", "content": said}], store) == [{"role": "user", "content": said}]


@pytest.mark.parametrize(
    "call",
    [
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        {"functionCall": {"name": "f", "args": {}}},
        {"toolUse": {"toolUseId": "t", "name": "f", "input": {}}},
        {"name": "f", "arguments": {}},
    ],
)
def test_a_model_cannot_ask_for_an_attachment_by_its_arguments(call: dict[str, Any]) -> None:
    store = MemoryAttachments()
    asked = {"x": reference(store.put(Attachment(b"secret")))}
    body = next((value for value in call.values() if isinstance(value, dict) and "name" in value), call)
    body[next(key for key in ("args", "arguments", "input") if key in body)] = asked
    assert expand_attachments([{"role": "assistant", "content": [call]}], store)[0]["content"][0] == call


def test_an_attachment_that_nobody_has_is_told() -> None:
    with pytest.raises(ExportError, match="no attachment 'sha256:0'"):
        expand_attachments({"data": reference("sha256:0")}, MemoryAttachments())
    with pytest.raises(ExportError, match="no attachment 'sha256:0'"):
        ready_messages([{"role": "user", "content": [reference("sha256:0")]}])


def test_a_url_without_a_type_gets_the_attachments_or_none() -> None:
    store = MemoryAttachments()
    known, unknown = store.put(Attachment(b"a", "image/gif")), store.put(Attachment(b"b"))
    assert expand_attachments(reference(known, "data_url"), store) == "data:image/gif;base64,YQ=="
    assert expand_attachments(reference(unknown, "data_url"), store) == "data:application/octet-stream;base64,Yg=="


def test_without_a_store_an_image_leaves_a_word() -> None:
    stored = formatted(ToolResult(blocks=(Text("see:"), IMAGE)))
    assert stored["content"] == "see:\n[image: image/png] [left out: there is no store for attachments]"
    broken = formatted(ToolResult(blocks=(Media(kind="image", data="@@@"),)), attachments=MemoryAttachments())
    assert broken["content"] == "[image] [left out: its data is not base64]"


def test_what_stands_elsewhere_is_referred_to_by_its_address() -> None:
    media = Media(kind="file", url="https://example.org/a.pdf", mime_type="application/pdf", filename="a.pdf")
    stored = formatted(ToolResult(blocks=(media,)))
    assert stored["toolResult"]["blocks"] == [
        {
            "type": "media",
            "kind": "file",
            "mime_type": "application/pdf",
            "url": "https://example.org/a.pdf",
            "filename": "a.pdf",
        }
    ]
    assert registry().inspect_result(stored).blocks == (media,)
    odd = {"type": "tool_result", "text": "x", "blocks": [3, {"type": "media", "kind": "smell"}, {"text": "x"}]}
    assert registry().inspect_result(odd).blocks == (Text("x"),)
    assert registry().inspect_result({**odd, "blocks": "x"}).blocks == (Text("x"),)
