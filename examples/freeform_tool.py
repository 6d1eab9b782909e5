"""Uses a freeform tool written for OpenAI's Responses API with a provider that has only functions, there and back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from streamtools import Observation, pipeline, tool
from streamtools.interop import ToolDescriptor, build_request_context, from_turn, initialize_request, to_native_messages

CHAT = "openai.chat_completions"
FUNCTIONS = ["openai.chat_completions.function"]
SOURCE = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Apply a textual patch to files in the workspace.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}


@tool(kind="custom")
def apply_patch(text: str) -> str:
    """Apply a textual patch to files in the workspace."""
    return f"applied {len(text.splitlines())} lines"


def provider(payload: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Stands in for the model: calls the tool once, then reads the result."""
    *_, last = payload["messages"]
    if last["role"] == "tool":
        yield {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": last["content"]}}]}
    else:
        print("offered:", json.dumps(payload["tools"]))
        function = {"name": "apply_patch", "arguments": json.dumps({"input": "*** Begin Patch\n*** End Patch"})}
        delta = {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
        yield {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}
    yield {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


async def main() -> None:
    descriptor = ToolDescriptor("patches", "apply_patch", SOURCE)
    context = build_request_context(descriptors=[descriptor], schema_target_formats=FUNCTIONS)
    registry = context["tool_interop"]["registry"]
    stored: list[dict[str, Any]] = [{"role": "user", "content": "apply the patch"}]
    while stored[-1]["role"] != "assistant":
        native = to_native_messages(stored, CHAT, registry=registry, target_formats=FUNCTIONS)
        state: dict[str, Any] = {"_tools": [SOURCE], "request": {"payload": {"model": "any"}}}
        _, state = initialize_request(native, state, context=context, target=CHAT, messages=True)
        async with pipeline(provider(state["request"]["payload"]), tools=[apply_patch]) as events:
            outcomes = [event.outcome async for event in events if isinstance(event, Observation)]
        print("called:", outcomes)
        stored += from_turn(events.turn, registry=registry)
    print(json.dumps(stored, indent=1))


if __name__ == "__main__":
    asyncio.run(main())
