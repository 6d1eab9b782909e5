"""Gemini's contents: read and written back as they are; what the API refuses is found, and mended."""

from __future__ import annotations

from typing import Any

from every_wire import GEMINI
from native_histories import again, codes, found, observed, repaired
from profiles import every
from sdk_types import check_types
from wire_cases.gemini import SKIP

from streamtools import history, parse
from streamtools.content import Media, Opaque, Text, ToolResult
from streamtools.wires import find
from streamtools.wires.transcript import Prompt, Reply, Returned

WIRE = find(GEMINI)
CODE = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "Yw=="}
OUTCOME = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
SEARCH = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "s1", "args": {"queries": ["q"]}}}
HITS = {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "s1", "response": {}}}
PICTURE = {"inlineData": {"mimeType": "image/png", "data": "iVBO"}}


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"text": value, **more}


def call(name: str = "f", args: Any = None, *, id: str | None = None, **more: Any) -> dict[str, Any]:
    named = {"name": name} if id is None else {"id": id, "name": name}
    return {"functionCall": named | {"args": {} if args is None else args}, **more}


def answer(name: str = "f", response: Any = None, *, id: str | None = None, **more: Any) -> dict[str, Any]:
    named = {"name": name} if id is None else {"id": id, "name": name}
    return {"functionResponse": named | {"response": {"output": "ok"} if response is None else response} | more}


def said(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def told(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


ASK, MORE = told(text("Hi")), told(text("more"))


# -- reading -----------------------------------------------------------------------------------------------------------

RICH: list[Any] = [
    told(text("Look"), PICTURE, {"fileData": {"mimeType": "application/pdf", "fileUri": "u"}}),
    said(
        text("hm", thought=True),
        text("so", thought=True, thoughtSignature="YQ=="),
        text("Let me "),
        call("f", {"a": [1, {"b": None}]}, id="x1", thoughtSignature="Yg=="),
        call("g"),
        CODE,
        OUTCOME,
        SEARCH,
        HITS,
        PICTURE | {"thought": True},
        text("", thoughtSignature="ZQ=="),
        {"thoughtSignature": "Zg=="},
    ),
    told(answer("f", id="x1"), answer("g", {"error": "no"})),
    said(text("done", thoughtSignature="ZA==")),
    told(text("Go on")),
]


def test_a_good_history_is_the_same_object_after_repair_and_is_written_back_as_it_stood() -> None:
    assert history.lint(RICH, GEMINI) == []
    assert history.repair(RICH, GEMINI) is RICH
    assert again(RICH, GEMINI) == RICH
    check_types(GEMINI, RICH)


def test_provider_state_is_where_the_decoder_leaves_it() -> None:
    entry = WIRE.read(RICH)[1]
    assert isinstance(entry, Reply)
    assert [(part.kind, part.text, part.provider_state) for part in entry.answer.parts] == [
        ("reasoning", "hm", None),
        ("reasoning", "so", {"thoughtSignature": "YQ=="}),
        ("text", "Let me ", None),
        ("call", "", None),
        ("call", "", None),
        ("call", "", None),
        ("provider", "", OUTCOME),
        ("call", "", None),
        ("provider", "", HITS),
        ("provider", "", PICTURE | {"thought": True}),
        ("text", "", {"thoughtSignature": "ZQ=="}),
        ("provider", "", {"thoughtSignature": "Zg=="}),
    ]
    calls = list(entry.answer.calls.values())
    assert [(c.name, c.kind, c.call_id_synthesized, c.provider_state) for c in calls] == [
        ("f", "function", False, {"thoughtSignature": "Yg=="}),
        ("g", "function", True, None),
        ("code_execution", "server", True, {"part": CODE}),
        ("GOOGLE_SEARCH_WEB", "server", False, {"part": SEARCH}),
    ]
    assert calls[3].arguments == {"queries": ["q"]}


@every(
    ("response", "content", "is_error"),
    [
        ({"output": "a"}, "a", False),
        ({"output": [1]}, "[1]", False),
        ({"error": "no"}, "no", True),
        ({"error": {"code": 1}}, '{"code":1}', True),
        ({"output": "a", "more": 1}, '{"output":"a","more":1}', False),
        ({"temperature": 5}, '{"temperature":5}', False),
        ({}, "{}", False),
    ],
)
def test_a_functions_response_is_read_as_text(response: Any, content: str, is_error: bool) -> None:
    (entry,) = WIRE.read([told(answer("f", response, id="x"))])
    assert isinstance(entry, Returned)
    (result,) = entry.results
    assert (result.call_id, result.name, result.content, result.is_error) == ("x", "f", content, is_error)
    assert result.blocks == ()


def test_media_of_a_response_are_blocks() -> None:
    (entry,) = WIRE.read([told(answer(parts=[PICTURE]))])
    assert isinstance(entry, Returned)
    first, picture = entry.results[0].blocks
    assert first == Text("ok")
    assert isinstance(picture, Media)
    assert (picture.kind, picture.mime_type, picture.data) == ("image", "image/png", "iVBO")
    assert entry.results[0].content == "ok\n[image: image/png]"


def test_the_spelling_of_protocol_buffers_is_read_too() -> None:
    contents = [
        {"role": "user", "parts": [{"inline_data": {"mime_type": "audio/wav", "data": b"\x00\x01"}}]},
        {"role": "model", "parts": [{"function_call": {"name": "f", "args": {"a_b": 1}}, "thought_signature": "YQ=="}]},
        {"role": "tool", "parts": [{"function_response": {"name": "f", "response": {"a_b": 1}}}]},
    ]
    assert found(contents, GEMINI) == []
    prompt, turn, results = WIRE.read(contents)
    assert isinstance(prompt, Prompt)
    assert isinstance(turn, Reply)
    assert isinstance(results, Returned)
    (sound,) = prompt.blocks
    assert isinstance(sound, Media)
    assert (sound.kind, sound.data) == ("audio", "AAE=")
    (made,) = turn.answer.calls.values()
    assert (made.arguments, made.provider_state) == ({"a_b": 1}, {"thoughtSignature": "YQ=="})
    assert results.results[0].content == '{"a_b":1}'


def test_files_are_read_by_their_address_and_what_only_gemini_knows_is_opaque() -> None:
    (prompt,) = WIRE.read([told(RICH[0]["parts"][2], {"videoMetadata": {}}, {"inlineData": {}}, PICTURE)])
    assert isinstance(prompt, Prompt)
    file, *odd, _ = prompt.blocks
    assert isinstance(file, Media)
    assert (file.kind, file.url, file.mime_type) == ("file", "u", "application/pdf")
    assert all(isinstance(block, Opaque) for block in odd)


ODD: list[Any] = [
    None, 1, "x", {"role": ["user"]}, {"role": "system"}, {"role": "user"}, {"role": "user", "parts": "x"}, {},
    told(None, 1, {}, {"text": None}, {"text": 5}, {"functionResponse": 1}, {"functionResponse": {}}),
    told({"functionResponse": {"name": 1, "id": {}, "response": [object()], "parts": 1}}), {"role": "model"},
    said(None, {"functionCall": 1}, {"functionCall": {}}, {"functionCall": {"name": 1, "id": 1, "args": "{"}}),
    said({"executableCode": 1}, {"toolCall": 1}, {"toolCall": {"toolType": 1, "args": 1}}, {"text": 1}, {"x": 1}),
    said({"text": "", "thought": True}, {"thought": True}, {"text": "a", "functionCall": {"name": "f"}}),
]  # fmt: skip


@every("odd", ODD)
def test_odd_contents_are_mended_or_dropped_and_never_raise(odd: Any) -> None:
    after = history.repair([ASK, odd, said(text("ok"))], GEMINI, last=True)
    assert found(after, GEMINI) == []
    assert after[0] is ASK


# -- what the API refuses ----------------------------------------------------------------------------------------------

COUNT = "the number of function response parts is equal to the number of function call parts"
SIGNATURE = "Function call is missing a thought_signature in functionCall parts."

REFUSED: dict[str, tuple[list[Any], str, str]] = {
    "a call without a response": ([ASK, said(call("f"), call("g")), told(answer("f")), MORE], "unanswered_call", COUNT),
    "two responses of a call": (
        [ASK, said(call(id="x")), told(answer(id="x"), answer(id="x"))],
        "duplicate_result",
        COUNT,
    ),
    "responses in two contents": (
        [ASK, said(call("f"), call("g")), told(answer("f")), told(answer("g"))],
        "result_count",
        COUNT,
    ),
    "a response beside something else": ([ASK, said(call()), told(answer(), text("And?"))], "mixed_results", COUNT),
    "a response without a call": (
        [ASK, told(answer("f", id="y"))],
        "orphan_result",
        "function response turn comes immediately after a function call turn",
    ),
    "something between a call and its response": (
        [ASK, said(call()), MORE, told(answer())],
        "content_before_results",
        "function response turn comes immediately after a function call turn",
    ),
    "a call behind what the model said": (
        [ASK, said(text("Let me see")), said(call()), told(answer())],
        "role_order",
        "function call turn comes immediately after a user turn or after a function response turn",
    ),
    "a call at the beginning": (
        [said(call()), told(answer())],
        "first_not_user",
        "function call turn comes immediately after a user turn or after a function response turn",
    ),
    "a content without parts": ([ASK, said(), MORE], "empty_message", "it must include at least one parts field"),
    "an empty text": (
        [ASK, said(text("a"), text("")), MORE],
        "empty_message",
        "required oneof field 'data' must have one initialized field",
    ),
    "thoughts alone": (
        [ASK, said(text("hm", thought=True)), MORE],
        "empty_message",
        "it must include at least one parts field",
    ),
    "a step without its signature": (
        [
            ASK,
            said(call(id="x", thoughtSignature="YQ==")),
            told(answer(id="x")),
            said(call(id="y")),
            told(answer(id="y")),
        ],
        "missing_signature",
        SIGNATURE,
    ),
    "a reference in a response": (
        [ASK, said(call()), told(answer("f", {"schema": {"items": [{"$ref": "#/$defs/A"}]}}))],
        "bad_result",
        "does not match to a display_name in the function_response.parts",
    ),
    "a role of others": (
        [ASK, {"role": "assistant", "parts": [text("x")]}],
        "not_a_message",
        "Please use a valid role",
    ),
}


@every("name", REFUSED)
def test_what_the_api_refuses_is_found_in_its_words_and_mended(name: str) -> None:
    contents, code, words = REFUSED[name]
    told_ = [(v.code, v.provider_text) for v in found(contents, GEMINI)]
    assert any(found_ == code and words in said_ for found_, said_ in told_), told_
    repaired(contents, GEMINI)


def test_a_call_joins_what_the_model_said_before_it_and_each_signature_stays_on_its_part() -> None:
    first, second = text("Let me see", thoughtSignature="YQ=="), call(thoughtSignature="Yg==")
    after = repaired([ASK, said(first), said(second), said(call("g")), told(answer("g"))], GEMINI)
    assert after[1] == said(first, second)
    assert [part["functionResponse"]["name"] for part in after[2]["parts"]] == ["f"]


def test_a_lost_signature_is_replaced_by_the_documented_stand_in_on_the_first_call_of_its_step() -> None:
    signed = said(call(id="x", thoughtSignature="YQ=="))
    contents = [
        ASK,
        signed,
        told(answer(id="x")),
        said(call(id="y"), call("g", id="z")),
        told(answer(id="y"), answer("g", id="z")),
    ]
    after = repaired(contents, GEMINI)
    assert after[3] == said(call(id="y", thoughtSignature=SKIP), call("g", id="z"))
    assert [one is other for one, other in zip(after, contents, strict=True)] == [True, True, True, False, True]


def test_steps_of_earlier_turns_and_of_models_that_never_sign_need_no_signature() -> None:
    earlier = [ASK, said(call(id="x")), told(answer(id="x")), said(text("a"))]
    assert found([*earlier, MORE, said(call(id="y", thoughtSignature="YQ==")), told(answer(id="y"))], GEMINI) == []
    assert found([ASK, said(call()), told(answer()), said(call()), told(answer())], GEMINI) == []
    on_text = [ASK, said(text("a", thoughtSignature="YQ=="), call()), told(answer())]
    assert found(on_text, GEMINI) == []


def test_code_without_its_outcome_is_dropped() -> None:
    contents = [ASK, said(text("a"), CODE, SEARCH, HITS), MORE]
    assert codes(contents, GEMINI) == ["unanswered_call"]
    assert repaired(contents, GEMINI) == [ASK, said(text("a"), SEARCH, HITS), MORE]


def test_a_response_that_is_no_object_becomes_one_and_a_reference_becomes_text() -> None:
    listed = repaired([ASK, said(call()), told({"functionResponse": {"name": "f", "response": [1]}})], GEMINI)
    assert listed[2] == told(answer("f", {"output": [1]}))
    nothing = repaired([ASK, said(call()), told({"functionResponse": {"name": "f"}})], GEMINI)
    assert nothing[2] == told(answer("f", {"output": ""}))
    for response, after in (
        ({"output": {"$ref": "a"}}, {"output": '{"$ref":"a"}'}),
        ({"error": {"$ref": "a"}}, {"error": '{"$ref":"a"}'}),
        ({"$ref": "a"}, {"output": '{"$ref":"a"}'}),
    ):
        assert repaired([ASK, said(call()), told(answer("f", response))], GEMINI)[2] == told(answer("f", after))
    named = answer("f", {"image": {"$ref": "p.png"}}, parts=[PICTURE])
    assert found([ASK, said(call()), told(named)], GEMINI) == []


def test_arguments_as_text_become_the_object_that_they_tell_of() -> None:
    contents = [ASK, said(call("f", '{"a": 1}')), told(answer("f"))]
    assert codes(contents, GEMINI) == ["arguments_not_object"]
    assert repaired(contents, GEMINI)[1] == said(call("f", {"a": 1}))


def test_a_response_has_its_calls_name() -> None:
    contents = [ASK, said(call("f", id="x")), told(answer("g", id="x"))]
    assert codes(contents, GEMINI) == ["bad_name"]
    assert repaired(contents, GEMINI)[2] == told(answer("f", id="x"))


# -- writing -----------------------------------------------------------------------------------------------------------

PDF = Media(kind="file", mime_type="application/pdf", data="JVBE")
CALLED = parse([{"candidates": [{"content": {"parts": [call(id="x")]}, "finishReason": "STOP"}]}], wire=GEMINI)


def response_of(result: ToolResult | None, content: str = "t") -> dict[str, Any]:
    """The response of a turn's one call, as it is written."""
    contents = observed(CALLED, result, content=content).messages()
    check_types(GEMINI, contents)
    response: dict[str, Any] = contents[-1]["parts"][0]["functionResponse"]
    assert (response.pop("id"), response.pop("name")) == ("x", "f")
    return response


@every(
    ("blocks", "response"),
    [
        ((), {"response": {"output": "t"}}),
        ((Text("a"), Text("b")), {"response": {"output": "t"}}),
        (
            (Text("a"), Media(kind="image", mime_type="image/png", data="iVBO")),
            {"response": {"output": "a"}, "parts": [PICTURE]},
        ),
        (
            (PDF, Media(kind="audio", mime_type="audio/wav", data="AAAA")),
            {
                "response": {"output": "[audio: audio/wav]"},
                "parts": [{"inlineData": {"mimeType": "application/pdf", "data": "JVBE"}}],
            },
        ),
        ((Media(kind="image", mime_type="image/gif", data="R0lG"),), {"response": {"output": "t"}}),
        ((Media(kind="image", mime_type="image/png", url="u"),), {"response": {"output": "t"}}),
    ],
)  # fmt: skip
def test_what_a_tool_returned_is_written_as_output_and_parts(blocks: Any, response: dict[str, Any]) -> None:
    assert response_of(ToolResult(blocks=blocks)) == response


@every(
    ("native", "response"),
    [
        ({"k": 1}, {"k": 1}),
        ([1], {"output": [1]}),
        ("a", {"output": "a"}),
        ({"a": {"$ref": "x"}}, {"output": '{"a":{"$ref":"x"}}'}),
        ([{"$ref": "x"}], {"output": '[{"$ref":"x"}]'}),
    ],
)
def test_a_results_own_form_is_the_response_or_its_output(native: Any, response: dict[str, Any]) -> None:
    assert response_of(ToolResult(native={GEMINI: native})) == {"response": response}


def test_a_failure_is_told_as_error() -> None:
    assert response_of(ToolResult(is_error=True), "no") == {"response": {"error": "no"}}
    assert response_of(ToolResult(is_error=True, native={GEMINI: {"k": 1}})) == {"response": {"error": {"k": 1}}}


def test_prompts_are_written_as_parts_and_not_at_all_if_they_say_nothing() -> None:
    prompts = [
        (Prompt(role="user", blocks=(Text("a"), Text(""), Opaque({"x": 1}))), [told(text("a"), {"x": 1})]),
        (Prompt(role="user", blocks=(Media(kind="image", mime_type="image/png", data="iVBO"),)), [told(PICTURE)]),
        (
            Prompt(role="user", blocks=(Media(kind="video", mime_type="video/mp4", url="u"),)),
            [told({"fileData": {"mimeType": "video/mp4", "fileUri": "u"}})],
        ),
        (Prompt(role="user", blocks=(Media(kind="file", file_id="f"),)), [told(text("[file]"))]),
        (Prompt(role="user", blocks=(Media(kind="file", mime_type="a/b"),)), [told(text("[file: a/b]"))]),
        (Prompt(role="user", blocks=()), []),
        (Prompt(role="system", blocks=(Text("a"),)), []),
    ]  # fmt: skip
    for prompt, contents in prompts:
        assert WIRE.render_prompt(prompt) == contents
