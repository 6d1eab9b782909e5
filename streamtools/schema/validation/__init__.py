"""Validates by JSON Schema, for tools whose schema somebody else wrote: 2020-12 and draft-07, offline, within limits.

    validator = compile({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
    validator.validate({"city": 5})  # [SchemaProblem(path=("city",), keyword="type", ...)]

A schema is read (`reading`), its schemas and references are found (`document`, by the tables of `vocabulary`), their
relations are checked (`graph`), and each becomes a function (`compiler`, with the keywords of `scalars`, `arrays`,
`objects`, `combined` and `unevaluated`).
"""

from __future__ import annotations

from .run import Budget, Exhausted, SchemaProblem
from .validator import Validator, compile

__all__ = ["Budget", "Exhausted", "SchemaProblem", "Validator", "compile"]
