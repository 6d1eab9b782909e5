"""Redacts values of any type; returns the same object if nothing in it has changed.

Ids, names of registered tools, the library's own words, counts and times stay.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field
from dataclasses import fields as dataclass_fields
from functools import cache
from typing import Any

from ..content import Media, Opaque, Text, ToolResult
from ..errors import StreamToolsError
from ..ground import class_name, stand_in
from ..parts import Carry, FailedAttempt, Finding, Part, ToolCall, Usage, Wait
from .secrets import Redact, SecretShapes

DOT = "·"

_NO_LETTER = re.compile(r"[^A-Za-z0-9]")
_NAME_CHARS = 64  # of a name in a request; the end of a longer one is cut
_FROM_URL = str.maketrans("-_", "+/")
_SHORT = 64  # characters of a text that is looked through each time
_MOST_KNOWN = 4096  # texts of a run, with what is kept of them
_MOST_LEVELS = 200  # of nesting, in a value
_DEEP = "…"  # stands for what is nested deeper, and for a value inside itself

_KEPT = frozenset({  # fields without content, of events, of our own values and of errors
    # the event, and its place
    "seq", "step", "causes", "time", "run_id", "asks_model", "dispatches", "requested_at", "resumes", "proposed_by",
    # identities, and words of ours or the provider's
    "wire", "model", "response_id", "message_id", "when", "call_id", "idempotency_key", "awaits", "caller", "kind",
    "type", "place", "code", "cause",
    "status", "problem", "normalizations", "outcome", "finish", "finish_raw", "schema_source", "owner", "validator",
    "boundary", "observation_type", "error_type", "mime_type", "setting", "limit", "seconds", "timeout_s", "budget",
    "scope", "effect",
})  # fmt: skip
_NAMES = frozenset({"name", "tool_name", "namespace"})  # fields that are content unless they name a registered tool
_ANY = frozenset({"value", "raw"})  # fields whose numbers are content, too
_OURS = frozenset({Carry, ToolCall, Finding, ToolResult, Text, Media, Opaque, Part})
_COUNTED = frozenset({Usage, Wait, FailedAttempt})  # they have no content


class RunKnowledge:
    """What a policy knows of a run."""

    def __init__(self) -> None:
        self.tool_names: frozenset[str] = frozenset()  # of all its steps
        self.made_up: dict[str, str] = {}  # what stands for names that the model made up, by their valid characters
        self.texts: dict[str, str] = {}  # what was kept of long ones


class Values:
    def __init__(self, redact: Redact, run: RunKnowledge | None = None) -> None:
        self.shapes = redact if isinstance(redact, SecretShapes) else None
        self._redact = redact
        self._run = run or RunKnowledge()
        self._known = self._run.texts

    def text(self, text: str) -> str:
        if self.shapes is not None:
            return self._masked(text, self.shapes)
        kept = self._redact(text)
        if not isinstance(kept, str):
            raise TypeError(f"redact: expected the function to return text, got {class_name(kept)}")
        return kept

    def _masked(self, text: str, shapes: SecretShapes) -> str:
        # Every step's request has the whole history again: looking through it each time would be quadratic.
        if len(text) < _SHORT:
            return shapes.encoded(shapes(text))
        kept = self._known.get(text)
        if kept is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            kept = self._known[text] = shapes.encoded(shapes(text))
        return kept

    def keep(self, state: Mapping[str, Any], data: set[str]) -> None:
        """Keeps the texts of a part that are these files' base64, whatever they look like, until the part was read."""
        left: list[Any] = [state]
        while left and self.shapes is not None:
            one = left.pop()
            if isinstance(one, Mapping):
                left += one.values()
            elif isinstance(one, (list, tuple)):
                left += one
            elif isinstance(one, str) and one.rpartition(",")[2].translate(_FROM_URL) in data:
                self._known[one] = one

    def of(self, value: Any) -> Any:
        return self._value(value, {}, 0)

    def words(self, error: BaseException) -> BaseException | None:
        try:
            copy: BaseException = self.of(error)
        except Exception:  # of the policy's function
            return None
        return copy

    def _value(self, value: Any, known: dict[int, tuple[Any, Any]], depth: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            # The next request has a made-up name with other characters, which its secret is not recognised by.
            text = str.__str__(value)  # without what a subclass may show
            if self._run.made_up and (known_as := self._run.made_up.get(_plain(text))) is not None:
                return known_as
            return _unless_same(text, self.text(text))
        if isinstance(value, (int, float)):
            return self._number(value)
        if isinstance(value, (bytes, bytearray)):
            return self._bytes(value)
        # A value may occur in itself, and one object in many places: each is looked at once. The table keeps it alive,
        # so that its id names no other meanwhile.
        if id(value) in known:
            return known[id(value)][1]
        if depth >= _MOST_LEVELS:
            return _DEEP
        known[id(value)] = (value, _DEEP)
        made = self._made(value, known, depth + 1)
        known[id(value)] = (value, made)
        return made

    def _made(self, value: Any, known: dict[int, tuple[Any, Any]], depth: int) -> Any:
        kind = type(value)
        if isinstance(value, Mapping) and kind is not Carry:
            pairs = [
                (self._value(key, known, depth), self._named(key, one, known, depth)) for key, one in value.items()
            ]
            return _unless_same(value, dict(pairs)) if kind is dict else dict(pairs)
        if kind in (list, tuple, set, frozenset):
            return _unless_same(value, kind(self._items(value, known, depth)))
        if kind in _COUNTED:
            return value
        if kind in _OURS:
            return self.fields(value, known, depth)
        if isinstance(value, BaseException):
            return self._error(value, known, depth)
        # What the model and a recording have of an object is its JSON.
        from pydantic_core import to_jsonable_python

        try:
            plain = to_jsonable_python(value)
        except Exception:  # a user's class may raise anything, and a value may contain itself
            return f"<{class_name(value)}>"
        if isinstance(plain, (str, int, float)) or plain is None:
            kept = self._value(plain, known, depth)
        else:
            known[id(plain)] = (plain, _DEEP)
            kept = self._made(plain, known, depth)
        return kept

    def _items(self, values: Any, known: dict[int, tuple[Any, Any]], depth: int) -> list[Any]:
        items = list(values)
        # A header as a pair: its name, and its value.
        if len(items) == 2 and isinstance(items[0], (str, bytes)) and isinstance(items[1], (str, bytes)):
            return [self._value(items[0], known, depth), self._named(items[0], items[1], known, depth)]
        return [self._value(one, known, depth) for one in items]

    def _named(self, name: Any, value: Any, known: dict[int, tuple[Any, Any]], depth: int) -> Any:
        """Returns the value of a field or header; one that is named as a secret goes as a whole."""
        if self.shapes is not None and isinstance(name, (str, bytes)):
            text = name if isinstance(name, str) else name.decode("latin-1")
            masked = self.shapes.value_of(text)
            if masked is not None:
                return self._hidden(value, masked, known, depth)
        return self._value(value, known, depth)

    def _hidden(self, value: Any, masked: str, known: dict[int, tuple[Any, Any]], depth: int) -> Any:
        if isinstance(value, (bytes, bytearray)):
            return masked.encode()
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return masked if value != "" else value
        if isinstance(value, (list, tuple)) and depth < _MOST_LEVELS:
            return [self._hidden(one, masked, known, depth + 1) for one in value]
        return self._value(value, known, depth)

    def _number(self, value: Any) -> Any:
        if self.shapes is not None:
            return self.shapes.number(value)
        text = str(value) if isinstance(value, float) or abs(value) < _LARGEST else _DEEP
        kept = self.text(text)
        return value if kept == text and text != _DEEP else kept

    def _bytes(self, value: bytes | bytearray) -> Any:
        if self.shapes is not None:
            return _unless_same(value, self.text(value.decode("latin-1")).encode("latin-1", "replace"))
        try:
            return _unless_same(value, self.text(value.decode()).encode())
        except UnicodeDecodeError:  # a function of texts cannot judge it
            return b""

    def _error(self, error: BaseException, known: dict[int, tuple[Any, Any]], depth: int) -> BaseException:
        cause = None if error.__cause__ is None else self._value(error.__cause__, known, depth)
        kind: Any = type(error)
        copy: BaseException
        if isinstance(error, StreamToolsError):
            copy = kind.__new__(kind)
            copy.args = tuple(self._value(one, known, depth) for one in error.args)
            own = {name: self._field(name, one, known, depth) for name, one in vars(error).items()}
            copy.__dict__.update(own)
        else:
            if kind.__str__ is BaseException.__str__ and not error.args:
                return error  # without words, as a cancellation
            copy = stand_in(error, self.text(_words_of(error)))
        copy.__cause__ = cause if isinstance(cause, BaseException) else None
        copy.__suppress_context__ = True  # its context may be anything, and is not shown
        return copy.with_traceback(error.__traceback__)

    def fields(self, value: Any, known: dict[int, tuple[Any, Any]] | None = None, depth: int = 0) -> Any:
        kind: Any = type(value)
        copy = object.__new__(kind)
        for name, default in _plan(kind):
            found = getattr(value, name)
            kept = found if found is default else self._field(name, found, {} if known is None else known, depth)
            set_field(copy, name, kept)
        if isinstance(value, ToolCall):
            set_field(copy, "arguments_text", self._arguments_text(value))
        return copy

    def _field(self, name: str, value: Any, known: dict[int, tuple[Any, Any]], depth: int) -> Any:
        if name in _KEPT or (isinstance(value, (bool, int, float)) and name not in _ANY):
            return value
        if name in _NAMES and isinstance(value, str):
            return value if value in self._run.tool_names else self._made_up(value)
        if name == "fingerprint" or name.startswith("_"):
            return value
        if name == "invocation":
            return None
        if name == "data" and isinstance(value, str):  # base64
            return self._base64(value)
        return self._named(name, value, known, depth)

    def _made_up(self, name: str) -> str:
        kept = self.text(name)
        if kept != name:
            self._run.made_up[_plain(name)] = kept
        return kept

    def _arguments_text(self, call: ToolCall) -> str:
        """Returns arguments with their leaves redacted: in the text itself, escapes could hide them."""
        text = call.arguments_text
        if call.kind == "custom":
            return self.text(text)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):  # cut, or none: a piece of a secret is not recognised
            return DOT * len(text)
        kept = self.of(value)
        return text if kept is value else json.dumps(kept, ensure_ascii=False)

    def _base64(self, data: str) -> str:
        try:
            content = base64.b64decode(data, validate=True)
        except ValueError:
            return self.text(data)
        kept = self._bytes(content)
        return data if kept is content else base64.b64encode(kept).decode()


_LARGEST = 10**4000  # what Python writes as text by default is a little longer


def _plain(name: str) -> str:
    return _NO_LETTER.sub("_", name[:_NAME_CHARS]).lstrip("_")[: _NAME_CHARS - 8]


def set_field(target: object, name: str, value: object) -> None:
    object.__setattr__(target, name, value)


def _unless_same(value: Any, kept: Any) -> Any:
    if isinstance(value, (str, bytes, bytearray)):
        return value if kept == value else kept
    if isinstance(value, Mapping):
        pairs = zip(value.items(), kept.items(), strict=False)
        is_same = len(value) == len(kept) and all(a is c and b is d for (a, b), (c, d) in pairs)
    else:
        is_same = len(value) == len(kept) and all(a is b for a, b in zip(value, kept, strict=False))
    return value if is_same else kept


@cache
def _plan(kind: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((one.name, _default(one)) for one in dataclass_fields(kind))


def _default(one: Field[Any]) -> Any:
    return object() if one.default is MISSING else one.default


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except (Exception, SystemExit):  # a user's exception may fail to show itself
        return ""
