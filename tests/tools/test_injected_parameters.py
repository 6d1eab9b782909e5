"""Parameters that the program fills: 0 of them reach the model's schema, and the model can set none.

The markers of frameworks are stand-ins with the package and the name of the real ones, which are tried in
`tests/integrations`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar

import pytest
from profiles import every
from single_calls import run_alone

from streamtools import Tool, ToolContext, run_calls, tool
from streamtools.errors import ToolDefinitionError

pytestmark = pytest.mark.anyio

T = TypeVar("T")


def stand_in(module: str, name: str, *bases: type) -> Any:
    return type(name, bases or (object,), {"__module__": module})


def generic(module: str, name: str) -> Any:
    class Made(Generic[T]):
        pass

    Made.__module__, Made.__name__ = module, name
    return Made


InjectedToolArg = stand_in("langchain_core.tools.base", "InjectedToolArg")
InjectedToolCallId = stand_in("langchain_core.tools.base", "InjectedToolCallId", InjectedToolArg)
InjectedState = stand_in("langgraph.prebuilt.tool_node", "InjectedState", InjectedToolArg)
InjectedStore = stand_in("langgraph.prebuilt.tool_node", "InjectedStore", InjectedToolArg)
ToolRuntime = generic("langchain.tools", "ToolRuntime")
GraphRuntime = generic("langgraph.prebuilt.tool_node", "ToolRuntime")
RunnableConfig = stand_in("langchain_core.runnables.config", "RunnableConfig", dict)
RunContextWrapper = generic("agents.run_context", "RunContextWrapper")
AgentsContext = stand_in("agents.tool_context", "ToolContext", RunContextWrapper)
RunContext = generic("pydantic_ai._run_context", "RunContext")
StrandsContext = stand_in("strands.types.tools", "ToolContext")
StrandsAgent = stand_in("strands.agent.agent", "Agent")
FastContext = stand_in("mcp.server.fastmcp.server", "Context")
FastMCPContext = stand_in("fastmcp.server.context", "Context")
AdkContext = stand_in("google.adk.tools.tool_context", "ToolContext")
AgnoContext = stand_in("agno.run.base", "RunContext")
AgnoAgent = stand_in("agno.agent.agent", "Agent")
IndexContext = generic("workflows.context.context", "Context")
InvocationContext = stand_in("agent_framework._middleware", "FunctionInvocationContext")
AgentContext = stand_in("agent_framework._middleware", "AgentContext")
AgentSession = stand_in("agent_framework._sessions", "AgentSession")
Mine = stand_in("my.agents", "MyContext", RunContext)

FILLED: dict[str, tuple[Any, Any]] = {  # the annotation, and a context that fills it
    "LangChain, ToolRuntime": (ToolRuntime, ToolRuntime()),
    "LangChain, ToolRuntime of a type": (ToolRuntime[int], ToolRuntime()),
    "LangChain, RunnableConfig": (RunnableConfig, RunnableConfig()),
    "LangGraph, ToolRuntime": (GraphRuntime, GraphRuntime()),
    "openai-agents, RunContextWrapper": (RunContextWrapper[dict], RunContextWrapper()),
    "openai-agents, RunContextWrapper or None": (RunContextWrapper[int] | None, RunContextWrapper()),
    "openai-agents, ToolContext": (AgentsContext, AgentsContext()),
    "pydantic-ai, RunContext": (RunContext, RunContext()),
    "pydantic-ai, RunContext of a type": (RunContext[str], RunContext()),
    "pydantic-ai, RunContext with a note": (Annotated[RunContext[str], "the run"], RunContext()),
    "pydantic-ai, a subclass": (Mine, Mine()),
    "Strands, ToolContext": (StrandsContext, StrandsContext()),
    "Strands, Agent": (StrandsAgent, StrandsAgent()),
    "MCP, Context": (FastContext, FastContext()),
    "MCP, Context or None": (FastContext | None, FastContext()),
    "FastMCP, Context": (FastMCPContext, FastMCPContext()),
    "ADK, ToolContext": (AdkContext, AdkContext()),
    "agno, RunContext": (AgnoContext, AgnoContext()),
    "agno, Agent": (AgnoAgent, AgnoAgent()),
    "llama-index, Context of a type": (IndexContext[str], IndexContext()),
    "agent-framework, FunctionInvocationContext": (InvocationContext, InvocationContext()),
    "agent-framework, AgentContext or None": (AgentContext | None, AgentContext()),
    "agent-framework, AgentSession": (AgentSession, AgentSession()),
}
ALONE: dict[str, Any] = {  # only the framework can fill these
    "LangGraph, InjectedState": Annotated[dict, InjectedState],
    "LangGraph, a part of the state": Annotated[list, InjectedState()],
    "LangGraph, InjectedState or None": Annotated[dict | None, InjectedState],
    "LangGraph, InjectedStore": Annotated[Any, InjectedStore()],
    "LangChain, InjectedToolArg": Annotated[str, InjectedToolArg],
    "LangChain, an InjectedToolArg": Annotated[int, InjectedToolArg()],
}
WITHIN: dict[str, Any] = {  # nothing would fill these
    "a list": list[RunContext],
    "a dict": dict[str, RunContextWrapper[int]],
    "a choice": int | RunContext,
    "a callable": Callable[[RunContext], int],
    "a list of states": list[Annotated[dict, InjectedState]],
    "a list of our own": list[ToolContext],
}


def made_of(annotation: Any, **options: Any) -> Any:
    def act(word: str, hidden: Any) -> str:
        """Act."""
        return f"{word} {type(hidden).__name__}"

    act.__annotations__ = {"word": str, "hidden": annotation, "return": str}
    if "default" in options:
        act.__defaults__ = (options.pop("default"),)
    return act


def check_hidden(made: Tool) -> None:
    assert set(made.schema["properties"]) == {"word"}
    assert "hidden" not in str(made.schema)
    for wire in ("openai.chat_completions", "anthropic.messages", "gemini.generate_content"):
        assert "hidden" not in str(made.to(wire))


@every("name", FILLED)
async def test_a_context_of_a_framework_is_filled_and_no_model_sees_or_sets_it(name: str) -> None:
    annotation, context = FILLED[name]
    made = tool(made_of(annotation))
    check_hidden(made)
    (seen, set_) = (
        await run_calls(
            [("a", "act", {"word": "x"}), ("b", "act", {"word": "x", "hidden": "mine"})], [made], context=context
        )
    ).observations
    assert seen.value == f"x {type(context).__name__}"
    assert (set_.outcome, "hidden" in set_.model_content) == ("invalid", True)


@every("name", FILLED)
async def test_without_such_a_context_the_pipeline_says_what_to_pass(name: str) -> None:
    annotation, _ = FILLED[name]
    for context, given in ((None, "none was given"), (7, "context is a int")):
        with pytest.raises(TypeError, match=rf"parameter 'hidden': requires a \w+, but {given}; pass one as context="):
            run_calls([("a", "act", {"word": "x"})], [made_of(annotation)], context=context)
    made = tool(made_of(annotation, default=None))
    check_hidden(made)
    assert (await run_alone(made, {"word": "x"})).value == "x NoneType"


@every("name", ALONE)
async def test_what_only_a_framework_fills_is_refused_or_keeps_its_default(name: str) -> None:
    with pytest.raises(ToolDefinitionError, match=r"can only be filled by Lang.*; take a streamtools\.ToolContext"):
        tool(made_of(ALONE[name]))
    made = tool(made_of(ALONE[name], default=None))
    check_hidden(made)
    assert (await run_alone(made, {"word": "x"})).value == "x NoneType"
    assert (await run_alone(made, {"word": "x", "hidden": {}})).outcome == "invalid"


@every("name", WITHIN)
def test_a_marker_inside_of_a_type_is_refused(name: str) -> None:
    with pytest.raises(ToolDefinitionError, match="must be the parameter's whole type"):
        tool(made_of(WITHIN[name]))


async def test_the_id_of_a_call_is_filled() -> None:
    def act(word: str, call: Any) -> str:
        """Act."""
        return f"{word} {call}"

    act.__annotations__ = {"word": str, "call": Annotated[str, InjectedToolCallId], "return": str}
    made = tool(act)
    assert set(made.schema["properties"]) == {"word"}
    assert (await run_alone(made, {"word": "x"}, call_id="c1")).value == "x c1"
    assert (await run_alone(made, {"word": "x", "call": "other"}, call_id="c1")).outcome == "invalid"


async def test_a_foreign_schema_cannot_open_what_is_injected() -> None:
    schema = {"type": "object", "properties": {"word": {"type": "string"}, "hidden": {}}}
    made = Tool.from_schema(made_of(FILLED["pydantic-ai, RunContext"][0]), schema)
    (seen,) = (
        await run_calls([("a", "act", {"word": "x", "hidden": "mine"})], [made], context=RunContext())
    ).observations
    assert seen.outcome == "invalid"


def test_a_class_that_only_has_the_name_of_one_is_a_type_like_any_other() -> None:
    class RunContext:
        """Something else."""

    with pytest.raises(ToolDefinitionError, match="schema"):
        tool(made_of(RunContext))


def test_the_real_context_of_mcps_servers_is_hidden() -> None:
    server = pytest.importorskip("mcp.server.mcpserver")
    check_hidden(tool(made_of(server.Context)))
    check_hidden(tool(made_of(server.Context | None, default=None)))
