"""Decides which events of a stream belong to the turn that a decoder follows.

Theory of operation. One turn may take several interactions, each with an id of its own: where the API ends one with
``requires_continuation``, the client resumes it with a token, and google-genai does so by itself, within one stream.
Such an interaction is a *hop*. A token may come before an interaction's end, too (``interaction.status_update``): a hop
that was cut behind one is resumed from there, and what it said since then is said again.

An interaction that begins without either is another turn. The first is followed; the others' events are told apart by
the id in ``interaction.created``, since those of steps have none, and left out. With ``store: false`` the id is ``""``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..reading import read_text

__all__ = ["Hops", "id_of"]


class Hops:
    """The interactions of one turn."""

    def __init__(self) -> None:
        self.begun = False
        """True once an event came."""
        self.may_go_on = False
        """The next interaction that begins goes on with this one."""
        self.ids: tuple[str | None, ...] = ()
        """The ids of the first, and of the latest if there are several."""
        self._id: str | None = None
        self.elsewhere: str | None = None
        """The id of another turn, to which events without an id belong now."""
        self._has_others = False

    def begin(self, payload: Mapping[str, Any]) -> None:
        """Begins the first hop, or the next."""
        self.begun, self.may_go_on, self.elsewhere = True, False, None
        self._id = id_of(payload)
        self.ids = (*self.ids[:1], self._id)

    def other(self, payload: Mapping[str, Any]) -> str | None:
        """Returns None if an event belongs to this turn; else the other one's name, which is ``""`` if that was told
        before."""
        id_, begins = id_of(payload), payload.get("event_type") == "interaction.created"
        if not self.begun or (begins and self.may_go_on):
            return None
        if id_ is None:
            return "" if self.elsewhere is not None else None
        if self._id is None and not begins:
            self._id = id_
        self.elsewhere = id_ if id_ != self._id else None
        return None if self.elsewhere is None else self._named(id_)

    def _named(self, id_: str) -> str:
        known, self._has_others = self._has_others, True
        return "" if known else id_


def id_of(payload: Mapping[str, Any]) -> str | None:
    """Returns the id of the interaction that an event names."""
    interaction = payload.get("interaction")
    inner = interaction.get("id") if isinstance(interaction, Mapping) else None
    return read_text(inner) or read_text(payload.get("interaction_id"))
