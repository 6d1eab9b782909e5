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

from .decode.decoder import StreamDecoder
from .decode.whole import parse
from .dispatch.run_tool import run_tool
from .dispatch.suspended import Suspended
from .errors import (
    LimitExceeded,
    ModelRetry,
    ProviderError,
    RemoteProtocolError,
    StreamError,
    StreamToolsError,
    ToolDefinitionError,
    ToolError,
    TruncatedStream,
)
from .events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    EventsDropped,
    Observation,
    ProviderItem,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    StepEnd,
    StepStart,
    StreamEnd,
    StreamStart,
    StreamWarning,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolCallValidated,
    ToolProgress,
    ToolStarted,
    UnknownPayload,
)
from .limits import Limits
from .parts import ToolCall, Usage
from .pipeline.entry import Pipeline, pipeline, resume
from .pipeline.hosted import OpenPipeline
from .pipeline.queues import Branch
from .pipeline.trajectory import Trajectory
from .tools import Tool, ToolContext, Toolset, tool
from .turn import Turn

__version__ = "0.1.0"

__all__ = [
    "__version__",
    # wrap a stream
    "pipeline",
    "Pipeline",
    "OpenPipeline",
    "Branch",
    "resume",
    "Suspended",
    "Trajectory",
    "Limits",
    # or read one without an event loop
    "parse",
    "StreamDecoder",
    # what may be called
    "tool",
    "Tool",
    "ToolContext",
    "Toolset",
    "run_tool",
    # what it amounted to
    "Turn",
    "ToolCall",
    "Usage",
    # events, in the order in which they can occur
    "Event",
    "StepStart",
    "StreamStart",
    "TextStart",
    "TextDelta",
    "TextEnd",
    "ReasoningStart",
    "ReasoningDelta",
    "ReasoningEnd",
    "RefusalDelta",
    "ProviderItem",
    "ToolCallStart",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallValidated",
    "ApprovalRequested",
    "ApprovalResolved",
    "ToolStarted",
    "ToolProgress",
    "Observation",
    "StreamEnd",
    "StepEnd",
    "StreamWarning",
    "UnknownPayload",
    "EventsDropped",
    # what is raised
    "StreamToolsError",
    "StreamError",
    "RemoteProtocolError",
    "TruncatedStream",
    "ProviderError",
    "LimitExceeded",
    "ToolDefinitionError",
    "ToolError",
    "ModelRetry",
]
