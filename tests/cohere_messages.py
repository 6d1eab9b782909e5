"""What Cohere's API takes, after the types of cohere-ai/cohere-python and the errors that people met."""

from __future__ import annotations

import json
import re
from typing import Any

from streamtools import Turn

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_cohere(turn: Turn, messages: list[dict[str, Any]]) -> None:
    """v2's messages; v1's where the turn came over v1."""
    if messages[0]["role"] == "CHATBOT":
        assert turn.wire == "cohere.chat"
        _check_v1(turn, messages)
        return
    message, results = messages[0], messages[1:]
    assert message.keys() <= {"role", "content", "tool_plan", "tool_calls", "citations"}
    assert message["role"] == "assistant"
    content, calls = message.get("content", []), message.get("tool_calls", [])
    assert any(block["type"] == "text" for block in content) or calls
    for block in content:
        assert block.keys() == {"type", block["type"]}
        assert block["type"] in ("text", "thinking")
        assert block["type"] == "thinking" or block["text"].strip()
        assert not (calls and block["type"] == "text"), "text content is not allowed when tool_calls are provided"
    assert message.get("tool_plan") != ""
    assert calls or "tool_plan" not in message
    assert all(isinstance(citation, dict) for citation in message.get("citations", []))
    assert len(calls) == _count(turn)
    for call, result in zip(calls, results, strict=True):
        assert call.keys() >= {"id", "type", "function"}
        assert call["type"] == "function"
        assert _NAME.fullmatch(call["function"]["name"])
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
        assert result.keys() == {"role", "tool_call_id", "content"}
        assert (result["role"], result["tool_call_id"]) == ("tool", call["id"])
        assert isinstance(result["content"], str)


def _check_v1(turn: Turn, messages: list[dict[str, Any]]) -> None:
    message, *rest = messages
    assert message.keys() <= {"role", "message", "tool_calls"}
    calls = message.get("tool_calls", [])
    assert isinstance(message["message"], str)
    assert message["message"] or calls, "all elements in history must have a message"
    assert len(calls) == _count(turn)
    for call in calls:
        assert call.keys() == {"name", "parameters"}
        assert _NAME.fullmatch(call["name"])
        assert isinstance(call["parameters"], dict)
    if not calls:
        assert rest == []
        return
    [results] = rest
    assert results.keys() == {"role", "tool_results"}
    assert results["role"] == "TOOL"
    assert [result["call"] for result in results["tool_results"]] == calls
    for result in results["tool_results"]:
        assert all(isinstance(output, dict) for output in result["outputs"])


def _count(turn: Turn) -> int:
    return len([call for call in turn.calls if call.kind != "server"])
