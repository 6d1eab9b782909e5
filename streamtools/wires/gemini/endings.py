"""How a response ends: finish reasons, the provider's verdicts, a refused prompt, errors."""

from __future__ import annotations

from typing import Any

from ...errors import ProviderError
from ...parts import Finish
from ..reading import provider_error, read_text

__all__ = ["UNSPECIFIED", "error_in", "finish_of", "reason_of", "refusal_of", "verdict"]

# https://ai.google.dev/api/generate-content#FinishReason, and Vertex' (read 2026-11-20)
_FINISHES: dict[str, Finish] = {
    "STOP": "stop",
    "FUNCTION_CALL": "tool_calls",  # aimock
    "MAX_TOKENS": "length",
    "CONTINUATION": "pause",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "ESCALATION": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "MISSING_THOUGHT_SIGNATURE": "error",
    "MALFORMED_RESPONSE": "error",
}
_BAD_CALLS = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"})
UNSPECIFIED = ("", "FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")
"""An enum's zero: no reason was given."""
# The enum's numbers, as far as all of Google's APIs agree about them.
_BY_NUMBER = {0: UNSPECIFIED[1], 1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION"}


def finish_of(reason: str) -> Finish:
    """What a finish reason means."""
    return _FINISHES.get(reason.upper(), "other")


def reason_of(number: int) -> str:
    """The finish reason of that number."""
    return _BY_NUMBER.get(number, "OTHER")


def verdict(reason: str, message: object) -> ProviderError:
    """The error of a response that ended with an error for its reason."""
    kind = "malformed_function_call" if reason.upper() in _BAD_CALLS else "provider_error"
    return ProviderError(read_text(message) or reason, code=read_text(reason), kind=kind)


def refusal_of(feedback: object) -> ProviderError | None:
    """The error of a prompt that was refused, if this feedback says so."""
    if not isinstance(feedback, dict):
        return None
    reason = feedback.get("blockReason")
    if not reason or reason in UNSPECIFIED:
        return None
    message = read_text(feedback.get("blockReasonMessage")) or read_text(reason) or "the prompt was blocked"
    return ProviderError(message, code=read_text(reason), kind="blocked")


def error_in(payload: dict[str, Any]) -> ProviderError | None:
    """The error that a payload reports; its type is the status, which Google's errors have instead."""
    if "error" not in payload:
        return None
    error, body = provider_error(payload), payload["error"]
    if error is not None and error.type is None and isinstance(body, dict):
        error.type = read_text(body.get("status"))
    return error
