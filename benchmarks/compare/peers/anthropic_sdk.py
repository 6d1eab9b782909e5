"""The anthropic SDK: its events iterated, the pieces of each block joined by index; and its accumulating helper,
`messages.stream`."""

from __future__ import annotations

from typing import Any

from ...workloads import save_report
from ..transport import MESSAGES, anthropic_client
from ..work import Answer, Read, value


def read_anthropic_raw(wire: str, chunks: list[bytes]) -> Read:
    client, request = anthropic_client(chunks), _request(wire)

    async def read() -> Answer:
        text: list[str] = []
        names: dict[int, str] = {}
        arguments: dict[int, list[str]] = {}
        async for event in await client.messages.create(**request, stream=True):
            if event.type == "content_block_delta":
                if event.delta.type == "text_delta":
                    text.append(event.delta.text)
                elif event.delta.type == "input_json_delta":
                    arguments[event.index].append(event.delta.partial_json)
            elif event.type == "content_block_start" and event.content_block.type == "tool_use":
                names[event.index] = event.content_block.name
                arguments[event.index] = []
        return Answer("".join(text), [(names[at], value("".join(parts))) for at, parts in arguments.items()])

    return read


def read_anthropic_stream(wire: str, chunks: list[bytes]) -> Read:
    client, request = anthropic_client(chunks), _request(wire)

    async def read() -> Answer:
        async with client.messages.stream(**request) as stream:
            async for _ in stream:
                pass
            message = await stream.get_final_message()
        text = "".join(block.text for block in message.content if block.type == "text")
        return Answer(text, [(block.name, block.input) for block in message.content if block.type == "tool_use"])

    return read


def _request(wire: str) -> dict[str, Any]:
    tools = [save_report.to(wire)]
    return {"model": "claude-sonnet-4-6", "max_tokens": 4096, "messages": MESSAGES, "tools": tools}
