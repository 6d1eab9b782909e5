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

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .decode.decoder import StreamDecoder
    from .decode.whole import parse
    from .dispatch.approval import Decision, Deny
    from .dispatch.suspended import Suspended
    from .errors import ModelRetry, StreamError, StreamToolsError, ToolError
    from .events import ApprovalRequested, Event, Observation, ReasoningDelta, StreamEnd, TextDelta, ToolCallValidated
    from .limits import Limits
    from .parts import ToolCall, Usage
    from .pipelines.agent_loop import AgentLoop, agent_loop
    from .pipelines.entry import Pipeline, pipeline, resume, run_calls
    from .pipelines.trajectory import Trajectory
    from .tools.context import ToolContext
    from .tools.definition import Tool
    from .tools.tool import tool
    from .turn import Turn

__all__ = [
    "__version__",
    # wrap a stream
    "pipeline",
    "Pipeline",
    "resume",
    "run_calls",
    "Suspended",
    "Decision",
    "Deny",
    "agent_loop",
    "AgentLoop",
    "Trajectory",
    "Limits",
    # or read one without an event loop
    "parse",
    "StreamDecoder",
    # tools
    "tool",
    "Tool",
    "ToolContext",
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

_HOMES = {
    "Pipeline": "pipelines.entry",
    "pipeline": "pipelines.entry",
    "resume": "pipelines.entry",
    "run_calls": "pipelines.entry",
    "Suspended": "dispatch.suspended",
    "Decision": "dispatch.approval",
    "Deny": "dispatch.approval",
    "AgentLoop": "pipelines.agent_loop",
    "agent_loop": "pipelines.agent_loop",
    "Trajectory": "pipelines.trajectory",
    "Limits": "limits",
    "parse": "decode.whole",
    "StreamDecoder": "decode.decoder",
    "tool": "tools.tool",
    "Tool": "tools.definition",
    "ToolContext": "tools.context",
    "Turn": "turn",
    "ToolCall": "parts",
    "Usage": "parts",
    "ApprovalRequested": "events",
    "Event": "events",
    "Observation": "events",
    "ReasoningDelta": "events",
    "StreamEnd": "events",
    "TextDelta": "events",
    "ToolCallValidated": "events",
    "ModelRetry": "errors",
    "StreamError": "errors",
    "StreamToolsError": "errors",
    "ToolError": "errors",
}
"""The module of each public name. It is loaded when the name is first asked for, so that importing the root is
cheap."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
