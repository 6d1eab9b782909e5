"""The fields of Cohere's events that are read or kept, or repeat what was told: all others are passed on."""

from __future__ import annotations

from ..fields import KnownFields

__all__ = ["EVENT_FIELDS", "FUNCTION", "RESPONSE", "SEARCHED"]


def _message(*known: str, **inside: KnownFields) -> KnownFields:
    """Returns the fields of an event of v2 whose message knows these."""
    return KnownFields("id", "index", "type", delta=KnownFields(message=KnownFields(*known, **inside)))


def _legacy(*known: str, **inside: KnownFields) -> KnownFields:
    """Returns the fields of an event of v1 that knows these."""
    return KnownFields("event_type", "index", "is_finished", *known, **inside)


_CONTENT = KnownFields("text", "thinking", "type")

EVENT_FIELDS: dict[str, KnownFields] = {
    "message-start": _message("role"),
    "content-start": _message(content=_CONTENT),
    "content-delta": _message(content=_CONTENT),
    "content-end": _message(),
    "tool-plan-delta": _message("tool_plan"),
    "tool-call-end": _message(),
    "citation-start": _message("citations"),
    "citation-end": _message(),
    "message-end": KnownFields("id", "type", delta=KnownFields("error", "error_type", "finish_reason", "usage")),
    "tool-call-start": _message("tool_calls"),  # what a call begins with is kept, or passed on apart
    "tool-call-delta": _message(tool_calls=KnownFields("id", "index", "type", function=KnownFields("arguments"))),
    # v1
    "stream-start": _legacy("generation_id"),
    "text-generation": _legacy("text"),
    "tool-calls-chunk": _legacy("text", tool_call_delta=KnownFields("index", "name", "parameters", "text")),
    "tool-calls-generation": _legacy("text", tool_calls=KnownFields("id", "name", "parameters")),
    "citation-generation": _legacy("citations"),
    "stream-end": _legacy("error", "finish_reason", "response"),
    "stream-error": _legacy("err", "error", "message", "finish_reason"),
}

FUNCTION = frozenset({"arguments", "name"})
"""The fields of a call's function."""

SEARCHED = frozenset({"documents", "search_queries", "search_results"})
"""The fields of the whole response that v1's events of a search have, too."""

RESPONSE = frozenset({
    "chat_history",  # of the request, with what was told
    "error", "finish_reason",
    "generation_id",  # which the start has
    "meta",
    "response_id",  # which no request takes
    "text", "tool_calls",
})  # fmt: skip
"""The fields of the whole response at the end of a stream of v1."""
