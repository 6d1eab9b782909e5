"""Binds arguments by types: those of a function's parameters, or of a model that the function takes as a whole.

The schema that a model sees and the validator of its arguments come from one core schema, so they cannot disagree. That
of a function is made of its parameters as if all were keyword-only: ``*args`` is an array and ``**kwargs`` an object,
each under its own name. `validate` therefore yields typed values by parameter name, and `arrange` puts them where the
function wants them, injected ones included; no position can shift. A freeform function takes one text, whatever its
parameter is called: for the model that is always ``input``.

Whatever the policy of coercion, the value is the one that pydantic's lax validation gives. ``lax`` validates strictly
first, which shows for the same price whether anything has to be coerced; ``strict`` takes nothing else. A strict
success is the lax value too, unless the types leave a choice: of a union's models lax validation takes the one with the
most fields, which may be one that is not strictly valid. Such schemas are validated both ways (`chooses`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from inspect import Parameter
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import SchemaValidator, ValidationError, from_json, to_json
from typing_extensions import is_typeddict

from ..errors import InvalidArguments, SchemaError
from . import checks
from .binder import LARGE_CHARS, Coerce, TakesLong
from .callables import NO_VALUES, TAKEN, Docstring, Injected, Placement, parameters_of, parse_docstring, refuse
from .checks import BY_LAX_RULES, Enforced, coercions_of, listed, refusal, unknown
from .schema import CONFIG, CompiledParameters, JsonSchema, at_once, compile_parameters, leaves_a_choice, one_line
from .weight import TooHeavy, Weigher

__all__ = ["TypedArguments", "TypedBinder", "as_json", "docstring_of", "from_text", "refuse_not_finite"]


FEW_ERRORS = 20
MAX_ERRORS = 5_000  # some 10 ms
MAX_ERROR_CHARS = 16 << 20  # of all words together, if each were as long as the schema
QUICK_UNITS = 50_000
"""Units of a `Weigher` in a validation that is to be quick: some 5 ms, and again for each policy of coercion."""
MAX_UNITS = 250_000
"""The same for any validation: pydantic holds the interpreter while it works."""

_NO_JSON = "the arguments: should be plain JSON, without lone surrogates or too deep nesting"
_NOT_FINITE = "the arguments: should hold no NaN and no Infinity"


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
        if placement.var_keyword is not None and (clashing := placement.clashes(values[placement.var_keyword])):
            raise refusal(self.typed.tool, [f"{placement.var_keyword}.{name}: {TAKEN}" for name in clashing])
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


# -- arguments, validated by their types -------------------------------------------------------------------------------


def as_json(tool: str, arguments: Mapping[str, Any]) -> bytes:
    """Returns arguments as JSON text.

    Raises:
        InvalidArguments: they are no object of plain JSON values.
    """
    if type(arguments) is not dict:
        if not isinstance(arguments, Mapping):
            raise checks.refusal(tool, [f"the arguments: should be an object, not {type(arguments).__name__}"])
        arguments = dict(arguments)
    try:
        return to_json(arguments)
    except ValueError:  # its text quotes the value
        raise checks.refusal(tool, [_NO_JSON]) from None


def from_text(tool: str, data: str | bytes) -> dict[str, Any]:
    """Returns the arguments that a JSON text says.

    Raises:
        InvalidArguments: it is none, or nested too deep to be read.
    """
    try:
        arguments: dict[str, Any] = from_json(data)
    except ValueError:  # its text may quote what came
        raise checks.refusal(tool, [_NO_JSON]) from None
    return arguments


def refuse_not_finite(tool: str, text: bytes) -> None:
    """Refuses the NaN and the Infinity that Python's floats may be and JSON has no word for. Ask for it where one of
    the words is in the text: perhaps it is inside a string, which parsing tells.

    Raises:
        InvalidArguments: there is one.
    """
    try:
        from_json(text, allow_inf_nan=False)
    except ValueError:
        raise checks.refusal(tool, [_NOT_FINITE]) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedArguments:
    """Validates a tool's arguments by pydantic, with a policy of coercion."""

    tool: str
    """The tool's name, for errors."""
    validator: SchemaValidator
    coerce: Coerce
    chooses: bool
    """Strict and lax validation may both succeed and differ; see `schema.leaves_a_choice`."""
    takes: tuple[str, ...]
    """The names of the arguments, for the line about one that the tool does not have."""
    schema: dict[str, Any]
    """JSON Schema of the arguments."""
    weigher: Weigher
    """Weighs the work that pydantic would make of arguments."""
    light_chars: int
    """The weigher's: no text that is shorter is weighed."""

    @classmethod
    def of(cls, tool: str, compiled: CompiledParameters, coerce: Coerce) -> TypedArguments:
        """Returns the arguments of a tool whose types have been compiled."""
        return cls(
            tool=tool,
            validator=compiled.validator,
            coerce=coerce,
            chooses=compiled.chooses,
            takes=tuple(compiled.schema["properties"]),
            schema=compiled.schema,
            weigher=compiled.weigher,
            light_chars=compiled.weigher.light_chars,
        )

    def validate(
        self, arguments: Mapping[str, Any], text: str | None, *, quick: bool = False
    ) -> tuple[Any, tuple[str, ...]]:
        """Returns the typed value of the arguments, and the coercions that were needed.

        They are validated as the JSON that they are, so that a string is a date where one is wanted, and values of no
        declared type are copies: a tool that changes them does not change the record of the call.

        Raises:
            InvalidArguments: they do not fit the schema.
            TakesLong: it was to be quick, and is not.
        """
        data = as_json(self.tool, arguments) if text is None else text
        if len(data) > self.light_chars:
            self._weigh(arguments, len(data), quick)
        value: Any
        coercions: tuple[str, ...] = ()
        try:
            value = self.validator.validate_json(data, strict=True)
        except ValidationError as error:
            if self.coerce == "strict":
                raise self._misfit(error, from_text(self.tool, data)) from None
            value, coercions = self._coerced(data, error)
        except Exception as error:
            raise self._crashed(error) from error
        else:
            if self.chooses and self.coerce == "lax":
                value, coercions = self._chosen(data, value)
        if type(data) is bytes and (b"NaN" in data or b"Infinity" in data):
            refuse_not_finite(self.tool, data)
        return value, coercions

    def _weigh(self, arguments: Mapping[str, Any], chars: int, quick: bool) -> None:
        """Refuses what pydantic, which nobody can stop, would work on for too long."""
        if quick and chars > LARGE_CHARS:
            raise TakesLong
        try:
            self.weigher.weigh(arguments, QUICK_UNITS if quick else MAX_UNITS)
        except TooHeavy:
            if quick:
                raise TakesLong from None
            line = f"the arguments: take too much work to check (more than {MAX_UNITS // 10_000} ms)"
            raise checks.refusal(self.tool, [line]) from None

    def _coerced(self, data: str | bytes, strict: ValidationError) -> tuple[Any, tuple[str, ...]]:
        """Validates by lax rules; if that fails, too, with strings decoded where an array or object belongs, which
        models send."""
        try:
            value = self._run(data)
        except ValidationError as error:
            arguments = from_text(self.tool, data)
            decoded = () if self._is_long(error) else checks.decode_strings(error, arguments)
            if not decoded:
                raise self._misfit(error, arguments) from None
            value, more = self._decoded(arguments)
            return value, decoded + more
        return value, self._coercions(strict, from_text(self.tool, data), value)

    def _decoded(self, arguments: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
        data = to_json(arguments)
        try:
            value = self._run(data)
        except ValidationError as error:
            raise self._misfit(error, arguments) from None
        try:
            self._run(data, strict=True)
        except ValidationError as strict:
            return value, self._coercions(strict, arguments, value)
        return value, ()

    def _coercions(self, strict: ValidationError, arguments: dict[str, Any], value: Any) -> tuple[str, ...]:
        return (BY_LAX_RULES,) if self._is_long(strict) else coercions_of(strict, arguments, value)

    def _chosen(self, data: str | bytes, strict: Any) -> tuple[Any, tuple[str, ...]]:
        """Returns lax validation's own choice; if it differs from strict validation's, something was coerced."""
        try:
            value = self._run(data)
        except ValidationError as error:
            raise self._misfit(error, from_text(self.tool, data)) from None
        differs = not _same(value, strict) and _same(value, self._run(data))
        return value, (BY_LAX_RULES,) if differs else ()

    def _run(self, data: str | bytes, *, strict: bool | None = None) -> Any:
        try:
            return self.validator.validate_json(data, strict=strict)
        except ValidationError:
            raise
        except Exception as error:
            raise self._crashed(error) from error

    def _crashed(self, error: Exception) -> InvalidArguments:
        """Returns the error for a validator of the user's that failed, other than by refusing."""
        return checks.refusal(self.tool, [f"the arguments: the tool's own check raised {type(error).__name__}"])

    def _misfit(self, error: ValidationError, arguments: dict[str, Any]) -> InvalidArguments:
        # Raised `from None`: pydantic's own error quotes what came.
        if self._is_long(error):
            lines = self._first_lines(arguments) or [f"the arguments: have {error.error_count()} mistakes"]
        else:
            lines = checks.describe(error, arguments, takes=self.takes)
        return checks.refusal(self.tool, lines)

    def _first_lines(self, arguments: dict[str, Any]) -> list[str]:
        """Tells what is wrong, by the JSON Schema: that stops at the first problems, where pydantic makes words of all.
        Empty if the schema is larger than ours may be, or finds nothing wrong."""
        from ..limits import Limits

        try:
            judge = Enforced(self.schema, Limits())
        except SchemaError:
            return []
        lines, _ = judge.judge(arguments, decode=False, is_large=True, quick=False)
        return checks.listed(lines)

    def _is_long(self, error: ValidationError) -> bool:
        """Returns whether pydantic would take long to make words of all errors: it does so at once, and those of an
        enum name each option."""
        count = error.error_count()
        if count <= FEW_ERRORS:
            return False
        return count > MAX_ERRORS or count * len(to_json(self.schema)) > MAX_ERROR_CHARS


def _same(one: object, other: object) -> bool:
    """Returns whether two validated values are equal; also if their own comparison fails, which says nothing."""
    try:
        return bool(one == other)
    except Exception:  # code of the user's
        return True
