"""Reads calls written as JSON objects that contain the name, as several dialects have them between their markers.

    {"name": "get_weather", "arguments": {"city": "Paris"}}

``parameters`` may stand for ``arguments``. ``type``, ``id`` and a wrapping ``function`` object are accepted as in the
chat API; an object with any other key is no call. Arguments that come after the name are emitted as they come; those
before the name wait for it.
"""

from __future__ import annotations

from .calls import CallWriter
from .reader import NotACall, Parsing, Reader

__all__ = ["call_objects", "one_call_object"]

_KEYS = frozenset({"name", "function", "arguments", "parameters", "id", "type"})
_MAX_KEY = 32  # characters of a key; the longest key has ten


def call_objects(reader: Reader, calls: CallWriter, *, close: str | None, known_only: bool) -> Parsing[None]:
    """Reads an object, or a list of them, and the closing marker.

    Args:
        reader: its position is before the object.
        calls: takes the calls.
        close: the marker; None if there is none, as for a list that needs none.
        known_only: only registered tools can be called.
    """
    first = yield from reader.spaces()
    if first == "[":
        reader.at += 1
        yield from _list(reader, calls, close, known_only)
    else:
        yield from one_call_object(reader, calls, close=close, known_only=known_only)
        if close is None:
            calls.leave()
            return
        yield from reader.spaces()
        yield from reader.expect(close)
        calls.end()


def _list(reader: Reader, calls: CallWriter, close: str | None, known_only: bool) -> Parsing[None]:
    while True:
        yield from reader.spaces()
        yield from one_call_object(reader, calls, close=close, known_only=known_only)
        yield from reader.spaces()
        separator = yield from reader.expect(",", "]")
        calls.end()
        if separator == "]":
            break
    if close is not None:
        yield from reader.spaces()
        yield from reader.expect(close)


def one_call_object(reader: Reader, calls: CallWriter, *, close: str | None, known_only: bool) -> Parsing[None]:
    """Reads one object and announces its call. The caller has to end the call."""
    call = _CallObject(reader, calls, close, known_only)
    yield from call.read()
    call.check()


class _CallObject:
    """One call object while it is read."""

    __slots__ = ("arguments", "begun", "call_id", "calls", "close", "known_only", "name", "reader")

    def __init__(self, reader: Reader, calls: CallWriter, close: str | None, known_only: bool) -> None:
        self.reader = reader
        self.calls = calls
        self.close = close
        self.known_only = known_only
        self.name = ""
        self.call_id: str | None = None
        self.arguments: list[str] | None = None  # those that came before the name, or [] once they were emitted
        self.begun = False

    def read(self, *, nested: bool = False) -> Parsing[None]:
        """Reads the object."""
        reader = self.reader
        yield from reader.expect("{")
        while True:
            yield from reader.spaces()
            key = yield from reader.string(_MAX_KEY)
            if key not in _KEYS:
                raise NotACall
            yield from reader.spaces()
            yield from reader.expect(":")
            first = yield from reader.spaces()
            if key == "function" and first == "{" and not nested:
                yield from self.read(nested=True)
            else:
                yield from self._member(key)
            yield from reader.spaces()
            if (yield from reader.expect(",", "}")) == "}":
                return

    def check(self) -> None:
        """Announces the call if the whole object did not yet, or finds that it is none."""
        if not self.begun:
            if self.known_only:  # an object without arguments may be anything that has a name
                raise NotACall
            self._begin()

    def _member(self, key: str) -> Parsing[None]:
        if key in ("name", "function"):
            if self.name:
                raise NotACall
            self.name = yield from self.reader.string(self.reader.limits.max_name_bytes)
            if self.known_only and not self.calls.knows(self.name):
                raise NotACall
            if self.arguments is not None:
                self._begin()
        elif key in ("arguments", "parameters"):
            yield from self._arguments()
        elif key == "id":
            self.call_id = yield from self.reader.string(self.reader.limits.max_id_bytes)
        else:
            yield from self.reader.string(_MAX_KEY)

    def _arguments(self) -> Parsing[None]:
        if self.arguments is not None:
            raise NotACall
        self.arguments = []
        if self.name:
            self._begin()
            yield from self.reader.value(self.calls.add)
            self.reader.hold()
        else:
            yield from self.reader.value(self.arguments.append, self.reader.limits.max_argument_bytes)

    def _begin(self) -> None:
        self.calls.begin(self.name, self.call_id, close=self.close)
        self.begun = True
        for text in self.arguments or ():
            self.calls.add(text)
