"""Fields and parameters may be called like anything in pydantic's core schemas: `type`, `ref`, `default`, `fields`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, Signature
from itertools import product
from keyword import iskeyword
from types import GenericAlias
from typing import Annotated, Any, Literal, NamedTuple, get_args

import pydantic
import pytest
from profiles import every, mostly_thorough, thorough_unless
from pydantic import Field
from pydantic_core import core_schema
from typing_extensions import TypedDict

from streamtools import Tool, parse, tool
from streamtools.errors import InvalidArguments, ToolDefinitionError
from streamtools.exports import export, export_output, targets
from streamtools.wires import WIRES

SCHEMAS = [one for one in vars(core_schema).values() if hasattr(one, "__required_keys__")]
KEYS = {key for one in SCHEMAS for key in (*one.__required_keys__, *one.__optional_keys__)}
KINDS = {*get_args(core_schema.CoreSchemaType), *get_args(core_schema.CoreSchemaFieldType)}
JSON_SCHEMA = {"properties", "required", "items", "enum", "const", "anyOf", "additionalProperties", "description"}
NAMES = sorted(name for name in KEYS | {kind.replace("-", "_") for kind in KINDS} | JSON_SCHEMA if not iskeyword(name))
USUAL = ("type", "ref", "schema", "metadata", "default", "config", "fields", "serialization", "choices", "definitions")

Fields = Mapping[str, Any]


def model(fields: Fields) -> Any:
    return pydantic.create_model("Model", **{name: (of, ...) for name, of in fields.items()})


def as_dataclass(fields: Fields) -> Any:
    return dataclasses.make_dataclass("Data", list(fields.items()))


def pydantic_dataclass(fields: Fields) -> Any:
    return pydantic.dataclasses.dataclass(as_dataclass(fields))


def typed_dict(fields: Fields) -> Any:
    return TypedDict("Dict", dict(fields))  # type: ignore[operator]


def named_tuple(fields: Fields) -> Any:
    return NamedTuple("Tuple", list(fields.items()))


SHAPES: tuple[Callable[[Fields], Any], ...] = (model, as_dataclass, pydantic_dataclass, typed_dict, named_tuple)
ROOTS = SHAPES[:-1]  # a tuple is no object
OWN_VALIDATORS = (model, pydantic_dataclass)


def taking(annotations: Fields) -> Tool[..., Any]:
    """A tool of a function with these parameters."""

    def take(**given: Any) -> str:
        """Take."""
        return "taken"

    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=of) for name, of in annotations.items()]
    take.__signature__ = Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    take.__annotations__ = {**annotations, "return": str}
    return tool(take)


def problems(made: Tool[..., Any], arguments: Any) -> str:
    with pytest.raises(InvalidArguments) as caught:
        made.validate(arguments)
    return "; ".join(caught.value.problems)


def answered(text: str) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()


def below(shape: Any, name: str, value: Any) -> Any:
    return [value] if shape is named_tuple else {name: value}


pytestmark = pytest.mark.filterwarnings("ignore:Field name:UserWarning")  # `schema` and others are a model's methods


def test_the_names_are_those_of_the_pydantic_that_is_installed() -> None:
    assert {*USUAL, "definition_ref", "tagged_union", "generator", "model_field"} <= set(NAMES)


@every("name", thorough_unless(USUAL.__contains__, NAMES))
def test_a_field_of_any_name_is_checked_wherever_it_stands(name: str) -> None:
    assert problems(taking({name: int}), {name: "x"}).startswith(f"{name}: ")
    for shape in SHAPES:
        kind = shape({name: int})
        made = taking({name: kind})
        assert made.validate({name: below(shape, name, 1)}).by_name.keys() == {name}
        path = f"{name}[0]" if shape is named_tuple else f"{name}.{name}"
        assert problems(made, {name: below(shape, name, "x")}).startswith(f"{path}: ")
        if shape in ROOTS:
            whole = Tool.from_model(kind, lambda given: "", name="take", description="Takes.", effect="pure")
            assert whole.validate({name: 1})
            assert problems(whole, {name: "x"}).startswith(f"{name}: ")


@every("name", thorough_unless(USUAL.__contains__, NAMES))
def test_what_a_lazy_iterable_of_any_name_has_is_checked_in_time_or_refused(name: str) -> None:
    for shape in SHAPES:
        kind = shape({name: Iterable[int]})
        # Two places of one type make pydantic write it down once and refer to it.
        for fields in ({name: kind}, {"first": kind, "second": kind}):
            for held in (taking, model):
                if held is model or shape in OWN_VALIDATORS:
                    with pytest.raises(ToolDefinitionError, match="write list or Sequence"):
                        taking({"held": model(fields)} if held is model else fields)
                else:
                    made = taking(fields)
                    assert made.validate(dict.fromkeys(fields, below(shape, name, [1])))
                    assert "integer" in problems(made, dict.fromkeys(fields, below(shape, name, ["x"])))


@every("name", thorough_unless(USUAL.__contains__, NAMES))
def test_work_below_a_field_of_any_name_is_weighed(name: str) -> None:
    alike = [((1 << 61) - 1) * number for number in range(1, 5000)]
    for shape in SHAPES:
        made, arguments = taking({name: shape({name: set[int]})}), {name: below(shape, name, alike)}
        with pytest.raises(InvalidArguments, match="too much work"):
            made.validate(arguments, text=json.dumps(arguments))


@every("name", thorough_unless(USUAL.__contains__, NAMES))
def test_a_union_is_chosen_by_a_tag_of_any_name_and_value(name: str) -> None:
    one, other = (typed_dict({name: Literal[tag], "n": int}) for tag in (name, "other"))
    union: Any = Annotated[one | other, Field(discriminator=name)]
    made = taking({name: union, "several": GenericAlias(list, (union,))})
    fits = {name: name, "n": 1}
    assert made.validate({name: fits, "several": [fits]})
    assert "integer" in problems(made, {name: fits, "several": [{**fits, "n": "x"}]})


@every("shape", mostly_thorough(SHAPES, 1))
def test_all_names_together_are_exported_and_answered(shape: Any) -> None:
    for names in (NAMES, ["type"], ["ref", "type"], ["properties", "type"]):
        kind = shape(dict.fromkeys(names, int))
        made = [taking(dict.fromkeys(names, int)), taking({"type": kind})]
        if shape in ROOTS:
            made.append(Tool.from_model(kind, lambda given: "", name="take", description="Takes.", effect="pure"))
        for one, strict in product(made, (False, True)):
            for wire in targets(strict=strict):
                sent = json.dumps(export(one, wire, strict=strict).payload)
                assert shape is named_tuple or all(json.dumps(name) in sent for name in names), wire
        if shape in ROOTS:
            for wire in sorted(set(WIRES) - {"openai.realtime", "gemini.live"}):  # which have no form for answers
                sent = json.dumps(export_output(kind, wire).request)
                assert all(name in sent for name in names), wire
            turn = parse(answered(json.dumps(dict.fromkeys(names, 1))), output=kind)
            assert turn.output is not None
            assert parse(answered(json.dumps(dict.fromkeys(names, "x"))), output=kind).output is None
