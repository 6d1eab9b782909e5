"""Writes results of single calls in their wire's shape, with the parts that stand behind all results.

This module knows no wire: it learns the shape from the output of the wire's `render` for an answer with one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from ..content import Media
from ..events import Observation
from ..parts import Part, ToolCall
from ..wires import Answer, Wire
from ..wires.answer_builder import id_as_read
from ..wires.transcript import CallResult
from .calls import result_of
from .native import role_of
from .pairing import Exchange

__all__ = ["Behind", "Message", "ResultWriter", "Written"]

Message: TypeAlias = dict[str, Any]
_Line: TypeAlias = frozenset[tuple[str, str]]

_PICTURE = Media(kind="image", mime_type="image/png", data="AA==")


class ResultWriter:
    """Writes results of the calls of one answer of a history."""

    def __init__(self, exchange: Exchange, wire: Wire) -> None:
        self._exchange = exchange
        self._wire = wire
        some = exchange.calls[0]
        both = self._messages(some, _seen(some), _seen(some))
        self.list_field = _list_field(both[0]) if len(both) == 1 else None
        """The field that holds a message's results, if it may hold several; None if each result is a message."""

    def write(self, call: ToolCall, seen: Observation) -> Written:
        """Returns an observation as the result of its call."""
        message, *behind = self._messages(call, result_of(call, seen, self._wire.name))
        return Written(message, _held(behind[-1]) if behind else [])

    def behind(self) -> Behind | None:
        """Returns the message that stands behind all results of the answer; None if media have a place in each result,
        or none."""
        shapes = [(call.call_id, self._messages(call, _seen(call, _PICTURE))[1:]) for call in self._exchange.calls]
        if not shapes[0][1]:
            return None
        *front, message = shapes[0][1]
        # of one id: the first call's
        lines = {_line(_held(shape[-1])[0]): call_id for call_id, shape in reversed(shapes)}
        return Behind(front=front, message=message, lines=lines)

    def _messages(self, call: ToolCall, *results: CallResult) -> list[Message]:
        """Returns the messages of one call's results. They are rendered for an answer with this call alone, under the
        id that stands in the history, so that nothing depends on how calls of one id are told apart."""
        own = id_as_read(call.call_id)
        alone = replace(call, call_id=own or call.call_id, call_id_synthesized=not own)
        answer = Answer(
            parts=(Part(kind="call", call_id=alone.call_id),),
            calls={alone.call_id: alone},
            arguments={alone.call_id: self._exchange.said.answer.arguments[call.call_id]},
            results=tuple(replace(result, call_id=alone.call_id) for result in results),
        )
        return self._wire.render(answer)[len(self._wire.render(replace(answer, results=()))) :]


class Written(NamedTuple):
    """A result in its wire's shape."""

    message: Message
    """The result as a message of its own."""
    behind: list[Any]
    """The parts of the result that stand behind all results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """The message behind all results of an answer, where a wire takes media only there: a message of the user's with a
    line for each call that has media, and these below the line."""

    front: list[Message]
    """The messages between the results and that message."""
    message: Message = field(repr=False)
    """That message, as it would be for one call with a picture."""
    lines: Mapping[_Line | None, str]
    """The lines, each with the id of its call."""

    def content(self, messages: Sequence[Any]) -> list[Any] | None:
        """Returns that message's content, if `messages` begin with it and the messages in front of it; None if they do
        not."""
        count = len(self.front)
        if len(messages) <= count or list(messages[:count]) != self.front or not self.has_role(messages[count]):
            return None
        held = messages[count].get(_list_field(self.message))
        return held if isinstance(held, list) and held and _line(held[0]) in self.lines else None

    def has_role(self, message: Any) -> bool:
        """Returns whether a message has the user's role, too."""
        return role_of(message) == role_of(self.message)

    def split(self, content: Sequence[Any]) -> tuple[dict[str, list[Any]], list[Any]]:
        """Splits the content by calls, each with its line, and the parts of no call, which somebody else put there."""
        of_calls: dict[str, list[Any]] = {}
        rest: list[Any] = []
        into, kind_of_lines = rest, _kind(_held(self.message)[0])
        for part in content:
            call_id = self.lines.get(_line(part))
            if call_id is not None:
                into = of_calls.setdefault(call_id, [])
            elif _kind(part) in (None, kind_of_lines):
                into = rest
            into.append(part)
        return of_calls, rest

    def holding(self, content: list[Any], message: Message | None = None) -> Message:
        """Returns that message, or one that stands in its place, with this content."""
        return {**(message or self.message), _list_field(self.message): content}


def _seen(call: ToolCall, *blocks: Media) -> CallResult:
    """Returns an arbitrary result."""
    return CallResult(call_id=call.call_id, content=".", name=call.name, blocks=blocks)


def _list_field(message: Message) -> str:
    """Returns the name of the field that is a message's list of blocks."""
    return next(name for name, value in message.items() if isinstance(value, list))


def _held(message: Message) -> list[Any]:
    held = message[_list_field(message)]
    assert isinstance(held, list), "it is the field that is one"
    return held


def _line(part: Any) -> _Line | None:
    """Returns a part in a form by which it can be looked up, if it holds texts only, as a line does; else None."""
    is_flat = isinstance(part, dict) and all(isinstance(value, str) for value in part.values())
    return frozenset(part.items()) if is_flat else None


def _kind(part: Any) -> object:
    return part.get("type") if isinstance(part, dict) else None
