"""``openai.responses``: Responses stream events in, events out; a turn in, input items out.

    data: {"type":"response.created","response":{"id":"resp_1","model":"m","status":"in_progress","output":[]}}
    data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_1",...}}
    data: {"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc_1","delta":"{}"}
    data: {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c",...}}
    data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[],"usage":{}}}

Source: https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-21), and what other servers do.
A response is a list of items. An item ends at ``response.output_item.done``, which repeats it whole: that is the truth,
and deltas were a preview of it. The response ends at ``response.completed``, ``incomplete`` or ``failed``, whose own
list fills in what never streamed. On the way back every item goes as it came, in its place; a result answers the item's
``call_id``, never its ``id``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...on_demand import functions, names
from ..marks import is_response_answer, is_response_event
from ..wire import CallIds, Wire
from .facts import CALLS, RESULT, RULES, STRUCTURED, TOOLS, USAGE

if TYPE_CHECKING:
    from .decoder import ResponsesDecoder
    from .decoder import ResponsesDecoder as new_decoder
    from .history import read, render, render_prompt, whole
    from .lanes import ResponseLanes as lanes
else:
    __getattr__ = names(__name__, {"decoder": "ResponsesDecoder"})
    new_decoder, lanes, read, render, render_prompt, whole = functions(
        __name__,
        "decoder:ResponsesDecoder",
        "lanes:ResponseLanes",
        "history:read",
        "history:render",
        "history:render_prompt",
        "history:whole",
    )

__all__ = ["WIRE", "ResponsesDecoder"]

WIRE = Wire(
    name="openai.responses",
    short_name="responses",
    provider="openai",
    decoder=new_decoder,
    recognises=is_response_event,
    render=render,
    is_answer=is_response_answer,
    whole=whole,
    lanes=lanes,
    # "Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64"
    call_ids=CallIds(pattern=r"[\x21-\x7e]{1,64}"),
    usage=USAGE,
    read=read,
    render_prompt=render_prompt,
    rules=RULES,
    tools=TOOLS,
    structured=STRUCTURED,
    calls=CALLS,
    results=RESULT,
    resumed_arguments=("delta",),
)
