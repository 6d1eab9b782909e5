"""What the model will read: a tool's value, or its failure, as text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from ..content import Block, Media, Text, ToolResult
from ..errors import ToolError, ToolFailed
from ..limits import Limits

__all__ = ["bounded", "error_content", "value_content"]


def value_content(value: Any, max_bytes: int) -> str:
    """A tool's value as text: strings as they are, all else as JSON. Cut, with a note, beyond `max_bytes` of UTF-8.

    Raises:
        ToolFailed: the value cannot be written as JSON.
    """
    try:
        if isinstance(value, str):
            encoded = str.encode(value, "utf-8", "replace")
        else:
            encoded = to_json(value, bytes_mode="base64", inf_nan_mode="null")
    except Exception as error:  # the value's own code runs here: serialisers, properties, generators
        message = f"the tool returned a {type(value).__name__}, which cannot be written as JSON"
        raise ToolFailed(message) from error
    if len(encoded) <= max_bytes:
        return encoded.decode()
    shown = encoded[:max_bytes].decode("utf-8", "ignore")
    return f"{shown}\n{_cut(max_bytes, len(encoded))}"


def bounded(result: ToolResult, limits: Limits) -> tuple[ToolResult, str]:
    """A tool's own result within the limits, and all of it as one text: what is no text is a placeholder there.

    Text is cut at the limit, with one note. An image or file is whole or not there. An error begins with ``Error:``,
    like every other failure, since not every wire has a flag for it.
    """
    if result.is_error:
        result = replace(result, blocks=_as_error(result.blocks))
    whole = sum(len(str.encode(block.text, "utf-8", "replace")) for block in result.blocks if isinstance(block, Text))
    left, media_left = limits.max_result_bytes, limits.max_result_media_bytes
    blocks: list[Block] = []
    texts: list[str] = []
    for block in result.blocks:
        if isinstance(block, Text):
            if left < 0:
                continue  # the note about what was cut stands already
            encoded = str.encode(block.text, "utf-8", "replace")
            if len(encoded) > left:
                block = Text(f"{encoded[:left].decode('utf-8', 'ignore')}\n{_cut(limits.max_result_bytes, whole)}")
            elif not block.text.isascii():  # half a character cannot be sent
                block = replace(block, text=encoded.decode())
            left -= len(encoded)
            texts.append(block.text)
        elif isinstance(block, Media):
            texts.append(block.placeholder())
            media_left -= len(block.data or "")
            if media_left < 0:
                block = Text(f"{block.placeholder()} [left out: larger than max_result_media_bytes]")
        blocks.append(block)
    return replace(result, blocks=tuple(blocks)), "\n".join(texts)


def _as_error(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    first = blocks[0] if blocks else None
    if not isinstance(first, Text):
        return (Text("Error: the tool failed."), *blocks)
    return blocks if first.text.startswith("Error") else (Text(f"Error: {first.text}"), *blocks[1:])


def _cut(kept: int, size: int) -> str:
    return f"[cut: the first {kept} of {size} bytes]"


def error_content(error: ToolError, max_bytes: int) -> str:
    """A failure as text. A tool that wants to tell the model more raises a `ToolError` of its own wording."""
    try:
        text = str(error)
    except Exception:  # a subclass of the user's; that it failed is what there is to tell
        text = f"the tool raised {type(error).__name__}"
    return value_content(f"Error: {text}", max_bytes)
