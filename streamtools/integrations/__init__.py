"""Connects pipelines to other frameworks, without importing any.

    from streamtools.integrations import EventStreamResponse    an ASGI response: server-sent events

The integrations use the public API alone.
"""

from __future__ import annotations

from .asgi import Encode, EventStreamResponse, encode_event

__all__ = ["Encode", "EventStreamResponse", "encode_event"]
