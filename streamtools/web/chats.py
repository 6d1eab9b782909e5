"""Serves the conversations of a web application: a page starts a run, joins it, leaves it, stops it."""

from __future__ import annotations

from typing import Literal

from .app import ChatApp, May
from .bodies import MAX_BYTES
from .runs import ChatRuns


class Chats(ChatRuns):
    """The conversations of a web application, and the runs in them, which outlive their requests.

    Args:
        records: keeps all of it, for any number of processes: the path of a file, the address of a database
            (``postgresql://…``, ``redis://…``) or a store, such as a `SqliteStore`.
        run: makes the run of a conversation, with ``**chat.options``; it may be async. For a run that goes on it is
            called again, and has to make the same one. It is also called for a run that is not entered: to learn
            whether the wire takes a file, and whether a run that waits can go on.
        journal: keeps all of it, in place of `records`: a `Journal`, with bounds of its own.
        keep: for how many seconds a conversation is kept in which nothing has changed; then it is removed as by
            `delete`, a few at a time as others begin, and by `recover`. None: until somebody removes it.
        privacy: what leaves of each conversation: the policy of its runs, and of what is read of them later.

    Raises:
        TypeError: `run` is no function, or there is nothing that keeps runs, or there are two.
        ValueError: `keep` is out of range, or an address cannot be read.
    """

    def app(
        self,
        *,
        may: May,
        max_bytes: int = MAX_BYTES,
        heartbeat: float = 15.0,
        send_timeout: float = 60.0,
        receive_timeout: float = 60.0,
        ai_version: Literal[6, 7] = 7,
        max_turns: int = 100,
    ) -> ChatApp:
        """Returns the conversations as an ASGI application, to be mounted; the arguments are those of `ChatApp`."""
        return ChatApp(
            self,
            may=may,
            max_bytes=max_bytes,
            heartbeat=heartbeat,
            send_timeout=send_timeout,
            receive_timeout=receive_timeout,
            ai_version=ai_version,
            max_turns=max_turns,
        )
