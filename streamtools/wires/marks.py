"""The marks by which the library's wires are detected: a row each, so that only the wire that matched is loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

Payload: TypeAlias = Mapping[str, Any]

# -- OpenAI --


def is_chat_chunk(payload: Payload) -> bool:
    if payload.get("object") == "chat.completion.chunk":
        return True
    choices = payload.get("choices", payload)
    if choices is None or choices == []:
        return True
    if not isinstance(choices, list) or not isinstance(choices[0], Mapping):
        return False
    if "delta" in choices[0]:
        return True
    return "text" not in choices[0] and "message" not in choices[0]  # the legacy completions API; a whole answer


def is_chat_answer(answer: Payload) -> bool:
    choices = answer.get("choices")
    for one in choices if isinstance(choices, list) else ():
        if isinstance(one, dict) and "message" in one and _is_choice(one):
            return True
    return False


def _is_choice(choice: Payload) -> bool:
    """Returns whether a choice is whole. Perplexity's have an empty delta beside their message, and those of its
    streams a message beside each delta."""
    message, delta = choice.get("message"), choice.get("delta")
    if not isinstance(message, dict) or not isinstance(delta, dict):
        return isinstance(message, dict) and delta is None
    says = [any(value for key, value in found.items() if key != "role") for found in (message, delta)]
    return says == [True, False]


def is_response_event(payload: Payload) -> bool:
    return _is_of_a_response(payload) and not is_of_a_session(payload)


def _is_of_a_response(payload: Payload) -> bool:
    kind = payload.get("type")
    return isinstance(kind, str) and kind.startswith("response.")


def is_of_a_session(payload: Payload) -> bool:
    """Returns whether an event of a response comes from a Realtime session: its events have an id where those of the
    Responses stream have a number, and its responses have a type of their own."""
    if not _is_of_a_response(payload):
        return False
    response = payload.get("response")
    if isinstance(response, Mapping) and response.get("object") == "realtime.response":
        return True
    return isinstance(payload.get("event_id"), str) and "sequence_number" not in payload


def is_response_answer(answer: Payload) -> bool:
    return isinstance(answer.get("output"), list) and (answer.get("object") == "response" or "status" in answer)


SESSION_EVENTS = frozenset({  # events of a Realtime session that belong to no response
    "conversation.created", "conversation.item.added", "conversation.item.created", "conversation.item.deleted",
    "conversation.item.done", "conversation.item.input_audio_transcription.completed",
    "conversation.item.input_audio_transcription.delta", "conversation.item.input_audio_transcription.failed",
    "conversation.item.input_audio_transcription.segment", "conversation.item.retrieved",
    "conversation.item.truncated", "input_audio_buffer.cleared", "input_audio_buffer.committed",
    "input_audio_buffer.dtmf_event_received", "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
    "input_audio_buffer.timeout_triggered", "mcp_list_tools.completed", "mcp_list_tools.failed",
    "mcp_list_tools.in_progress", "output_audio_buffer.cleared", "output_audio_buffer.started",
    "output_audio_buffer.stopped", "rate_limits.updated", "session.created", "session.updated",
})  # fmt: skip


def is_session_event(payload: Payload) -> bool:
    kind = payload.get("type")
    return isinstance(kind, str) and (kind in SESSION_EVENTS or is_of_a_session(payload))


# -- Anthropic --

_MESSAGE_EVENTS = frozenset({"message_start", "message_delta", "message_stop"})  # a "ping" may be of any wire


def is_message_event(payload: Payload) -> bool:
    kind = payload.get("type")
    return isinstance(kind, str) and (kind in _MESSAGE_EVENTS or kind.startswith("content_block_"))


def is_message(answer: Payload) -> bool:
    return answer.get("type") == "message" and isinstance(answer.get("content"), list)


# -- Google --

GEMINI = frozenset({"candidates", "usageMetadata", "promptFeedback", "usage_metadata", "prompt_feedback"})
"""Fields of which each response of Gemini's has one, also as Protocol Buffers spell them."""

LIVE = frozenset({
    "setupComplete", "serverContent", "toolCall", "toolCallCancellation", "goAway", "sessionResumptionUpdate",
    "voiceActivityDetectionSignal", "voiceActivity",
})  # fmt: skip

_LIVE_SNAKES = frozenset(re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name) for name in LIVE)
_NOT_GEMINI = LIVE | _LIVE_SNAKES | {"choices", "type", "object"}
_NOT_LIVE = ("candidates", "choices", "type", "object")
_UNDERSCORE = re.compile(r"_([a-z])")


def is_gemini(payload: Payload) -> bool:
    if not _NOT_GEMINI.isdisjoint(payload):
        return False
    inner = payload.get("response")
    return not GEMINI.isdisjoint(payload) or (isinstance(inner, Mapping) and not GEMINI.isdisjoint(inner))


def is_gemini_answer(answer: Payload) -> bool:
    return isinstance(answer, dict) and is_gemini(answer)


def is_live(payload: Payload) -> bool:
    if any(name in payload for name in _NOT_LIVE):
        return False
    if isinstance(payload, dict):  # as `model_dump()` spells it
        payload = {camel(name): value for name, value in payload.items() if value is not None}
    return any(isinstance(payload.get(name), Mapping) for name in LIVE)


def camel(name: Any) -> Any:
    return _UNDERSCORE.sub(lambda match: match[1].upper(), name) if isinstance(name, str) else name


INTERACTIONS = frozenset({
    "interaction.created", "interaction.status_update", "interaction.completed", "step.start", "step.delta",
    "step.stop",
})  # fmt: skip

LEGACY_INTERACTIONS = frozenset({  # those of its schema before 2026-06-08
    "interaction.start", "interaction.complete", "content.start", "content.delta", "content.stop",
})  # fmt: skip


def is_interaction_event(payload: Payload) -> bool:
    kind = payload.get("event_type")
    return isinstance(kind, str) and (kind in INTERACTIONS or kind in LEGACY_INTERACTIONS)


def is_interaction(answer: Payload) -> bool:
    steps, status = answer.get("steps"), answer.get("status")
    return isinstance(steps, list) and isinstance(status, str) and "event_type" not in answer


# -- others --

# `models/conversationevents.py` of mistralai 3.7.0
CONVERSATION_EVENTS = frozenset({  # events of Mistral's API of conversations and agents, whose streams are not read
    "agent.handoff.done", "agent.handoff.started", "conversation.response.done", "conversation.response.error",
    "conversation.response.started", "function.call.delta", "message.output.delta", "tool.execution.delta",
    "tool.execution.done", "tool.execution.started",
})  # fmt: skip


def is_conversation_event(payload: Payload) -> bool:
    """Returns whether this is an event of Mistral's conversations, which the decoder refuses by their name. A chunk of
    Mistral's chat is one of Chat Completions, and nothing in it is certainly Mistral's."""
    kind = payload.get("type")
    return isinstance(kind, str) and kind in CONVERSATION_EVENTS and "choices" not in payload


_COHERE_EVENTS = frozenset({
    "message-start", "content-start", "content-delta", "content-end", "tool-plan-delta", "tool-call-start",
    "tool-call-delta", "tool-call-end", "citation-start", "citation-end", "message-end",
})  # fmt: skip
# Of v1's events, those that its other endpoint (generate) does not send.
_LEGACY_COHERE_EVENTS = frozenset({
    "stream-start", "search-queries-generation", "search-results", "citation-generation", "tool-calls-chunk",
    "tool-calls-generation",
})  # fmt: skip


def is_cohere_event(payload: Payload) -> bool:
    kind = payload.get("type")
    if isinstance(kind, str):
        return kind in _COHERE_EVENTS
    kind = payload.get("event_type")
    return isinstance(kind, str) and kind in _LEGACY_COHERE_EVENTS


def is_cohere_answer(answer: Payload) -> bool:
    return isinstance(answer.get("message"), dict) and "finish_reason" in answer


def is_ollama_line(payload: Payload) -> bool:
    if not isinstance(payload.get("done"), bool):
        return False
    return isinstance(payload.get("message"), Mapping) or isinstance(payload.get("response"), str)


def is_ollama_answer(answer: Payload) -> bool:
    return isinstance(answer, dict) and is_ollama_line(answer)


_CONVERSE_EVENTS = ("messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop")


def is_converse_event(payload: Payload) -> bool:
    return any(isinstance(payload.get(name), Mapping) for name in _CONVERSE_EVENTS)


def is_converse_answer(answer: Payload) -> bool:
    output = answer.get("output")
    return isinstance(output, dict) and "stopReason" in answer and isinstance(output.get("message"), dict)


# -- the rows --


class Marks(NamedTuple):
    """What is known of a wire before it is loaded."""

    package: str
    recognises: Callable[[Payload], bool]
    is_answer: Callable[[Payload], bool] | None = None  # none if it has none
    called: str = ""  # other words that people try for its name, with blanks between them: for suggestions alone


_SERVERS = "gpt azure groq deepseek xai grok openrouter together fireworks perplexity litellm vllm sglang lmstudio"

MARKS: Mapping[str, Marks] = {
    "openai.chat_completions": Marks("openai_chat", is_chat_chunk, is_chat_answer, f"completion {_SERVERS}"),
    "openai.responses": Marks("openai_responses", is_response_event, is_response_answer, "response"),
    "openai.realtime": Marks("openai_realtime", is_session_event),
    "anthropic.messages": Marks("anthropic", is_message_event, is_message, "claude message"),
    "gemini.generate_content": Marks("gemini", is_gemini, is_gemini_answer, "google genai vertex vertexai"),
    "gemini.interactions": Marks("gemini_interactions", is_interaction_event, is_interaction, "interaction"),
    "gemini.live": Marks("gemini_live", is_live),
    "mistral.chat": Marks("mistral", is_conversation_event, is_chat_answer, "mistralai"),
    "cohere.chat": Marks("cohere", is_cohere_event, is_cohere_answer, "command"),
    "ollama.chat": Marks("ollama", is_ollama_line, is_ollama_answer),
    "bedrock.converse_stream": Marks("bedrock", is_converse_event, is_converse_answer, "aws amazon nova converse"),
}  # in the order of detection
