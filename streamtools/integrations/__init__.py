"""Ready-made ends for other people's frameworks, none of which is imported.

    from streamtools.integrations import EventStreamResponse    an ASGI response: server-sent events

It is built of the public API alone.
"""

from __future__ import annotations

from .asgi import EventStreamResponse
from .encoding import Encode, encode_event

__all__ = ["Encode", "EventStreamResponse", "encode_event"]
