"""The fields of Realtime events that are read or kept, or repeat what was told: all others are passed on."""

from __future__ import annotations

from ..fields import ERROR, KnownFields
from ..openai_responses.known import EVENT_FIELDS as RESPONSES_FIELDS
from ..openai_responses.known import LATER as RESPONSES_LATER
from .facts import DONE, REPEATING

__all__ = ["EVENT_FIELDS", "LATER", "REPEATED"]

_ID = "event_id"  # of every event: only an error of the session's names one, that of the client

_RESPONSE = KnownFields(
    "audio", "id", "max_output_tokens", "metadata", "modalities", "object", "output",
    "output_audio_format", "output_modalities", "status", "temperature", "usage", "voice",
    status_details=KnownFields("reason", "type", error=ERROR),
)  # fmt: skip

_TEXT = RESPONSES_FIELDS["response.output_text.delta"].but(_ID)

EVENT_FIELDS: dict[str, KnownFields] = {
    **{kind: fields.but(_ID) for kind, fields in RESPONSES_FIELDS.items()},
    "response.created": KnownFields("type", _ID, response=_RESPONSE),
    DONE: KnownFields("type", _ID, response=_RESPONSE),
    "response.output_audio_transcript.delta": _TEXT,
    "response.output_audio_transcript.done": _TEXT.but("transcript"),
    **dict.fromkeys(REPEATING, KnownFields("type", _ID, "item", "previous_item_id")),
}
"""The fields of each event."""

LATER = RESPONSES_LATER.but(_ID)
"""Those of events whose content their item repeats at its end."""

REPEATED = frozenset({
    "arguments", "call_id", "content", "error", "id", "name", "object", "output", "phase", "role", "server_label",
    "status", "tools", "type", "approval_request_id",
})  # fmt: skip
"""The fields of an item that the conversation's events repeat."""
