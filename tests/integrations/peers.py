"""What other loops do with the answers that the README's table names: each loop as its own documentation writes it.

A scripted server answers each loop through the `openai` package; its one tool is `pay`. Run as a program, this file is
a process that dies within a payment:

    python peers.py LOOP FOLDER
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx2
from openai import AsyncOpenAI

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

from every_wire import CHAT, RESPONSES, dumped, framed, said  # noqa: E402  # the tests' folder comes first

from streamtools import agent_loop, tool  # noqa: E402

__all__ = ["CHAT", "CUT", "DONE", "LOOPS", "LOST", "RAISES", "RESPONSES", "SAME_INDEX", "Bank", "Server", "two_calls"]

Piece = bytes | Callable[[], Awaitable[None]]
Pay = Callable[[str], Awaitable[str]]

URL = "http://model.invalid/v1"
DONE = {wire: framed(wire, said(wire, text=["done"])) for wire in (CHAT, RESPONSES)}


class Server(httpx2.AsyncBaseTransport):
    """Answers a request without results with calls, any other with text; a callable in a body is awaited."""

    def __init__(self, calls: Sequence[Piece], wire: str = CHAT) -> None:
        self.calls, self.text = calls, DONE[wire]
        self.requests: list[dict[str, Any]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answers a request with a stream."""
        self.requests.append(json.loads(request.content))
        body = self.text if self.results() else self.calls

        async def stream() -> AsyncIterator[bytes]:
            for piece in body:
                if isinstance(piece, bytes):
                    yield piece
                else:
                    await piece()

        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream())

    def results(self) -> list[str]:
        """The results that the model reads with the last request."""
        asked = self.requests[-1]
        items = [each for each in asked.get("input", []) if each.get("type") == "function_call_output"]
        messages = [each for each in asked.get("messages", []) if each["role"] == "tool"]
        return [str(each["output"]) for each in items] + [str(each["content"]) for each in messages]


class Bank:
    """Pays, notes whom, and dies within the first payment if it is given a file to note that in."""

    def __init__(self, file: Path | None = None) -> None:
        self.paid: list[str] = []
        self.first = asyncio.Event()
        self.file = file

    async def pay(self, to: str) -> str:
        """Pays somebody; an account named ``nobody`` does not exist."""
        self.paid.append(to)
        self.first.set()
        if to == "nobody":
            raise ValueError("no such account")
        if self.file is not None:
            died = self.file.exists()
            with self.file.open("a") as lines:
                lines.write(f"{to}\n")
            if not died:
                os._exit(9)
        return f"paid {to}"


# -- answers ---------------------------------------------------------------------------------------------------------


def _delta(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    return b"data: " + dumped({**head, "choices": [choice]}) + b"\n\n"


def _call(index: int, call_id: str, arguments: str) -> bytes:
    function = {"name": "pay", "arguments": arguments}
    return _delta({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]})


_END = b"data: [DONE]\n\n"
CUT = [_call(0, "call_1", '{"to":"Ada'), _delta({}, "length"), _END]
LOST = [_call(0, "call_1", '{"to":"Ada"}')]
PAYS = [*LOST, _delta({}, "tool_calls"), _END]
SAME_INDEX = [_call(0, "call_1", '{"to":"Ada"}'), _call(0, "call_2", '{"to":"Bob"}'), _delta({}, "tool_calls"), _END]
RAISES = [
    *(_call(at, f"call_{at}", json.dumps({"to": to})) for at, to in enumerate(("Ada", "nobody", "Bob"))),
    _delta({}, "tool_calls"),
    _END,
]


def two_calls(between: Callable[[], Awaitable[None]]) -> list[Piece]:
    """Composes a response of two calls on the Responses API, with something to await after the first one's end."""
    calls = [("call_1", "pay", '{"to":"Ada"}'), ("call_2", "pay", '{"to":"Bob"}')]
    body: list[bytes] = framed(RESPONSES, said(RESPONSES, calls=calls))
    ended = next(at for at, piece in enumerate(body) if b"response.output_item.done" in piece) + 1
    return [*body[:ended], between, *body[ended:]]


# -- loops -----------------------------------------------------------------------------------------------------------


def _client(server: Server) -> AsyncOpenAI:
    return AsyncOpenAI(
        api_key="none", base_url=URL, max_retries=0, http_client=httpx2.AsyncClient(transport=server, base_url=URL)
    )


async def sdk(server: Server, pay: Pay, wire: str, folder: Path) -> None:
    """The loop of the SDK's guide to function calling, which adds up deltas by their index and parses at the end."""
    client = _client(server)
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    history: list[Any] = [{"role": "user", "content": "go"}]
    while True:
        calls: dict[int, Any] = {}
        if wire == RESPONSES:
            tools: Any = [{"type": "function", "name": "pay", "parameters": schema}]
            async for event in await client.responses.create(model="m", input=history, tools=tools, stream=True):
                if event.type == "response.output_item.done" and event.item.type == "function_call":
                    calls[event.output_index] = event.item
            found = [(call.call_id, call.name, call.arguments) for call in calls.values()]
        else:
            tools = [{"type": "function", "function": {"name": "pay", "parameters": schema}}]
            async for chunk in await client.chat.completions.create(
                model="m", messages=history, tools=tools, stream=True
            ):
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
            history += [{"type": "function_call_output", "call_id": at, "output": text} for at, text in results]
        else:
            history += [{"role": "tool", "tool_call_id": at, "content": text} for at, text in results]


async def langgraph(server: Server, pay: Pay, wire: str, folder: Path) -> None:
    """A graph of a model and a tool node with a checkpointer in a file; a thread that is there goes on."""
    from langchain_core.tools import StructuredTool
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    model = ChatOpenAI(
        model="m",
        api_key="none",  # type: ignore[arg-type]
        base_url=URL,
        max_retries=0,
        streaming=True,
        use_responses_api=wire == RESPONSES,
        http_async_client=httpx2.AsyncClient(transport=server, base_url=URL),
    )
    thread: Any = {"configurable": {"thread_id": "order-7"}}
    tools = [StructuredTool.from_function(coroutine=pay, name="pay", description="Pay somebody.")]
    bound = model.bind_tools(tools)

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", answer)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    async with AsyncSqliteSaver.from_conn_string(str(folder / "threads.db")) as saver:
        agent = graph.compile(checkpointer=saver)
        there = (await agent.aget_state(thread)).next
        first: Any = None if there else {"messages": [("user", "go")]}
        async for _ in agent.astream(first, thread, stream_mode="messages"):
            pass


async def pydantic_ai(server: Server, pay: Pay, wire: str, folder: Path) -> None:
    """An agent, iterated node by node, each streamed."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(openai_client=_client(server))
    model = (
        OpenAIResponsesModel("m", provider=provider) if wire == RESPONSES else OpenAIChatModel("m", provider=provider)
    )
    agent = Agent(model)
    agent.tool_plain(pay, name="pay")
    async with agent.iter("go") as run:
        async for node in run:
            if Agent.is_model_request_node(node) or Agent.is_call_tools_node(node):
                async with node.stream(run.ctx) as events:
                    async for _ in events:
                        pass


async def streamtools(server: Server, pay: Pay, wire: str, folder: Path) -> None:
    """An agent's loop with a journal in a file; a tool that may run twice is one that may start early, too."""
    effect: Any = "once" if wire == CHAT else "idempotent"
    client = _client(server)

    async def ask(messages: Any, tools: Any) -> Any:
        if wire == RESPONSES:
            return await client.responses.create(model="m", input=messages, tools=tools, stream=True)
        return await client.chat.completions.create(model="m", messages=messages, tools=tools, stream=True)

    async def paying(to: str) -> str:
        """Pay somebody."""
        return await pay(to)

    tools = [tool(paying, name="pay", effect=effect)]
    async with agent_loop(
        ask, [{"role": "user", "content": "go"}], tools=tools, wire=wire, journal=folder / "runs.db", run_id="order-7"
    ) as run:
        async for _ in run:
            pass


LOOPS = {"SDK": sdk, "LangGraph": langgraph, "pydantic-ai": pydantic_ai, "streamtools": streamtools}


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    asyncio.run(LOOPS[sys.argv[1]](Server(PAYS), Bank(folder / "paid").pay, CHAT, folder))
