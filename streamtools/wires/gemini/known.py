"""The fields of Gemini's responses: those that are read or kept, or say nothing. All others are passed on."""

from __future__ import annotations

from ..fields import KnownFields
from ..marks import GEMINI

__all__ = [
    "BARE", "CALL", "CANDIDATE", "ERROR_RESPONSE", "KNOWN", "OPAQUE", "PLAIN", "PLAIN_CANDIDATE",
    "RESPONSE", "WRAPPER",
]  # fmt: skip

KNOWN = GEMINI | {"modelVersion", "responseId", "createTime", "modelStatus"}
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
