"""Tools that take one raw text: what they are, and that calls of either kind run alike."""

from __future__ import annotations

from typing import Annotated, Any

import anyio
import pytest
from profiles import every
from pydantic import Field
from streams import chat, chat_chunk, sse, stream

from streamtools import Observation, ToolContext, pipeline, tool
from streamtools.content import Grammar
from streamtools.errors import InvalidArguments, ToolDefinitionError
from streamtools.tools import Tool


@tool(kind="custom", effect="pure")
def apply_patch(patch: str, ctx: ToolContext) -> str:
    """Apply a patch.

    Args:
        patch: The patch, in the unified format.
    """
    return f"{ctx.tool_name} took {len(patch)}"


@tool(effect="pure")
def count(text: str) -> int:
    """Count."""
    return len(text)


def test_the_schema_is_an_object_with_one_input_whatever_the_parameter_is_called() -> None:
    assert apply_patch.kind == "custom"
    assert apply_patch.schema == {
        "type": "object",
        "properties": {"input": {"type": "string", "description": "The patch, in the unified format."}},
        "required": ["input"],
        "additionalProperties": False,
    }


@every("hint", [str, Annotated[str, "note"], Annotated[str, Field(max_length=9)]])
@every("form", ["({}: X) -> str", "({}: X, /) -> str", "(*, {}: X = 'x') -> str"])
def test_the_text_reaches_the_parameter(hint: Any, form: str) -> None:
    namespace: dict[str, Any] = {"X": hint}
    exec(f"def f{form.format('anything')}:\n    'Echo.'\n    return anything", namespace)
    made = tool(namespace["f"], kind="custom")
    bound = made.validate({"input": "a text"})
    assert bound.by_name == {"anything": "a text"}
    assert made.fn(*bound.args, **bound.kwargs) == "a text"
    assert made.schema["required"] == ["input"]


def test_a_text_that_looks_like_json_stays_a_text() -> None:
    for text in ("", "{}", '"x"', "[1]", "null", '{"input": "x"}', "1"):
        assert apply_patch.validate({"input": text}).by_name == {"patch": text}


@every("arguments", [{}, {"patch": "x"}, {"input": 1}, {"input": "x", "more": 1}, {"input": None}])
def test_other_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments):
        apply_patch.validate(arguments)


@every("syntax", ["bnf", "", None])
def test_a_grammar_of_another_syntax_is_refused_where_it_is_written(syntax: Any) -> None:
    with pytest.raises(ValueError, match=r"Grammar\(syntax=.*\): the syntax must be 'lark' or 'regex'"):
        Grammar(syntax=syntax, definition="x")


def test_a_grammar_makes_a_tool_freeform_and_is_part_of_its_fingerprint() -> None:
    grammar = Grammar(syntax="regex", definition="[0-9]+")
    made = tool(count.fn, grammar=grammar)
    assert (made.kind, made.grammar) == ("custom", grammar)
    assert made.fingerprint != tool(count.fn, kind="custom").fingerprint


def nothing() -> str:
    """None."""
    return ""


def two(a: str, b: str) -> str:
    """Two."""
    return a


def many(*a: str) -> str:
    """Many."""
    return ""


def number(a: int) -> str:
    """Number."""
    return ""


def day(a: Annotated[str, Field(json_schema_extra={"format": "date"})]) -> str:
    """Day."""
    return ""


@every(
    ("function", "parameter", "says"),
    [
        (nothing, None, "this has: none"),
        (two, None, "this has: a, b"),
        (many, None, "this has: a"),
        (number, "a", "takes its text as a str"),
        (day, "a", "takes its text as a str"),
    ],
)
def test_a_function_that_takes_something_else_is_refused(function: Any, parameter: str | None, says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=says) as caught:
        tool(function, kind="custom")
    assert caught.value.parameter == parameter


@every(
    ("options", "says"),
    [
        ({"kind": "raw"}, "kind: expected"),
        ({"grammar": "[0-9]"}, "grammar: expected a Grammar"),
        ({"coerce": "no"}, "coerce: expected"),
    ],
)
def test_options_that_are_none_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=f"tool 'count': {says}"):
        tool(count.fn, **options)


def custom_call(name: str, text: str) -> list[bytes]:
    head = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": name, "input": text}}
    return [*sse([chat_chunk({"tool_calls": [head]}), chat_chunk({}, "tool_calls")]), b"data: [DONE]\n\n"]


def observed(body: list[bytes], *tools: Tool) -> Observation:
    async def read() -> Observation:
        turn = await pipeline(stream(body), tools=tools)
        (observation,) = turn.observations
        return observation

    return anyio.run(read)


def test_a_custom_call_and_a_function_call_run_alike() -> None:
    raw = observed(custom_call("apply_patch", "*** patch"), apply_patch)
    wrapped = observed(chat(calls=[("c1", "apply_patch", '{"input": "*** patch"}')]), apply_patch)
    assert raw.value == wrapped.value == "apply_patch took 9"
    assert raw.validated_args == wrapped.validated_args == {"patch": "*** patch"}
    assert raw.validated
    assert wrapped.validated


def test_a_custom_call_to_a_function_tool_is_invalid_unless_it_fits() -> None:
    @tool(effect="pure")
    def fits(input: str) -> str:
        """Echo."""
        return input

    refused = observed(custom_call("count", "hello"), count)
    assert (refused.outcome, refused.attempts) == ("invalid", 0)
    assert "hello" not in (refused.validation_error or "hello")
    assert observed(custom_call("fits", "hello"), fits).value == "hello"
