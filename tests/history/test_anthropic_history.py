"""Anthropic's messages: read and written back as they are; what the API refuses is found, and mended."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

from native_histories import again, codes, found, observed, repaired
from profiles import every
from sansio import ANTHROPIC
from sdk_types import check_types
from streams import chat_chunk

from streamtools import history, parse
from streamtools.content import Media, Opaque, Text, ToolResult
from streamtools.wires import find
from streamtools.wires.transcript import Prompt, Reply, Returned

WIRE = find(ANTHROPIC)
SIGNED = {"type": "thinking", "thinking": "Let me see.", "signature": "EqQB+x/A=="}
REDACTED = {"type": "redacted_thinking", "data": "EmwKAh+/=="}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
PNG = base64.b64encode(b"\x89PNG").decode()
ASK = {"role": "user", "content": "Hi"}


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


def use(id_: str = "toolu_1", input_: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": "f", "input": {} if input_ is None else input_, **more}


def answer(id_: str = "toolu_1", content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **more}


def said(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def told(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


# -- reading -----------------------------------------------------------------------------------------------------------

RICH: list[Any] = [
    {"role": "user", "content": [text("Look", cache_control={"type": "ephemeral"})]},
    said(SIGNED, REDACTED, text("so"), SEARCH, FOUND, use("toolu_1", {"a": 1}, caller={"type": "direct"}), use("t2")),
    told(answer("toolu_1", is_error=True, cache_control={"type": "ephemeral"}), answer("t2", [text("a"), text("b")])),
    {"role": "assistant", "content": [text("cited", citations=[{"type": "char_location"}]), {"type": "compaction"}]},
    {"role": "user", "content": "Go on"},
]


def test_a_good_history_is_the_same_object_after_repair() -> None:
    assert history.lint(RICH, ANTHROPIC) == []
    assert history.repair(RICH, ANTHROPIC) is RICH


def test_what_was_read_is_written_back_as_it_stood() -> None:
    first, turn, results, second, last = WIRE.read(RICH)
    assert isinstance(first, Prompt)
    assert isinstance(last, Prompt)
    assert isinstance(turn, Reply)
    assert isinstance(second, Reply)
    assert isinstance(results, Returned)

    assert WIRE.render_prompt(first) == RICH[:1]
    assert WIRE.render(replace(turn.answer, results=results.results)) == RICH[1:3]
    assert WIRE.render(second.answer) == RICH[3:4]
    assert WIRE.render_prompt(last) == RICH[4:]
    assert [entry.origin for entry in (first, turn, results, second, last)] == [(n, n + 1) for n in range(5)]


def test_results_and_text_of_one_message_are_told_apart_in_their_order() -> None:
    entries = WIRE.read([told(answer(), text("and"), answer("t2"))])
    assert [type(entry) for entry in entries] == [Returned, Prompt, Returned]
    assert {entry.origin for entry in entries} == {(0, 1)}


def test_provider_state_is_where_the_decoder_leaves_it() -> None:
    (entry,) = WIRE.read([RICH[1]])
    assert isinstance(entry, Reply)
    kinds = [(part.kind, part.provider_state) for part in entry.answer.parts]
    assert kinds == [
        ("reasoning", {"signature": "EqQB+x/A=="}),
        ("provider", REDACTED),
        ("text", None),
        ("call", None),
        ("provider", FOUND),
        ("call", None),
        ("call", None),
    ]
    assert {call.kind: dict(call.provider_state or {}) for call in entry.answer.calls.values()} == {
        "server": {"type": "server_tool_use"},
        "function": {"type": "tool_use"},
    }
    assert entry.answer.calls["toolu_1"].provider_state == {"type": "tool_use", "caller": {"type": "direct"}}


@every(
    ("content", "text_", "blocks"),
    [
        ("ok", "ok", ()),
        (None, "", ()),
        ([text("a"), text("b")], "a\nb", ()),
        (
            [text("a"), {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}],
            "a\n[image: image/png]",
            ("image/png", PNG, None, None),
        ),
        ([{"type": "image", "source": {"type": "url", "url": "u"}}], "[image]", (None, None, "u", None)),
        ([{"type": "document", "source": {"type": "file", "file_id": "f"}}], "[file]", (None, None, None, "f")),
    ],
)
def test_a_results_content_is_read_as_text_and_blocks(content: Any, text_: str, blocks: Any) -> None:
    (entry,) = WIRE.read([told(answer(content=content))])
    assert isinstance(entry, Returned)
    (result,) = entry.results
    assert (result.content, result.call_id) == (text_, "toolu_1")
    media = [block for block in result.blocks if isinstance(block, Media)]
    assert bool(media) is bool(blocks)
    for block in media:
        assert (block.mime_type, block.data, block.url, block.file_id) == blocks


def test_documents_and_search_results_are_read_as_their_text_and_other_blocks_are_opaque() -> None:
    plain = {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "é"}}
    nested = {"type": "document", "source": {"type": "content", "content": [text("a"), text("b")]}}
    hits = {"type": "search_result", "source": "s", "title": "t", "content": [text("hit")]}
    odd = [{"type": "container_upload", "file_id": "x"}, {"type": "image"}, {"type": "image", "source": {"type": "z"}}]
    (prompt,) = WIRE.read([told(plain, nested, hits, *odd)])
    assert isinstance(prompt, Prompt)
    file, *texts = prompt.blocks[:3]
    assert isinstance(file, Media)
    assert (file.kind, file.mime_type, file.filename) == ("file", "text/plain", "T")
    assert base64.b64decode(file.data or "").decode() == "é"
    assert [getattr(block, "text", None) for block in texts] == ["a\nb", "hit"]
    assert all(isinstance(block, Opaque) for block in prompt.blocks[3:])
    assert WIRE.render_prompt(prompt) == [told(plain, nested, hits, *odd)]


ODD: list[Any] = [
    None, 1, "x", [], {}, {"role": None}, {"role": ["user"]}, {"role": "tool", "content": "x"}, {"role": "user"},
    {"role": "user", "content": 5}, {"role": "user", "content": [None, 1, {}, {"type": []}, {"type": "text"}]},
    {"role": "user", "content": [{"type": "tool_result"}, {"type": "tool_result", "tool_use_id": {}, "content": 3}]},
    {"role": "assistant"}, {"role": "assistant", "content": [None, {"type": "tool_use"}, {"type": {}}, {"x": 1}]},
    {"role": "assistant", "content": [{"type": "server_tool_use", "id": []}, {"type": "x_tool_result"}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": 1, "name": [], "input": "{", "caller": []}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": 3, "signature": "s"}, text("x")]},
    {"role": "assistant", "content": [{"type": []}, use(input_={"a": float("nan")}), use("t", object())]},
]  # fmt: skip


@every("odd", ODD)
def test_odd_messages_are_mended_or_dropped_and_never_raise(odd: Any) -> None:
    after = history.repair([ASK, odd, said(text("ok"))], ANTHROPIC, last=True)
    assert found(after, ANTHROPIC) == []
    assert after[0] is ASK
    WIRE.read([odd])


# -- what the provider's own code waits for ----------------------------------------------------------------------------

CODE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "f()"}}
CALLED = {"type": "code_execution_20260521", "tool_id": "srvtoolu_1"}


@every("answered", [said(CODE, use(caller=CALLED)), said(use(caller=CALLED))])
def test_while_the_providers_code_waits_results_stand_alone(answered: dict[str, Any]) -> None:
    assert history.lint([ASK, answered, told(answer())], ANTHROPIC, last=True) == []
    (found,) = history.lint([ASK, answered, told(answer(), text("And hurry"))], ANTHROPIC, last=True)
    assert (found.code, found.path) == ("mixed_results", "messages[2]")


@every("answered", [said(SEARCH, FOUND, use()), said(use(caller={"type": "direct"})), said(text("so"), use())])
def test_where_nothing_of_the_providers_waits_text_may_follow_the_results(answered: dict[str, Any]) -> None:
    assert history.lint([ASK, answered, told(answer(), text("And hurry"))], ANTHROPIC, last=True) == []


def test_ids_and_types_that_are_no_texts_are_read_while_the_providers_code_waits() -> None:
    odd = said(CODE, {"type": ["x"], "tool_use_id": [], "id": {}})
    (found,) = history.lint([ASK, odd, told({"type": []}, answer())], ANTHROPIC, last=True)[-1:]
    assert found.path.startswith("messages[2]")


# -- what the API refuses ----------------------------------------------------------------------------------------------

UNANSWERED = "`tool_use` ids were found without `tool_result` blocks immediately after"

REFUSED: dict[str, tuple[list[Any], str, str]] = {
    "a call without a result": ([ASK, said(use()), ASK], "unanswered_call", UNANSWERED),
    "a result without a call": ([ASK, told(answer())], "orphan_result", "unexpected `tool_use_id` found in"),
    "two results of a call": (
        [ASK, said(use()), told(answer(), answer())],
        "duplicate_result",
        "each tool_use must have a single result",
    ),
    "text before the results": (
        [ASK, said(use()), told(text("And"), answer())],
        "content_before_results",
        "tool_use ids were found without tool_result blocks immediately after",
    ),
    "one id for two calls": (
        [ASK, said(use(), use()), told(answer(), answer())],
        "duplicate_id",
        "`tool_use` ids must be unique",
    ),
    "an id that it does not take": (
        [ASK, said(use("call|1")), told(answer("call|1"))],
        "bad_id",
        "String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "arguments that are no object": (
        [ASK, said(use(input_="x")), told(answer())],
        "arguments_not_object",
        "Input should be a valid dictionary",
    ),
    "a blank text": ([ASK, said(text(" "), text("Hi"))], "empty_message", "text content blocks must be non-empty"),
    "a blank text of the user's": ([told(text("")), ASK], "empty_message", "text content blocks must be non-empty"),
    "a blank text in a result": (
        [ASK, said(use()), told(answer(content=[text("")]))],
        "empty_message",
        "text content blocks must be non-empty",
    ),
    "a failure without a word": (
        [ASK, said(use()), told(answer(content="", is_error=True))],
        "empty_message",
        "content cannot be empty if `is_error` is true",
    ),
    "a first message of the model's": ([said(text("Hi")), ASK], "first_not_user", 'first message must use the "user"'),
    "thinking without a signature": (
        [ASK, said({"type": "thinking", "thinking": "Hm"}, text("Hi"))],
        "missing_signature",
        "Invalid `signature` in `thinking` block",
    ),
    "thinking with an empty signature": (
        [ASK, said({**SIGNED, "signature": ""}, text("Hi"))],
        "missing_signature",
        "Invalid `signature` in `thinking` block",
    ),
    "thinking at the end": (
        [ASK, said(text("Hi"), SIGNED, REDACTED), ASK],
        "reasoning_apart",
        "The final block in an assistant message cannot be `thinking`",
    ),
    "a search without its results": (
        [ASK, said(text("Hi"), SEARCH), ASK],
        "unanswered_call",
        "without a corresponding `web_search_tool_result` block",
    ),
    "results of a search without it": (
        [ASK, said(text("Hi"), FOUND), ASK],
        "orphan_result",
        "must have a corresponding `server_tool_use` block before it",
    ),
}


@every("name", REFUSED)
def test_what_the_api_refuses_is_found_in_its_words_and_mended(name: str) -> None:
    messages, code, words = REFUSED[name]
    assert any(v.code == code and words in v.provider_text for v in found(messages, ANTHROPIC)), codes(
        messages, ANTHROPIC
    )
    repaired(messages, ANTHROPIC)


def test_a_block_that_is_none_is_found_and_dropped() -> None:
    messages = [ASK, said(text("Hi"), 5), told("x", text("on"))]
    assert codes(messages, ANTHROPIC) == ["not_a_message", "not_a_message"]
    assert repaired(messages, ANTHROPIC) == [ASK, said(text("Hi")), told(text("on"))]


def test_thinking_before_a_call_stays_as_it_was_where_the_rest_of_the_message_is_mended() -> None:
    messages = [ASK, said(SIGNED, REDACTED, text(""), use("call|1")), told(answer("call|1"))]
    after = repaired(messages, ANTHROPIC)
    assert after[1]["content"][:2] == [SIGNED, REDACTED]
    assert after[1]["content"][2]["id"] == after[2]["content"][0]["tool_use_id"] != "call|1"


def test_a_servers_call_may_be_answered_in_the_next_message_or_wait_at_the_end() -> None:
    assert found([ASK, said(text("a"), SEARCH), said(FOUND, text("b"))], ANTHROPIC) == []
    assert found([ASK, said(text("a"), SEARCH)], ANTHROPIC) == []
    redacted = {**FOUND, "tool_use_id": "<redacted>"}
    assert found([ASK, said(SEARCH, redacted, text("b"))], ANTHROPIC) == []


def test_code_that_calls_our_tools_waits_for_their_results() -> None:
    code = {"type": "server_tool_use", "id": "srvtoolu_2", "name": "code_execution", "input": {}}
    call = use(caller={"type": "code_execution_20250825", "tool_id": "srvtoolu_2"})
    assert found([ASK, said(code, call), told(answer()), said(text("done"))], ANTHROPIC) == []


def test_arguments_as_text_become_the_object_that_they_tell_of() -> None:
    messages = [ASK, said(use(input_='{"a": 1}')), told(answer())]
    assert codes(messages, ANTHROPIC) == ["arguments_not_object"]
    assert repaired(messages, ANTHROPIC)[1] == said(use(input_={"a": 1}))


def test_an_answer_may_be_a_text() -> None:
    messages = [ASK, {"role": "assistant", "content": "Hello"}, ASK, {"role": "assistant", "content": " "}]
    assert codes(messages, ANTHROPIC) == ["empty_message"]
    assert repaired(messages, ANTHROPIC) == messages[:3]
    assert again(messages[1:2], ANTHROPIC) == [said(text("Hello"))]


def test_results_of_searches_without_ids_belong_to_the_oldest_call() -> None:
    lost = {**FOUND, "tool_use_id": "?"}
    assert found([ASK, said(SEARCH, {**SEARCH, "id": "srvtoolu_2"}, lost, FOUND, text("b")), ASK], ANTHROPIC) == []


def test_two_servers_calls_with_one_id_are_each_answered() -> None:
    assert found([ASK, said(SEARCH, SEARCH, FOUND, FOUND, text("b")), ASK], ANTHROPIC) == []
    assert codes([ASK, said(SEARCH, SEARCH, FOUND, text("b")), ASK], ANTHROPIC) == ["unanswered_call"]


# -- writing -----------------------------------------------------------------------------------------------------------

CALLED = parse(
    [
        {"type": "message_start", "message": {"id": "m", "model": "c"}},
        {"type": "content_block_start", "index": 0, "content_block": use()},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
)


def result_of(result: ToolResult, content: str = "t") -> dict[str, Any]:
    """The result of a turn's one call, as it is written."""
    messages = observed(CALLED, result, content=content).messages()
    check_types(ANTHROPIC, messages)
    block: dict[str, Any] = messages[-1]["content"][0]
    return block


@every(
    ("block", "native"),
    [
        (Text("a"), text("a")),
        (
            Media(kind="image", mime_type="image/png", data=PNG),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        ),
        (Media(kind="image", url="https://x/y.png"), {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}),
        (Media(kind="image", file_id="f"), {"type": "image", "source": {"type": "file", "file_id": "f"}}),
        (Media(kind="image", mime_type="image/tiff", data=PNG), text("[image: image/tiff]")),
        (
            Media(kind="file", mime_type="application/pdf", data="JVBE", filename="a.pdf"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
                "title": "a.pdf",
            },
        ),
        (
            Media(kind="file", mime_type="text/plain", data=base64.b64encode(b"hi").decode()),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}},
        ),
        (Media(kind="file", mime_type="application/zip", data="AA=="), text("[file: application/zip]")),
        (Media(kind="file", url="u"), {"type": "document", "source": {"type": "url", "url": "u"}}),
        (Media(kind="audio", mime_type="audio/wav", data="AA=="), text("[audio: audio/wav]")),
    ],
)  # fmt: skip
def test_what_a_tool_returned_is_written_block_by_block(block: Any, native: dict[str, Any]) -> None:
    assert result_of(ToolResult(blocks=(block,)))["content"] == [native]


def test_a_results_own_form_goes_as_it_is_and_a_failure_says_so() -> None:
    own = [{"type": "text", "text": "mine", "cache_control": {"type": "ephemeral"}}]
    assert result_of(ToolResult(native={ANTHROPIC: own}))["content"] == own
    failed = result_of(ToolResult(blocks=(Text("no"),), is_error=True))
    assert (failed["content"], failed["is_error"]) == ([text("no")], True)
    assert result_of(ToolResult(is_error=True), " ")["content"] == "(empty)"
    assert result_of(ToolResult(blocks=(Text(""), Opaque({"type": "text", "text": "o"}))))["content"] == [text("o")]


def test_what_only_another_provider_understands_stays_there() -> None:
    turn = parse([chat_chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]})])
    result = ToolResult(blocks=(Opaque({"type": "x"}), Text("a", state={"type": "x"})))
    assert observed(turn, result).messages(ANTHROPIC)[-1]["content"][0]["content"] == [text("a")]


def test_prompts_are_written_as_text_or_as_blocks_and_not_at_all_if_they_say_nothing() -> None:
    prompts = [
        (Prompt(role="user", blocks=(Text("a"),)), [ASK | {"content": "a"}]),
        (Prompt(role="user", blocks=(Text("a"), Text("b"))), [told(text("a"), text("b"))]),
        (Prompt(role="system", blocks=(Text("a"),)), [{"role": "system", "content": "a"}]),
        (Prompt(role="user", blocks=(Text(" "),)), []),
        (Prompt(role="user", blocks=(Opaque({}),)), [told({})]),
        (Prompt(role="user", blocks=()), []),
    ]
    for prompt, messages in prompts:
        assert WIRE.render_prompt(prompt) == messages
