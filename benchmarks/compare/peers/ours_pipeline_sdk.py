"""`streamtools.pipeline` around the stream object that the provider's SDK returns."""

from __future__ import annotations

from typing import Any

from streamtools import agent_loop

from ...bench_runs import note
from ...workloads import CHAT
from ..transport import MESSAGES, anthropic_client, openai_client
from ..work import Answer, Read, Run, save_report
from .ours_pipeline import consume

__all__ = ["loop", "reader"]


def loop(answers: list[list[bytes]]) -> Run:
    create = openai_client(*answers).chat.completions.create

    async def ask(messages: Any, tools: Any) -> Any:
        return await create(model="gpt-4o", messages=messages, tools=tools, stream=True)

    async def run() -> str:
        return (await agent_loop(ask, MESSAGES, tools=[note], wire=CHAT)).text

    return run


def reader(wire: str, chunks: list[bytes]) -> Read:
    tools = [save_report.to(wire)]
    if wire == CHAT:
        create = openai_client(chunks).chat.completions.create
        request: dict[str, Any] = {"model": "gpt-4o"}
    else:
        create = anthropic_client(chunks).messages.create
        request = {"model": "claude-sonnet-4-6", "max_tokens": 4096}

    async def read() -> Answer:
        return await consume(await create(**request, messages=MESSAGES, tools=tools, stream=True))

    return read
