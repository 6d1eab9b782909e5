"""`schema(...)` and its methods; and the tables that compare the targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import jsonschema_rs
import pytest
from profiles import every
from pydantic import BaseModel, Field

from streamtools.errors import ExportError, ToolDefinitionError
from streamtools.exports import export, export_output, schema, targets
from streamtools.tools import Tool, tool


class Inner(BaseModel):
    size: int = Field(ge=1, description="How big.")


def add(a: Annotated[int, Field(ge=0)], inner: Inner, b: int = 2) -> int:
    """Add two integers."""
    return a + b


class Point(BaseModel):
    """A point."""

    x: int


@dataclass
class Span:
    """A span."""

    length: float


def test_a_definition_is_made_of_a_function_a_tool_or_a_model() -> None:
    assert schema(add).name == schema(tool(add)).name == "add"
    assert schema(add).description == "Add two integers."
    for model, name in ((Point, "x"), (Span, "length")):
        assert schema(model).name == model.__name__
        assert list(schema(model).parameters["properties"]) == [name]


@every("of", [add, Point, Span])
def test_the_canonical_schema_is_a_closed_object_of_2020_12(of: object) -> None:
    parameters = schema(of).parameters
    assert list(parameters)[:2] == ["$schema", "type"]
    assert parameters["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert parameters["additionalProperties"] is False
    assert "required" in parameters
    jsonschema_rs.meta.validate(parameters)


def test_the_methods_give_what_export_gives() -> None:
    made = schema(tool(add))
    assert made.to_json_schema().keys() == {"name", "description", "parameters", "output"}
    assert made.to("openai.chat_completions") == export(made.tool, "openai.chat_completions").payload
    assert schema(Point).to("openai.chat_completions", strict=True)["function"]["strict"] is True
    assert made.to("openai.responses")["strict"] is False
    assert made.to("mcp")["outputSchema"]["properties"] == {"result": {"type": "integer"}}
    assert "$defs" not in made.to("mcp")["inputSchema"]
    assert "$defs" in made.to("mcp", inline_refs=False)["inputSchema"]
    gemini = made.to("gemini.parameters")["parameters"]
    assert gemini["type"] == "OBJECT"
    assert gemini["properties"]["a"]["type"] == "INTEGER"


@dataclass
class Undescribed:
    x: int


@every("model", [Inner, Undescribed])
def test_the_docstring_of_a_models_base_is_nothing_that_a_model_reads(model: type) -> None:
    with pytest.raises(ToolDefinitionError, match="has no docstring; write one"):
        schema(model)

    def take(value: Any) -> Any:
        """Take it."""
        return value

    take.__annotations__ = {"value": model, "return": model}
    made = Tool.from_model(model, take)
    said = [tool(take).schema, tool(take).output_schema, made.schema, made.description]
    said += [take_.to(wire) for take_ in (made, tool(take)) for wire in targets()]
    said += [export_output(model, wire).request for wire in ("openai.responses", "anthropic.messages", "ollama.chat")]
    for text in map(str, said):
        assert "base class" not in text
        assert "Undescribed(x" not in text


def test_a_payload_that_is_given_alone_has_arguments_that_the_tool_takes() -> None:
    """For each target: either refused, or every call that its schema allows is one of the tool's."""
    given, refused = [], []
    for wire in (*targets(), *(f"{name}.strict" for name in targets(strict=True))):
        made = export(add, wire)
        try:
            payload = schema(add).to(wire)
        except ExportError:
            refused.append(wire)
            assert made.rewritten
            continue
        given.append(wire)
        assert payload == made.payload
        sent = {"a": 1, "inner": {"size": 1}}
        assert made.decode(sent) == sent
    assert "openai.responses.strict" in refused
    assert "openai.responses" in given


@every(
    ("method", "options", "wire", "told"),
    [
        ("to_openai", {}, "openai.chat_completions", {}),
        ("to_anthropic", {}, "anthropic.messages", {"constraints": "description"}),
        ("to_anthropic", {"constraints": "keep"}, "anthropic.messages", {}),
        ("to_gemini", {}, "gemini.parameters", {}),
        ("to_mcp", {}, "mcp", {}),
        ("to_mcp", {"inline_refs": False}, "mcp", {"inline_refs": False}),
    ],
)
def test_a_providers_shape_has_a_method_of_its_own(
    method: str, options: dict[str, Any], wire: str, told: dict[str, Any]
) -> None:
    assert getattr(schema(add), method)(**options) == schema(add).to(wire, **told)


def test_a_strict_shape_that_needs_the_way_back_and_a_misspelt_option_are_refused() -> None:
    assert schema(Point).to_openai(strict=True)["function"]["strict"] is True
    with pytest.raises(ExportError, match="use exported = export_all"):
        schema(add).to_openai(strict=True)
    for misspelt in ("descriptions", None):
        for made in (schema(add).to, lambda *at, **options: export(add, *at, **options)):
            with pytest.raises(ExportError, match="constraints: expected 'keep' or 'description', got"):
                made("anthropic.messages", constraints=misspelt)


def test_anthropic_reads_bounds_in_descriptions_at_every_depth_unless_they_are_kept() -> None:
    told = schema(add).to("anthropic.messages", constraints="description")["input_schema"]
    assert told["properties"]["a"] == {"type": "integer", "description": "(min 0)"}
    assert told["$defs"]["Inner"]["properties"]["size"]["description"] == "How big. (min 1)"
    assert "minimum" not in str(told)
    assert schema(add).to("anthropic.messages") == tool(add).to("anthropic.messages")
