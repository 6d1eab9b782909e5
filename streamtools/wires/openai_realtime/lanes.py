"""Tells apart the responses of a Realtime session, by the words of its events."""

from __future__ import annotations

from ..openai_responses.facts import WAITING
from ..openai_responses.lanes import LaneWords, ResponseLanes
from .facts import DONE

__all__ = ["realtime_lanes"]


def realtime_lanes() -> ResponseLanes:
    """Returns the lanes of a session."""
    return ResponseLanes(_LANES)


_LANES = LaneWords(
    terminals=(DONE,),
    errors=("error",),
    waiting=WAITING,
    beside=(
        "conversation.",
        "input_audio_buffer.",
        "mcp_list_tools.",
        "output_audio_buffer.",
        "rate_limits.",
        "session.",
    ),
    one_at_a_time=False,
    is_error_last=False,
)
