"""The anthropic SDK: its events iterated, the pieces of each block joined by index."""

from __future__ import annotations

from ..transport import MESSAGES, anthropic_client
from ..work import Answer, Read, save_report, value

__all__ = ["reader"]


def reader(wire: str, chunks: list[bytes]) -> Read:
    client, tools = anthropic_client(chunks), [save_report.to(wire)]

    async def read() -> Answer:
        text: list[str] = []
        names: dict[int, str] = {}
        arguments: dict[int, list[str]] = {}
        stream = await client.messages.create(
            model="claude-sonnet-4-6", max_tokens=4096, messages=MESSAGES, tools=tools, stream=True
        )
        async for event in stream:
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
