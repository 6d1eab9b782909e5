"""Makes the events of a step as its copies may have them: the same events, with their content redacted.

In: the events in order. Out: for each one, those to show instead, with the same `seq`. Ids, names of registered tools,
words of ours, counts and times stay.

A growing text is masked by `redact_secrets` as it grows; where its end is still held when the text is over, one more
delta with the number of the last one brings it. A plain function sees whole texts alone. A secret may be cut by any
delta, so that deltas are masked then (`DOT`), and the end of the text has the whole; pages get it as one delta.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cache
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from ..content import Media, Opaque, Text, ToolResult
from ..errors import StreamToolsError
from ..events import (
    ApprovalRequested,
    Event,
    OutputDelta,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    StepEnd,
    StreamEnd,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
)
from ..parts import FailedAttempt, Finding, Part, ToolCall, Usage, Wait
from ..text import class_name
from .policy import Redact
from .secrets import SecretShapes, TextMask

__all__ = ["Copies", "DOT", "HasNames"]

DOT = "·"
"""Stands for each character of a delta that is masked."""
_NO_LETTER = re.compile(r"[^A-Za-z0-9]")
_NAME_CHARS = 64  # of a name in a request; the end of a longer one is cut
_SHORT = 64  # characters of a text that is looked through each time
_MOST_KNOWN = 4096  # texts of a run, with what is kept of them
_known_of: WeakKeyDictionary[HasNames, dict[str, str]] = WeakKeyDictionary()
_MOST_LEVELS = 200  # of nesting, in a value
_DEEP = "…"  # stands for what is nested deeper, and for a value inside itself

_KEPT = frozenset({
    # the event, and its place
    "seq", "step", "causes", "time", "run_id", "asks_model", "dispatches", "requested_at", "resumes",
    # identities, and words of ours or the provider's
    "wire", "model", "response_id", "call_id", "idempotency_key", "awaits", "caller", "kind", "type", "place", "code",
    "status", "problem", "normalizations", "outcome", "finish", "finish_raw", "schema_source", "owner", "validator",
    "boundary", "observation_type", "error_type", "mime_type", "setting", "limit", "seconds", "timeout_s",
})  # fmt: skip
"""Fields without content, of events, of our own values and of errors."""
_NAMES = frozenset({"name", "tool_name", "namespace"})
"""Fields that are content unless they name a registered tool."""
_ANY = frozenset({"value", "raw"})
"""Fields whose numbers are content, too."""
_OURS = frozenset({ToolCall, Usage, Wait, FailedAttempt, Finding, ToolResult, Text, Media, Opaque, Part})
_ENDS: Mapping[type[Event], type[Event]] = {TextEnd: TextDelta, ReasoningEnd: ReasoningDelta}
_LAST = frozenset({StreamEnd, StepEnd})


@dataclass(slots=True)
class _Growing:
    """A text that grows."""

    mask: TextMask | None
    latest: Any
    """Its last delta."""
    pieces: list[str] = field(default_factory=list)
    """All of it, for a policy that sees whole texts."""
    is_hidden: bool = False
    """True once the rest is masked, since JSON escapes could hide a secret in it."""


class HasNames(Protocol):
    """A run, with the names of tools in it."""

    tool_names: frozenset[str]
    """The registered ones."""
    made_up: dict[str, str]
    """What stands for those that the model made up, by their valid characters."""


class Copies:
    """Makes copies of the events of one step.

    Args:
        redact: the policy's function.
        run: has the names of the registered tools so far.
        for_pages: the copies are web frames: an approval keeps its fingerprint, by which a decision names it, and
            masked deltas are left out.
    """

    def __init__(self, redact: Redact, run: HasNames, *, for_pages: bool = False) -> None:
        self._redact = redact
        self._shapes = redact if isinstance(redact, SecretShapes) else None
        self._run = run
        self._for_pages = for_pages
        self._growing: dict[Any, _Growing] = {}
        self._known = _known_of.setdefault(run, {})

    def of(self, event: Event) -> list[Event]:
        """Returns the events to show instead of this one.

        Raises:
            TypeError: the policy's function did not return text.
            Exception: the policy's function raised it.
        """
        kind = type(event)
        if kind in (TextDelta, ReasoningDelta, RefusalDelta):
            return self._delta(kind, event, "text")
        if isinstance(event, ToolCallDelta):
            return self._delta((event.step, event.call_id), event, "delta")
        if isinstance(event, OutputDelta):
            return [] if self._for_pages else [OutputDelta(seq=event.seq, step=event.step)]
        copy = self._fields(event)
        shown: list[Event] = []
        if kind in _ENDS:
            self._end(_ENDS[kind], shown, copy)
        elif isinstance(event, ToolCallEnd):
            self._end((event.step, event.call_id), shown, copy)
        elif kind in _LAST:
            is_cut = not isinstance(event, StreamEnd) or not event.complete
            for key in list(self._growing):
                self._end(key, shown, copy, is_cut=is_cut)
            if isinstance(copy, StreamEnd):
                _set(copy, "resume_from", None)  # payloads of the wire, deltas among them
        elif isinstance(copy, ApprovalRequested) and not self._for_pages:
            _set(copy, "fingerprint", "")  # a hash of arguments shows whether a guess of them is right
        shown.append(copy)
        return shown

    # -- growing texts --

    def _delta(self, key: Any, event: Any, name: str) -> list[Event]:
        text: str = getattr(event, name)
        known = self._growing.get(key)
        if known is None:
            known = self._growing[key] = _Growing(self._shapes.growing() if self._shapes else None, event)
        known.latest = event
        if known.mask is None:
            known.pieces.append(text)
            return [] if self._for_pages else [_delta_of(event, name, DOT * len(text))]
        if name == "delta":
            # In JSON an escape may stand for any character: what follows one is shown when it is read, at its end.
            joined = (known.pieces[-1] if known.pieces else "") + text
            known.is_hidden |= "\\u" in joined or "\\/" in joined
            known.pieces = [text[-1:]]
        if known.is_hidden:
            return [] if self._for_pages else [_delta_of(event, name, DOT * len(text))]
        certain = known.mask.feed(text)
        return [] if self._for_pages and not certain else [_delta_of(event, name, certain)]

    def _end(self, key: Any, shown: list[Event], end: Any, *, is_cut: bool = False) -> None:
        """Shows the rest of a text that is over."""
        known = self._growing.pop(key, None)
        if known is None:
            return
        name = "delta" if isinstance(known.latest, ToolCallDelta) else "text"
        if known.mask is not None:
            rest = "" if known.is_hidden else known.mask.finish()
            if rest:  # of a text that was cut, the beginning of a secret is not recognised
                shown.append(_delta_of(known.latest, name, DOT * len(rest) if is_cut else rest))
            return
        if isinstance(end, ToolCallEnd):
            whole = end.call.arguments_text
        else:
            whole = self.text("".join(known.pieces))
            if isinstance(end, (TextEnd, ReasoningEnd)):
                if not self._for_pages and end.whole is None:
                    _set(end, "whole", whole)
                if end.whole is not None:
                    return
        if self._for_pages and not is_cut:
            shown.append(_delta_of(known.latest, name, whole))

    # -- values --

    def text(self, text: str) -> str:
        """Returns a whole text as it may be kept.

        Raises:
            TypeError: the policy's function did not return text.
        """
        if self._shapes is not None:
            return self._masked(text, self._shapes)
        kept = self._redact(text)
        if not isinstance(kept, str):
            raise TypeError(f"expected text from redact, got {class_name(kept)}")
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

    def value(self, value: Any) -> Any:
        """Returns any value as it may be kept: the same object if nothing in it has changed."""
        return self._value(value, {}, 0)

    def parts(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """Returns the pieces of a response as they may be kept."""
        return tuple(self._fields(part) for part in parts)

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
        if isinstance(value, Mapping):
            pairs = [
                (self._value(key, known, depth), self._named(key, one, known, depth)) for key, one in value.items()
            ]
            return _unless_same(value, dict(pairs)) if kind is dict else dict(pairs)
        if kind in (list, tuple, set, frozenset):
            return _unless_same(value, kind(self._items(value, known, depth)))
        if kind in _OURS:
            return self._fields(value, known, depth)
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
        if self._shapes is not None and isinstance(name, (str, bytes)):
            text = name if isinstance(name, str) else name.decode("latin-1")
            masked = self._shapes.value_of(text)
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
        if self._shapes is not None:
            return self._shapes.number(value)
        text = str(value) if isinstance(value, float) or abs(value) < _LARGEST else _DEEP
        kept = self.text(text)
        return value if kept == text and text != _DEEP else kept

    def _bytes(self, value: bytes | bytearray) -> Any:
        if self._shapes is not None:
            return _unless_same(value, self.text(value.decode("latin-1")).encode("latin-1", "replace"))
        try:
            return _unless_same(value, self.text(value.decode()).encode())
        except UnicodeDecodeError:  # a function of texts cannot judge it
            return b""

    def _error(self, error: BaseException, known: dict[int, tuple[Any, Any]], depth: int) -> BaseException:
        """Returns an exception with the same class, or its name, and with redacted words."""
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
            copy = _stand_in(kind)(self.text(_words_of(error)))
        copy.__cause__ = cause if isinstance(cause, BaseException) else None
        copy.__suppress_context__ = True  # its context may be anything, and is not shown
        return copy.with_traceback(error.__traceback__)

    # -- fields --

    def _fields(self, value: Any, known: dict[int, tuple[Any, Any]] | None = None, depth: int = 0) -> Any:
        """Returns an event, or a value of ours, with its content redacted."""
        kind: Any = type(value)
        copy = object.__new__(kind)
        for name, default in _plan(kind):
            found = getattr(value, name)
            kept = found if found is default else self._field(name, found, {} if known is None else known, depth)
            _set(copy, name, kept)
        if isinstance(value, ToolCall):
            _set(copy, "arguments_text", self._arguments_text(value))
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
        kept = self.value(value)
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


def _set(target: object, name: str, value: object) -> None:
    object.__setattr__(target, name, value)  # events are immutable to everybody else


def _delta_of(event: Any, name: str, text: str) -> Any:
    if name == "delta":
        # Without its preview, which reads the arguments as they were.
        return ToolCallDelta(event.call_id, text, seq=event.seq, step=event.step)
    return replace(event, text=text)


def _unless_same(value: Any, kept: Any) -> Any:
    """Returns the value itself where nothing in it has changed."""
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
    """Returns the fields of a class, each with its default."""
    return tuple((one.name, _default(one)) for one in fields(kind))


def _default(one: Field[Any]) -> Any:
    return object() if one.default is MISSING else one.default


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except (Exception, SystemExit):  # a user's exception may fail to show itself
        return ""


@cache
def _stand_in(kind: Any) -> Callable[[str], BaseException]:
    """Returns a class of the same name, which has words alone."""
    base = Exception if issubclass(kind, Exception) else BaseException
    made: Callable[[str], BaseException] = type(
        kind.__name__, (base,), {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    )
    return made
