"""Reads call objects: JSON objects that have the name and the arguments of a call, alone or in a list.

    {"name": "get_weather", "arguments": {"city": "Paris"}}
    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Paris"}}     Cohere
    {"get_weather": {"city": "Paris"}}                                                     Apertus

``parameters`` or ``args`` may stand for ``arguments``. ``type``, ``id`` and a wrapping ``function`` object are accepted
as in the chat API; an object with any other key is no call. Arguments that come after the name are emitted as they
come; those before the name wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from .reader import NotACall, Parsing, Reader
from .writer import CallWriter

__all__ = ["MarkedObjects", "call_objects", "keyed_objects", "listed_objects", "one_call_object"]

_NAMES = frozenset({"name", "function", "tool_name"})
_ARGUMENTS = frozenset({"arguments", "parameters", "args"})
_KEYS = _NAMES | _ARGUMENTS | {"id", "type", "tool_call_id"}
_MAX_KEY = 32  # characters of a key; the longest key has twelve


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
        yield from listed_objects(reader, calls, close=close, known_only=known_only)
    else:
        yield from one_call_object(reader, calls, close=close, known_only=known_only)
        if close is None:
            calls.leave()
            return
        yield from reader.then(close)
        calls.end()


def listed_objects(reader: Reader, calls: CallWriter, *, close: str | None, known_only: bool) -> Parsing[None]:
    """Reads the objects of a list from behind its bracket, and the closing marker. For the arguments see
    `call_objects`."""
    while True:
        yield from reader.spaces()
        yield from one_call_object(reader, calls, close=close, known_only=known_only)
        separator = yield from reader.then(",", "]")
        calls.end()
        if separator == "]":
            break
    if close is not None:
        yield from reader.then(close)


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
        yield from self.reader.expect("{")
        yield from self.reader.members(_MAX_KEY, self._nested_member if nested else self._member, _KEYS)

    def check(self) -> None:
        """Announces the call if the whole object did not yet, or finds that it is none."""
        if not self.begun:
            if self.known_only:  # an object without arguments may be anything that has a name
                raise NotACall
            self._begin()

    def _member(self, key: str, first: str) -> Parsing[None]:
        is_object = key == "function" and first == "{"
        yield from self.read(nested=True) if is_object else self._nested_member(key, first)

    def _nested_member(self, key: str, first: str) -> Parsing[None]:
        if key in _NAMES:
            if self.name:
                raise NotACall
            self.name = yield from self.reader.string(self.reader.limits.max_name_bytes)
            if self.known_only and not self.calls.knows(self.name):
                raise NotACall
            if self.arguments is not None:
                self._begin()
        elif key in _ARGUMENTS:
            yield from self._arguments()
        elif key == "id":
            self.call_id = yield from self.reader.string(self.reader.limits.max_id_bytes)
        else:  # a type, or Cohere's number of the call, which is none that a history could repeat
            yield from self.reader.string(_MAX_KEY)

    def _arguments(self) -> Parsing[None]:
        if self.arguments is not None:
            raise NotACall
        self.arguments = []
        if self.name:
            self._begin()
            yield from self.reader.value(self.calls.add, stops=self.calls.stops)
            self.reader.hold()
        else:
            limit = self.reader.limits.max_argument_bytes
            yield from self.reader.value(self.arguments.append, limit, stops=self.calls.stops)

    def _begin(self) -> None:
        self.calls.begin(self.name, self.call_id, close=self.close)
        self.begun = True
        for text in self.arguments or ():
            self.calls.add(text)


class MarkedObjects:
    """A dialect of call objects between two markers.

    Args:
        markers: the opening markers, with the closing marker of each; None: the call ends with its list, else with the
            next call or the response.
        inside: a marker that has to follow the opening one.
        keyed: an object has the tool's name for a key, and the arguments for its value.
    """

    def __init__(self, markers: Mapping[str, str | None], *, inside: str | None = None, keyed: bool = False) -> None:
        self._markers = markers
        self._inside = inside
        self._read = keyed_objects if keyed else call_objects

    def __call__(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        """Reads the opening marker, the objects and the closing marker."""
        opener = yield from reader.expect(*self._markers)
        if self._inside is not None:
            yield from reader.then(self._inside)
        yield from self._read(reader, calls, close=self._markers[opener], known_only=False)


def keyed_objects(reader: Reader, calls: CallWriter, *, close: str | None, known_only: bool) -> Parsing[None]:
    """Reads a list of objects whose keys are names of tools, and the closing marker. For the arguments see
    `call_objects`."""

    def member(key: str, first: str) -> Parsing[None]:
        if first != "{" or (known_only and not calls.knows(key)):
            raise NotACall
        if calls.is_open:
            calls.end()  # where an object has several keys, the next one ends a call
        calls.begin(key, close=close)
        yield from reader.value(calls.add, stops=calls.stops)
        reader.hold()

    yield from reader.then("[")
    while True:
        yield from reader.then("{")
        yield from reader.members(reader.limits.max_name_bytes, member)
        separator = yield from reader.then(",", "]")
        calls.end()
        if separator == "]":
            break
    if close is not None:
        yield from reader.then(close)
