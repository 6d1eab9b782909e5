"""A page, played by a test: it asks the conversations of an app over ASGI, reads the answer, and may leave early."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from streamtools.framing import SSEDecoder

__all__ = ["Answer", "Page"]


class Answer:
    """The response to one request."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.ended = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def frames(self) -> list[tuple[str, str | None, Any]]:
        """The frames that were read: name, id, data."""
        decoder = SSEDecoder()
        found = [*decoder.feed(self.body), *decoder.finish()]
        ids = [line[4:] for line in self.body.decode().split("\n") if line.startswith("id: ")]
        return [(one.event, ids[at] if len(ids) == len(found) else None, _data(one.data))
                for at, one in enumerate(found)]  # fmt: skip

    @property
    def chunks(self) -> list[Any]:
        """The data of the frames."""
        return [data for _, _, data in self.frames]


def _data(data: str | bytes) -> Any:
    text = data if isinstance(data, str) else data.decode()
    return text if text == "[DONE]" else json.loads(text)


class Page:
    """Asks an ASGI application.

    Args:
        app: the application.
        headers: sent with each request.
    """

    def __init__(self, app: Any, **headers: str) -> None:
        self._app = app
        self._headers = headers

    def begin(self, tasks: TaskGroup, method: str, path: str, body: Any = None, **options: Any) -> list[Answer]:
        """Sends a request in a task of its own; its answer is put into the list."""
        answers: list[Answer] = []

        async def asked() -> None:
            answers.append(await self.ask(method, path, body, **options))

        tasks.start_soon(asked)
        return answers

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        leave: Callable[[Answer], bool] | None = None,
        last_event_id: str | None = None,
        begun: Callable[[], object] = lambda: None,
    ) -> Answer:
        """Sends a request; returns its answer, as far as it was read when `leave` returned True. Calls `begun` when it
        begins."""
        answer, gone = Answer(), anyio.Event()
        sent = False

        async def receive() -> dict[str, Any]:
            nonlocal sent
            if not sent:
                sent = True
                raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
                return {"type": "http.request", "body": raw, "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if gone.is_set():
                raise OSError("the client has gone")
            if message["type"] == "http.response.start":
                begun()
                answer.status = message["status"]
                answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
                return
            answer.body += message.get("body", b"")
            answer.ended = not message.get("more_body", False)
            if leave is not None and not answer.ended and leave(answer):
                gone.set()

        headers = [(name.encode(), value.encode()) for name, value in self._headers.items()]
        if last_event_id is not None:
            headers.append((b"last-event-id", last_event_id.encode()))
        path, _, query = path.partition("?")
        scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "root_path": "",
                 "headers": headers}  # fmt: skip
        with anyio.fail_after(30):
            await self._app(scope, receive, send)
        return answer
