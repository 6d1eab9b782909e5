"""A model on this machine for the programs of the wires' pages: it calls `get_weather`, then answers its result.

It speaks eight wires, over HTTP and WebSocket, and refuses a request that does not declare the tool. A program
runs with `ScriptedModel.variables` in its environment; `redirect` sends there the SDKs that have no variable for it.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

__all__ = ["ScriptedModel", "redirect", "variables"]

SOCKET = "SCRIPTED_SOCKET"
CALL = ("call00001", "get_weather", '{"city": "Oslo"}')  # nine letters and digits: Mistral's ids
RESULT = "Oslo: rain"
ANSWER = "It rains in Oslo."
JSON_LINES, FRAMES, EVENTS = "application/x-ndjson", "application/vnd.amazon.eventstream", "text/event-stream"


class ScriptedModel:
    """Serves while the block runs; `variables` is the environment of a program."""

    def __enter__(self) -> ScriptedModel:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
        self._listening = threading.Event()
        self._threads = [
            threading.Thread(target=self._http.serve_forever, daemon=True),
            threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        assert self._listening.wait(5)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._loop.call_soon_threadsafe(self._stop.set)
        for thread in self._threads:
            thread.join(5)

    @property
    def variables(self) -> dict[str, str]:
        """The variables in which the SDKs look for a provider and its key."""
        return variables(f"http://127.0.0.1:{self._http.server_port}", f"127.0.0.1:{self._port}")

    async def _serve(self) -> None:
        from websockets.asyncio.server import serve

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with serve(_talk, "127.0.0.1", 0) as server:
            self._port = next(iter(server.sockets)).getsockname()[1]
            self._listening.set()
            await self._stop.wait()


def variables(url: str, socket: str) -> dict[str, str]:
    """The environment of a program whose SDK asks the server at *url*, or at the address *socket*."""
    keys = ("OPENAI_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY", "CO_API_KEY", "AWS_ACCESS_KEY_ID")
    return {
        **dict.fromkeys([*keys, "AWS_SECRET_ACCESS_KEY"], "unused"),
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
        "CO_API_URL": url,
        "GOOGLE_GEMINI_BASE_URL": url,
        "OLLAMA_HOST": url,
        "OPENAI_BASE_URL": f"http://{socket}/v1",
        SOCKET: f"ws://{socket}",
    }


def redirect(program: str) -> None:
    """Sends Mistral's SDK, which has no variable, and Google's sockets, which insist on encryption, to the server."""
    if "mistralai" in program:
        from mistralai.client import sdkconfiguration  # type: ignore[import-not-found, unused-ignore]

        sdkconfiguration.SERVERS[sdkconfiguration.SERVER_GLOBAL] = os.environ["OLLAMA_HOST"]
    if ".live." in program:
        from google.genai import live
        from websockets.asyncio.client import connect

        def unencrypted(uri: str, **options: Any) -> Any:
            return connect(os.environ[SOCKET] + "/live", additional_headers=options.get("additional_headers"))

        live.ws_connect = unencrypted  # type: ignore[assignment, misc, unused-ignore]


# -- HTTP --------------------------------------------------------------------------------------------------------------


class _Answers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = self.rfile.read(int(self.headers["content-length"])).decode()
        [(content_type, script)] = [found for place, found in SCRIPTS.items() if place in self.path]
        declared = '"get_weather"' in request
        self.send_response(200 if declared else 400)
        self.send_header("content-type", content_type if declared else "text/plain")
        self.end_headers()
        self.wfile.write(b"".join(script(RESULT in request)) if declared else b"the tool is not declared")

    def log_message(self, format: str, *args: Any) -> None:
        """Writes nothing."""


def _gemini(answered: bool) -> list[bytes]:
    from gemini_streams import gemini

    return gemini([ANSWER]) if answered else gemini(["Let me see. "], [(CALL[1], json.loads(CALL[2]))])


def _interactions(answered: bool) -> Iterator[bytes]:
    head = {"id": f"v1_{answered:d}", "model": "scripted"}
    if answered:
        step, delta = {"type": "model_output"}, {"type": "text", "text": ANSWER}
    else:
        step = {"type": "function_call", "id": CALL[0], "name": CALL[1], "arguments": {}}
        delta = {"type": "arguments_delta", "arguments": CALL[2]}
    status = "completed" if answered else "requires_action"
    for event in (
        {"event_type": "interaction.created", "interaction": {**head, "status": "in_progress"}},
        {"event_type": "step.start", "index": 0, "step": step},
        {"event_type": "step.delta", "index": 0, "delta": delta},
        {"event_type": "step.stop", "index": 0},
        {"event_type": "interaction.completed", "interaction": {**head, "status": status}},
    ):
        yield f"event: {event['event_type']}\ndata: {json.dumps(event)}\n\n".encode()
    yield b"event: done\ndata: [DONE]\n\n"


def _mistral(answered: bool) -> list[bytes]:
    from mistral_streams import mistral

    return mistral(ANSWER) if answered else mistral("Let me see.", calls=[CALL], finish="tool_calls")


def _cohere(answered: bool) -> list[bytes]:
    from cohere_streams import block, cohere, plan

    return cohere(*block(0, ANSWER)) if answered else cohere(*plan("Look."), calls=[CALL], finish="TOOL_CALL")


def _ollama(answered: bool) -> Iterator[bytes]:
    call = {"function": {"name": CALL[1], "arguments": json.loads(CALL[2])}}
    message: dict[str, Any] = {"role": "assistant", "content": ANSWER if answered else ""}
    lines = [{"message": message if answered else {**message, "tool_calls": [call]}, "done": False}]
    lines.append({"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"})
    for line in lines:
        yield json.dumps({"model": "scripted", **line}).encode() + b"\n"


def _converse(answered: bool) -> list[bytes]:
    from bedrock_streams import converse

    return converse([ANSWER], stop="end_turn") if answered else converse(["Let me see."], [CALL])


SCRIPTS: dict[str, tuple[str, Callable[[bool], Any]]] = {
    ":streamGenerateContent": (EVENTS, _gemini),
    "/interactions": (EVENTS, _interactions),
    "/v1/chat/completions": (EVENTS, _mistral),
    "/v2/chat": (EVENTS, _cohere),
    "/api/chat": (JSON_LINES, _ollama),
    "/converse-stream": (FRAMES, _converse),
}
"""A part of the path; the type of the answer, and the answer: to a result if that was sent."""


# -- WebSocket ---------------------------------------------------------------------------------------------------------


async def _talk(socket: Any) -> None:
    script = _live if socket.request.path.startswith("/live") else _realtime
    sent = ""
    async for message in socket:
        sent += message
        for event in script(json.loads(message), sent):
            await socket.send(json.dumps(event))


def _realtime(request: dict[str, Any], sent: str) -> Iterator[dict[str, Any]]:
    if request["type"] != "response.create" or '"get_weather"' not in sent:
        return
    answered = RESULT in sent
    if answered:
        text = {"type": "output_text", "text": ANSWER}
        item = {"id": "item_2", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    else:
        call = dict(zip(("call_id", "name", "arguments"), CALL, strict=True))
        item = {"id": "item_1", "object": "realtime.item", "type": "function_call", "status": "completed", **call}
    head = {"object": "realtime.response", "id": f"resp_{answered:d}"}
    inside = {"response_id": head["id"], "output_index": 0, "event_id": "event_1"}
    yield {"type": "response.created", "event_id": "event_1", "response": {**head, "status": "in_progress"}}
    yield {"type": "response.output_item.added", **inside, "item": {**item, "status": "in_progress"}}
    yield {"type": "response.output_item.done", **inside, "item": item}
    done = {**head, "status": "completed", "output": [item]}
    yield {"type": "response.done", "event_id": "event_1", "response": done}


def _live(request: dict[str, Any], sent: str) -> Iterator[dict[str, Any]]:
    if "setup" in request:
        yield {"setupComplete": {"sessionId": "session-1"}}
    elif RESULT in sent:
        yield {"serverContent": {"modelTurn": {"role": "model", "parts": [{"text": ANSWER}]}}}
        yield {"serverContent": {"turnComplete": True}}
    elif '"get_weather"' in sent:
        call = {"id": CALL[0], "name": CALL[1], "args": json.loads(CALL[2])}
        yield {"toolCall": {"functionCalls": [call]}}
