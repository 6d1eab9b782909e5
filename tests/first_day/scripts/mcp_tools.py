"""The tools of an MCP server, in a pipeline. The server is this file, started with an argument."""

import asyncio
import os
import sys

import httpx
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server.mcpserver import MCPServer

from streamtools import Observation, pipeline
from streamtools.mcp import fetch_tools


def serve() -> None:
    server = MCPServer("weather")

    @server.tool()
    def forecast(city: str) -> str:
        """Weather forecast for a city."""
        return f"sun in {city}"

    server.run()


async def main() -> None:
    command = StdioServerParameters(command=sys.executable, args=[__file__, "serve"])
    async with stdio_client(command) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = await fetch_tools(session, server="weather", prefix="weather")
        async with httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"]) as client:
            request = {"tools": [tool.to("openai.chat_completions") for tool in tools], "stream": True}
            async with pipeline(client.stream("POST", "/chat/completions", json=request), tools=tools) as events:
                async for event in events:
                    if isinstance(event, Observation):
                        print(event.tool_name, event.outcome, event.model_content)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else asyncio.run(main())
