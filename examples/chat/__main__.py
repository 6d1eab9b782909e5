"""Serves a chat and its pages on loopback: ``make chat``. The model is a script, so no key is needed."""

from __future__ import annotations

import sys
from pathlib import Path

try:
    import uvicorn

    from .app import CLIENTS, clients, page_app
except ModuleNotFoundError as error:
    sys.exit(f"{error.name} is not installed. make chat installs it; by hand: pip install starlette uvicorn")

PORT = 8000


def main() -> None:
    """Serves until it is interrupted; keeps the conversations in chats.db."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else PORT
    print(f"The chat is at http://127.0.0.1:{port}/ (conversations: {Path('chats.db').absolute()}); Ctrl+C ends it.")
    if missing := set(CLIENTS) - set(clients()):
        print(f"Not here: {', '.join(sorted(missing))}. `make chat` bundles these pages where node and npm are.")
    # A page that reads on would hold the server back.
    uvicorn.run(page_app("chats.db"), port=port, log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main()
