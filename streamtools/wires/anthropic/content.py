"""The blocks of a message or a result, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...content import Block, Media, Opaque, Text
from ..media import decoded, encoded, text_block, written

__all__ = ["native_blocks", "read_block", "read_blocks"]

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF, _PLAIN = "application/pdf", "text/plain"


def read_blocks(content: object) -> tuple[Block, ...]:
    """Reads the blocks of a message or of a result. A text that stands for a list of one has no state."""
    if isinstance(content, str):
        return (Text(content),)
    return tuple(read_block(raw) for raw in content if isinstance(raw, dict)) if isinstance(content, list) else ()


def read_block(raw: dict[str, Any]) -> Block:
    """Reads a block. One that no other provider has a word for is opaque."""
    reader = _READERS.get(kind) if isinstance(kind := raw.get("type"), str) else None
    return (reader(raw) if reader is not None else None) or Opaque(raw)


def native_blocks(blocks: Iterable[Block], *, own_wire: bool = True) -> list[dict[str, Any]]:
    """Renders blocks as the API takes them; see `written`."""
    return written(blocks, own_wire=own_wire, text=_text, media=_media)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _media(media: Media) -> dict[str, Any] | None:
    return _image(media) if media.kind == "image" else _document(media)


def _image(media: Media) -> dict[str, Any] | None:
    if media.data is not None:
        if media.mime_type not in _IMAGES:
            return None
        return {"type": "image", "source": {"type": "base64", "media_type": media.mime_type, "data": media.data}}
    source = _elsewhere(media)
    return {"type": "image", "source": source} if source is not None else None


def _document(media: Media) -> dict[str, Any] | None:
    if media.kind != "file":
        return None
    source: dict[str, Any] | None
    if media.data is None:
        source = _elsewhere(media)
    elif media.mime_type == _PDF:
        source = {"type": "base64", "media_type": _PDF, "data": media.data}
    elif media.mime_type == _PLAIN and (text := decoded(media.data)) is not None:
        source = {"type": "text", "media_type": _PLAIN, "data": text.decode("utf-8", "replace")}
    else:
        return None
    title = {"title": media.filename} if media.filename else {}
    return {"type": "document", "source": source, **title} if source is not None else None


def _elsewhere(media: Media) -> dict[str, Any] | None:
    """Returns a source that is no bytes: an address, or an id that the API gave."""
    if media.url is not None:
        return {"type": "url", "url": media.url}
    return {"type": "file", "file_id": media.file_id} if media.file_id is not None else None


# -- reading --


def _read_text(raw: dict[str, Any]) -> Block | None:
    text = raw.get("text")
    return Text(text, state=raw) if isinstance(text, str) else None


def _read_image(raw: dict[str, Any]) -> Block | None:
    found = _source_of(raw)
    return Media(kind="image", state=raw, **found) if found else None


def _read_document(raw: dict[str, Any]) -> Block | None:
    found, title = _source_of(raw), raw.get("title")
    if found:
        return Media(kind="file", filename=title if isinstance(title, str) else None, state=raw, **found)
    source = raw.get("source")
    return text_block(read_blocks(source.get("content") if isinstance(source, dict) else None), raw)


def _read_search_result(raw: dict[str, Any]) -> Block | None:
    return text_block(read_blocks(raw.get("content")), raw)


def _source_of(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Returns where the bytes are, in the words of `Media`; empty if the source is of a kind of its own."""
    source = raw.get("source")
    if not isinstance(source, dict):
        return {}
    kind, type_ = source.get("type"), source.get("media_type")
    key = _SOURCES.get(kind) if isinstance(kind, str) else None
    value = source.get(key[0]) if key is not None else None
    if key is None or not isinstance(value, str):
        return {}
    found = {"mime_type": type_} if isinstance(type_, str) else {}
    return found | {key[1]: encoded(value) if kind == "text" else value}


# The kind of a source: its field, and ours.
_SOURCES: dict[str, tuple[str, str]] = {
    "base64": ("data", "data"),
    "text": ("data", "data"),
    "url": ("url", "url"),
    "file": ("file_id", "file_id"),
}
_READERS: dict[str, Callable[[dict[str, Any]], Block | None]] = {
    "text": _read_text,
    "image": _read_image,
    "document": _read_document,
    "search_result": _read_search_result,
}
