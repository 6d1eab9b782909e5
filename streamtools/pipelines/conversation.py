"""Puts a run's conversation into the model's words: the requests, the history, and the results of calls that waited.

Without a mode these are the wire's own, with the tools exported for it. A mode (`streamtools.modes`) has words of its
own: fields of the request instead of a list of tools, payloads and results as text, and turns that only think.

A request is an awaitable, whose result is the stream. It is awaited within the times of its step and its run: one that
takes too long is cancelled, and is a `DeadlineExceeded` that names the limit.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Literal, Protocol

from anyio import move_on_after

from ..errors import DeadlineExceeded
from ..events import Observation
from ..exports import Exports, export_all
from ..history import with_results
from ..limits import Limits
from ..modes import NativeToolAdapter, StreamingAdapter, ToolCallingAdapter
from ..tools import AnyTool, AnyTools
from ..turn import Turn
from ..wires import Wire, find

__all__ = ["Conversation", "conversation_of", "in_time"]


class Conversation(Protocol):
    """Writes all that the model reads."""

    @property
    def tools(self) -> Sequence[AnyTool]:
        """The tools for each step's pipeline."""
        ...

    def request(self, messages: list[Any]) -> tuple[list[Any], Any]:
        """Returns the messages of a request, and the tools or fields to send with them.

        Raises:
            ExportError: a tool cannot be expressed.
        """
        ...

    def messages(self, turn: Turn) -> list[Any]:
        """Returns the messages to append after a turn."""
        ...

    def with_results(self, messages: list[Any], results: Iterable[Observation]) -> list[Any]:
        """Returns a history with the results of calls that waited.

        Raises:
            ValueError: the calls are not in the history.
        """
        ...

    def only_thinks(self, turn: Turn) -> bool:
        """Returns whether a turn neither calls nor answers, so that the model is to be asked again."""
        ...


def conversation_of(
    tools: AnyTools | Exports,
    wire: Wire | str,
    mode: StreamingAdapter | None,
    *,
    strict: bool | Literal["where_possible"],
) -> Conversation:
    """Returns the conversation of a run; the arguments are those of `agent_loop`."""
    if mode is None:
        exports = tools if isinstance(tools, Exports) else export_all(tools, wire, strict=strict)
        return _WireConversation(exports, wire)
    _check(mode, wire)
    if strict is not False:
        raise TypeError("strict= is for the export to a wire; with mode=, it is an option of the adapter")
    return _ModeConversation(tools if isinstance(tools, Exports) else list(tools), mode)


def _check(mode: Any, wire: Wire | str) -> None:
    """Refuses a mode that cannot hold a conversation on the wire."""
    if not isinstance(mode, StreamingAdapter):
        hint = "ValidatedAdapter(yours)" if isinstance(mode, ToolCallingAdapter) else "get_adapter('mistral-7b')"
        raise TypeError(f"mode is an adapter of streamtools.modes, say {hint}, not {type(mode).__name__}")
    inner = getattr(mode, "base", mode)
    if isinstance(inner, NativeToolAdapter) and inner.wire != (name := find(wire).name):
        raise ValueError(f"mode {inner!r} writes for another wire than wire={name!r}; pass NativeToolAdapter({name!r})")


class _WireConversation:
    """A conversation in the wire's own words."""

    def __init__(self, exports: Exports, wire: Wire | str) -> None:
        self.tools: Sequence[AnyTool] = exports
        self._exports = exports
        self._wire = wire

    def request(self, messages: list[Any]) -> tuple[list[Any], Any]:
        return messages, list(self._exports.payloads)

    def messages(self, turn: Turn) -> list[Any]:
        return turn.messages(self._wire)

    def with_results(self, messages: list[Any], results: Iterable[Observation]) -> list[Any]:
        return with_results(messages, results, self._wire)

    def only_thinks(self, turn: Turn) -> bool:
        return False


class _ModeConversation:
    """A conversation in the words of a mode."""

    def __init__(self, tools: Sequence[AnyTool], mode: StreamingAdapter) -> None:
        self.tools = tools
        self._mode = mode

    def request(self, messages: list[Any]) -> tuple[list[Any], Any]:
        fields = dict(self._mode.format_request(self.tools, messages))
        return fields.pop("messages", messages), fields

    def messages(self, turn: Turn) -> list[Any]:
        return self._mode.messages(turn)

    def with_results(self, messages: list[Any], results: Iterable[Observation]) -> list[Any]:
        return self._mode.with_results(messages, results)

    def only_thinks(self, turn: Turn) -> bool:
        return self._mode.only_thinks(turn)


# -- a request within its time -----------------------------------------------------------------------------------------


async def in_time(request: Awaitable[Any], limits: Limits, *, requested_at: float, began_at: float) -> Any:
    """Awaits a request, within the times for the first chunk and the run.

    Args:
        request: the request.
        limits: the times.
        requested_at: when it was made, on ``time.monotonic``.
        began_at: when the run began.

    Raises:
        DeadlineExceeded: it took too long.
    """
    ends = [
        (began + seconds, name, seconds)
        for name, seconds, began in (
            ("first_chunk_timeout", limits.first_chunk_timeout, requested_at),
            ("run_timeout", limits.run_timeout, began_at),
        )
        if seconds is not None
    ]
    if not ends:
        return await request
    end, name, seconds = min(ends)
    with move_on_after(end - time.monotonic()):
        return await request
    raise DeadlineExceeded(name, seconds, "the request was not answered")
