"""What Mistral's API refuses, after its open validator (mistralai/mistral-common, ``validator.py``) and its types."""

from __future__ import annotations

import json
import re
from typing import Any

from streamtools import Turn

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID = re.compile(r"[a-zA-Z0-9]{9}")


def check_mistral(turn: Turn, messages: list[dict[str, Any]]) -> None:
    """An assistant's message with content or calls, and one result for each call, in call order."""
    message, results = messages[0], messages[1:]
    assert message.keys() <= {"role", "content", "tool_calls"}, "a field that is not documented is refused"
    assert message["role"] == "assistant"
    calls = message.get("tool_calls", [])
    assert message["content"] or calls, "Assistant message must have either content or tool_calls, but not none."
    if isinstance(message["content"], list):
        own = turn.wire == "mistral.chat"
        assert all(own or chunk["type"] == "text" for chunk in message["content"])
        for chunk in message["content"]:
            assert chunk["type"] != "text" or chunk["text"]
            assert chunk["type"] != "thinking" or isinstance(chunk["thinking"], list)
    else:
        assert isinstance(message["content"], str)
    ours = [call for call in turn.calls if call.kind != "server"]
    for call, result, said in zip(
        calls, results, ours, strict=True
    ):  # "Not the same number of function calls and responses"
        assert call.keys() == {"id", "type", "function"}
        assert call["type"] == "function"
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
        assert result == {
            "role": "tool",
            "tool_call_id": call["id"],
            "name": call["function"]["name"],
            "content": result["content"],
        }
        assert isinstance(result["content"], str)
        assert _NAME.fullmatch(result["name"])
        if turn.wire != "mistral.chat" or said.call_id_synthesized:  # its own ids are its own business
            assert _ID.fullmatch(call["id"]), "must be a-z, A-Z, 0-9, with a length of 9"
