"""``gemini.live``: messages of a Live session in, events out; a turn in, contents out.

    {"serverContent":{"modelTurn":{"parts":[{"text":"Let me see."}]}}}
    {"toolCall":{"functionCalls":[{"id":"call-1","name":"f","args":{"n":1}}]}}
    {"serverContent":{"modelTurn":{"parts":[{"text":"It is 1."}]}}}
    {"serverContent":{"generationComplete":true}}
    {"serverContent":{"turnComplete":true},"usageMetadata":{"promptTokenCount":3,"responseTokenCount":4}}

Source: https://ai.google.dev/api/live, and the types and `live.py` of google-genai 3.4.0 (read 2026-11-23). Messages
have no id of a response. A response ends with ``turnComplete``, or with a ``toolCall``: the client has to answer. Calls
are whole when they come, so they start at once. The session may cancel them while they run (``toolCallCancellation``):
where the socket is the source, it is read beside the calls, and those calls are cancelled.
docs/providers/wires.md#gemini-live has what goes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ground import names
from .. import CallIds
from ..wire import built_in
from . import facts

if TYPE_CHECKING:
    from .messages import client_messages, function_responses
else:
    __getattr__ = names(__name__, {"messages": "client_messages function_responses"})

__all__ = ["WIRE", "client_messages", "function_responses"]

WIRE = built_in(
    "gemini.live",
    facts,
    decoder="decoder:LiveDecoder",
    short_name="live",
    provider="gcp.gemini",
    lanes="decoder:LiveTurns",
    taken_back="decoder:taken_back",
    # No rule is documented; these are the characters of the ids that the API itself gives.
    call_ids=CallIds(pattern=r"[a-zA-Z0-9_-]{1,64}"),
    read=".gemini.history:read",
    render_reply=".gemini.history:render_reply",
    render_results=".gemini.history:render_results",
    render_prompt=".gemini.history:render_prompt",
)
