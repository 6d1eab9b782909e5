"""Writes events as plain JSON, and reads them back as equal ones.

    TextDelta("Hello", seq=4, step=0)  ⇄  {"event": "TextDelta", "seq": 4, "text": "Hello"}

Input is not trusted: reading makes only objects of the classes in the tables below, runs none of their code, and
refuses a field of a wrong type, naming it.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from typing import Any

from .. import content, errors, events, parts
from ..errors import StreamToolsError
from ..events import Event, EventBase
from ..ground import class_name
from .fields import check_fields, read_object

MARK = "$"
MOST_LEVELS = 200  # of nesting, in a value; a fraction of what Python's recursion limit allows
MAX_TEXT = 100_000  # characters of an object's own text, or of an error's

_UNWRITTEN = frozenset({"invocation", "_source", "_end"})  # decoding makes them again, and they are useless without it


class RecordedError(Exception):
    """Replaces the program's own exception in a recording, which has only the name of its class."""

    def __init__(self, type: str, message: str) -> None:
        super().__init__(message)
        self.type = type
        """The class of the exception, with its module unless that is ``builtins``."""


@dataclass(frozen=True, slots=True)
class RecordedObject:
    """Replaces a value in a recording that could not be written as JSON."""

    type: str
    """The class of the value, with its module unless that is ``builtins``."""


def _of(module: Any, base: type) -> dict[str, type]:
    named = {name: getattr(module, name) for name in module.__all__}
    return {name: found for name, found in named.items() if isinstance(found, type) and issubclass(found, base)}


# Reading makes only these, whatever a file names: a name in it is looked up here, and never imported.
EVENTS: Mapping[str, type[Event]] = {
    name: kind for name, kind in _of(events, EventBase).items() if kind not in (EventBase, events.CausedEvent)
}
ERRORS: Mapping[str, type[StreamToolsError]] = _of(errors, StreamToolsError)
VALUES: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        parts.Carry, parts.ToolCall, parts.Usage, parts.Wait, parts.FailedAttempt, parts.Finding, parts.ResumePoint,
        content.ToolResult, content.Text, content.Media, content.Opaque,
    )
}  # fmt: skip


# -- writing --


def written_event(event: Event) -> dict[str, Any]:
    return {"event": type(event).__name__, **_written_fields(event)}


def _written_fields(value: Any, depth: int = 0) -> dict[str, Any]:
    fields_by_name: dict[str, Any] = {}
    kind: Any = type(value)
    for name, default, is_tuple in _plans(kind):
        found = getattr(value, name)
        # A field with its default is left out, so that people find the others. Only plain values are compared: the `==`
        # of a tool's own value may raise, or be equal to everything.
        if found is default or (type(found) is type(default) and type(found) in _COMPARED and found == default):
            continue
        fields_by_name[name] = written_value(list(found) if is_tuple else found, depth)
    return fields_by_name


_COMPARED = (str, int, float, bool, tuple)


@cache
def _plans(kind: type) -> tuple[tuple[str, Any, bool], ...]:
    # If the annotation is a tuple, the file has a list: reading turns it back.
    return tuple(
        (one.name, _default(one), str(one.type).startswith("tuple["))
        for one in fields(kind)
        if one.name not in _UNWRITTEN
    )


def _default(one: Field[Any]) -> Any:
    if one.default is not MISSING:
        return one.default
    return MISSING if one.default_factory is MISSING else one.default_factory()


def written_value(value: Any, depth: int = 0) -> Any:
    # By the exact type: a user's subclass of `str` or `dict` would not come back as one. JSON has no tuples, sets,
    # bytes or keys that are not text: these become an object with a `$`, which names the kind.
    kind = type(value)
    if value is None or kind in (str, int, bool):
        return value
    if kind is float:
        return value if math.isfinite(value) else {MARK: "float", "is": repr(value)}
    if depth >= MOST_LEVELS:
        return {MARK: "object", "type": class_name(value)}
    write = _WRITES.get(kind)
    if write is not None:
        return write(value, depth + 1)
    # A class of the program may have the name of one of ours.
    if kind.__name__ in VALUES and VALUES[kind.__name__] is kind:
        return {MARK: kind.__name__, **_written_fields(value, depth + 1)}
    if isinstance(value, Mapping):
        return _written_mapping(value, depth + 1)
    if isinstance(value, BaseException):
        return _written_error(value, depth + 1)
    return _written_object(value)


def _written_mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    # A tool's own dict with a `$` would be read as a mark, so it is written as pairs.
    if all(type(key) is str for key in value) and MARK not in value:
        return {key: written_value(one, depth) for key, one in value.items()}
    return {MARK: "dict", "is": [[written_value(key, depth), written_value(one, depth)] for key, one in value.items()]}


def _written_group(name: str) -> Callable[[Any, int], dict[str, Any]]:
    def write(value: Any, depth: int) -> dict[str, Any]:
        return {MARK: name, "is": [written_value(one, depth) for one in value]}

    return write


def _written_error(error: BaseException, depth: int) -> dict[str, Any]:
    own = written_value({key: value for key, value in vars(error).items() if not key.startswith("_")}, depth)
    # A subclass in the program comes back as the nearest error of ours whose fields it has, since the outcome of a call
    # depends on that.
    kinds = (kind for kind in type(error).__mro__ if ERRORS.get(kind.__name__) is kind)
    name = next((kind.__name__ for kind in kinds if depth < MOST_LEVELS and _has_fields(kind, own)), None)
    if name is None:
        kind = error.type if type(error) is RecordedError else class_name(error)
        return {MARK: "error", "type": kind, "message": _text_of(error)}
    written: dict[str, Any] = {MARK: "error", "is": name, "args": written_value(list(error.args), depth)}
    if own:
        written["has"] = own
    if error.__cause__ is not None:
        written["cause"] = _written_error(error.__cause__, depth + 1)
    return written


def _has_fields(kind: type, written: Any) -> bool:
    try:
        check_fields(kind, read_value(written, 0))
    except ValueError:
        return False
    return True


def _written_object(value: Any) -> Any:
    # A class that is not ours cannot be made again from a file without running its code. The recording only needs what
    # the model has read of it.
    from pydantic_core import to_jsonable_python

    written: dict[str, Any] = {MARK: "object", "type": class_name(value)}
    try:
        written["is"] = written_value(to_jsonable_python(value), 1)
    except Exception:  # a user's class may raise anything, and a value may contain itself
        written.pop("is", None)
    return written


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TEXT]
    except Exception:  # a user's exception may fail to show itself
        return ""


_WRITES: Mapping[type, Callable[[Any, int], Any]] = {
    dict: _written_mapping,
    list: lambda value, depth: [written_value(one, depth) for one in value],
    tuple: _written_group("tuple"),
    set: _written_group("set"),
    frozenset: _written_group("frozenset"),
    bytes: lambda value, depth: {MARK: "bytes", "is": base64.b64encode(value).decode()},
    RecordedObject: lambda value, depth: {MARK: "object", "type": value.type},
}


# -- reading --


def read_event(written: Mapping[str, Any]) -> Event:
    name = written.get("event")
    kind = EVENTS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError("an event of an unknown kind")
    read: Event = _read_fields(kind, {name: one for name, one in written.items() if name != "event"}, 0)
    return read


def _read_fields(kind: type, written: Mapping[str, Any], depth: int) -> Any:
    return read_object(kind, written, read=lambda value: read_value(value, depth + 1), unwritten=_UNWRITTEN)


def read_value(written: Any, depth: int = 0) -> Any:
    # Each level that was written may be three in JSON: the mark's object, its list, a pair of a dict.
    if depth > MOST_LEVELS * 3:
        raise ValueError("a value is nested too deeply")
    if type(written) is list:
        return [read_value(one, depth + 1) for one in written]
    if type(written) is not dict:
        return written
    if MARK not in written:
        return {key: read_value(one, depth + 1) for key, one in written.items()}
    name = written[MARK]
    inner = written.get("is")
    if not isinstance(name, str):
        raise ValueError("a value of an unknown kind")
    if name in VALUES:
        return _read_fields(VALUES[name], {key: one for key, one in written.items() if key != MARK}, depth)
    if name == "error":
        return _read_error(written, depth)
    if name == "object":
        return (
            read_value(inner, depth + 1)
            if "is" in written
            else read_object(RecordedObject, {"type": written.get("type")})
        )
    read = _READS.get(name)
    if read is None or inner is None:
        raise ValueError("a value of an unknown kind")
    try:
        return read(read_value(inner, depth + 1))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"expected a {name}, got another value") from error


def _read_error(written: Mapping[str, Any], depth: int) -> BaseException:
    if "is" not in written:
        foreign = read_object(_Foreign, {name: one for name, one in written.items() if name != MARK}, label="error")
        return RecordedError(foreign.type, foreign.message)
    kind = ERRORS.get(written["is"]) if isinstance(written["is"], str) else None
    own, args = read_value(written.get("has", {}), depth + 1), read_value(written.get("args", []), depth + 1)
    if kind is None or not isinstance(own, dict) or not isinstance(args, list):
        raise ValueError("an error of an unknown kind")
    check_fields(kind, own)
    # Not by its `__init__`, which makes the message from other arguments. An error's text comes from `args`, and its
    # attributes are in its `__dict__`; no other attribute may be set, least of all `__class__`.
    error = kind.__new__(kind)
    error.args = tuple(args)
    for name, value in own.items():
        if not isinstance(name, str) or name.startswith("_"):
            raise ValueError("an error has an unknown field")
        error.__dict__[name] = value
    if written.get("cause") is not None:
        cause = read_value(written["cause"], depth + 1)
        if not isinstance(cause, BaseException):
            raise ValueError(f"expected an error as the cause of another, got {type(cause).__name__}")
        error.__cause__ = cause
    return error


@dataclass(frozen=True, slots=True)
class _Foreign:
    type: str
    message: str


_READS: Mapping[str, Callable[[Any], Any]] = {
    "float": float,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "dict": dict,
}
