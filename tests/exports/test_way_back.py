"""What a model sent under a strict schema, turned back: exactly, or refused, but never guessed."""

from __future__ import annotations

from typing import Any

import pytest
from profiles import every
from pydantic import BaseModel

from streamtools.errors import ExportError, InvalidArguments
from streamtools.exports import export
from streamtools.tools import Exported, Tool, tool

CHAT = "openai.chat_completions"


def strict(schema: dict[str, Any], target: str = CHAT) -> Exported:
    made = Tool.from_schema(lambda **arguments: None, schema, name="f", description="Do.")
    return export(made, target, strict=True)


def of(**properties: Any) -> Exported:
    """A strict tool with these properties, all of them required."""
    return strict({"type": "object", "properties": properties, "required": list(properties)})


def properties_of(exported: Exported) -> Any:
    return exported.payload["function"]["parameters"]["properties"]


MAP = {"type": "object", "additionalProperties": {"type": "integer"}}
TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


@every(
    ("schema", "sent", "wanted"),
    [
        (MAP, [{"key": "a", "value": 1}], {"a": 1}),
        (MAP, [], {}),
        (MAP, {"a": 1}, {"a": 1}),  # a map already
        (MAP, "x", "x"),  # validation tells what is wrong with it
        ({}, '{"a": [1, null]}', {"a": [1, None]}),
        ({}, "null", None),
        ({}, 5, 5),  # no text, so the value itself
        (True, '"x"', "x"),
        ({"type": "array"}, ['"x"', "1"], ["x", 1]),
        ({"type": "array", "items": MAP}, [[], [{"key": "", "value": 2}]], [{}, {"": 2}]),
        ({"type": "array", "items": MAP}, 5, 5),
        ({"anyOf": [MAP, {"type": "null"}]}, None, None),
        ({"anyOf": [MAP, {"type": "null"}]}, [{"key": "a", "value": 1}], {"a": 1}),
        ({"anyOf": [MAP, {"type": "array"}]}, {"entries": [{"key": "a", "value": 1}]}, {"a": 1}),
        ({"anyOf": [MAP, {"type": "array"}]}, {"alternative": ["1"]}, [1]),
        ({"anyOf": [MAP, {"type": "array"}]}, "neither", "neither"),
        ({"anyOf": [{"type": "array", "items": TEXT}, MAP]}, ["a"], ["a"]),
        ({"anyOf": [{"type": "array", "items": TEXT}, MAP]}, {"entries": []}, {}),
        ({"enum": [{"a": 1}, [2]]}, "[2]", [2]),
        ({"type": "object", "properties": {}}, {}, {}),
        ({"type": ["object", "string"], "additionalProperties": TEXT}, [{"key": "a", "value": "b"}], {"a": "b"}),
        ({"type": "object", "patternProperties": {"^x": TEXT}}, [{"key": "xy", "value": "b"}], {"xy": "b"}),
    ],
)
def test_a_value_comes_back_as_the_tools_schema_has_it(schema: Any, sent: Any, wanted: Any) -> None:
    assert of(a=schema).decode({"a": sent}) == {"a": wanted}


@every(
    ("schema", "sent", "problem"),
    [
        (MAP, [{"key": "a", "value": 1}, {"key": "a", "value": 2}], "a[1].key: is the key of an earlier entry"),
        (MAP, [{"key": "a"}], "a[0]: should be an object with a string `key` and a `value`"),
        (MAP, [{"key": 1, "value": 1}], "a[0]: should be an object"),
        (MAP, ["a"], "a[0]: should be an object"),
        ({}, "secret", "a: should be a JSON value written as JSON text"),
        ({}, "NaN", "a: should be a JSON value"),
    ],
)
def test_what_would_need_a_guess_is_refused_without_quoting_it(schema: Any, sent: Any, problem: str) -> None:
    with pytest.raises(InvalidArguments) as raised:
        of(a=schema).decode({"a": sent})
    (line,) = raised.value.problems
    assert line.startswith(problem)
    assert "secret" not in str(raised.value)
    assert str(raised.value).startswith("invalid arguments for f: a")


def test_null_leaves_out_what_may_be_left_out() -> None:
    exported = strict(
        {
            "type": "object",
            "properties": {
                "kept": {"type": ["string", "null"]},
                "plain": TEXT,
                "no": {"type": ["string", "null"], "default": None},
                "yes": {"type": ["string", "null"], "default": "x", "description": "Say."},
                "free": {"default": 3},
            },
            "required": ["kept"],
        }
    )
    nothing = dict.fromkeys(("kept", "plain", "no", "yes", "free"))
    assert exported.decode(nothing) == {"kept": None}
    assert exported.decode({**nothing, "yes": {"explicit_null": None}, "free": "null"}) == {
        "kept": None,
        "yes": None,
        "free": None,
    }
    assert exported.decode({**nothing, "yes": "y"}) == {"kept": None, "yes": "y"}
    assert properties_of(exported)["yes"]["description"] == (
        'Say. (default "x") (null leaves it out; {"explicit_null": null} is null itself)'
    )


def test_further_properties_of_an_object_travel_as_entries() -> None:
    exported = of(
        a={
            "type": "object",
            "properties": {"x": TEXT},
            "required": ["x", "z"],
            "additionalProperties": {"type": "integer"},
        }
    )
    inner = properties_of(exported)["a"]["properties"]
    assert list(inner) == ["x", "z", "additional_properties"]
    assert inner["z"] == {"type": "integer"}
    sent = {"x": "1", "z": 3, "additional_properties": [{"key": "y", "value": 2}]}
    assert exported.decode({"a": sent}) == {"a": {"x": "1", "z": 3, "y": 2}}
    again = {**sent, "additional_properties": [{"key": "x", "value": 2}]}
    with pytest.raises(InvalidArguments, match="repeats another"):
        exported.decode({"a": again})


def test_a_map_at_the_root_is_wrapped() -> None:
    exported = strict(MAP)
    assert properties_of(exported).keys() == {"arguments"}
    assert exported.decode({"arguments": [{"key": "a", "value": 1}]}) == {"a": 1}
    with pytest.raises(InvalidArguments, match="should be an object, not str"):
        exported.decode({"arguments": "x"})


def test_alternatives_are_known_by_their_keys_and_constants() -> None:
    class Sale(BaseModel):
        kind: str
        price: float | None = 1.0

    class Gift(BaseModel):
        thanks: str
        notes: dict[str, int] = {}

    @tool
    def give(what: Sale | Gift | str) -> None:
        """Give."""

    exported = export(give, CHAT, strict=True)
    assert exported.decode({"what": {"kind": "s", "price": {"explicit_null": None}}}) == {
        "what": {"kind": "s", "price": None}
    }
    assert exported.decode({"what": {"thanks": "t", "notes": [{"key": "a", "value": 1}]}}) == {
        "what": {"thanks": "t", "notes": {"a": 1}}
    }
    assert exported.decode({"what": "x"}) == {"what": "x"}


def test_alternatives_that_could_be_taken_for_each_other_are_wrapped() -> None:
    class One(BaseModel):
        x: int
        y: str = "d"

    class Other(BaseModel):
        x: int
        y: str | None

    @tool
    def take(what: One | Other) -> None:
        """Take."""

    exported = export(take, CHAT, strict=True)
    assert exported.decode({"what": {"One": {"x": 1, "y": None}}}) == {"what": {"x": 1}}
    assert exported.decode({"what": {"x": 1, "y": None}}) == {"what": {"x": 1, "y": None}}


def test_alternatives_beyond_telling_apart_are_refused_at_export() -> None:
    taken = {
        "type": "object",
        "properties": {"json": {"type": "string"}},
        "required": ["json"],
        "additionalProperties": False,
    }
    ambiguous = {"anyOf": [{"enum": [[1]]}, TEXT, taken]}
    with pytest.raises(ExportError, match=r"'f': #/properties/a: its alternatives cannot be distinguished"):
        of(a=ambiguous)


def test_arguments_too_deep_to_turn_back_are_refused() -> None:
    deep: dict[str, Any] = {"a": None, "b": None}
    for _ in range(5_000):
        deep = {"a": deep, "b": None}
    exported = strict({"type": "object", "properties": {"a": {"$ref": "#"}, "b": TEXT}, "additionalProperties": False})
    with pytest.raises(InvalidArguments, match="nested too deeply"):
        exported.decode(deep)


OPEN = {"type": "object", "properties": {"b": TEXT}, "required": ["b"], "additionalProperties": NUMBER}


def test_further_properties_that_are_no_entries_never_become_a_property_of_the_tool() -> None:
    exported = of(a=OPEN)
    assert exported.decode({"a": {"b": "x", "additional_properties": None}}) == {"a": {"b": "x"}}
    for sent in ("x", 5, True):
        with pytest.raises(InvalidArguments, match=r"a\.additional_properties: should be a list of objects"):
            exported.decode({"a": {"b": "x", "additional_properties": sent}})


def test_half_a_character_in_json_text_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="a: should be a JSON value written as JSON text"):
        of(a={}).decode({"a": '"\ud800"'})


def test_a_long_key_is_cut_in_what_is_said_of_its_value() -> None:
    with pytest.raises(InvalidArguments) as raised:
        of(a={"type": "object", "additionalProperties": True}).decode({"a": {"k" * 100_000: "x"}})
    assert len(str(raised.value)) < 400


class Counted(str):
    """A text that counts how often somebody asks what it is."""

    asked = 0

    def __eq__(self, other: object) -> bool:
        type(self).asked += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_alternatives_inside_alternatives_are_told_apart_by_one_look_at_each_value() -> None:
    both = {
        "type": "object",
        "properties": {"op": {"const": "and"}, "of": {"type": "array", "items": {"$ref": "#/$defs/e"}}},
        "required": ["op", "of"],
    }
    value = {"type": "object", "properties": {"op": {"const": "is"}, "value": {}}, "required": ["op", "value"]}
    schema = {"type": "object", "properties": {"e": {"$ref": "#/$defs/e"}}, "required": ["e"]}
    exported = strict({**schema, "$defs": {"e": {"anyOf": [both, value]}}})

    def asked_at(depth: int) -> int:
        Counted.asked = 0
        sent: dict[str, Any] = {"op": Counted("is"), "value": "1"}
        for _ in range(depth):
            sent = {"op": "and", "of": [sent]}
        back = exported.decode({"e": sent})["e"]
        for _ in range(depth):
            back = back["of"][0]
        assert back == {"op": "is", "value": 1}
        return Counted.asked

    assert asked_at(24) == asked_at(3)


def test_null_in_a_union_of_parts_is_null_only_where_all_parts_take_it() -> None:
    schema = {"type": "object", "properties": {"a": {"allOf": [{"type": "null"}, True]}}}
    exported = strict(schema)
    null = properties_of(exported)["a"]
    assert null["anyOf"][1] == {"type": "null"}
    assert exported.decode({"a": None}) == {}
    assert exported.decode({"a": {"explicit_null": None}}) == {"a": None}


def test_the_property_for_further_ones_gets_a_name_that_is_free() -> None:
    exported = of(a={**OPEN, "properties": {"additional_properties": TEXT}, "required": ["additional_properties"]})
    sent = {"additional_properties": "x", "additional_properties_2": [{"key": "c", "value": 1}]}
    assert exported.decode({"a": sent}) == {"a": {"additional_properties": "x", "c": 1}}


def test_names_that_were_changed_come_back_in_objects_under_any_key() -> None:
    inner = {"type": "object", "properties": {"ü": TEXT, "1": TEXT}}
    schema = {"type": "object", "properties": {"a": TEXT}, "additionalProperties": inner}
    exported = strict(
        {"type": "object", "properties": {"m": schema}, "required": ["m"]}, target="gemini.generate_content"
    )
    said = exported.payload["parametersJsonSchema"]["properties"]["m"]["additionalProperties"]["properties"]
    assert all(name.startswith("_") and name.isascii() for name in said)
    back = exported.decode({"m": {"a": "x", "any": dict(zip(said, "yz", strict=True))}})
    assert back == {"m": {"a": "x", "any": {"ü": "y", "1": "z"}}}


def test_a_value_that_fits_no_alternative_is_left_to_validation() -> None:
    one = {"type": "object", "properties": {"k": {"const": "a"}, "v": {}}, "required": ["k", "v"]}
    other = {"type": "object", "properties": {"k": {"const": "b"}, "v": MAP}, "required": ["k", "v"]}
    exported = of(a={"anyOf": [one, other]})
    assert exported.decode({"a": {"k": "a", "v": "1"}}) == {"a": {"k": "a", "v": 1}}
    assert exported.decode({"a": {"k": "b", "v": []}}) == {"a": {"k": "b", "v": {}}}
    for neither in ({"k": "c", "v": "1"}, {"k": "a", "v": "1", "w": 1}, {"k": "b", "v": "1"}, {"k": "a"}, None):
        assert exported.decode({"a": neither}) == {"a": neither}


def test_a_union_with_more_alternatives_than_anybody_compares_is_refused() -> None:
    many = [{"type": "object", "properties": {f"p{number}": {}}, "required": [f"p{number}"]} for number in range(65)]
    with pytest.raises(ExportError, match="more than 64 alternatives"):
        of(a={"anyOf": many})
