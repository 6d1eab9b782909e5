"""Connects pipelines to other frameworks, without importing any of them here.

    from streamtools.integrations import EventStreamResponse    an ASGI response: server-sent events
    from streamtools.integrations.langgraph import RunCalls         runs the calls of a tool node
    from streamtools.integrations.pydantic_ai import CallsToolset   runs the calls of an agent's toolset
    from streamtools.integrations.strands import CallsExecutor      runs the calls of an agent
    from streamtools.integrations.httpx import Tap                  decodes the streams of an HTTP client, starts tools

All but the tap use only the public API.
"""

from __future__ import annotations

from .asgi import Encode, EventStreamResponse, Run, RunEnd, encode_event

__all__ = ["Encode", "EventStreamResponse", "Run", "RunEnd", "encode_event"]
