"""Tools as the providers' requests want them, and the way back for the model's arguments.

`export` computes a provider's shape from the tool's own schema, which stays as it is. What comes back from the model
goes through `Exported.decode` before it is validated against that schema.

    >>> from streamtools import tool
    >>> @tool(effect="pure")
    ... def add(a: int, b: int = 0) -> int:
    ...     \"""Add two numbers.\"""
    ...     return a + b
    >>> export(add, "anthropic.messages").payload["name"]
    'add'
"""

from __future__ import annotations

from ..tools import Exported
from ..tools.answer import ExportedOutput
from ..tools.formats import targets
from ..wires.tool_format import RequestLimits
from .batch import Exports, export_all
from .diff import Change, diff
from .exporting import ToolDefinition, export, parts, payload, schema
from .output import export_output
from .table import keyword_table, output_table, table

__all__ = [
    "Change",
    "Exported",
    "ExportedOutput",
    "Exports",
    "RequestLimits",
    "ToolDefinition",
    "diff",
    "export",
    "export_all",
    "export_output",
    "keyword_table",
    "output_table",
    "parts",
    "payload",
    "schema",
    "table",
    "targets",
]
