"""Finds the fields of a payload that a wire does not read, so that they can be passed on.

Input: a payload, and the `KnownFields` of each of its levels. Output: the other fields that have a value, with the path
of the object that they stand in. The cost is that of one comparison of names for each level in the table; levels that
the table does not have are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from ..events import Event, UnknownPayload
from .reading import says_something

__all__ = ["ERROR", "ERROR_PAYLOAD", "KnownFields", "Path", "beside_error", "place_of", "unread"]

Path: TypeAlias = "tuple[str | int, ...]"
"""The names and numbers that lead from a payload to a value in it."""


class KnownFields:
    """The fields of an object that a wire knows.

    Args:
        known: names of fields that are read whole, kept whole, or say nothing.
        inside: fields that hold an object, or a list of objects, with the fields known there.
    """

    __slots__ = ("inside", "known")

    def __init__(self, *known: str, **inside: KnownFields) -> None:
        self.known = frozenset(known) | inside.keys()
        self.inside = tuple(inside.items())

    def but(self, *known: str, **inside: KnownFields) -> KnownFields:
        """Returns these and more; a field that is `inside` both times has the latter's."""
        return KnownFields(*self.known, *known, **{**dict(self.inside), **inside})


ERROR = KnownFields("code", "message", "type")
"""Fields of an error that `ProviderError` has."""

ERROR_PAYLOAD = KnownFields("code", "message", "type", "event_type", "object", error=ERROR)
"""Fields of a payload that reports an error."""


def unread(found: Mapping[str, Any], fields: KnownFields, path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yields the unknown fields of an object and of those inside it, each object's with its path, the
    innermost first."""
    for key, inner in fields.inside:
        value = found.get(key)
        if isinstance(value, Mapping):
            yield from unread(value, inner, (*path, key))
        elif isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, Mapping):
                    yield from unread(item, inner, (*path, key, number))
    if not found.keys() <= (known := fields.known):
        rest = {key: value for key, value in found.items() if key not in known and says_something(value)}
        if rest:
            yield path, rest


def beside_error(payload: Mapping[str, Any]) -> list[Event]:
    """Returns an event for each object of a payload that reports an error, if the error leaves fields of it out."""
    return [UnknownPayload(rest, place_of(path)) for path, rest in unread(payload, ERROR_PAYLOAD)]


def place_of(path: Path) -> str:
    """Returns a path as `UnknownPayload.place` words it: ``choices[0].delta``."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")
