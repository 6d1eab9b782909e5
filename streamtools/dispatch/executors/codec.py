"""Writes the messages between an executor and its workers, as JSON within a bound: a call, its reports, its end.

A tool does not travel: the worker finds it as ``module:qualname``. No value is written in full only to be refused as
too large: its least size is counted first.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import is_
from typing import Any

from pydantic_core import to_json

from ...content import Text, ToolResult
from ...errors import ToolDefinitionError, ToolFailed, ToolNotStarted, contained
from ...ground import type_name
from ...tools import AnyTool, Exported, Tool, tool
from .. import Invocation
from ..results import encode_error, encode_result, tool_error
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
        raise ToolNotStarted(f"not run: the arguments of {call.tool} are no plain JSON") from None
    if len(data) > max_bytes:
        raise ToolNotStarted(f"not run: the call has {len(data)} bytes (max_message_bytes={max_bytes})")
    return data


def encode_value(tool: str, value: Any, max_bytes: int) -> bytes:
    try:
        data = encode_result(_within(value, max_bytes))
        size = f"{len(data)} bytes" if len(data) > max_bytes else ""
    except TooLarge:
        data, size = b"", "more than that"
    if size:
        raise ToolFailed(f"the tool {tool} returned {size} (max_message_bytes={max_bytes})")
    return data


def encode_report(value: Any, max_bytes: int) -> bytes:
    try:
        data = to_json(_within(value, max_bytes))
        size = f"{len(data)} bytes" if len(data) > max_bytes else ""
    except TooLarge:
        data, size = b"", "too large"
    except BaseException as error:  # the value's own code runs here
        raise ToolFailed(f"progress: a {type(value).__name__} cannot be written as JSON") from contained(error)
    if size:
        raise ToolFailed(f"progress: {size} (max_message_bytes={max_bytes})")
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
        raise TypeError(f"give the executor the tool {given.name!r} itself; what the model sends is decoded before")
    made = given if isinstance(given, Tool) else tool()(given)
    reference = f"{getattr(made.fn, '__module__', '')}:{getattr(made.fn, '__qualname__', '')}"
    if resolved(reference).fingerprint != made.fingerprint:
        raise _refused(
            reference, "its module has another tool there; give the place of this one as 'module:name'", made.name
        )
    return reference, made


def resolved(reference: str) -> Tool[..., Any]:
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
            reference, f"cannot be imported ({type_name(error)}); give its place as 'module:name'"
        ) from error
    return found if isinstance(found, Tool) else tool()(found)


def _refused(reference: str, why: str, name: str | None = None) -> ToolDefinitionError:
    return ToolDefinitionError(f"tool {reference!r}: {why}", tool=name or reference)


# -- values, bounded before they are written --

MAX_DEPTH = 100  # values that are nested deeper are not counted; pydantic-core writes no JSON that is deeper than 255


class TooLarge(Exception):
    """The value's JSON is larger than the bound."""


def _within(value: Any, max_bytes: int) -> Any:
    """Returns the value, with iterators read out into lists; raises `TooLarge` by the least size that its JSON can
    have.
    """
    return _Counted(max_bytes).plain(value, 0)


class _Counted:
    def __init__(self, left: int) -> None:
        self._left = left

    def plain(self, value: Any, depth: int) -> Any:
        self._take(len(value) + 2 if isinstance(value, (str, bytes, bytearray)) else 1)
        if depth > MAX_DEPTH:
            return value
        if isinstance(value, dict):
            kept = [self._item(item, depth) for item in value.values()]
            same = all(map(is_, kept, value.values()))
            return value if same else dict(zip(value, kept, strict=True))
        if isinstance(value, (list, tuple, set, frozenset)):
            kept = [self._item(item, depth) for item in value]
            return value if all(map(is_, kept, value)) else kept
        if isinstance(value, Iterator):
            return [self._item(item, depth) for item in value]
        return self._result(value, depth) if isinstance(value, ToolResult) else value

    def _result(self, value: ToolResult, depth: int) -> ToolResult:
        for block in value.blocks:
            said = block.text if isinstance(block, Text) else getattr(block, "data", None)
            self._take(len(said or ""))
        return replace(value, value=self.plain(value.value, depth), display=self.plain(value.display, depth))

    def _item(self, item: Any, depth: int) -> Any:
        self._take(1)  # a comma
        return self.plain(item, depth + 1)

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLarge
