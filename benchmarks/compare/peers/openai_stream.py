"""The openai SDK's accumulating helper, `chat.completions.stream`."""

from __future__ import annotations

from ..transport import MESSAGES, openai_client
from ..work import Answer, Read, save_report, value

__all__ = ["reader"]


def reader(wire: str, chunks: list[bytes]) -> Read:
    client, tools = openai_client(chunks), [save_report.to(wire)]

    async def read() -> Answer:
        async with client.chat.completions.stream(model="gpt-4o", messages=MESSAGES, tools=tools) as stream:
            async for _ in stream:
                pass
            completion = await stream.get_final_completion()
        message = completion.choices[0].message
        calls = [(call.function.name, value(call.function.arguments)) for call in message.tool_calls or ()]
        return Answer(message.content or "", calls)

    return read
