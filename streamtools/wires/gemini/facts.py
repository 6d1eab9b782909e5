"""How the Gemini API writes a call and its result."""

from __future__ import annotations

from collections.abc import Mapping

from ..call_format import CallFormat
from ..result_format import ResultFormat

__all__ = ["CALLS", "RESULT"]

CALLS = (
    CallFormat(
        name="gemini.function_declaration",
        inside="functionCall",
        id="id",
        id_inside=True,
        id_optional=True,  # older models have none
        arguments="args",
    ),
)

RESULT = ResultFormat(
    recognises=lambda result: isinstance(result.get("functionResponse"), Mapping), list_key="parts", id_optional=True
)
