"""Finds the sources that a model cites, and the files that it makes, in the state that wires keep of a response.

    citations           a text's (Anthropic, Bedrock), the answer's (Perplexity, xAI); one (Cohere)
    content             the result of a search (Anthropic)
    item, step          an output item (Responses), a step (Interactions), with the annotations of its texts
    annotations         the answer's (Chat Completions)
    groundingMetadata, citationMetadata                                      the answer's (Gemini)
    search_results, documents                                        of a search (Perplexity; Cohere's first version)

Values of other shapes are skipped.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from ..content import Media, read_data_url
from .reading import list_of, object_of, objects_in

ANY_MEDIA = "application/octet-stream"
DOCUMENT_MEDIA = {"page_location": "application/pdf", "char_location": "text/plain"}
_MAX_URL_CHARS = 8192  # as long as servers take
_MAX_TITLE_CHARS = 1024
_MOST = 1024  # sources of one part; hostile ones could make an event of each word
_WRAPPERS = ("web", "retrievedContext", "maps", "url_citation", "file_citation", "document", "tool_output")
_DOCUMENTS = frozenset({"retrievedContext", "document"})  # whose title names a document, not a page
_ADDRESSES = ("url", "uri", "source", "document_uri", "sourceUri")


@dataclass(frozen=True, slots=True)
class CitedSource:
    """A page or document that an answer cites."""

    url: str | None = field(repr=False)
    """The address of the page; None for a document."""
    title: str | None = field(default=None, repr=False)
    media_type: str = ANY_MEDIA
    """The type of a document, if its citation names one."""

    @property
    def key(self) -> tuple[str | None, ...]:
        """A key that is the same for each citation of one page or document."""
        return (self.url,) if self.url is not None else (None, self.title, self.media_type)


def distinct_sources(
    sources: Iterable[CitedSource], known: set[tuple[str | None, ...]] | None = None
) -> Iterator[CitedSource]:
    """Yields each source once. `known` contains the keys of earlier sources; the new ones are added."""
    seen = set[tuple[str | None, ...]]() if known is None else known
    for one in sources:
        if one.key not in seen:
            seen.add(one.key)
            yield one


def cited_sources(state: Mapping[str, Any] | None) -> Iterator[CitedSource]:
    """Yields the sources in the `provider_state` of a part or in a `ProviderItem`, on any wire."""
    found = (_source(one) for one in _listed(state)) if state else iter(())
    yield from islice((one for one in found if one is not None), _MOST)


def _listed(state: Mapping[str, Any]) -> Iterator[Any]:
    fields = object_of(state.get("fields"))  # of a message of Chat Completions that was read from a history
    for at in (state, fields) if fields else (state,):
        yield from list_of(at.get("search_results"))
        yield from list_of(at.get("annotations"))
        yield from list_of(at.get("citations"))
    if isinstance(one := state.get("citations"), Mapping):  # Cohere's
        yield from list_of(one.get("sources"))
    for whole in (object_of(state.get("item")), object_of(state.get("step"))):
        for text in objects_in(whole, "content"):
            yield from list_of(text.get("annotations"))
    yield from (one for one in objects_in(state, "content") if "url" in one)
    yield from list_of(object_of(state.get("groundingMetadata")).get("groundingChunks"))
    metadata = object_of(state.get("citationMetadata"))
    yield from list_of(metadata.get("citations")) or list_of(metadata.get("citationSources"))
    yield from objects_in(state, "documents")
    if state.get("type") == "tool_reference":  # Mistral's
        yield state


def _source(one: object) -> CitedSource | None:
    if isinstance(one, str):
        return None if (url := _address(one)) is None else CitedSource(url)
    if not isinstance(one, Mapping):
        return None
    place = one.get("location")  # Bedrock's
    wrapper = next((name for name in _WRAPPERS if isinstance(one.get(name), Mapping)), "")
    body: Mapping[str, Any] = one[wrapper] if wrapper else one
    if isinstance(place, Mapping) and isinstance(web := place.get("web"), Mapping):
        body = {**body, "url": web.get("url")}
    title = _text(body.get("title")) or _text(body.get("name"))
    for name in _ADDRESSES:
        if (url := _address(body.get(name))) is not None:
            return CitedSource(url, title)
    document = next(filter(None, (_text(body.get(key)) for key in ("document_title", "filename", "file_name"))), None)
    if document is None and (isinstance(place, Mapping) or wrapper in _DOCUMENTS):
        document = title or _text(one.get("id"))
    if document is None:
        return None
    return CitedSource(None, document, DOCUMENT_MEDIA.get(str(one.get("type")), ANY_MEDIA))


def _text(value: object) -> str | None:
    return value[:_MAX_TITLE_CHARS] if isinstance(value, str) and value else None


def _address(value: object) -> str | None:
    is_one = isinstance(value, str) and len(value) <= _MAX_URL_CHARS and value.startswith(("https://", "http://"))
    return value if is_one and isinstance(value, str) and value.isprintable() else None


# -- files --

_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,63}/[A-Za-z0-9][A-Za-z0-9.+-]{0,127}")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_FROM_URL = str.maketrans("-_", "+/")
_FORMATS = {"svg": "image/svg+xml", "jpg": "image/jpeg"}
_CONTENTS = frozenset({"image", "audio", "video", "document"})
_KINDS: dict[str, Literal["image", "audio", "video"]] = {"image": "image", "audio": "audio", "video": "video"}


def made_files(state: Mapping[str, Any] | None, *, drafts: bool = False) -> Iterator[Media]:
    """Yields the files that the model made, from the `provider_state` of a part or a call.

    Without `drafts`, it omits drafts of a model that thinks in images, and pieces of audio without a container
    (``audio/pcm;rate=24000``).
    """
    state = state or {}
    for one in _files(state):
        if one is not None and (drafts or (not state.get("thought") and _TYPE.fullmatch(one.mime_type or ""))):
            yield one


def _files(state: Mapping[str, Any]) -> Iterator[Media | None]:
    inline, there, item, content, image, fields = (
        object_of(state.get(name)) for name in ("inlineData", "fileData", "item", "content", "image", "fields")
    )
    yield _file(inline.get("mimeType"), inline.get("data"), None)
    yield _file(there.get("mimeType"), None, there.get("fileUri"))
    if item.get("type") == "image_generation_call":
        yield _file(_image_type(item.get("output_format") or "png"), item.get("result"), None)
    if content.get("type") in _CONTENTS:
        yield _file(content.get("mime_type"), content.get("data"), content.get("uri"))
    if image:
        yield _file(_image_type(image.get("format")), object_of(image.get("source")).get("bytes"), None)
    for one in (*objects_in(state, "images"), *objects_in(fields, "images")):
        url = object_of(one.get("image_url")).get("url")
        if isinstance(url, str) and (read := read_data_url(url)) is not None:
            yield _file(read[0], read[1], None)


def _image_type(format: object) -> str:
    return _FORMATS.get(str(format), f"image/{format}")


def _file(type: object, data: object, url: object) -> Media | None:
    type = type if isinstance(type, str) else ""
    kind: Literal["image", "audio", "video", "file"] = _KINDS.get(type.partition("/")[0], "file")
    if isinstance(data, bytes):
        data = b64encode(data).decode()
    if isinstance(data, str) and _BASE64.fullmatch(data := data.translate(_FROM_URL)) is not None:
        return Media(kind=kind, mime_type=type, data=data)
    address = _address(url)
    return None if address is None else Media(kind=kind, mime_type=type, url=address)
