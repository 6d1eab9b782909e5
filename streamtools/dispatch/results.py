"""Writes a tool's value or failure: as text for the model, bounded while it is written, and as JSON bytes.

A text that is not small is written in a thread, in pieces, up to the limit and no further, so that a result that never
ends costs no more than the limit. A value of a type that JSON lacks comes back from bytes as JSON renders it.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from pydantic_core import from_json, to_json

from .. import errors
from ..content import AnsweredLater, Block, Media, Opaque, Text, ToolResult
from ..errors import BeginRefused, InvalidResult, ToolError, ToolFailed, ToolNotStarted, ToolSuspended, ToolTimeout
from ..ground.text import type_name
from ..limits import Limits
from ..tools import Tool
from .log import log_unwritable

__all__ = ["decode_error", "decode_result", "encode_error", "encode_result"]

_SMALL_CHARS = 64 << 10  # written in some 50 µs
_SMALL_NODES = 2_000
_PIECE_CHARS = 64 << 10
_PIECE_BYTES = 48 << 10  # as base64 as many characters; a multiple of 3, so that none but the last is padded
_MEASURED_CHARS = 4 << 20
_MAX_DEPTH = 200  # as deep as pydantic writes
_BLOCKS: Mapping[str, Any] = {"text": Text, "media": Media, "opaque": Opaque}
_NAMES = {kind: name for name, kind in _BLOCKS.items()}


def is_small(value: Any) -> bool:
    """Returns whether a value can be written at once, in the event loop: small, and made of plain values."""
    if isinstance(value, str):
        return len(value) <= _SMALL_CHARS
    chars = nodes = 0
    left = [value]
    while left:
        one = left.pop()
        nodes += 1
        if isinstance(one, (str, bytes)):
            chars += len(one)
        elif isinstance(one, (dict, list, tuple)):
            if nodes + len(one) > _SMALL_NODES:
                return False
            left.extend(one if not isinstance(one, dict) else (*one.keys(), *one.values()))
        elif not (one is None or isinstance(one, (bool, float)) or (isinstance(one, int) and abs(one) < 1 << 64)):
            known = getattr(one, "__dict__", None)  # the fields of a model or dataclass; of others it shows nothing
            if not known or isinstance(one, (Iterator, type)) or not _has_fields(one):
                return False
            left.append(known)
        if chars > _SMALL_CHARS or nodes > _SMALL_NODES:
            return False
    return True


def _has_fields(value: Any) -> bool:
    return is_dataclass(value) or hasattr(type(value), "model_fields")


def value_content(value: Any, max_bytes: int, *, known_small: bool = False) -> tuple[str, bool]:
    """Returns a tool's value as text, and whether it was cut: strings as they are, all else as JSON. No more than
    `max_bytes` of UTF-8 is ever written. Raises `ToolFailed` if it cannot be written as JSON."""
    if isinstance(value, str):
        return _text_content(value, max_bytes)
    small = known_small or is_small(value)
    written = _written(value, None if small else max_bytes)
    return _json_content(written, max_bytes, len(written) if small else None)


def any_content(value: Any, max_bytes: int, tool: str) -> str:
    try:
        return value_content(value, max_bytes)[0]
    except ToolFailed:
        log_unwritable(tool, value)
        return no_content(value)


def no_content(value: Any) -> str:
    return f"[a value of type {type(value).__name__}, which cannot be written as JSON]"


def _json_content(written: bytes, max_bytes: int, size: int | None) -> tuple[str, bool]:
    if len(written) <= max_bytes:
        return written.decode(), False
    return f"{written[:max_bytes].decode('utf-8', 'ignore')}\n{_cut(max_bytes, size)}", True


def checked_content(tool: Tool[..., Any], value: Any, limits: Limits, *, quick: bool) -> tuple[str, bool]:
    """Returns a value as `value_content` does, if it fits the tool's output schema. It is written once, so that what is
    checked is what the model reads. Raises `InvalidResult`, `ToolFailed`, or `TakesLong` if `quick` is not possible.
    """
    if isinstance(value, str):
        _check_result(tool, value, chars=len(value), quick=quick)
        return _text_content(value, limits.max_result_bytes)
    most = limits.max_result_media_bytes
    written = _written(value, most)
    if len(written) > most:
        raise _unfit(tool, f"is larger than max_result_media_bytes={most}, too large to check")
    _check_result(tool, from_json(written), chars=len(written), quick=quick)
    return _json_content(written, limits.max_result_bytes, len(written))


def _check_result(tool: Tool[..., Any], value: Any, *, chars: int, quick: bool) -> None:
    if lines := tool.check_result(value, chars=chars, quick=quick):
        if value is None:
            raise _unfit(tool, "is missing, though the tool declares an output schema")
        raise _unfit(tool, f"does not fit the tool's output schema: {'; '.join(lines)}")


def _unfit(tool: Tool[..., Any], why: str) -> InvalidResult:
    return InvalidResult(f"{tool.name} has run, but its result {why}")


def _cut(kept: int, size: int | None) -> str:
    return f"[cut: the first {kept} bytes]" if size is None else f"[cut: the first {kept} of {size} bytes]"


def _size(text: str) -> int | None:
    """Returns how many bytes a text has as UTF-8; None if counting them would take long."""
    if text.isascii():
        return len(text)
    return len(str.encode(text, "utf-8", "replace")) if len(text) <= _MEASURED_CHARS else None


def _text_content(value: str, max_bytes: int) -> tuple[str, bool]:
    if len(value) <= max_bytes:
        encoded = str.encode(value, "utf-8", "replace")
        if len(encoded) <= max_bytes:
            return encoded.decode(), False
    shown = str.encode(value[:max_bytes], "utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")
    return f"{shown}\n{_cut(max_bytes, _size(value))}", True


def _written(value: Any, max_bytes: int | None) -> bytes:
    try:
        return _json(value) if max_bytes is None else _in_pieces(value, max_bytes)
    except BaseException as error:  # the value's own code runs here: serialisers, properties, generators
        raise _unwritable(value) from errors.contained(error)


def _in_pieces(value: Any, max_bytes: int) -> bytes:
    written = bytearray()
    for piece in _pieces(value, 0):
        written += piece
        if len(written) > max_bytes:
            break
    return bytes(written)


def _pieces(value: Any, depth: int) -> Iterator[bytes]:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply, or contains itself")
    kind = type(value)
    if kind is str and len(value) > _PIECE_CHARS:
        yield b'"'
        for at in range(0, len(value), _PIECE_CHARS):
            yield _json(value[at : at + _PIECE_CHARS])[1:-1]
        yield b'"'
    elif kind is bytes and len(value) > _PIECE_CHARS:
        yield b'"'
        for at in range(0, len(value), _PIECE_BYTES):
            yield urlsafe_b64encode(value[at : at + _PIECE_BYTES])
        yield b'"'
    elif kind is dict:
        yield from _members(((_json({key: None})[1:-6], one) for key, one in value.items()), depth)
    elif kind in (list, tuple, set, frozenset) or isinstance(value, Iterator):
        before = b"["
        for one in value:
            yield before
            yield from _pieces(one, depth + 1)
            before = b","
        yield b"[]" if before == b"[" else b"]"
    elif is_dataclass(value) and not isinstance(value, type) and not hasattr(kind, "__pydantic_serializer__"):
        yield from _members(((_json(one.name), getattr(value, one.name)) for one in fields(value)), depth)
    else:
        yield _json(value)


def _members(members: Iterator[tuple[bytes, Any]], depth: int) -> Iterator[bytes]:
    before = b"{"
    for name, one in members:
        yield before + name + b":"
        yield from _pieces(one, depth + 1)
        before = b","
    yield b"{}" if before == b"{" else b"}"


def _json(value: Any) -> bytes:
    return to_json(value, bytes_mode="base64", inf_nan_mode="null")


def bounded(result: ToolResult, limits: Limits) -> tuple[ToolResult, str, bool]:
    """Returns a tool's own result within the limits, all of it as one text, and whether it was cut. An image or file is
    kept whole or left out. An error begins with ``Error:``, since not every wire has a flag for it."""
    if result.is_error:
        result = replace(result, blocks=_as_error(result.blocks))
    left, media_left, cut = limits.max_result_bytes, limits.max_result_media_bytes, False
    blocks: list[Block] = []
    texts: list[str] = []
    for block in result.blocks:
        if isinstance(block, Text):
            if left < 0:
                continue  # the note about the cut is there already
            encoded = str.encode(block.text[: left + 1], "utf-8", "replace")
            if len(encoded) > left:
                sizes = [_size(one.text) for one in result.blocks if isinstance(one, Text)]
                whole = None if None in sizes else sum(size or 0 for size in sizes)
                note = _cut(limits.max_result_bytes, whole)
                block, cut = Text(f"{encoded[:left].decode('utf-8', 'ignore')}\n{note}"), True
            elif not block.text.isascii():  # half a character cannot be sent
                block = replace(block, text=encoded.decode())
            left -= len(encoded)
            texts.append(block.text)
        elif isinstance(block, Media):
            texts.append(block.placeholder())
            media_left -= len(block.data or "")
            if media_left < 0:
                block, cut = Text(f"{block.placeholder()} [left out: larger than max_result_media_bytes]"), True
        blocks.append(block)
    return replace(result, blocks=tuple(blocks)), "\n".join(texts), cut


def _as_error(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    first = blocks[0] if blocks else None
    if not isinstance(first, Text):
        return (Text("Error: the tool failed."), *blocks)
    return blocks if first.text.startswith("Error") else (Text(f"Error: {first.text}"), *blocks[1:])


def error_content(error: ToolError, max_bytes: int) -> str:
    words = _words(error)
    return value_content(f"Error: {f'the tool raised {type_name(error)}' if words is None else words}", max_bytes)[0]


# -- as bytes, and back --


@dataclass(frozen=True, slots=True)
class AsRead:
    """A value whose text, as the model read it, differs from its JSON."""

    value: Any = field(repr=False)
    content: str = field(repr=False)


def encode_result(value: Any, max_bytes: int | None = None) -> bytes:
    """Returns a tool's value as bytes for a store or another process. A value larger than `max_bytes` is cut a little
    after these.

    Raises:
        ToolFailed: it cannot be written as JSON.
    """
    fields_by_name: dict[str, Any]
    if isinstance(value, ToolResult):
        parts = {one.name: getattr(value, one.name) for one in fields(ToolResult)}
        fields_by_name = {
            "result": {**parts, "blocks": [[_NAMES[type(block)], _fields(block)] for block in value.blocks]}
        }
    elif isinstance(value, AsRead):
        fields_by_name = {"value": value.value, "content": value.content}
    elif isinstance(value, AnsweredLater):
        fields_by_name = {"value": None, "wait": value.wait}
    else:
        fields_by_name = {"value": _sayable(value) if isinstance(value, str) else value}
    try:
        return _json(fields_by_name) if max_bytes is None else _in_pieces(fields_by_name, max_bytes)
    except BaseException as error:  # the value's own code runs here: serialisers, properties, generators
        raise _unwritable(value.value if isinstance(value, AsRead) else value) from errors.contained(error)


def _fields(block: Block) -> dict[str, Any]:
    given = {one.name: getattr(block, one.name) for one in fields(block)}  # `asdict` copies; not all can be copied
    return {**given, "text": _sayable(block.text)} if isinstance(block, Text) else given


def _sayable(text: str) -> str:
    return text if text.isascii() else str.encode(text, "utf-8", "replace").decode()


def decode_result(data: bytes) -> Any:
    """Returns the value that `encode_result` has written, as plain JSON or a `ToolResult`."""
    read = from_json(data)
    if "wait" in read:
        return AnsweredLater(wait=read["wait"])
    if "result" not in read:
        return AsRead(read["value"], read["content"]) if "content" in read else read["value"]
    result = read["result"]
    blocks: list[Block] = [_BLOCKS[name](**given) for name, given in result.pop("blocks")]
    return ToolResult(blocks=blocks, **result)


def tool_error(tool: str, error: BaseException) -> ToolError:
    """Returns the error to raise for an error of a tool's code: the tool's own `ToolError` if that has words, else a
    `ToolFailed`, which names only its type. A tool cannot say that its call was refused or out of
    time."""
    if isinstance(error, ToolError) and _words(error) is not None and not _is_of_another_call(error):
        return error
    return ToolFailed(encode_error(tool, error)["text"])


def _is_of_another_call(error: ToolError) -> bool:
    if isinstance(error, (ToolNotStarted, ToolSuspended)):
        return isinstance(error, BeginRefused) or error.by_tool is None
    return isinstance(error, ToolTimeout)


def encode_error(tool: str, error: BaseException) -> dict[str, str]:
    """Returns a tool's failure for `decode_error`: a `ToolError` by its text, any other by the name of its type."""
    ours = isinstance(error, ToolError)
    words = _words(error) if ours else None
    kind, text = type_name(error), f"the tool {tool} raised {type_name(error)}"
    return {"kind": kind if ours else "ToolFailed", "text": text if words is None else words}


def _words(error: BaseException) -> str | None:
    """Returns an error's text; None if a subclass of the user's fails to give one."""
    try:
        return str(error)
    except BaseException as raised:
        errors.contained(raised)
        return None


def decode_error(fields_by_name: Mapping[str, str]) -> ToolError:
    """Returns the failure that `encode_error` has written. Our own classes keep their type if they are made from just
    their text; all others become `ToolFailed`."""
    kind = getattr(errors, fields_by_name["kind"], ToolFailed)
    ours = isinstance(kind, type) and issubclass(kind, ToolError) and kind.__init__ is ToolError.__init__
    failure: ToolError = kind(fields_by_name["text"]) if ours else ToolFailed(fields_by_name["text"])
    if isinstance(failure, ToolNotStarted):  # written where the tool ran
        failure.by_tool = True
    return failure


def _unwritable(value: Any) -> ToolFailed:
    return ToolFailed(f"the tool returned a value of type {type(value).__name__}, which cannot be written as JSON")
