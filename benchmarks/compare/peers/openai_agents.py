"""openai-agents: its model's `stream_response`, without the agent loop around it, to the completed response."""

from __future__ import annotations

from typing import Any

from agents import Agent, FunctionTool, ModelSettings, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
from agents.models.interface import ModelTracing

from ...workloads import note, save_report
from ..transport import openai_client
from ..work import Answer, Read, Run, value


def run_openai_agents(answers: list[list[bytes]]) -> Run:
    model = OpenAIChatCompletionsModel(model="gpt-4o", openai_client=openai_client(*answers))
    agent = Agent(name="a", model=model, tools=[function_tool(note.fn, name_override=note.name)])
    config = RunConfig(tracing_disabled=True)

    async def run() -> str:
        result = Runner.run_streamed(agent, "hello", run_config=config)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    return run


def read_openai_agents(wire: str, chunks: list[bytes]) -> Read:
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
