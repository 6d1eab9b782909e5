"""Serves runs to web pages: conversations that outlive their requests, over useChat, AG-UI and EventSource.

chats = Chats(records="chats.db", run=answer)
app.mount("/api/chat", chats.app(may=who_may))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ground import names

if TYPE_CHECKING:
    from .ag_ui import AGUI
    from .app import ChatApp, PageRequest
    from .chats import Chats
    from .encoding import Encoder
    from .own import OwnEvents
    from .runs import Chat
    from .ui_messages import UIMessages
else:
    __getattr__ = names(
        __name__,
        {
            "ag_ui": "AGUI",
            "app": "ChatApp PageRequest",
            "chats": "Chats",
            "encoding": "Encoder",
            "own": "OwnEvents",
            "runs": "Chat",
            "ui_messages": "UIMessages",
        },
    )

__all__ = [
    "AGUI", "Chat", "ChatApp", "Chats", "Encoder", "OwnEvents", "PageRequest", "UIMessages",
]  # fmt: skip
