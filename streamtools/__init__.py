"""Async streaming middleware between an LLM's stream and the tools that the model calls.

    source ──► framing ──► wire ──► accumulate ──► finalize ──► validate ──► dispatch ──► observation ──► messages
    (async)    bytes→frames  frames→events  deltas→calls   text→JSON     JSON→typed    (async)        one per call

Wrap the stream that you hold, and iterate:

    async with pipeline(stream, tools=[get_weather]) as events:
        async for event in events:
            ...
    messages += events.turn.messages()

Without an event loop, `parse` reads a whole response, and `StreamDecoder` one that comes in pieces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .ground import on_demand

if TYPE_CHECKING:
    from ._version import __version__
    from .decode.decoder import StreamDecoder, parse
    from .durable.retry import Retry
    from .durable.suspended import CallAnswer, Suspended
    from .errors import ModelRetry, StreamError, StreamToolsError, ToolError
    from .events import ApprovalRequested, Event, Observation, ReasoningDelta, StreamEnd, TextDelta, ToolCallValidated
    from .front import Trajectory
    from .front.at_hand import resume, run_calls
    from .front.face import Pipeline
    from .front.growing import Growing
    from .front.run_face import AgentLoop
    from .front.runs import agent_loop
    from .front.streams import pipeline
    from .limits import Limits
    from .parts import ToolCall, Usage
    from .seams import Decision, Deny
    from .tools.context import ToolContext
    from .tools.definition import Tool
    from .tools.tool import tool
    from .turn import Turn
else:
    __getattr__ = on_demand.names(
        __name__,
        {
            "_version": "__version__",
            "front.streams": "pipeline",
            "front.at_hand": "resume run_calls",
            "front.runs": "agent_loop",
            "front.face": "Pipeline",
            "front.growing": "Growing",
            "seams": "Decision Deny",
            "front.run_face": "AgentLoop",
            "front": "Trajectory",
            "durable.retry": "Retry",
            "durable.suspended": "CallAnswer Suspended",
            "limits": "Limits",
            "decode.decoder": "StreamDecoder parse",
            "tools.tool": "tool",
            "tools.definition": "Tool",
            "tools.context": "ToolContext",
            "turn": "Turn",
            "parts": "ToolCall Usage",
            "events": "ApprovalRequested Event Observation ReasoningDelta StreamEnd TextDelta ToolCallValidated",
            "errors": "ModelRetry StreamError StreamToolsError ToolError",
        },
    )

__all__ = [
    "__version__",
    # wrap a stream
    "pipeline",
    "Pipeline",
    "resume",
    "run_calls",
    "Suspended",
    "CallAnswer",
    "Decision",
    "Deny",
    "agent_loop",
    "AgentLoop",
    "Trajectory",
    "Limits",
    "Retry",
    # or read one without an event loop
    "parse",
    "StreamDecoder",
    # tools
    "tool",
    "Tool",
    "ToolContext",
    "Growing",
    # the outcome
    "Turn",
    "ToolCall",
    "Usage",
    # the events that most programs look at; all are in `streamtools.events`
    "Event",
    "TextDelta",
    "ReasoningDelta",
    "ToolCallValidated",
    "ApprovalRequested",
    "Observation",
    "StreamEnd",
    # the errors that most programs look at; all are in `streamtools.errors`
    "StreamToolsError",
    "StreamError",
    "ToolError",
    "ModelRetry",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
