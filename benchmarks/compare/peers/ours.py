"""streamtools: `parse`, the sans-IO chain in one call, arguments validated, nothing run; `pipeline` around an async
iterator of bytes, the calls validated and run; and `pipeline` around the stream object of the provider's SDK."""

from __future__ import annotations

from typing import Any

from streamtools import Turn, agent_loop, parse

from ...bench_runs import by_us
from ...workloads import CHAT, consume, note, save_report, source
from ..transport import MESSAGES, anthropic_client, openai_client, plain_client
from ..work import Answer, Read, Run


def read_ours_parse(wire: str, chunks: list[bytes]) -> Read:
    async def read() -> Answer:
        return _answer(parse(chunks, tools=[save_report]))

    return read


def run_ours_pipeline(answers: list[list[bytes]]) -> Run:
    client = plain_client(answers)
    return lambda: by_us(client, note)


def read_ours_pipeline(wire: str, chunks: list[bytes]) -> Read:
    async def read() -> Answer:
        return _answer(await consume(source(chunks), tools=[save_report]))

    return read


def run_ours_pipeline_sdk(answers: list[list[bytes]]) -> Run:
    create = openai_client(*answers).chat.completions.create

    async def ask(messages: Any, tools: Any) -> Any:
        return await create(model="gpt-4o", messages=messages, tools=tools, stream=True)

    async def run() -> str:
        return (await agent_loop(ask, MESSAGES, tools=[note], wire=CHAT)).text

    return run


def read_ours_pipeline_sdk(wire: str, chunks: list[bytes]) -> Read:
    tools = [save_report.to(wire)]
    if wire == CHAT:
        create = openai_client(chunks).chat.completions.create
        request: dict[str, Any] = {"model": "gpt-4o"}
    else:
        create = anthropic_client(chunks).messages.create
        request = {"model": "claude-sonnet-4-6", "max_tokens": 4096}

    async def read() -> Answer:
        stream = await create(**request, messages=MESSAGES, tools=tools, stream=True)
        return _answer(await consume(stream, tools=[save_report]))

    return read


def _answer(turn: Turn) -> Answer:
    return Answer(turn.text, [(call.name, call.arguments) for call in turn.calls])
