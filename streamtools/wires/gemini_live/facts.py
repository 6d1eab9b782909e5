"""A Live session's facts: how it declares tools, what it counts, how its turns end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...parts import Finish
from .. import KnownFields
from ..gemini import WIRE as GEMINI
from ..gemini.decoder import as_wire
from ..gemini.facts import usage_map
from ..marks import LIVE

_FUNCTION = "gemini.live.function_declaration"

CALLS = (replace(GEMINI.calls[0], name=_FUNCTION),)
RESULT = GEMINI.results
RULES = GEMINI.rules

(_PARAMETERS,) = (tools for tools in GEMINI.tools if tools.name == "gemini.parameters")


# ``BidiGenerateContentSetup`` of https://ai.google.dev/api/live (read 2026-11-23): `tools`, and no `toolConfig`.
TOOLS = (
    replace(
        _PARAMETERS,
        name="gemini.live",
        function=replace(_PARAMETERS.function, name=_FUNCTION),
        strict=None,
        request=lambda entries, strict: _PARAMETERS.request(entries, False),
        choice={},
    ),
)

# ``UsageMetadata`` of google-genai 3.4.0, which differs from that of generateContent in the count of the answer.
USAGE = usage_map("responseTokenCount")

_FILTERED = (
    "RESPONSE_REJECTED", "PROHIBITED_INPUT_CONTENT", "IMAGE_PROHIBITED_INPUT_CONTENT",
    "INPUT_TEXT_CONTAIN_PROMINENT_PERSON_PROHIBITED", "INPUT_IMAGE_CELEBRITY",
    "INPUT_IMAGE_PHOTO_REALISTIC_CHILD_PROHIBITED", "INPUT_TEXT_NCII_PROHIBITED", "INPUT_OTHER", "INPUT_IP_PROHIBITED",
    "BLOCKLIST", "UNSAFE_PROMPT_FOR_IMAGE_GENERATION", "GENERATED_IMAGE_SAFETY", "GENERATED_CONTENT_SAFETY",
    "GENERATED_AUDIO_SAFETY", "GENERATED_VIDEO_SAFETY", "GENERATED_CONTENT_PROHIBITED", "GENERATED_CONTENT_BLOCKLIST",
    "GENERATED_IMAGE_PROHIBITED", "GENERATED_IMAGE_CELEBRITY",
    "GENERATED_IMAGE_PROMINENT_PEOPLE_DETECTED_BY_REWRITER", "GENERATED_IMAGE_IDENTIFIABLE_PEOPLE",
    "GENERATED_IMAGE_MINORS", "OUTPUT_IMAGE_IP_PROHIBITED", "GENERATED_OTHER",
)  # fmt: skip

FINISHES: Mapping[str, Finish] = {
    "toolCall": "tool_calls",
    "turnComplete": "stop",
    "NEED_MORE_INPUT": "stop",
    "TURN_COMPLETE_REASON_UNSPECIFIED": "stop",
    "MALFORMED_FUNCTION_CALL": "error",
    **dict.fromkeys(_FILTERED, "content_filter"),
}  # what ended a response: a message, or ``TurnCompleteReason`` of google-genai 3.4.0

STATUSES = frozenset({"INTERACTION_STATUS_UNSPECIFIED", "IN_PROGRESS", "REQUIRES_ACTION", "IDLE"})
"""The statuses of a session: ``InteractionStatus`` of google-genai 3.4.0."""

FOREIGN_FINISH: Finish = "other"
"""That of an interruption, of ``MAX_REGENERATION_REACHED``, and of a reason that is not known."""


# -- fields that are known --

KNOWN = LIVE | {"usageMetadata"}

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


def spelled(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a message with names as on the wire: those of `model_dump()` have underscores."""
    is_foreign = any(isinstance(name, str) and "_" in name for name in payload)
    return as_wire(payload) if is_foreign else payload
