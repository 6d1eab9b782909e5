"""How the Gemini API writes a call."""

from __future__ import annotations

from ..call_format import CallFormat

__all__ = ["CALLS"]

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
