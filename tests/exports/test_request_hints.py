"""More that a provider is told about a tool, in words that mean the same everywhere."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import ToolParam
from openai.types.responses import CustomToolParam, FunctionToolParam, NamespaceToolParam
from profiles import every
from pydantic import TypeAdapter

from streamtools import Tool, tool
from streamtools.content import RequestHints
from streamtools.errors import ToolDefinitionError
from streamtools.exports import export, export_all, parts
from streamtools.wires import WIRES

RESPONSES, ANTHROPIC = "openai.responses", "anthropic.messages"
ALL = RequestHints(
    defer_loading=True, allowed_callers=("direct", "code"), cache="1h", examples=({"city": "Oslo"},), eager=False
)


@tool(effect="pure", hints=ALL)
def look(city: str) -> str:
    """Look."""
    return city


def accepted(kind: Any, payload: dict[str, Any]) -> None:
    TypeAdapter(kind).validate_python(payload)
    assert payload.keys() <= kind.__annotations__.keys()


def test_a_provider_is_told_all_that_it_has_a_field_for() -> None:
    said = look.to(ANTHROPIC)
    assert said | {"input_schema": None, "description": None} == {
        "name": "look",
        "description": None,
        "input_schema": None,
        "defer_loading": True,
        "allowed_callers": ["direct", "code_execution_20260521"],
        "cache_control": {"type": "ephemeral", "ttl": "1h"},
        "input_examples": [{"city": "Oslo"}],
        "eager_input_streaming": False,
    }
    accepted(ToolParam, said)
    assert export(look, ANTHROPIC).losses == ()
    said = look.to(RESPONSES)
    assert (said["defer_loading"], said["allowed_callers"]) == (True, ["direct", "programmatic"])
    accepted(FunctionToolParam, said)


@every("wire", WIRES)
def test_each_hint_is_told_or_named_as_lost(wire: str) -> None:
    plain = tool(effect="pure", name="look")(look.fn)
    one, bare = export(look, wire), export(plain, wire)
    lost = {line.partition(":")[0] for line in one.losses}
    assert lost <= ALL.given().keys()
    assert (one.payload == bare.payload) is (len(lost) == len(ALL.given()))
    assert all(line.endswith(f": {wire} has no field for it") for line in one.losses)


def test_a_freeform_tool_and_one_in_a_namespace_are_told_likewise() -> None:
    hints = RequestHints(defer_loading=True)
    patch = tool(kind="custom", name="patch", hints=hints, effect="pure")(look.fn)
    assert patch.to(RESPONSES)["defer_loading"] is True
    accepted(CustomToolParam, patch.to(RESPONSES))
    grouped = tool(namespace="maps", name="look", hints=hints, effect="pure")(look.fn)
    assert grouped.to(RESPONSES)["tools"][0]["defer_loading"] is True
    accepted(NamespaceToolParam, grouped.to(RESPONSES))
    assert parts(export(grouped, RESPONSES))["name"] == "look"


def test_hints_for_one_request_take_the_place_of_the_tools_own() -> None:
    other = RequestHints(cache="5m")
    assert "defer_loading" not in look.to(ANTHROPIC, hints=other)
    assert export(look, ANTHROPIC, hints=other).payload["cache_control"] == {"type": "ephemeral", "ttl": "5m"}
    assert look.to(ANTHROPIC)["cache_control"]["ttl"] == "1h"
    assert export_all([look], ANTHROPIC).payloads[0]["defer_loading"] is True


def test_examples_are_left_out_where_the_arguments_travel_in_another_form() -> None:
    @tool(effect="pure", hints=RequestHints(examples=({"ages": {"a": 1}},)))
    def count(ages: dict[str, int]) -> int:
        """Count."""
        return len(ages)

    strict = export(count, ANTHROPIC, strict=True)
    assert "input_examples" not in strict.payload
    assert "examples: for anthropic.messages the arguments have another form" in strict.losses
    assert export(count, ANTHROPIC).payload["input_examples"] == [{"ages": {"a": 1}}]


def test_a_tool_from_a_schema_or_a_model_has_hints_too() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    made = Tool.from_schema(look.fn, schema, name="look", hints=ALL)
    assert made.to(ANTHROPIC)["input_examples"] == [{"city": "Oslo"}]


@every(
    ("hints", "message"),
    [
        ({"cache": "2h"}, "cache='2h': must be '5m', '1h' or None"),
        ({"allowed_callers": ("model",)}, r"must be a tuple of 'direct' and 'code'"),
        ({"allowed_callers": "direct"}, r"must be a tuple of 'direct' and 'code'"),
    ],
)
def test_a_hint_has_one_of_the_values_that_it_may_have(hints: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RequestHints(**hints)


def test_an_example_that_the_tool_would_refuse_is_refused_where_the_tool_is_made() -> None:
    with pytest.raises(ToolDefinitionError, match=r"hints\.examples\[1\]: expected arguments that fit, got: .*city"):
        tool(look.fn, name="look", hints=RequestHints(examples=({"city": "Oslo"}, {"town": "Oslo"})))
    with pytest.raises(ToolDefinitionError, match="hints: expected a RequestHints"):
        tool(look.fn, name="look", hints={"cache": "5m"})  # type: ignore[call-overload]
