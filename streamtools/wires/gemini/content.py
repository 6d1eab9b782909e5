"""What a user's content holds, part by part, in both directions; and the media that a function response may hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ...content import Block, Media, Opaque, Text
from ..media import written

__all__ = ["media_part", "native_parts", "read_block", "response_media"]

# Of function responses: https://ai.google.dev/gemini-api/docs/function-calling (read 2026-11-21)
_IN_RESPONSES = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})
_FROM_URL = str.maketrans("-_", "+/")
_KINDS: dict[str, Literal["image", "audio", "video"]] = {"image": "image", "audio": "audio", "video": "video"}


def read_block(part: dict[str, Any]) -> Block:
    """One part. What no other provider has a word for is opaque."""
    if isinstance(text := part.get("text"), str):
        return Text(text, state=part)
    inline, file = part.get("inlineData"), part.get("fileData")
    if isinstance(inline, dict) and isinstance(data := inline.get("data"), str):
        # Base64 for URLs is taken, too, and is what the SDK writes; nobody else takes it.
        return Media(data=data.translate(_FROM_URL), state=part, **_described(inline))
    if isinstance(file, dict) and isinstance(uri := file.get("fileUri"), str):
        return Media(url=uri, state=part, **_described(file))
    return Opaque(part)


def _described(body: Mapping[str, Any]) -> dict[str, Any]:
    type_, name = body.get("mimeType"), body.get("displayName")
    mime = type_ if isinstance(type_, str) else None
    kind = _KINDS.get((mime or "").partition("/")[0], "file")
    return {"kind": kind, "mime_type": mime, "filename": name if isinstance(name, str) else None}


def native_parts(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """Parts as the API takes them; see `written`."""
    return written(blocks, text=lambda text: {"text": text}, media=media_part)


def media_part(media: Media) -> dict[str, Any] | None:
    """An image, a sound, a film or a file; None if its type is not known, or it is another provider's."""
    if media.mime_type is None:
        return None
    if media.data is not None:
        return {"inlineData": {"mimeType": media.mime_type, "data": media.data}}
    return {"fileData": {"mimeType": media.mime_type, "fileUri": media.url}} if media.url is not None else None


def response_media(blocks: Iterable[Block]) -> tuple[list[dict[str, Any]], list[Block]]:
    """Of a result, the media that go as parts of its function response, and what is left for its text."""
    parts: list[dict[str, Any]] = []
    left: list[Block] = []
    for block in blocks:
        takes = isinstance(block, Media) and block.data is not None and block.mime_type in _IN_RESPONSES
        part = media_part(block) if takes and isinstance(block, Media) else None
        if part is not None:
            parts.append(part)
        else:
            left.append(block)
    return parts, left
