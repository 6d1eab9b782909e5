"""Calls a tool that its MCP server runs as a task, leaves in the middle, and goes on with the task by its id.

The file starts itself as the server, which keeps its tasks in a file, and is ended with each session.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.types import RequestParams
from pydantic import Field

from streamtools import Observation, Trajectory, pipeline
from streamtools.dispatch import SqliteStore
from streamtools.events import ToolProgress
from streamtools.mcp import TASKS, fetch_tools, stdio_transport

BODY = b"""\
data: {"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function",\
"function":{"name":"build","arguments":"{\\"branch\\": \\"main\\"}"}}]},"finish_reason":"tool_calls"}]}

data: [DONE]

"""


class OfTask(RequestParams):
    task_id: str = Field(alias="taskId")


class Tasks(Extension):
    """A server's side of tasks, as small as it gets: a build is over when it was asked about three times."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, kept: Path) -> None:
        self.kept = kept

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> dict[str, Any]:
        print("the server begins a build", file=sys.stderr)
        self.kept.write_text("0")
        return {"resultType": "task", **self.state("working")}

    async def get(self, ctx: Any, params: OfTask) -> dict[str, Any]:
        times = int(self.kept.read_text()) + 1
        self.kept.write_text(str(times))
        if times < 3:
            return self.state("working", statusMessage=f"step {times} of 2")
        done = {"content": [{"type": "text", "text": "built main"}], "structuredContent": {"result": "built main"}}
        return self.state("completed", result=done)

    def methods(self) -> list[MethodBinding]:
        return [MethodBinding("tasks/get", OfTask, self.get)]

    @staticmethod
    def state(status: str, **more: Any) -> dict[str, Any]:
        at = "2026-12-01T10:00:00Z"
        times = {"createdAt": at, "lastUpdatedAt": at, "ttlMs": 3_600_000, "pollIntervalMs": 50}
        return {"taskId": "786512e2-9e0d-44bd-8f29-789f320fe840", "status": status, **times, **more}


def serve(kept: Path) -> None:
    server = MCPServer("ci", extensions=[Tasks(kept)])

    @server.tool()
    def build(branch: str) -> str:
        """Builds a branch."""
        raise NotImplementedError  # the extension answers

    server.run()


async def stream() -> AsyncIterator[bytes]:
    yield BODY


async def call(folder: Path, *, leaves: bool) -> None:
    command = StdioServerParameters(command=sys.executable, args=[__file__, str(folder / "task")])
    async with stdio_transport(command) as streams, ClientSession(*streams, extensions=TASKS) as session:
        await session.discover()
        tools = await fetch_tools(session, server="ci")
        known = Trajectory(run_id="order-7")  # the same each time, so that it is the same call
        with SqliteStore(folder / "calls.db") as store:
            async with pipeline(stream(), tools=tools, store=store, trajectory=known) as events:
                async for event in events:
                    if isinstance(event, ToolProgress):
                        print(event.value)
                        if leaves:
                            break
                    if isinstance(event, Observation):
                        print(event.tool_name, event.outcome, event.value)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        await call(Path(folder), leaves=True)  # as a process that dies would
        await call(Path(folder), leaves=False)


if __name__ == "__main__":
    serve(Path(sys.argv[1])) if sys.argv[1:] else asyncio.run(main())
