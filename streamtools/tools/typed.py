"""Binds arguments by types: those of a function's parameters, or of a model that the function takes as a whole.

The schema that a model sees and the validator come from one core schema, so they cannot disagree.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from inspect import Parameter
from typing import Any, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic_core import SchemaValidator, ValidationError, from_json, to_json
from typing_extensions import is_typeddict

from ..errors import InvalidArguments, SchemaError, contained
from ..ground.text import MAX_KEY_CHARS, cut, type_name
from . import checks
from .binder import LARGE_CHARS, Coerce, TakesLong
from .callables import NO_VALUES, RESERVED, Docstring, Injected, Placement, parameters_of, parse_docstring, refuse
from .checks import BY_LAX_RULES, Checks, Enforced, coercions_of, listed, refusal, unknown
from .schema import CONFIG, CompiledParameters, JsonSchema, at_once, compile_parameters, leaves_a_choice, one_line
from .weight import TooHeavy, Weigher

FEW_ERRORS = 20
MAX_ERRORS = 5_000  # some 10 ms
MAX_ERROR_CHARS = 16 << 20  # of all words together, if each were as long as the schema
QUICK_UNITS = 50_000
"""Units of a `Weigher` in a validation that is to be quick: some 5 ms, and again for each policy of coercion."""
MAX_UNITS = 250_000  # the same for any validation: pydantic holds the interpreter while it works

_NO_JSON = "the arguments: should be plain JSON, without lone surrogates or too deep nesting"
_NOT_FINITE = "the arguments: should have neither NaN nor Infinity"


# The argument of every freeform tool, whatever its function's parameter is called: so the stream's custom calls have
# it.
_FREEFORM = "input"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedBinder:
    typed: TypedArguments
    placement: Placement
    text: str | None = None  # the parameter that takes the text of a freeform tool
    model: str | None = None  # the parameter that takes the instance of a model
    validator_name: str = "pydantic"
    checks: Checks | None = None  # the user's own, of the values

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
        """Reads a function, once, at its definition; raises a `ToolDefinitionError` for a parameter without a schema.
        Without `require_hints` one without a type takes any value; `descriptions` are the docstring's; a `freeform`
        function takes one text."""
        # Half a millisecond of work, which each call would pay otherwise.
        parameters = parameters_of(function, tool, require_hints=require_hints)
        placement = Placement.of(function, parameters, tool)
        names = [parameter.name for parameter in parameters]
        if freeform:
            compiled, text = _freeform(placement, tool, descriptions)
        else:
            compiled, text = compile_parameters(placement.open, tool, descriptions), None
        if placement.var_keyword is None:  # else a docstring may describe what its `**kwargs` take
            _refuse_stray([name for name in descriptions if name not in {*names, *placement.reserved}], names, tool)
        return cls(typed=TypedArguments(tool, compiled, coerce), placement=placement, text=text)

    @classmethod
    def of_model(cls, model: Any, function: Callable[..., Any], tool: str, *, coerce: Coerce) -> TypedBinder:
        placement = Placement.of(function, parameters_of(function, tool, require_hints=False), tool)
        parameter = placement.only(tool, "its function takes the model, in one parameter")
        is_model = inspect.isclass(model) and issubclass(model, BaseModel)
        if not (is_model or is_typeddict(model) or is_dataclass(model)):
            given = model.__name__ if inspect.isclass(model) else cut(str(model), MAX_KEY_CHARS)
            given = given if inspect.isclass(model) or get_origin(model) else f"an object of {type_name(model)}"
            wanted = "expected a pydantic BaseModel, a dataclass or a TypedDict, as a class"
            raise refuse(tool, f"{wanted}, got {given}; of another type make a field of such a class")
        typed = TypedArguments(tool, _compiled(model, tool), coerce)
        return cls(typed=typed, placement=placement, model=parameter.name)

    @property
    def schema(self) -> dict[str, Any]:
        return self.typed.schema

    @property
    def injected(self) -> Mapping[str, Injected]:
        return self.placement.injected

    def validate(
        self, arguments: Mapping[str, Any], text: str | None, *, quick: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        value, coercions = self.typed.validate(arguments, text, quick=quick)
        placement = self.placement
        if self.model is not None:
            self._refuse_unknown(arguments)
            values = {self.model: value}
        elif self.text is not None:
            values = {self.text: value[1][_FREEFORM]}
        else:
            _, values = value
            if placement.var_keyword is not None and (clashing := placement.clashes(values[placement.var_keyword])):
                raise refusal(self.typed.tool, [f"{placement.var_keyword}.{name}: {RESERVED}" for name in clashing])
        if self.checks is not None:
            given = dict(arguments)
            self.checks.judge(values, given)
            self.checks.run(values, given)
        return values, coercions

    def _refuse_unknown(self, arguments: Mapping[str, Any]) -> None:
        # pydantic's models ignore fields that they do not know, and a call with a misspelt argument would run without
        # it. A model that allows extra fields says so, and has an open schema.
        names = self.typed.names
        extra = [key for key in arguments if key not in names]
        if extra and self.schema["additionalProperties"] is False:
            raise refusal(self.typed.tool, listed(unknown(extra, names)))

    def arrange(
        self, values: dict[str, Any], injected: Mapping[str, Any] = NO_VALUES
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self.placement.arrange(values, injected)

    def drift(self) -> list[str]:
        """Empty, since the schema was made of the types."""
        return []


def _refuse_stray(stray: Sequence[str], names: Sequence[str], tool: str) -> None:
    from difflib import get_close_matches  # only for a mistake

    for name in stray:
        near = get_close_matches(name, names, n=1)
        instead = f"write {near[0]!r}" if near else f"its parameters are {', '.join(names)}" if names else "it has none"
        raise refuse(tool, f"the docstring describes {cut(name, MAX_KEY_CHARS)!r}, which is no parameter; {instead}")


def _freeform(placement: Placement, tool: str, descriptions: Mapping[str, str]) -> tuple[CompiledParameters, str]:
    """Compiles the one parameter as an argument ``input``; returns also the parameter's own name."""
    parameter = placement.only(tool, "a freeform tool takes one text, and its function one parameter for it")
    argument = Parameter(_FREEFORM, Parameter.KEYWORD_ONLY, annotation=parameter.annotation)
    described = {_FREEFORM: descriptions[parameter.name]} if parameter.name in descriptions else {}
    compiled = compile_parameters([argument], tool, described)
    accepted = compiled.schema["properties"].get(_FREEFORM, {})
    if accepted.get("type") != "string" or "format" in accepted:
        raise refuse(tool, "a freeform tool takes its text as a str", parameter.name)
    return compiled, parameter.name


def docstring_of(model: Any) -> Docstring:
    # A dataclass without one makes up its signature, `Point(x: int, y: int)`.
    text = inspect.cleandoc(model.__dict__.get("__doc__") or "")
    keys = {*getattr(model, "__required_keys__", ()), *getattr(model, "__optional_keys__", ())}  # a TypedDict's
    names = getattr(model, "model_fields", None) or getattr(model, "__dataclass_fields__", None) or keys
    return parse_docstring("" if text.startswith(f"{model.__name__}(") else text, names)


def _compiled(model: Any, tool: str) -> CompiledParameters:
    try:
        adapter = TypeAdapter(model)
        core = at_once(adapter.core_schema)
        schema = adapter.json_schema(schema_generator=JsonSchema)
    except Exception as error:  # pydantic's errors, and whatever hooks in the user's types raise
        raise refuse(tool, f"no schema can be made of the model: {one_line(error)}") from error
    definitions = schema.get("$defs", {})
    # A model that contains itself is a reference at the root, where providers want an object.
    root = dict(definitions.get(str(schema.get("$ref", "")).removeprefix("#/$defs/"), schema))
    if root.get("type") != "object":
        raise refuse(tool, "model: expected an object with fields, got another JSON type")
    for key in ("title", "description", "$defs"):  # the tool has a name and a text of its own
        root.pop(key, None)
    # Closed, though pydantic's own schema leaves it open: see `_refuse_unknown`.
    root = {"type": "object", "properties": {}, "additionalProperties": False, **root}
    for name, text in docstring_of(model).parameters.items():
        if name in root["properties"]:
            root["properties"][name] = {"description": text, **root["properties"][name]}
    if definitions:
        root["$defs"] = definitions
    return CompiledParameters(SchemaValidator(core, CONFIG), root, leaves_a_choice(core), Weigher(core))


# -- arguments, validated by their types --


def as_json(tool: str, arguments: Mapping[str, Any]) -> bytes:
    """Raises `InvalidArguments` if they are not an object of plain JSON values."""
    if type(arguments) is not dict:
        if not isinstance(arguments, Mapping):
            raise checks.refusal(tool, [f"the arguments: should be an object, not {type(arguments).__name__}"])
        arguments = dict(arguments)
    try:
        return to_json(arguments)
    except ValueError:  # its text quotes the value
        raise checks.refusal(tool, [_NO_JSON]) from None


def from_text(tool: str, data: str | bytes) -> dict[str, Any]:
    """Raises `InvalidArguments` for what is no JSON, or nested too deep to be read."""
    try:
        arguments: dict[str, Any] = from_json(data)
    except ValueError:  # its text may quote the input
        raise checks.refusal(tool, [_NO_JSON]) from None
    return arguments


def refuse_not_finite(tool: str, text: bytes) -> None:
    # Callers look for the words first, which may also stand inside a string: only parsing shows that.
    try:
        from_json(text, allow_inf_nan=False)
    except ValueError:
        raise checks.refusal(tool, [_NOT_FINITE]) from None


class TypedArguments:
    # Whatever the policy, the value is that of pydantic's lax validation. A strict success is the lax value, too,
    # unless the types leave a choice: of a union's models lax validation takes the one with the most fields, which may
    # be one that is not strictly valid. Such schemas are validated both ways (`chooses`).

    def __init__(self, tool: str, compiled: CompiledParameters, coerce: Coerce) -> None:
        self.tool, self.coerce = tool, coerce
        self.validator, self.schema, self.chooses, self.weigher = compiled
        self.names = tuple(self.schema["properties"])  # for the line about one that the tool does not have
        self.light_chars = self.weigher.light_chars  # no text that is shorter is weighed

    def validate(
        self, arguments: Mapping[str, Any], text: str | None, *, quick: bool = False
    ) -> tuple[Any, tuple[str, ...]]:
        # As JSON, in which a string is a date where one is wanted, and values of no declared type are copies: a tool
        # that changes them does not change the record of the call. The call's own text saves writing them again.
        data = as_json(self.tool, arguments) if text is None else text
        if len(data) > self.light_chars:
            self._weigh(arguments, len(data), quick)
        value: Any
        coercions: tuple[str, ...] = ()
        try:
            # Strictly first: that shows for the same price whether anything has to be coerced.
            value = self.validator.validate_json(data, strict=True)
        except ValidationError as error:
            # `strict` gives up here; `lax` has only learnt that something has to be coerced.
            if self.coerce == "strict":
                raise self._misfit(error, from_text(self.tool, data)) from None
            value, coercions = self._coerced(data, error)
        except BaseException as error:
            raise self._crashed(error) from contained(error)
        else:
            if self.chooses and self.coerce == "lax":
                value, coercions = self._chosen(data, value)
        if type(data) is bytes and (b"NaN" in data or b"Infinity" in data):
            refuse_not_finite(self.tool, data)
        return value, coercions

    def _weigh(self, arguments: Mapping[str, Any], chars: int, quick: bool) -> None:
        # Nobody can stop pydantic, and no other thread runs while it works.
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
        """Validates by lax rules; if that fails, too, with strings decoded where an array or object belongs."""
        try:
            value = self._run(data)
        except ValidationError as error:
            # Models write the JSON text of an object in its place: `"filters": "{\\"colour\\": \\"red\\"}"`.
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
        # Validated once more, since a type may compare as unequal even to itself.
        differs = not _same(value, strict) and _same(value, self._run(data))
        return value, (BY_LAX_RULES,) if differs else ()

    def _run(self, data: str | bytes, *, strict: bool | None = None) -> Any:
        try:
            return self.validator.validate_json(data, strict=strict)
        except ValidationError:
            raise
        except BaseException as error:
            raise self._crashed(error) from contained(error)

    def _crashed(self, error: BaseException) -> InvalidArguments:
        return checks.refusal(self.tool, [f"the arguments: the tool's own check raised {type_name(error)}"])

    def _misfit(self, error: ValidationError, arguments: dict[str, Any]) -> InvalidArguments:
        # Raised `from None`: pydantic's own error quotes the input.
        if self._is_long(error):
            count = error.error_count()
            lines = [*self._first_lines(arguments), f"the arguments: have {count} mistakes"]
        else:
            lines = checks.describe(error, arguments, names=self.names)
        return checks.refusal(self.tool, lines)

    def _first_lines(self, arguments: dict[str, Any]) -> list[str]:
        # Our validator stops at the first ones, where pydantic makes words of all.
        from ..limits import Limits

        try:
            judge = Enforced(self.schema, Limits())
        except SchemaError:
            return []
        lines, _ = judge.judge(arguments, decode=False)
        return checks.listed(lines)

    def _is_long(self, error: ValidationError) -> bool:
        # It makes them at once, and those of an enum name each option.
        count = error.error_count()
        if count <= FEW_ERRORS:
            return False
        return count > MAX_ERRORS or count * len(to_json(self.schema)) > MAX_ERROR_CHARS


def _same(one: object, other: object) -> bool:
    """Returns whether two validated values are equal, or their own comparison fails, which proves nothing."""
    try:
        return bool(one == other)
    except Exception:  # code of the user's
        return True
