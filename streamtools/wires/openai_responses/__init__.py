"""``openai.responses``: Responses stream events in, events out; a turn in, input items out.

    data: {"type":"response.created","response":{"id":"resp_1","model":"m","status":"in_progress","output":[]}}
    data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_1",...}}
    data: {"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc_1","delta":"{}"}
    data: {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c",...}}
    data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[],"usage":{}}}

Source: https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-21), and what other servers do.
A response is a list of items. An item ends at ``response.output_item.done``, which repeats it whole: that is the truth,
and deltas were a preview of it. The response ends at ``response.completed``, ``incomplete`` or ``failed``, whose own
list fills in what never streamed.
"""

from __future__ import annotations

from ..wire import CallIds, built_in
from . import facts

__all__ = ["WIRE"]

WIRE = built_in(
    "openai.responses",
    facts,
    decoder="decoder:ResponsesDecoder",
    short_name="responses",
    provider="openai",
    whole="history:whole",
    lanes="lanes:ResponseLanes",
    # "Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64"
    call_ids=CallIds(pattern=r"[\x21-\x7e]{1,64}", own=r"[\x21-\x7e]{100,}"),  # the latter: as in chat, from LiteLLM
    carries=("previous_response_id",),
    chain="previous_response_id",
    resumed_arguments=("delta",),
)
