"""Reads a whole answer, of a request without a stream, as the stream that would have said the same.

Input: a payload that begins a body, or a dict in the place of a stream. Output: the payloads of that stream, by the
wire's own `Wire.whole`; so decoding, validation and all else are those of a stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..wires import Wire, answering, find
from ..wires.reading import provider_error

__all__ = ["as_items", "payloads_of", "rewritten"]


def rewritten(payload: Mapping[str, Any], wire: Wire | None) -> list[dict[str, Any]] | None:
    """Returns the payloads that say the same as a whole answer of the wire, or of any if it is None; None if this is
    none, or is a payload of a stream as it stands."""
    found = payloads_of(payload, wire)
    return None if found is None or found[0] is payload else found


def payloads_of(answer: Mapping[str, Any], wire: Wire | None) -> list[dict[str, Any]] | None:
    """Returns a whole answer of the wire, or of any, as payloads; None if this is none."""
    wires = answering(answer) if wire is None else (wire,)
    made = (wire.whole(answer) for wire in wires if wire.whole is not None)
    return next((payloads for payloads in made if payloads is not None), None)


def as_items(given: Any, wire: Wire | str | None) -> Any:
    """Returns a dict as a list of this one item, and anything else as it is.

    Raises:
        TypeError: it is a dict, and no answer of the wire, or of any.
    """
    if not isinstance(given, Mapping):
        return given
    record = None if wire is None else find(wire)
    if payloads_of(given, record) is None and provider_error(given) is None:
        if hasattr(given.get("stream"), "__iter__"):
            raise TypeError("this is an answer around a stream; pass response['stream']")
        whose = "any known wire" if record is None else record.name
        raise TypeError(
            f"a dict is read as a whole answer, and this is none of {whose}; ask for stream=True and pass the stream, "
            "or a list of its payloads"
        )
    return [given]
