"""Finds the texts of messages, the sources that a model names and the files that it makes; writes these as parts of the
AI SDK's messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..content import Media
from ..wires import CitedSource, cited_sources, distinct_sources, made_files
from ..wires.cited import DOCUMENT_MEDIA

_MOST_LEVELS = 8
_HOLD_TEXT = ("text", "content", "parts")
_WITH_FILES = ("inlineData", "fileData", "item", "content", "image", "images")


def shown_state(state: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Returns what readers may have of the state of a text: its sources, without what its provider has encrypted."""
    kept: list[dict[str, Any]] = []
    for one in distinct_sources(cited_sources(state)):
        kind = next((kind for kind, media in DOCUMENT_MEDIA.items() if media == one.media_type), "location")
        named = {"title": one.title} if one.title is not None else {}
        kept.append({"url": one.url, **named} if one.url is not None else {"document_title": one.title, "type": kind})
    return {"citations": kept} if kept else None


def shown_raw(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what readers may have of a part of a response: its sources, and its files."""
    kept = {"tool_use_id": raw["tool_use_id"]} if "tool_use_id" in raw else {}
    if next(made_files(raw), None) is not None:
        kept |= {key: raw[key] for key in _WITH_FILES if key in raw}
    return kept | (shown_state(raw) or {})


def ui_source(source: CitedSource, source_id: str) -> dict[str, Any]:
    title = {} if source.title is None else {"title": source.title}
    if source.url is not None:
        return {"type": "source-url", "sourceId": source_id, "url": source.url, **title}
    return {"type": "source-document", "sourceId": source_id, "mediaType": source.media_type, **title}


def ui_file(file: Media) -> dict[str, Any]:
    """Returns a file as a part of a message of the AI SDK: by its address, or as a ``data:`` URL."""
    return {"type": "file", "mediaType": file.mime_type, "url": file.address()}


def texts_of(message: Any, depth: int = 0) -> Iterator[str]:
    """Yields the texts of a message, of a block, or of several."""
    if isinstance(message, str):
        yield message
    elif depth < _MOST_LEVELS and isinstance(message, Mapping):
        for name in _HOLD_TEXT:
            yield from texts_of(message.get(name), depth + 1)
    elif depth < _MOST_LEVELS and isinstance(message, (list, tuple)):
        for one in message:
            yield from texts_of(one, depth + 1)
