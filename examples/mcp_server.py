"""Calls the tools of an MCP server from a stream; the file starts itself as the server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from mcp import ClientSession, StdioServerParameters
from mcp.server.mcpserver import MCPServer

from streamtools import Observation, pipeline
from streamtools.mcp import Pins, SchemaCache, fetch_tools, stdio_transport

BODY = b"""\
data: {"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function",\
"function":{"name":"weather__forecast","arguments":"{\\"city\\": \\"Oslo\\"}"}}]},"finish_reason":"tool_calls"}]}

data: [DONE]

"""


def serve() -> None:
    server = MCPServer("weather")

    @server.tool()
    def forecast(city: str, days: int = 1) -> str:
        """Weather forecast for a city."""
        return f"{city}: sun for {days} day(s)"

    server.run()


async def stream() -> AsyncIterator[bytes]:
    yield BODY


async def main() -> None:
    cache, pins = SchemaCache(), Pins()  # keep both between runs; Pins.dumps() returns the text for a file
    command = StdioServerParameters(command=sys.executable, args=[__file__, "serve"])
    handler = cache.message_handler("weather")  # the server sends a message when its tools change
    async with stdio_transport(command) as streams, ClientSession(*streams, message_handler=handler) as session:
        await session.initialize()
        tools = await fetch_tools(session, server="weather", prefix="weather", cache=cache, pins=pins)
        print([tool.to("openai.chat_completions")["function"]["name"] for tool in tools])
        async with pipeline(stream(), tools=tools) as events:
            async for event in events:
                if isinstance(event, Observation):
                    print(event.tool_name, event.outcome, event.value)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else asyncio.run(main())
