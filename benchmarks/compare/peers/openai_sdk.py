"""The openai SDK: its chunks iterated, the pieces of each call joined by index, as its documentation shows; and its
accumulating helper, `chat.completions.stream`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from ...workloads import CHAT, note, save_report
from ..transport import MESSAGES, openai_client
from ..work import Answer, Read, Run, value


def run_openai_raw(answers: list[list[bytes]]) -> Run:
    return loop_of(openai_client(*answers).chat.completions.create, model="gpt-4o")


def loop_of(create: Callable[..., Awaitable[Any]], **given: Any) -> Run:
    """The loop of the SDK's guide to function calling, its calls side by side."""
    given |= {"tools": [note.to(CHAT)], "stream": True}

    async def run() -> str:
        messages = list(MESSAGES)
        while True:
            said, calls = list[str](), list[dict[str, Any]]()
            async for chunk in await create(messages=messages, **given):
                delta = chunk.choices[0].delta if chunk.choices else None
                if delta is None:
                    continue
                said.append(delta.content or "")
                for piece in delta.tool_calls or ():
                    if piece.id:
                        calls.append({"id": piece.id, "type": "function", "function": {"name": piece.function.name}})
                    function = calls[piece.index]["function"]
                    function["arguments"] = function.get("arguments", "") + (piece.function.arguments or "")
            if not calls:
                return "".join(said)
            results = await asyncio.gather(*(note.fn(**json.loads(one["function"]["arguments"])) for one in calls))
            messages.append({"role": "assistant", "content": "".join(said), "tool_calls": calls})
            pairs = zip(calls, results, strict=True)
            messages += [{"role": "tool", "tool_call_id": one["id"], "content": result} for one, result in pairs]

    return run


def read_openai_raw(wire: str, chunks: list[bytes]) -> Read:
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


def read_openai_stream(wire: str, chunks: list[bytes]) -> Read:
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
