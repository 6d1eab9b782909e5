"""Gemini's contents: its own turns go back as they came, and the SDK takes them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from every_wire import GEMINI
from gemini_streams import call, response, text
from profiles import every
from sansio import check_histories

from streamtools import Turn, parse

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
            {"id": "x1", "name": "f", "response": {"error": NOT_RUN}}, {"name": "g", "response": {"error": NOT_RUN}}
        ),
    ]


def test_summaries_of_thoughts_alone_are_no_content() -> None:
    assert read(text("hm", thought=True), finish="MAX_TOKENS").messages() == []
    assert read().messages() == []
    signed = read(text("hm", thought=True, signature="YQ=="), finish="MAX_TOKENS")
    assert signed.messages()[0]["parts"] == [text("hm", thought=True, signature="YQ==")]


def test_a_second_call_of_one_id_goes_back_without_it() -> None:
    turn = read(call("f", {"a": 1}, id="i"), call("f", {"a": 2}, id="i"))
    assert [part["functionCall"].get("id") for part in turn.messages()[0]["parts"]] == ["i", None]


def test_names_are_such_that_the_api_takes_them() -> None:
    names = ["default_api:run.it", "a b", "0x", "", "é", "n" * 128]
    turn = read(*(call(name, {"a": 1}) for name in names))
    sent = [part["functionCall"]["name"] for part in turn.messages()[0]["parts"]]
    assert sent == ["default_api:run.it", "a_b", "_0x", "unknown_tool", "_", "n" * 128]
    assert [part["functionResponse"]["name"] for part in turn.messages()[1]["parts"]] == sent


@every(
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


# -- the SDK -----------------------------------------------------------------------------------------------------------


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
