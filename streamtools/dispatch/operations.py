"""Names the operation that a call asks for, by which a store knows it again, whoever asks for it under whatever id.

Input: a call of a tool with ``operation=``. Output: the key under which it is claimed, in place of the call's own. The
call that had the effect is named in the record, so that any other call which is answered by it is told so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_core import from_json, to_json

from ..content import Text
from ..tools import Tool
from .states import Ending

__all__ = ["operation_key", "repeated", "with_call", "was_made_by"]

_DONE = "This had been done already, by an earlier call, and was not done again. The result of that call:"
_FAILED = "This had been tried already, by an earlier call, and was not tried again. That call ended so:"


def operation_key(tool: Tool[..., Any], arguments: Mapping[str, Any], scope_id: str) -> tuple[str, str]:
    """Returns the key of the operation that a call asks for, and a hash of what is done.

    Args:
        tool: a tool with an operation.
        arguments: the validated arguments by name, defaults included.
        scope_id: the run or the conversation; empty if the operation is for ever.

    Raises:
        Exception: the tool's own function has raised this, an argument is missing, or the operation is no plain value.
    """
    operation = tool.operation
    if callable(operation):
        named = operation(arguments)
        if named is None:
            raise ValueError("the operation is None, which would be the same one for all calls")
    else:
        names = (operation,) if isinstance(operation, str) else operation or ()
        named = [arguments[name] for name in names]
    plain = from_json(to_json(named))
    text = json.dumps([tool.name, plain], sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    place = scope_id if len(scope_id) <= 256 else hashlib.sha256(scope_id.encode("utf-8", "replace")).hexdigest()
    return f"operation:{tool.scope}:{place}:{digest[:32]}", digest


def with_call(call_key: str, record: bytes) -> bytes:
    """Returns a record that names the call which it is of."""
    return record[:-1] + b',"call":' + to_json(call_key) + b"}"


def was_made_by(record: bytes | None, call_key: str) -> bool:
    """Returns whether a record is of this call."""
    if record is None:
        return False
    try:
        return bool(from_json(record).get("call") == call_key)
    except (ValueError, AttributeError):  # a person has settled it, or it cannot be read
        return False


def repeated(ending: Ending) -> Ending:
    """Returns the ending of a call that asks for what had been done, or tried, already."""
    if ending.error is not None and ending.result is None:
        return replace(ending, error=type(ending.error)(f"{_FAILED} {ending.error}"))
    note, result = _DONE if ending.error is None else _FAILED, ending.result
    content = ending.content() if callable(ending.content) else ending.content
    if result is not None:
        result = replace(result, blocks=(Text(note), *result.blocks), native={})
    return replace(ending, content=f"{note}\n{content}", result=result)
