"""Makes a JSON Schema and a validator of a function's signature, and the way to call the function.

The schema that a model sees and the validator of its arguments come from one core schema, so they cannot disagree. It
is made of the function's parameters as if all were keyword-only: ``*args`` is an array and ``**kwargs`` an object, each
under its own name. `Signature.validate` therefore yields typed values by parameter name, and `Signature.arrange` puts
them where the function wants them, injected ones included; no position can shift.

A freeform function takes one text, whatever its parameter is called: for the model that is always ``input``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

from .binder import Coerce
from .callables import NO_VALUES, TAKEN, Placement, parameters_of, refuse
from .problems import refusal
from .schema import CompiledParameters, compile_parameters
from .typed import TypedArguments

__all__ = ["Signature"]

_FREEFORM = "input"  # the argument of every freeform tool, as the stream's custom calls have it


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The arguments of a typed function, and how it is called with them."""

    schema: dict[str, Any]
    """JSON Schema 2020-12 of the arguments: a closed object of plain JSON. Do not change it."""
    typed: TypedArguments
    placement: Placement
    text: str | None = None
    """The parameter that takes the text of a freeform tool."""
    stray: tuple[str, ...] = ()
    """The parameters that only the docstring has: the model never reads their descriptions."""
    validator_name: str = "pydantic"

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        tool: str,
        *,
        require_hints: bool,
        descriptions: Mapping[str, str],
        coerce: Coerce,
        freeform: bool,
    ) -> Signature:
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

    @property
    def injected(self) -> tuple[str, ...]:
        """Parameters that the dispatcher fills."""
        return self.placement.injected

    def validate(
        self, arguments: Mapping[str, Any], text: str | None, *, quick: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Returns typed values by parameter name, defaults filled in, and the coercions; see `Binder`."""
        (_, values), coercions = self.typed.validate(arguments, text, quick=quick)
        if self.text is not None:
            return {self.text: values[_FREEFORM]}, coercions
        placement = self.placement
        if placement.var_keyword is not None and (taken := placement.clashes(values[placement.var_keyword])):
            raise refusal(self.typed.tool, [f"{placement.var_keyword}.{name}: {TAKEN}" for name in taken])
        return values, coercions

    def arrange(
        self, values: dict[str, Any], injected: Mapping[str, Any] = NO_VALUES
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns ``(args, kwargs)`` for the function."""
        return self.placement.arrange(values, injected)

    def drift(self) -> list[str]:
        """Returns a line for each parameter that only the docstring has; the schema was made of the signature."""
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
