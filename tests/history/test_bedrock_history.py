"""Converse messages: read and written back as they are; what Bedrock refuses is found, and mended."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

from native_histories import again, codes, found, observed, repaired
from profiles import every
from sdk_types import check_types
from streams import chat_chunk

from streamtools import history, parse
from streamtools.content import Media, Opaque, Text, ToolResult
from streamtools.wires import find
from streamtools.wires.transcript import Prompt, Reply, Returned

BEDROCK = "bedrock.converse_stream"
LLAMA, CLAUDE = "us.meta.llama4-maverick-17b-instruct-v1:0", "anthropic.claude-sonnet-4-5-20250929-v1:0"
WIRE = find(BEDROCK)
SIGNED = {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "EqQB+x/A=="}}}
REDACTED = {"reasoningContent": {"redactedContent": b"\x00\x01"}}
SEARCH = {"toolUse": {"toolUseId": "s1", "name": "nova_grounding", "input": {}, "type": "server_tool_use"}}
FOUND = {"toolResult": {"toolUseId": "s1", "content": [{"text": "found"}], "type": "nova_grounding_result"}}
PNG = b"\x89PNG"


def text(value: str) -> dict[str, Any]:
    return {"text": value}


def use(id_: str = "tooluse_1", input_: Any = None) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id_, "name": "f", "input": {} if input_ is None else input_}}


def answer(id_: str = "tooluse_1", *content: Any, **more: Any) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": id_, "content": list(content) or [text("ok")], **more}}


def said(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def told(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


ASK, MORE = told(text("Hi")), told(text("more"))


# -- reading -----------------------------------------------------------------------------------------------------------

CITED = {"citationsContent": {"content": [text("cited")], "citations": [{"title": "t"}]}}
RICH: list[Any] = [
    told(text("Look"), {"cachePoint": {"type": "default"}}, {"image": {"format": "png", "source": {"bytes": PNG}}}),
    said(SIGNED, REDACTED, text("so"), SEARCH, FOUND, use("a", {"n": 1}), use("b")),
    told(answer("a", text("x"), status="error"), answer("b", {"json": {"k": [1]}}, text("y"))),
    said(CITED, {"citationsContent": {"content": [text("a"), text("b")], "citations": [{"title": "t"}]}}),
    told(text("Go on")),
]


def test_a_good_history_is_the_same_object_after_repair_and_is_written_back_as_it_stood() -> None:
    assert history.lint(RICH, BEDROCK) == []
    assert history.repair(RICH, BEDROCK) is RICH
    assert again(RICH, BEDROCK) == RICH
    check_types(BEDROCK, RICH)


def test_provider_state_is_where_the_decoder_leaves_it() -> None:
    turn, cited = (entry for entry in WIRE.read(RICH) if isinstance(entry, Reply))
    assert [(part.kind, part.provider_state) for part in turn.answer.parts] == [
        ("reasoning", {"signature": "EqQB+x/A=="}),
        ("provider", REDACTED),
        ("text", None),
        ("call", None),
        ("provider", FOUND),
        ("call", None),
        ("call", None),
    ]
    assert [(call.kind, call.provider_state) for call in turn.answer.calls.values()] == [
        ("server", {"type": "server_tool_use"}),
        ("function", None),
        ("function", None),
    ]
    first, second = cited.answer.parts
    assert (first.kind, first.text, first.provider_state) == ("text", "cited", {"citations": [{"title": "t"}]})
    assert second.kind == "provider"


def test_results_are_read_as_text_blocks_and_status() -> None:
    (entry,) = (entry for entry in WIRE.read(RICH) if isinstance(entry, Returned))
    failed, ok = entry.results
    assert (failed.call_id, failed.content, failed.is_error, failed.blocks) == ("a", "x", True, ())
    assert (ok.content, ok.is_error) == ('{"k":[1]}\ny', False)


@every(
    ("block", "media"),
    [
        ({"image": {"format": "png", "source": {"bytes": PNG}}}, ("image", "image/png", base64.b64encode(PNG), None)),
        ({"image": {"format": "png", "source": {"bytes": "iVBO"}}}, ("image", "image/png", b"iVBO", None)),
        (
            {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://abc/d"}}}},
            ("video", "video/mp4", None, "s3://abc/d"),
        ),
        (
            {"document": {"format": "txt", "name": "n", "source": {"text": "hi"}}},
            ("file", "text/plain", base64.b64encode(b"hi"), None),
        ),
    ],
)
def test_media_are_read_by_their_bytes_or_their_place(block: dict[str, Any], media: Any) -> None:
    (entry,) = WIRE.read([told(answer("a", block, text("and")))])
    assert isinstance(entry, Returned)
    found_, _ = entry.results[0].blocks
    assert isinstance(found_, Media)
    assert (found_.kind, found_.mime_type, found_.data and found_.data.encode(), found_.url) == media


def test_nested_texts_are_read_as_text_and_what_only_bedrock_knows_is_opaque() -> None:
    nested = {"document": {"format": "txt", "name": "n", "source": {"content": [text("a"), text("b")]}}}
    hits = {"searchResult": {"source": "s", "title": "t", "content": [text("hit")]}}
    odd = [
        {"image": {}},
        {"json": {"x": object()}},
        {"guardContent": {}},
        {"searchResult": 1},
        {"video": {"source": {}}},
    ]
    (prompt,) = WIRE.read([told(text("x"), nested, hits, *odd)])
    assert isinstance(prompt, Prompt)
    assert [getattr(block, "text", None) for block in prompt.blocks[:3]] == ["x", "a\nb", "hit"]
    assert all(isinstance(block, Opaque) for block in prompt.blocks[3:])
    assert WIRE.read([{"role": "system", "content": [text("s")]}])[0].origin == (0, 1)


ODD: list[Any] = [
    None, 1, "x", {}, {"role": ["user"]}, {"role": "tool"}, {"role": "user"}, {"role": "user", "content": "text"},
    told(None, 1, {}, {"text": None}, {"text": 5}, {"image": None}), told({"toolResult": 1}, {"toolResult": {}}),
    told({"toolResult": {"toolUseId": [], "content": [1, text(""), {"text": "a"}]}}), {"role": "assistant"},
    said(None, {"toolUse": 1}, {"toolUse": {}}, {"reasoningContent": 1}, {"toolResult": {}}, {"toolResult": "x"}),
    said({"toolUse": {"toolUseId": {}, "name": 1, "input": "{"}}, {"toolResult": {"toolUseId": "z"}}),
    said({"reasoningContent": {"reasoningText": {"text": 1, "signature": "s", "x": 1}}}, {"text": 1}, {"x": 1}),
    said({"citationsContent": 1}, {"citationsContent": {"content": 1, "citations": []}}, {"citationsContent": {}}),
]  # fmt: skip


@every("odd", ODD)
def test_odd_messages_are_mended_or_dropped_and_never_raise(odd: Any) -> None:
    after = history.repair([ASK, odd, said(text("ok"))], BEDROCK, last=True)
    assert found(after, BEDROCK) == []
    assert next(message["role"] for message in after) == "user"


# -- what Bedrock refuses ----------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[list[Any], str, str]] = {
    "a call without a result": (
        [ASK, said(use()), MORE],
        "unanswered_call",
        "Expected toolResult blocks at messages.2.content for the following Ids",
    ),
    "more results than calls": (
        [ASK, said(use()), told(answer(), answer("tooluse_2"))],
        "orphan_result",
        "exceeds the number of toolUse blocks of previous turn",
    ),
    "two results of a call": (
        [ASK, said(use()), told(answer(), answer())],
        "duplicate_result",
        "The toolResult blocks at messages.2.content contain duplicate Ids",
    ),
    "one id for two calls": (
        [ASK, said(use(), use()), told(answer(), answer())],
        "duplicate_id",
        "The toolUse blocks at messages.2.content contain duplicate Ids",
    ),
    "an id that Claude does not take": (
        [ASK, said(use("a:b")), told(answer("a:b"))],
        "bad_id",
        "String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "arguments that are no object": (
        [ASK, said(use(input_="{")), told(answer())],
        "arguments_not_object",
        "Provide a json object for the field and try again",
    ),
    "a message without content": (
        [ASK, said(), MORE],
        "empty_message",
        "The content field in the Message object at messages.2 is empty",
    ),
    "a blank text": (
        [ASK, said(text("Hi"), text(" ")), MORE],
        "empty_message",
        "The text field in the ContentBlock object at messages.28.content.1 is blank",
    ),
    "a result without content": (
        [ASK, said(use()), told({"toolResult": {"toolUseId": "tooluse_1", "content": [], "status": "error"}})],
        "empty_message",
        "cannot be empty when status value is error",
    ),
    "a result of blank text": (
        [ASK, said(use()), told(answer("tooluse_1", text("")))],
        "empty_message",
        "is blank. Add text to the text field",
    ),
    "a document alone": (
        [told({"document": {"format": "txt", "name": "n", "source": {"text": "hi"}}})],
        "empty_message",
        "A text block must be included when using documents.",
    ),
    "a first message of the model's": (
        [said(text("Hi")), MORE],
        "first_not_user",
        "A conversation must start with a user message.",
    ),
    "two messages of the user's": (
        [ASK, MORE],
        "role_order",
        "A conversation must alternate between user and assistant roles.",
    ),
    "reasoning without a signature": (
        [ASK, said({"reasoningContent": {"reasoningText": {"text": "Hm"}}}, text("Hi")), MORE],
        "missing_signature",
        "User messages cannot contain reasoning content",
    ),
}


@every("name", REFUSED)
def test_what_bedrock_refuses_is_found_in_its_words_and_mended(name: str) -> None:
    messages, code, words = REFUSED[name]
    told_ = [(v.code, v.provider_text) for v in found(messages, BEDROCK)]
    assert any(found_ == code and words in said_ for found_, said_ in told_), told_
    repaired(messages, BEDROCK)


def test_reasoning_at_the_end_and_halves_of_the_services_own_calls_are_dropped() -> None:
    messages = [ASK, said(text("a"), SEARCH, SIGNED, REDACTED), MORE, said(FOUND, text("b")), MORE]
    assert codes(messages, BEDROCK) == ["unanswered_call", "reasoning_apart", "reasoning_apart", "unanswered_call"]
    assert repaired(messages, BEDROCK) == [ASK, said(text("a")), MORE, said(text("b")), MORE]


def test_arguments_as_text_become_the_object_that_they_tell_of() -> None:
    messages = [ASK, said(use(input_='{"a": 1}')), told(answer())]
    assert codes(messages, BEDROCK) == ["arguments_not_object"]
    assert repaired(messages, BEDROCK)[1] == said(use(input_={"a": 1}))


def test_tools_have_to_be_declared_where_the_history_has_calls() -> None:
    messages = [ASK, said(use()), told(answer()), said(text("done"))]
    (violation,) = history.lint(messages, BEDROCK, tools=[])
    assert violation.code == "missing_tools"
    assert "The toolConfig field must be defined" in violation.provider_text
    assert history.lint(messages, BEDROCK, tools=["f"]) == history.lint([ASK], BEDROCK, tools=[]) == []


def test_some_models_want_results_apart_from_what_is_said() -> None:
    messages = [ASK, said(use()), told(answer(), text("And?")), said(text("done"))]
    assert found(messages, BEDROCK) == found(messages, BEDROCK, model=CLAUDE) == []
    texts = [violation.provider_text for violation in found(messages, BEDROCK, model=LLAMA)]
    assert any("Conversation blocks and tool result blocks cannot be provided in the same turn" in t for t in texts)
    after = repaired(messages, BEDROCK, model=LLAMA)
    assert after[2:5] == [told(answer()), said(text(".")), told(text("And?"))]
    assert found([*messages[:2], told(answer())], BEDROCK, model="mistral.mistral-large-2407-v1:0") == []


# -- writing -----------------------------------------------------------------------------------------------------------

CALLED = parse(
    [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t", "name": "f"}}}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "tool_use"}},
        {"metadata": {"usage": {}}},
    ]
)


def content_of(result: ToolResult | None, content: str = "t") -> list[Any]:
    """The content of a turn's one result, as it is written."""
    messages = observed(CALLED, result, content=content).messages()
    check_types(BEDROCK, messages)
    native: list[Any] = messages[-1]["content"][0]["toolResult"]["content"]
    return native


@every(
    ("block", "native"),
    [
        (Text("a"), text("a")),
        (
            Media(kind="image", mime_type="image/png", data=base64.b64encode(PNG).decode()),
            {"image": {"format": "png", "source": {"bytes": PNG}}},
        ),
        (
            Media(kind="file", mime_type="text/csv; charset=utf-8", data="YSxi", filename="a  b_c.csv"),
            {"document": {"format": "csv", "name": "a b c csv", "source": {"bytes": b"a,b"}}},
        ),
        (
            Media(kind="file", mime_type="text/html", data="YSxi"),
            {"document": {"format": "html", "name": "document", "source": {"bytes": b"a,b"}}},
        ),
        (
            Media(kind="video", mime_type="video/mp4", url="s3://abc/d"),
            {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://abc/d"}}}},
        ),
        (Media(kind="image", mime_type="image/png", url="https://x"), text("[image: image/png]")),
        (Media(kind="image", mime_type="image/tiff", data="AAAA"), text("[image: image/tiff]")),
        (Media(kind="audio", mime_type="audio/wav", data="AAAA"), text("[audio: audio/wav]")),
    ],
)
def test_what_a_tool_returned_is_written_block_by_block(block: Any, native: dict[str, Any]) -> None:
    assert content_of(ToolResult(blocks=(block,))) == [native]


@every(
    ("native", "content"),
    [
        ({"k": 1}, [{"json": {"k": 1}}]),
        ({"json": {"k": 1}}, [{"json": {"k": 1}}]),
        ([text("a"), {"json": {}}], [text("a"), {"json": {}}]),
        ("own", [text("own")]),
        (" ", [text("t")]),
        (5, [text("t")]),
    ],
)
def test_a_results_own_form_goes_as_it_is(native: Any, content: list[Any]) -> None:
    assert content_of(ToolResult(native={BEDROCK: native})) == content


def test_a_result_is_never_empty_nor_blank() -> None:
    assert content_of(None, " \n") == [text("(empty)")]
    assert content_of(ToolResult(blocks=(Text(""), Opaque({"json": {}}))), "") == [{"json": {}}]
    assert content_of(ToolResult(blocks=(Text(" "),)), "") == [text("(empty)")]


def test_what_only_another_provider_understands_stays_there() -> None:
    turn = parse([chat_chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]})])
    result = ToolResult(blocks=(Opaque({"x": 1}), Text("a", state={"x": 1})))
    (block,) = observed(turn, result).messages(BEDROCK)[-1]["content"]
    assert block["toolResult"]["content"] == [text("a")]


def test_prompts_are_written_as_blocks_and_not_at_all_if_they_say_nothing() -> None:
    document = Media(kind="file", mime_type="text/plain", data="aGk=", filename="n")
    native = {"document": {"format": "txt", "name": "n", "source": {"bytes": b"hi"}}}
    prompts = [
        (Prompt(role="user", blocks=(Text("a"), Text(" "))), [told(text("a"))]),
        (Prompt(role="user", blocks=(document,)), [told(native, text("."))]),
        (Prompt(role="user", blocks=(document, Text("a"))), [told(native, text("a"))]),
        (Prompt(role="user", blocks=(Text(""),)), []),
    ]
    for prompt, messages in prompts:
        assert WIRE.render_prompt(prompt) == messages
        check_types(BEDROCK, messages)


def test_what_was_read_of_a_result_goes_back_with_the_new_id() -> None:
    turn, results = WIRE.read([said(use("a:b")), told(answer("a:b", {"json": {}}, status="success"))])
    assert isinstance(turn, Reply)
    assert isinstance(results, Returned)
    (result,) = results.results
    call = replace(turn.answer.calls["a:b"], call_id="c")
    parts = tuple(replace(part, call_id="c") for part in turn.answer.parts)
    whole = replace(
        turn.answer,
        parts=parts,
        calls={"c": call},
        arguments={"c": turn.answer.arguments["a:b"]},
        results=(replace(result, call_id="c"),),
    )
    assert WIRE.render(whole) == [said(use("c")), told(answer("c", {"json": {}}, status="success"))]


# -- media in results --------------------------------------------------------------------------------------------------

IMAGE = {"image": {"format": "png", "source": {"bytes": PNG}}}
VIDEO = {"video": {"format": "mp4", "source": {"bytes": b"\x00"}}}
DOCUMENT = {"document": {"format": "pdf", "name": "d", "source": {"bytes": b"%PDF"}}}
BESIDE = text("[beside the results]")
TAKES_MEDIA = [
    CLAUDE, LLAMA, "us.anthropic.claude-sonnet-4-6", "amazon.nova-pro-v1:0", "us.amazon.nova-2-lite-v1:0",
    "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-5-v1:0",
    # these may be any model
    None, "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc",
    "arn:aws:bedrock:us-east-1:1:provisioned-model/abc",
]  # fmt: skip
TAKES_NONE = [
    "global.openai.gpt-5.6-sol", "qwen.qwen3-vl-235b-a22b", "mistral.pixtral-large-2502-v1:0",
    "arn:aws:bedrock:us-east-1:1:inference-profile/us.mistral.pixtral-large-2502-v1:0",
]  # fmt: skip


def test_media_in_results_go_beside_them_for_models_that_take_them_nowhere_else() -> None:
    calls = {"role": "assistant", "content": [use("a"), use("b")]}
    messages = [told(text("?")), calls, told(answer("a", text("seen"), IMAGE), answer("b", VIDEO, IMAGE, DOCUMENT))]
    for model in TAKES_MEDIA:
        assert "bad_result" not in codes(messages, BEDROCK, model=model), model
        assert history.repair(messages, BEDROCK, model=model)[:3] == messages, model
    results = [answer("a", text("seen"), BESIDE), answer("b", BESIDE, BESIDE, DOCUMENT)]
    for model in TAKES_NONE:
        assert codes(messages, BEDROCK, model=model) == ["bad_result"], model
        after = history.repair(messages, BEDROCK, model=model)
        user = [message["content"] for message in after[2:] if message["role"] == "user"]
        assert [block for content in user for block in content] == [*results, IMAGE, VIDEO, IMAGE], model
        assert len(user) == 1 + ("mistral" in model), "these take results alone in a message"
        assert codes(after, BEDROCK, model=model) == []
        assert history.repair(after, BEDROCK, model=model) is after
    searched = {"role": "assistant", "content": [SEARCH, {"toolResult": {"toolUseId": "s1", "content": [IMAGE]}}]}
    assert codes([told(text("?")), searched, told(text("and"))], BEDROCK, model=TAKES_NONE[0]) == []


def test_a_picture_that_comes_from_another_provider_stands_where_the_model_takes_it() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}}
    claudes = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [picture]}]},
    ]
    for model, expected in ((CLAUDE, [answer("t", IMAGE)]), (TAKES_NONE[0], [answer("t", BESIDE), IMAGE])):
        moved = history.convert(claudes, "anthropic.messages", BEDROCK, model=model)
        assert (moved.messages[2]["content"], moved.losses) == (expected, ())
