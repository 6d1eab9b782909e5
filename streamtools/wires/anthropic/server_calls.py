"""Calls that the provider ran itself, and their results: which of them stand alone.

A call and its result stand in the model's own messages. The API refuses one without the other, whatever else is there.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..rules import Violation
from .decoder import CALL_BLOCKS
from .rules import RULES, SERVER_CALL, SERVER_RESULT

__all__ = ["Flawed", "blocks_of", "server_calls_apart"]

_SERVER_CALLS = frozenset(name for name, kind in CALL_BLOCKS.items() if kind == "server")
_Place: TypeAlias = tuple[int, int]
Flawed: TypeAlias = "dict[tuple[int, int], Violation]"
"""By message and block: what is wrong with a block that has to be left out."""


def blocks_of(content: object) -> list[Any]:
    """A message's blocks, none if it has something else."""
    return content if isinstance(content, list) else []


def server_calls_apart(messages: Sequence[Mapping[str, Any]]) -> Flawed:
    """Calls of the provider's own without a result, and results without a call.

    A call may be answered in a later message: the turn was paused, or its code called tools of ours. At the end of the
    history it may still be waiting for that. Results that name no call are the oldest ones', in order: recordings hide
    ids. Costs time linear in the history.
    """
    open_ = _OpenCalls()
    flawed: Flawed = {}
    callers: set[str] = set()
    for place, raw in _said(messages):
        kind, caller = str(raw.get("type")), raw.get("caller")
        if kind in _SERVER_CALLS:
            open_.add(place, raw.get("id"))
        elif kind == "tool_use" and isinstance(caller, dict) and isinstance(id_ := caller.get("tool_id"), str):
            callers.add(id_)
        elif kind.endswith("_tool_result") and isinstance(id_ := raw.get("tool_use_id"), str) and not open_.take(id_):
            what = "the result of a server's tool has no call before it"
            flawed[place] = RULES.violation("orphan_result", _path(place), what, SERVER_RESULT)
    for place, id_ in open_.left.items():
        if place[0] != len(messages) - 1 and id_ not in callers:
            what = "the call of a server's tool has no result"
            flawed[place] = RULES.violation("unanswered_call", _path(place), what, SERVER_CALL)
    return flawed


class _OpenCalls:
    def __init__(self) -> None:
        self.left: dict[_Place, str] = {}
        self._by_id: dict[str, deque[_Place]] = defaultdict(deque)

    def add(self, place: _Place, id_: object) -> None:
        self.left[place] = id_ if isinstance(id_, str) else ""
        self._by_id[self.left[place]].append(place)

    def take(self, id_: str) -> bool:
        """Whether there is a call for the result that names this id; it is then nobody else's."""
        queue = self._by_id.get(id_, deque())
        while queue and queue[0] not in self.left:
            queue.popleft()
        place = queue.popleft() if queue else next(iter(self.left), None)
        return place is not None and self.left.pop(place) is not None


def _said(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[_Place, dict[str, Any]]]:
    for index, message in enumerate(messages):
        if isinstance(message, Mapping) and message.get("role") == "assistant":
            for number, raw in enumerate(blocks_of(message.get("content"))):
                if isinstance(raw, dict):
                    yield (index, number), raw


def _path(place: _Place) -> str:
    return f"messages[{place[0]}].content[{place[1]}]"
