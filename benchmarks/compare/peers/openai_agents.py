"""openai-agents: its model's `stream_response`, without the agent loop around it, to the completed response."""

from __future__ import annotations

from typing import Any

from agents import FunctionTool, ModelSettings, OpenAIChatCompletionsModel
from agents.models.interface import ModelTracing

from ..transport import openai_client
from ..work import Answer, Read, save_report, value

__all__ = ["reader"]


def reader(wire: str, chunks: list[bytes]) -> Read:
    model = OpenAIChatCompletionsModel(model="gpt-4o", openai_client=openai_client(chunks))
    function = save_report.to(wire)["function"]
    declared = FunctionTool(
        name=function["name"],
        description=function["description"],
        params_json_schema=function["parameters"],
        on_invoke_tool=_never,
        strict_json_schema=False,
    )

    async def read() -> Answer:
        response: Any = None
        stream = model.stream_response(None, "hello", ModelSettings(), [declared], None, [], ModelTracing.DISABLED)
        async for event in stream:
            if event.type == "response.completed":
                response = event.response
        calls = [(item.name, value(item.arguments)) for item in response.output if item.type == "function_call"]
        messages = [item for item in response.output if item.type == "message"]
        return Answer("".join(part.text for message in messages for part in message.content), calls)

    return read


async def _never(context: Any, arguments: str) -> str:
    raise AssertionError("nothing runs the tool here")
