"""Names a tool as ``module:qualname``, for processes that have to find it by themselves, and finds it by that name."""

from __future__ import annotations

import importlib
from functools import reduce
from typing import Any

from ...errors import ToolDefinitionError
from ...tools import AnyTool, Tool, tool
from ...tools.toolset import Exported

__all__ = ["reference_of", "resolved"]


def reference_of(given: AnyTool | str) -> tuple[str, Tool[..., Any]]:
    """Returns where a worker finds the tool, and the tool.

    Args:
        given: a tool or function that its module knows by its name, or the ``module:qualname`` of one.

    Raises:
        ToolDefinitionError: the tool's module does not know it by that name; or the tool is in ``__main__``, which a
            worker cannot import.
    """
    if isinstance(given, str):
        found = resolved(given)
        return given, found
    if isinstance(given, Exported):
        raise TypeError(f"give the executor the tool {given.name!r} itself; what the model sends is decoded before")
    made = given if isinstance(given, Tool) else tool()(given)
    reference = f"{getattr(made.fn, '__module__', '')}:{getattr(made.fn, '__qualname__', '')}"
    if resolved(reference).fingerprint != made.fingerprint:
        raise _refused(
            reference, "its module has another tool there; give the place of this one as 'module:name'", made.name
        )
    return reference, made


def resolved(reference: str) -> Tool[..., Any]:
    """Returns the tool that ``module:qualname`` names.

    Raises:
        ToolDefinitionError: there is none.
    """
    module, _, path = reference.partition(":")
    if module == "__main__":
        raise _refused(reference, "a worker cannot import __main__; move the tool into a module of its own")
    if "<" in path or not all(part.isidentifier() for part in (*module.split("."), *path.split("."))):
        raise _refused(
            reference, "a worker finds tools by name; define it at a module's top, or give its place as 'module:name'"
        )
    try:
        found: Any = reduce(getattr, path.split("."), importlib.import_module(module))
    except Exception as error:  # the module is the user's code
        raise _refused(
            reference, f"cannot be imported ({type(error).__name__}); give its place as 'module:name'"
        ) from error
    return found if isinstance(found, Tool) else tool()(found)


def _refused(reference: str, why: str, name: str | None = None) -> ToolDefinitionError:
    return ToolDefinitionError(f"tool {reference!r}: {why}", tool=name or reference)
