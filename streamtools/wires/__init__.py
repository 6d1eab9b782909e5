"""Provider wires: payloads in, events out; and the way back, a turn in, the provider's messages out.

One package per wire, whose record is its `Wire`. A decoder is fed one payload at a time (a parsed JSON object); it
knows nothing of bytes, tools or clocks. `detect` finds the wire from a payload.

A wire of your own is a `Wire`, too: pass it wherever a wire is asked for, or `register` it, so that its name is known
and its payloads are detected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..ground.on_demand import names as names_on_demand
from ..ground.text import known_names
from .decoder import WireDecoder
from .marks import MARKS
from .plain import PlainDelta
from .reading import (
    Derived,
    KnownFields,
    UsageMap,
    json_text,
    list_of,
    malformed,
    named_error,
    object_of,
    objects_in,
    provider_error,
    read_text,
    rest_of,
)
from .wire import CallIds, Lanes, OpenResponse, Tolerance, Wire

if TYPE_CHECKING:
    from .cited import CitedSource, cited_sources, distinct_sources, made_files
    from .formats import (
        CallFormat,
        EntryFormat,
        NamespaceFormat,
        ResultFormat,
        StrictForm,
        StructuredOutput,
        ToolEntry,
        ToolFormat,
    )
    from .growing import GrowingDecoder
    from .history_rules import HistoryRules
    from .transcript import (
        Answer,
        AnswerBuilder,
        CallNames,
        CallResult,
        Entry,
        Prompt,
        Reply,
        Returned,
        id_as_read,
        text_of,
    )
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "cited": "CitedSource cited_sources distinct_sources made_files",
            "formats": "CallFormat EntryFormat NamespaceFormat ResultFormat StrictForm StructuredOutput ToolEntry "
            "ToolFormat",
            "growing": "GrowingDecoder",
            "history_rules": "HistoryRules",
            "transcript": "Answer AnswerBuilder CallNames CallResult Entry Prompt Reply Returned id_as_read text_of",
        },
    )

__all__ = [
    "Answer", "AnswerBuilder", "CallFormat", "CallIds", "CallNames", "CallResult", "CitedSource", "Derived", "Entry",
    "EntryFormat", "GrowingDecoder", "HistoryRules", "KnownFields", "Lanes", "NamespaceFormat", "OpenResponse",
    "PlainDelta", "Prompt", "Reply", "ResultFormat", "Returned", "StrictForm", "StructuredOutput", "Tolerance",
    "ToolEntry", "ToolFormat", "UsageMap", "WIRES", "Wire", "WireDecoder", "answering", "cited_sources", "detect",
    "distinct_sources", "find", "id_as_read", "is_known", "json_text", "known", "list_of", "made_files", "malformed",
    "named_error", "names", "object_of", "objects_in", "provider_error", "read_text", "register", "rest_of", "text_of",
    "unregister",
]  # fmt: skip

WIRES: tuple[str, ...] = tuple(MARKS)
"""The names of the wires that the library has, in the order of detection. Each is loaded when it is first used."""

_loaded: dict[str, Wire] = {}
_registered: dict[str, Wire] = {}


def names() -> tuple[str, ...]:
    """Returns the names of all wires, registered ones first."""
    return (*_registered, *WIRES)


def known() -> tuple[Wire, ...]:
    """Returns all wires, in the order of `names`."""
    return (*_registered.values(), *map(_built_in, WIRES))


def find(wire: Wire | str) -> Wire:
    """Returns the wire of that name; a `Wire` is returned unchanged.

    Raises:
        TypeError: this is neither a `Wire` nor a name.
        ValueError: no wire has this name; the message lists those that exist.
    """
    if isinstance(wire, Wire):
        return wire
    if not isinstance(wire, str):
        raise TypeError(f"a wire is a streamtools.wires.Wire or the name of one, not {type(wire).__name__}")
    if wire in _registered:
        return _registered[wire]
    if wire not in MARKS:
        raise ValueError(f"unknown wire {wire!r}; {meant(wire, names())}")
    return _built_in(wire)


def meant(name: str, among: Sequence[str]) -> str:
    """Returns the end of the message about an unknown wire: the one of `among` that was perhaps meant, and all."""
    own = {one.name: one.short_name for one in _registered.values() if one.short_name}
    return known_names(name, among, {one: marks.called for one, marks in MARKS.items()} | own)


def is_known(wire: Wire) -> bool:
    """Returns whether `find` returns this very wire for its name."""
    return (_registered.get(wire.name) or _loaded.get(wire.name)) is wire


def _built_in(name: str) -> Wire:
    wire = _loaded.get(name)
    if wire is None:
        wire = _loaded[name] = import_module(f".{MARKS[name].package}", __name__).WIRE
    return wire


def detect(payload: Mapping[str, Any]) -> str | None:
    """Returns the name of the wire of a payload; None if it could be any (an error, a keep-alive). Registered wires are
    tried before the library's own."""
    for wire in _registered.values():
        if wire.is_own(payload):
            return wire.name
    return next((name for name, marks in MARKS.items() if marks.recognises(payload)), None)


def answering(answer: Mapping[str, Any]) -> Iterator[Wire]:
    """Yields the wires of which this may be a whole answer, in the order of `names`."""
    yield from _registered.values()
    for name, marks in MARKS.items():
        if marks.is_answer is not None and marks.is_answer(answer):
            yield _built_in(name)


def register(wire: Wire) -> None:
    """Makes a wire of your own known by its name to `find`, detection, the command line and `streamtools.resume`.

    A wire that is not registered can be passed itself: ``pipeline(stream, wire=ACME)``. Registering the same wire again
    does nothing.

    Raises:
        TypeError: this is not a `Wire`.
        ValueError: the name or the short name is taken by another wire, a format, or MCP; the message says by which.
    """
    if not isinstance(wire, Wire):
        raise TypeError(f"register takes a streamtools.wires.Wire, not {type(wire).__name__}")
    owners = {"mcp": "MCP"}  # no wire, but named where wires are
    for other in known():
        if other is not wire:
            formats = (format.name for format in other.tools)
            owners |= dict.fromkeys((*formats, other.short_name or other.name, other.name), other.name)
    for name in (wire.name, wire.short_name):
        if name in owners:
            raise ValueError(f"the name {name!r} is taken by {owners[name]}")
    _registered[wire.name] = wire


def unregister(wire: Wire) -> None:
    """Removes a registered wire; does nothing if it is not registered."""
    if _registered.get(wire.name) is wire:
        del _registered[wire.name]
