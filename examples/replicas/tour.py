"""What happens to a conversation whose workers are killed, printed: ``python -m examples.replicas --demo``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx

CHAT = "lisbon"


class Tour:
    """A page without a screen, by way of the balancer's *port*."""

    def __init__(self, port: int, names: Callable[[int], str]) -> None:
        self._client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/chats", timeout=30, trust_env=False)
        self._names = names  # of workers, by process
        self._last_id = ""
        self._asked: dict[str, Any] = {}
        self._outcome = ""

    async def run(self, restart: Callable[[], None] | None) -> None:
        """Asks, kills who answers, decides, and loads the conversation from each worker."""
        async with self._client:
            message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Lisbon or Porto?"}]}
            await self._read("POST", {"id": CHAT, "messages": [message]}, kills_behind=12)
            while self._outcome != "suspended":
                await self._read("GET")
            print(f"The run waits for a person: {self._asked['tool_name']} {json.dumps(self._asked['arguments'])}")
            if restart is not None:
                await asyncio.to_thread(restart)
                print("Postgres was ended where it stood, and started again.")
            approval = {"id": self._asked["approval_id"], "approved": True}
            part = {"type": "tool-book", "toolCallId": self._asked["call_id"], "state": "approval-responded"}
            parts = [{"type": "step-start"}, part | {"approval": approval}]
            answer = {"id": f"{CHAT}/1", "role": "assistant", "parts": parts}
            await self._read("POST", {"id": CHAT, "messages": [message, answer]}, kills_behind=6)
            while self._outcome != "answered":
                await self._read("GET")
            await self._load()

    async def _read(self, method: str, body: Any = None, *, kills_behind: int = 0) -> None:
        """Reads the stream of the run to its end, or until the worker that sends it is killed."""
        behind = {"last-event-id": self._last_id} if method == "GET" and self._last_id else {}
        async with self._client.stream(method, f"/{CHAT}/events", json=body, headers=behind) as answer:
            if answer.status_code != 200:
                await asyncio.sleep(0.2)  # nothing yet, or the database is away
                return
            worker, count = int(answer.headers["x-worker"]), 0
            what = "takes the request" if method == "POST" else f"reads on behind frame {self._last_id}"
            print(f"{self._names(worker)} {what}.")
            try:
                async for name, data in self._frames(answer):
                    count += 1
                    if name == "approval_requested":
                        self._asked = data
                    elif name == "observation":
                        how = "known from the record" if data.get("recorded") else "has run"
                        print(f"  {data['tool_name']}: {data['outcome']}, {how}")
                    elif name == "attempt_discarded":
                        print("  Frames of the dead worker that nobody has kept are taken back.")
                    elif name == "run_end":
                        self._outcome = data["outcome"]
                        print(f"  The run is {self._outcome}.")
                    if count == kills_behind:
                        os.kill(worker, signal.SIGKILL)
                        print(f"{self._names(worker)} is killed, with kill -9.")
            except httpx.TransportError:
                print("  The stream has broken off.")

    async def _frames(self, answer: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                self._last_id = fields.get("id", self._last_id)
                yield fields["event"], json.loads(fields["data"])
                fields = {}

    async def _load(self) -> None:
        """Loads the conversation until each worker has answered, and compares."""
        loaded, content = dict[str, bytes](), b""
        while len(loaded) < 4:
            answer = await self._client.get(f"/{CHAT}", headers={"connection": "close"})
            loaded[answer.headers["x-worker"]] = content = answer.content
        parts = json.loads(content)["messages"][-1]["parts"]
        booked = [part["output"] for part in parts if part["type"] == "tool-book"]
        print(f"All {len(loaded)} workers have the same conversation: {len(set(loaded.values())) == 1}")
        print(f"Booked: {booked}")
