"""The envelope of a response: how it ends, by finish reasons, verdicts, refused prompts and errors; and how others than
the API spell it, with names like ``finish_reason``, with bytes, enums and nulls."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from enum import Enum
from typing import Any

from ...errors import ProviderError
from ...parts import Finish
from ..marks import camel
from ..reading import provider_error, read_text

__all__ = [
    "UNSPECIFIED",
    "as_wire",
    "error_in",
    "finish_of",
    "is_foreign",
    "reason_of",
    "refusal_of",
    "verdict",
    "without_nulls",
]

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
    """Returns the meaning of a finish reason."""
    return _FINISHES.get(reason.upper(), "other")


def reason_of(number: int) -> str:
    """Returns the finish reason of that number."""
    return _BY_NUMBER.get(number, "OTHER")


def verdict(reason: str, message: object) -> ProviderError:
    """Returns the error of a response that ended with an error for its reason."""
    kind = "malformed_function_call" if reason.upper() in _BAD_CALLS else "provider_error"
    return ProviderError(read_text(message) or reason, code=read_text(reason), kind=kind)


def refusal_of(feedback: object) -> ProviderError | None:
    """Returns the error of a prompt that was refused, if this feedback says so."""
    if not isinstance(feedback, dict):
        return None
    reason = feedback.get("blockReason")
    if not reason or reason in UNSPECIFIED:
        return None
    message = read_text(feedback.get("blockReasonMessage")) or read_text(reason) or "the prompt was blocked"
    return ProviderError(message, code=read_text(reason), kind="blocked")


def error_in(payload: dict[str, Any]) -> ProviderError | None:
    """Returns the error that a payload reports; its type is the status, which Google's errors have instead."""
    if "error" not in payload:
        return None
    error, body = provider_error(payload), payload["error"]
    if error is not None and error.type is None and isinstance(body, dict):
        error.type = read_text(body.get("status"))
    return error


# -- the spelling --

# What the model or a tool wrote: its names are its own.
_NOT_OURS = frozenset({"args", "response", "partMetadata", "part_metadata"})
_NULL_MEANT = frozenset({"nullValue", "null_value"})
_MAX_DEPTH = 16  # an envelope has about ten levels


def is_foreign(payload: Mapping[str, Any]) -> bool:
    """Returns whether some name is spelled as in Protocol Buffers, which their JSON format allows
    (https://protobuf.dev/programming-guides/json)."""
    levels: list[Any] = [payload]
    candidates = payload.get("candidates")
    for candidate in candidates if isinstance(candidates, list) else ():
        levels.append(candidate)
        content = candidate.get("content") if isinstance(candidate, dict) else None
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            levels.append(part)
            if isinstance(part, dict):
                levels.extend(part.values())
    return any(isinstance(level, dict) and "_" in "".join(map(str, level)) for level in levels)


def as_wire(value: Any, depth: int = 0) -> Any:
    """Returns a part of a payload with names and values as on the wire: camelCase, bytes in Base64, no nulls, no
    enums."""
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        return {
            camel(name): item if name in _NOT_OURS else as_wire(item, depth + 1)
            for name, item in value.items()
            if item is not None or name in _NULL_MEANT
        }
    if isinstance(value, list) and depth < _MAX_DEPTH:
        return [as_wire(item, depth + 1) for item in value]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value.value if isinstance(value, Enum) else value


def without_nulls(part: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that were set."""
    return {name: value for name, value in part.items() if value is not None}
