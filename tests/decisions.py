"""Decisions about suspended calls, as somebody makes them who was shown these very calls."""

from __future__ import annotations

from collections.abc import Mapping

from streamtools import Decision, Deny, Suspended

__all__ = ["decisions_on"]


def decisions_on(suspended: Suspended | None, verdicts: Mapping[str, bool | Deny]) -> list[Decision]:
    """Returns a decision for each verdict by id; all of these calls have to be suspended."""
    calls = {call.call_id: call for call in suspended.calls}
    return [Decision.on(calls[call_id], verdict) for call_id, verdict in verdicts.items()]
