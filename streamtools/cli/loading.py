"""``module:function`` in, tools out. The module is imported: its code runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import reduce
from types import ModuleType
from typing import Any

from ..errors import StreamToolsError, ToolDefinitionError
from ..tools import Tool, tool

__all__ = ["load_tools"]


def load_tools(reference: str) -> list[Tool]:
    """The tools that a reference means.

    Args:
        reference: ``package.module:name`` is a tool, a function, or a list of them (``module:Class.method`` as
            well); ``package.module`` alone all tools of the module. Modules are found from the current directory, too.

    Raises:
        StreamToolsError: there is no such thing, or it is no tool and cannot be one.
    """
    name, _, path = reference.partition(":")
    module = _imported(name, reference)
    if not path:
        found = {id(value): value for value in vars(module).values() if isinstance(value, Tool)}
        if not found:
            raise StreamToolsError(f"{reference}: the module has no tools; name a function: {reference}:function")
        return list(found.values())
    try:
        value: Any = reduce(getattr, path.split("."), module)
    except AttributeError as error:
        raise StreamToolsError(f"{reference}: {error}") from error
    values = value if isinstance(value, (list, tuple)) else [value]
    return [_as_tool(each, reference) for each in values]


def _as_tool(value: Any, reference: str) -> Tool:
    if isinstance(value, Tool):
        return value
    function: Callable[..., Any] = value
    try:
        return tool(function)
    except ToolDefinitionError as error:
        raise StreamToolsError(f"{reference}: {error}") from error


def _imported(name: str, reference: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise StreamToolsError(f"{reference!r} is no module:function (package.module:function)")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` has it
    try:
        return importlib.import_module(name)
    except Exception as error:  # the module is code of the user's, and may raise whatever it likes
        hint = "; name the module without .py" if name.endswith(".py") else ""
        raise StreamToolsError(f"cannot import {name}: {type(error).__name__}: {error}{hint}") from error
