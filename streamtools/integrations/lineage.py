"""Finds the request that running code is of, by its context variables: the latest one of its own context, or of the
context that its own was copied from; and whether a context variable has changed since.

Tasks copy the context of the code that starts them, and so do `asyncio.to_thread` and anyio's threads. One context may
serve several users, one after the other (a worker with a queue, a pool of threads): their requests differ in the
variables that say for whom the code runs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar, copy_context
from typing import Any

from ..observers import EarlyEnd

_ABSENT = object()

_OF_FRAMEWORKS = frozenset(
    {
        *("agent_framework", "agents", "agno", "anthropic", "anyio", "google", "httpcore", "httpx", "httpx2"),
        *("langchain", "langchain_core", "langgraph", "langsmith", "llama_index"),
        *("llama_index_instrumentation", "logfire", "openai", "openinference", "opentelemetry"),
        *("pydantic_ai", "pydantic_graph", "sniffio", "streamtools", "strands", "trio", "workflows"),
    }
)
"""The packages whose own variables change between a request and the calls of its response: the current run, span or
node. They say nothing about the user that the program has not said in a variable of its own."""


class Request:
    __slots__ = ("_context", "is_behind", "see_early")

    def __init__(self) -> None:
        self.see_early: Callable[[EarlyEnd], object] = _nothing
        """Shows the observers of its response what has become of a call; to be set."""
        self.is_behind: Callable[[], bool] = bool
        """Returns whether some of its response has been read by the client and has not been decoded; to be set."""
        _latest.set(self)
        self._context = copy_context()

    @staticmethod
    def of_this_context() -> Request | None:
        """Returns the latest request of this context, or of the one from which it was copied; None if there is none."""
        return _latest.get(None)

    def changed(self) -> str | None:
        before, now = self._context, copy_context()
        for variable in {*before, *now}:
            one, other = before.get(variable, _ABSENT), now.get(variable, _ABSENT)
            if one is not other and not _is_same(one, other) and not _is_of_a_framework(variable):
                return str(variable.name)
        return None


def _nothing(end: EarlyEnd) -> None:
    """Shows it to nobody: the response is none of a model's."""


_latest: ContextVar[Request] = ContextVar("streamtools_request")


def _is_same(one: Any, other: Any) -> bool:
    if any(type(value).__module__.startswith("opentelemetry.") for value in (one, other)):
        return _carried(one) == _carried(other)
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:  # of the user's own code
        return False


def _carried(context: Any) -> dict[str, Any]:
    """Returns what OpenTelemetry's one variable carries beside the current span: its baggage, which may name a user."""
    items = context.items() if isinstance(context, Mapping) else ()
    return {key: value for key, value in items if not key.startswith(("current-span-", "suppress_"))}


@functools.lru_cache(maxsize=256)
def _is_of_a_framework(variable: ContextVar[Any]) -> bool:
    # A variable does not know where it was made. All modules take some milliseconds, once for each that has changed.
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _OF_FRAMEWORKS and any(value is variable for value in _values(module)):
            return True
    return False


def _values(module: Any) -> list[Any]:
    return list(getattr(module, "__dict__", {}).values())
