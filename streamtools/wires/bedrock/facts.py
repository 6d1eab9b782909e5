"""How Converse writes a call and its result."""

from __future__ import annotations

from collections.abc import Mapping

from ..call_format import CallFormat
from ..result_format import ResultFormat

__all__ = ["CALLS", "RESULT"]

CALLS = (CallFormat(name="bedrock.tool_spec", inside="toolUse", id="toolUseId", id_inside=True, arguments="input"),)

RESULT = ResultFormat(
    recognises=lambda result: isinstance(result.get("toolResult"), Mapping) and "role" not in result,
    list_key="content",
)
