"""The anthropic SDK's accumulating helper, `messages.stream`."""

from __future__ import annotations

from ..transport import MESSAGES, anthropic_client
from ..work import Answer, Read, save_report

__all__ = ["reader"]


def reader(wire: str, chunks: list[bytes]) -> Read:
    client, tools = anthropic_client(chunks), [save_report.to(wire)]
    request = {"model": "claude-sonnet-4-6", "max_tokens": 4096, "messages": MESSAGES, "tools": tools}

    async def read() -> Answer:
        async with client.messages.stream(**request) as stream:
            async for _ in stream:
                pass
            message = await stream.get_final_message()
        text = "".join(block.text for block in message.content if block.type == "text")
        return Answer(text, [(block.name, block.input) for block in message.content if block.type == "tool_use"])

    return read
