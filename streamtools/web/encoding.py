"""Writes the events of a run as server-sent events, with the data of an `Encode`.
https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import orjson
from pydantic_core import to_json, to_jsonable_python

from ..dispatch import Suspended
from ..errors import ProviderError, RequestError, StreamError
from ..events import Event
from ..ground import well_formed_tree
from ..parts import RUN_OUTCOMES

Frame: TypeAlias = tuple[str, Any] | bytes
"""A name (``""`` for none) and data (text unchanged, anything else as JSON); or bytes, which are sent unchanged."""
Encode: TypeAlias = "Callable[[Event | RunEnd], Frame | Iterable[Frame] | None]"
"""Returns the data to send for an event: a `Frame`, several, or None to send nothing."""


@runtime_checkable
class Encoder(Protocol):
    """Encodes one response in one protocol: an `Encode` with state, made anew for each response.

    The same events give the same frames, so that a returning reader continues where it was. Events before a response
    are passed in as well, and their frames are dropped.
    """

    @property
    def can_retract(self) -> bool:
        """True if its readers forget the events of a discarded attempt."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the response, which override those of an event stream."""
        ...

    def begin(self) -> Iterable[Frame]:
        """Returns the first frames of a response, at any place of its run."""
        ...

    def __call__(self, event: Event | RunEnd, /) -> Iterable[Frame]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of the run: the last event for `Encode`, even if the run failed."""

    outcome: str
    """``error``; ``suspended``, if calls wait for approvals; else the outcome of the loop (`RunOutcome`) or of the
    pipeline's `StepEnd`."""
    error: Exception | None = None
    """The error that ended the run."""
    suspended: Suspended | None = None
    """The calls that wait for people, if they are known in full."""
    call_ids: tuple[str, ...] = ()
    """The ids of the calls that wait for people."""
    error_kind: str | None = None
    """The kind of the error, if the error itself is unknown here."""
    retry_after: float | None = None
    """Seconds to wait before asking the model's provider again, if it says so."""

    @property
    def kind(self) -> str | None:
        """The kind of the error, without its text, which may name hosts or accounts."""
        return self.error_kind if self.error is None else told_of(self.error)[0]

    @property
    def words(self) -> str:
        """The reason for the end, for people."""
        if self.kind is not None or self.outcome == "error":
            again = "" if self.retry_after is None else f"; try again in {math.ceil(self.retry_after)} s"
            return f"the run failed: {(self.kind or 'internal_error').replace('_', ' ')}{again}"
        facts = RUN_OUTCOMES.get(self.outcome)  # type: ignore[call-overload]  # a pipeline's outcome is none of these
        return f"the response is {self.outcome}" if facts is None else facts.words


def told_of(error: BaseException | None) -> tuple[str, float | None]:
    """Returns the kind of a run's error, and the seconds after which to ask again, if its provider has said so."""
    from ..sources.failures import failure_of  # most runs do not fail

    if not isinstance(error, StreamError):
        return "internal_error", None
    failed = failure_of(error.__cause__ or error)
    is_of_provider = isinstance(error, (RequestError, ProviderError)) or failed.status is not None
    return (is_of_provider and failed.code) or error.kind, failed.retry_after


HEADERS: Mapping[str, str] = {  # the headers of an event stream that no proxy in between holds back
    "content-type": "text/event-stream; charset=utf-8",
    # A proxy that adds compression holds events back until it has a block of them.
    "cache-control": "no-cache, no-transform",
    # nginx would buffer the events: https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_buffering
    "x-accel-buffering": "no",
    # Or a browser may take a text that a model has written for a page.
    "x-content-type-options": "nosniff",
}

_LINE_END = re.compile(r"\r\n|\r|\n")


def encoded(event: Event | RunEnd, encode: Encode) -> bytes:
    given = encode(event)
    if given is None:
        return b""
    seq = None if isinstance(event, RunEnd) else event.seq
    return b"".join(framed(one, id=seq) for one in frames(given))


def framed(one: Frame, *, id: int | str | None = None) -> bytes:
    return one if isinstance(one, bytes) else frame(one, id=id)


def frame(pair: tuple[str, Any], *, id: int | str | None = None) -> bytes:
    """Returns one server-sent event with a name, which may have no line end, or without one, and its data."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(f"encode: expected (name, data), or None to send nothing, got {type(pair).__name__}")
    name, data = pair
    if not isinstance(name, str) or _LINE_END.search(name):
        raise ValueError("encode: expected one line of text as the event's name")
    text = data if isinstance(data, str) else json_bytes(data).decode()
    head = (f"event: {name}\n" if name else "") + ("" if id is None else f"id: {id}\n")
    # Each line in a field of its own: a line end inside the data would end the field, and the rest begin another one.
    lines = "".join(f"data: {line}\n" for line in _LINE_END.split(text))
    return f"{head}{lines}\n".encode("utf-8", "replace")


def plain(value: Any, otherwise: Any = None) -> Any:
    """Returns a Python value as JSON has it: models as objects, dates as text; `otherwise` if it cannot be."""
    kind = type(value)
    if value is None or kind is str or kind is bool or kind is int or kind is float:
        return value
    try:
        return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null")
    except Exception:  # a user's class may raise anything, and a value may contain itself
        return otherwise


def json_bytes(data: Any) -> bytes:
    try:
        return orjson.dumps(data)
    except TypeError:  # half a surrogate pair, or a number of more than 64 bits
        try:
            return to_json(well_formed_tree(data))
        except ValueError:
            pass
        raise


def frames(given: Any) -> Iterable[Any]:
    """Returns what `Encode` gave for an event as frames, which are not checked yet; raises a TypeError for others."""
    if isinstance(given, bytes) or (isinstance(given, tuple) and given and not isinstance(given[0], (tuple, bytes))):
        return (given,)
    if isinstance(given, Iterable) and not isinstance(given, (str, Mapping)):
        return given
    raise TypeError(
        f"encode: expected (name, data), bytes, a list of these, or None to send nothing, got {type(given).__name__}"
    )
