"""Shows runs to pages: conversations that outlive their requests, in the words of the protocols that clients speak.

chats = Chats(journal="chats.db", run=answer)
app.mount("/api/chat", chats.app(may=who_may))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..on_demand import names

if TYPE_CHECKING:
    from .ag_ui import AGUI
    from .app import ChatApp, PageRequest
    from .chat_completions import ChatCompletions
    from .chats import Chats
    from .encoding import Encoder
    from .log import Log, MemoryLog, SqliteLog
    from .openapi import event_responses
    from .own import OwnEvents
    from .plain_text import PlainText
    from .runs import Chat
    from .ui_messages import UIMessages
else:
    __getattr__ = names(
        __name__,
        {
            "ag_ui": "AGUI",
            "app": "ChatApp PageRequest",
            "chat_completions": "ChatCompletions",
            "chats": "Chats",
            "encoding": "Encoder",
            "log": "Log MemoryLog SqliteLog",
            "openapi": "event_responses",
            "own": "OwnEvents",
            "plain_text": "PlainText",
            "runs": "Chat",
            "ui_messages": "UIMessages",
        },
    )

__all__ = [
    "AGUI",
    "Chat",
    "ChatApp",
    "ChatCompletions",
    "Chats",
    "Encoder",
    "Log",
    "MemoryLog",
    "OwnEvents",
    "PageRequest",
    "PlainText",
    "SqliteLog",
    "UIMessages",
    "event_responses",
]
