"""The fields of a Live session's messages: those that are read, or say nothing. All others are passed on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..fields import KnownFields
from ..gemini.envelope import as_wire
from ..marks import LIVE

__all__ = ["KNOWN", "MESSAGE", "TEXT_ALONE", "spelled"]

KNOWN = LIVE | {"usageMetadata"}
"""The fields of a session's messages. A message may have several."""

MESSAGE = KnownFields(
    "usageMetadata",
    serverContent=KnownFields(
        "turnComplete", "generationComplete", "interrupted", "turnCompleteReason", "interactionStatus",
        "waitingForInput",
        modelTurn=KnownFields("parts", "role"),
        outputTranscription=KnownFields("text", "finished"),
    ),
    toolCall=KnownFields("functionCalls"),
)  # fmt: skip
"""Those of a message. The fields of a call are `streamtools.wires.gemini.known.CALL`."""

TEXT_ALONE = frozenset({"modelTurn"})
"""Those of ``serverContent`` in a message that is nothing but text."""


def spelled(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a message with names as on the wire: those of `model_dump()` have underscores."""
    is_foreign = any(isinstance(name, str) and "_" in name for name in payload)
    return as_wire(payload) if is_foreign else payload
