"""Binds a tool's arguments to a model, dataclass or TypedDict, which the function takes as a whole."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import CoreConfig, SchemaValidator
from typing_extensions import is_typeddict

from . import problems
from .binder import Coerce
from .callables import NO_VALUES, Placement, parameters_of, refuse
from .docstrings import Docstring, parse_docstring
from .schema import CompiledParameters, JsonSchema, at_once, leaves_a_choice, one_line
from .typed import TypedArguments
from .weight import Weigher

__all__ = ["ModelBinder", "docstring_of"]

_FINITE = CoreConfig(allow_inf_nan=False, hide_input_in_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBinder:
    """The fields of a model as arguments; the function gets the instance."""

    schema: dict[str, Any]
    """JSON Schema 2020-12 of the model: closed, unless the model says itself what may be beside its fields."""
    typed: TypedArguments
    placement: Placement
    parameter: str
    """The function's parameter that takes the instance."""
    closed: bool
    validator_name: str = "pydantic"

    @classmethod
    def of(cls, model: Any, function: Callable[..., Any], tool: str, *, coerce: Coerce) -> ModelBinder:
        """Reads a model, and the function for its one open parameter.

        Raises:
            ToolDefinitionError: no schema can be made of the model, or the function takes something else than it.
        """
        placement = Placement.of(function, parameters_of(function, tool, require_hints=False), tool)
        parameter = placement.only(tool, "its function takes the model, in one parameter")
        is_model = inspect.isclass(model) and issubclass(model, BaseModel)
        if not (is_model or is_typeddict(model) or is_dataclass(model)):
            raise refuse(tool, "the model must be a pydantic BaseModel, a dataclass or a TypedDict")
        compiled = _compiled(model, tool)
        return cls(
            schema=compiled.schema,
            typed=TypedArguments.of(tool, compiled, coerce),
            placement=placement,
            parameter=parameter.name,
            closed=compiled.schema["additionalProperties"] is False,
        )

    @property
    def injected(self) -> tuple[str, ...]:
        """Parameters that the dispatcher fills."""
        return self.placement.injected

    def validate(
        self, arguments: Mapping[str, Any], text: str | None, *, quick: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Returns the instance under its parameter's name, and the coercions; see `Binder`."""
        value, coercions = self.typed.validate(arguments, text, quick=quick)
        if self.closed and (extra := [key for key in arguments if key not in self.typed.takes]):
            raise problems.refusal(self.typed.tool, problems.listed(problems.unknown(extra, self.typed.takes)))
        return {self.parameter: value}, coercions

    def arrange(
        self, values: dict[str, Any], injected: Mapping[str, Any] = NO_VALUES
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns ``(args, kwargs)`` for the function."""
        return self.placement.arrange(values, injected)

    def drift(self) -> list[str]:
        """Returns no line: the schema was made of the model."""
        return []


def docstring_of(model: Any) -> Docstring:
    """Reads a model's own docstring; the one that a dataclass makes up says nothing."""
    text = inspect.cleandoc(model.__dict__.get("__doc__") or "")
    return parse_docstring("" if text.startswith(f"{model.__name__}(") else text)


def _compiled(model: Any, tool: str) -> CompiledParameters:
    """Returns validator and JSON Schema of a model, the root an object with its properties in place."""
    try:
        adapter = TypeAdapter(model)
        core = at_once(adapter.core_schema)
        schema = adapter.json_schema(schema_generator=JsonSchema)
    except Exception as error:  # pydantic's errors, and whatever hooks in the user's types raise
        raise refuse(tool, f"no schema can be made of the model: {one_line(error)}") from error
    definitions = schema.get("$defs", {})
    root = dict(definitions.get(str(schema.get("$ref", "")).removeprefix("#/$defs/"), schema))
    if root.get("type") != "object":
        raise refuse(tool, "the model must be an object with fields; this is none in JSON")
    for key in ("title", "description", "$defs"):  # the tool has a name and a text of its own
        root.pop(key, None)
    root = {"type": "object", "properties": {}, "additionalProperties": False, **root}
    for name, text in docstring_of(model).parameters.items():
        if name in root["properties"]:
            root["properties"][name] = {"description": text, **root["properties"][name]}
    if definitions:
        root["$defs"] = definitions
    return CompiledParameters(SchemaValidator(core, _FINITE), root, leaves_a_choice(core), Weigher(core))
