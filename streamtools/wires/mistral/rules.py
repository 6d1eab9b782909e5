"""What Mistral's chat demands of a history, and in which words it refuses one."""

from __future__ import annotations

from ..rules import HistoryRules

__all__ = ["RULES"]

_COUNT = "Not the same number of function calls and responses"  # mistralai/client-ts#106, 567-labs/instructor#724
_AFTER_USER = "Unexpected role 'tool' after role 'user'"  # zed-industries/zed#37021

RULES = HistoryRules(
    call_path="tool_calls[{}]",
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
        # langchain-ai/langchain#24668
        "bad_id": "Tool call id was abc123 but must be a-z, A-Z, 0-9, with a length of 9.",
        # OpenHands/OpenHands#8685
        "empty_message": "Assistant message must have either content or tool_calls, but not none.",
        # NousResearch/hermes-agent#11722
        "duplicate_id": _COUNT,
    },
)
