"""The blocks of a message or a result, in both directions.

A block has one key, which says what it is: ``{"text": …}``, ``{"image": {"format": …, "source": {"bytes": …}}}``. Bytes
are written as `bytes`, which botocore encodes itself; whoever sends JSON without it encodes them in base64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from ...content import Block, Media, Opaque, Text
from ..media import decoded, encoded, text_block, written
from ..reading import json_text

__all__ = ["is_blank", "kind_of", "native_blocks", "read_block", "read_blocks"]

_FORMATS: dict[str, dict[str, str]] = {
    "image": {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"},
    "document": {
        "application/pdf": "pdf",
        "text/csv": "csv",
        "application/msword": "doc",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
        "application/vnd.ms-excel": "xls",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
        "text/html": "html",
        "text/plain": "txt",
        "text/markdown": "md",
    },
    "video": {
        "video/x-matroska": "mkv",
        "video/quicktime": "mov",
        "video/mp4": "mp4",
        "video/webm": "webm",
        "video/x-flv": "flv",
        "video/mpeg": "mpeg",
        "video/x-ms-wmv": "wmv",
        "video/3gpp": "three_gp",
    },
}
"""By block: MIME types, and what the API calls them."""
_BLOCKS = {"image": "image", "file": "document", "video": "video"}
_KINDS = {"image": "image", "document": "file", "video": "video"}
_TYPES = {block: {name: mime for mime, name in names.items()} for block, names in _FORMATS.items()}
# "alphanumeric characters, whitespace characters (no more than one in a row), hyphens, parentheses, square brackets":
# https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html (read 2026-11-21)
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9\s()\[\]-]+|\s+")


def kind_of(raw: object) -> str:
    """Returns the key that says what a block is; ``""`` if it is none."""
    if not isinstance(raw, dict):
        return ""
    return next((key for key, value in raw.items() if isinstance(key, str) and value is not None), "")


def is_blank(raw: object) -> bool:
    """Returns whether this is a text block that says nothing."""
    return kind_of(raw) == "text" and isinstance(raw, dict) and not str(raw["text"]).strip()


def read_blocks(content: object) -> tuple[Block, ...]:
    """Reads the blocks of a message or of a result."""
    return tuple(read_block(raw) for raw in content if isinstance(raw, dict)) if isinstance(content, list) else ()


def read_block(raw: dict[str, Any]) -> Block:
    """Reads a block. One that no other provider has a word for is opaque."""
    kind = kind_of(raw)
    reader = _READERS.get(kind)
    return (reader(kind, raw) if reader is not None else None) or Opaque(raw)


def native_blocks(blocks: Iterable[Block], *, own_wire: bool = True) -> list[dict[str, Any]]:
    """Renders blocks as the API takes them; see `written`."""
    return written(blocks, own_wire=own_wire, text=lambda text: {"text": text}, media=_media)


def _media(media: Media) -> dict[str, Any] | None:
    kind = _BLOCKS.get(media.kind, "")
    format_ = _FORMATS.get(kind, {}).get((media.mime_type or "").partition(";")[0])
    source: dict[str, Any] | None = None
    if media.data is not None:
        data = decoded(media.data)
        source = {"bytes": data} if data else None
    elif media.url is not None and media.url.startswith("s3://"):
        source = {"s3Location": {"uri": media.url}}
    if format_ is None or source is None:
        return None
    name = {"name": _NOT_IN_NAMES.sub(" ", media.filename or "").strip()[:200] or "document"}
    return {kind: {"format": format_, **(name if kind == "document" else {}), "source": source}}


# -- reading --


def _read_text(_: str, raw: dict[str, Any]) -> Block | None:
    return Text(text, state=raw) if isinstance(text := raw["text"], str) else None


def _read_json(_: str, raw: dict[str, Any]) -> Block | None:
    text = json_text(raw["json"])
    return Text(text, state=raw) if text is not None else None


def _read_media(kind: str, raw: dict[str, Any]) -> Block | None:
    body = raw[kind]
    source = body.get("source") if isinstance(body, dict) else None
    if not isinstance(source, dict):
        return None
    format_, name = body.get("format"), body.get("name")
    found: dict[str, Any] = {
        "mime_type": _TYPES[kind].get(format_) if isinstance(format_, str) else None,
        "filename": name if isinstance(name, str) else None,
    }
    location = source.get("s3Location")
    if isinstance(data := source.get("bytes"), (bytes, str)):
        found["data"] = encoded(data) if isinstance(data, bytes) else data
    elif isinstance(location, dict) and isinstance(uri := location.get("uri"), str):
        found["url"] = uri
    elif isinstance(text := source.get("text"), str):
        found["data"] = encoded(text)
    else:
        return text_block(read_blocks(source.get("content")), raw)
    return Media(kind=_KINDS[kind], state=raw, **found)  # type: ignore[arg-type]  # its values are Media's kinds


def _read_search_result(kind: str, raw: dict[str, Any]) -> Block | None:
    return text_block(read_blocks(raw[kind].get("content") if isinstance(raw[kind], dict) else None), raw)


_READERS: dict[str, Callable[[str, dict[str, Any]], Block | None]] = {
    "text": _read_text,
    "json": _read_json,
    "image": _read_media,
    "document": _read_media,
    "video": _read_media,
    "searchResult": _read_search_result,
}
