"""What a message of the user's or a call's output holds, in both directions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...content import Block, Media, Opaque, Text
from ..media import data_url, read_data_url
from .items import type_of

__all__ = ["native_blocks", "read_blocks"]

_TEXTS = frozenset({"input_text", "output_text", "text"})


def read_blocks(content: object) -> tuple[Block, ...]:
    """The blocks of a message or of an output. A text that stands for a list of one has no state."""
    if isinstance(content, str):
        return (Text(content),)
    return tuple(_read(raw) for raw in content if isinstance(raw, dict)) if isinstance(content, list) else ()


def native_blocks(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """Blocks as the API takes them: one that was read from it as it was. What it does not take is a placeholder; empty
    text is left out."""
    found = (_native(block) for block in blocks)
    return [block for block in found if block is not None]


def _read(raw: dict[str, Any]) -> Block:
    kind = type_of(raw)
    if kind in _TEXTS and isinstance(text := raw.get("text"), str):
        return Text(text, state=raw)
    found: dict[str, str] = {}
    if kind == "input_image":
        found = _where(raw.get("image_url"), raw.get("image_url"), raw.get("file_id"))
    elif kind == "input_file":
        found = _where(raw.get("file_data"), raw.get("file_url"), raw.get("file_id"))
    if not found:
        return Opaque(raw)
    name = raw.get("filename")
    filename = name if isinstance(name, str) else None
    return Media(kind="image" if kind == "input_image" else "file", filename=filename, state=raw, **found)


def _where(data: object, url: object, file_id: object) -> dict[str, str]:
    """Where the bytes are, in the words of `Media`; empty if nowhere."""
    if isinstance(data, str) and (read := read_data_url(data)) is not None:
        return ({"mime_type": read[0]} if read[0] else {}) | {"data": read[1]}
    if isinstance(url, str):
        return {"url": url}
    return {"file_id": file_id} if isinstance(file_id, str) else {}


def _native(block: Block) -> dict[str, Any] | None:
    if isinstance(block, Opaque) or block.state is not None:
        return dict(block.state or {})
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text} if block.text else None
    found = _image(block) if block.kind == "image" else _file(block)
    return found or {"type": "input_text", "text": block.placeholder()}


def _image(media: Media) -> dict[str, Any] | None:
    if (url := data_url(media)) is not None:
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "input_image", "file_id": media.file_id, "detail": "auto"} if media.file_id is not None else None


def _file(media: Media) -> dict[str, Any] | None:
    if media.kind != "file":
        return None
    name = media.filename or "file"
    if media.data is not None:
        return {"type": "input_file", "filename": name, "file_data": data_url(media)}
    if media.url is not None:
        return {"type": "input_file", "file_url": media.url}
    return {"type": "input_file", "file_id": media.file_id} if media.file_id is not None else None
