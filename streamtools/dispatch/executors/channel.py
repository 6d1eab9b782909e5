"""What a process executor and its workers say to each other: frames over two pipes.

A frame is its length (four bytes, big-endian), one byte that says what it is, and JSON.

    executor -> worker   C  the call
    worker -> executor   S  its tool's code begins now
                         P  what the tool reports
                         R  the value
                         E  the tool failed
                         N  it was not started, and will not be
"""

from __future__ import annotations

from struct import Struct
from typing import BinaryIO

__all__ = ["CALL", "FAILED", "HEADER", "REFUSED", "REPORT", "RESULT", "STARTED", "frame", "read_frame"]

HEADER = Struct(">Ic")
CALL, STARTED, REPORT, RESULT, FAILED, REFUSED = b"C", b"S", b"P", b"R", b"E", b"N"


def frame(kind: bytes, data: bytes) -> bytes:
    """One frame."""
    return HEADER.pack(len(data), kind) + data


def read_frame(source: BinaryIO) -> bytes | None:
    """The next frame's JSON; None at the end, also in the middle of a frame."""
    header = source.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    length, _ = HEADER.unpack(header)
    data = source.read(length)
    return data if len(data) == length else None
