"""An MCP server over standard input and output, without the SDK: it shows what a client really sends.

Speaks MCP 2025-06-18. Its tool ``received`` answers with all that has come so far. With the argument ``broken`` its
list ends in a page with a tool that breaks the protocol, with ``halves`` and ``deep`` in one that strict parsers do
not read, with ``large`` in one of 32 MB; with ``answers`` it has a tool that answers with as much, and two with many
small values.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
DEGREES = {"type": "object", "properties": {"degrees": {"type": "integer"}}, "required": ["degrees"]}
NOTHING = {"type": "object", "additionalProperties": False}

PAGES: list[list[dict[str, Any]]] = [
    [
        {"name": "echo", "description": "Says it again.", "inputSchema": TEXT},
        {"name": "forecast", "inputSchema": NOTHING, "outputSchema": DEGREES},
        {"name": "slow", "inputSchema": NOTHING},
    ],
    [
        {"name": "count", "inputSchema": NOTHING},
        {"name": "change", "inputSchema": NOTHING},
        {"name": "missing", "inputSchema": NOTHING},
        {"name": "junk", "inputSchema": NOTHING},
        {"name": "hot", "inputSchema": NOTHING, "outputSchema": DEGREES},
        {"name": "evil", "inputSchema": NOTHING, "outputSchema": {"type": "object", "properties": {}}},
        {"name": "received", "inputSchema": NOTHING},
        {"name": "own", "inputSchema": NOTHING},
        {"name": "exit", "inputSchema": NOTHING},
    ],
]
EVIL = {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
"""What Python's own engine takes exponential time for."""
PAGES[1][5]["outputSchema"] |= EVIL
if "broken" in sys.argv:
    PAGES[1:] = [[{"name": "fine", "inputSchema": NOTHING}, {"name": "broken", "inputSchema": "none"}]]

if "large" in sys.argv:
    PAGES[1:] = [[{"name": "large", "inputSchema": NOTHING, "description": "x" * 32_000_000}]]
if "answers" in sys.argv:
    PAGES[1:] = [[*({"name": name, "inputSchema": NOTHING} for name in ("large", "many", "few")), PAGES[1][6]]]

received: list[dict[str, Any]] = []


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **fields}


def call(request_id: Any, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result, or None if it was answered otherwise or is not."""
    token = params.get("_meta", {}).get("progressToken")
    match params["name"]:
        case "echo":
            return text(params["arguments"]["text"])
        case "forecast":
            return text("21 degrees", structuredContent={"degrees": 21})
        case "hot":
            return text("hot", structuredContent={"degrees": "hot"})
        case "evil":
            return text("evil", structuredContent={"a": "a" * 40 + "!"})
        case "own":
            send(id=request_id, error={"code": -32020, "message": "an error of its own"})
        case "exit":
            os._exit(3)
        case "junk":
            return {"content": "junk"}
        case "count":
            for n in (1, 2):
                send(method="notifications/progress", params={"progressToken": token, "progress": n, "total": 2})
            return text("counted")
        case "change":
            send(method="notifications/tools/list_changed")
            return text("changed")
        case "large":
            return text("x" * 32_000_000)
        case "many" | "few":
            return text("rows", structuredContent={"rows": [{}] * {"many": 300_000, "few": 20_000}[params["name"]]})
        case "received":
            return text(json.dumps({"pid": os.getpid(), "received": received}))
        case "slow":
            send(method="notifications/progress", params={"progressToken": token, "progress": 0})
        case name:
            send(id=request_id, error={"code": -32602, "message": f"Unknown tool: {name}"})
    return None


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    params = message.get("params", {})
    match message["method"]:
        case "initialize":
            server = {"name": "plain", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
        case "tools/list":
            page = int(params.get("cursor", 0))
            more = {"nextCursor": str(page + 1)} if page + 1 < len(PAGES) else {}
            return {"tools": PAGES[page], **more}
        case "tools/call":
            return call(message["id"], params)
    return None


for line in sys.stdin:
    message = json.loads(line)
    received.append(message)
    if (result := answer(message)) is not None:
        send(id=message["id"], result=result)
