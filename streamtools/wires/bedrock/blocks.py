"""A content block while it grows: what of it goes back to the provider as it came."""

from __future__ import annotations

import binascii
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["OPAQUE_BLOCKS", "StartedBlock"]

OPAQUE_BLOCKS = frozenset({"toolResult", "image"})
"""Blocks that are kept whole and given back without being looked into."""


@dataclass(slots=True)
class StartedBlock:
    """A content block that has started."""

    kind: str
    """``text``, ``reasoningContent``, ``toolUse``, one of `OPAQUE_BLOCKS`; ``""`` until a delta tells."""
    open: bool = True
    left: bool = False
    """Another block's text was told since, so that this one's is in pieces."""
    input: tuple[str, str | None] | None = None
    """Arguments that came with the start, and what is wrong with them."""
    has_input: bool = False
    """Some delta brought arguments."""
    raw: dict[str, Any] = field(default_factory=dict)
    """The fields that came with the start of an opaque block or of a call, or with the deltas of an image."""
    signature: list[str] = field(default_factory=list)
    citations: list[Any] = field(default_factory=list)
    content: list[Any] = field(default_factory=list)
    """Of a tool's result."""
    blob: list[str | bytes] = field(default_factory=list)
    """Redacted reasoning, or an image: base64 on the wire, `bytes` in what botocore yields."""
    foreign: bool = False
    """It had deltas that nobody understands, so that it cannot be given back."""

    @property
    def is_bare(self) -> bool:
        """True for a call without any arguments so far: unless the wire ends it, nobody knows if there are none."""
        return self.kind == "toolUse" and not self.has_input and self.input is None

    @property
    def opaque(self) -> bool:
        """True if something in it is to be given back as it came."""
        return self.kind in OPAQUE_BLOCKS or bool(self.blob)

    def keep(self, name: str, value: Any) -> bool:
        """Takes a delta that is no text of the model's. Returns whether it was understood."""
        return _KEEPERS[name](self, value)

    def whole(self) -> dict[str, Any] | None:
        """Returns an opaque block in the shape that the API takes; None if it is not understood."""
        blob = _joined(self.blob) if self.blob else None
        if self.foreign or (self.blob and blob is None):
            return None
        if self.kind == "toolResult":
            answers = isinstance(self.raw.get("toolUseId"), str)
            return {"toolResult": {**self.raw, "content": self.content}} if answers else None
        if self.kind == "image":
            raw = self.raw if blob is None else {**self.raw, "source": {"bytes": blob}}
            return {"image": raw} if "source" in raw else None
        return {"reasoningContent": {"redactedContent": blob}}

    def _keep_signature(self, value: Any) -> bool:
        if (understood := isinstance(value, str)) and value:
            self.signature.append(value)
        return understood

    def _keep_blob(self, value: Any) -> bool:
        if (understood := isinstance(value, (str, bytes))) and value:
            self.blob.append(value)
        return understood

    def _keep_citation(self, value: Any) -> bool:
        self.citations.append(value)
        return True

    def _keep_content(self, value: Any) -> bool:
        if understood := isinstance(value, list):
            self.content.extend(value)
        return understood

    def _keep_image(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        source = value.get("source")
        if isinstance(source, dict) and self._keep_blob(source.get("bytes")):
            value = {key: item for key, item in value.items() if key != "source"}
        self.raw.update(value)
        return True


_KEEPERS: dict[str, Callable[[StartedBlock, Any], bool]] = {
    "signature": StartedBlock._keep_signature,
    "redactedContent": StartedBlock._keep_blob,
    "data": StartedBlock._keep_blob,
    "citation": StartedBlock._keep_citation,
    "toolResult": StartedBlock._keep_content,
    "image": StartedBlock._keep_image,
}


def _joined(pieces: list[str | bytes]) -> str | bytes | None:
    """Returns the bytes that came in these pieces, in the form of the first; None if some piece is no base64.

    Each piece of text is base64 by itself, so they cannot just be put together.
    """
    if len(pieces) == 1:
        return pieces[0]
    try:
        data = b"".join(p if isinstance(p, bytes) else binascii.a2b_base64(p, strict_mode=True) for p in pieces)
    except ValueError:
        return None
    return data if isinstance(pieces[0], bytes) else binascii.b2a_base64(data, newline=False).decode()
