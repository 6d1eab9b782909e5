"""Helps to test your own code: cuts bytes in every way, and gives sources and tools that follow a script.

    feed_every_way(StreamDecoder, body)                      the same events however the body is cut, or it fails
    ScriptedSource([b"data: ...", gate, ConnectionError()])  chunks, waits, failures; records where it was closed
    FakeTool(get_weather, results=["rain", TimeoutError()])  a tool's schema, your results; records its calls await
    check_executor(MyExecutor)                         your executor keeps the contract of executors check_wire(ACME,
    [STREAM])                               your wire keeps the contract of wires

All of it works under pytest-asyncio and under anyio's plugin. Nothing here is needed to use the library.
"""

from __future__ import annotations

from .executors import check_executor
from .tools import FakeTool, ScriptedSource, Waitable, feed_every_way
from .wires import check_wire

__all__ = ["FakeTool", "ScriptedSource", "Waitable", "check_executor", "check_wire", "feed_every_way"]
