"""Decodes suspended calls again, within limits that they were within before."""

from __future__ import annotations

from dataclasses import replace

from ..dispatch.suspended import Suspended, SuspendedCall
from ..limits import Limits
from ..stages import StageList
from ..tools import Toolset
from .given_calls import CallsDecoder, GivenCall

__all__ = ["decoder_of"]


def decoder_of(suspended: Suspended, tools: Toolset, stages: StageList, limits: Limits) -> CallsDecoder:
    """Returns a decoder of suspended calls. The text that they were kept as may be a little longer than the model's."""
    calls = [_given(call) for call in suspended.calls]
    return CallsDecoder(calls, tools, stages, _with_room(limits, suspended.calls), wire=suspended.wire)


def _given(call: SuspendedCall) -> GivenCall:
    return GivenCall(
        call_id=call.call_id,
        name=call.tool_name,
        text=call.arguments_text,
        index=call.index,
        kind=call.kind,
        namespace=call.namespace,
        awaits=call.awaits,
        caller=call.caller,
    )


def _with_room(limits: Limits, calls: tuple[SuspendedCall, ...]) -> Limits:
    """Returns limits that these calls do not exceed by their number or size."""
    sizes = [len(call.arguments_text) for call in calls]
    return replace(
        limits,
        max_tool_calls=max(limits.max_tool_calls, len(calls)),
        max_argument_bytes=max(limits.max_argument_bytes, *sizes, 0),
        max_total_argument_bytes=max(limits.max_total_argument_bytes, sum(sizes)),
        max_id_bytes=max(limits.max_id_bytes, *(len(call.call_id) for call in calls), 0),
        max_name_bytes=max(limits.max_name_bytes, *(len(call.tool_name) for call in calls), 0),
    )
