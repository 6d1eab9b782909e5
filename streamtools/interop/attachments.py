"""Keeps images and files of a history: stored once, referred to in messages, expanded only in the request that is sent.

    compact_attachments(content, store)   bytes out of the content and into the store, a reference in their place
    expand_attachments(payload, loader)   the other way, on what goes to the provider

A reference is a dict of its own (`reference`), never a piece of text: nothing that a person or a model writes can be
mistaken for one. Inside the arguments of a call, which the model wrote, nothing is expanded. In a stored message, an
attachment is a block:

    {"type": "media", "kind": "image", "mime_type": "image/png", "attachment": {"type": "attachment_ref", ...}}
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard

from ..content import Block, Media, Text
from ..errors import ExportError
from ..wires import Wire, known
from ..wires.media import decoded, encoded
from .formats import call_formats

__all__ = [
    "Attachment",
    "AttachmentLoader",
    "AttachmentStore",
    "MemoryAttachments",
    "StandIns",
    "attachment_of",
    "compact_attachments",
    "expand_attachments",
    "is_reference",
    "read_blocks",
    "reference",
    "rewritten",
    "write_blocks",
]

_MAX_DEPTH = 64  # levels

Encoding: TypeAlias = Literal["base64", "data_url", "bytes"]


@dataclass(frozen=True, slots=True)
class Attachment:
    """Bytes and their type."""

    data: bytes = field(repr=False)
    mime_type: str | None = None


AttachmentLoader: TypeAlias = Callable[[str], "Attachment | None"]
"""Returns an attachment by its id, or None if there is none of that id, or none that this request may have."""


class AttachmentStore(Protocol):
    """Keeps attachments outside of the history."""

    def put(self, attachment: Attachment, /) -> str:
        """Keeps the attachment and returns its id; the same bytes may get the same id."""
        ...


class MemoryAttachments:
    """Keeps attachments in memory, by the hash of their content. Call it to load one."""

    def __init__(self) -> None:
        self._kept: dict[str, Attachment] = {}

    def put(self, attachment: Attachment, /) -> str:
        """Keeps the attachment and returns its id; the same bytes are kept once."""
        id_ = f"sha256:{hashlib.sha256(attachment.data).hexdigest()}"
        self._kept.setdefault(id_, attachment)
        return id_

    def __call__(self, id_: str, /) -> Attachment | None:
        """Returns the attachment of this id, or None."""
        return self._kept.get(id_)

    def __len__(self) -> int:
        return len(self._kept)


def reference(id_: str, encoding: Encoding = "base64", mime_type: str | None = None) -> dict[str, Any]:
    """Returns the stand-in for an attachment in a message: its id, and how it is to be written there."""
    told = {"mime_type": mime_type} if mime_type else {}
    return {"type": "attachment_ref", "id": id_, "encoding": encoding, **told}


def expand_attachments(payload: Any, loader: AttachmentLoader) -> Any:
    """Returns a copy of `payload` with the bytes in place of each reference; a part without any stays the same object.

    Raises:
        ExportError: the loader has no attachment of that id.
    """
    return rewritten(payload, lambda node: _expanded(node, loader) if is_reference(node) else node)


def compact_attachments(payload: Any, store: AttachmentStore) -> Any:
    """Returns a copy of `payload` with references in place of bytes and base64; parts without any stay as they are.

    Found are bytes, ``data:`` URLs, and ``data`` beside its type (``media_type``, ``mimeType``, ``format``). Other
    base64 cannot be told from text, and stays.
    """

    def compacted(node: Any) -> Any:
        if isinstance(node, bytes):
            return reference(store.put(Attachment(node)), "bytes")
        if isinstance(node, str):
            return _from_url(node, store)
        if isinstance(node, Mapping) and isinstance(data := node.get("data"), str):
            return _from_field(node, data, store)
        return node

    return rewritten(payload, compacted)


def is_reference(node: Any) -> TypeGuard[Mapping[str, Any]]:
    """Returns whether this is made by `reference`."""
    return isinstance(node, Mapping) and node.get("type") == "attachment_ref" and isinstance(node.get("id"), str)


def _expanded(node: Mapping[str, Any], loader: AttachmentLoader) -> str | bytes:
    found = loader(node["id"])
    if found is None:
        raise ExportError(f"no attachment {node['id']!r}; the loader has to know every attachment of the history")
    if node.get("encoding") == "bytes":
        return found.data
    text = encoded(found.data)
    if node.get("encoding") == "data_url":
        mime_type = node.get("mime_type") or found.mime_type or "application/octet-stream"
        return f"data:{mime_type};base64,{text}"
    return text


_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.+=-]+)*;base64,")
_TYPES = ("media_type", "mimeType", "mime_type", "format")


def _from_url(text: str, store: AttachmentStore) -> Any:
    head = _DATA_URL.match(text) if text.startswith("data:") else None
    if head is None or (data := decoded(text[head.end() :])) is None:
        return text
    return reference(store.put(Attachment(data, head[1])), "data_url", head[1])


def _from_field(node: Mapping[str, Any], text: str, store: AttachmentStore) -> Any:
    told = next((node[key] for key in _TYPES if isinstance(node.get(key), str)), None)
    if told is None or (data := decoded(text)) is None:
        return node
    return {**node, "data": reference(store.put(Attachment(data, told if "/" in told else None)))}


def rewritten(node: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a copy of `node` with `change` made at every place, from the outside in; the same object if none
    is. Arguments of calls are left alone, and so are values nested deeper than any provider's message."""
    return _rewritten(node, change, _argument_places(known()), 0)


def _rewritten(node: Any, change: Callable[[Any], Any], left_alone: frozenset[str], depth: int) -> Any:
    changed = change(node)
    if changed is not node or isinstance(node, (str, bytes)) or depth >= _MAX_DEPTH:
        return changed
    if isinstance(node, Mapping):
        if node.get("type") in left_alone:
            return node
        items = {
            key: value if key in left_alone else _rewritten(value, change, left_alone, depth + 1)
            for key, value in node.items()
        }
        return items if any(items[key] is not node[key] for key in items) else node
    if isinstance(node, (list, tuple)):
        values = [_rewritten(value, change, left_alone, depth + 1) for value in node]
        return values if any(new is not old for new, old in zip(values, node, strict=True)) else node
    return node


@lru_cache(maxsize=1)
def _argument_places(wires: tuple[Wire, ...]) -> frozenset[str]:
    """Returns the types and keys that mark calls whose arguments are a value."""
    lists = {wire.rules.call_path.partition("[")[0] for wire in wires if wire.rules.call_path}
    formats = [format for format in call_formats(wires) if not (format.as_text or format.raw)]
    marks = {format.inside or format.type or format.arguments for format in formats}
    return frozenset(lists | marks | {type for format in formats for type in format.run_by_provider})


_KINDS = ("image", "audio", "video", "file")
_FIELDS = ("mime_type", "url", "file_id", "filename")


def write_blocks(blocks: Iterable[Block], store: AttachmentStore | None) -> list[dict[str, Any]]:
    """Returns blocks as JSON without any bytes.

    Args:
        blocks: a provider's own blocks are left out: they belong to the native history.
        store: keeps the bytes; without one a text says that they were left out.
    """
    return [written for block in blocks if (written := _write(block, store)) is not None]


def _write(block: Block, store: AttachmentStore | None) -> dict[str, Any] | None:
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
        if store is None:
            return {"type": "text", "text": f"{block.placeholder()} [left out: there is no store for attachments]"}
        ref = reference(store.put(Attachment(data, block.mime_type)))
    return told | {"attachment": dict(ref)}


def read_blocks(written: object) -> tuple[Block, ...]:
    """Reads blocks from JSON; unknown ones are left out. An attachment is a `Media` whose state is its reference."""
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
    """Returns the reference that stands for a block's bytes, if one does."""
    return block.state if is_reference(block.state) else None


# -- through a wire's `render` and `read`, which know bytes only --


class StandIns:
    """The stand-ins of attachments in one translation: bytes for `render` and `read`, made of a hash of everything that
    is written along with them, so that no text of a message can hold them.

    Args:
        along: all that is written along with them.
    """

    def __init__(self, along: object) -> None:
        self._salt = hashlib.sha256(repr(along).encode("utf-8", "backslashreplace")).digest()
        self._ids: dict[str | bytes, tuple[str, str | None]] = {}

    def _text(self, id_: str, mime_type: str | None = None) -> str:
        data = hashlib.sha256(self._salt + id_.encode("utf-8", "backslashreplace")).digest()
        text = encoded(data)
        self._ids[text] = self._ids[data] = (id_, mime_type)
        return text

    def hidden(self, blocks: Iterable[Block]) -> tuple[Block, ...]:
        """Returns blocks for `render`: an attachment has its stand-in for data."""
        return tuple(self._hidden(block) for block in blocks)

    def _hidden(self, block: Block) -> Block:
        ref = attachment_of(block)
        if ref is None or not isinstance(block, Media):
            return block
        return replace(block, data=self._text(ref["id"], block.mime_type), state=None)

    def shown(self, messages: Any) -> Any:
        """Returns the output of `render` with references for the stand-ins."""
        return rewritten(messages, self._shown) if self._ids else messages

    def _shown(self, node: Any) -> Any:
        if isinstance(node, bytes) and node in self._ids:
            return reference(self._ids[node][0], "bytes")
        if not isinstance(node, str):
            return node
        if node in self._ids:
            return reference(self._ids[node][0])
        head, _, text = node.rpartition(",")
        if head.startswith("data:") and text in self._ids:
            return reference(self._ids[text][0], "data_url", self._ids[text][1])
        return node

    def covered(self, messages: Any) -> Any:
        """Returns native messages for `read`, with stand-ins for the references."""
        return expand_attachments(messages, lambda id_: Attachment(b64decode(self._text(id_))))

    def uncovered(self, blocks: Iterable[Block]) -> tuple[Block, ...]:
        """Returns the blocks that `read` made: an attachment is a block with its reference again."""
        return tuple(self._uncovered(block) for block in blocks)

    def _uncovered(self, block: Block) -> Block:
        if not isinstance(block, Media) or block.data not in self._ids:
            return block
        return replace(block, data=None, state=reference(self._ids[block.data][0]))
