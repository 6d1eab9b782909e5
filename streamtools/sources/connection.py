"""Splits a connection that carries several responses into a stream for each."""

from __future__ import annotations

from typing import Any

from ..limits import Limits
from .kinds import connection_of
from .source import open_source
from .splitting import Responses, responses_of

__all__ = ["responses"]


def responses(stream: Any, *, limits: Limits = Limits()) -> Responses:
    """Splits a connection of the Responses API, of Realtime or of Gemini's Live API into its responses: lanes,
    successors after steering, a gateway's rounds.

    Pass each one to `pipeline`, in a task of its own if several are open at once, or return it from `agent_loop`'s
    ``call_model``. A connection is read only while somebody waits, and events that somebody else will want are kept
    within ``max_waiting_bytes``. A reader that is cancelled while it waits cancels the connection's read with it, so
    read every response to its end if the connection is an async generator.

    A connection that is read by `recv` has one such object, which `pipeline(connection)` shares, and its socket stays
    open: leaving the block or closing this object ends the splitting alone.

    Args:
        stream: anything that `pipeline` takes; the connection of OpenAI's SDK and the session of Google's, too.
        limits: bounds ``max_open_responses``, ``max_waiting_bytes`` and the framing.

    Raises:
        TypeError: this cannot be streamed.
    """
    if (connection := connection_of(stream)) is not None:
        return responses_of(connection, limits)
    return Responses(open_source(stream, limits), limits)
