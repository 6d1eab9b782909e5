"""One worker: the chat of ``examples/chat``, with its conversations where all workers have them."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import uvicorn

from ..chat.app import page_app  # type: ignore[import-not-found]  # for mypy, a folder here is a root


def main(records: str, folder: str, pause: float) -> None:
    """Serves until it is told to end, or whoever has started it is gone; prints its port."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    app = page_app(records, times=Path(folder) / f"times-{os.getpid()}", pause=pause)
    config = uvicorn.Config(_named(app), log_level="error", timeout_graceful_shutdown=1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(config).run([listener])


def _end_with_parent() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _named(app: Any) -> Any:
    """Adds a header that says which worker has answered."""

    async def with_name(scope: Any, receive: Any, send: Any) -> None:
        async def send_named(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-worker", str(os.getpid()).encode())]
            await send(message)

        await app(scope, receive, send_named)

    return with_name


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
