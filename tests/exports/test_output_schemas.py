"""What a provider is told of a tool's results: what the tool declares, in the provider's dialect, or a loss."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai.types import FunctionDeclaration
from openai.types.responses import FunctionToolParam
from profiles import every
from pydantic import BaseModel, TypeAdapter

from streamtools import tool
from streamtools.content import RequestHints
from streamtools.errors import SchemaError, ToolDefinitionError
from streamtools.exports import export, parts, targets
from streamtools.tools import Tool

RESPONSES, GEMINI, OPENAPI = "openai.responses", "gemini.generate_content", "gemini.parameters"
FIELDS = {
    RESPONSES: "output_schema",
    GEMINI: "responseJsonSchema",
    OPENAPI: "response",
    "gemini.live": "response",
    "mcp": "outputSchema",
}


class Parcel(BaseModel):
    eta: str
    stops: list[str] = []


def declaring(declared: Any, **options: Any) -> Tool[..., Any]:
    @tool(effect="pure", output_schema=declared, **options)
    def track(order: int) -> dict[str, Any]:
        """Track."""
        return {}

    return track


@every("target", FIELDS)
def test_a_declared_schema_is_told(target: str) -> None:
    one = export(declaring(Parcel), target)
    assert (
        {"eta", "stops"}
        == parts(one)["output"]["properties"].keys()
        == one.payload[FIELDS[target]]["properties"].keys()
    )
    assert one.losses == ()


def test_where_there_is_no_field_for_it_that_is_a_loss() -> None:
    for target in set(targets()) - FIELDS.keys():
        one, bare = export(declaring(Parcel), target), export(declaring(None), target)
        assert (one.payload, bare.losses) == (bare.payload, ())
        assert one.losses == (f"output_schema: {target} has no field for it",)


def test_the_sdks_take_it() -> None:
    for strict in (False, True):
        said = export(declaring(Parcel), RESPONSES, strict=strict).payload
        TypeAdapter(FunctionToolParam).validate_python(said)
        assert said.keys() <= FunctionToolParam.__annotations__.keys()
        for target, field in ((GEMINI, "response_json_schema"), (OPENAPI, "response")):
            declaration = FunctionDeclaration.model_validate(export(declaring(Parcel), target, strict=strict).payload)
            assert getattr(declaration, field) is not None


def test_the_annotation_alone_is_told_by_mcp_and_nobody_else() -> None:
    @tool(effect="pure")
    def track(order: int) -> Parcel:
        """Track."""
        raise NotImplementedError

    told = [target for target in targets() if "output" in parts(export(track, target))]
    assert told == ["mcp"]


def test_a_result_that_is_no_object_is_told_as_it_is_except_by_mcp() -> None:
    for declared in (list[int], int | str):
        track = declaring(declared)
        for target in (RESPONSES, GEMINI):
            assert parts(export(track, target))["output"] == track.output_schema
        assert parts(export(track, "mcp"))["output"]["properties"] == {"result": track.output_schema}


def test_what_a_dialect_would_say_in_another_form_is_not_told() -> None:
    """Nothing turns a tool's result into the list of entries that stands for a map there."""
    one = export(declaring(dict[str, int]), OPENAPI)
    assert "response" not in one.payload
    assert one.losses == (f"output_schema: left out; for {OPENAPI} it would have another form than the result",)


def test_what_a_dialect_cannot_say_at_all_is_not_told() -> None:
    one = export(declaring({"type": "object", "properties": {"a": False}, "required": ["a"]}), GEMINI)
    assert "responseJsonSchema" not in one.payload
    assert one.losses[0].startswith("output_schema: left out; ")


def test_an_entry_that_the_provider_defines_tells_no_results() -> None:
    given = declaring(Parcel, hints=RequestHints(entry={"type": "computer"}))
    assert export(given, RESPONSES).payload == {"type": "computer"}
    assert export(given, "anthropic.messages").losses == ()


def test_what_declares_nothing_is_refused() -> None:
    for declared in ("Parcel", object(), False):
        with pytest.raises(ToolDefinitionError, match="output_schema: expected a JSON Schema, a type that has one, or"):
            declaring(declared)


def test_an_annotation_without_a_schema_is_refused_where_it_was_asked_for() -> None:
    with pytest.raises(ToolDefinitionError, match="no schema can be made from its return annotation"):

        @tool(output_schema=True)
        def f() -> None:
            """F."""


def test_a_schema_that_is_none_is_refused_where_the_tool_is_made() -> None:
    for schema in ({"type": "nothing"}, {"$ref": "https://elsewhere.example"}, {"a": object()}):
        with pytest.raises(SchemaError):
            declaring(schema)


def test_patterns_that_are_not_enforced_are_listed() -> None:
    (line,) = declaring({"type": "string", "pattern": r"(a)\1"}).check()
    assert line.startswith("output_schema: ")
    assert line.endswith("it is not enforced")
