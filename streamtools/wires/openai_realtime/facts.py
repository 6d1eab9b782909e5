"""Realtime's facts: how it writes calls, results and tools, what it counts, what its events are called."""

from __future__ import annotations

from dataclasses import replace

from ...parts import Finish
from ...schema.dialects import OPENAI
from ...schema.names import PLAIN_NAMES
from ..marks import SESSION_EVENTS
from ..openai_chat.facts import CHOICE, LIMITS
from ..openai_responses.facts import CALLS as RESPONSES_CALLS
from ..openai_responses.facts import FUNCTION, RESULT, hosted
from ..openai_responses.facts import RULES as RESPONSES_RULES
from ..tool_format import ToolFormat
from ..usage import UsageMap

__all__ = ["CALLS", "DONE", "FINISHES", "PASSED_ON", "REPEATING", "RESULT", "RULES", "TOOLS", "USAGE"]

CALLS = (replace(RESPONSES_CALLS[0], name="openai.realtime.function", namespace=None),)

TOOLS = (
    ToolFormat(
        name="openai.realtime",
        dialect=OPENAI,
        names=PLAIN_NAMES,
        # `types/realtime/realtime_function_tool.py` of openai 3.54.0: name, description and parameters, and no more
        function=replace(FUNCTION, name="openai.realtime.function", strict="never", output_at=None, hints={}),
        choice=CHOICE,
        hosted=hosted,
        limits=LIMITS,
    ),
)

# In which words a session refuses is not known.
RULES = replace(RESPONSES_RULES, namespaces=False, texts={}, unanswered_texts={})

USAGE = UsageMap({
    "input_tokens": ("input_tokens",),
    "output_tokens": ("output_tokens",),
    "cached_input_tokens": ("input_token_details.cached_tokens",),
    "audio_input_tokens": ("input_token_details.audio_tokens",),
    "audio_output_tokens": ("output_token_details.audio_tokens",),
})  # fmt: skip

# -- the stream's vocabulary --

DONE = "response.done"
"""The last event of every response, whatever became of it."""

FINISHES: dict[str, Finish] = {
    "completed": "stop",
    "max_output_tokens": "length",
    "content_filter": "content_filter",
    "turn_detected": "other",  # the user began to speak
    "client_cancelled": "other",
}
"""Statuses, and reasons of a response that was not completed."""

REPEATING = frozenset({"conversation.item.created", "conversation.item.added", "conversation.item.done"})
"""Events of the conversation that repeat an item; those of the response tell it."""

PASSED_ON = (SESSION_EVENTS - REPEATING) | {"response.output_audio.delta", "response.output_audio.done"}
"""Events of the session and its sound, which change no turn."""
