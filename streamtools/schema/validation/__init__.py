"""Validates by JSON Schema, for tools whose schema somebody else wrote: 2020-12 and draft-07, offline, within limits.

    validator = compile({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
    validator.validate({"city": 5})  # [SchemaProblem(path=("city",), keyword="type", ...)]

A schema is copied within the limits (`values`), its schemas and references are found (`document`), their relations are
checked (`graph`), and each becomes a function (`compiler`, with the checks of `keywords`). `rust` asks jsonschema-rs
for a fast first opinion.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from ...errors import SchemaError
from ...limits import Limits
from . import keywords
from .compiler import Budget, Compiler, Exhausted, Makers, OwnValidator, SchemaProblem
from .document import DIALECTS, Document
from .graph import outline
from .rust import rust_validator
from .values import read_schema

__all__ = ["Budget", "Exhausted", "SchemaProblem", "Validator", "compile"]

_FIRST = Makers(*keywords.SCALARS, *keywords.ARRAYS, *keywords.OBJECTS, *keywords.COMBINED)
_LAST = Makers(*keywords.UNEVALUATED)


class Validator(Protocol):
    """Judges values by one schema. It may be used by several threads at once."""

    @property
    def name(self) -> str:
        """The engine that judges: ``jsonschema`` (this package) or ``jsonschema-rs``."""
        ...

    @property
    def unenforced(self) -> tuple[str, ...]:
        """Patterns that are not enforced, a line for each, with its place and the reason."""
        ...

    def validate(self, value: Any, budget: Budget | None = None) -> list[SchemaProblem]:
        """Returns the problems of a value, at most 64; empty if it fits.

        Args:
            value: plain JSON.
            budget: the work that may be done for it; by default as many steps as the limit allows.
        """
        ...

    def is_valid(self, value: Any) -> bool:
        """Returns whether a value fits; the same verdict as `validate`, without the reasons."""
        ...


def compile(
    schema: Any,
    *,
    dialect: Literal["2020-12", "draft-07"] = "2020-12",
    limits: Limits = Limits(),
    engine: Literal["own", "auto"] = "own",
) -> Validator:
    """Makes a validator of a JSON Schema. Nothing is fetched, and no pattern can make it hang.

    A value that is nested too deep for a recursive schema, or takes too much work, has a problem whose keyword is
    ``limit``. ``format``, ``contentEncoding`` and ``contentMediaType`` are annotations: they do not decide what is
    valid.

    Args:
        schema: a dict, True or False: plain JSON, which is copied.
        dialect: how to read a schema that has no ``$schema``.
        limits: ``max_schema_bytes``, ``max_schema_nodes``, ``max_schema_values``, ``max_schema_depth``,
            ``max_pattern_chars``, and ``max_validation_steps`` for each value.
        engine: ``auto`` lets jsonschema-rs decide that a value is valid, where it is installed and its verdicts are
            known to be the same (but it does not count steps); the reasons are always this package's.

    Raises:
        SchemaError: `schema` is not a valid schema, refers to another document, is of an unknown dialect, or exceeds a
            limit.
    """
    if engine not in ("own", "auto"):
        raise ValueError(f"engine: expected 'own' or 'auto', got {engine!r}")
    if dialect not in DIALECTS:
        raise SchemaError(f"dialect: expected {' or '.join(map(repr, DIALECTS))}, got {dialect!r}")
    document = Document(read_schema(schema, limits), DIALECTS[dialect], limits)
    shape = outline(document, limits)
    compiler = Compiler(document, limits, _FIRST, _LAST)
    check = compiler.compile()
    own = OwnValidator(check, document.root.resource, shape.is_recursive, compiler.unenforced, limits)
    made = own if engine == "own" else rust_validator(own, document, shape, compiler.weight) or own
    document.forget()  # the checks have all that they need, and a server's list may have thousands of schemas
    return made
