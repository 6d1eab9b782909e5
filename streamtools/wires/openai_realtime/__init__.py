"""``openai.realtime``: events of a Realtime session in, events out; a turn in, conversation items out.

    {"type":"response.created","event_id":"event_1","response":{"id":"resp_1","status":"in_progress","output":[]}}
    {"type":"response.output_item.added","response_id":"resp_1","output_index":0,"item":{"type":"function_call",...}}
    {"type":"response.function_call_arguments.done","response_id":"resp_1","output_index":0,"arguments":"{}",...}
    {"type":"response.output_item.done","response_id":"resp_1","output_index":0,"item":{"call_id":"call_1",...}}
    {"type":"response.done","event_id":"event_5","response":{"id":"resp_1","status":"completed","output":[...]}}

Source: the types of openai 3.54.0 (``openai/types/realtime``, read 2026-11-23). A response is a list of items, told as
the Responses API tells them, and always ends with ``response.done``. The events that end an item are also sent for a
response that is interrupted, incomplete or cancelled, so a call ends only with a response that is ``completed``. The
transcript of speech is the text of its message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ground import names
from .. import CallIds
from ..wire import built_in
from . import facts

if TYPE_CHECKING:
    from .history import client_events
else:
    __getattr__ = names(__name__, {"history": "client_events"})

__all__ = ["WIRE", "client_events"]

WIRE = built_in(
    "openai.realtime",
    facts,
    decoder="decoder:RealtimeDecoder",
    short_name="realtime",
    provider="openai",
    lanes="decoder:realtime_lanes",
    # No source gives a limit; a session's own ids have 21 characters, and what the Responses API takes may be too long.
    call_ids=CallIds(pattern=r"[\x21-\x7e]{1,32}", made_up=lambda digest: f"call_{digest[:16]}"),
    read=".openai_responses.history:read",
)
