"""Mistral's facts: how it writes calls, results and tools, what it demands of a history, what it counts."""

from __future__ import annotations

from dataclasses import replace

from ...schema.dialects import PLAIN
from ...schema.names import PLAIN_NAMES
from ..formats import ToolFormat
from ..history_rules import HistoryRules
from ..openai_chat.facts import CHOICE, FUNCTION_CALL, FUNCTION_TOOL, STRICT
from ..openai_chat.facts import RESULT as RESULT
from ..openai_chat.facts import STRUCTURED as CHAT_STRUCTURED
from ..openai_chat.facts import USAGE as CHAT_USAGE
from ..reading import UsageMap

CALLS = (FUNCTION_CALL,)

TOOLS = (
    ToolFormat(
        name="mistral.chat", dialect=PLAIN, strict=STRICT, names=PLAIN_NAMES, function=FUNCTION_TOOL, choice=CHOICE
    ),
)

# The same field as chat completions': https://docs.mistral.ai/capabilities/structured-output/custom_structured_output/
STRUCTURED = replace(CHAT_STRUCTURED, loose=PLAIN)

_COUNT = "Not the same number of function calls and responses"  # mistralai/client-ts#106, 567-labs/instructor#724
_AFTER_USER = "Unexpected role 'tool' after role 'user'"  # zed-industries/zed#37021

RULES = HistoryRules(
    call_path="tool_calls[{}]",
    answers_no_answer=lambda model: True,
    answer_before_user=True,
    system_stands="not_behind_answer",
    system_text="Unexpected role 'system' after role 'assistant'",  # swarmauri/swarmauri-sdk#276
    texts={
        "unanswered_call": _COUNT,
        "orphan_result": _COUNT,
        "duplicate_result": _COUNT,
        "content_before_results": _AFTER_USER,
        # BerriAI/litellm#6323, datapizza-labs/datapizza-ai#98
        "role_order": "Unexpected role 'user' after role 'tool'",
        # huggingface/smolagents#757
        "last_not_user": "Expected last role User or Tool (or Assistant with prefix True) for serving but got "
        "assistant",
        # langchain-ai/langchain#24668
        "bad_id": "Tool call id was abc123 but must be a-z, A-Z, 0-9, with a length of 9.",
        # OpenHands/OpenHands#8685
        "empty_message": "Assistant message must have either content or tool_calls, but not none.",
        # NousResearch/hermes-agent#11722
        "duplicate_id": _COUNT,
    },
)

USAGE = UsageMap({
    **CHAT_USAGE.counts,
    "cached_input_tokens": ("prompt_tokens_details.cached_tokens", "num_cached_tokens"),  # the second is the older
})  # fmt: skip

CONVERSATION = (
    "these are events of Mistral's conversations API, which is not supported; stream chat completions instead "
    "(client.chat.stream)"
)
