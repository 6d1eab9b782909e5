"""Exports tools as the providers' requests want them, and decodes the model's arguments.

`export` computes a provider's shape from the tool's own schema, which stays as it is. The model's arguments go through
`Exported.decode` before they are validated against that schema.

    >>> from streamtools import tool
    >>> @tool(effect="pure")
    ... def add(a: int, b: int = 0) -> int:
    ...     \"""Add two numbers.\"""
    ...     return a + b
    >>> export(add, "anthropic.messages").payload["name"]
    'add'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ground.on_demand import names
from ..stages.output import ExportedOutput
from ..tools import Exported
from ..tools.entries import targets
from ..wires.formats import RequestLimits
from .exporting import Exports, ToolDefinition, export, export_all, export_output, schema

if TYPE_CHECKING:
    from ..interop.compared import Change, diff, parts
else:
    __getattr__ = names(__name__, {".interop.compared": "Change diff parts"})

__all__ = [
    "Change", "Exported", "ExportedOutput", "Exports", "RequestLimits", "ToolDefinition", "diff", "export",
    "export_all", "export_output", "parts", "schema", "targets",
]  # fmt: skip
