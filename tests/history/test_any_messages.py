"""Whatever stands where messages should: reading never raises, and what is repaired has no fault left."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every, examples
from wire_cases.names import (
    ANTHROPIC,
    BEDROCK,
    CHAT,
    COHERE,
    GEMINI,
    INTERACTIONS,
    MISTRAL,
    OLLAMA,
    REALTIME,
    RESPONSES,
)

from streamtools import history
from streamtools.errors import ExportError
from streamtools.wires import find

_CHAT_TYPES = ("function", "custom", "text", "refusal", "image_url", "thinking", "image", "document", "tool_result")
_CHAT_KEYS = ("role", "content", "tool_calls", "tool_call_id", "id", "type", "function", "name", "arguments", "custom",
              "input", "index", "reasoning_content", "reasoning_details", "thinking", "refusal", "audio", "text",
              "image_url", "function_call", "images", "tool_plan", "tool_name", "document", "data",
              "citations")  # fmt: skip
_ITEM_TYPES = ("message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "output_text",
               "web_search_call", "shell_call", "shell_call_output", "item_reference", "refusal", "input_image",
               "mcp_approval_request", "mcp_approval_response", "tool_search_call", "tool_search_output")  # fmt: skip
_ITEM_KEYS = ("type", "role", "id", "call_id", "name", "arguments", "input", "output", "content", "summary", "status",
              "text", "image_url", "refusal", "encrypted_content", "namespace", "caller", "approve",
              "approval_request_id")  # fmt: skip
TYPES: dict[str, tuple[str, ...]] = {
    ANTHROPIC: ("text", "tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "image",
                "web_search_tool_result", "document", "base64"),
    BEDROCK: ("server_tool_use", "png", "error"),
    GEMINI: ("PYTHON", "image/png"),
    RESPONSES: _ITEM_TYPES, REALTIME: _ITEM_TYPES,
    **dict.fromkeys((CHAT, MISTRAL, OLLAMA, COHERE), _CHAT_TYPES),
    INTERACTIONS: ("user_input", "model_output", "function_call", "function_result", "thought", "text", "image",
                   "mcp_server_tool_call", "mcp_server_tool_result", "code_execution_call", "document"),
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
    RESPONSES: _ITEM_KEYS, REALTIME: _ITEM_KEYS,
    **dict.fromkeys((CHAT, MISTRAL, OLLAMA, COHERE), _CHAT_KEYS),
    INTERACTIONS: ("type", "content", "text", "name", "arguments", "id", "call_id", "result", "is_error", "signature",
                   "summary", "data", "mime_type", "uri", "server_name", "error"),
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


@every("wire", TYPES)
def test_any_messages_are_read_and_repaired(wire: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=examples(40))
    @given(messages_of(wire))
    def law(messages: list[Any]) -> None:
        before = copy.deepcopy(messages)
        find(wire).read(messages)
        history.lint(messages, wire)
        try:
            after = history.repair(messages, wire, last=True)
        except ExportError:  # nothing in it is a message of this wire, but something is one of another
            assert messages == before
            return
        assert messages == before
        assert history.lint(after, wire, last=True) == []
        assert history.repair(after, wire, last=True) is after

    law()


@every(
    ("wire", "item"),
    [(REALTIME, {"type": "mcp_approval_request"}), (RESPONSES, {"type": "mcp_approval_request"}),
     (INTERACTIONS, {"type": "mcp_server_tool_call", "arguments": True})],
)  # fmt: skip
def test_what_was_repaired_is_not_repaired_again(wire: str, item: dict[str, Any]) -> None:
    after = history.repair([item], wire, last=True)
    assert history.lint(after, wire, last=True) == []
    assert history.repair(after, wire, last=True) is after
