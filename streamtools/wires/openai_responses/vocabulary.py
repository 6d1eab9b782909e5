"""What the events of the stream are called, and what each of them says."""

from __future__ import annotations

from ...parts import CallKind, Finish

__all__ = [
    "ARGUMENTS",
    "FINISHES",
    "QUIET",
    "STATUSES",
    "TERMINALS",
    "TEXTS",
    "TEXT_DELTAS",
    "TEXT_DONES",
    "TOLD_LATER",
]

TERMINALS: dict[str, str] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
    "response.done": "completed",
}
"""The last event, and the status that it stands for where the response has none."""

STATUSES = frozenset(TERMINALS.values())

FINISHES: dict[str, Finish] = {
    "completed": "stop",
    "cancelled": "other",
    "max_output_tokens": "length",
    "max_tokens": "length",  # compatible servers
    "content_filter": "content_filter",
}
"""Statuses, and reasons of an incomplete response."""

TEXTS: dict[str, tuple[str, ...]] = {"message": ("text", "refusal"), "reasoning": ("summary", "content")}
"""Items that are told as text, and the texts that they have, the likeliest first."""

TEXT_DELTAS: dict[str, tuple[str, str, str]] = {
    "response.output_text.delta": ("message", "text", "content_index"),
    "response.refusal.delta": ("message", "refusal", "content_index"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary", "summary_index"),
    "response.reasoning_text.delta": ("reasoning", "content", "content_index"),
}
"""Deltas of text: the type of their item, which of its texts they are, and what numbers the paragraphs."""

TEXT_DONES: dict[str, tuple[str, str, str]] = {
    "response.output_text.done": ("message", "text", "text"),
    "response.refusal.done": ("message", "refusal", "refusal"),
    "response.reasoning_summary_text.done": ("reasoning", "summary", "text"),
    "response.reasoning_text.done": ("reasoning", "content", "text"),
}
"""The ends of these texts, and the field that has one whole."""

ARGUMENTS: dict[str, tuple[str, CallKind]] = {
    "response.function_call_arguments": ("function_call", "function"),
    "response.custom_tool_call_input": ("custom_tool_call", "custom"),
    "response.mcp_call_arguments": ("mcp_call", "server"),
}
"""What the events about a call's arguments begin with: the type of its item, and its kind."""

QUIET = frozenset({
    "codex.keepalive", "codex.rate_limits", "keepalive", "ping", "response.compaction.compacting",
    "response.keep_alive", "response.rate_limits.updated",
})  # fmt: skip
"""Events that say nothing about the response."""

TOLD_LATER = frozenset({
    "apply_patch_call_operation_diff", "code_interpreter_call", "code_interpreter_call_code", "content_part",
    "file_search_call", "image_generation_call", "mcp_call", "mcp_list_tools", "output_text", "reasoning_part",
    "reasoning_summary_part", "shell_call_command", "shell_call_output_content", "web_search_call",
})  # fmt: skip
"""Topics of events whose content their item repeats at its end."""
