"""Validates by JSON Schema, for tools whose schema somebody else wrote: 2020-12 and draft-07, offline, within limits.

    validator = compile({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
    validator.validate({"city": 5})  # [SchemaProblem(path=("city",), keyword="type", ...)]

jsonschema-rs judges. It cannot be interrupted, and no other thread runs meanwhile, so all its input is bounded before:
a schema is copied within the limits (`reading`), its schemas and references are found (`document`) and written again
with local references and the patterns that can be enforced (`plain`, `patterns`), its circles are looked at (`graph`),
and the work for each value is bounded (`work`). `problems` words what it finds.
"""

from __future__ import annotations

from typing import Any, Literal

from ...errors import SchemaError
from ...limits import Limits
from .document import DIALECTS, Document, refuse_to_fetch
from .graph import outline
from .patterns import MAX_SIZE, Patterns
from .plain import in_plain_form, weakened
from .problems import SchemaProblem, check_values, problems_of
from .reading import read_schema
from .work import TooMuch, Work

__all__ = ["SchemaProblem", "TooMuch", "Validator", "compile"]

QUICK_UNITS = 20_000  # units of work of a quick validation: weighing as many takes some 10 ms
MAX_EXPLAINED_QUICKLY = 1_000
MAX_EXPLAINED = 30_000
"""Units of work up to which problems are named: each may be a problem, which takes some 12 µs to make."""
MAX_PRINTED = 100_000_000
"""Units of work times characters up to which problems are named: the engine prints the value into each."""


def compile(
    schema: Any, *, dialect: Literal["2020-12", "draft-07"] = "2020-12", limits: Limits = Limits()
) -> Validator:
    """Makes a validator of a JSON Schema. Nothing is fetched.

    ``format``, ``contentEncoding`` and ``contentMediaType`` are annotations: they do not decide what is valid.

    Args:
        schema: a dict, True or False: plain JSON, which is copied.
        dialect: how to read a schema that has no ``$schema``.
        limits: ``max_schema_bytes``, ``max_schema_nodes``, ``max_schema_values``, ``max_schema_depth``,
            ``max_pattern_chars``, and ``max_validation_steps``, which bounds the work for each value.

    Raises:
        SchemaError: `schema` is not a valid schema, refers to another document, is of an unknown dialect, or exceeds a
            limit.
    """
    if dialect not in DIALECTS:
        raise SchemaError(f"dialect: expected {' or '.join(map(repr, DIALECTS))}, got {dialect!r}")
    document = Document(read_schema(schema, limits), DIALECTS[dialect], limits)
    check_values(document)
    patterns = Patterns(limits)
    plain = in_plain_form(document, patterns, limits)
    shape = outline(plain, limits)
    work = Work(plain, shape, patterns)
    work.refuse_more_than(limits.max_validation_steps)
    plain.origins = {}  # a server's list may have thousands of schemas
    return Validator(work, tuple(patterns.unenforced), limits)


class Validator:
    """Judges values by one schema. It may be used by several threads at once."""

    name = "jsonschema-rs"  # the engine that judges

    def __init__(self, work: Work, unenforced: tuple[str, ...], limits: Limits) -> None:
        self.unenforced = unenforced  # patterns that are not enforced, a line for each, with its place and the reason
        self._work = work
        self._most = limits.max_validation_steps
        self._engine = _engine(work.plain.whole())
        self._explaining = None if work.circular else (work, self._engine)

    def validate(self, value: Any, *, chars: int | None = None, quick: bool = False) -> list[SchemaProblem]:
        """Returns the problems of a value, at most 64; empty if it fits.

        A value that takes too much work has one problem, whose keyword is ``limit``. One that does not fit and is large
        has one without a place, and so may one of a recursive schema.

        Args:
            value: plain JSON.
            chars: the length of the value as JSON, if it is known.
            quick: raise `TooMuch` for what takes more than about 10 ms.
        """
        most = min(QUICK_UNITS, self._most) if quick else self._most
        try:
            if chars is None or not self._work.surely_within(chars, most):
                self._work.of(value, most)
            if self._engine.is_valid(value):
                return []
            found = self._explained(value, MAX_EXPLAINED_QUICKLY if quick else MAX_EXPLAINED)
        except TooMuch:
            if most < self._most:
                raise
            message = f"takes too much work to check (Limits(max_validation_steps={self._most}))"
            return [SchemaProblem(path=(), keyword="limit", message=message)]
        except (TypeError, ValueError):  # not possible in JSON text: half a surrogate pair, a key that is not a string
            return [SchemaProblem(path=(), keyword="", message="contains a value that JSON does not have")]
        if found is None and quick:
            raise TooMuch
        return found or [SchemaProblem(path=(), keyword="", message="does not fit the schema")]

    def _explained(self, value: Any, most: int) -> list[SchemaProblem] | None:
        """Returns the problems that are found within `most` units; None if there may be more work to find some."""
        if self._explaining is None:
            if most < MAX_EXPLAINED:  # making it takes longer
                return None
            # Not the schema itself: looking for all problems by a recursive one takes twice the time for each level.
            plain = weakened(self._work.plain, self._work.circular)
            try:
                work = Work(plain, outline(plain, Limits()), self._work.patterns)
                self._explaining = work, _engine(plain.whole())
            except SchemaError:  # too deep
                return []
        work, engine = self._explaining
        try:
            if work.of(value, most) * _printed(value) <= MAX_PRINTED:
                return problems_of(engine.iter_errors(value), value, work.plain)
        except TooMuch:
            if most < MAX_EXPLAINED:
                return None
            if engine is not self._engine:  # which may need far more work than the schema itself, and was not weighed
                return []
        if not work.has_alternatives:
            try:
                engine.validate(value)
            except ValueError as error:
                return problems_of([error], value, work.plain)
        return []


def _engine(schema: dict[str, Any]) -> Any:
    import jsonschema_rs  # 60 ms, which a program without foreign schemas does not pay

    try:
        return jsonschema_rs.Draft202012Validator(
            schema,
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=MAX_SIZE),  # which never backtracks
            retriever=refuse_to_fetch,
            mask="the value",
        )
    except ValueError as error:
        raise SchemaError(f"is not a schema: {str(error)[:200]}") from error


def _printed(value: Any) -> int:
    count, waiting = 0, [value]
    while waiting:
        held = waiting.pop()
        if isinstance(held, dict):
            count += sum(map(len, held))
            waiting.extend(held.values())
        elif isinstance(held, list):
            waiting.extend(held)
        count += len(held) if isinstance(held, str) else 4
    return count
