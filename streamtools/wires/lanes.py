"""The responses of one connection that carries several, one after another or side by side.

A wire whose events travel over such a connection gives in its record what makes `Lanes`: payloads in, the responses
that each belongs to out. `streamtools.sources` splits a connection by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Lanes", "OpenResponse"]


@dataclass(slots=True, eq=False)
class OpenResponse:
    """A response of the connection, from its first event to its last."""

    id: str | None
    stream_id: str | None
    """The lane that it is on."""
    said: bool = False
    """More came of it than that it was created."""
    ended: bool = False


class Lanes(Protocol):
    """The responses of a connection that have begun and not ended."""

    open: list[OpenResponse]

    def owners(self, payload: Mapping[str, Any], /) -> list[OpenResponse]:
        """Returns the responses that an event belongs to: mostly one, which begins here if it is not open; none if it
        comes between responses. An owner that the event ends is `ended` afterwards."""
        ...
