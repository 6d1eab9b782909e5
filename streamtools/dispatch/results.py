"""What a tool returned, as JSON bytes and back: for workers in other processes, and for what a store keeps.

In: a value that JSON can say, or a `ToolResult`. Out: bytes; and from them the value as plain JSON, or an equal
`ToolResult`. What JSON has no word for comes back as what JSON makes of it: a model or dataclass as a dict, bytes as
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
    """A value that a model has read in other words than its JSON gives again."""

    value: Any = field(repr=False)
    content: str = field(repr=False)
    """What the model has read."""


def encode_result(value: Any) -> bytes:
    """A tool's value as bytes.

    Raises:
        ToolFailed: JSON cannot say it.
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
    given = {one.name: getattr(block, one.name) for one in fields(block)}  # `asdict` would copy what cannot be copied
    return {**given, "text": _sayable(block.text)} if isinstance(block, Text) else given


def _sayable(text: str) -> str:
    return text if text.isascii() else str.encode(text, "utf-8", "replace").decode()


def decode_result(data: bytes) -> Any:
    """The value that `encode_result` has written.

    Raises:
        ValueError: it has not written this.
    """
    said = from_json(data)
    if "result" not in said:
        return AsRead(said["value"], said["content"]) if "content" in said else said["value"]
    result = said["result"]
    blocks: list[Block] = [_BLOCKS[name](**given) for name, given in result.pop("blocks")]
    return ToolResult(blocks=blocks, **result)


def tool_error(tool: str, error: BaseException) -> ToolError:
    """Returns the error to raise for an error of a tool's code: its own `ToolError` if that has words, else a
    `ToolFailed`, which tells its type alone. That its call has not begun, or was out of time, is not for a tool to
    say."""
    if isinstance(error, ToolError) and not isinstance(error, (ToolNotStarted, ToolTimeout)):
        try:
            str(error)
        except (Exception, SystemExit):  # a subclass of the user's
            pass
        else:
            return error
    return ToolFailed(encode_error(tool, error)["text"])


def encode_error(tool: str, error: BaseException) -> dict[str, str]:
    """A failure as the model may read it: the text of a `ToolError`, of anything else only the type."""
    if not isinstance(error, ToolError):
        return {"kind": "ToolFailed", "text": f"the tool {tool} raised {type(error).__name__}"}
    try:
        text = str(error)
    except (Exception, SystemExit):  # a subclass of the user's
        text = f"the tool {tool} raised {type(error).__name__}"
    return {"kind": type(error).__name__, "text": text}


def decode_error(said: Mapping[str, str]) -> ToolError:
    """The failure that `encode_error` has written. Classes of ours keep their type where their text makes them, and all
    others are `ToolFailed`."""
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
