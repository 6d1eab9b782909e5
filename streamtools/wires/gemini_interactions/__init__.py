"""``gemini.interactions``: Interactions stream events in, events out; a turn in, steps for the next input out.

    data: {"event_type":"interaction.created","interaction":{"id":"v1_a","status":"in_progress","model":"m"}}
    data: {"event_type":"step.start","index":0,"step":{"type":"function_call","id":"k1","name":"f","arguments":{}}}
    data: {"event_type":"step.delta","index":0,"delta":{"type":"arguments_delta","arguments":"{\\"a\\":1}"}}
    data: {"event_type":"step.stop","index":0}
    data: {"event_type":"interaction.completed","interaction":{"id":"v1_a","status":"requires_action","usage":{}}}

Source: https://ai.google.dev/gemini-api/docs/streaming and the types of google-genai 3.4.0 (read 2026-11-22). An
interaction is a list of steps. A step ends at ``step.stop``, and a call is whole there; the interaction ends at
``interaction.completed``, whatever its status. ``[DONE]`` proves nothing. Where the status is ``requires_continuation``
the client resumes it, and google-genai does so in the same stream: the interactions of one turn are its *hops*.
docs/providers/wires.md#gemini-interactions has what goes back.
"""

from __future__ import annotations

from .. import CallIds
from ..wire import built_in
from . import facts

__all__ = ["WIRE"]

WIRE = built_in(
    "gemini.interactions",
    facts,
    decoder="decoder:InteractionsDecoder",
    short_name="interactions",
    provider="gcp.gemini",
    whole="history:whole",
    # No rule is documented; these are the characters of the ids that the API itself gives.
    call_ids=CallIds(pattern=r"[a-zA-Z0-9_-]{1,64}"),
    carries=("previous_interaction_id",),
    chain="previous_interaction_id",
    resumed_arguments=("delta", "arguments"),
)
