"""The fields of Responses events that are read or kept, or repeat what was told: all others are passed on."""

from __future__ import annotations

from ..fields import ERROR, ERROR_PAYLOAD, KnownFields
from .facts import ARGUMENTS, QUIET, TERMINALS, TEXT_DELTAS, TEXT_DONES, WAITING

__all__ = ["ENVELOPE", "ERROR_EVENT", "EVENT_FIELDS", "GROWING", "HEAD", "LATER", "REQUESTED"]

ENVELOPE = frozenset({
    "call_id", "content_index", "event_id", "item_id", "obfuscation", "output_index", "response_id", "sequence_number",
    "stream_id", "summary_index", "type",
})  # fmt: skip
"""Fields of events that say where they belong."""
_ENVELOPE = ENVELOPE - {"call_id", "event_id"}

REQUESTED = frozenset({
    "background", "frequency_penalty", "image", "instructions", "max_output_tokens", "max_tool_calls", "metadata",
    "parallel_tool_calls", "presence_penalty", "previous_response_id", "prompt", "prompt_cache_key",
    "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "store",
    "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user",
})  # fmt: skip
"""Fields of a response that repeat the request."""

_RESPONSE = KnownFields(
    *REQUESTED, "completed_at", "created_at", "id", "model", "object", "output", "status", "usage",
    error=ERROR, incomplete_details=KnownFields("reason"),
)  # fmt: skip


def _event(*known: str, **inside: KnownFields) -> KnownFields:
    return KnownFields(*_ENVELOPE, *known, **inside)


_TEXT = _event("delta")

EVENT_FIELDS: dict[str, KnownFields] = {
    **dict.fromkeys((*WAITING, *TERMINALS), _event(response=_RESPONSE)),
    "response.output_item.added": _event("item"),
    "response.output_item.done": _event("item"),
    **dict.fromkeys(TEXT_DELTAS, _TEXT),
    **{kind: _event(field) for kind, (_, _, field) in TEXT_DONES.items()},
    **{f"{prefix}.delta": _event("call_id", "delta") for prefix in ARGUMENTS},
    **{f"{prefix}.done": _event("arguments", "call_id", "input", "name") for prefix in ARGUMENTS},
    **dict.fromkeys(QUIET, _event()),
}
"""The fields of each event."""

LATER = _event(
    "annotation", "annotation_index", "background", "code", "command", "command_index", "delta", "diff", "output",
    "output_format", "part", "partial_image_b64", "partial_image_index", "quality", "size", "status",
)  # fmt: skip
"""Those of events whose content their item repeats at its end."""

ERROR_EVENT = KnownFields(*ERROR_PAYLOAD.known - {"error"}, *_ENVELOPE, error=ERROR)
"""Those of events that end the response with an error."""

GROWING = frozenset({
    "action", "actions", "arguments", "call_id", "code", "content", "encrypted_content", "error", "id", "input",
    "operation", "output", "outputs", "pending_safety_checks", "queries", "result", "results", "revised_prompt",
    "status", "summary", "tools",
})  # fmt: skip
"""The fields of items that are not whole before the end."""

HEAD = frozenset({"content", "encrypted_content", "id", "phase", "role", "status", "summary", "type"})
"""The fields of a text's item of which the turn holds as much as it can give back."""
