"""Lists of an MCP server that are made to be large: 1,000 tools of 180 kB, read over stdio by the SDK and by us.

Each case runs in a fresh process beside a task that ticks. ``ours`` has a session that answers with pages that are
ready, so that it shows this library alone; ``stdio`` is the SDK's session with a server in another process; ``sdk`` is
the same without us: the SDK reads whole messages before anybody can bound them. Bars, for ``ours``: within
``list_timeout``, 200 MB at most, and a standstill of 50 ms.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

__all__ = ["main"]

TOOLS, TOOL_BYTES, LIST_TIMEOUT_S = 1_000, 180_000, 30.0
TICK_S = 0.001
ROOT = str(Path(__file__).resolve().parents[1])
SERVER = """
import json, sys
sys.path.insert(0, sys.argv[1])
from benchmarks.bench_mcp_lists import page
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        info = {"name": "s", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif message["method"] == "tools/list":
        result = page(sys.argv[2], int(sys.argv[3]), (message.get("params") or {}).get("cursor"))
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}, separators=(",", ":")), flush=True)
"""


def page(kind: str, size: int, cursor: str | None) -> dict[str, Any]:
    """A page of the list.

    Args:
        kind: what fills a tool: ``lists`` (empty ones), ``text``, or ``schemas`` (a thousand, described).
        size: tools on a page.
        cursor: where it begins.
    """
    start = int(cursor or 0)
    listed = [{"name": f"t{number}", "inputSchema": _schema(kind)} for number in range(start, min(start + size, TOOLS))]
    more = {"nextCursor": str(start + size)} if start + size < TOOLS else {}
    return {"tools": listed, **more}


def _schema(kind: str) -> dict[str, Any]:
    if kind == "lists":
        return {"type": "object", "default": [[]] * (TOOL_BYTES // 3)}
    if kind == "text":
        return {"type": "object", "default": "x" * TOOL_BYTES}
    fields = {f"p{number}": {"description": "x" * 150, "not": {}} for number in range(TOOL_BYTES // 190)}
    return {"type": "object", "properties": fields}


class _Ready:
    """A session whose pages are ready."""

    def __init__(self, kind: str, size: int) -> None:
        self._page = page(kind, size, None)["tools"]
        self._size = size

    async def list_tools(self, cursor: str | None = None) -> dict[str, Any]:
        start = int(cursor or 0)
        listed = [{**one, "name": f"t{start + number}"} for number, one in enumerate(self._page)]
        return {"tools": listed, **({"nextCursor": str(start + self._size)} if start + self._size < TOOLS else {})}

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        raise AssertionError("nothing is called")


async def _measured(work: Callable[[], Awaitable[str]]) -> tuple[str, float, float]:
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        last = time.perf_counter()
        while True:
            await anyio.sleep(TICK_S)
            now = time.perf_counter()
            longest, last = max(longest, now - last - TICK_S), now

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await anyio.sleep(0.05)
        longest, begun = 0.0, time.perf_counter()
        try:
            said = await work()
        except TimeoutError:
            said = "TimeoutError"
        took = time.perf_counter() - begun
        group.cancel_scope.cancel()
    return said, took, longest


async def _case(who: str, kind: str, size: int) -> None:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    from streamtools.mcp import fetch_tools

    kept: list[Any] = []

    async def fetch(session: Any) -> str:
        tools = await fetch_tools(session, server="s", list_timeout=LIST_TIMEOUT_S)
        kept.append(tools)
        return f"{len(tools)} tools, {len(tools.refused)} refused, complete={tools.complete}"

    async def read(session: Any) -> str:
        cursor, count = None, 0
        with anyio.fail_after(LIST_TIMEOUT_S):
            while True:
                page = await session.list_tools(**({} if cursor is None else _at(cursor)))
                count += len(page.tools)
                cursor = getattr(page, "next_cursor", None) or getattr(page, "nextCursor", None)
                if cursor is None:
                    return f"{count} tools"

    def _at(cursor: str) -> dict[str, Any]:
        from mcp.types import PaginatedRequestParams

        return {"params": PaginatedRequestParams(cursor=cursor)}

    if who == "ours":
        session: Any = _Ready(kind, size)
        gc.collect()
        before = _peak()
        said, took, longest = await _measured(lambda: fetch(session))
    else:
        command = StdioServerParameters(command=sys.executable, args=["-c", SERVER, ROOT, kind, str(size)])
        async with stdio_client(command) as (reading, writing), ClientSession(reading, writing) as session:
            await session.initialize()
            before = _peak()
            said, took, longest = await _measured(lambda: fetch(session) if who == "stdio" else read(session))
    peak = _peak() - before
    print(json.dumps([said, took, longest * 1000, peak]))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(wanted: list[str]) -> None:
    """Print a line for each case."""
    print(f"{'case':28} {'s':>6} {'still ms':>9} {'MB':>6}")
    for who in ("ours", "stdio", "sdk"):
        for kind in ("lists", "text", "schemas"):
            for size in (10, 50, TOOLS) if who == "ours" else (10, 50):
                name = f"{who} {kind} {size} a page"
                if wanted and not any(word in name for word in wanted):
                    continue
                command = [sys.executable, "-m", "benchmarks.bench_mcp_lists", "--case", who, kind, str(size)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    print(f"{name:28} {done.stderr.strip().splitlines()[-1]}")
                    continue
                said, took, longest, peak = json.loads(done.stdout.splitlines()[-1])
                print(f"{name:28} {took:6.2f} {longest:9.1f} {peak:6.1f}  {said}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        anyio.run(_case, sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main(sys.argv[1:])
