"""What holds for every list of items for the Responses API, checked with the SDK's own types."""

from __future__ import annotations

import json
import re
from typing import Any

from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from streamtools import Turn

__all__ = ["RESPONSES", "check_items", "check_responses"]

RESPONSES = "openai.responses"

_ITEMS: TypeAdapter[Any] = TypeAdapter(list[ResponseInputItemParam])
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call")
_ANYTHING_MISSING = {"message": {"id": "msg_1"}, "reasoning": {"id": "rs_1"}, "local_shell_call_output": {"id": "x"}}


def check_responses(turn: Turn, items: list[dict[str, Any]]) -> None:
    """Each call of ours has one output, in call order, after all that the model said; and no item is refused."""
    ours = [call for call in turn.calls if call.kind != "server"]
    said, outputs = items[: len(items) - len(ours)], items[len(items) - len(ours) :]
    served = {call.call_id for call in turn.calls if call.kind == "server"}
    asked = [item for item in said if item["type"] in _CALLS and item["call_id"] not in served]
    by_id = {item["call_id"]: item for item in asked}
    assert len(by_id) == len(asked) == len(ours)
    assert len({output["call_id"] for output in outputs}) == len(outputs)
    for output in outputs:
        assert output["type"] == f"{by_id[output['call_id']]['type']}_output"
    for item in asked:
        if item["type"] == "function_call":
            assert isinstance(json.loads(item["arguments"]), dict)
        assert "name" not in item or _NAME.fullmatch(item["name"])
    if turn.wire == RESPONSES:
        if turn.finish not in ("stop", "tool_calls"):
            assert not said or said[-1]["type"] != "reasoning", "refused without the item that follows it"
        check_items(outputs)  # the rest is the server's own, whatever that was
    else:
        assert [item["call_id"] for item in asked] == [output["call_id"] for output in outputs]
        assert all(len(call_id) <= 64 for call_id in by_id)
        check_items(items)


def check_items(items: list[dict[str, Any]]) -> None:
    """The SDK's types take them. What the API does not ask for, though they do, is put in: Codex sends no ids."""
    _ITEMS.validate_python([_ANYTHING_MISSING.get(item["type"], {}) | item for item in items])
