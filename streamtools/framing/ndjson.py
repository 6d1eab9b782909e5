"""Decodes JSON lines (https://github.com/ndjson/ndjson-spec): one payload a line.

Lines end in LF or CRLF; blank ones are skipped; their reader has to check whether a line is JSON. A pending line comes
out at the end, because many servers leave out the last line's end.
"""

from __future__ import annotations

import re

from ..errors import LimitExceeded, LocalProtocolError
from ..limits import Limits
from .pieces import MANY, fold
from .sse import Frame

__all__ = ["NDJSONDecoder"]

_DEFAULT_MAX_EVENT_BYTES = Limits().max_event_bytes
_BLANK_LINES = re.compile(rb"\n[ \t\r\n]*\n")
_SAMPLED_FROM = 1 << 10  # bytes of a chunk; the same check of line ends as in `sse`
_SAMPLE_STEP = 61


class NDJSONDecoder:
    """Decodes JSON lines fed in chunks of any size.

    Call `feed_payloads` with each chunk and `finish` at the end of the body.

    Args:
        max_event_bytes: bound for one line.

    Raises:
        LimitExceeded: from the call after the one that brought too many bytes, which are not kept: the whole lines
            before them come out first. The decoder cannot be used after that.
    """

    name = "ndjson"

    def __init__(self, *, max_event_bytes: int = _DEFAULT_MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._line: list[bytes] = []  # pieces of the line that has not ended yet
        self._size = 0
        self._between = True  # True between two lines: nothing is pending
        self._error: LimitExceeded | None = None
        self._finished = False

    def feed_payloads(self, chunk: bytes) -> list[bytes | Frame]:
        """Takes the next bytes of the body; returns the lines that they complete."""
        # Mostly a chunk is one object on one line: this path takes half of the general time.
        if self._between and chunk[:1] == b"{" and 0 < chunk.find(b"\n") == len(chunk) - 1 <= self._max:
            return [chunk]
        if self._finished:
            raise LocalProtocolError("NDJSONDecoder.feed_payloads() after finish()")
        if self._error is not None:
            raise self._error
        payloads: list[bytes | Frame] = []
        if _SAMPLED_FROM <= len(chunk) <= self._max:  # in a longer chunk, one of the blank lines might be too long
            sample = chunk[::_SAMPLE_STEP]
            if 4 * len(sample.translate(None, b"\n")) < 3 * len(sample):
                chunk = _BLANK_LINES.sub(b"\n", chunk)
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            if len(line) + self._size > self._max:
                self._too_large(len(line) + self._size)
                return payloads
            if self._line:
                line = b"".join([*self._line, line])
                self._line.clear()
                self._size = 0
            if line and not line.isspace():
                payloads.append(line)
        self._between = not rest and not self._line
        if rest:
            self._size += len(rest)
            if self._size > self._max:
                self._too_large(self._size)
            else:
                self._line.append(rest)
                if len(self._line) > MANY:
                    fold(self._line)
        return payloads

    def finish(self) -> list[Frame]:
        """Ends the body; returns the last line if its end is missing."""
        if self._finished:
            return []
        self._finished, self._between = True, False
        if self._error is not None:
            raise self._error
        rest = b"".join(self._line)
        return [Frame(rest)] if rest.strip() else []

    def _too_large(self, size: int) -> None:
        self._between = False
        self._error = LimitExceeded("max_event_bytes", limit=self._max, value=size, where="a line of the JSON lines")
        self._line.clear()
