"""A model, dataclass or TypedDict that says what all of a tool's arguments are, and a function that takes it whole."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import CoreConfig, SchemaValidator
from typing_extensions import is_typeddict

from ..text import dotted
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
    """The arguments are the model's fields; the function gets the instance."""

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
        if len(placement.open) != 1 or len(placement.named) != 1:
            names = ", ".join(p.name for p in placement.open) or "none"
            raise refuse(tool, f"its function takes the model, in one parameter; this has: {names}")
        if not (
            is_typeddict(model) or is_dataclass(model) or (inspect.isclass(model) and issubclass(model, BaseModel))
        ):
            raise refuse(tool, "the model must be a pydantic BaseModel, a dataclass or a TypedDict")
        compiled = _compiled(model, tool)
        schema = compiled.schema
        takes = tuple(schema["properties"])
        return cls(
            schema=schema,
            typed=TypedArguments(
                tool=tool,
                validator=compiled.validator,
                coerce=coerce,
                chooses=compiled.chooses,
                takes=takes,
                schema=schema,
                weigher=compiled.weigher,
                light_chars=compiled.weigher.light_chars,
            ),
            placement=placement,
            parameter=placement.named[0].name,
            closed=schema["additionalProperties"] is False,
        )

    @property
    def injected(self) -> tuple[str, ...]:
        """Parameters that the dispatcher fills."""
        return self.placement.injected

    def validate(
        self, arguments: Mapping[str, Any], text: str | None, *, quick: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The instance under its parameter's name, and the coercions that were needed.

        Raises:
            InvalidArguments: they do not fit the model.
            TakesLong: it was to be quick, and is not.
        """
        value, coercions = self.typed.validate(arguments, text, quick=quick)
        if self.closed and (extra := [key for key in arguments if key not in self.typed.takes]):
            names = ", ".join(self.typed.takes) or "none"
            rule = f"is no argument of this tool, which takes {names}"
            raise problems.refusal(self.typed.tool, problems.listed([f"{dotted((key,))}: {rule}" for key in extra]))
        return {self.parameter: value}, coercions

    def arrange(
        self, values: dict[str, Any], injected: Mapping[str, Any] = NO_VALUES
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """``(args, kwargs)`` for the function."""
        return self.placement.arrange(values, injected)

    def drift(self) -> list[str]:
        """None: the schema was made of the model."""
        return []


def docstring_of(model: Any) -> Docstring:
    """What a model's own docstring says; the one that a dataclass makes up says nothing."""
    text = inspect.cleandoc(model.__dict__.get("__doc__") or "")
    return parse_docstring("" if text.startswith(f"{model.__name__}(") else text)


def _compiled(model: Any, tool: str) -> CompiledParameters:
    """Validator and JSON Schema, the root an object with its properties in place."""
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
