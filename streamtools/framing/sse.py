"""Server-sent events: bytes of a ``text/event-stream`` body in, frames out.

Follows the WHATWG text to the letter (https://html.spec.whatwg.org/multipage/server-sent-events.html, §9.2.6, read
2026-11-20): lines end in LF, CR or CRLF and in nothing else; one leading byte order mark is dropped; only a blank
line dispatches; a block without data dispatches nothing; what is pending at the end is discarded. With
``lenient=True`` it departs from it in the two ways that LLM servers need, see `SSEDecoder`.

Theory of operation: a chunk is cut at its line ends. The last piece, the beginning of a line that is still to come,
waits in a list that is joined once, when its line ends, so that a line costs time linear in its length however many
chunks it comes in. A CR at the end of a chunk ends its line at once; a LF that follows in the next chunk is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import LimitExceeded, LocalProtocolError
from ..limits import Limits

__all__ = ["Frame", "SSEDecoder"]

_LF = ord("\n")
_BOM = b"\xef\xbb\xbf"
_DEFAULT_MAX_EVENT_BYTES = Limits().max_event_bytes


@dataclass(slots=True)
class Frame:
    """One event of an event stream."""

    data: bytes
    """The data lines joined by newlines, as UTF-8 that may be invalid: decode with ``errors="replace"``."""
    event: str = "message"
    id: str = ""
    """The last event id that the stream has set, ``""`` before any."""


class SSEDecoder:
    """Decodes an event stream fed in chunks of any size.

    Call `feed` with each chunk and `finish` at the end of the body; each returns the frames that it completed.

    Args:
        max_event_bytes: bound for one line and for one event's joined data.
        lenient: dispatch a block whose blank line is missing at the end of the body (hand-written servers), and take
            an ``error`` field for an event of that name (llama.cpp before ggml-org/llama.cpp#16109).

    Raises:
        LimitExceeded: from the call after the one that brought too many bytes, which are not kept: what was whole before
            them comes out first. The decoder is then of no more use.
    """

    def __init__(self, *, max_event_bytes: int = _DEFAULT_MAX_EVENT_BYTES, lenient: bool = False) -> None:
        self._max = max_event_bytes
        self._lenient = lenient
        self._start: bytes | None = b""  # the first bytes, until it is clear whether they are a byte order mark
        self._line: list[bytes] = []  # pieces of the line that has not ended yet
        self._line_size = 0
        self._skip_lf = False
        self._data: list[bytes] = []  # data lines of the block that has not ended yet
        self._data_size = 0
        self._event = ""
        self._id = ""
        self._finished = False
        self._error: LimitExceeded | None = None
        self._clean = False  # nothing is pending

    def feed(self, chunk: bytes) -> list[Frame]:
        """Take the next bytes of the body; returns the frames that they complete."""
        if self._finished:
            raise LocalProtocolError("SSEDecoder.feed() after finish()")
        if self._error is not None:
            raise self._error
        frames = self._lines(chunk)
        # What `feed_payloads` may take for granted: nothing is pending.
        pending = self._line or self._data or self._event or self._skip_lf or self._error or self._start is not None
        self._clean = not pending
        return frames

    def feed_payloads(self, chunk: bytes) -> list[bytes | Frame]:
        """`feed` for those who only want to know the data, and which events are called "error": those come as frames.

        A stream mostly is blocks of a data line, or of an event line and a data line. These are cut out whole, at a third
        of the price of going line by line; `feed` takes over where anything else comes.
        """
        payloads: list[bytes | Frame] = []
        at, size = 0, len(chunk)
        plain = size <= self._max and chunk.find(b"\r") < 0
        if plain and not self._clean and (cut := chunk.find(b"\n\n")) >= 0:
            at = cut + 2  # the end of what is pending, then whole blocks again
            payloads.extend(frame if frame.event == "error" else frame.data for frame in self.feed(chunk[:at]))
        if plain and self._clean:
            while at < size:
                start = at
                if chunk.startswith(b"event: ", at):
                    start = chunk.find(b"\n", at) + 1
                    if start == 0 or chunk.startswith(b"event: error\n", at):
                        break
                end = chunk.find(b"\n", start)
                if end < 0 or end + 1 == size or chunk[end + 1] != _LF or not chunk.startswith(b"data: ", start):
                    break
                payloads.append(chunk[start + 6 : end])
                at = end + 2
        if at == size or self._error is not None:
            return payloads
        payloads.extend(frame if frame.event == "error" else frame.data for frame in self.feed(chunk[at:]))
        return payloads

    def _lines(self, chunk: bytes) -> list[Frame]:
        """The next bytes, line by line."""
        if self._start is not None:
            chunk = self._without_bom(chunk)
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        if not chunk:
            return []
        if b"\r" in chunk:
            self._skip_lf = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        rest = lines.pop()
        frames: list[Frame] = []
        if lines:
            if self._line:
                self._grow_line(lines[0])
                if self._error is not None:
                    return frames
                lines[0] = b"".join(self._line)
                self._line.clear()
                self._line_size = 0
            self._take(lines, frames)
        if rest:
            self._grow_line(rest)
        return frames

    def finish(self) -> list[Frame]:
        """The body has ended; returns what was pending, if the decoder is lenient."""
        if self._finished:
            return []
        if self._error is not None:
            raise self._error
        frames: list[Frame] = []
        if self._lenient:
            if self._start:
                self._line.append(self._start)
            self._take([b"".join(self._line), b""], frames)
            if self._error is not None:
                raise self._error
        self._finished = True
        self._clean = False
        self._line.clear()
        self._data.clear()
        return frames

    def _without_bom(self, chunk: bytes) -> bytes:
        """The chunk as it follows the byte order mark; nothing while that is undecided."""
        assert self._start is not None
        start = self._start + chunk
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._start = start
            return b""
        self._start = None
        return start.removeprefix(_BOM)

    def _grow_line(self, piece: bytes) -> None:
        self._line_size += len(piece)
        if self._line_size > self._max:
            self._too_large("a line of the event stream", self._line_size)
        else:
            self._line.append(piece)

    def _take(self, lines: list[bytes], frames: list[Frame]) -> None:
        """Interpret whole lines; completed frames are appended to `frames`."""
        data = self._data
        for line in lines:
            if len(line) > self._max:
                self._too_large("a line of the event stream", len(line))
                return
            if line[:6] == b"data: ":
                value = line[6:]
            elif not line:
                if data:
                    payload = data[0] if len(data) == 1 else b"\n".join(data)
                    frames.append(Frame(payload, self._event or "message", self._id))
                    data.clear()
                    self._data_size = 0
                self._event = ""
                continue
            elif line[:5] == b"data:" or line == b"data":
                value = line[5:]
            elif self._lenient and line[:6] == b"error:":
                self._event = "error"
                value = line[6:]
            else:
                self._field(line)
                continue
            self._data_size += len(value) + 1
            if self._data_size > self._max + 1:
                self._too_large("an event of the event stream", self._data_size - 1)
                return
            data.append(value)

    def _field(self, line: bytes) -> None:
        """Any field but data. Comments, unknown fields and `retry` (there is no connection to retry) are ignored."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")

    def _too_large(self, where: str, size: int) -> None:
        """Note the error: it is raised with the next call, so that the frames before it are not lost."""
        self._error = LimitExceeded("max_event_bytes", limit=self._max, value=size, where=where)
        self._clean = False
        self._line.clear()
        self._data.clear()
