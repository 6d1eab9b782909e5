"""Results: how they are stored, what they mean, and what each provider gets of them; attachments on the way."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from interop_cards import ENVELOPE, RESULT
from profiles import every
from wire_cases import CASES

from streamtools.content import Media, Opaque, Text, ToolResult
from streamtools.errors import ExportError
from streamtools.interop import (
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
from streamtools.wires import WIRES

PNG = b"\x89PNG the image"
ENCODED = base64.b64encode(PNG).decode()
IMAGE = Media(kind="image", mime_type="image/png", data=ENCODED)
registry = ToolInteropRegistry.of


def formatted(value: Any, **more: Any) -> dict[str, Any]:
    return format_tool_result(value, tool_name="read_file", tool_call_id="call_123", **more)


# -- what is stored ----------------------------------------------------------------------------------------------------


@every(
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
        for wire in WIRES:
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
    for wire in WIRES:
        if wire != "openai.chat_completions":
            said = json.dumps(registry().convert_results([stored], target=wire))
            assert "[image_url]" in said
            assert "base64" not in said


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
    with pytest.raises(ExportError, match="cannot write results for 'mcp'"):
        own.convert_results([formatted("x")], target="mcp")


def test_a_custom_calls_result_answers_as_one() -> None:
    schema = {"type": "custom", "name": "apply_patch"}
    own = ToolInteropRegistry.of(descriptors=[ToolDescriptor("p", "apply_patch", schema)])
    stored = format_tool_result("done", tool_name="apply_patch", tool_call_id="call_9")
    item = {"type": "custom_tool_call_output", "call_id": "call_9", "output": "done"}
    assert own.convert_results([stored], target="openai.responses") == [item]


def test_two_results_for_one_call_are_refused() -> None:
    with pytest.raises(ExportError, match="two results are for the same call"):
        registry().convert_results([RESULT, RESULT], target="anthropic.messages")


@every(
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


@every("value", STORES)
def test_no_base64_is_stored_and_the_request_has_it_again(value: Any) -> None:
    store = MemoryAttachments()
    stored = formatted(value, attachments=store)
    assert ENCODED not in json.dumps(stored)
    assert len(store) == 1
    for wire in WIRES:
        native = registry().convert_results([stored], target=wire)
        assert ENCODED not in json.dumps(native)
        sent = json.dumps(ready_messages(native, store), default=lambda data: base64.b64encode(data).decode())
        own = CASES[wire].pictures_in_results if isinstance(value, ToolResult) else value["format"] == wire
        assert (ENCODED in sent) is own


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


@every(
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
    with pytest.raises(ExportError, match="attachment 'sha256:0'"):
        expand_attachments({"data": reference("sha256:0")}, MemoryAttachments())
    with pytest.raises(ExportError, match="attachment 'sha256:0'"):
        ready_messages([{"role": "user", "content": [reference("sha256:0")]}])


def test_without_a_store_an_image_leaves_a_word() -> None:
    stored = formatted(ToolResult(blocks=(Text("see:"), IMAGE)))
    assert stored["content"] == "see:\n[image: image/png] [left out: there is no store for attachments]"
    broken = formatted(ToolResult(blocks=(Media(kind="image", data="@@@"),)), attachments=MemoryAttachments())
    assert broken["content"] == "[image] [left out: its data is not base64]"
