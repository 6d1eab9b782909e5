"""The loops, each as its own documentation configures it for errors and crashes; the comments have the pages.

Each takes the server, the tool, the wire and a folder for what it keeps. A loop that finds its own records in the
folder goes on with them, as its documentation says for a restart.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bodies import RESPONSES
from .answers import URL, Pay, Server

Loop = Callable[[Server, Pay, str, Path], Awaitable[None]]
RUN = "order-7"
SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
TOOLS: Any = [{"type": "function", "function": {"name": "pay", "parameters": SCHEMA}}]


async def sdk(server: Server, pay: Pay, wire: str, folder: Path) -> None:
    """https://platform.openai.com/docs/guides/function-calling: deltas added up by index, parsed at the end."""
    client = server.client()
    history: list[Any] = [{"role": "user", "content": "go"}]
    while True:
        calls: dict[int, Any] = {}
        if wire == RESPONSES:
            tools: Any = [{"type": "function", "name": "pay", "parameters": SCHEMA}]
            async for event in await client.responses.create(model="m", input=history, tools=tools, stream=True):
                if event.type == "response.output_item.done" and event.item.type == "function_call":
                    calls[event.output_index] = event.item
            found = [(call.call_id, call.name, call.arguments) for call in calls.values()]
        else:
            create = client.chat.completions.create
            async for chunk in await create(model="m", messages=history, tools=TOOLS, stream=True):
                for part in chunk.choices[0].delta.tool_calls or []:
                    if part.index not in calls:
                        calls[part.index] = part
                    else:
                        calls[part.index].function.arguments += part.function.arguments
            found = [(call.id, call.function.name, call.function.arguments) for call in calls.values()]
        if not found:
            return
        results = [(call_id, await pay(**json.loads(arguments))) for call_id, _, arguments in found]
        if wire == RESPONSES:
            history += [
                {"type": "function_call", "call_id": at, "name": name, "arguments": text} for at, name, text in found
            ]
            history += [{"type": "function_call_output", "call_id": at, "output": text} for at, text in results]
        else:
            made = [
                {"id": at, "type": "function", "function": {"name": name, "arguments": text}}
                for at, name, text in found
            ]
            history += [{"role": "assistant", "tool_calls": made}]
            history += [{"role": "tool", "tool_call_id": at, "content": text} for at, text in results]


async def sdk_helper(server: Server, pay: Pay, wire: str, folder: Path) -> None:
    """https://github.com/openai/openai-python/blob/main/helpers.md: one request, read by the SDK's own accumulator."""
    messages: Any = [{"role": "user", "content": "go"}]
    async with server.client().chat.completions.stream(model="m", messages=messages, tools=TOOLS) as stream:
        async for _ in stream:
            pass
        message = (await stream.get_final_completion()).choices[0].message
    for call in message.tool_calls or ():
        await pay(**json.loads(call.function.arguments))


async def langgraph(server: Server, pay: Pay, wire: str, folder: Path) -> None:
    """https://docs.langchain.com/oss/python/langchain/middleware and .../langgraph/durable-execution: `create_agent`
    with middleware for errors of tools and of requests, a checkpointer, and ``durability="sync"``."""
    import httpx2
    from langchain.agents import create_agent
    from langchain.agents.middleware import ModelRetryMiddleware, ToolErrorMiddleware
    from langchain_core.tools import StructuredTool
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    model = ChatOpenAI(
        model="m",
        api_key="none",  # type: ignore[arg-type]
        base_url=URL,
        streaming=True,
        use_responses_api=wire == RESPONSES,
        http_async_client=httpx2.AsyncClient(transport=server, base_url=URL),
    )

    async def told(error: Exception, request: Any) -> str:
        return f"{request.tool_call['name']} failed: {type(error).__name__}"

    thread: Any = {"configurable": {"thread_id": RUN}}
    middleware: Any = [ModelRetryMiddleware(), ToolErrorMiddleware(aon_error=told)]
    tools = [StructuredTool.from_function(coroutine=pay, name="pay", description="Pay somebody.")]
    async with AsyncSqliteSaver.from_conn_string(str(folder / "threads.db")) as saver:
        agent = create_agent(model, tools, middleware=middleware, checkpointer=saver)
        there = (await agent.aget_state(thread)).next
        first: Any = None if there else {"messages": [("user", "go")]}
        async for _ in agent.astream(first, thread, stream_mode="messages", durability="sync"):
            pass


def _pydantic_agent(server: Server, pay: Pay, wire: str, **options: Any) -> Any:
    from pydantic_ai import Agent, ToolFailed
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async def paying(to: str) -> str:
        try:
            return await pay(to)
        except ValueError as error:  # https://ai.pydantic.dev/tools-advanced: for what no retry mends
            raise ToolFailed(str(error)) from error

    kind = OpenAIResponsesModel if wire == RESPONSES else OpenAIChatModel
    agent: Any = Agent(kind("m", provider=OpenAIProvider(openai_client=server.client())), name="payer", **options)
    agent.tool_plain(paying, name="pay")
    return agent


async def _shown(ctx: Any, events: Any) -> None:
    # With a handler of events, requests are streamed.
    async for _ in events:
        pass


async def pydantic_ai(server: Server, pay: Pay, wire: str, folder: Path) -> None:
    """https://ai.pydantic.dev/agents: a streamed run; the tool raises `ToolFailed`."""
    await _pydantic_agent(server, pay, wire).run("go", event_stream_handler=_shown)


async def pydantic_ai_dbos(server: Server, pay: Pay, wire: str, folder: Path) -> None:
    """https://ai.pydantic.dev/durable_execution/dbos: the run a workflow, model requests and the tool steps."""
    from pydantic_ai.durable_exec.dbos import DBOSDurability

    def agent(step: Pay) -> Any:
        return _pydantic_agent(server, step, wire, capabilities=[DBOSDurability(event_stream_handler=_shown)]).run

    await _under_dbos(agent, pay, folder)


async def _under_dbos(make: Callable[[Pay], Callable[[str], Awaitable[Any]]], pay: Pay, folder: Path) -> None:
    from dbos import DBOS, SetWorkflowID

    database = f"sqlite:///{folder / 'dbos.db'}"
    DBOS(config={"name": "payer", "system_database_url": database, "application_version": "1"})

    @DBOS.step()
    async def step(to: str) -> str:
        return await pay(to)

    run = make(step)

    @DBOS.workflow()
    async def answer(text: str) -> None:
        await run(text)

    DBOS.launch()  # goes on with what a crash has interrupted
    with SetWorkflowID(RUN):
        handle = await DBOS.start_workflow_async(answer, "go")
    await handle.get_result()
    DBOS.destroy()


async def pydantic_ai_steps(server: Server, pay: Pay, wire: str, folder: Path) -> None:
    """pydantic_ai_harness/step_persistence/README.md: continued from the last complete snapshot, if there is one."""
    from pydantic_ai_harness import StepPersistence
    from pydantic_ai_harness.step_persistence import SqliteStepStore, continue_run

    store = SqliteStepStore(database=folder / "steps.db")
    runs = await store.list_runs(conversation_id=RUN)
    history = None
    for run in runs[-1:]:
        unresolved = await store.list_unresolved_tool_effects(run_id=run.run_id)
        (folder / "unresolved").write_text(str(len(unresolved)))
        try:
            history = await continue_run(store, run_id=run.run_id)
        except LookupError:
            history = None
    agent = _pydantic_agent(server, pay, wire, capabilities=[StepPersistence(store=store)])
    await agent.run("go", message_history=history, conversation_id=RUN, event_stream_handler=_shown)


def _openai_agent(server: Server, pay: Pay, wire: str) -> Any:
    from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, function_tool, set_tracing_disabled

    set_tracing_disabled(True)
    kind: Any = OpenAIResponsesModel if wire == RESPONSES else OpenAIChatCompletionsModel
    tools: Any = [function_tool(pay, name_override="pay", description_override="Pay somebody.")]
    return Agent(name="payer", model=kind(model="m", openai_client=server.client()), tools=tools)


async def openai_agents(server: Server, pay: Pay, wire: str, folder: Path) -> None:
    """https://openai.github.io/openai-agents-python/streaming and /sessions: streamed, with a session in a file. An
    error of a tool reaches the model by the default ``failure_error_function``."""
    from agents import Runner, SQLiteSession

    session = SQLiteSession(RUN, folder / "sessions.db")
    running = Runner.run_streamed(_openai_agent(server, pay, wire), "go", session=session)
    async for _ in running.stream_events():
        pass


async def openai_agents_dbos(server: Server, pay: Pay, wire: str, folder: Path) -> None:
    """https://docs.dbos.dev/integrations/openai-agents: `DBOSRunner`, without streaming; the tool a step."""
    from agents import Agent
    from dbos_openai_agents import DBOSRunner

    server.whole = True

    def agent(step: Pay) -> Any:
        made: Agent[Any] = _openai_agent(server, step, wire)

        async def run(text: str) -> Any:
            return await DBOSRunner.run(made, text)

        return run

    await _under_dbos(agent, pay, folder)


async def streamtools(server: Server, pay: Pay, wire: str, folder: Path) -> None:
    """An `agent_loop` with a journal in a file. A tool that may run twice is declared so, and may start early."""
    from streamtools import agent_loop, tool

    effect: Any = "idempotent" if wire == RESPONSES else "once"
    client = server.client()

    async def ask(messages: Any, tools: Any) -> Any:
        if wire == RESPONSES:
            return await client.responses.create(model="m", input=messages, tools=tools, stream=True)
        return await client.chat.completions.create(model="m", messages=messages, tools=tools, stream=True)

    async def paying(to: str) -> str:
        """Pay somebody."""
        return await pay(to)

    tools = [tool(paying, name="pay", effect=effect)]
    question = [{"role": "user", "content": "go"}]
    async with agent_loop(ask, question, tools=tools, wire=wire, journal=folder / "runs.db", run_id=RUN) as run:
        async for _ in run:
            pass
    (folder / "unresolved").write_text(str(len(run.unsettled)))


@dataclass(frozen=True)
class Peer:
    """A column of the table, or what stands beside one for crashes."""

    key: str
    loop: Loop
    packages: tuple[str, ...]
    rows: tuple[str, ...] = ("cut", "lost", "reset", "same_index", "raises", "started", "killed")


PEERS = (
    Peer("sdk", sdk, ("openai",)),
    Peer("sdk_helper", sdk_helper, ("openai",), rows=("cut",)),
    Peer("langgraph", langgraph, ("langgraph", "langchain", "langchain-openai", "langgraph-checkpoint-sqlite")),
    Peer("pydantic_ai", pydantic_ai, ("pydantic-ai-slim",)),
    Peer("pydantic_ai_dbos", pydantic_ai_dbos, ("pydantic-ai-slim", "dbos"), rows=("killed",)),
    Peer("pydantic_ai_steps", pydantic_ai_steps, ("pydantic-ai-slim", "pydantic-ai-harness"), rows=("killed",)),
    Peer("openai_agents", openai_agents, ("openai-agents",)),
    Peer("openai_agents_dbos", openai_agents_dbos, ("openai-agents", "dbos-openai-agents", "dbos"), rows=("killed",)),
    Peer("streamtools", streamtools, ("streamtools",)),
)
