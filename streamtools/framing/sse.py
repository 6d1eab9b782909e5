"""Decodes server-sent events: the bytes of a ``text/event-stream`` body into frames.

Follows the WHATWG text to the letter (https://html.spec.whatwg.org/multipage/server-sent-events.html, §9.2.6, read
2026-11-20); with ``lenient=True`` it departs from it in the three ways that LLM servers need, see `SSEDecoder`. The
frames are the same however the body is cut into chunks; the cost is linear in its bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..errors import LimitExceeded, LocalProtocolError
from ..limits import Limits
from .pieces import MANY, fold

_LF, _CR = b"\n\r"
_BOM = b"\xef\xbb\xbf"
_PLAIN_PREFIX = re.compile(rb"(event: (?!error\n)[^\r\n]*\n)?data: ")
_DEFAULT_MAX_EVENT_BYTES = Limits().max_event_bytes

# -- floods of lines without meaning --

# A peer can send 64 MB of line ends or of comments with two bytes, which cost 5 to 24 s of CPU when each is a step. A
# chunk that is mostly line ends is therefore thinned before it is cut into lines.
_LINE_ENDS = b"\r\n"
_BLANK_LINES = re.compile(rb"\n{3,}")
# Lines that begin like no field that we know. Repeats are bounded because the engine keeps a record of each.
_IDLE_LINES = re.compile(rb"(?<=\n)(?:[^dei{\n][^\n]*\n){1,256}")
_FIELD_STARTS = b"dei{"  # first bytes of a line that may be a field we know, or a bare object
_SAMPLED_FROM = 1024  # bytes of a chunk: a smaller one is read faster than sampled
_SAMPLE_STEP = 61  # prime, so that no line length hides its ends


@dataclass(slots=True)
class Frame:
    data: bytes  # the data lines joined by newlines, as UTF-8 that may be invalid: decode with `errors="replace"`
    event: str = "message"
    id: str = ""  # the last event id that the stream has set, `""` before any


class SSEDecoder:
    """Decodes an event stream fed in chunks of any size.

    With `lenient`, dispatches a block whose blank line is missing at the end of the body (hand-written servers), takes
    an ``error`` field for an event of that name (llama.cpp before ggml-org/llama.cpp#16109), and a bare JSON object
    between the events, from a line that begins with ``{`` to one with ``}`` at its end or start, for the data of an
    event called "unframed" (Gemini's errors, vercel/ai#5217). `LimitExceeded` is raised from the call after the one
    with more than `max_event_bytes`, so that the whole frames before come out first; the decoder cannot be used after
    that.
    """

    name = "sse"

    def __init__(self, *, max_event_bytes: int = _DEFAULT_MAX_EVENT_BYTES, lenient: bool = False) -> None:
        self._max = max_event_bytes
        self._lenient = lenient
        self._start: bytes | None = b""  # the first bytes, until it is clear whether they are a byte order mark
        self._line: list[bytes] = []  # pieces of the line that has not ended yet
        self._line_size = 0
        self._skip_lf = False  # the last chunk ended in CR: a LF that begins the next one belongs to it
        self._data: list[bytes] = []  # data lines of the block that has not ended yet
        self._data_size = 0
        self._event = b""
        self._bare: list[bytes] = []  # lines of a JSON object without fields
        self._bare_size = 0
        self._id = b""
        self._prefix = b"data: "  # the beginning of the last block that was a chunk by itself
        self._between = False  # True between two blocks: nothing is pending
        self._error: LimitExceeded | None = None
        self._finished = False

    def feed(self, chunk: bytes) -> list[Frame]:
        frames: list[Any] = []
        self._feed(chunk, frames, named=True)
        return frames

    def feed_payloads(self, chunk: bytes) -> list[bytes | Frame]:
        """Takes bytes like `feed`, but returns plain data for all events except those called "error"."""
        # Mostly a chunk is one block that begins like the one before: this path takes a fifth of the general time. It
        # looks for the first line end after the prefix. Only if that is the blank line at the chunk's end, the chunk is
        # one block with one data line. A CR before it would end a line, too, so such a chunk goes the general way.
        prefix, size = self._prefix, len(chunk)
        if self._between and chunk.startswith(prefix) and size <= self._max:
            end = chunk.find(b"\n", len(prefix))
            if end == size - 2:
                if chunk[-1] == _LF and _CR not in chunk:
                    return [chunk[len(prefix) : end]]
            elif end == size - 3 and chunk.endswith(b"\r\n\r\n") and chunk.find(b"\r") == end - 1:
                return [chunk[len(prefix) : end - 1]]
        payloads: list[bytes | Frame] = []
        self._feed(chunk, payloads, named=False)
        match payloads:
            case [bytes() as only] if self._between:
                begin = chunk.find(only)
                # An event called "error" never becomes the prefix: its frame has to come out, not its data alone.
                if _PLAIN_PREFIX.fullmatch(chunk, 0, begin):
                    self._prefix = chunk[:begin]
        return payloads

    def finish(self) -> list[Frame]:
        """Ends the body; returns the pending frames, if the decoder is lenient."""
        if self._finished:
            return []
        frames: list[Any] = []
        # "Once the end of the file is reached, any pending data must be discarded" (§9.2.6). Hand-written servers leave
        # out the last blank line, and with it the last delta or the `[DONE]` would be lost: a lenient decoder adds it.
        if self._lenient and self._error is None:
            line = b"".join(self._line)
            self._take([line, b""], frames, named=True, longest=len(line))
            if self._bare:
                self._end_bare(frames)
        self._finished, self._between = True, False
        self._line.clear()
        self._data.clear()
        if self._error is not None:
            raise self._error
        return frames

    def _feed(self, chunk: bytes, out: list[Any], *, named: bool) -> None:
        if self._finished:
            raise LocalProtocolError("SSEDecoder.feed() after finish()")
        if self._error is not None:
            raise self._error
        if self._start is not None:
            # One leading byte order mark is ignored; the bytes of a second one belong to the name of the first field.
            chunk = self._start + chunk
            if _BOM.startswith(chunk):
                self._start = chunk
                return
            self._start = None
            chunk = chunk.removeprefix(_BOM)
        # A CR at the end of the last chunk has ended its line at once: waiting for the LF of a CRLF would hold back an
        # event until the next one. Such a LF ends nothing more.
        if self._skip_lf and chunk:
            self._skip_lf = False
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return
        last = chunk[-1]
        # An ordinary chunk pays for the sample alone: more than a quarter of it are line ends only in a flood.
        if len(chunk) >= _SAMPLED_FROM:
            sample = chunk[::_SAMPLE_STEP]
            if len(sample.translate(None, _LINE_ENDS)) < 0.75 * len(sample):
                chunk = self._thinned(chunk)
        # Lines end in CRLF, LF or CR and in nothing else (§9.2.6): for bytes, `splitlines` knows exactly these. For
        # text it would also cut at U+2028 or U+0085, which may stand in a JSON string.
        lines = chunk.splitlines()
        rest = b"" if last in (_LF, _CR) else lines.pop()
        self._skip_lf = last == _CR
        if lines:
            # The beginning of a line waits in a list that is joined once, when the line ends: its cost is linear
            # however many chunks it comes in.
            if self._line:
                self._line.append(lines[0])
                lines[0] = b"".join(self._line)
                self._line.clear()
                self._line_size = 0
            self._take(lines, out, named=named, longest=max(len(chunk), len(lines[0])))
            if len(self._data) > MANY:
                fold(self._data, b"\n")
            elif len(self._bare) > MANY:
                fold(self._bare, b"\n")
        if rest and self._error is None:
            self._grow_line(rest)
        pending = self._line or self._data or self._event or self._bare or self._skip_lf or self._error
        self._between = not pending and self._start is None

    def _thinned(self, chunk: bytes) -> bytes:
        """Returns a chunk of the same meaning in fewer lines: without comments, and with one of several blank lines."""
        # Two LF in a row stay: the first may end a data line, whose block the second dispatches. A third one dispatches
        # an empty block, for which the standard has no event.
        chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        chunk = _BLANK_LINES.sub(b"\n\n", chunk)
        begun = self._line[0][:1] if self._line else b""
        if self._bare or begun == b"{" or b"{" in chunk:  # in a bare object every line counts
            return chunk
        return _BLANK_LINES.sub(b"\n\n", _IDLE_LINES.sub(b"", chunk))

    def _grow_line(self, piece: bytes) -> None:
        self._line_size += len(piece)
        if self._line_size > self._max:
            self._too_large("a line of the event stream", self._line_size)
        else:
            self._line.append(piece)
            if len(self._line) > MANY:
                fold(self._line)

    def _take(self, lines: list[bytes], out: list[Any], *, named: bool, longest: int) -> None:
        """Interprets whole lines; appends frames to `out`, or, unless `named`, the data of all but error events."""
        # The branches stand in the order in which lines are frequent: data, the blank line behind it, the event's name.
        data, bare, limit = self._data, self._bare, self._max
        is_long = longest > limit
        for line in lines:
            if is_long and len(line) > limit:
                self._too_large("a line of the event stream", len(line))
                return
            if line[:6] == b"data: ":
                value = line[6:]
            elif not line:
                # A block without data dispatches nothing. One with an empty `data` field does: the standard appends the
                # value and a LF, so that the buffer is not empty. Hence the list is asked, not the joined text.
                if data:
                    payload = b"\n".join(data)
                    if named or self._event == b"error":
                        out.append(self._frame(payload))
                    elif payload or not out or out[-1]:  # a second event without data means nothing
                        out.append(payload)
                    data.clear()
                    self._data_size = 0
                self._event = b""
                continue
            elif line.startswith(b"event: "):
                self._event = line[7:]
                continue
            elif line[0] not in _FIELD_STARTS and not bare:
                continue  # a comment, or an unknown field
            elif line[:5] == b"data:" or line == b"data":
                value = line[5:]
            # llama.cpp sent `error: {...}` in place of an event of that name, before ggml-org/llama.cpp#16109.
            elif self._lenient and line[:6] == b"error:":
                self._event = b"error"
                value = line[6:].removeprefix(b" ")
            # Gemini writes an error in the middle of a stream as JSON without any field (vercel/ai#5217). By the
            # standard its lines are unknown fields, so that the error would be lost.
            elif self._lenient and (bare or line[:1] == b"{"):
                self._bare_line(line, out)
                if self._error is not None:
                    return
                continue
            else:
                self._field(line)
                continue
            self._data_size += len(value) + 1
            if self._data_size > limit + 1:
                self._too_large("an event of the event stream", self._data_size - 1)
                return
            data.append(value)

    def _frame(self, data: bytes) -> Frame:
        name = self._event or b"message"
        return Frame(data, name.decode(errors="replace"), self._id.decode(errors="replace"))

    def _bare_line(self, line: bytes, out: list[Any]) -> None:
        """Takes a line of a bare JSON object that stands between the events."""
        # Printed with an indent, the object ends in the first line that begins with a brace; in one line, with this
        # one. Braces are not counted: the object is JSON for its reader alone, and may be broken.
        self._bare_size += len(line) + 1
        if self._bare_size > self._max + 1:
            self._too_large("an object in the event stream", self._bare_size - 1)
            return
        self._bare.append(line)
        if line[:1] == b"}" or (len(self._bare) == 1 and line.rstrip()[-1:] == b"}"):
            self._end_bare(out)

    def _end_bare(self, out: list[Any]) -> None:
        out.append(Frame(b"\n".join(self._bare), "unframed"))
        self._bare.clear()
        self._bare_size = 0

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._event = value
        # An id with a NUL is ignored, as the standard asks; the id before it stays the last one. A blank line does not
        # reset it either, so that a client can ask the server to resume behind the last event that had one.
        elif name == b"id" and b"\0" not in value:
            self._id = value

    def _too_large(self, where: str, size: int) -> None:
        """Notes the error: it is raised with the next call, so that the frames before it are not lost."""
        self._error = LimitExceeded("max_event_bytes", limit=self._max, value=size, where=where)
        self._line.clear()
        self._data.clear()
        self._bare.clear()
