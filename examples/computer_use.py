"""Works at a computer for the Responses API, and lets a person decide about a call of an MCP server.

The server here is a script: it asks for a screenshot, then whether it may order, and then answers. Put a real client in
its place, with `"tools": tools` in the request.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx

from streamtools import ApprovalRequested, Observation, agent_loop, tool
from streamtools.content import Media, RequestHints, ToolResult

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@tool(effect="once", hints=RequestHints(entry={"type": "computer"}))
async def computer_call(
    actions: list[dict[str, Any]], pending_safety_checks: list[dict[str, Any]] | None = None
) -> ToolResult:
    """Work at the computer."""
    print("computer:", ", ".join(action["type"] for action in actions))
    return ToolResult(blocks=(Media(kind="image", mime_type="image/png", data=PIXEL),))


async def main() -> None:
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://model") as client:

        async def ask(messages: list[Any], tools: list[Any]) -> httpx.Response:
            request = client.build_request("POST", "/v1/responses", json={"input": messages, "tools": tools})
            return await client.send(request, stream=True)

        prompt = {"role": "user", "content": "Order the blue kettle."}
        async with agent_loop(ask, [prompt], tools=[computer_call], wire="openai.responses") as run:
            async for event in run:
                if isinstance(event, ApprovalRequested):
                    print("may the shop run", event.arguments["name"], event.arguments["arguments"], "? yes")
                    run.approve(event)
                elif isinstance(event, Observation):
                    print(f"{event.tool_name}: {event.outcome}")
    print(run.outcome, "-", run.turn.text)


# -- the script --------------------------------------------------------------------------------------------------------

ITEMS: list[dict[str, Any]] = [
    {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "call_1",
        "actions": [{"type": "click"}, {"type": "screenshot"}],
    },
    {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "server_label": "shop",
        "name": "order",
        "arguments": '{"item":"blue kettle"}',
    },
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "It is ordered.", "annotations": []}],
    },
]
ANSWERS = [None, "computer_call_output", "mcp_approval_response"]


def answer(request: httpx.Request) -> httpx.Response:
    """Says the next item; the last item of the request has to be the answer to the one before."""
    said = json.loads(request.content)["input"]
    step = next(number for number in (2, 1, 0) if said[-1].get("type") == ANSWERS[number])
    item, response = ITEMS[step], {"id": f"resp_{step}", "status": "in_progress", "output": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**response, "status": "completed", "output": [item]}},
    ]
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=body)


if __name__ == "__main__":
    asyncio.run(main())
