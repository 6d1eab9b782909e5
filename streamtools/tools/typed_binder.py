"""Binds arguments by the types of a function's parameters, or by those of a model that the function takes as a whole.

The schema that a model sees and the validator of its arguments come from one core schema, so they cannot disagree. That
of a function is made of its parameters as if all were keyword-only: ``*args`` is an array and
``**kwargs`` an object, each under its own name. `validate` therefore yields typed values by parameter name, and
`arrange` puts them where the function wants them, injected ones included; no position can shift. A freeform function
takes one text, whatever its parameter is called: for the model that is always ``input``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from inspect import Parameter
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import SchemaValidator
from typing_extensions import is_typeddict

from .binder import Coerce
from .callables import NO_VALUES, TAKEN, Placement, parameters_of, refuse
from .docstrings import Docstring, parse_docstring
from .injection import Injected
from .problems import listed, refusal, unknown
from .schema import CONFIG, CompiledParameters, JsonSchema, at_once, compile_parameters, leaves_a_choice, one_line
from .typed import TypedArguments
from .weight import Weigher

__all__ = ["TypedBinder", "docstring_of"]

_FREEFORM = "input"  # the argument of every freeform tool, as the stream's custom calls have it


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedBinder:
    """The arguments of a typed function or of a model, and how the function is called with them."""

    schema: dict[str, Any]
    """JSON Schema 2020-12 of the arguments: an object of plain JSON, closed unless a model says otherwise. Do not
    change it."""
    typed: TypedArguments
    placement: Placement
    text: str | None = None
    """The parameter that takes the text of a freeform tool."""
    model: str | None = None
    """The parameter that takes the instance of a model."""
    stray: tuple[str, ...] = ()
    """The parameters that only the docstring has: the model never reads their descriptions."""
    validator_name: str = "pydantic"

    @classmethod
    def of_signature(
        cls,
        function: Callable[..., Any],
        tool: str,
        *,
        require_hints: bool,
        descriptions: Mapping[str, str],
        coerce: Coerce,
        freeform: bool,
    ) -> TypedBinder:
        """Reads a function, in about half a millisecond: do it once, at definition.

        Args:
            function: the function that the tool runs; see `callables.as_function`.
            tool: the tool's name.
            require_hints: refuse parameters without a type hint; else they take any value.
            descriptions: the docstring's, by parameter name.
            coerce: the policy for values of another type.
            freeform: the function takes one text.

        Raises:
            ToolDefinitionError: a parameter has no hint, or a type that no schema can be made of; or a freeform
                function takes something else than one text.
        """
        parameters = parameters_of(function, tool, require_hints=require_hints)
        placement = Placement.of(function, parameters, tool)
        known = {parameter.name for parameter in parameters} | placement.reserved
        if freeform:
            compiled, text = _freeform(placement, tool, descriptions)
        else:
            compiled, text = compile_parameters(placement.open, tool, descriptions), None
        typed = TypedArguments.of(tool, compiled, coerce)
        stray = tuple(name for name in descriptions if name not in known)
        return cls(schema=compiled.schema, typed=typed, placement=placement, text=text, stray=stray)

    @classmethod
    def of_model(cls, model: Any, function: Callable[..., Any], tool: str, *, coerce: Coerce) -> TypedBinder:
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
        typed = TypedArguments.of(tool, compiled, coerce)
        return cls(schema=compiled.schema, typed=typed, placement=placement, model=parameter.name)

    @property
    def injected(self) -> Mapping[str, Injected]:
        """Parameters that the program fills, by name."""
        return self.placement.injected

    def validate(
        self, arguments: Mapping[str, Any], text: str | None, *, quick: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Returns typed values by parameter name, defaults filled in, and the coercions; see `Binder`."""
        value, coercions = self.typed.validate(arguments, text, quick=quick)
        if self.model is not None:
            self._refuse_unknown(arguments)
            return {self.model: value}, coercions
        _, values = value
        if self.text is not None:
            return {self.text: values[_FREEFORM]}, coercions
        placement = self.placement
        if placement.var_keyword is not None and (taken := placement.clashes(values[placement.var_keyword])):
            raise refusal(self.typed.tool, [f"{placement.var_keyword}.{name}: {TAKEN}" for name in taken])
        return values, coercions

    def _refuse_unknown(self, arguments: Mapping[str, Any]) -> None:
        takes = self.typed.takes
        extra = [key for key in arguments if key not in takes]
        if extra and self.schema["additionalProperties"] is False:
            raise refusal(self.typed.tool, listed(unknown(extra, takes)))

    def arrange(
        self, values: dict[str, Any], injected: Mapping[str, Any] = NO_VALUES
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns ``(args, kwargs)`` for the function."""
        return self.placement.arrange(values, injected)

    def drift(self) -> list[str]:
        """Returns a line for each parameter that only the docstring has; the schema was made of the types."""
        return [f"{name}: is described in the docstring, and no parameter of the function" for name in self.stray]


def _freeform(placement: Placement, tool: str, descriptions: Mapping[str, str]) -> tuple[CompiledParameters, str]:
    """Compiles the one parameter as an argument ``input``; returns also the parameter's own name."""
    parameter = placement.only(tool, "a freeform tool takes one text, and its function one parameter for it")
    argument = Parameter(_FREEFORM, Parameter.KEYWORD_ONLY, annotation=parameter.annotation)
    described = {_FREEFORM: descriptions[parameter.name]} if parameter.name in descriptions else {}
    compiled = compile_parameters([argument], tool, described)
    takes = compiled.schema["properties"].get(_FREEFORM, {})
    if takes.get("type") != "string" or "format" in takes:
        raise refuse(tool, "a freeform tool takes its text as a str", parameter.name)
    return compiled, parameter.name


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
    return CompiledParameters(SchemaValidator(core, CONFIG), root, leaves_a_choice(core), Weigher(core))
