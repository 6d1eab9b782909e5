"""Whatever a tool takes, and whatever a target makes of it: what a model says in the target's form arrives as it would
have in the tool's own."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import keyword
import uuid
from dataclasses import dataclass, field
from types import GenericAlias
from typing import Annotated, Any, Literal, NotRequired, Union

import jsonschema_rs
import mcp.types
from constrained_model import accepts, as_json_schema, say
from export_targets import EVERY, NO_RECURSION, schema_in
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from profiles import every, examples
from pydantic import BaseModel, Field, create_model
from strict_subset import problems
from typing_extensions import TypedDict
from wire_cases import CASES

from streamtools.errors import ExportError
from streamtools.exports import export
from streamtools.tools import Exported, Tool, tool
from streamtools.wires import WIRES, find


def by_mcp(payload: dict[str, Any]) -> None:
    assert mcp.types.Tool.model_validate(payload).name == payload["name"]


ORACLES = {tools.name: CASES[wire].takes_tool for wire in WIRES for tools in find(wire).tools} | {"mcp": by_mcp}
"""What the providers' own packages take."""


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Node(BaseModel):
    value: int
    children: list[Node] = []
    extra: dict[str, int] = {}


class Leaf(BaseModel):
    kind: Literal["leaf"]
    weight: float | None = 1.5


class Branch(BaseModel):
    kind: Literal["branch"]
    parts: dict[str, Leaf | Branch] = {}


class Filter(TypedDict):
    field: str
    value: NotRequired[str | None]


@dataclass
class Window:
    width: float
    labels: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Kind:
    """A type, and the plain arguments that fit it."""

    annotation: Any
    values: st.SearchStrategy[Any]


TEXT = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=4)
WHOLE = st.integers(-(2**53), 2**53)
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
TREE = st.recursive(
    st.builds(lambda value: {"value": value}, WHOLE),
    lambda inner: st.fixed_dictionaries(
        {"value": WHOLE, "children": st.lists(inner, max_size=2)},
        optional={"extra": st.dictionaries(TEXT, WHOLE, max_size=2)},
    ),
    max_leaves=4,
)
LEAF = st.fixed_dictionaries({"kind": st.just("leaf")}, optional={"weight": st.none() | st.just(0.25)})
BRANCH = st.recursive(
    st.just({"kind": "branch"}),
    lambda inner: st.builds(
        lambda parts: {"kind": "branch", "parts": parts}, st.dictionaries(TEXT, inner | LEAF, max_size=2)
    ),
    max_leaves=4,
)
SIMPLE = st.sampled_from(
    [
        Kind(int, WHOLE),
        Kind(str, TEXT),
        Kind(bool, st.booleans()),
        Kind(float, st.floats(-1e6, 1e6)),
        Kind(Literal["fast", "slow"], st.sampled_from(["fast", "slow"])),
        Kind(Literal["a", 1, None], st.sampled_from(["a", 1, None])),
        Kind(Color, st.sampled_from(["red", "blue"])),
        Kind(Level, st.sampled_from([1, 2])),
        Kind(Any, JSON),
        Kind(Node, TREE),
        Kind(Branch, BRANCH),
        Kind(Leaf, LEAF),
        Kind(Annotated[Leaf | Branch, Field(discriminator="kind")], LEAF | BRANCH),
        Kind(Filter, st.fixed_dictionaries({"field": TEXT}, optional={"value": st.none() | TEXT})),
        Kind(Window, st.fixed_dictionaries({"width": WHOLE}, optional={"labels": st.lists(TEXT, max_size=2)})),
        Kind(Annotated[int, Field(ge=1, le=10, description="How often.")], st.integers(1, 10)),
        Kind(Annotated[float, Field(gt=0, multiple_of=0.5)], st.sampled_from([0.5, 2.5])),
        Kind(Annotated[str, Field(pattern="^[A-Z]{2}$")], st.just("DE")),
        Kind(dt.datetime, st.just("2026-01-02T03:04:05Z")),
        Kind(dt.timedelta, st.just("PT1H")),
        Kind(uuid.UUID, st.just(str(uuid.UUID(int=7)))),
        Kind(decimal.Decimal, st.sampled_from(["2.5", 1])),
        Kind(set[str], st.just(["a"])),
    ]
)


def fields() -> st.SearchStrategy[dict[str, tuple[Kind, Any]]]:
    """Names with types, and ... or a default."""
    names = st.sampled_from(["a", "b", "type", "properties", "title", "items", "required", "default"])
    return st.dictionaries(names, st.tuples(KINDS, st.sampled_from([..., None, "factory"])), min_size=1, max_size=3)


def a_model(made: dict[str, tuple[Kind, Any]]) -> Kind:
    definitions: dict[str, Any] = {
        f"{name}_": (kind.annotation, _field(name, default)) for name, (kind, default) in made.items()
    }
    return Kind(create_model("Made", **definitions), _arguments(made))


def _field(name: str, default: Any) -> Any:
    if default == "factory":  # a default that is in no schema
        return Field(default_factory=lambda: None, alias=name)
    return Field(default, alias=name)


def _arguments(made: dict[str, tuple[Kind, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    needed = {name: kind.values for name, (kind, default) in made.items() if default is ...}
    rest = {name: kind.values for name, (kind, default) in made.items() if default is not ...}
    return st.fixed_dictionaries(needed, optional=rest)


def a_list(kind: Kind) -> Kind:
    return Kind(GenericAlias(list, (kind.annotation,)), st.lists(kind.values, max_size=2))


def a_map(kind: Kind) -> Kind:
    return Kind(GenericAlias(dict, (str, kind.annotation)), st.dictionaries(TEXT, kind.values, max_size=2))


def a_tuple(two: tuple[Kind, Kind]) -> Kind:
    values = st.tuples(*(kind.values for kind in two)).map(list)
    return Kind(GenericAlias(tuple, tuple(kind.annotation for kind in two)), values)


def a_union(two: tuple[Kind, Kind]) -> Kind:
    one, other = two
    return Kind(Union[one.annotation, other.annotation], one.values | other.values)  # noqa: UP007  # at run time


NOTHING = Kind(None, st.none())
KINDS: st.SearchStrategy[Kind] = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        inner.map(lambda kind: a_union((kind, NOTHING))),
        inner.map(a_list),
        inner.map(a_map),
        st.tuples(inner, inner).map(a_tuple),
        st.tuples(inner, inner).map(a_union),
        st.deferred(fields).map(a_model),
    ),
    max_leaves=4,
)


def a_tool(made: dict[str, tuple[Kind, Any]]) -> Tool:
    namespace: dict[str, Any] = {"tool": tool, "Field": Field, "Any": Any}
    parameters = []
    for number, (name, (kind, default)) in enumerate(made.items()):
        assert not keyword.iskeyword(name)
        namespace[f"T{number}"] = kind.annotation
        said = {None: "None", "factory": "Field(default_factory=lambda: None)"}.get(default)
        parameters.append(f"{name}: T{number}" + ("" if said is None else f" = {said}"))
    exec(f"def made(*, {', '.join(parameters)}) -> None:\n    'Made up.'", namespace)
    return tool(namespace["made"])


@st.composite
def tools_and_arguments(draw: st.DrawFn) -> tuple[Tool, dict[str, Any]]:
    made = draw(fields())
    return a_tool(made), draw(_arguments(made))


@given(drawn=tools_and_arguments())
@settings(derandomize=True, deadline=None, max_examples=examples(40), suppress_health_check=list(HealthCheck))
def test_what_a_model_says_in_a_targets_form_arrives_as_in_the_tools_own(drawn: tuple[Tool, dict[str, Any]]) -> None:
    made, plain = drawn
    wanted = made.validate(plain).by_name
    for target in EVERY:
        exported = exported_for(made, target)
        if exported is None:
            continue
        ORACLES[target.removesuffix(".strict")](exported.payload)
        schema = schema_in(exported.payload, target)
        jsonschema_rs.meta.validate(as_json_schema(schema))
        if target.startswith(("openai.chat_completions.s", "openai.responses.s", "mistral.chat.s")):
            assert problems(schema) == []
        written = say(schema, plain)
        assert accepts(schema, written), target
        assert made.validate(exported.decode(written)).by_name == wanted, target
        if not exported.rewritten:
            assert exported.decode(written) == written, target


def exported_for(made: Tool, target: str) -> Exported | None:
    """None for a schema that contains itself where strict tools may not."""
    try:
        return export(made, target)
    except ExportError as error:
        if target in NO_RECURSION and "contains itself" in str(error):
            return None
        raise


# -- names -------------------------------------------------------------------------------------------------------------

RESERVED = (
    *("title", "type", "properties", "default", "$ref", "items", "required", "enum", "const", "description", "anyOf"),
    *("additionalProperties", "$defs", "not", "format", "key", "value"),
)
"""Names of properties that are keywords of JSON Schema, too."""


@every("target", EVERY)
def test_properties_may_be_called_like_keywords(target: str) -> None:
    texts = {name: {"type": "string"} for name in RESERVED}
    inner = {"type": "object", "properties": texts, "required": list(RESERVED)}
    numbers = {name: {"type": "integer"} for name in RESERVED}
    schema = {"type": "object", "properties": {**numbers, "inner": inner}, "required": ["type", "$ref"]}
    made = Tool.from_schema(lambda **arguments: None, schema, name="keywords", description="Have odd names.")
    exported = export(made, target)
    ORACLES[target.removesuffix(".strict")](exported.payload)
    said = schema_in(exported.payload, target)
    assert len(said["properties"]) == len(RESERVED) + 1
    odd = [name for name in RESERVED if name not in said["properties"]]
    assert odd == (["$ref", "$defs"] if target.startswith(("anthropic", "gemini", "bedrock.converse_stream.s")) else [])
    plain = {"type": 1, "$ref": 2, "default": 3, "inner": dict.fromkeys(RESERVED, "x")}
    written = say(said, renamed(plain, said))
    assert exported.decode(written) == plain
    assert made.validate(exported.decode(written)).by_name == plain


def renamed(plain: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """The plain arguments under the names that the target got, which are in the same order."""
    names = dict(zip([*RESERVED, "inner"], said["properties"], strict=True))
    inside = said["properties"]["inner"]
    inside = inside["anyOf"][0] if "anyOf" in inside else inside  # with null, since it may be left out
    inner = dict(zip(RESERVED, inside["properties"], strict=True))
    made = {names[name]: value for name, value in plain.items()}
    return {**made, "inner": {inner[name]: value for name, value in plain["inner"].items()}}
