"""The openai SDK: its chunks iterated, the pieces of each call joined by index, as its documentation shows."""

from __future__ import annotations

from ..transport import MESSAGES, openai_client
from ..work import Answer, Read, save_report, value

__all__ = ["reader"]


def reader(wire: str, chunks: list[bytes]) -> Read:
    client, tools = openai_client(chunks), [save_report.to(wire)]

    async def read() -> Answer:
        text: list[str] = []
        names: dict[int, str] = {}
        arguments: dict[int, list[str]] = {}
        stream = await client.chat.completions.create(model="gpt-4o", messages=MESSAGES, tools=tools, stream=True)
        async for chunk in stream:
            for choice in chunk.choices:
                if choice.delta.content:
                    text.append(choice.delta.content)
                for call in choice.delta.tool_calls or ():
                    if call.function.name:
                        names[call.index] = call.function.name
                    arguments.setdefault(call.index, []).append(call.function.arguments or "")
        return Answer("".join(text), [(names[at], value("".join(parts))) for at, parts in arguments.items()])

    return read
