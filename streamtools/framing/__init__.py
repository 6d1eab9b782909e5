"""Cuts a response body into payloads, in each of the ways that providers use; `choose` tells them by the first byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ..ground.on_demand import names
from .sse import Frame, SSEDecoder

if TYPE_CHECKING:
    from .aws_eventstream import AWSEventStreamDecoder
    from .json_bodies import JSONArrayDecoder, NDJSONDecoder
else:
    __getattr__ = names(
        __name__,
        {
            "aws_eventstream": "AWSEventStreamDecoder",
            "json_bodies": "JSONArrayDecoder NDJSONDecoder",
        },
    )

__all__ = ["AWSEventStreamDecoder", "Frame", "Framing", "JSONArrayDecoder", "NDJSONDecoder", "SSEDecoder", "choose"]

_BOM = b"\xef\xbb\xbf"
_BLANK_BYTES = 1024  # of white space before the first other byte; a body with more is read as an event stream


class Framing(Protocol):
    """The interface of all framings."""

    name: str  # the framing's name, as the table above has it

    def feed_payloads(self, chunk: bytes, /) -> Sequence[bytes | Frame]:
        """Takes bytes; returns the data of the payloads that they complete, a frame for one with more than data."""
        ...

    def finish(self) -> Sequence[Frame]:
        """Ends the body; returns the pending frames, if they may be whole."""
        ...


def choose(head: bytes, max_event_bytes: int) -> Framing | None:
    """Returns the framing of a body that begins with `head`; None if these bytes do not show it yet."""
    # The bytes decide, not the content type, which gateways get wrong.
    #
    # A message of an AWS event stream begins with its length: four bytes, big-endian, below 16 MiB. So the first is 0.
    if head[:1] == b"\0":
        from .aws_eventstream import AWSEventStreamDecoder

        return AWSEventStreamDecoder(max_event_bytes=max_event_bytes)
    # White space and a byte order mark may stand before each of the other three; a mark may be cut after any byte.
    text = head[:_BLANK_BYTES].removeprefix(_BOM).lstrip(b" \t\r\n")
    if (not text and len(head) < _BLANK_BYTES) or _BOM.startswith(head):
        return None
    if text[:1] == b"{":
        from .json_bodies import NDJSONDecoder

        return NDJSONDecoder(max_event_bytes=max_event_bytes)
    if text[:1] == b"[":
        from .json_bodies import JSONArrayDecoder

        return JSONArrayDecoder(max_event_bytes=max_event_bytes)
    # A comment, a field, an error page of a proxy: a body is known not to be an event stream only once it has ended
    # without an event.
    return SSEDecoder(max_event_bytes=max_event_bytes, lenient=True)
