"""Attachments on their way through a wire's `render` and `read`, which know bytes only.

What stands in for an attachment is made of a hash of everything that is written along with it, so that no text of a
message can hold it. Afterwards references stand again where the stand-ins came to.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..content import Block, Media
from .attachments import is_reference, reference, rewritten
from .blocks import attachment_of

__all__ = ["StandIns"]


class StandIns:
    """The stand-ins of one translation.

    Args:
        along: all that is written along with them.
    """

    def __init__(self, along: object) -> None:
        self._salt = hashlib.sha256(repr(along).encode("utf-8", "backslashreplace")).digest()
        self._ids: dict[str | bytes, tuple[str, str | None]] = {}

    def _text(self, id_: str, mime_type: str | None) -> str:
        data = hashlib.sha256(self._salt + id_.encode("utf-8", "backslashreplace")).digest()
        text = b64encode(data).decode()
        self._ids[text] = self._ids[data] = (id_, mime_type)
        return text

    def hidden(self, blocks: Iterable[Block]) -> tuple[Block, ...]:
        """Blocks for `render`: an attachment has its stand-in for data."""
        return tuple(self._hidden(block) for block in blocks)

    def _hidden(self, block: Block) -> Block:
        ref = attachment_of(block)
        if ref is None or not isinstance(block, Media):
            return block
        return replace(block, data=self._text(ref["id"], block.mime_type), state=None)

    def shown(self, messages: Any) -> Any:
        """What `render` made, with references for the stand-ins."""
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
        """Native messages for `read`: stand-ins for the references."""
        return rewritten(messages, self._covered)

    def _covered(self, node: Any) -> Any:
        if not is_reference(node):
            return node
        mime_type = node.get("mime_type")
        text = self._text(node["id"], mime_type if isinstance(mime_type, str) else None)
        if node.get("encoding") == "data_url":
            return f"data:{mime_type or 'application/octet-stream'};base64,{text}"
        if node.get("encoding") == "bytes":
            return b64decode(text)
        return text

    def uncovered(self, blocks: Iterable[Block]) -> tuple[Block, ...]:
        """What `read` made: an attachment is a block with its reference again."""
        return tuple(self._uncovered(block) for block in blocks)

    def _uncovered(self, block: Block) -> Block:
        if not isinstance(block, Media) or block.data not in self._ids:
            return block
        return replace(block, data=None, state=reference(self._ids[block.data][0]))
