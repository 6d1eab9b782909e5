"""What servers send that says nothing about the response: it keeps a connection alive, or is not known yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from every_wire import FRAMES, said
from wire_cases import CASES

NOTHING = {wire: cases.nothing for wire, cases in CASES.items()}
BLANKS: dict[str, dict[str, Callable[[int], bytes]]] = {
    "sse": {
        "a comment": lambda n: b": ping %d\n\n" % n,
        "no data": lambda _: b"data:\n\n",
        "a field": lambda n: b"id: %d\nretry: 1\nnew%d: x\n\n" % (n, n),
        "blank lines": lambda _: b"\r\n\r\n",
    },
    "ndjson": {"blank lines": lambda _: b"\n \n"},
    "json_array": {"white space": lambda _: b" \n"},
    "aws_eventstream": {},
}


def nothings(wire: str, framing: str, name: str) -> Iterator[bytes]:
    """The beginning of a response, then this without end."""
    frame, vary = FRAMES[framing], NOTHING[wire].get(name)
    yield b"".join(frame([*said(wire, text=["Hi"], ends=False), {}])[:-1])
    for number in count():
        yield BLANKS[framing][name](number) if vary is None else frame([{}, vary(number), {}])[1]
