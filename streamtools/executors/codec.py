"""Writes the messages between an executor and its workers, as JSON within a limit: a call, its reports, its end.

A tool is not sent: the worker finds it as ``module:qualname``. A value is never written beyond the limit.
"""

from __future__ import annotations

import importlib
import json
from functools import reduce
from typing import Any

from pydantic_core import to_json

from ..dispatch import Invocation
from ..dispatch.results import encode_error, encode_result, tool_error
from ..errors import ToolDefinitionError, ToolFailed, ToolNotStarted
from ..ground import type_name
from ..tools import AnyTool, Exported, Tool, tool
from .local import bind

FIELDS = ("tool", "arguments", "key", "effect", "attempt", "call_id", "run_id", "step", "has_context")


def encode_call(call: Invocation, reference: str, tool: Tool[..., Any], max_bytes: int, **more: Any) -> bytes:
    """Returns a call that fits its tool as JSON, for a worker that finds the tool by its reference; raises
    `ToolNotStarted` if the arguments do not fit, are no plain JSON, or are larger than `max_bytes`."""
    bind(tool, call)
    message = {
        "call": {name: getattr(call, name) for name in FIELDS},
        "reference": reference,
        "fingerprint": tool.fingerprint,
        **more,
    }
    try:
        data = json.dumps(message, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):  # its text quotes the value
        raise ToolNotStarted(f"not run: the arguments of {call.tool} are not plain JSON") from None
    if len(data) > max_bytes:
        raise ToolNotStarted(f"not run: the call has {len(data)} bytes (max_message_bytes={max_bytes})")
    return data


def encode_value(tool: str, value: Any, max_bytes: int) -> bytes:
    data = encode_result(value, max_bytes)
    if len(data) > max_bytes:
        raise ToolFailed(f"the result of the tool {tool} is too large (max_message_bytes={max_bytes})")
    return data


def encode_report(value: Any, max_bytes: int) -> bytes:
    try:
        data = encode_result(value, max_bytes)
    except ToolFailed as error:
        raise ToolFailed(f"progress: a {type(value).__name__} cannot be written as JSON") from error.__cause__
    if len(data) > max_bytes:
        raise ToolFailed(f"progress: too large (max_message_bytes={max_bytes})")
    return data


def encode_failure(tool: str, error: BaseException, max_bytes: int) -> bytes:
    try:
        words = encode_error(tool, tool_error(tool, error))
        data = to_json({name: str.encode(text, "utf-8", "replace").decode() for name, text in words.items()})
    except BaseException:  # the error's own code runs here
        data = b""
    if data and len(data) <= max_bytes:
        return data
    return to_json({"kind": "ToolFailed", "text": f"the tool {tool} raised {type_name(error)}"})


# -- the name by which a worker finds a tool --


def reference_of(given: AnyTool | str) -> tuple[str, Tool[..., Any]]:
    """Returns the tool, and its name in its module or its ``module:qualname``. Raises a `ToolDefinitionError` if the
    module does not know it by that, or is ``__main__``, which a worker cannot import."""
    if isinstance(given, str):
        found = resolved(given)
        return given, found
    if isinstance(given, Exported):
        raise TypeError(f"pass the tool {given.name!r} itself to the executor, since arguments are decoded before")
    made = given if isinstance(given, Tool) else tool()(given)
    reference = f"{getattr(made.fn, '__module__', '')}:{getattr(made.fn, '__qualname__', '')}"
    if resolved(reference).fingerprint != made.fingerprint:
        raise _refused(
            reference, "its module has another tool of this name; pass this tool's place as 'module:name'", made.name
        )
    return reference, made


def resolved(reference: str) -> Tool[..., Any]:
    module, _, path = reference.partition(":")
    if module == "__main__":
        raise _refused(reference, "a worker cannot import __main__; move the tool into another module")
    if "<" in path or not all(part.isidentifier() for part in (*module.split("."), *path.split("."))):
        raise _refused(reference, "a worker finds tools by name; define it at the top of a module")
    try:
        found: Any = reduce(getattr, path.split("."), importlib.import_module(module))
    except Exception as error:  # the module is the user's code
        raise _refused(
            reference, f"cannot be imported ({type_name(error)}); pass its place as 'module:name'"
        ) from error
    return found if isinstance(found, Tool) else tool()(found)


def _refused(reference: str, why: str, name: str | None = None) -> ToolDefinitionError:
    return ToolDefinitionError(f"tool {reference!r}: {why}", tool=name or reference)
