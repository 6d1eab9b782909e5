"""pydantic-ai: a request straight to the model, without an agent around it, to its final response."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent, Tool
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from ...workloads import CHAT, note, save_report
from ..transport import anthropic_client, openai_client
from ..work import Answer, Read, Run


def run_pydantic_ai(answers: list[list[bytes]]) -> Run:
    agent = Agent(_model(CHAT, *answers), tools=[Tool(note.fn, name=note.name)])

    async def run() -> str:
        text = ""
        async with agent.run_stream_events("hello") as events:
            async for event in events:
                if event.event_kind == "agent_run_result":
                    text = event.result.output
        return text

    return run


def read_pydantic_ai(wire: str, chunks: list[bytes]) -> Read:
    model = _model(wire, chunks)
    schema = save_report.to("anthropic.messages")["input_schema"]
    definition = ToolDefinition(
        name=save_report.name, description=save_report.description, parameters_json_schema=schema
    )
    parameters = ModelRequestParameters(function_tools=[definition])
    messages = [ModelRequest.user_text_prompt("hello")]

    async def read() -> Answer:
        async with model_request_stream(model, messages, model_request_parameters=parameters) as stream:
            async for _ in stream:
                pass
            parts = stream.get().parts
        text = "".join(part.content for part in parts if part.part_kind == "text")
        return Answer(text, [(part.tool_name, part.args_as_dict()) for part in parts if part.part_kind == "tool-call"])

    return read


def _model(wire: str, *answers: list[bytes]) -> Model[Any]:
    if wire == CHAT:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        return OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=openai_client(*answers)))
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    return AnthropicModel("claude-sonnet-4-6", provider=AnthropicProvider(anthropic_client=anthropic_client(*answers)))
