"""Arguments that come piece by piece: a JSON path (RFC 9535) and a value each.

    {"jsonPath": "$.q", "stringValue": "Bos", "willContinue": true}
    {"jsonPath": "$.q", "stringValue": "ton"}
    {"jsonPath": "$.items[0].n", "numberValue": 1}

An index is the next one of its list or one that is there: nothing is allocated for a large one, and no value is made up
for those that were left out. What cannot be placed makes the arguments unusable (`problem`).
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

from pydantic_core import from_json, to_json

from ...events import ToolCallFragment
from ...ground.text import well_formed
from ...limits import Limits

_STEP = re.compile(
    r"""\.(?P<name>[^\s.\[\]'"*]+)
    | \[(?P<index>0|[1-9][0-9]{0,18})\]
    | \[(?P<quoted>"[^"\\]*(?:\\.[^"\\]*){0,256}"|'[^'\\]*(?:\\.[^'\\]*){0,256}')\]""",
    re.VERBOSE,
)
_IN_SINGLE = re.compile(r"""\\.|\"""", re.DOTALL)
_TO_DOUBLE = {"\\'": "'", '"': '\\"'}
_NODE_SIZE = 4  # characters that a value takes in JSON beside its name and its own text
_MISSING = object()
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


def _parse_path(path: object, limits: Limits) -> tuple[str | int, ...] | None:
    if not isinstance(path, str) or path[:1] != "$":
        return None
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None or len(steps) == limits.max_path_depth:
            return None
        at = step.end()
        if (name := step["name"]) is not None:
            steps.append(name)
        elif (quoted := step["quoted"]) is not None:
            name = _unquoted(quoted)
            if name is None:
                return None
            steps.append(name)
        else:
            index = int(step["index"])
            if index > limits.max_array_index:
                return None
            steps.append(index)
    return tuple(steps)


def _unquoted(quoted: str) -> str | None:
    if quoted[0] == "'":
        quoted = '"' + _IN_SINGLE.sub(lambda match: _TO_DOUBLE.get(match[0], match[0]), quoted[1:-1]) + '"'
    try:
        name = json.loads(quoted)
    except ValueError:
        return None
    assert isinstance(name, str), "it is in quotes"
    return name


class _Text(list[str]):
    """The pieces of a string that may go on."""


class PartialArgs:
    def __init__(self, limits: Limits) -> None:
        self.problem: str | None = None  # code of why these arguments cannot be used
        self.began = False  # some piece came
        self._limits = limits
        self._root: dict[str, Any] = {}
        self._open: set[tuple[str | int, ...]] = set()  # paths of values that were said to go on
        self._size = 0  # of the JSON text that they will make, at least

    @property
    def unfinished(self) -> bool:
        return bool(self._open)

    def add(self, piece: object) -> None:
        self.began = True
        if self.problem is None and not self._placed(piece):
            self._refuse("bad_path")

    def text(self) -> str:
        return to_json(self.value()).decode()

    def value(self) -> dict[str, Any]:
        return {well_formed(name): _plain(child) for name, child in self._root.items()}

    def _refuse(self, problem: str) -> None:
        self.problem = self.problem or problem

    def _grow(self, size: int) -> bool:
        self._size += size
        if self._size > self._limits.max_argument_bytes:
            self._refuse("argument_too_large")
        return self.problem is None

    def _placed(self, piece: object) -> bool:
        steps = _parse_path(piece.get("jsonPath"), self._limits) if isinstance(piece, dict) else None
        if not steps or not isinstance(piece, dict):
            return False
        node: Any = self._root
        for step, following in pairwise(steps):
            node = self._child(node, step, list if isinstance(following, int) else dict)
            if node is None:
                return self.problem is not None
        if not self._value(node, steps[-1], piece, goes_on=steps in self._open):
            return False
        if not piece.get("willContinue"):
            self._open.discard(steps)
        elif steps not in self._open and self._grow(len(piece["jsonPath"])):
            self._open.add(steps)
        return True

    def _value(self, node: Any, step: str | int, piece: dict[str, Any], *, goes_on: bool) -> bool:
        there = _get(node, step)
        given = [(name, piece[name]) for name in _VALUES if piece.get(name) is not None]
        if not given:
            return self._no_value(node, step, piece, there)
        [(name, value), *others] = given
        if others:
            return False
        if name == "stringValue":
            return isinstance(value, str) and self._text(node, step, there, value, goes_on=goes_on)
        if name == "nullValue":
            value = None
        elif not isinstance(value, (int, float)) or isinstance(value, bool) is not (name == "boolValue"):
            return False
        return there is _MISSING and self._set(node, step, value)

    def _no_value(self, node: Any, step: str | int, piece: dict[str, Any], there: object) -> bool:
        """Takes a mark that a value begins, goes on or has ended; or JSON's own null, the null value."""
        if there is not _MISSING:
            return type(there) not in (dict, list)
        if piece.get("willContinue"):
            return True
        return "nullValue" in piece and self._set(node, step, None)

    def _child(self, node: Any, step: str | int, kind: type[dict[str, Any]] | type[list[Any]]) -> Any:
        child = _get(node, step)
        if child is _MISSING:
            child = kind()
            return child if self._set(node, step, child) and self.problem is None else None
        return child if type(child) is kind else None

    def _text(self, node: Any, step: str | int, there: Any, text: str, *, goes_on: bool) -> bool:
        if there is _MISSING:
            there = _Text()
            if not self._set(node, step, there):
                return False
        elif type(there) is not _Text or not goes_on:
            return False
        if text and self._grow(len(text)):
            there.append(text)
        return True

    def _set(self, node: dict[str, Any] | list[Any], step: str | int, value: object) -> bool:
        if isinstance(node, dict):
            if not isinstance(step, str):
                return False
            if self._grow(len(step) + _NODE_SIZE):
                node[step] = value
            return True
        if step != len(node):
            return False
        if self._grow(_NODE_SIZE):
            node.append(value)
        return True


def _get(node: Any, step: str | int) -> Any:
    if type(node) is dict:
        return node.get(step, _MISSING)
    return node[step] if isinstance(step, int) and step < len(node) else _MISSING


def _plain(node: Any) -> Any:
    if isinstance(node, _Text):
        return well_formed("".join(node))
    if isinstance(node, dict):
        return {well_formed(name): _plain(child) for name, child in node.items()}
    return [_plain(child) for child in node] if isinstance(node, list) else node


class OpenCall:
    __slots__ = ("arguments", "id", "index", "signature", "whole")

    def __init__(self, index: int | str, id_: str | None, limits: Limits) -> None:
        self.index = index
        self.id = id_
        self.arguments = PartialArgs(limits)
        self.whole: tuple[str, str | None] | None = None
        """The arguments at once, if they came so, too, and what is wrong with them."""
        self.signature: object = None

    def is_continued_by(self, name: str | None, id_: str | None) -> bool:
        """Returns whether a part with this name and id goes on with the call: only its first one needs a name."""
        if name:
            return id_ is not None and id_ == self.id
        return id_ is None or self.id is None or id_ == self.id

    def end(self, *, cut: bool) -> ToolCallFragment:
        """Ends the call. Only now its arguments are a text, so that a call that was cut has none."""
        arguments = self.arguments
        text, problem = "", arguments.problem
        cut = cut or arguments.unfinished
        if not cut and problem is None:
            text = arguments.text() if arguments.began else ""
            if self.whole is not None:
                whole, problem = self.whole
                if arguments.began and not _same(whole, text):
                    text, problem = "", "bad_path"  # the two contradict each other
                else:
                    text = whole
        return ToolCallFragment(self.index, arguments=text, end=True, cut=cut, problem=problem)

    def unused(self) -> dict[str, Any]:
        pieces = {"args": value} if (value := self.arguments.value()) else {}
        return pieces | ({"whole": self.whole[0]} if self.whole is not None and self.whole[0] else {})


def _same(left: str, right: str) -> bool:
    try:
        return bool(from_json(left) == from_json(right))
    except ValueError:
        return False
