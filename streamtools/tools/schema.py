"""Makes a validator and a JSON Schema for parameters, both from one pydantic core schema."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from types import GenericAlias
from typing import Annotated, Any, NamedTuple, Unpack, cast, get_args, get_origin

import typing_extensions
from pydantic import ConfigDict, Field, PydanticSchemaGenerationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic.warnings import PydanticExperimentalWarning
from pydantic_core import CoreConfig, CoreSchema, PydanticSerializationError, SchemaValidator
from pydantic_core.core_schema import ArgumentsV3Schema

from .callables import refuse
from .weight import NO_SCHEMAS, Core, Weigher, definitions_of, nodes_of, schemas_in

with warnings.catch_warnings():
    # pydantic warns on import of anything experimental (2.11 to 2.13). There is no other way to these schemas, and our
    # users, who may have turned warnings into errors, did not choose it.
    warnings.simplefilter("ignore", PydanticExperimentalWarning)
    from pydantic.experimental.arguments_schema import generate_arguments_schema

CONFIG = CoreConfig(allow_inf_nan=False, hide_input_in_errors=True)
_ROOT_KEYS = ("type", "properties", "required", "additionalProperties", "$defs")


class CompiledParameters(NamedTuple):
    validator: SchemaValidator
    schema: dict[str, Any]  # JSON Schema 2020-12: a closed object of plain JSON
    chooses: bool  # see `leaves_a_choice`
    weigher: Weigher


def compile_parameters(
    parameters: Sequence[Parameter], tool: str, descriptions: Mapping[str, str]
) -> CompiledParameters:
    """Returns validator and JSON Schema of a tool's arguments; raises a `ToolDefinitionError`, which names the
    parameter, if none can be made. `descriptions` are the docstring's; a text in the annotation has precedence."""
    try:
        core = _core_schema(parameters)
        validator = SchemaValidator(core, CONFIG)
        schema = JsonSchema().generate(core)
    except Exception as error:  # pydantic's errors, and whatever hooks in the user's types raise
        raise _refused(parameters, tool, error) from error
    wire_names = _wire_names(core, tool)
    for parameter in parameters:
        # `setdefault`: a description in pydantic's `Field` is already there, and comes before both.
        text = _note(parameter.annotation) or descriptions.get(parameter.name)
        if text:
            schema["properties"][wire_names[parameter.name]].setdefault("description", text)
        if _unpacked(parameter):
            inner = schema["properties"][wire_names[parameter.name]]
            definition = str(inner.get("$ref", "")).removeprefix("#/$defs/")
            if "required" in schema.get("$defs", {}).get(definition, inner):
                schema.setdefault("required", []).append(wire_names[parameter.name])
    root = {key: schema[key] for key in _ROOT_KEYS if key in schema}
    return CompiledParameters(validator, root, leaves_a_choice(core), Weigher(core))


class JsonSchema(GenerateJsonSchema):
    """Generates JSON Schema as pydantic does, of closed objects without made-up titles ("Max Results")."""

    # Both leave something out that a model need not know: an alternative that JSON cannot express, and a default that
    # is not JSON (a sentinel). The argument stays optional.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  # as pydantic has it

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Returns False: a field has a title only if one was written."""
        return False

    def arguments_v3_schema(self, schema: ArgumentsV3Schema) -> JsonSchemaValue:
        json_schema = super().arguments_v3_schema(schema)
        for name, property_schema in json_schema["properties"].items():
            if property_schema.get("title") == self.get_title_from_name(name):
                del property_schema["title"]
        return {**json_schema, "additionalProperties": False}

    def encode_default(self, dft: Any) -> Any:
        """Returns a default as JSON; any other raises, and is left out."""
        value = super().encode_default(dft)
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            raise PydanticSerializationError("expected a default that JSON has, got one that is not finite") from None
        return value


_SCALARS = frozenset(
    {"none", "bool", "int", "float", "decimal", "str", "bytes", "literal", "enum", "uuid", "url"}
    | {"date", "time", "datetime", "timedelta"}
)
_MAY_DIFFER = frozenset({"function-wrap", "function-plain", "lax-or-strict"})


def leaves_a_choice(core: Any) -> bool:
    # Unions of anything but scalars, validators that may catch an error, defaults in the place of an error, and types
    # that have a schema for each of the two.
    return any(map(_chooses, nodes_of(core)))


def at_once(core: Any) -> Any:
    """Returns the core schema with lists for lazy iterators; raises a TypeError for one in a pydantic model."""
    # pydantic validates an iterator's items when they are asked for: by then the call has been accepted, and its record
    # would have nothing but a spent iterator. A model's own validator is made already, and cannot be changed.
    if not any(node["type"] == "generator" for node in nodes_of(core)):
        return core
    definitions = definitions_of(core)
    made = [node for node in nodes_of(core) if hasattr(node.get("cls"), "__pydantic_validator__")]
    if any(inner["type"] == "generator" for node in made for inner in nodes_of(node, definitions)):
        raise TypeError("a field of a model is an Iterable, whose items nobody checks; write list or Sequence")
    return _with_lists(core)


def _with_lists(node: Any) -> Any:
    if isinstance(node, dict):
        kept = NO_SCHEMAS if isinstance(node.get("type"), str) else ()  # else they are names of fields
        copied = {key: value if key in kept else _with_lists(value) for key, value in node.items()}
        return {**copied, "type": "list"} if node.get("type") == "generator" else copied
    return type(node)(map(_with_lists, node)) if isinstance(node, (list, tuple)) else node


def _chooses(node: Core) -> bool:
    kind = node["type"]
    if kind == "union":
        return node.get("mode") == "left_to_right" or any(one["type"] not in _SCALARS for one in schemas_in(node))
    return kind in _MAY_DIFFER or node.get("on_error", "raise") != "raise"


def _core_schema(parameters: Sequence[Parameter]) -> CoreSchema:
    # `arguments-v3` passes all of a battery of twenty signatures, and is the fastest of pydantic's ways; 2.10 lacks it.
    core = generate_arguments_schema(_stand_in(parameters), "arguments-v3", config=ConfigDict(allow_inf_nan=False))
    # Set in the schema and not in the config, which from pydantic 2.12 on would close the TypedDicts inside, too.
    _arguments(core)["extra_behavior"] = "forbid"
    return cast(CoreSchema, at_once(core))


def _arguments(core: CoreSchema) -> ArgumentsV3Schema:
    return cast(ArgumentsV3Schema, core["schema"] if core["type"] == "definitions" else core)


def argument_of(parameter: Parameter) -> tuple[str, Any]:
    """Returns the name that the model uses for a parameter, and the core schema of its type."""
    (argument,) = _arguments(_core_schema([parameter]))["arguments_schema"]
    return str(argument.get("alias", argument["name"])), argument["schema"]


def _stand_in(parameters: Sequence[Parameter]) -> Callable[..., Any]:
    # `*args: T` is a `list[T]` and `**kwargs: T` a `dict[str, T]`, each under its own name. So validation returns
    # values by name, and no injected parameter shifts the positions of others.

    def stand_in() -> None: ...

    signature = inspect.Signature([_by_keyword(parameter) for parameter in parameters])
    stand_in.__annotations__ = {
        p.name: p.annotation for p in signature.parameters.values() if p.annotation is not p.empty
    }
    stand_in.__signature__ = signature  # type: ignore[attr-defined]  # where inspect looks for it
    return stand_in


def _by_keyword(parameter: Parameter) -> Parameter:
    keyword = parameter.replace(kind=Parameter.KEYWORD_ONLY)
    annotation = Any if parameter.annotation is Parameter.empty else parameter.annotation
    if parameter.kind is Parameter.VAR_POSITIONAL:
        many = GenericAlias(list, (annotation,))
        return keyword.replace(annotation=many, default=Field(default_factory=list))
    if _unpacked(parameter):
        # Validated also where it is left out, so that a required key in the TypedDict is missing.
        default = Field(default_factory=dict, validate_default=True)
        return keyword.replace(annotation=get_args(annotation)[0], default=default)
    if parameter.kind is Parameter.VAR_KEYWORD:
        many = GenericAlias(dict, (str, annotation))
        return keyword.replace(annotation=many, default=Field(default_factory=dict))
    return keyword


def _unpacked(parameter: Parameter) -> bool:
    unpack = (Unpack, typing_extensions.Unpack)  # two objects before Python 3.12
    return parameter.kind is Parameter.VAR_KEYWORD and get_origin(parameter.annotation) in unpack


def _wire_names(core: CoreSchema, tool: str) -> dict[str, str]:
    """Returns the names that the model uses, by parameter name: the same, but for ``Field(alias=...)``."""
    names: dict[str, str] = {}
    for argument in _arguments(core)["arguments_schema"]:
        name, wire_name = argument["name"], argument.get("alias", argument["name"])
        if not isinstance(wire_name, str):
            raise refuse(tool, "has several aliases; give it one, Field(alias='...')", name)
        if wire_name in names.values():
            raise refuse(tool, f"another parameter has the name {wire_name!r}", name)
        names[name] = wire_name
    return names


def _note(annotation: Any) -> str | None:
    if get_origin(annotation) is not Annotated:
        return None
    return next((note for note in annotation.__metadata__ if isinstance(note, str)), None)


def _refused(parameters: Sequence[Parameter], tool: str, error: Exception) -> Exception:
    # pydantic's error names a type and not a parameter, so each is tried alone.
    for parameter in parameters:
        try:
            core = _core_schema([parameter])
            SchemaValidator(core)
            JsonSchema().generate(core)
        except Exception as alone:
            instead = _INSTEAD if isinstance(alone, PydanticSchemaGenerationError) else ""
            return refuse(tool, f"no schema can be made from its type: {one_line(alone)}{instead}", parameter.name)
    return refuse(tool, f"no schema can be made from its parameters: {one_line(error)}")


_INSTEAD = (  # of a type that pydantic does not know
    " Write a plain type, a model, a dataclass or a TypedDict if the model fills it; "
    "if the program does, take a streamtools.ToolContext."
)


def one_line(error: Exception) -> str:
    """Returns an exception's text in one line, without pydantic's advertisement, nor its advice about its own hooks."""
    text = str(error).partition("\n\nFor further information")[0].partition(" Set `arbitrary_types_allowed=")[0]
    return " ".join(text.split())
