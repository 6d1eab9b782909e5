"""Tools whose schema nobody derived: written by hand, fetched, or missing; their validators, checks and drift."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Annotated, Any

import anyio
import pytest
from profiles import every
from pydantic import BaseModel
from streams import chat, stream

from streamtools import Observation, ToolContext, ToolError, pipeline, tool
from streamtools.errors import InvalidArguments, SchemaError, ToolDefinitionError
from streamtools.tools import ArgumentsValidator, Tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "priority": {"type": "integer", "minimum": 1},
        "labels": {"type": "array", "items": {"type": "string"}},
        "where": {"anyOf": [{"type": "object", "required": ["city"]}, {"type": "null"}]},
        "unit": {"enum": ["c", "f"]},
    },
    "required": ["title"],
}


def create_ticket(title: str, priority: int = 1, **more: Any) -> dict[str, Any]:
    """Create a ticket."""
    return {"title": title, "priority": priority, **more}


def whole(arguments: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
    """Take all."""
    return {**arguments, "by": ctx.call_id}


ticket = Tool.from_schema(create_ticket, SCHEMA, owner="support team", effect="pure")


def observed(made: Tool, arguments: str) -> Observation:
    async def read() -> Observation:
        turn = await pipeline(stream(chat(calls=[("c1", made.name, arguments)])), tools=[made])
        (observation,) = turn.observations
        return observation

    return anyio.run(read)


def problems(made: Tool, arguments: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidArguments) as caught:
        made.validate(arguments)
    assert str(caught.value) == f"invalid arguments for {made.name}: " + "; ".join(caught.value.problems)
    return caught.value.problems


# -- the schema ---------------------------------------------------------------------------------------------------


def test_a_tool_keeps_the_schema_as_it_was_written() -> None:
    given = {**SCHEMA, "properties": dict(SCHEMA["properties"])}
    made = Tool.from_schema(
        create_ticket, given, owner="support team", title="Tickets", annotations={"readOnlyHint": False}
    )
    given["properties"].clear()
    assert made.schema == SCHEMA
    made.schema["properties"].clear()
    assert made.schema == SCHEMA
    assert (made.name, made.description, made.effect) == ("create_ticket", "Create a ticket.", "once")
    assert (made.owner, made.title, made.annotations) == ("support team", "Tickets", {"readOnlyHint": False})
    assert (made.schema_source, made.boundary) == ("hand_written", "validated")
    assert made.validator == "jsonschema-rs"


def test_the_arguments_are_enforced_before_the_function_runs() -> None:
    seen = observed(ticket, '{"title": "x", "priority": 2, "labels": ["a"], "floor": 3}')
    assert seen.value == {"title": "x", "priority": 2, "labels": ["a"], "floor": 3}
    assert (seen.validated, seen.schema_source, seen.validator) == (True, "hand_written", ticket.validator)
    bad = observed(ticket, '{"title": "x", "priority": "urgent"}')
    assert (bad.outcome, bad.attempts, bad.validated) == ("invalid", 0, False)
    assert "priority" in (bad.validation_error or "")
    assert "integer" in (bad.validation_error or "")
    assert "urgent" not in bad.report()


@every(
    ("arguments", "where"),
    [
        ({}, "title"),
        ({"title": 1}, "title"),
        ({"title": "x", "priority": "1"}, "priority"),
        ({"title": "x", "priority": 0}, "priority"),
        ({"title": "x", "labels": ["a", 1]}, "labels[1]"),
        ({"title": "x", "unit": "k"}, "unit"),
        ({"title": "x", "where": {"town": "x"}}, "where.city"),
        ([1], "the arguments"),
        ({"title": "x", "odd": math.nan}, "the arguments"),
        ({"title": "x", "odd": object()}, "the arguments"),
    ],
)
def test_a_problem_names_the_place(arguments: Any, where: str) -> None:
    assert any(line.startswith(f"{where}: ") for line in problems(ticket, arguments))


@every(
    "schema",
    [
        {"type": "strng"},
        {"type": "string"},
        {"type": ["string", "null"]},
        {"$ref": "https://example.org/other.json"},
        {"required": "x"},
        {"properties": {"x": 3}},
    ],
)
def test_what_is_no_schema_is_refused_at_definition(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        Tool.from_schema(create_ticket, schema)


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@every(("schema", "says"), [({"const": object()}, "of plain JSON"), (deep(100_000), "nested too deeply to be written")])
def test_what_is_shown_is_plain_json_even_if_nobody_enforces_it(schema: Any, says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        Tool.from_schema(create_ticket, schema, validator=OnlyUpperCase())
    with pytest.raises(SchemaError, match=says):
        Tool.from_schema(create_ticket, {}, output_schema=schema)


@every("schema", [{}, {"type": "object"}, {"type": ["object", "null"]}, {"required": ["title"]}])
def test_a_schema_need_not_say_that_arguments_are_an_object(schema: dict[str, Any]) -> None:
    made = Tool.from_schema(create_ticket, schema)
    assert made.schema == schema
    assert made.validate({"title": "x"}).by_name == {"title": "x"}


# -- texts that hold arrays and objects ---------------------------------------------------------------------------


@every(
    ("arguments", "value"), [({"labels": '["a", "b"]'}, ["a", "b"]), ({"where": '{"city": "Rome"}'}, {"city": "Rome"})]
)
def test_a_text_is_decoded_where_the_schema_wants_what_it_holds(arguments: dict[str, Any], value: Any) -> None:
    bound = ticket.validate({"title": "[1]", **arguments})
    (name,) = arguments
    assert bound.kwargs[name] == value
    assert bound.kwargs["title"] == "[1]"
    assert bound.coercions == (f"{name}: json_string",)


@every("text", ["[1", '{"a": 1}', "3", "null", "x", '"[]"', "[NaN]"])
def test_a_text_that_holds_something_else_stays(text: str) -> None:
    (found,) = problems(ticket, {"title": "x", "labels": text})
    assert found.startswith("labels: ")
    assert ticket.validate({"title": text}).kwargs["title"] == text


# -- into the function ----------------------------------------------------------------------------------------------


def test_all_arguments_may_go_into_one_dict() -> None:
    made = Tool.from_schema(
        whole, SCHEMA, pass_as="mapping", effect="pure", description="", schema_source="protocol_fetch"
    )
    seen = observed(made, '{"title": "x", "ctx": "stolen", "arguments": 1}')
    assert seen.value == {"title": "x", "ctx": "stolen", "arguments": 1, "by": "c1"}
    assert seen.validated_args == {"title": "x", "ctx": "stolen", "arguments": 1}
    assert (made.description, seen.schema_source) == ("", "protocol_fetch")


def guarded(title: str, secret: str, ctx: ToolContext, /, *, place: str = "", **more: Any) -> str:
    """Guard."""
    return f"{title} {secret} {ctx.call_id} {place} {more}"


def test_an_open_schema_lets_nothing_set_what_is_injected_or_bound() -> None:
    made = Tool.from_schema(functools.partial(create_ticket, priority=5), {"type": "object"}, name="t")
    assert problems(made, {"title": "x", "priority": 9}) == (
        "priority: is a parameter of the tool itself, and cannot be set here",
    )

    def with_context(title: str, ctx: ToolContext, **more: Any) -> Any:
        """Work."""
        return title, ctx.call_id, more

    injected = Tool.from_schema(with_context, {"type": "object"}, effect="pure")
    assert problems(injected, {"title": "x", "ctx": 1}) == (
        "ctx: is a parameter of the tool itself, and cannot be set here",
    )
    assert observed(injected, '{"title": "x", "y": 1}').value == ("x", "c1", {"y": 1})


def test_values_stand_where_the_function_wants_them() -> None:
    made = Tool.from_schema(guarded, {"type": "object"}, effect="pure")
    assert observed(made, '{"place": "p", "secret": "s", "z": 1, "title": "t"}').value == "t s c1 p {'z': 1}"


def test_what_the_schema_lets_pass_and_the_function_cannot_take_is_refused_before_it_runs() -> None:
    def plain(title: str, size: int) -> str:
        """Work."""
        return title

    made = Tool.from_schema(plain, {"type": "object"})
    assert problems(made, {"title": "x", "colour": "red"}) == (
        "size: is required but missing",
        "colour: is not an argument of this tool, which takes title, size",
    )


def no_docstring(title: str) -> str:
    return title


def two_dicts(a: dict[str, Any], b: dict[str, Any]) -> None:
    """Two."""


def rest(*title: str) -> None:
    """Rest."""


@every(
    ("function", "options", "says"),
    [
        (no_docstring, {}, r"has no docstring; write one.*description="),
        (two_dicts, {"pass_as": "mapping"}, "in its one parameter; this has: a, b"),
        (rest, {"pass_as": "mapping"}, "in its one parameter; this has: title"),
        (rest, {}, r"\*args cannot take them"),
        (create_ticket, {"pass_as": "both"}, "pass_as: expected"),
        (create_ticket, {"schema_source": "guessed"}, "schema_source: expected"),
        (create_ticket, {"name": "no name"}, "a name is 1 to 64"),
        (create_ticket, {"schema": None}, "pass check="),
        (create_ticket, {"check": anyio.sleep}, "check: expected a plain function"),
        (create_ticket, {"check": "title"}, "check: expected a plain function"),
        (create_ticket, {"validator": len}, "validator: expected an object with a name"),
    ],
)
def test_what_cannot_be_a_tool_is_refused(function: Callable[..., Any], options: dict[str, Any], says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=says):
        Tool.from_schema(function, **{"schema": SCHEMA, **options})


@every(
    ("declaration", "inner"),
    [
        ({"name": "t", "input_schema": SCHEMA}, "schema['input_schema']"),
        ({"name": "t", "inputSchema": SCHEMA}, "schema['inputSchema']"),
        ({"type": "function", "name": "t", "parameters": SCHEMA}, "schema['parameters']"),
        ({"type": "function", "function": {"name": "t", "parameters": SCHEMA}}, "schema['function']['parameters']"),
    ],
)
def test_a_declaration_is_refused_with_the_key_of_its_schema(declaration: dict[str, Any], inner: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(f"pass {inner}, with name= and description=")):
        Tool.from_schema(create_ticket, declaration)
    # The same names may be those of arguments.
    Tool.from_schema(lambda **given: None, {"properties": declaration_names(declaration)}, name="t", description="T.")


def declaration_names(declaration: dict[str, Any]) -> dict[str, Any]:
    return {name: {"type": "object"} for name in declaration}


def test_a_misspelt_option_is_refused_with_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"^Tool\.from_schema has no option 'efect'; did you mean 'effect'\?"):
        Tool.from_schema(create_ticket, SCHEMA, efect="pure")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^tool has no option 'need_approval'; did you mean 'needs_approval'\?"):
        tool(need_approval=True)  # type: ignore[call-overload]


# -- validators and checks of the user's ------------------------------------------------------------------------------


class OnlyUpperCase:
    name = "upper"

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def validate(self, arguments: dict[str, Any]) -> list[str]:
        self.seen.append(arguments)
        return [f"{key}: should be upper case" for key, value in arguments.items() if value != str(value).upper()]


def test_a_validator_of_ones_own_judges_instead_and_is_named_in_the_record() -> None:
    mine = OnlyUpperCase()
    assert isinstance(mine, ArgumentsValidator)
    made = Tool.from_schema(create_ticket, SCHEMA, validator=mine, effect="pure")
    seen = observed(made, '{"title": "X"}')
    assert (seen.value, seen.validator, seen.validated) == ({"title": "X", "priority": 1}, "upper", True)
    assert problems(made, {"title": "x", "unit": "k"}) == ("title: should be upper case", "unit: should be upper case")
    alone = Tool.from_schema(create_ticket, None, validator=mine)
    assert (alone.boundary, alone.schema, alone.validator) == ("validated", {"type": "object"}, "upper")
    assert alone.check() == []


class Quoting(BaseModel):
    title: int


def raises(error: Exception) -> Callable[[dict[str, Any]], object]:
    def check(arguments: dict[str, Any]) -> object:
        raise error

    return check


@every(
    ("check", "wanted"),
    [
        (raises(ValueError("must be a weekday")), "the arguments: must be a weekday"),
        (raises(ValueError("hunter2 is not allowed")), "the arguments: was refused by the tool's own check"),
        (raises(ValueError()), "the arguments: was refused by the tool's own check"),
        (raises(ToolError("closed on Sundays")), "the arguments: closed on Sundays"),
        (raises(InvalidArguments("bad", problems=["title: is taken"])), "title: is taken"),
        (raises(InvalidArguments("is bad")), "the arguments: is bad"),
        (raises(KeyError("hunter2")), "the arguments: the tool's own check raised KeyError"),
        (Quoting.model_validate, "the arguments: was refused by the tool's own check"),
        (lambda arguments: False, "the arguments: was refused by the tool's own check"),
    ],
)
def test_a_check_refuses_the_call(check: Any, wanted: str) -> None:
    for schema in (SCHEMA, None):
        made = Tool.from_schema(create_ticket, schema, check=check, effect="pure")
        seen = observed(made, '{"title": "hunter2"}')
        assert (seen.outcome, seen.attempts) == ("invalid", 0)
        assert seen.validation_error == f"invalid arguments for create_ticket: {wanted}"


def test_without_a_schema_the_boundary_is_advisory_and_every_record_says_so() -> None:
    asked: list[dict[str, Any]] = []
    made = Tool.from_schema(create_ticket, None, check=asked.append, effect="pure")
    assert (made.boundary, made.validator, made.schema) == ("advisory", None, {"type": "object"})
    seen = observed(made, '{"title": "x", "anything": [1]}')
    assert (seen.outcome, seen.validated, seen.schema_present, seen.boundary) == ("ok", False, False, "advisory")
    assert asked == [{"title": "x", "anything": [1]}]
    assert "boundary: advisory" in seen.report()
    assert "schema_present: false" in seen.report()
    assert "args_validated: false" in seen.report()
    assert not made.validate({"title": "x"}).validated


# -- drift -----------------------------------------------------------------------------------------------------


def drifting(
    title: str,
    priority: int,
    ctx: ToolContext,
    ratio: float = 0,
    flag: bool | None = None,
    names: list[str] = [],
    note: Annotated[str, "note"] = "",
    deep: dict[str, int] | Quoting | None = None,
    gone: Any = None,
) -> None:
    """Drift."""


MATCHING: dict[str, Any] = {
    "properties": {
        "title": {"type": "string"},
        "priority": {"type": "integer"},
        "ratio": {"type": "integer"},
        "flag": {"type": ["boolean", "null"]},
        "names": {"type": "array"},
        "note": {"type": "string"},
        "deep": {"type": "object"},
        "gone": True,
    },
    "required": ["title", "priority"],
}


def changed(**properties: Any) -> dict[str, Any]:
    kept = {**MATCHING["properties"], **properties}
    return {**MATCHING, "properties": {name: schema for name, schema in kept.items() if schema is not None}}


@every(
    ("schema", "lines"),
    [
        (MATCHING, []),
        ({"type": "object"}, []),
        (changed(title=None), ["title: is a parameter of the function, but missing in the schema"]),
        (changed(more={}), ["more: is in the schema, but not a parameter of the function"]),
        ({**MATCHING, "required": ["title"]}, ["priority: is required by the function, but optional in the schema"]),
        (
            {**MATCHING, "required": ["title", "priority", "ratio"]},
            ["ratio: is required in the schema, but optional for the function"],
        ),
        (changed(priority={"type": "number"}), ["priority: is number in the schema, but integer for the function"]),
        (changed(flag={"type": "string"}), ["flag: is string in the schema, but boolean or null for the function"]),
        (changed(names={"type": "object"}), ["names: is object in the schema, but array for the function"]),
        (changed(note={"type": "null"}), ["note: is null in the schema, but string for the function"]),
        (changed(deep={"type": "string"}), []),
    ],
)
def test_check_tells_where_the_schema_has_drifted_from_the_function(schema: dict[str, Any], lines: list[str]) -> None:
    assert Tool.from_schema(drifting, schema).check() == lines


def test_check_tells_what_of_a_schema_is_not_enforced() -> None:
    schema = {"properties": {"title": {"type": "string", "pattern": "(?<=a)b"}}}
    for made in (Tool.from_schema(create_ticket, schema), Tool.from_schema(whole, schema, pass_as="mapping")):
        assert made.validate({"title": "x"}).by_name == {"title": "x"}
        assert made.check()[-1].startswith("#/properties/title/pattern: ")
        assert made.check()[-1].endswith("; it is not enforced")


def test_what_was_derived_or_takes_a_dict_cannot_drift() -> None:
    assert tool(create_ticket).check() == []
    assert Tool.from_schema(whole, SCHEMA, pass_as="mapping").check() == []
    assert ticket.check() == []
