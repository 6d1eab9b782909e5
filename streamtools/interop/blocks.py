"""The blocks of a stored message: JSON in, `Text` and `Media` out, and back. Bytes stand in a store, not in a message.

{"type": "text", "text": "the plan"}
{"type": "media", "kind": "image", "mime_type": "image/png", "attachment": {"type": "attachment_ref", ...}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..content import Block, Media, Text
from ..wires.media import decoded
from .attachments import Attachment, is_reference, reference

__all__ = ["attachment_of", "read_blocks", "write_blocks"]

_KINDS = ("image", "audio", "video", "file")
_FIELDS = ("mime_type", "url", "file_id", "filename")


def write_blocks(blocks: Iterable[Block], keep: Callable[[Attachment], str | None] | None) -> list[dict[str, Any]]:
    """Blocks as JSON without any bytes.

    Args:
        blocks: a provider's own blocks are left out: they belong to the native history.
        keep: puts bytes away and says under which id; what is not kept becomes a text that says so.
    """
    return [written for block in blocks if (written := _write(block, keep)) is not None]


def _write(block: Block, keep: Callable[[Attachment], str | None] | None) -> dict[str, Any] | None:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if not isinstance(block, Media):
        return None
    told: dict[str, Any] = {"type": "media", "kind": block.kind}
    told |= {key: value for key in _FIELDS if (value := getattr(block, key)) is not None}
    ref = attachment_of(block)
    if ref is None and block.data is None:
        return told
    if ref is None:
        data = decoded(block.data or "")
        if data is None:
            return {"type": "text", "text": f"{block.placeholder()} [left out: its data is no base64]"}
        id_ = None if keep is None else keep(Attachment(data, block.mime_type))
        if id_ is None:
            return {"type": "text", "text": f"{block.placeholder()} [left out: there is no store for attachments]"}
        ref = reference(id_)
    return told | {"attachment": dict(ref)}


def read_blocks(written: object) -> tuple[Block, ...]:
    """The blocks that JSON says; unknown ones are left out. An attachment is a `Media` whose state is its reference."""
    if isinstance(written, str):
        return (Text(written),) if written else ()
    given = written if isinstance(written, (list, tuple)) else ()
    return tuple(block for each in given if (block := _read(each)) is not None)


def _read(written: object) -> Block | None:
    if not isinstance(written, Mapping):
        return None
    if isinstance(text := written.get("text"), str):
        return Text(text)
    kind = written.get("kind")
    if written.get("type") != "media" or kind not in _KINDS:
        return None
    fields = {key: value for key in _FIELDS if isinstance(value := written.get(key), str)}
    attachment = written.get("attachment")
    return Media(kind=kind, state=attachment if is_reference(attachment) else None, **fields)


def attachment_of(block: Block) -> Mapping[str, Any] | None:
    """The reference that stands for a block's bytes, if one does."""
    return block.state if is_reference(block.state) else None
