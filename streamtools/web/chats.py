"""Serves the conversations of a web application: a page starts a run, joins it, leaves it, stops it."""

from __future__ import annotations

from typing import Literal

from .app import ChatApp, May
from .bodies import MAX_BYTES
from .runs import ChatRuns


class Chats(ChatRuns):
    """The conversations of a web application, with runs that outlive their requests.

    Args:
        records: the storage for any number of processes: the path of a file, the address of a database
            (``postgresql://…``, ``redis://…``) or a store, such as a `SqliteStore`.
        run: makes the run of a conversation, with ``**chat.options``; it may be async. It is called again to continue a
            run, and has to make the same one. It is also called for a run that is not entered: to learn whether the
            wire takes a file, and whether a waiting run can continue.
        journal: a `Journal` with its own limits, instead of `records`.
        keep: seconds for which an unchanged conversation is kept; then it is removed as by `delete`, a few at a time as
            others begin, and by `recover`. None: until it is removed.
        privacy: the policy for everything that leaves a conversation: its runs, and their messages that are read later.

    Raises:
        TypeError: `run` is not a function, or neither or both of `records` and `journal` are given.
        ValueError: `keep` is out of range, or an address is invalid.
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
        """Returns the conversations as an ASGI application to mount; the arguments are those of `ChatApp`."""
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
