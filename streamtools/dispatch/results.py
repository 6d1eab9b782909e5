"""A tool's result as JSON bytes, and back: for workers in other processes, and for stores.

In: a value that JSON can express, or a `ToolResult`. Out: bytes; and from them the value as plain JSON, or an equal
`ToolResult`. A value of a type that JSON lacks comes back as JSON renders it: a model or dataclass as a dict, bytes as
base64 text, a tuple as a list. A text comes back as a model would read it: half a surrogate pair is a question mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pydantic_core import from_json, to_json

from .. import errors
from ..content import Block, Media, Opaque, Text, ToolResult
from ..errors import ToolError, ToolFailed, ToolNotStarted, ToolTimeout

__all__ = ["AsRead", "decode_error", "decode_result", "encode_error", "encode_result", "tool_error"]

_BLOCKS: Mapping[str, Any] = {"text": Text, "media": Media, "opaque": Opaque}
_NAMES = {kind: name for name, kind in _BLOCKS.items()}


@dataclass(frozen=True, slots=True)
class AsRead:
    """A value that a model has read in other words than its JSON would give again."""

    value: Any = field(repr=False)
    content: str = field(repr=False)
    """The text that the model has read."""


def encode_result(value: Any) -> bytes:
    """Returns a tool's value as bytes.

    Raises:
        ToolFailed: JSON cannot express the value.
    """
    if isinstance(value, ToolResult):
        said: dict[str, Any] = {
            "blocks": [[_NAMES[type(block)], _fields(block)] for block in value.blocks],
            "value": value.value,
            "is_error": value.is_error,
            "native": value.native,
            "display": value.display,
        }
        return _json({"result": said}, value)
    if isinstance(value, AsRead):
        return _json({"value": value.value, "content": value.content}, value.value)
    return _json({"value": _sayable(value) if isinstance(value, str) else value}, value)


def _fields(block: Block) -> dict[str, Any]:
    given = {one.name: getattr(block, one.name) for one in fields(block)}  # `asdict` copies; not all can be copied
    return {**given, "text": _sayable(block.text)} if isinstance(block, Text) else given


def _sayable(text: str) -> str:
    return text if text.isascii() else str.encode(text, "utf-8", "replace").decode()


def decode_result(data: bytes) -> Any:
    """Returns the value that `encode_result` has written.

    Raises:
        ValueError: `encode_result` has not written this.
    """
    said = from_json(data)
    if "result" not in said:
        return AsRead(said["value"], said["content"]) if "content" in said else said["value"]
    result = said["result"]
    blocks: list[Block] = [_BLOCKS[name](**given) for name, given in result.pop("blocks")]
    return ToolResult(blocks=blocks, **result)


def tool_error(tool: str, error: BaseException) -> ToolError:
    """Returns the error to raise for an error of a tool's code: the tool's own `ToolError` if that has words, else a
    `ToolFailed`, which names only its type. It is not for a tool to say that its call has not begun, or was out of
    time."""
    if isinstance(error, ToolError) and not isinstance(error, (ToolNotStarted, ToolTimeout)):
        try:
            str(error)
        except (Exception, SystemExit):  # a subclass of the user's
            pass
        else:
            return error
    return ToolFailed(encode_error(tool, error)["text"])


def encode_error(tool: str, error: BaseException) -> dict[str, str]:
    """Returns a failure as the model may read it: the text of a `ToolError`, of anything else only the type."""
    if not isinstance(error, ToolError):
        return {"kind": "ToolFailed", "text": f"the tool {tool} raised {type(error).__name__}"}
    try:
        text = str(error)
    except (Exception, SystemExit):  # a subclass of the user's
        text = f"the tool {tool} raised {type(error).__name__}"
    return {"kind": type(error).__name__, "text": text}


def decode_error(said: Mapping[str, str]) -> ToolError:
    """Returns the failure that `encode_error` has written. Our own classes keep their type if their text alone makes
    them; all others become `ToolFailed`."""
    kind = getattr(errors, said["kind"], ToolFailed)
    ours = isinstance(kind, type) and issubclass(kind, ToolError) and kind.__init__ is ToolError.__init__
    failure: ToolError = kind(said["text"]) if ours else ToolFailed(said["text"])
    return failure


def _json(said: Mapping[str, Any], value: Any) -> bytes:
    try:
        return to_json(said, bytes_mode="base64", inf_nan_mode="null")
    except Exception as error:  # the value's own code runs here: serialisers, properties, generators
        message = f"the tool returned a {type(value).__name__}, which cannot be written as JSON"
        raise ToolFailed(message) from error
