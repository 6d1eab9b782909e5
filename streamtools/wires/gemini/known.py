"""The fields of Gemini's responses: those that are read or kept, or say nothing. All others are passed on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..fields import KnownFields

__all__ = [
    "BARE", "CALL", "CANDIDATE", "ERROR_RESPONSE", "KNOWN", "LIVE", "MARKS", "OPAQUE", "PLAIN", "PLAIN_CANDIDATE",
    "RESPONSE", "WRAPPER", "recognises",
]  # fmt: skip

MARKS = frozenset({"candidates", "usageMetadata", "promptFeedback", "usage_metadata", "prompt_feedback"})
"""Fields of which each response has one, also as Protocol Buffers spell them."""

KNOWN = MARKS | {"modelVersion", "responseId", "createTime", "modelStatus"}
"""Fields that show a payload to be a response."""

PLAIN = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId", "createTime"})
"""Those of a response that may have nothing but text, and its count."""

PLAIN_CANDIDATE = frozenset({"content", "index"})
"""Those of its candidate."""

RESPONSE = KnownFields(*PLAIN, promptFeedback=KnownFields("blockReason", "blockReasonMessage"))

CANDIDATE = KnownFields(
    "continuationToken", "finishMessage", "finishReason", "index", content=KnownFields("parts", "role")
)  # fmt: skip

CALL = KnownFields("args", "id", "name", "willContinue", partialArgs=KnownFields(
    "boolValue", "jsonPath", "nullValue", "numberValue", "stringValue", "willContinue",
))  # fmt: skip

# The status is the error's type.
ERROR_RESPONSE = KnownFields(*PLAIN, error=KnownFields("code", "message", "status", "type"))

WRAPPER = KnownFields("response")

BARE = frozenset({"text", "thought", "thoughtSignature"})
"""Fields of a part of text."""

OPAQUE = frozenset({
    "executableCode", "codeExecutionResult", "toolCall", "toolResponse", "inlineData", "fileData", "functionResponse",
    "audioTranscription",
})  # fmt: skip
"""Parts that go back as they came."""

LIVE = frozenset({
    "setupComplete", "serverContent", "toolCall", "toolCallCancellation", "goAway", "sessionResumptionUpdate",
    "voiceActivityDetectionSignal", "voiceActivity",
})  # fmt: skip
"""Fields of messages of a Live session, which have counts, too."""

_LIVE_SNAKES = frozenset({
    "setup_complete", "server_content", "tool_call", "tool_call_cancellation", "go_away", "session_resumption_update",
    "voice_activity_detection_signal", "voice_activity",
})  # fmt: skip
_OTHERS = LIVE | _LIVE_SNAKES | {"choices", "type", "object"}  # marks of other wires


def recognises(payload: Mapping[str, Any]) -> bool:
    """Returns whether this payload can only be one of Gemini's."""
    if not _OTHERS.isdisjoint(payload):
        return False
    inner = payload.get("response")
    return not MARKS.isdisjoint(payload) or (isinstance(inner, Mapping) and not MARKS.isdisjoint(inner))
