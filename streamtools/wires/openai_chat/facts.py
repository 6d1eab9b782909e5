"""Chat Completions' facts: how it writes calls, results and tools, what it demands of a history, what it counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Literal

from ...parts import Finish
from ...schema.bounds import SchemaBound
from ...schema.dialects import OPENAI, OPENAI_STRICT
from ...schema.names import PLAIN_NAMES
from ..formats import CallFormat, EntryFormat, RequestLimits, ResultFormat, StrictForm, StructuredOutput, ToolFormat
from ..history_rules import HistoryRules, claude_since
from ..reading import ERROR, Derived, KnownFields, UsageMap

# The provider's word → ours. Beyond OpenAI's own: TGI (eos…), Cohere and Gemini facades, Mistral.
FINISHES: dict[str, Finish] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence", "end_turn", "COMPLETE", "STOP"), "stop"),
    **dict.fromkeys(("tool_calls", "function_call", "tool_use"), "tool_calls"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "MAX_TOKENS"), "length"),
    "content_filter": "content_filter",
    "error": "error",
}
# A later finish reason replaces an earlier one only if it is bad news.
BAD_NEWS = frozenset({"length", "content_filter", "error"})
# `native_finish_reason` (OpenRouter) of a response that was cut although `finish_reason` says otherwise.
NATIVE_CUT = frozenset({"length", "max_tokens", "max_output_tokens", "MAX_TOKENS"})

NOISE: dict[str, str] = {
    "created": "the time of the request, which the client knows",
    "id": "the response's id, which the start has; some servers make a new one for every chunk",
    "model": "the model's name, which the start has",
    "obfuscation": "padding, which hides the lengths of the texts",
    "object": "the payload's kind",
    "p": "Mistral's padding",
    "service_tier": "the queue that served the request, as the request chose it",
    "system_fingerprint": "the build of the servers, for a provider to compare",
}  # fields of a chunk that say nothing about the response that is not known, each with the reason

REPEATED: dict[str, str] = {
    "citations": "Perplexity: all so far, in every chunk",
    "content_filter_results": "Azure: the verdict so far, in every chunk",
    "prompt_filter_results": "Azure: the verdict on the prompt",
    "provider": "OpenRouter: the upstream that answers",
    "search_results": "Perplexity: all so far, in every chunk",
}
"""Fields of a chunk or a choice that repeat what stands: they are emitted when they change. Any other may add something
each time, even if its value is the same, and is emitted every time."""

CITED = ("annotations", "citations", "search_results")
"""Lists of sources: OpenAI's beside the text; Perplexity's and xAI's beside the choices. No request takes them back."""

MADE = ("images",)
"""Lists of files: OpenRouter's beside the text, whose requests take them back (``ChatAssistantMessage`` of its SDK)."""

EXTRAS: dict[str, tuple[Literal["text", "entries", "opaque"], Literal["message", "anywhere"], str]] = {
    "reasoning_content": ("text", "message", "DeepSeek wants an empty one back, too: llm-rosetta#356"),
    "reasoning": ("text", "message", "vLLM, Ollama, OpenRouter, Groq"),
    "reasoning_text": ("text", "message", "GitHub Copilot: anomalyco/opencode#8900"),
    "reasoning_details": ("entries", "message", "OpenRouter: https://openrouter.ai/docs/use-cases/reasoning-tokens"),
    "thinking_blocks": ("entries", "message", "LiteLLM, with Claude's signatures: BerriAI/litellm#29428"),
    "content": ("entries", "message", "Databricks, reasoning with Claude's signatures: BerriAI/litellm#9700"),
    "reasoning_opaque": ("opaque", "message", "GitHub Copilot: anomalyco/opencode#8900"),
    "provider_specific_fields": ("opaque", "anywhere", "LiteLLM, with Gemini's signatures: BerriAI/litellm#16893"),
    "extra_content": ("opaque", "anywhere", "Gemini's facade: ai.google.dev/gemini-api/docs/thought-signatures"),
    "thought_signature": ("opaque", "anywhere", "gateways to Gemini"),
    "thoughtSignature": ("opaque", "anywhere", "Databricks' gateway to Gemini"),
}
"""Fields that later requests have to have as they came, where they came: their form, their place, and whose they are. A
``text`` is reasoning, in pieces; so are the texts of ``entries``, whose rest is kept as it is, like all that is
``opaque``. What may stand ``anywhere`` stands in a message (a delta), a call, or its function."""

REASONING_FIELDS = tuple(name for name, (form, *_) in EXTRAS.items() if form == "text")
REASONING = frozenset(REASONING_FIELDS)
ENTRIES = frozenset(name for name, (form, *_) in EXTRAS.items() if form == "entries")
OF_CALLS = frozenset(name for name, (_, place, _) in EXTRAS.items() if place == "anywhere")
OF_MESSAGES = {name: form for name, (form, *_) in EXTRAS.items() if form != "text" and name != "content"}.keys()

IN_FUNCTION, IN_MESSAGE = "function.", "message."
"""Prefixes of names in a call's state: of a field of its function, and of its whole message."""

FUNCTION_CALL = CallFormat(
    name="openai.chat_completions.function",
    type="function",
    type_optional=True,
    inside="function",
    id="id",
    as_text=True,
)  # the form that most other providers took over

CUSTOM_CALL = CallFormat(
    name="openai.chat_completions.custom", type="custom", inside="custom", id="id", arguments="input", raw=True
)

CALLS = (FUNCTION_CALL, CUSTOM_CALL)

RESULT = ResultFormat(
    recognises=lambda result: result.get("role") == "tool" and "tool_call_id" in result,
    call_id_key="tool_call_id",
    is_message=True,
)

FUNCTION_TOOL = EntryFormat(
    name="openai.chat_completions.function",
    type="function",
    type_optional=True,
    inside="function",
    schema_at=("parameters",),
    strict="where_strict",
)

# https://platform.openai.com/docs/guides/function-calling#custom-tools
CUSTOM_TOOL = EntryFormat(
    name="openai.chat_completions.custom", type="custom", inside="custom", freeform=True, grammar_at="grammar"
)

STRICT = StrictForm(
    dialect=OPENAI_STRICT,
    location="`strict` of the function",
    # https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    bounds=(
        SchemaBound(count="properties", most=5000, what="properties"),
        SchemaBound(count="depth", most=10, what="levels of nesting"),
        SchemaBound(count="enum_values", most=1000, what="enum values"),
        SchemaBound(count="long_enum", most=15_000, what="characters in one enum of more than 250 values"),
        SchemaBound(count="characters", most=120_000, what="characters of names and enum values"),
    ),
)


def response_format(name: str, schema: dict[str, Any], strict: bool) -> dict[str, Any]:
    asked = {"name": name, "strict": strict, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": asked}}


STRUCTURED = StructuredOutput(
    request=response_format, strict=replace(STRICT, location="`response_format`"), loose=OPENAI
)

LIMITS = RequestLimits(tools=128)  # https://platform.openai.com/docs/api-reference/chat/create

CHOICE = {"tool_choice": "auto"}

TOOLS = (
    ToolFormat(
        name="openai.chat_completions",
        dialect=OPENAI,
        strict=STRICT,
        names=PLAIN_NAMES,
        function=FUNCTION_TOOL,
        freeform=CUSTOM_TOOL,
        choice=CHOICE,
        limits=LIMITS,
    ),
)

# Of calls: openai/openai-node#1341, home-assistant/core#118577; of content: n8n-io/n8n#38526
EMPTY_ARRAY = "empty array. Expected an array with minimum length 1, but got an empty array instead."

RULES = HistoryRules(
    call_path="tool_calls[{}]",
    answers_no_answer=claude_since(4, 6),  # of a relay: anomalyco/opencode#13768
    texts={
        # aliasrobotics/cai#111, agno-agi/agno#3105
        "unanswered_call": "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: call_jJATmoUduQWxi4tR",
        # dimagi/open-chat-studio#1659, miurla/morphic#136
        "orphan_result": "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
        "'tool_calls'.",
        # anomalyco/opencode#1211, agno-agi/agno#5116
        "duplicate_result": "Invalid parameter: Duplicate value for 'tool_call_id' of 'tool_0_glob', in messages[8] "
        "and messages[9].",
        # A tool's message behind a user's is none behind calls: the same words as for calls without one.
        "content_before_results": "An assistant message with 'tool_calls' must be followed by tool messages responding "
        "to each 'tool_call_id'.",
        # pydantic/pydantic-ai#4389
        "bad_id": "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, "
        "but got a string with length 46 instead.",
        # anomalyco/opencode#14772
        "last_not_user": "This model does not support assistant message prefill. The conversation must end with a user "
        "message.",
        # mcp-use/mcp-use#90
        "bad_name": "Invalid 'messages[9].tool_calls[0].function.name': string does not match pattern. Expected a "
        "string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        # run-llama/llama_index#17555, docker/docker-agent#63
        "empty_message": "Invalid value for 'content': expected a string, got null.",
        # Servers read the text as JSON, and say how that went (router-for-me/CLIProxyAPI#2001, agno-agi/agno#8343).
        "arguments_not_object": "Expecting ',' delimiter",
        # OpenHands/OpenHands#7700
        "mixed_results": "Invalid 'messages[234]'. Image URLs are only allowed for messages with role 'user', but this "
        "message with role 'tool' contains an image URL.",
    },
)


INVOCATION = "amazon-bedrock-invocationMetrics"
"""The field that Bedrock puts beside the last payload of InvokeModel: the only counts of some models."""


def _output(counts: Sequence[int | None]) -> int | None:
    """Returns the output with its reasoning, which xAI counts apart. Only the total shows that (vercel/ai#12425)."""
    output, prompt, total, reasoning, invoked = counts
    is_apart = None not in counts[:4] and total == sum(filter(None, (output, prompt, reasoning)))
    return sum(filter(None, (output, reasoning))) if is_apart else invoked if output is None else output


_OUTPUT = ("completion_tokens", "prompt_tokens", "total_tokens", "completion_tokens_details.reasoning_tokens")

USAGE = UsageMap({
    "input_tokens": ("prompt_tokens", "inputTokenCount"),
    "output_tokens": Derived((*_OUTPUT, "outputTokenCount"), _output),
    # DeepSeek (https://api-docs.deepseek.com/guides/kv_cache), Moonshot, LiteLLM; DashScope, LiteLLM
    "cached_input_tokens": (
        *("prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens"),
    ),
    "cache_write_input_tokens": (
        *("prompt_tokens_details.cache_write_tokens", "prompt_tokens_details.cache_creation_input_tokens"),
        "cache_creation_input_tokens",
    ),
    "audio_input_tokens": ("prompt_tokens_details.audio_tokens",),
    "reasoning_tokens": ("completion_tokens_details.reasoning_tokens", "reasoning_tokens"),  # the second: SGLang
    "audio_output_tokens": ("completion_tokens_details.audio_tokens",),
    # OpenAI's own models; servers of others mostly count unasked.
    # https://platform.openai.com/docs/api-reference/chat/create (stream_options)
}, request='stream_options={"include_usage": True}', on_request=re.compile(r"(?:gpt-|chatgpt-|o\d)").match)  # fmt: skip


# -- fields that are known --

KNOWN = frozenset({"choices", "error", "usage", "x_groq", INVOCATION, *NOISE})

ENVELOPE = frozenset({"choices", "id", "object", "model", "usage", "x_groq", INVOCATION})
"""Fields that a chunk without choices may have; one with none of them says something that nobody knows."""

ERROR_CHUNK = KnownFields("code", "message", "type", "usage", *NOISE, error=ERROR)

PING = KnownFields("type")

READ = frozenset({*REASONING_FIELDS, "content", "function_call", "refusal", "role", "tool_calls"})

UNDERSTOOD = READ | OF_MESSAGES

REPEATING_DELTA = frozenset({"message", "text"})
"""Fields of a choice that have the delta's words again: Perplexity's, Together's."""

KNOWN_OF_CHOICE = REPEATING_DELTA | {"delta", "error", "finish_reason", "index", "native_finish_reason", "usage"}

KNOWN_OF_GROQ = frozenset({"error", "id", "usage"})  # the id is the request's

CALL = KnownFields(
    *OF_CALLS, "id", "index", "type",
    custom=KnownFields(*OF_CALLS, "input", "name"),
    function=KnownFields(*OF_CALLS, "arguments", "name", "parsed_arguments"),  # the last is the SDK's reading
)  # fmt: skip

LEGACY_CALL = KnownFields("arguments", "name")

TEXT_BLOCK = KnownFields("text", "type")


class Repeats:
    def __init__(self) -> None:
        self._last: dict[tuple[str, str], Any] = {}

    def known(self, found: Mapping[str, Any], known: AbstractSet[str], place: str) -> AbstractSet[str]:
        if found.keys() <= known:
            return known
        return known | {key for key in REPEATED.keys() & found.keys() if not self._is_news(place, key, found[key])}

    def _is_news(self, place: str, key: str, value: object) -> bool:
        before = self._last.get((place, key))
        self._last[place, key] = value
        return value != before
