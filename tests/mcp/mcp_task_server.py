"""A scripted MCP server whose tool ``work`` runs as a task: in memory, or a process that keeps its tasks in a folder.

A task goes on by one of `states` with each ``tasks/get``, and stays in the last.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

if __name__ != "__main__":  # a process begins quickly
    import anyio
    from mcp import ClientSession, types
    from mcp.shared.message import SessionMessage
    from pydantic import TypeAdapter

V1, V2, SECRET = "2025-11-25", "2026-07-28", "task-0f3a-of-"
WORKING, DONE, ASKS = {"status": "working"}, {"status": "completed"}, {"status": "input_required"}
REF = {"type": "object", "properties": {"ref": {"type": "string"}}, "required": ["ref"]}
FORM = {"message": "Where?", "requestedSchema": {"type": "object", "properties": {"city": {"type": "string"}}}}
COMPLETE = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
UNKNOWN = {"error": {"code": -32602, "message": "Failed to retrieve task: Task not found"}}


def _text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


class TaskServer:
    """Answers messages; what it `says` differs from what it should."""

    def __init__(self, version: str, *states: dict[str, Any], support: Any = "optional", **says: Any) -> None:
        self.version, self.states, self.support, self.says = version, states or (DONE,), support, says
        self.tasks: dict[str, dict[str, Any]] = {}
        self.received: list[dict[str, Any]] = []

    def asked(self, *methods: str) -> list[str]:
        """The methods that were asked for: those about tools and tasks, or these."""
        seen = [str(one.get("method")) for one in self.received]
        return [one for one in seen if (one in methods if methods else one.startswith("t"))]

    def handle(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """The server's messages in answer to one."""
        self.received.append(message)
        method, params, number = message.get("method", "answer"), message.get("params", {}), message.get("id")
        task_id = str(params.get("taskId", number)).removeprefix("q")
        task = self.tasks.get(task_id)
        if task is None or self.says.get("lost"):
            result = UNKNOWN if method.startswith("tasks/") else self._of_tools(method, params)
        elif method == "tasks/result" and self._state(task) == ASKS:
            task["held"], related = number, {"io.modelcontextprotocol/related-task": {"taskId": task_id}}
            return [{"id": f"q{task_id}", "method": "elicitation/create", "params": {**FORM, "_meta": related}}]
        else:
            if method in ("tasks/update", "answer"):
                answer = message.get("result") or params["inputResponses"]["q"]
                task["city"], task["gets"] = answer.get("content", {}).get("city"), task["gets"] + 1
            number = task["held"] if method == "answer" else number
            result = self._of_task(method, task_id, task)
        if result is None:
            return []
        return [{"id": number, **(result if result.keys() == {"error"} else {"result": result})}]

    def _of_tools(self, method: str, params: Any) -> dict[str, Any] | None:
        is_v1, ref = self.version == V1, params.get("arguments", {}).get("ref")
        if method == "initialize":
            offers = {"tasks": {"requests": {"tools": {"call": {}}}}} if self.says.get("offers", True) else {}
            return {"protocolVersion": V1, "capabilities": offers, "serverInfo": {"name": "t", "version": "1"}}
        if method == "server/discover":
            offers = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
            return {"supportedVersions": [V2], "capabilities": offers, **COMPLETE}
        if method == "tools/list":
            execution = {"execution": {"taskSupport": self.support}} if is_v1 and self.support else {}
            return {"tools": [{"name": "work", "inputSchema": REF, **execution}], **COMPLETE}
        if method != "tools/call" or (is_v1 and "task" not in params):
            return _text(f"plainly {ref}") if ref else None
        self.made(ref)
        self.tasks[f"{SECRET}{ref}"] = {"ref": ref, "gets": 0}
        made = {**self._shown(f"{SECRET}{ref}"), **WORKING, **self.says.get("made", {})}
        return {"task": made} if is_v1 else {**made, "resultType": "task"}

    def _of_task(self, method: str, task_id: str, task: dict[str, Any]) -> dict[str, Any]:
        state, result = self._state(task), self.says.get("result", _text(f"done {task['ref']}"))
        if self.says.get("busy") and method.startswith("tasks/"):
            self.says["busy"] -= 1
            return {"error": {"code": -32603, "message": f"{task_id} is busy"}}
        if method in ("tasks/result", "answer"):
            return {"error": state["error"]} if "error" in state else dict(result)
        if method != "tasks/get":
            return {"resultType": "complete"}
        task["gets"] += state != ASKS
        shown = {**self._shown(task_id), **state}
        if self.version == V1:
            shown.pop("error", None)
        elif state in (DONE, ASKS):
            asks = {"q": {"method": "elicitation/create", "params": FORM}}
            shown |= {"result": result} if state == DONE else {"inputRequests": asks}
        return {name: value for name, value in {**shown, **self.says.get("get", {})}.items() if value is not None}

    def _state(self, task: dict[str, Any]) -> dict[str, Any]:
        return self.states[min(task["gets"], len(self.states) - 1)]

    def _shown(self, task_id: str) -> dict[str, Any]:
        ms, at = "" if self.version == V1 else "Ms", "2026-12-01T10:00:00Z"
        shown = {"taskId": task_id, "createdAt": at, "lastUpdatedAt": at, f"ttl{ms}": 60_000}
        return {**shown, f"pollInterval{ms}": self.says.get("poll", 0)}

    def made(self, ref: str) -> None:
        """Takes note of a call that has its effect."""


@asynccontextmanager
async def session_with(server: TaskServer, **options: Any) -> AsyncIterator[Any]:
    """A session of the SDK with a server in this process."""
    to_server, from_client = anyio.create_memory_object_stream[Any](100)
    to_client, from_server = anyio.create_memory_object_stream[Any](100)
    read: TypeAdapter[Any] = TypeAdapter(types.JSONRPCMessage)

    async def serve() -> None:
        async for item in from_client:
            for each in server.handle(item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)):
                with suppress(anyio.BrokenResourceError):  # the session is left
                    await to_client.send(SessionMessage(read.validate_python({"jsonrpc": "2.0", **each})))

    async with to_server, from_client, to_client, from_server, anyio.create_task_group() as group:
        group.start_soon(serve)
        async with ClientSession(from_server, to_server, **options) as session:
            await (session.initialize() if server.version == V1 else session.discover())
            yield session
        group.cancel_scope.cancel()


class KeptServer(TaskServer):
    """A process: keeps its tasks in a folder, with a log; at points of the folder's ``plan`` it kills and forgets."""

    folder = Path(sys.argv[1] if __name__ == "__main__" else "")

    def made(self, ref: str) -> None:
        """Writes the effect down."""
        self.point(f"effect {ref}")

    def point(self, line: str) -> None:
        with (self.folder / "log").open("a") as log:
            log.write(f"{line}\n")
        number = (self.folder / "log").read_text().count("\n")
        does = json.loads((self.folder / "plan").read_text()).get(str(number), "")
        if "forget" in does:
            self.tasks.clear()
        (self.folder / "new").write_text(json.dumps(self.tasks))
        (self.folder / "new").replace(self.folder / "tasks")
        for who, pid in (("client", os.getppid()), ("server", os.getpid())):
            if who in does:
                os.kill(pid, signal.SIGKILL)

    def serve(self) -> None:
        """Answers lines until they end."""
        if (self.folder / "tasks").exists():
            self.tasks = json.loads((self.folder / "tasks").read_text())
        for line in sys.stdin:
            message = json.loads(line)
            messages = self.handle(message)
            self.point(f"{message.get('method')} {message.get('params', {}).get('taskId')}")
            for each in messages:
                print(json.dumps({"jsonrpc": "2.0", **each}), flush=True)
            self.point("answered")


if __name__ == "__main__":
    KeptServer(sys.argv[2], *json.loads(sys.argv[3])).serve()
