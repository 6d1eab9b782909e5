"""A turn in, the next request's messages out: verbatim to its own wire, projected to another, always in pairs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every
from sansio import ANTHROPIC, BUILT, CHAT, ID, WIRES, check_histories, encode
from streams import anthropic, chat, chat_chunk
from wire_cases.parts import NAME

from streamtools import Observation, Turn, parse
from streamtools.errors import ToolFailed
from streamtools.history import lint
from streamtools.parts import Outcome
from streamtools.wires import find

END = [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]


SEARCH = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
]


def start(block: dict[str, Any], *deltas: dict[str, Any], index: int = 0, stop: bool = True) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        *([{"type": "content_block_stop", "index": index}] if stop else []),
    ]


def message(*blocks: list[dict[str, Any]], stop_reason: str | None = "tool_use") -> Turn:
    events = [event | {"index": index} for index, block in enumerate(blocks) for event in block]
    end = [END[0] | {"delta": {"stop_reason": stop_reason}}, END[1]] if stop_reason else []
    return parse([{"type": "message_start", "message": {"id": "m", "model": "c"}}, *events, *end])


def test_a_model_that_does_not_go_on_with_its_own_words_may_not_have_the_last_one() -> None:
    ask, said = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello, I"}
    contents = [{"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", "parts": [{"text": "Hello, I"}]}]
    converse = [{"role": one["role"], "content": [{"text": one["content"]}]} for one in (ask, said)]
    histories = {CHAT: [ask, said], ANTHROPIC: [ask, said], "mistral.chat": [ask, said]}
    histories |= {"gemini.generate_content": contents, "bedrock.converse_stream": converse}
    refusing = {
        CHAT: ("anthropic/claude-sonnet-4.6", "claude-opus-4-6"),
        ANTHROPIC: ("claude-opus-4-6", "claude-sonnet-4-6-20260217", "claude-opus-5", "claude-fable-5"),
        "bedrock.converse_stream": ("us.anthropic.claude-opus-4-6-v1", "eu.anthropic.claude-sonnet-5"),
        "gemini.generate_content": ("gemini-3.6-flash", "models/gemini-3.5-flash-lite", "gemini-4.0-pro"),
        "mistral.chat": ("mistral-large-latest",),
    }
    taking = {
        CHAT: ("gpt-5", "anthropic/claude-3.7-sonnet"),
        ANTHROPIC: ("claude-haiku-4-5", "claude-sonnet-4-20250514", "claude-3-5-sonnet-20241022", "another"),
        "bedrock.converse_stream": ("anthropic.claude-sonnet-4-5-20250929-v1:0", "meta.llama3-1-8b"),
        "gemini.generate_content": ("gemini-3.5-flash", "gemini-2.5-flash-lite", "gemini-pro-latest"),
        "mistral.chat": (),
    }
    for wire, history in histories.items():
        for model in (*refusing[wire], *taking[wire]):
            codes = [one.code for one in lint(history, wire, model=model, last=True)]
            assert codes == ["last_not_user"] * (model in refusing[wire]), (wire, model)
            assert lint(history, wire, model=model) == [], "a conversation that rests may end with an answer"
            assert lint(history[:1], wire, model=model, last=True) == []
    for wire in (ANTHROPIC, CHAT):
        [found] = lint(histories[wire], wire, model="claude-opus-5", last=True)
        assert found.provider_text == find(wire).rules.texts["last_not_user"]
        assert (found.path, "prefill" in found.provider_text) == ("messages[1]", True)
    going_on = [ask, {**said, "prefix": True}]
    assert lint(going_on, "mistral.chat", model="mistral-large-latest", last=True) == []
    paused = [ask, {"role": "assistant", "content": [{"type": "text", "text": "I search."}, *SEARCH]}]
    assert lint(paused, ANTHROPIC, model="claude-opus-5", last=True) == []


def content(turn: Turn) -> list[dict[str, Any]]:
    """The assistant's blocks, on its own wire."""
    messages = turn.messages()
    return messages[0]["content"] if messages else []


def deltas(*given: dict[str, Any], finish: str | None = "stop") -> dict[str, Any]:
    """The assistant's message of a chat response, on its own wire."""
    return parse([*(chat_chunk(delta) for delta in given), chat_chunk({}, finish)]).messages()[0]


def calling(**call: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "id": "call_1", "type": "function"} | call]}


# -- an Anthropic turn goes back as it came ----------------------------------------------------------------------------

SIGNED = {"type": "thinking", "thinking": "Let me see.", "signature": "EqQB+x/A=="}
CITATION = {"type": "web_search_result_location", "url": "https://example.org", "encrypted_index": "Eo8B"}
RESULT = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "title": "é", "url": "u", "encrypted_content": "EqgB", "page_age": None}],
}

BLOCKS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "text": (
        start({"type": "text", "text": ""}, {"type": "text_delta", "text": "a"}, {"type": "text_delta", "text": " b"}),
        {"type": "text", "text": "a b"},
    ),
    "text that begins in its start": (
        start({"type": "text", "text": "a"}, {"type": "text_delta", "text": "b"}),
        {"type": "text", "text": "ab"},
    ),
    "text with citations": (
        start(
            {"type": "text", "text": "", "citations": []},
            {"type": "citations_delta", "citation": CITATION},
            {"type": "text_delta", "text": "a"},
            {"type": "citations_delta", "citation": CITATION | {"url": "v"}},
        ),
        {"type": "text", "text": "a", "citations": [CITATION, CITATION | {"url": "v"}]},
    ),
    "thinking with its signature in pieces": (
        start(
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Let me "},
            {"type": "thinking_delta", "thinking": "see."},
            {"type": "signature_delta", "signature": "EqQB"},
            {"type": "signature_delta", "signature": "+x/A=="},
        ),
        SIGNED,
    ),
    "thinking whose text is withheld": (
        start({"type": "thinking", "thinking": "", "signature": ""}, {"type": "signature_delta", "signature": "EqQB"}),
        {"type": "thinking", "thinking": "", "signature": "EqQB"},
    ),
    "redacted thinking": (
        start({"type": "redacted_thinking", "data": "EmwKAh+/=="}),
        {"type": "redacted_thinking", "data": "EmwKAh+/=="},
    ),
    "a call": (
        start(
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"b": 18446744073709551616,'},
            {"type": "input_json_delta", "partial_json": ' "a": [1.0]}'},
        ),
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"b": 2**64, "a": [1.0]}},
    ),
    "a call with what else the provider said about it": (
        start({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, "caller": {"type": "direct"}}),
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, "caller": {"type": "direct"}},
    ),
    "a result of a server's tool": (start(RESULT), RESULT),
    "a compaction in pieces": (
        start({"type": "compaction", "content": None}, *[{"type": "compaction_delta", "content": "ab"}] * 2),
        {"type": "compaction", "content": "abab"},
    ),
    "a block of a type that is not known yet": (
        start({"type": "hologram", "data": [1, {"x": None}]}),
        {"type": "hologram", "data": [1, {"x": None}]},
    ),
}
TEXT = start({"type": "text", "text": "ok"})


@every("name", BLOCKS)
def test_an_anthropic_block_goes_back_as_it_came(name: str) -> None:
    events, block = BLOCKS[name]
    server = start({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}})
    used = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    turn = message(server, events, TEXT) if block is RESULT else message(events, TEXT)
    assert content(turn) == [*([used] if block is RESULT else []), block, {"type": "text", "text": "ok"}]


def test_a_call_that_was_made_inside_the_providers_sandbox_goes_back() -> None:
    """Programmatic tool calling: blocks stand in the start of the message."""
    caller = {"type": "code_execution_20250825", "tool_id": "srvtoolu_9"}
    block = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}, "caller": caller}
    turn = parse([{"type": "message_start", "message": {"id": "m", "content": [block]}}, *END])
    assert turn.messages()[0]["content"] == [block]
    assert turn.calls[0].dispatchable


@every(
    "events",
    [
        start({"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": "Hm"}),
        start({"type": "text", "text": ""}, {"type": "text_delta", "text": " \n"}),
        start({"type": "text", "text": ""}),
        start({"type": "hologram"}, {"type": "hologram_delta", "light": 1}),
        start({"type": 7, "data": "x"}),
        start({"data": "x"}),
    ],
)
def test_what_the_api_would_refuse_is_left_out(events: list[dict[str, Any]]) -> None:
    assert content(message(events, TEXT)) == [{"type": "text", "text": "ok"}]


def test_a_signature_goes_back_on_thinking_only_and_citations_on_text_only() -> None:
    mixed = [
        {"type": "signature_delta", "signature": "S"},
        {"type": "citations_delta", "citation": CITATION},
    ]
    turn = message(
        start({"type": "thinking", "thinking": ""}, {"type": "text_delta", "text": "a"}, *mixed),
        start({"type": "text", "text": ""}, {"type": "text_delta", "text": "b"}, *mixed),
        start({"type": "text", "text": ""}, {"type": "thinking_delta", "thinking": "c"}, *mixed),
        TEXT,
    )
    for block in content(turn):
        assert (
            set(block)
            <= {"text": {"type", "text", "citations"}, "thinking": {"type", "thinking", "signature"}}[block["type"]]
        )


# -- a response that was cut, or paused --------------------------------------------------------------------------------

SERVER = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}


def test_a_servers_call_without_its_result_is_left_out_unless_the_turn_is_paused() -> None:
    """Anthropic: "... without a corresponding web_search_tool_result block" (vellum-ai/vellum-assistant#17907)."""
    query = {"type": "input_json_delta", "partial_json": '{"query": "x"}'}
    for stop_reason in (None, "max_tokens", "end_turn"):
        assert content(message(TEXT, start(SERVER, query), stop_reason=stop_reason)) == [{"type": "text", "text": "ok"}]
    cut = message(
        TEXT, start(SERVER, {"type": "input_json_delta", "partial_json": '{"que'}, stop=False), stop_reason=None
    )
    assert content(cut) == [{"type": "text", "text": "ok"}]
    paused = message(TEXT, start(SERVER, query), stop_reason="pause_turn")
    assert content(paused)[-1] == SERVER | {"input": {"query": "x"}}
    assert len(paused.messages()) == 1


def test_a_turn_does_not_go_back_with_thinking_as_its_last_block() -> None:
    """Anthropic: "The final block in an assistant message cannot be `thinking`" (tailcallhq/forgecode#2107)."""
    thinking, redacted = start(SIGNED), start({"type": "redacted_thinking", "data": "x"})
    assert content(message(TEXT, thinking, redacted, stop_reason="max_tokens")) == [{"type": "text", "text": "ok"}]
    assert message(thinking, stop_reason="max_tokens").messages() == []
    assert content(message(thinking, stop_reason="pause_turn")) == [SIGNED]
    assert content(message(thinking, TEXT)) == [SIGNED, {"type": "text", "text": "ok"}]


CUT = [
    '{"cmd": "rm -rf /tm',
    '{"cmd": "rm -rf /tmp"',
    "{",
    '{"cmd": "rm"} {"cmd":',
    "not json",
    '["rm"]',
    '{"a": 1e999}',
]


@every("arguments", CUT)
@every("wire", BUILT)
def test_a_call_that_is_not_whole_stands_as_an_empty_object_with_an_error_as_its_result(
    wire: str, arguments: str
) -> None:
    whole = ("b", "g", '{"x": 1}')
    turn = parse((chat if wire == CHAT else anthropic)(["Hi"], [("a", "bash", arguments), whole]))
    check_histories(turn)
    for target in WIRES:
        messages = turn.messages(target)
        assert "rm" not in json.dumps(messages)
        if target == CHAT:
            texts = [call["function"]["arguments"] for call in messages[0]["tool_calls"]]
            assert texts == ["{}", '{"x": 1}']
            assert messages[1]["content"].startswith("Error: ")
        elif target == ANTHROPIC:
            inputs = [block["input"] for block in messages[0]["content"] if block["type"] == "tool_use"]
            assert inputs == [{}, {"x": 1}]
            first = messages[1]["content"][0]
            assert (first["tool_use_id"], first["is_error"]) == ("a", True)
            assert first["content"].startswith("Error: ")


def test_a_freeform_call_that_was_cut_does_not_go_back_with_its_text() -> None:
    chunks = [chat_chunk(calling(type="custom", custom={"name": "shell", "input": "rm -rf /"}))]
    turn = parse(chunks)
    assert [(call.status, call.dispatchable) for call in turn.calls] == [("truncated", False)]
    for target in WIRES:
        assert "rm" not in json.dumps(turn.messages(target))


def test_what_was_only_normalised_is_written_anew() -> None:
    for text in ('"{\\"a\\": 1}"', '```json\n{"a": 1}\n```', '\ufeff{"a": 1}'):
        turn = parse(chat(calls=[("a", "f", text)]))
        assert turn.messages()[0]["tool_calls"][0]["function"]["arguments"] == '{"a":1}'
    turn = parse(chat(calls=[("a", "f", "")]))
    assert turn.messages()[0]["tool_calls"][0]["function"]["arguments"] == "{}"


# -- a chat turn goes back in the fields it came in --------------------------------------------------------------------


@every("field", ["reasoning_content", "reasoning"])
def test_reasoning_goes_back_in_the_field_it_came_in(field: str) -> None:
    said = deltas({field: "Let "}, {field: "me"}, {"content": "Hi"})
    assert said == {"role": "assistant", "content": "Hi", field: "Let me"}


@every("think", ["<think>\nHm\n</think>\n\n", "<think></think>", " \n<think>a</think> "])
def test_inline_thinking_goes_back_inline_to_the_letter(think: str) -> None:
    for size in (1, 3, 100):
        text = think + "Hi <think>"
        said = deltas(*({"content": text[at : at + size]} for at in range(0, len(text), size)))
        assert said["content"] == text


def test_a_freeform_call_goes_back_as_one_and_becomes_a_function_elsewhere() -> None:
    custom = {"name": "shell", "input": 'echo "{}"\n'}
    turn = parse([chat_chunk(calling(type="custom", custom=custom)), chat_chunk({}, "tool_calls")])
    assert turn.messages()[0]["tool_calls"] == [{"id": "call_1", "type": "custom", "custom": custom}]
    assert turn.messages(ANTHROPIC)[0]["content"] == [
        {"type": "tool_use", "id": "call_1", "name": "shell", "input": {"input": 'echo "{}"\n'}}
    ]


def test_a_refusal_goes_back() -> None:
    assert deltas({"refusal": "I "}, {"refusal": "can't."})["refusal"] == "I can't."


# -- to another wire ---------------------------------------------------------------------------------------------------


def test_to_another_wire_go_text_and_calls_and_nothing_opaque() -> None:
    chat_turn = parse(
        [
            chat_chunk({"reasoning_content": "secret", "content": "Hi"}),
            chat_chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "secret"}]}),
            chat_chunk(calling(function={"name": "f", "arguments": '{"a":1}'}, extra_content={"secret": 1})),
            chat_chunk({}, "tool_calls"),
        ]
    )
    assert chat_turn.messages(ANTHROPIC)[0]["content"] == [
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "call_1", "name": "f", "input": {"a": 1}},
    ]
    used = start({"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "secret"}})
    turn = message(start(SIGNED), start(SERVER), start(RESULT), BLOCKS["text with citations"][0], used)
    assert turn.messages(CHAT)[0] == {
        "role": "assistant",
        "content": "a",
        "tool_calls": [{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    check_histories(turn)


@settings(deadline=None, derandomize=True, database=None)
@given(st.lists(st.text(alphabet="ab.:_ é", min_size=1, max_size=50), min_size=1, max_size=4, unique=True))
def test_foreign_ids_are_valid_distinct_and_the_same_everywhere(ids: list[str]) -> None:
    turn = parse([*chat(calls=[(call_id, "f", "{}") for call_id in ids])])
    assert [call["id"] for call in turn.messages()[0]["tool_calls"]] == ids, "to their own wire they go as they are"
    messages = turn.messages(ANTHROPIC)
    uses = [block["id"] for block in messages[0]["content"]]
    assert len(set(uses)) == len(ids)
    assert all(ID.fullmatch(use) for use in uses)
    assert [block["tool_use_id"] for block in messages[1]["content"]] == uses
    assert turn.messages(ANTHROPIC) == messages


@every("name", ["multi_tool_use.parallel", "a b", "é" * 70, "x" * 100, "", "f\n"])
@every("wire", BUILT)
def test_a_name_that_the_model_made_up_is_made_valid(wire: str, name: str) -> None:
    turn = parse((chat if wire == CHAT else anthropic)(calls=[("a", name, "{}")]))
    check_histories(turn)
    assert NAME.fullmatch(turn.messages(CHAT)[0]["tool_calls"][0]["function"]["name"])


# -- results -----------------------------------------------------------------------------------------------------------


def observation(call_id: str, text: str, *, ok: bool) -> Observation:
    error = None if ok else ToolFailed(text)
    outcome: Outcome = "ok" if ok else "failed"
    return Observation(call_id=call_id, tool_name="f", outcome=outcome, model_content=text, error=error)


def test_results_stand_in_call_order_and_say_what_the_model_will_read() -> None:
    turn = parse(chat(calls=[("a", "f", "{}"), ("b", "f", "{}"), ("c", "f", "{}")]))
    seen = (observation("c", "third", ok=True), observation("a", "Error: first", ok=False))
    turn = replace(turn, observations=seen)
    assert [(m["tool_call_id"], m["content"]) for m in turn.messages()[1:]] == [
        ("a", "Error: first"),
        ("b", "Error: the call was interrupted and has no result."),
        ("c", "third"),
    ]
    blocks = turn.messages(ANTHROPIC)[1]["content"]
    assert [block.get("is_error", False) for block in blocks] == [True, True, False]
    check_histories(turn)


# -- whether there is anything to say ----------------------------------------------------------------------------------


@every("body", [b"", b"<html>", b'data: {"error":"no"}\n\n', b"data: [DONE]\n\n"])
def test_a_turn_that_said_nothing_has_no_messages(body: bytes) -> None:
    assert parse(body).messages() == []
    for target in WIRES:
        assert parse(body).messages(target) == []
        assert parse(body, wire=target).messages() == []


def test_messages_are_plain_json_and_may_be_changed() -> None:
    turn = message(start(SIGNED), BLOCKS["text with citations"][0], start(RESULT), BLOCKS["a call"][0])
    first = turn.messages()
    before = encode(first)
    for block in (*first[0]["content"], *first[1]["content"]):
        block["cache_control"] = {"type": "ephemeral"}
    first[0]["content"].pop()
    assert encode(turn.messages()) == before
