"""Cuts a body of JSON without events into payloads. The reader of a payload checks that it is JSON.

**Lines** (https://github.com/ndjson/ndjson-spec): one payload a line. They end in LF or CRLF; blank ones are skipped.

**An array** (RFC 8259, §5): one payload for each of its values, which are objects or arrays.
"""

from __future__ import annotations

import re

from ..errors import LimitExceeded, LocalProtocolError, RemoteProtocolError, StreamError
from ..limits import Limits
from .pieces import MANY, fold
from .sse import Frame

_DEFAULT_MAX_EVENT_BYTES = Limits().max_event_bytes
_BLANK_LINES = re.compile(rb"\n[ \t\r\n]*\n")
_SAMPLED_FROM = 1 << 10  # bytes of a chunk; the same check of line ends as in `sse`
_SAMPLE_STEP = 61


class NDJSONDecoder:
    """Decodes JSON lines fed in chunks of any size. `LimitExceeded` is raised from the call after the one with a line
    above `max_event_bytes`, so that the whole lines before come out first; the decoder cannot be used after that.
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
        # Mostly a chunk is one object on one line: this path takes half of the general time. A line keeps its end here,
        # and the CR of a CRLF below: both are white space to every JSON parser.
        if self._between and chunk[:1] == b"{" and 0 < chunk.find(b"\n") == len(chunk) - 1 <= self._max:
            return [chunk]
        if self._finished:
            raise LocalProtocolError("NDJSONDecoder.feed_payloads() after finish()")
        if self._error is not None:
            raise self._error
        payloads: list[bytes | Frame] = []
        # A flood of blank lines must not cost a step for each, see `sse`. A chunk above the bound is left as it is: one
        # of its blank lines may exceed the bound itself, which has to be found whatever the chunks.
        if _SAMPLED_FROM <= len(chunk) <= self._max:
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
        if self._finished:
            return []
        self._finished, self._between = True, False
        if self._error is not None:
            raise self._error
        # Many servers leave out the end of the last line, so that what is pending is a line.
        rest = b"".join(self._line)
        return [Frame(rest)] if rest.strip() else []

    def _too_large(self, size: int) -> None:
        self._between = False
        self._error = LimitExceeded("max_event_bytes", limit=self._max, value=size, where="a line of the JSON lines")
        self._line.clear()


# -- one growing array --


# `[{...}`, then `,` and the next value, at last `]` (RFC 8259, §5). Gemini answers in this form without `alt=sse`:
# values over many lines, with any white space between them.
#
# Only brackets and quotes are looked at. `_TO_BRACKET` passes in one go over everything up to the next bracket, strings
# included, so that a value costs one step for each bracket; a string that the chunk's end cuts is passed to its end by
# `_IN_STRING`. Depth is a number, not a stack: whether `[}` match is for the reader to find, who parses the value.
_BLANK = re.compile(rb"[ \t\r\n]*")
# Repeats are bounded because the engine keeps a record of each. Where the expression finds no bracket, it stops at a
# string that is not whole, or at the bound.
_TO_BRACKET = re.compile(
    rb'[^"{}\[\]]*(?:"[^"\\]*(?:\\.[^"\\]*){0,256}"[^"{}\[\]]*){0,256}(?:([{\[])|([}\]]))?', re.DOTALL
)
_OPENING = 1  # the group that matched
_IN_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*){0,256}', re.DOTALL)


class JSONArrayDecoder:
    """Decodes a JSON array fed in chunks of any size: each of its values is a payload. `LimitExceeded` (a value above
    `max_event_bytes`) and `RemoteProtocolError` (something between two values) are raised from the next call, so that
    the whole values before come out first; the decoder cannot be used after that.
    """

    name = "json_array"

    def __init__(self, *, max_event_bytes: int = _DEFAULT_MAX_EVENT_BYTES) -> None:
        self.ended = False  # True once the closing bracket was seen
        self._max = max_event_bytes
        self._next = b"["  # the characters that may come between values
        self._depth = 0  # open brackets of the value; 0 between values
        self._in_string = False
        self._escaped = False  # the last chunk ended in a backslash of a string
        self._value: list[bytes] = []  # pieces of the value that has not ended yet
        self._size = 0
        self._error: StreamError | None = None
        self._finished = False

    def feed_payloads(self, chunk: bytes) -> list[bytes]:
        if self._finished:
            raise LocalProtocolError("JSONArrayDecoder.feed_payloads() after finish()")
        if self._error is not None:
            raise self._error
        payloads: list[bytes] = []
        at, end = 0, len(chunk)
        while at < end and self._error is None:
            if self._depth == 0:
                at = self._between(chunk, at)
                continue
            begin, at = at, self._inside(chunk, at)
            # Only the inside of a value is counted and kept. White space between two values may go on for ever at no
            # cost but that of `max_stream_bytes`.
            self._size += at - begin
            if self._size > self._max:
                where = "a value of the JSON array"
                self._fail(LimitExceeded("max_event_bytes", limit=self._max, value=self._size, where=where))
            elif self._depth == 0:
                payloads.append(b"".join([*self._value, chunk[begin:at]]))
                self._value.clear()
                self._size = 0
            else:
                self._value.append(chunk[begin:at])
                if len(self._value) > MANY:
                    fold(self._value)
        return payloads

    def finish(self) -> list[Frame]:
        """Ends the body; returns nothing, since a pending value is not whole."""
        # Unlike a line, which may lack its end, a value without its closing bracket has been cut.
        if not self._finished:
            self._finished = True
            self._value.clear()
            if self._error is not None:
                raise self._error
        return []

    def _between(self, chunk: bytes, at: int) -> int:
        """Passes over white space and one bracket or comma; returns where to go on, or where a value begins."""
        # `_next` is the grammar: the characters that are allowed here. The three after `[` become two after a comma,
        # since RFC 8259 has no trailing comma; after `]` nothing may come. A number or a string is not a payload on any
        # wire.
        blank = _BLANK.match(chunk, at)
        assert blank is not None, "it matches the empty text"
        at = blank.end()
        char = chunk[at : at + 1]
        if not char:
            return at
        if char in self._next:
            if char == b"]":
                self.ended, self._next = True, b""
            elif char == b"[" and self._next == b"[":
                self._next = b"{[]"
            elif char == b",":
                self._next = b"{["
            else:
                self._next = b",]"
                self._depth = 1
                self._value.append(char)
                self._size = 1
            return at + 1
        text = "the JSON array goes on after its end" if self.ended else "something between two values of a JSON array"
        self._fail(RemoteProtocolError(text, kind="malformed_chunk"))
        return at

    def _inside(self, chunk: bytes, at: int) -> int:
        end, depth = len(chunk), self._depth
        if self._in_string:
            at = self._string(chunk, at)
        while at < end and depth:
            step = _TO_BRACKET.match(chunk, at)
            assert step is not None, "it matches the empty text"
            begin, at = at, step.end()
            # Without a bracket and without a step forward, the expression stands before a string that the chunk cuts.
            # At its bound of repeats it has moved, and is tried again.
            if step.lastindex is not None:
                depth += 1 if step.lastindex == _OPENING else -1
            elif at == begin:
                self._in_string = True
                at = self._string(chunk, at + 1)
        self._depth = depth
        return at

    def _string(self, chunk: bytes, at: int) -> int:
        end = len(chunk)
        if self._escaped:
            self._escaped = False
            at += 1
        while at < end:
            rest = _IN_STRING.match(chunk, at)
            assert rest is not None, "it matches the empty text"
            at = rest.end()
            if chunk[at : at + 1] == b'"':
                self._in_string = False
                return at + 1
            if at == end - 1:  # a backslash: the character that it escapes is in the next chunk
                self._escaped = True
                return end
        return at

    def _fail(self, error: StreamError) -> None:
        """Notes the error: it is raised with the next call, so that the values before it are not lost."""
        self._error = error
        self._value.clear()
