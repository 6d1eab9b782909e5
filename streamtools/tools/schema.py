"""Parameters in, a validator and a JSON Schema out, both made of one pydantic core schema.

The core schema is ``arguments-v3`` of `pydantic.experimental.arguments_schema`, read off a stand-in function that takes
every parameter by keyword: ``*args: T`` as a ``list[T]``, ``**kwargs: T`` as a ``dict[str, T]``.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Mapping
from inspect import Parameter
from types import GenericAlias
from typing import Annotated, Any, Unpack, cast, get_args, get_origin

import typing_extensions
from pydantic import ConfigDict, Field
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic.warnings import PydanticExperimentalWarning
from pydantic_core import CoreConfig, CoreSchema, PydanticSerializationError, SchemaValidator
from pydantic_core.core_schema import ArgumentsV3Schema

from .callables import refuse

with warnings.catch_warnings():
    # pydantic warns on import of anything experimental (2.11 to 2.13). There is no other way to these schemas, and our
    # users, who may have turned warnings into errors, did not choose it.
    warnings.simplefilter("ignore", PydanticExperimentalWarning)
    from pydantic.experimental.arguments_schema import generate_arguments_schema

__all__ = ["compile_parameters"]

_ROOT_KEYS = ("type", "properties", "required", "additionalProperties", "$defs")


def compile_parameters(
    parameters: list[Parameter], tool: str, descriptions: Mapping[str, str]
) -> tuple[SchemaValidator, dict[str, Any]]:
    """Validator and JSON Schema of a tool's arguments.

    Args:
        parameters: with resolved annotations, without the injected ones.
        tool: the tool's name, for errors.
        descriptions: the docstring's, by parameter name; a text in the annotation comes first.

    Raises:
        ToolDefinitionError: no schema can be made of a parameter, which it names.
    """
    try:
        core = _core_schema(parameters)
        validator = SchemaValidator(core, CoreConfig(allow_inf_nan=False, hide_input_in_errors=True))
        schema = _Generator().generate(core)
    except Exception as error:  # pydantic's errors, and whatever hooks in the user's types raise
        raise _refused(parameters, tool, error) from error
    wire_names = _wire_names(core, tool)
    for parameter in parameters:
        text = _note(parameter.annotation) or descriptions.get(parameter.name)
        if text:
            schema["properties"][wire_names[parameter.name]].setdefault("description", text)
        if _unpacked(parameter) and _has_required(schema, wire_names[parameter.name]):
            schema.setdefault("required", []).append(wire_names[parameter.name])
    return validator, {key: schema[key] for key in _ROOT_KEYS if key in schema}


class _Generator(GenerateJsonSchema):
    """pydantic's generator, for a closed object without the titles that it makes up ("Max Results")."""

    # Both leave something out that a model need not know: an alternative that JSON cannot say, and a default that is
    # no JSON (a sentinel). The argument stays optional.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  # as pydantic has it

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def arguments_v3_schema(self, schema: ArgumentsV3Schema) -> JsonSchemaValue:
        json_schema = super().arguments_v3_schema(schema)
        for name, property_schema in json_schema["properties"].items():
            if property_schema.get("title") == self.get_title_from_name(name):
                del property_schema["title"]
        return {**json_schema, "additionalProperties": False}

    def encode_default(self, dft: Any) -> Any:
        value = super().encode_default(dft)
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            raise PydanticSerializationError("a default that is not finite is no JSON") from None
        return value


def _core_schema(parameters: list[Parameter]) -> CoreSchema:
    core = generate_arguments_schema(_stand_in(parameters), "arguments-v3", config=ConfigDict(allow_inf_nan=False))
    # Set here and not in the config, which from pydantic 2.12 on would close the TypedDicts inside, too.
    _arguments(core)["extra_behavior"] = "forbid"
    return core


def _arguments(core: CoreSchema) -> ArgumentsV3Schema:
    return cast(ArgumentsV3Schema, core["schema"] if core["type"] == "definitions" else core)


def _stand_in(parameters: list[Parameter]) -> Callable[..., Any]:
    """A function that takes by keyword what the tool takes."""

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
        default = Field(default_factory=dict, validate_default=True)
        return keyword.replace(annotation=get_args(annotation)[0], default=default)
    if parameter.kind is Parameter.VAR_KEYWORD:
        many = GenericAlias(dict, (str, annotation))
        return keyword.replace(annotation=many, default=Field(default_factory=dict))
    return keyword


def _unpacked(parameter: Parameter) -> bool:
    """``**kwargs: Unpack[SomeTypedDict]``."""
    unpack = (Unpack, typing_extensions.Unpack)  # two objects before Python 3.12
    return parameter.kind is Parameter.VAR_KEYWORD and get_origin(parameter.annotation) in unpack


def _has_required(schema: Mapping[str, Any], name: str) -> bool:
    """Whether a property's own schema, or the definition that it refers to, requires a key."""
    inner = schema["properties"][name]
    definition = str(inner.get("$ref", "")).removeprefix("#/$defs/")
    return "required" in schema.get("$defs", {}).get(definition, inner)


def _wire_names(core: CoreSchema, tool: str) -> dict[str, str]:
    """The names that the model uses, by parameter name: the same, unless ``Field(alias=...)`` says otherwise."""
    names: dict[str, str] = {}
    for argument in _arguments(core)["arguments_schema"]:
        name, wire_name = argument["name"], argument.get("alias", argument["name"])
        if not isinstance(wire_name, str):
            raise refuse(tool, "has several aliases; give it one, Field(alias='...')", name)
        if wire_name in names.values():
            raise refuse(tool, f"the name {wire_name!r} is taken by another parameter", name)
        names[name] = wire_name
    return names


def _note(annotation: Any) -> str | None:
    """The text of ``Annotated[str, "text"]``."""
    if get_origin(annotation) is not Annotated:
        return None
    return next((note for note in annotation.__metadata__ if isinstance(note, str)), None)


def _refused(parameters: list[Parameter], tool: str, error: Exception) -> Exception:
    """The error that names the parameter which has no schema: the first that has none alone."""
    for parameter in parameters:
        try:
            core = _core_schema([parameter])
            SchemaValidator(core)
            _Generator().generate(core)
        except Exception as alone:
            return refuse(tool, f"no schema can be made of its type: {_one_line(alone)}", parameter.name)
    return refuse(tool, f"no schema can be made of its parameters: {_one_line(error)}")


def _one_line(error: Exception) -> str:
    text = str(error).partition("\n\nFor further information")[0]
    return " ".join(text.split())
