"""Checks arguments by their types: makes typed values of them, or tells what is wrong with them.

Whatever the policy, the value is the one that pydantic's lax validation gives. ``lax`` validates strictly first, which
tells for the same price whether anything has to be coerced; ``strict`` takes nothing else.

A strict success is the lax value too, unless the types leave a choice: of a union's models lax validation takes the one
with the most fields, which may be one that is not strictly valid. Such schemas are validated both ways (`chooses`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import SchemaValidator, ValidationError, from_json, to_json

from ..errors import InvalidArguments, SchemaError
from . import problems
from .binder import LARGE_CHARS, Coerce, TakesLong
from .problems import BY_LAX_RULES, coercions_of
from .schema import CompiledParameters
from .weight import TooHeavy, Weigher

__all__ = ["TypedArguments", "as_json", "from_text", "refuse_not_finite"]

FEW_ERRORS = 20
MAX_ERRORS = 5_000  # some 10 ms
MAX_ERROR_CHARS = 16 << 20  # of all words together, if each were as long as the schema
QUICK_UNITS = 50_000
"""Units of a `Weigher` in a validation that is to be quick: some 5 ms, and again for each policy of coercion."""
MAX_UNITS = 250_000
"""The same for any validation: pydantic holds the interpreter while it works."""

_NO_JSON = "the arguments: should be plain JSON, without lone surrogates or too deep nesting"
_NOT_FINITE = "the arguments: should hold no NaN and no Infinity"


def as_json(tool: str, arguments: Mapping[str, Any]) -> bytes:
    """Returns arguments as JSON text.

    Raises:
        InvalidArguments: they are no object of plain JSON values.
    """
    if type(arguments) is not dict:
        if not isinstance(arguments, Mapping):
            raise problems.refusal(tool, [f"the arguments: should be an object, not {type(arguments).__name__}"])
        arguments = dict(arguments)
    try:
        return to_json(arguments)
    except ValueError:  # its text quotes the value
        raise problems.refusal(tool, [_NO_JSON]) from None


def from_text(tool: str, data: str | bytes) -> dict[str, Any]:
    """Returns the arguments that a JSON text says.

    Raises:
        InvalidArguments: it is none, or nested too deep to be read.
    """
    try:
        arguments: dict[str, Any] = from_json(data)
    except ValueError:  # its text may quote what came
        raise problems.refusal(tool, [_NO_JSON]) from None
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
        raise problems.refusal(tool, [_NOT_FINITE]) from None


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
            raise problems.refusal(self.tool, [line]) from None

    def _coerced(self, data: str | bytes, strict: ValidationError) -> tuple[Any, tuple[str, ...]]:
        """Validates by lax rules; if that fails, too, with strings decoded where an array or object belongs, which
        models send."""
        try:
            value = self._run(data)
        except ValidationError as error:
            arguments = from_text(self.tool, data)
            decoded = () if self._is_long(error) else problems.decode_strings(error, arguments)
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
        return problems.refusal(self.tool, [f"the arguments: the tool's own check raised {type(error).__name__}"])

    def _misfit(self, error: ValidationError, arguments: dict[str, Any]) -> InvalidArguments:
        # Raised `from None`: pydantic's own error quotes what came.
        if self._is_long(error):
            lines = self._first_lines(arguments) or [f"the arguments: have {error.error_count()} mistakes"]
        else:
            lines = problems.describe(error, arguments, takes=self.takes)
        return problems.refusal(self.tool, lines)

    def _first_lines(self, arguments: dict[str, Any]) -> list[str]:
        """Tells what is wrong, by the JSON Schema: that stops at the first problems, where pydantic makes words of all.
        Empty if the schema is larger than ours may be, or finds nothing wrong."""
        from ..limits import Limits
        from .enforce import Enforced

        try:
            judge = Enforced(self.schema, Limits())
        except SchemaError:
            return []
        lines, _ = judge.judge(arguments, decode=False, is_large=True, quick=False)
        return problems.listed(lines)

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
