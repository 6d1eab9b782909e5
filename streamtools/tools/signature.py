"""A function's signature in; a JSON Schema, a validator and the way to call the function out.

The schema that a model sees and the validator of its arguments come from one core schema, so they cannot disagree. It
is made of the function's parameters as if all were keyword-only: ``*args`` is an array and ``**kwargs`` an object, each
under its own name. `Signature.validate` therefore yields typed values by parameter name, and `Signature.arrange` puts
them where the function wants them, injected ones included; no position can shift.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, ClassVar

from pydantic_core import SchemaValidator, ValidationError, from_json, to_json

from ..errors import InvalidArguments
from . import problems
from .callables import is_injected, parameters_of, reserved_names
from .schema import compile_parameters

__all__ = ["Signature"]

_NO_JSON = "the arguments: should be plain JSON, without lone surrogates or too deep nesting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a tool takes, and how its function is called."""

    tool: str
    """The tool's name, for errors."""
    schema: dict[str, Any]
    """JSON Schema 2020-12 of the arguments: a closed object of plain JSON. Do not change it."""
    injected: tuple[str, ...]
    """Parameters that the dispatcher fills."""
    validator: SchemaValidator
    positional: tuple[str, ...]
    """Parameters to pass by position, injected ones included."""
    var_positional: str | None
    var_keyword: str | None
    reserved: frozenset[str]
    """Names that an entry of ``**kwargs`` may not take."""
    validator_name: ClassVar[str] = "pydantic"

    @classmethod
    def of(
        cls, function: Callable[..., Any], tool: str, *, require_hints: bool, descriptions: Mapping[str, str]
    ) -> Signature:
        """Read a function. Takes about half a millisecond; do it once, at definition.

        Args:
            function: what the tool runs; see `callables.as_function`.
            tool: the tool's name.
            require_hints: refuse parameters without a type hint; else they take any value.
            descriptions: the docstring's, by parameter name.

        Raises:
            ToolDefinitionError: a parameter has no hint, or a type that no schema can be made of.
        """
        parameters = parameters_of(function, tool, require_hints=require_hints)
        injected = tuple(p.name for p in parameters if is_injected(p, tool))
        taken = [p for p in parameters if p.name not in injected]
        validator, schema = compile_parameters(taken, tool, descriptions)
        kinds = {p.kind: p.name for p in parameters}
        # *args can only follow parameters that are passed by position.
        last = Parameter.POSITIONAL_OR_KEYWORD if Parameter.VAR_POSITIONAL in kinds else Parameter.POSITIONAL_ONLY
        return cls(
            tool=tool,
            schema=schema,
            injected=injected,
            validator=validator,
            positional=tuple(p.name for p in parameters if p.kind <= last),
            var_positional=kinds.get(Parameter.VAR_POSITIONAL),
            var_keyword=kinds.get(Parameter.VAR_KEYWORD),
            reserved=reserved_names(function),
        )

    def validate(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Typed values by parameter name, defaults filled in, and the coercions that were needed.

        The arguments are validated as the JSON that they are, so that a string is a date where one is wanted, and
        values of no declared type are copies: a tool that changes them does not change the record of the call.

        Raises:
            InvalidArguments: they do not fit the schema.
        """
        text = self._as_json(arguments)
        coercions: tuple[str, ...] = ()
        try:
            values = self._run(text)
        except ValidationError as error:
            text, coercions = self._decoded(error, text)
            try:
                values = self._run(text)
            except ValidationError as second:
                raise self._misfit(second, from_json(text)) from None
        self._refuse_unsafe(text, values)
        return values, coercions

    def arrange(self, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """``(args, kwargs)`` for the function. Injected parameters that `values` lacks are left out."""
        if not self.positional and self.var_positional is None and self.var_keyword is None:
            return (), values
        named = dict(values)
        args = [named.pop(name) for name in self.positional if name in named]
        if self.var_positional is not None:
            args.extend(named.pop(self.var_positional))
        if self.var_keyword is not None:
            named.update(named.pop(self.var_keyword))  # no name of ours among them: _refuse_unsafe
        return tuple(args), named

    def _as_json(self, arguments: Mapping[str, Any]) -> bytes:
        if type(arguments) is not dict:
            if not isinstance(arguments, Mapping):
                raise self._invalid([f"the arguments: should be an object, not {type(arguments).__name__}"])
            arguments = dict(arguments)
        try:
            return to_json(arguments)
        except ValueError:  # its text quotes the value
            raise self._invalid([_NO_JSON]) from None

    def _run(self, text: bytes) -> dict[str, Any]:
        try:
            values: dict[str, Any] = self.validator.validate_json(text)[1]
        except ValidationError:
            raise
        except Exception as error:  # a validator of the user's failed, other than by refusing
            problem = f"the arguments: the tool's own check raised {type(error).__name__}"
            raise self._invalid([problem]) from error
        return values

    def _decoded(self, error: ValidationError, text: bytes) -> tuple[bytes, tuple[str, ...]]:
        """The arguments with strings decoded where an array or object belongs; models send those."""
        arguments = from_json(text)
        coercions = problems.decode_strings(error, arguments)
        if not coercions:
            raise self._misfit(error, arguments) from None
        return to_json(arguments), coercions

    def _refuse_unsafe(self, text: bytes, values: dict[str, Any]) -> None:
        """What fits the types and still must not run."""
        if b"NaN" in text or b"Infinity" in text:  # perhaps inside a string: parsing tells
            try:
                from_json(text, allow_inf_nan=False)
            except ValueError:
                raise self._invalid(["the arguments: should hold no NaN and no Infinity"]) from None
        if self.var_keyword is not None:
            taken = [name for name in values[self.var_keyword] if name in self.reserved]
            if taken:
                rule = "is a parameter of the tool itself, and cannot be set here"
                raise self._invalid([f"{self.var_keyword}.{name}: {rule}" for name in taken])

    def _invalid(self, lines: list[str]) -> InvalidArguments:
        return InvalidArguments(f"invalid arguments for {self.tool}: " + "; ".join(lines), problems=lines)

    def _misfit(self, error: ValidationError, arguments: dict[str, Any]) -> InvalidArguments:
        # Raised `from None`: pydantic's own error quotes what came.
        return self._invalid(problems.describe(error, arguments, takes=self.schema["properties"]))
