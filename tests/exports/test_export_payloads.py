"""Tools in the providers' own shapes, checked against the types of the providers' own packages."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from anthropic.types import ToolParam
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from streamtools.errors import ExportError
from streamtools.exports import TARGETS, export
from streamtools.tools import ToolContext, tool

CHAT = "openai.chat_completions"
ANTHROPIC = "anthropic.messages"


class Node(BaseModel):
    value: int
    children: list[Node] = []


@tool
def plant(root: Node, ctx: ToolContext, label: str = "x", *rest: int, **more: dict[str, Any]) -> None:
    """Plant a tree.

    Args:
        root: The root.
    """


@tool
def ping() -> None:
    """Say that you are there."""


CLOSED = ConfigDict(extra="forbid")
TYPES = {
    CHAT: TypeAdapter(list[ChatCompletionFunctionToolParam], config=CLOSED),
    "openai.responses": TypeAdapter(list[FunctionToolParam], config=CLOSED),
    ANTHROPIC: TypeAdapter(list[ToolParam], config=CLOSED),
}


@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("made", [plant, ping])
def test_a_payload_is_what_the_providers_package_types(made: Any, target: str) -> None:
    payload = made.to(target)
    assert TYPES[target].validate_python([payload]) == [payload]
    with pytest.raises(ValueError, match="unknown_key"):
        TYPES[target].validate_python([{**payload, "unknown_key": 1}])


def test_the_payloads_carry_the_tools_own_schema() -> None:
    assert plant.to(CHAT) == {
        "type": "function",
        "function": {"name": "plant", "description": "Plant a tree.", "parameters": plant.schema},
    }
    assert plant.to(ANTHROPIC) == {
        "name": "plant",
        "description": "Plant a tree.",
        "input_schema": plant.schema,
    }
    said = {"name": "plant", "description": "Plant a tree."}
    assert plant.to("openai.responses") == {
        "type": "function",
        **said,
        "parameters": plant.schema,
        "strict": False,
    }
    assert plant.to("gemini.generate_content") == {**said, "parametersJsonSchema": plant.schema}
    assert plant.to("bedrock.converse_stream") == {"toolSpec": {**said, "inputSchema": {"json": plant.schema}}}
    for wire in ("mistral.chat", "cohere.chat", "ollama.chat"):
        assert plant.to(wire) == plant.to(CHAT)


@pytest.mark.parametrize("target", TARGETS)
def test_payloads_are_fresh_and_the_same_every_time(target: str) -> None:
    first = plant.to(target)
    second = plant.to(target)
    assert first == second
    first.clear()
    next((value for value in second.values() if isinstance(value, dict)), second)["description"] = ""
    assert plant.to(target) == export(plant, target).payload != second


@pytest.mark.parametrize("target", TARGETS)
def test_what_the_model_sends_needs_no_decoding(target: str) -> None:
    exported = export(plant, target)
    sent = {"root": {"value": 1}}
    assert exported.decode(sent) == sent
    assert exported.losses == ()


def test_an_unknown_target_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        ExportError, match=r"'openai'; known: openai\.chat_completions, openai\.responses, anthropic\.messages"
    ):
        plant.to("openai")


@pytest.mark.parametrize("target", TARGETS)
def test_a_dot_in_the_name_is_refused_but_by_gemini(target: str) -> None:
    dotted = tool(ping.fn, name="system.ping")
    if target == "gemini.generate_content":
        assert dotted.to(target)["name"] == "system.ping"
        return
    with pytest.raises(ExportError, match=rf"tool 'system\.ping': {target} does not take this name"):
        dotted.to(target)


@pytest.mark.parametrize("alias", ["größe", "a b", "@type", "x" * 65])
def test_argument_names_that_anthropic_refuses_are_refused(alias: str) -> None:
    @tool
    def f(a: Annotated[int, Field(alias=alias)]) -> None:
        """Measure."""

    with pytest.raises(ExportError, match=r"rename the parameter, or .*Field\(alias='\.\.\.'\)"):
        f.to(ANTHROPIC)
    assert alias in f.to(CHAT)["function"]["parameters"]["properties"]


@pytest.mark.parametrize("alias", ["a.b-c_9", "x" * 64])
def test_argument_names_that_anthropic_takes_are_exported(alias: str) -> None:
    @tool
    def f(a: Annotated[int, Field(alias=alias)]) -> None:
        """Measure."""

    assert list(f.to(ANTHROPIC)["input_schema"]["properties"]) == [alias]
