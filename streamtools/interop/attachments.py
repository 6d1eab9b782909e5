"""Images and files of a history: stored once, referred to in messages, expanded only in the request that is sent.

    compact_attachments(content, store)   bytes out of the content and into the store, a reference in their place
    expand_attachments(payload, loader)   the other way, on what goes to the provider

A reference is a dict of its own (`reference`), never a piece of text: what a person or a model writes can not be
mistaken for one. Inside the arguments of a call, which the model wrote, nothing is expanded.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard

from ..errors import ExportError
from ..wires import Wire, known
from ..wires.media import decoded
from .formats import call_formats

__all__ = [
    "Attachment",
    "AttachmentLoader",
    "AttachmentStore",
    "MemoryAttachments",
    "compact_attachments",
    "expand_attachments",
    "is_reference",
    "reference",
    "rewritten",
]

_MAX_DEPTH = 64  # levels

Encoding: TypeAlias = Literal["base64", "data_url", "bytes"]


@dataclass(frozen=True, slots=True)
class Attachment:
    """Bytes, and what they are."""

    data: bytes = field(repr=False)
    mime_type: str | None = None


AttachmentLoader: TypeAlias = Callable[[str], "Attachment | None"]
"""An attachment by its id, or None if there is none of that id, or none that this request may have."""


class AttachmentStore(Protocol):
    """Keeps attachments outside of the history."""

    def put(self, attachment: Attachment, /) -> str:
        """Keeps it, and says under which id; the same bytes may get the same id."""
        ...


class MemoryAttachments:
    """Attachments in memory, by the hash of their content. Call it to load one."""

    def __init__(self) -> None:
        self._kept: dict[str, Attachment] = {}

    def put(self, attachment: Attachment, /) -> str:
        """Keeps it; the same bytes are kept once."""
        id_ = f"sha256:{hashlib.sha256(attachment.data).hexdigest()}"
        self._kept.setdefault(id_, attachment)
        return id_

    def __call__(self, id_: str, /) -> Attachment | None:
        """The attachment of this id, if there is one."""
        return self._kept.get(id_)

    def __len__(self) -> int:
        return len(self._kept)


def reference(id_: str, encoding: Encoding = "base64", mime_type: str | None = None) -> dict[str, Any]:
    """What stands in a message for an attachment: its id, and how it is to be written there."""
    told = {"mime_type": mime_type} if mime_type else {}
    return {"type": "attachment_ref", "id": id_, "encoding": encoding, **told}


def expand_attachments(payload: Any, loader: AttachmentLoader) -> Any:
    """A copy of `payload` with the bytes in place of each reference; what holds none stays the same object.

    Raises:
        ExportError: the loader has no attachment of that id.
    """
    return rewritten(payload, lambda node: _expanded(node, loader) if is_reference(node) else node)


def compact_attachments(payload: Any, store: AttachmentStore) -> Any:
    """A copy of `payload` with a reference in place of all bytes and base64; what holds none stays the same object.

    Found are bytes, ``data:`` URLs, and ``data`` beside the type that it has (``media_type``, ``mimeType``,
    ``format``). Base64 that says nothing of itself cannot be told from text, and stays.
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
    """Whether this is what `reference` makes."""
    return isinstance(node, Mapping) and node.get("type") == "attachment_ref" and isinstance(node.get("id"), str)


def _expanded(node: Mapping[str, Any], loader: AttachmentLoader) -> str | bytes:
    found = loader(node["id"])
    if found is None:
        raise ExportError(f"no attachment {node['id']!r}; the loader has to know every attachment of the history")
    if node.get("encoding") == "bytes":
        return found.data
    text = base64.b64encode(found.data).decode()
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
    """A copy of `node` with `change` made at every place, from the outside in, or the same object if nothing changed.
    Arguments of calls are left alone, and so is what is nested deeper than any provider's message."""
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
    """Where a call stands whose arguments are a value, by the type or the key that says so."""
    lists = {wire.rules.call_path.partition("[")[0] for wire in wires if wire.rules.call_path}
    formats = [format for format in call_formats(wires) if not (format.as_text or format.raw)]
    marks = {format.inside or format.type or format.arguments for format in formats}
    return frozenset(lists | marks | {type for format in formats for type in format.run_by_provider})
