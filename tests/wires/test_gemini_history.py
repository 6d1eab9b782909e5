"""Gemini's contents: its own turns go back as they came; what becomes of turns of other wires, and of its own there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from every_wire import GEMINI
from gemini_streams import call, gemini, piece, pieces, response, text
from sansio import ANTHROPIC, CHAT, QUIRKS, body_of, check_histories
from streams import anthropic, chat
from wire_cases.gemini import SKIP

from streamtools import Turn, parse, pipeline, tool
from streamtools.wires.gemini.history import FOREIGN_SIGNATURE

NOT_RUN = "Error: the call was interrupted and has no result."


def read(*parts: Any, finish: str = "STOP") -> Turn:
    turn = parse([response(*parts), response(finish=finish)], wire=GEMINI)
    check_histories(turn)
    return turn


def answers(*given: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": [{"functionResponse": one} for one in given]}


# -- its own turns -----------------------------------------------------------------------------------------------------


def test_a_turn_goes_back_to_its_own_wire_as_it_came() -> None:
    parts = [
        text("hm", thought=True),
        text("so", thought=True, signature="YQ=="),
        text("Let me "),
        call("f", {"a": [1, {"b": None}]}, id="x1", signature="Yg=="),
        call("g", {}),
        {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "Yw=="},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": "AP8="}, "thought": True},
        text("done", signature="ZA=="),
        text("", signature="ZQ=="),
    ]
    assert read(*parts).messages() == [
        {"role": "model", "parts": parts},
        answers(
            {"id": "x1", "name": "f", "response": {"error": NOT_RUN}},
            {"name": "g", "response": {"error": NOT_RUN}},
        ),
    ]


def test_pieces_of_text_are_one_part_and_what_is_empty_is_none() -> None:
    turn = read(text("a"), text(""), text("b"), text("", thought=True), call("f"), text(""))
    assert turn.messages()[0]["parts"] == [{"text": "ab"}, {"functionCall": {"name": "f", "args": {}}}]


def test_summaries_of_thoughts_alone_are_no_content() -> None:
    assert read(text("hm", thought=True), finish="MAX_TOKENS").messages() == []
    assert read().messages() == []
    signed = read(text("hm", thought=True, signature="YQ=="), finish="MAX_TOKENS")
    assert signed.messages()[0]["parts"] == [text("hm", thought=True, signature="YQ==")]


def test_a_call_that_came_in_pieces_goes_back_whole_and_one_that_was_cut_empty() -> None:
    turn = read(
        call("f", willContinue=True, signature="YQ=="),
        pieces(piece("$.a", numberValue=1), goes_on=False),
        call("g", willContinue=True),
        pieces(piece("$.b", numberValue=1)),
    )
    assert turn.messages()[0]["parts"] == [
        call("f", {"a": 1}, signature="YQ=="),
        call("g", {}),
    ]


def test_a_second_call_of_one_id_goes_back_without_it() -> None:
    turn = read(call("f", {"a": 1}, id="i"), call("f", {"a": 2}, id="i"))
    assert [part["functionCall"].get("id") for part in turn.messages()[0]["parts"]] == ["i", None]


def test_names_are_such_that_the_api_takes_them() -> None:
    names = ["default_api:run.it", "a b", "0x", "", "é", "n" * 128]
    turn = read(*(call(name, {"a": 1}) for name in names))
    sent = [part["functionCall"]["name"] for part in turn.messages()[0]["parts"]]
    assert sent == ["default_api:run.it", "a_b", "_0x", "unknown_tool", "_", "n" * 128]
    assert [part["functionResponse"]["name"] for part in turn.messages()[1]["parts"]] == sent


@pytest.mark.parametrize(
    ("parts", "kept"),
    [
        (["code"], []),
        (["code", "code_result"], [0, 1]),
        (["code", "code", "code_result"], [1, 2]),
        (["code", "code_result", "code_result"], [0, 1, 2]),
        (["call:a", "call:b", "response:b"], [1, 2]),
        (["call:a", "response:"], [0, 1]),
        (["call:", "call:", "response:", "response:"], [0, 1, 2, 3]),
        (["call:", "call:", "response:"], [1, 2]),
        (["call:a", "response:b"], [1]),
        (["call:a", "code_result"], [1]),
    ],
)
def test_what_the_provider_ran_goes_back_only_with_its_result(parts: list[str], kept: list[int]) -> None:
    shapes = {
        "code": "executableCode",
        "code_result": "codeExecutionResult",
        "call": "toolCall",
        "response": "toolResponse",
    }
    made = []
    for part in parts:
        kind, _, id_ = part.partition(":")
        made.append({shapes[kind]: {"id": id_} if id_ else {"language": "PYTHON"}})
    sent = read(*made, text("end"), finish="MAX_TOKENS").messages()[0]["parts"]
    assert sent == [*(made[number] for number in kept), {"text": "end"}]


@pytest.mark.anyio
async def test_results_stand_in_call_order_with_output_or_error() -> None:
    @tool(effect="pure")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async with pipeline(
        gemini([], [("add", {"a": 1, "b": 2}), ("lost", {}), ("add", {"a": "x"})]), tools=[add]
    ) as stream:
        async for _ in stream:
            pass
    [first, second, third] = [part["functionResponse"] for part in stream.turn.messages()[1]["parts"]]
    assert first == {"name": "add", "response": {"output": "3"}}
    assert (second["name"], list(second["response"])) == ("lost", ["error"])
    assert list(third["response"]) == ["error"]


# -- between wires -----------------------------------------------------------------------------------------------------


def test_a_turn_of_another_wire_becomes_text_and_calls() -> None:
    turn = parse(chat(["Let me"], [("call_1", "f", '{"a": 1}'), ("call|2", "g", "{}")]))
    assert turn.messages(GEMINI) == [
        {
            "role": "model",
            "parts": [
                {"text": "Let me"},
                {
                    "functionCall": {"id": "call_1", "name": "f", "args": {"a": 1}},
                    "thoughtSignature": FOREIGN_SIGNATURE,
                },
                {"functionCall": turn.messages(GEMINI)[0]["parts"][2]["functionCall"] | {"name": "g", "args": {}}},
            ],
        },
        answers(
            {"id": "call_1", "name": "f", "response": {"error": NOT_RUN}},
            turn.messages(GEMINI)[1]["parts"][1]["functionResponse"],
        ),
    ]
    foreign = turn.messages(GEMINI)[0]["parts"][2]["functionCall"]["id"]
    assert foreign.startswith("call_")
    assert foreign == turn.messages(GEMINI)[1]["parts"][1]["functionResponse"]["id"]
    assert SKIP == FOREIGN_SIGNATURE


def test_state_of_another_provider_stays_behind() -> None:
    block = {"type": "thinking", "thinking": "hm", "signature": "s"}
    start = {"type": "message_start", "message": {"id": "m", "model": "c", "content": [block]}}
    turn = parse([start, {"type": "message_stop"}])
    assert turn.reasoning == "hm"
    assert turn.messages(GEMINI) == []
    blank = parse(anthropic([" "], [("toolu_1", "f", "{}")]))
    assert [list(part) for part in blank.messages(GEMINI)[0]["parts"]] == [["functionCall", "thoughtSignature"]]


def test_its_own_state_stays_behind_elsewhere() -> None:
    turn = read(
        text("hm", thought=True, signature="YQ=="),
        {"executableCode": {"code": "1"}},
        {"codeExecutionResult": {}},
        text("a", signature="Yg=="),
        call("f", {"n": 1}, id="x.1", signature="Yw=="),
    )
    [message, result] = turn.messages(CHAT)
    assert message["content"] == "a"
    assert [c["function"]["arguments"] for c in message["tool_calls"]] == ['{"n":1}']
    assert "YQ==" not in json.dumps(turn.messages(ANTHROPIC)) + json.dumps([message, result])
    assert [block["type"] for block in turn.messages(ANTHROPIC)[0]["content"]] == ["text", "tool_use"]


# -- the SDK -----------------------------------------------------------------------------------------------------------


def test_the_sdks_types_take_the_contents() -> None:
    types = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    ours = ("gemini-unknown-part", "gemini-thought-parts")  # a kind that no SDK knows; a signature that is no Base64
    for quirk in QUIRKS:
        turn = parse(body_of(quirk), wire=quirk["wire"], tools=quirk["tools"])
        for content in turn.messages(GEMINI) if quirk["id"] not in ours else ():
            read_back = types.Content.model_validate(content).model_dump(mode="json", by_alias=True, exclude_none=True)
            assert read_back == content, quirk["id"]


def test_the_sdks_own_objects_are_read_like_the_wires() -> None:
    types = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    payloads = [
        response(text("hm", thought=True, signature="YWJj")),
        response(text("a"), call("f", {"my_arg": None}), usageMetadata={"promptTokenCount": 3}),
        response({"executableCode": {"language": "PYTHON", "code": "1"}}, {"codeExecutionResult": {"output": "1"}}),
        response({"inlineData": {"mimeType": "image/png", "data": "AQID"}}, finish="STOP"),
    ]
    plain = parse(payloads)
    objects = [types.GenerateContentResponse.model_validate_json(json.dumps(payload)) for payload in payloads]
    for options in ({}, {"mode": "json"}, {"by_alias": True}, {"by_alias": True, "exclude_none": True}):
        turn = parse([thing.model_dump(**options) for thing in objects])
        assert turn.messages() == plain.messages()
        assert (turn.text, turn.finish, turn.usage, turn.model) == (plain.text, plain.finish, plain.usage, plain.model)
