"""What the Responses API demands of its input, and in which words it refuses."""

from __future__ import annotations

from ..rules import HistoryRules

__all__ = ["NO_REASONING", "RULES", "TEXTS"]

TEXTS: dict[str, str] = {
    # bytedance/trae-agent#245
    "unanswered_call": "No tool output found for function call call_1.",
    # continuedev/continue#10092
    "orphan_result": "No tool call found for function call output with call_id call_1.",
    # openai/codex#14355
    "bad_id": "Invalid 'input[4].call_id': string too long. Expected a string with maximum length 64, but got a string "
    "with length 1324 instead.",
    # vercel/ai#7883
    "duplicate_id": "Duplicate item found with id rs_1. Remove duplicate items from your input and try again.",
    # continuedev/continue#8933
    "reasoning_apart": "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    # AAswordman/Operit#797
    "missing_field": "Missing required parameter: 'input[7].summary'.",
}
# 0xPlaygrounds/rig#751, of a message in continuedev/continue#11994
NO_REASONING = "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'."

RULES = HistoryRules(list_name="input", texts=TEXTS)
