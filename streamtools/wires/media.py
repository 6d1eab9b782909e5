"""Media in results and prompts: data URLs, texts that stand for them, and blocks as an API wants them."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from ..content import Block, Media, Text

__all__ = ["data_url", "decoded", "encoded", "read_data_url", "text_block", "text_of", "written"]

_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(?:;[^,;]*)*?(?P<base64>;base64)?,", re.IGNORECASE)


def data_url(media: Media) -> str | None:
    """Returns the bytes of `media` as a ``data:`` URL (RFC 2397), or its address; None if it has neither."""
    if media.data is not None:
        return f"data:{media.mime_type or 'application/octet-stream'};base64,{media.data}"
    return media.url


def read_data_url(url: str) -> tuple[str | None, str] | None:
    """Returns the MIME type, if a URL says one, and its bytes in base64; None if this is an address of another kind."""
    head = _DATA_URL.match(url)
    if head is None:
        return None
    body = url[head.end() :]
    return head["type"] or None, body if head["base64"] else b64encode(unquote_to_bytes(body)).decode()


def decoded(data: str) -> bytes | None:
    """Returns the bytes of a text in base64; None if it is none."""
    try:
        return b64decode(data, validate=True)
    except ValueError:
        return None


def encoded(data: bytes | str) -> str:
    """Returns bytes, or the text of a file, in base64."""
    return b64encode(data if isinstance(data, bytes) else data.encode("utf-8", "replace")).decode()


def text_of(blocks: Iterable[Block]) -> str:
    """Returns all of it as one text: what is no text is a placeholder there, and what only its provider understands is
    left out."""
    texts = (
        block.text if isinstance(block, Text) else block.placeholder()
        for block in blocks
        if isinstance(block, (Text, Media))
    )
    return "\n".join(texts)


def text_block(blocks: Iterable[Block], raw: dict[str, Any]) -> Text | None:
    """Returns the texts of `blocks` as one that goes back as `raw`; None if there are none."""
    found = [block.text for block in blocks if isinstance(block, Text)]
    return Text("\n".join(found), state=raw) if found else None


def written(
    blocks: Iterable[Block],
    *,
    own_wire: bool = True,
    text: Callable[[str], dict[str, Any]],
    media: Callable[[Media], dict[str, Any] | None],
) -> list[dict[str, Any]]:
    """Renders blocks as an API takes them. What it does not take is a placeholder; blank text is left out.

    Args:
        blocks: what is to be told.
        own_wire: what stands in a block's `state` was read from this API, and goes back as it is.
        text: the API's form of a text.
        media: its form of a picture or file; None if it has none.
    """
    found: list[dict[str, Any]] = []
    for block in blocks:
        if own_wire and block.state is not None:
            found.append(dict(block.state))
        elif isinstance(block, Media):
            found.append(media(block) or text(block.placeholder()))
        elif isinstance(block, Text) and block.text.strip():
            found.append(text(block.text))
    return found
