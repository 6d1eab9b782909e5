"""How Converse writes a call."""

from __future__ import annotations

from ..call_format import CallFormat

__all__ = ["CALLS"]

CALLS = (CallFormat(name="bedrock.tool_spec", inside="toolUse", id="toolUseId", id_inside=True, arguments="input"),)
