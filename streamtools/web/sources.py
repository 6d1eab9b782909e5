"""Reads which sources a model has named: addresses and documents, in what providers send beside texts and searches.

In: the citations of a text (`TextEnd.provider_state`; Anthropic, Bedrock), or the result of a provider's search
(`ProviderItem.raw`). Out: a `CitedSource` for each. Other wires keep none with the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CitedSource", "cited", "found", "shown_state", "ui_source"]

_ANY_MEDIA = "application/octet-stream"
_MEDIA = {"page_location": "application/pdf", "char_location": "text/plain"}


@dataclass(frozen=True, slots=True)
class CitedSource:
    """An address, or a document of the request."""

    url: str | None = field(repr=False)
    """None for a document."""
    title: str | None = field(default=None, repr=False)
    media_type: str = _ANY_MEDIA
    """That of a document, as far as its citation says so."""


def cited(state: Mapping[str, Any] | None) -> Iterator[CitedSource]:
    """Yields the sources of a text, by what goes back to its provider with it."""
    yield from _of(None if state is None else state.get("citations"))


def found(raw: Mapping[str, Any] | None) -> Iterator[CitedSource]:
    """Yields the addresses in the result of a search."""
    yield from (one for one in _of(None if raw is None else raw.get("content")) if one.url is not None)


def shown_state(state: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Returns what readers may have of the state of a text: its sources, without what its provider has encrypted."""
    kept: list[dict[str, Any]] = []
    for one in cited(state):
        kind = next((kind for kind, media in _MEDIA.items() if media == one.media_type), "location")
        named = {"title": one.title} if one.title is not None else {}
        kept.append({"url": one.url, **named} if one.url is not None else {"document_title": one.title, "type": kind})
    return {"citations": kept} if kept else None


def ui_source(source: CitedSource, source_id: str) -> dict[str, Any]:
    """Returns a source as a part of a message of the AI SDK."""
    title = {} if source.title is None else {"title": source.title}
    if source.url is not None:
        return {"type": "source-url", "sourceId": source_id, "url": source.url, **title}
    return {"type": "source-document", "sourceId": source_id, "mediaType": source.media_type, **title}


def _of(listed: Any) -> Iterator[CitedSource]:
    for one in listed if isinstance(listed, (list, tuple)) else ():
        if isinstance(one, Mapping) and (source := _source(one)) is not None:
            yield source


def _source(one: Mapping[str, Any]) -> CitedSource | None:
    place = one.get("location")  # Bedrock's
    web = place.get("web") if isinstance(place, Mapping) else None
    url = _address(one.get("url")) or _address(one.get("source"))
    url = url or (_address(web.get("url")) if isinstance(web, Mapping) else None)
    title, document = _text(one.get("title")), _text(one.get("document_title"))
    if url is not None:
        return CitedSource(url, title)
    document = document or (title if isinstance(place, Mapping) else None)
    return None if document is None else CitedSource(None, document, _MEDIA.get(str(one.get("type")), _ANY_MEDIA))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _address(value: Any) -> str | None:
    """Returns what is an address of a page, which a click may open."""
    return value if isinstance(value, str) and value.startswith(("https://", "http://")) else None
