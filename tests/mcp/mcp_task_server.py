"""A scripted MCP server whose tool ``work`` runs as a task: in memory, or a process that keeps its tasks in a folder.

A task goes on by one of `states` with each ``tasks/get``, and stays in the last. As a process it counts points, at
which it kills its client, or itself, as the folder's ``plan`` says.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

if __name__ != "__main__":
    import anyio
    from mcp import ClientSession, types
    from mcp.shared.message import SessionMessage
    from pydantic import TypeAdapter

V1, V2 = "2025-11-25", "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
WORKING, DONE, ASKS = {"status": "working"}, {"status": "completed"}, {"status": "input_required"}
REF = {"type": "object", "properties": {"ref": {"type": "string"}}, "required": ["ref"]}
FORM = {"message": "Where?", "requestedSchema": {"type": "object", "properties": {"city": {"type": "string"}}}}
SECRET = "task-0f3a-of-"


class TaskServer:
    """Answers messages; `states` are those of each task, and further options change what it says."""

    def __init__(self, version: str, *states: dict[str, Any], support: Any = "optional", **says: Any) -> None:
        self.version, self.states, self.support, self.says = version, states or (DONE,), support, says
        self.tasks: dict[str, dict[str, Any]] = {}
        self.received: list[dict[str, Any]] = []
        self.held: dict[str, Any] = {}  # ids of ``tasks/result`` that wait for an answer, by their tasks

    def asked(self, *methods: str) -> list[str]:
        """The methods that were asked for, but those of the handshake."""
        seen = [str(one["method"]) for one in self.received if "method" in one]
        return [one for one in seen if (one in methods if methods else one.startswith("t"))]

    def handle(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """The server's messages in answer to one."""
        self.received.append(message)
        if "method" not in message:
            return self._told(message)
        answer: Any = getattr(self, "_" + message["method"].replace("/", "_"), lambda params, number: None)
        result = answer(message.get("params", {}), message.get("id"))
        if result is None or "id" not in message:
            return []
        if isinstance(result, list):
            return result
        return [{"id": message["id"], **(result if "error" in result and len(result) == 1 else {"result": result})}]

    def _initialize(self, params: Any, number: Any) -> Any:
        offers: Any = {"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
        offers = {} if self.says.get("offers") is False else offers
        server = {"name": "tasks", "version": "1"}
        return {"protocolVersion": V1, "capabilities": {"tools": {}, **offers}, "serverInfo": server}

    def _server_discover(self, params: Any, number: Any) -> Any:
        offers = {"tools": {}, "extensions": {TASKS: {}}}
        return {"supportedVersions": [V2], "capabilities": offers, "resultType": "complete", **CACHED}

    def _tools_list(self, params: Any, number: Any) -> Any:
        execution = {} if self.support is None or self.version == V2 else {"execution": {"taskSupport": self.support}}
        return {"tools": [{"name": "work", "inputSchema": REF, **execution}], "resultType": "complete", **CACHED}

    def _tools_call(self, params: Any, number: Any) -> Any:
        ref = params["arguments"]["ref"]
        if self.version == V1 and "task" not in params:
            return _text(f"plainly {ref}")
        self.made(ref)
        task = self.tasks[f"{SECRET}{ref}"] = {"ref": ref, "gets": 0, "answers": None}
        shown = {**self._shown(f"{SECRET}{ref}", task), **WORKING, **self.says.get("made", {})}
        return {"task": shown} if self.version == V1 else {**shown, "resultType": "task"}

    def _tasks_get(self, params: Any, number: Any) -> Any:
        if (task := self.tasks.get(params["taskId"])) is None or self.says.get("lost"):
            return {"error": {"code": -32602, "message": "Failed to retrieve task: Task not found"}}
        state = self.states[min(task["gets"], len(self.states) - 1)]
        task["gets"] += state["status"] != "input_required"
        shown = {**self._shown(params["taskId"], task), "resultType": "complete", **state}
        if "error" in state and self.version == V1:
            del shown["error"]
        if self.version == V2 and state["status"] == "completed":
            shown["result"] = self.says.get("result", _text(f"done {task['ref']}"))
        if self.version == V2 and state["status"] == "input_required":
            shown["inputRequests"] = {"q": {"method": "elicitation/create", "params": FORM}}
        return {key: value for key, value in {**shown, **self.says.get("get", {})}.items() if value is not None}

    def _tasks_result(self, params: Any, number: Any) -> Any:
        if self.says.get("once"):
            return self.says["once"].pop()
        task = self.tasks[params["taskId"]]
        state = self.states[min(task["gets"], len(self.states) - 1)]
        if state["status"] == "input_required":
            self.held[params["taskId"]] = number
            related = {RELATED: {"taskId": params["taskId"]}}
            return [
                {"id": f"q{params['taskId']}", "method": "elicitation/create", "params": {**FORM, "_meta": related}}
            ]
        return self.says.get("result") or state.get("result") or self._end(task, state)

    def _tasks_update(self, params: Any, number: Any) -> Any:
        task = self.tasks[params["taskId"]]
        task["answers"], task["gets"] = params["inputResponses"]["q"], task["gets"] + 1
        return {"resultType": "complete"}

    def _tasks_cancel(self, params: Any, number: Any) -> Any:
        return {"resultType": "complete"}

    def _told(self, message: Any) -> list[dict[str, Any]]:
        task_id = str(message["id"])[1:]
        task = self.tasks[task_id]
        task["answers"], task["gets"] = message["result"], task["gets"] + 1
        return [{"id": self.held.pop(task_id), "result": self._end(task, DONE)}]

    def _shown(self, task_id: str, task: dict[str, Any]) -> dict[str, Any]:
        ms = "" if self.version == V1 else "Ms"
        at = {"createdAt": "2026-12-01T10:00:00Z", "lastUpdatedAt": "2026-12-01T10:00:00Z"}
        return {"taskId": task_id, **at, f"ttl{ms}": 60_000, f"pollInterval{ms}": self.says.get("poll", 0)}

    def _end(self, task: dict[str, Any], state: Any) -> Any:
        if "error" in state:
            return {"error": state["error"]}
        city = (task["answers"] or {}).get("content")
        return _text(f"done {task['ref']}{f' in {city}' if city else ''}")

    def made(self, ref: str) -> None:
        """Takes note of a call that has its effect."""


CACHED = {"ttlMs": 0, "cacheScope": "private"}


def _text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


@asynccontextmanager
async def session_with(server: TaskServer, **options: Any) -> AsyncIterator[Any]:
    """A session of the SDK with a server in this process."""
    to_server, from_client = anyio.create_memory_object_stream[Any](100)
    to_client, from_server = anyio.create_memory_object_stream[Any](100)
    read: TypeAdapter[Any] = TypeAdapter(types.JSONRPCMessage)

    async def serve() -> None:
        async for item in from_client:
            message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            for each in server.handle(message):
                await to_client.send(SessionMessage(read.validate_python({"jsonrpc": "2.0", **each})))

    async with to_server, from_client, to_client, from_server, anyio.create_task_group() as group:
        group.start_soon(serve)
        async with ClientSession(from_server, to_server, **options) as session:
            await (session.initialize() if server.version == V1 else session.discover())
            yield session
        group.cancel_scope.cancel()


# -- as a process ------------------------------------------------------------------------------------------------------


class KeptServer(TaskServer):
    """Keeps its tasks in a folder, and a log of what was asked; kills and forgets at points of all its lives."""

    def __init__(self, folder: Path, version: str, states: list[dict[str, Any]]) -> None:
        super().__init__(version, *states)
        self.folder, self.plan = folder, json.loads((folder / "plan").read_text())
        kept = folder / "tasks"
        self.tasks = json.loads(kept.read_text()) if kept.exists() else {}

    def made(self, ref: str) -> None:
        """Writes the effect down."""
        self.note(f"effect {ref}")
        self.point()

    def note(self, line: str) -> None:
        with (self.folder / "log").open("a") as log:
            log.write(f"{line}\n")

    def point(self) -> None:
        self.note("point")
        number = (self.folder / "log").read_text().split("\n").count("point")
        does = self.plan.get(str(number), "")
        if "forget" in does:
            self.tasks.clear()
            self.keep()
        if "client" in does:
            os.kill(os.getppid(), signal.SIGKILL)
        if "server" in does:
            os.kill(os.getpid(), signal.SIGKILL)

    def keep(self) -> None:
        (self.folder / "new").write_text(json.dumps(self.tasks))
        (self.folder / "new").rename(self.folder / "tasks")

    def serve(self) -> None:
        """Answers lines until they end."""
        for line in sys.stdin:
            message = json.loads(line)
            self.note(f"{message.get('method')} {message.get('params', {}).get('taskId')}")
            messages = self.handle(message)
            self.keep()
            self.point()
            for each in messages:
                print(json.dumps({"jsonrpc": "2.0", **each}), flush=True)
            self.point()


if __name__ == "__main__":
    KeptServer(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])).serve()
