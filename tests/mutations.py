"""Seeded ways of spoiling a stream: its values, the order of its events, its bytes."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

TIMES = int(os.environ.get("STREAMTOOLS_FUZZ_TIMES", "1"))
"""How many times as many cases the tests try that spoil streams; beyond 1 they are new ones at every run."""

T = TypeVar("T")
Path = tuple[str | int, ...]

_SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 2**53, 2**63, 2**64, -(2**70), 10**400, 0.5, -1e308, float("nan"), float("inf"),
    "", " ", "a", "f", "0", "NaN", "Infinity", "1e999", "null", "{}", "[]", '{"a":1}', '{"a":"', '"{}"', "[DONE]",
    "\x00", "\ud83d", "\ude00", "\ud83d\ude00", "é", "\u2028", "<think>", "</think>", "stop", "tool_calls", "error",
    "function", "custom", "text", "__proto__", "$.a[0]", "$.a.b", "x" * 300,
)  # fmt: skip
_KEYS = ("a", "id", "index", "type", "text", "name", "content", "error", "delta", "function", "arguments", "message")
_DEEP = 300
_MAX_PATH = 20
_ROOT: Path = ()


def random_json(dice: random.Random, depth: int = 3) -> Any:
    """A JSON value of any type; now and then one that is nested too deep for most."""
    kind = dice.random()
    if depth == 3 and kind < 0.03:
        value: Any = 1
        for _ in range(_DEEP):
            value = [value] if kind < 0.015 else {"a": value}
        return value
    if not depth or kind < 0.6:
        return dice.choice(_SCALARS)
    if kind < 0.8:
        return [random_json(dice, depth - 1) for _ in range(dice.randint(0, 3))]
    return {dice.choice(_KEYS): random_json(dice, depth - 1) for _ in range(dice.randint(0, 3))}


def paths(value: Any, at: Path = _ROOT) -> Iterator[Path]:
    """The way to each value inside a JSON value, itself first; of what is nested deep, to the upper levels."""
    yield at
    if len(at) == _MAX_PATH:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*at, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from paths(inner, (*at, number))


def replaced(value: Any, path: Path, new: Any) -> Any:
    """A copy of `value` with `new` at `path`."""
    if not path:
        return new
    changed = copy.copy(value)
    changed[path[0]] = replaced(value[path[0]], path[1:], new)
    return changed


def without(value: Any, path: Path) -> Any:
    """A copy of `value` without what is at `path`."""
    changed = copy.copy(value)
    if len(path) == 1:
        del changed[path[0]]
    else:
        changed[path[0]] = without(value[path[0]], path[1:])
    return changed


def spoiled(dice: random.Random, payload: Any, others: Sequence[Any] = ()) -> Any:
    """A copy of a payload with one value inside it replaced, doubled, left out, or cut if it is a text."""
    ways = list(paths(payload))
    path = dice.choice(ways)
    if isinstance(text := _at(payload, path), str) and dice.random() < 0.4:
        return replaced(payload, path, spoiled_text(dice, text))
    match dice.randrange(6):
        case 0 | 1 | 2:
            return replaced(payload, path, random_json(dice))
        case 3 if path:
            return without(payload, path)
        case 4 if others:
            other = dice.choice(others)
            return replaced(payload, path, _at(other, dice.choice(list(paths(other)))))
        case _:
            return replaced(payload, path, _at(payload, dice.choice(ways)))


def spoiled_text(dice: random.Random, text: str) -> str:
    """A text with something cut out of it, repeated in it, or put into it."""
    at, to = sorted(dice.randrange(len(text) + 1) for _ in range(2))
    match dice.randrange(3):
        case 0:
            return text[:at] + text[to:]
        case 1:
            return text[:to] + text[at:]
        case _:
            scalar = dice.choice(_SCALARS)
            return text[:at] + (scalar if isinstance(scalar, str) else "\n") + text[at:]


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def shuffled(dice: random.Random, events: Sequence[T], others: Sequence[T], changes: int) -> list[T]:
    """Events with so many of them dropped, doubled, moved or exchanged; or the stream cut, or another spliced in."""
    found = list(events)
    for _ in range(changes):
        if not found:
            break
        at, to = dice.randrange(len(found)), dice.randrange(len(found))
        match dice.randrange(8):
            case 0:
                del found[at]
            case 1:
                found.insert(at, found[at])
            case 2:
                found.insert(to, found[at])
            case 3:
                found[at], found[to] = found[to], found[at]
            case 4:
                begin, end = min(at, to), max(at, to)
                found[begin:end] = reversed(found[begin:end])
            case 5:
                del found[at:]
            case 6 if others:
                found[at:] = others[dice.randrange(len(others)) :]
            case _ if others:
                begin = dice.randrange(len(others))
                found[at:at] = others[begin : begin + dice.randint(1, 4)]
            case _:
                del found[:at]
    return found


def cut(dice: random.Random, body: bytes, most: int = 12) -> list[bytes]:
    """A body in up to `most` pieces and one more."""
    bounds = sorted(dice.randrange(len(body) + 1) for _ in range(dice.randint(0, most)))
    return [body[begin:end] for begin, end in zip([0, *bounds], [*bounds, len(body)], strict=True)]
