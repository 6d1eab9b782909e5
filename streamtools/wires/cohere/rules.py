"""What Cohere's chat demands of a history, and in which words it refuses one."""

from __future__ import annotations

from ..rules import HistoryRules

__all__ = ["RULES"]

RULES = HistoryRules(
    call_path="tool_calls[{}]",
    call_ids_optional=True,  # v1 has none; v2's `read` says so itself where one is missing
    texts={
        # vercel/ai#5794
        "mixed_results": "text content is not allowed when tool_calls are provided",
        # langchain-ai/langchain-cohere#15
        "empty_message": "invalid request: all elements in history must have a message.",
    },
)
