"""The content of a chat message besides calls: native parts as blocks, and blocks as native parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...content import Block, Media, Opaque, Text
from ..media import data_url, read_data_url

__all__ = ["audio_part", "file_part", "image_part", "native_content", "read_block", "text_part"]

Part = dict[str, Any]


def read_block(raw: Mapping[str, Any]) -> Block:
    """Reads a content part as a block, which keeps the part itself."""
    reader = _READERS.get(str(raw.get("type")))
    return (reader(raw) if reader is not None else None) or Opaque(raw)


def native_content(blocks: Iterable[Block], parts: Mapping[str, Callable[[Media], Part | None]]) -> str | list[Part]:
    """Renders blocks as a message's content: a lone text as a string, else a list of parts, which `parts` makes of
    media, by kind. What it cannot make is a placeholder there."""
    match tuple(blocks):
        case ():
            return ""
        case (Text(text, state=None),):
            return text
        case several:
            return [_native_part(block, parts) for block in several]


def text_part(text: str) -> Part:
    """Renders a piece of text."""
    return {"type": "text", "text": text}


def image_part(media: Media) -> Part | None:
    """Renders an image, by its bytes or its address."""
    url = data_url(media)
    return {"type": "image_url", "image_url": {"url": url}} if url is not None else None


def audio_part(media: Media) -> Part | None:
    """Renders a sound; the API takes bytes only, and a format rather than a type."""
    if media.data is None:
        return None
    format_ = (media.mime_type or "audio/wav").rpartition("/")[2].removeprefix("x-")
    return {
        "type": "input_audio",
        "input_audio": {"data": media.data, "format": "mp3" if format_ == "mpeg" else format_},
    }


def file_part(media: Media) -> Part | None:
    """Renders a file, by its bytes: addresses are not taken, and an id is another provider's."""
    if media.data is None:
        return None
    name = media.filename or f"file.{(media.mime_type or 'application/pdf').rpartition('/')[2]}"
    return {"type": "file", "file": {"filename": name, "file_data": data_url(media)}}


def _native_part(block: Block, parts: Mapping[str, Callable[[Media], Part | None]]) -> Part:
    if block.state is not None:
        return dict(block.state)
    if isinstance(block, Text):
        return text_part(block.text)
    assert isinstance(block, Media), "an opaque block is its state"
    write = parts.get(block.kind)
    return (write(block) if write is not None else None) or text_part(block.placeholder())


def _text(raw: Mapping[str, Any]) -> Block | None:
    text = raw.get("text")
    return Text(text, state=raw) if isinstance(text, str) else None


def _image(raw: Mapping[str, Any]) -> Block | None:
    image = raw.get("image_url")
    url = image.get("url") if isinstance(image, Mapping) else image  # Mistral also takes the bare address
    if not isinstance(url, str):
        return None
    mime_type, data = read_data_url(url) or (None, None)
    return Media(kind="image", mime_type=mime_type, data=data, url=None if data is not None else url, state=raw)


def _audio(raw: Mapping[str, Any]) -> Block | None:
    audio = raw.get("input_audio")
    data = audio.get("data") if isinstance(audio, Mapping) else audio  # Mistral takes the bytes alone
    if not isinstance(data, str):
        return None
    format_ = audio.get("format") if isinstance(audio, Mapping) else None
    mime_type = f"audio/{'mpeg' if format_ == 'mp3' else format_}" if isinstance(format_, str) else None
    return Media(kind="audio", mime_type=mime_type, data=data, state=raw)


def _file(raw: Mapping[str, Any]) -> Block | None:
    file = raw.get("file")
    if not isinstance(file, Mapping):
        return None
    given, file_id, name = file.get("file_data"), file.get("file_id"), file.get("filename")
    mime_type, data = (read_data_url(given) or (None, given)) if isinstance(given, str) else (None, None)
    return Media(
        kind="file",
        mime_type=mime_type,
        data=data,
        file_id=file_id if isinstance(file_id, str) else None,
        filename=name if isinstance(name, str) else None,
        state=raw,
    )


def _document(raw: Mapping[str, Any]) -> Block | None:
    url, name = raw.get("document_url"), raw.get("document_name")
    if not isinstance(url, str):
        return None
    mime_type, data = read_data_url(url) or (None, None)
    filename = name if isinstance(name, str) else None
    address = None if data is not None else url
    return Media(kind="file", mime_type=mime_type, data=data, url=address, filename=filename, state=raw)


_READERS: dict[str, Callable[[Mapping[str, Any]], Block | None]] = {
    "text": _text,
    "image_url": _image,
    "input_audio": _audio,
    "file": _file,
    "document_url": _document,
}
