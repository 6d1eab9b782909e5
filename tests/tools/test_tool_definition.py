"""What `tool` accepts, what it makes of it, and how it refuses the rest."""

from __future__ import annotations

import datetime as dt
import enum
import functools
import json
import math
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Optional, Required

import pydantic
import pytest
from profiles import every
from pydantic import AliasChoices, BaseModel, Field
from typing_extensions import TypedDict, Unpack

from streamtools.errors import ToolDefinitionError
from streamtools.tools import Tool, ToolContext, tool


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


class Place(BaseModel):
    """Where."""

    name: str
    title: str = Field("", title="Kept because it was written")


class Options(TypedDict, total=False):
    depth: Required[int]
    quick: bool


class Loose(TypedDict, total=False):
    quick: bool


def get_weather(city: str, days: int = 1, unit: Unit = Unit.CELSIUS) -> str:
    """Weather forecast for a city.

    Args:
        city: City name, as a person would write it.
        days: How many days ahead.
    """
    return f"{city} {days} {unit.value}"


class Library:
    """Callables of every kind."""

    async def __call__(self, query: str) -> str:
        """Look something up."""
        return query

    def method(self, query: str) -> str:
        """Look up by method."""
        return query

    @classmethod
    def for_class(cls, query: str) -> str:
        """Look up by class."""
        return query

    @staticmethod
    def static(query: str) -> str:
        """Look up by nobody."""
        return query


def test_a_tool_says_what_the_function_says() -> None:
    made = tool(get_weather)
    assert (made.name, made.effect, made.timeout, made.is_async) == ("get_weather", "once", None, False)
    assert made.description == "Weather forecast for a city."
    assert made.schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "City name, as a person would write it."},
            "days": {"type": "integer", "default": 1, "description": "How many days ahead."},
            "unit": {"$ref": "#/$defs/Unit", "default": "c"},
        },
        "required": ["city"],
        "additionalProperties": False,
        "$defs": {"Unit": {"enum": ["c", "f"], "title": "Unit", "type": "string"}},
    }


def test_the_decorator_takes_options() -> None:
    @tool(name="weather.get", effect="pure", timeout=2.5)
    async def get(city: str) -> str:
        """Weather."""
        return city

    assert (get.name, get.effect, get.timeout, get.is_async) == ("weather.get", "pure", 2.5, True)


def test_a_tool_can_still_be_called_as_the_function() -> None:
    assert tool(get_weather)("Rome", unit=Unit.FAHRENHEIT) == "Rome 1 f"


def test_a_tool_cannot_be_changed() -> None:
    made = tool(get_weather)
    with pytest.raises(AttributeError):
        made.effect = "pure"  # type: ignore[misc]
    made.schema["properties"].clear()
    assert "city" in made.schema["properties"]


@every(
    ("function", "name", "is_async"),
    [
        (Library(), "Library", True),
        (Library().method, "method", False),
        (Library.for_class, "for_class", False),
        (Library.static, "static", False),
        (Library.__dict__["static"], "static", False),
        (functools.partial(get_weather, days=3), "get_weather", False),
        (functools.partial(Library()), "Library", True),
    ],
)
def test_callables_of_every_kind_become_tools(function: Callable[..., Any], name: str, is_async: bool) -> None:
    made = tool(function)
    assert (made.name, made.is_async) == (name, is_async)
    (required,) = made.schema["required"]
    bound = made.validate({required: "x"})
    args, kwargs = made.complete(bound, ToolContext())
    result = made.fn(*args, **kwargs)
    if is_async:
        result.close()
    else:
        assert str(result).startswith("x")


def test_what_a_partial_has_bound_is_neither_shown_nor_open_to_the_model() -> None:
    def fetch(token: str, url: str, retries: int = 1, **headers: str) -> str:
        """Fetch."""
        return f"{token} {url} {retries} {headers}"

    made = tool(functools.partial(fetch, "hush", retries=9))
    assert list(made.schema["properties"]) == ["url", "headers"]
    assert "hush" not in json.dumps(made.schema)
    for name in ("token", "retries"):
        with pytest.raises(ValueError, match=name):
            made.validate({"url": "u", "headers": {name: "stolen"}})
    bound = made.validate({"url": "u"})
    assert made.fn(*bound.args, **bound.kwargs) == "hush u 9 {}"


# -- the schema -------------------------------------------------------------------------------------------------


def test_texts_come_from_the_field_then_the_annotation_then_the_docstring() -> None:
    def f(a: Annotated[int, Field(description="field"), "note"], b: Annotated[int, "note"], c: int) -> int:
        """Sum.

        Args:
            a: docstring
            b: docstring
            c: docstring
        """
        return a

    texts = {name: schema["description"] for name, schema in tool(f).schema["properties"].items()}
    assert texts == {"a": "field", "b": "note", "c": "docstring"}


def test_annotations_may_name_what_is_local_to_the_function_around() -> None:
    class Local(BaseModel):
        value: int

    @tool
    def f(x: Local) -> int:
        """Read."""
        return x.value

    def make() -> Tool:
        return tool(g)

    def g(x: list[Local]) -> int:
        """Read."""
        return x[0].value

    assert f.validate({"x": {"value": 1}}).kwargs == {"x": Local(value=1)}
    assert make().validate({"x": [{"value": 1}]}).kwargs == {"x": [Local(value=1)]}


def test_no_titles_are_made_up_and_written_ones_stay() -> None:
    def f(where: Place, max_results: int, named: Annotated[int, Field(title="A name")]) -> None:
        """Find."""

    schema = tool(f).schema
    assert "title" not in schema["properties"]["max_results"]
    assert schema["properties"]["named"]["title"] == "A name"
    assert schema["$defs"]["Place"]["properties"]["name"] == {"type": "string"}
    assert schema["$defs"]["Place"]["properties"]["title"]["title"] == "Kept because it was written"


def test_defaults_that_are_no_json_are_left_out_and_the_argument_stays_optional() -> None:
    missing = object()

    def f(limit: float = math.inf, cursor: Any = missing, day: dt.date = dt.date(2020, 1, 2)) -> None:
        """Find."""

    schema = tool(f).schema
    assert "required" not in schema
    assert schema["properties"] == {
        "limit": {"type": "number"},
        "cursor": {},
        "day": {"type": "string", "format": "date", "default": "2020-01-02"},
    }
    assert tool(f).validate({}).by_name == {"limit": math.inf, "cursor": missing, "day": dt.date(2020, 1, 2)}


def test_variable_arguments_are_an_array_and_an_object() -> None:
    def f(*rest: Annotated[int, Field(ge=0)], **options: float) -> None:
        """Find.

        Args:
            *rest: The rest.
            **options: The options.
        """

    assert tool(f).schema["properties"] == {
        "rest": {"type": "array", "items": {"type": "integer", "minimum": 0}, "description": "The rest."},
        "options": {
            "type": "object",
            "additionalProperties": {"type": "number"},
            "description": "The options.",
        },
    }


def test_unpacked_typed_dicts_are_required_if_one_of_their_keys_is() -> None:
    def strict(**options: Unpack[Options]) -> None:
        """Find."""

    def loose(**options: Unpack[Loose]) -> None:
        """Find."""

    assert tool(strict).schema["required"] == ["options"]
    assert "required" not in tool(loose).schema
    assert tool(strict).validate({"options": {"depth": "3"}}).kwargs == {"depth": 3}
    with pytest.raises(ValueError, match=r"options\.depth: is required but missing"):
        tool(strict).validate({})
    assert tool(loose).validate({}).kwargs == {}


def test_an_alias_is_the_name_for_the_model() -> None:
    def f(from_: Annotated[str, Field(alias="from")]) -> str:
        """Fetch.

        Args:
            from_: Where to begin.
        """
        return from_

    made = tool(f)
    assert made.schema["properties"] == {"from": {"type": "string", "description": "Where to begin."}}
    assert made.validate({"from": "x"}).by_name == {"from_": "x"}
    with pytest.raises(ValueError, match="from: is required but missing; from_: is not an argument of this tool"):
        made.validate({"from_": "x"})


def test_untyped_parameters_take_anything_if_hints_are_not_required() -> None:
    def f(a, b=3):  # type: ignore[no-untyped-def]
        """Untyped."""

    made = tool(f, require_hints=False)
    assert made.schema["properties"] == {"a": {}, "b": {"default": 3}}
    assert made.validate({"a": [1, {"x": None}]}).kwargs == {"a": [1, {"x": None}], "b": 3}


@every(
    "annotation",
    [
        ToolContext,
        "ToolContext",
        ToolContext | None,
        Optional[ToolContext],  # noqa: UP045  # the spelling is the case
        Annotated[ToolContext, "note"],
        Annotated[ToolContext | None, "note"],
    ],
)
def test_a_context_is_in_no_schema_and_cannot_be_sent(annotation: Any) -> None:
    def f(ctx: Any, query: str, **more: str) -> Any:
        """Find."""
        return ctx, query, more

    f.__annotations__["ctx"] = annotation
    made = tool(f)
    assert list(made.schema["properties"]) == ["query", "more"]
    for stolen in ({"query": "q", "ctx": {}}, {"query": "q", "more": {"ctx": "x"}}):
        with pytest.raises(ValueError, match="ctx: is"):
            made.validate(stolen)
    context = ToolContext(call_id="c1")
    args, kwargs = made.complete(made.validate({"query": "q"}), context)
    assert made.fn(*args, **kwargs) == (context, "q", {})


# -- refusals ---------------------------------------------------------------------------------------------------


def _no_docstring(x: int) -> int:
    return x


def _only_sections(x: int) -> int:
    """
    Args:
        x: Nothing else is said.
    """
    return x


def _no_hint(a: int, b) -> int:  # type: ignore[no-untyped-def]
    """Sum."""
    return a


def _no_hint_of_a_context(a: int, ctx) -> int:  # type: ignore[no-untyped-def]
    """Sum."""
    return a


def _no_return(a: int):  # type: ignore[no-untyped-def]
    """Sum."""


def _unknown_name(a: int, b: Nowhere) -> int:  # type: ignore[name-defined]  # noqa: F821
    """Sum."""
    return a


def _no_schema(a: int, b: Callable[[int], int]) -> int:
    """Sum."""
    return a


def _bad_pattern(a: int, b: Annotated[str, Field(pattern="(")]) -> int:
    """Sum."""
    return a


def _variable_contexts(*b: ToolContext) -> int:
    """Sum."""
    return 0


def _one_name_twice(a: int, b: Annotated[int, Field(alias="a")]) -> int:
    """Sum."""
    return a


def _generator(x: int) -> Iterator[int]:
    """Count."""
    yield x


@every(
    ("function", "parameter", "says"),
    [
        (_no_docstring, None, "has no docstring"),
        (_only_sections, None, "has no docstring"),
        (_no_hint, "b", "has no type hint; add one"),
        (_no_hint_of_a_context, "ctx", "has no type hint; add ctx: ToolContext"),
        (_no_return, None, "has no return annotation"),
        (_unknown_name, "b", "name 'Nowhere' is not defined"),
        (_no_schema, "b", "no schema can be made from its type"),
        (_bad_pattern, "b", "unclosed group"),
        (_variable_contexts, "b", "must be the parameter's whole type"),
        (_one_name_twice, "b", "another parameter has the name 'a'"),
        (_generator, None, r"make it an async generator, whose values are progress"),
        (Library.method, "self", r"tool\(instance\.method\)"),
        (Library.__dict__["for_class"], None, r"tool\(Class\.method\)"),
        (Library, None, "is a class"),
        ("get_weather", None, r"is not callable.*@tool\(name="),
        ({"type": "object"}, None, r"is not callable.*Tool\.from_schema\("),
        (lambda: None, None, r"pass tool\(\.\.\., name='\.\.\.'\)"),
        (min, None, "has no signature to read"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_at_once(function: Any, parameter: str | None, says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=says) as caught:
        tool(function)
    assert caught.value.parameter == parameter
    assert caught.value.tool in str(caught.value)
    assert "\n" not in str(caught.value)
    if parameter is not None:
        assert f"parameter {parameter!r}" in str(caught.value)


@every("name", ["", "a b", "1st", "-x", "é", "x\n", "a" * 65, "a/b"])
def test_names_that_providers_refuse_are_refused(name: str) -> None:
    with pytest.raises(ToolDefinitionError, match="a name is 1 to 64"):
        tool(get_weather, name=name)


@every("effect", ["Pure", "", None, "never"])
def test_an_unknown_effect_is_refused(effect: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="'get_weather': effect: expected 'pure', 'idempotent' or 'once'"):
        tool(get_weather, effect=effect)


@every("timeout", [0, -1, True, "3", math.nan, math.inf])
def test_a_timeout_is_a_positive_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="'get_weather': timeout: expected a number of seconds"):
        tool(get_weather, timeout=timeout)


@pytest.mark.skipif(pydantic.VERSION < "2.12", reason="before, pydantic looked at `alias=` alone")
def test_several_aliases_are_refused() -> None:
    def f(a: Annotated[int, Field(validation_alias=AliasChoices("x", "y"))]) -> int:
        """Sum."""
        return a

    with pytest.raises(ToolDefinitionError, match="'a': has several aliases"):
        tool(f)
