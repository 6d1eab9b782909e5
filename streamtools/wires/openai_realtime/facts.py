"""Realtime's facts: how it writes calls, results and tools, what it counts, what its events are called."""

from __future__ import annotations

from dataclasses import replace

from ...parts import Finish
from .. import KnownFields, UsageMap
from ..marks import SESSION_EVENTS
from ..openai_responses import WIRE as RESPONSES
from ..openai_responses.facts import EVENT_FIELDS as RESPONSES_FIELDS
from ..openai_responses.facts import LATER as RESPONSES_LATER
from ..openai_responses.facts import TEXT_DELTAS as RESPONSES_DELTAS
from ..openai_responses.facts import TEXT_DONES as RESPONSES_DONES
from ..reading import ERROR

_FUNCTION = "openai.realtime.function"
(_TOOLS,) = RESPONSES.tools

CALLS = (replace(RESPONSES.calls[0], name=_FUNCTION, namespace=None),)

RESULT = RESPONSES.results

TOOLS = (
    replace(
        _TOOLS,
        name="openai.realtime",
        # `types/realtime/realtime_function_tool.py` of openai 3.54.0: name, description and parameters, and no more
        function=replace(_TOOLS.function, name=_FUNCTION, strict="never", output_at=None, hints={}),
        freeform=None,
        namespace=None,
        strict=None,
    ),
)

# In which words a session refuses is not known.
RULES = replace(RESPONSES.rules, namespaces=False, texts={}, unanswered_texts={})

USAGE = UsageMap({
    "input_tokens": ("input_tokens",),
    "output_tokens": ("output_tokens",),
    "cached_input_tokens": ("input_token_details.cached_tokens",),
    "audio_input_tokens": ("input_token_details.audio_tokens",),
    "audio_output_tokens": ("output_token_details.audio_tokens",),
})  # fmt: skip

# -- the stream's vocabulary --

DONE = "response.done"  # the last event of every response, whatever became of it

FINISHES: dict[str, Finish] = {
    "completed": "stop",
    "max_output_tokens": "length",
    "content_filter": "content_filter",
    "turn_detected": "other",  # the user began to speak
    "client_cancelled": "other",
}

REPEATING = frozenset({"conversation.item.created", "conversation.item.added", "conversation.item.done"})
"""Events of the conversation that repeat an item; those of the response tell it."""

_SOUND = ("response.output_audio", "response.audio")  # the second is the beta's word

PASSED_ON = (SESSION_EVENTS - REPEATING) | {f"{word}.{piece}" for word in _SOUND for piece in ("delta", "done")}
"""Events of the session and its sound, which change no turn."""

# Servers that began with the beta send its words still (Azure Voice Live, xAI): `types/beta/realtime` of openai 3.54.0.
_WORDS = {
    "response.text": "text",
    "response.audio_transcript": "transcript",
    "response.output_audio_transcript": "transcript",
}  # further words for the text of a message, and the field that has one whole

TEXT_DELTAS = RESPONSES_DELTAS | {f"{word}.delta": RESPONSES_DELTAS["response.output_text.delta"] for word in _WORDS}
TEXT_DONES = RESPONSES_DONES | {f"{word}.done": ("message", "text", field) for word, field in _WORDS.items()}
"""As those of the Responses API: the transcript of speech is the text of its message."""


# -- fields that are known --

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
    **{f"{word}.delta": _TEXT for word in _WORDS},
    **{f"{word}.done": _TEXT.but(field) for word, field in _WORDS.items()},
    **dict.fromkeys(REPEATING, KnownFields("type", _ID, "item", "previous_item_id")),
}

LATER = RESPONSES_LATER.but(_ID)

REPEATED = frozenset({
    "arguments", "call_id", "content", "error", "id", "name", "object", "output", "phase", "role", "server_label",
    "status", "tools", "type", "approval_request_id",
})  # fmt: skip
