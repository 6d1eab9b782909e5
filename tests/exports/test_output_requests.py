"""The request's part of structured output: the fields that ask for an answer of a type, and the way back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from anthropic.types import OutputConfigParam
from botocore.session import Session
from botocore.validate import ParamValidator
from constrained_model import say
from every_wire import framed, said
from google.genai.types import GenerateContentConfig
from openai.types.responses import ResponseTextConfigParam
from openai.types.shared_params import ResponseFormatJSONSchema
from profiles import every, mostly_thorough
from pydantic import BaseModel, Field, TypeAdapter
from strict_subset import problems
from typing_extensions import TypedDict

from streamtools import parse
from streamtools.errors import ExportError, SchemaError, ToolDefinitionError
from streamtools.exports import export_output
from streamtools.wires import WIRES, find

CHAT, ANTHROPIC, BEDROCK, GEMINI = (
    "openai.chat_completions",
    "anthropic.messages",
    "bedrock.converse_stream",
    "gemini.generate_content",
)


class City(BaseModel):
    name: str
    people: int = Field(default=1, ge=0)
    twins: dict[str, int] = {}


@dataclass
class Town:
    name: str


class Village(TypedDict):
    name: str


class Node(BaseModel):
    kids: list[Node] = []


NAMED = {"type": "object", "properties": {"name": {"type": "string"}}}
SCHEMA_AT: dict[str, Callable[[dict[str, Any]], Any]] = {
    CHAT: lambda request: request["response_format"]["json_schema"]["schema"],
    "openai.responses": lambda request: request["text"]["format"]["schema"],
    ANTHROPIC: lambda request: request["output_config"]["format"]["schema"],
    GEMINI: lambda request: request["generationConfig"]["responseJsonSchema"],
    "gemini.interactions": lambda request: request["response_format"]["schema"],
    "mistral.chat": lambda request: request["response_format"]["json_schema"]["schema"],
    "cohere.chat": lambda request: request["response_format"]["json_schema"],
    "ollama.chat": lambda request: request["format"],
    BEDROCK: lambda request: json.loads(request["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["schema"]),
}


def test_every_wire_can_be_asked_but_a_session_over_a_socket() -> None:
    sessions = {"openai.realtime", "gemini.live"}
    assert SCHEMA_AT.keys() == set(WIRES) - sessions
    for wire in sessions:
        with pytest.raises(ExportError, match=rf"'{wire}' has no structured output"):
            export_output(City, wire)


@every("wire", mostly_thorough([*SCHEMA_AT], 2))
def test_an_answer_in_the_requests_form_becomes_the_type(wire: str) -> None:
    """As a model would write it that is held to the schema: null for what is left out, entries for a map."""
    answer = export_output(City, wire)
    plain = {"name": "Oslo", "twins": {"Lima": 3}}
    text = json.dumps(say(SCHEMA_AT[wire](answer.request), plain))
    turn = parse(framed(wire, said(wire, text=[text])), wire=wire, output=answer)
    assert (turn.output, turn.output_problem) == (City(name="Oslo", twins={"Lima": 3}), None)


@every("wire", mostly_thorough([*SCHEMA_AT], 1))
def test_each_kind_of_type_can_be_asked_for(wire: str) -> None:
    for kind, value in ((Town, Town("Oslo")), (Village, {"name": "Oslo"}), (NAMED, {"name": "Oslo"})):
        answer = export_output(kind, wire)
        text = json.dumps(say(SCHEMA_AT[wire](answer.request), {"name": "Oslo"}))
        assert parse(framed(wire, said(wire, text=[text])), wire=wire, output=answer).output == value


def bedrock(request: dict[str, Any]) -> None:
    operation = Session().get_service_model("bedrock-runtime").operation_model("ConverseStream")
    body = {"modelId": "m", "messages": [{"role": "user", "content": [{"text": "?"}]}], **request}
    assert not ParamValidator().validate(body, operation.input_shape).has_errors()


TAKES: dict[str, Callable[[dict[str, Any]], object]] = {
    CHAT: lambda request: TypeAdapter(ResponseFormatJSONSchema).validate_python(request["response_format"]),
    "openai.responses": lambda request: TypeAdapter(ResponseTextConfigParam).validate_python(request["text"]),
    ANTHROPIC: lambda request: TypeAdapter(OutputConfigParam).validate_python(request["output_config"]),
    GEMINI: lambda request: GenerateContentConfig.model_validate(request["generationConfig"]),
    BEDROCK: bedrock,
}


def test_the_sdks_take_the_request() -> None:
    for wire, takes in TAKES.items():
        request = export_output(City, wire).request
        takes(request)
        assert len(request) == 1


def test_a_strict_schema_is_in_the_documented_subset_and_a_loose_one_is_as_it_was_written() -> None:
    for wire in (CHAT, "openai.responses", "mistral.chat"):
        assert problems(SCHEMA_AT[wire](export_output(City, wire).request)) == []
        loose = export_output(City, wire, strict=False)
        assert SCHEMA_AT[wire](loose.request)["properties"]["twins"]["additionalProperties"] == {"type": "integer"}
        assert '"strict": false' in json.dumps(loose.request)
        assert not loose.rewritten


def test_a_provider_that_holds_the_model_to_every_schema_cannot_be_told_otherwise() -> None:
    for wire in (ANTHROPIC, GEMINI, "cohere.chat", "ollama.chat", BEDROCK):
        with pytest.raises(ExportError, match=f"{wire} enforces every schema"):
            export_output(City, wire, strict=False)


def test_what_a_dialect_cannot_say_is_a_loss_and_still_enforced() -> None:
    answer = export_output(City, ANTHROPIC)
    assert answer.losses == ("#/properties/people/minimum: in the description only",)
    text = '{"name": "Oslo", "people": -1}'
    turn = parse(framed(ANTHROPIC, said(ANTHROPIC, text=[text])), wire=ANTHROPIC, output=answer)
    assert turn.output_problem == "people: should be greater than or equal to 0"


def test_an_answer_in_another_form_than_the_request_asked_for_has_a_problem_without_its_values() -> None:
    text = '{"name": "Oslo", "people": null, "twins": {"Lima": "secret"}}'
    turn = parse(framed(CHAT, said(CHAT, text=[text])), wire=CHAT, output=export_output(City, CHAT))
    assert turn.output is None
    assert "twins" in str(turn.output_problem)
    assert "secret" not in str(turn.output_problem)


def test_a_request_is_a_copy_of_ones_own() -> None:
    answer = export_output(City, CHAT)
    answer.request["response_format"]["json_schema"].clear()
    assert answer.request["response_format"]["json_schema"]["name"] == "City"


NAMES: list[tuple[Any, str | None, str]] = [
    (City, None, "City"),
    (City, "the_city", "the_city"),
    ({"type": "object", "title": "Ville"}, None, "Ville"),
    ({"type": "object"}, None, "answer"),
    ({"type": "object", "title": 7}, None, "answer"),
]


def test_the_schema_has_a_name_that_providers_take() -> None:
    for kind, name, told in NAMES:
        assert export_output(kind, CHAT, name=name).request["response_format"]["json_schema"]["name"] == told


def test_a_name_that_providers_do_not_take_is_changed() -> None:
    name = export_output(City, CHAT, name="die Stadt").name
    assert name.startswith("die_Stadt_")
    assert len(name) <= 64


def test_a_wire_of_ones_own_can_be_asked_if_it_says_how() -> None:
    own = replace(find(CHAT), name="own")
    assert export_output(City, own).request == export_output(City, CHAT).request
    with pytest.raises(ExportError, match="'own' has no structured output; wires with structured output: "):
        export_output(City, replace(own, structured=None))


def test_an_unknown_wire_is_refused() -> None:
    for wire in ("nobody", "mcp", "gemini.parameters"):
        with pytest.raises(ExportError, match=f"'{wire}' is not a known wire"):
            export_output(City, wire)


def test_a_schema_that_cannot_be_said_is_refused_with_its_place() -> None:
    with pytest.raises(ExportError, match=r"cannot express the schema of the answer: .*contains itself"):
        export_output(Node, ANTHROPIC)
    many = {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(5001)}}
    with pytest.raises(ExportError, match=r"the schema of the answer 'answer': .*properties"):
        export_output(many, CHAT)


def test_what_is_no_type_of_an_answer_is_refused() -> None:
    with pytest.raises(ToolDefinitionError):
        export_output(int, CHAT)
    with pytest.raises(SchemaError):
        export_output({"type": "array"}, CHAT)
