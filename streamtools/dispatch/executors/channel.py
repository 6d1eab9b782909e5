"""The protocol between a process executor and its workers: frames over two pipes.

A frame is its length (four bytes, big-endian), one byte for its kind, the call's number (eight bytes), the process that
has written it (four bytes), and JSON. A frame of another call or another process (a forked child that came back through
the tool) is not the worker's, and the worker is ended for it.

    executor -> worker   C  the call
    worker -> executor   Y  the tool is there, the arguments fit; ready to go
                         N  the call was not started, and will not be
    executor -> worker   G  go: the seconds that the call may take, and its span
                         D  drop the call
    worker -> executor   P  a report of the tool's
                         R  the value
                         E  the tool failed
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from struct import Struct
from typing import BinaryIO

__all__ = ["CALL", "DROP", "FAILED", "GO", "HEADER", "READY", "REFUSED", "REPORT", "RESULT", "PipeFrame", "read_frame"]

HEADER = Struct(">IcQI")
CALL, GO, DROP = b"C", b"G", b"D"
READY, REFUSED, REPORT, RESULT, FAILED = b"Y", b"N", b"P", b"R", b"E"


@dataclass(frozen=True, slots=True)
class PipeFrame:
    """One frame."""

    kind: bytes
    number: int
    """The number of the call that it belongs to, among the worker's calls."""
    data: bytes = b""

    def packed(self) -> bytes:
        """Returns the frame as bytes, with this process as its writer."""
        return HEADER.pack(len(self.data), self.kind, self.number, os.getpid()) + self.data


def read_frame(source: BinaryIO) -> PipeFrame | None:
    """Returns the next frame; None if the source has ended, also in the middle of a frame."""
    header = source.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    length, kind, number, _ = HEADER.unpack(header)
    data = source.read(length)
    return PipeFrame(kind, number, data) if len(data) == length else None
