"""Whatever stands where messages should: reading never raises, and what is repaired has no fault left."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from every_wire import GEMINI, RESPONSES
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from sansio import ANTHROPIC

from streamtools import history
from streamtools.wires import find

BEDROCK = "bedrock.converse_stream"

TYPES: dict[str, tuple[str, ...]] = {
    ANTHROPIC: ("text", "tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "image",
                "web_search_tool_result", "document", "base64"),
    BEDROCK: ("server_tool_use", "png", "error"),
    GEMINI: ("PYTHON", "image/png"),
    RESPONSES: ("message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "output_text",
                "web_search_call", "shell_call", "shell_call_output", "item_reference", "refusal", "input_image"),
}  # fmt: skip
KEYS: dict[str, tuple[str, ...]] = {
    ANTHROPIC: ("type", "text", "id", "name", "input", "tool_use_id", "content", "is_error", "thinking", "signature",
                "caller", "tool_id", "source", "data"),
    BEDROCK: ("text", "toolUse", "toolUseId", "name", "input", "type", "toolResult", "content", "status",
              "reasoningContent", "reasoningText", "signature", "citationsContent", "citations", "image", "document",
              "source", "bytes", "json"),
    GEMINI: ("text", "thought", "thoughtSignature", "functionCall", "functionResponse", "id", "name", "args",
             "response", "output", "error", "executableCode", "codeExecutionResult", "toolCall", "inlineData",
             "mimeType", "data", "parts", "function_call", "$ref"),
    RESPONSES: ("type", "role", "id", "call_id", "name", "arguments", "input", "output", "content", "summary", "status",
                "text", "image_url", "refusal", "encrypted_content"),
}  # fmt: skip
ROLES = ("user", "assistant", "model", "system", "developer", "tool", "x")


def messages_of(wire: str) -> st.SearchStrategy[list[Any]]:
    """Lists of what looks like messages of a wire, and of what does not."""
    plain = st.sampled_from([None, True, 0, 1.5, "", " ", "a", "b", "{}", '{"a": 1}', "call_1", *TYPES[wire], *ROLES])
    values = st.recursive(
        plain,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS[wire]), inner, max_size=5),
        max_leaves=12,
    )
    blocks = st.lists(st.dictionaries(st.sampled_from(KEYS[wire]), values, max_size=4), max_size=4)
    field = "parts" if wire == GEMINI else "content"
    content = st.fixed_dictionaries({"role": st.sampled_from(ROLES[:3]), field: blocks | values})
    items = st.dictionaries(st.sampled_from(KEYS[wire]), values, max_size=6)
    return st.lists(content | items | plain, max_size=5)


@pytest.mark.parametrize("wire", TYPES)
def test_any_messages_are_read_and_repaired(wire: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=examples(80))
    @given(messages_of(wire))
    def law(messages: list[Any]) -> None:
        before = copy.deepcopy(messages)
        find(wire).read(messages)
        history.lint(messages, wire)
        after = history.repair(messages, wire, last=True)
        assert messages == before
        assert history.lint(after, wire, last=True) == []
        assert history.repair(after, wire, last=True) is after

    law()
