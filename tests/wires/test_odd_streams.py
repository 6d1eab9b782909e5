"""Odd streams, and every event that comes of them: what a decoder makes of what it was never promised.

Of the files in `golden`, those of JSON lines hold the streams: a case's `payloads`, a text for a body of bytes, and its
`limits`. The others hold the events, each with all that it holds: a line that changes there is a change for users.
`PYTHONPATH=.:tests python tests/wires/test_odd_streams.py` writes these anew: read the diff.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from every_wire import ANTHROPIC, BEDROCK, CHAT
from sansio import json_lines

from streamtools import Limits, StreamDecoder
from streamtools.errors import LimitExceeded
from streamtools.events import Event, StreamEnd, StreamStart, ToolCallDelta, ToolCallFragment
from streamtools.stages.accumulate import Accumulate

GOLDEN = Path(__file__).parent / "golden"
LEFT_OUT = {"seq", "step", "time", "causes"}
Payload = dict[str, Any]


@dataclass(frozen=True)
class Odd:
    payloads: list[Any]
    limits: Limits


def odd_streams(name: str, read: Callable[[Any], Any]) -> dict[str, Odd]:
    """The streams of a file, each by what is odd about it."""
    rows = json_lines(GOLDEN / f"{name}.jsonl")
    return {row["case"]: Odd([*map(read, row["payloads"])], Limits(**row.get("limits", {}))) for row in rows}


def payload_of(written: Any) -> Any:
    return written.encode() if isinstance(written, str) else written


def fragment_of(written: Payload) -> Event:
    begun = written.get("stream_start")
    return StreamStart(*begun) if begun else ToolCallFragment(**written)


def written(value: Any) -> str:
    """A value with all that it holds, but what is as it is without it."""
    if isinstance(value, BaseException):
        return f"{type(value).__name__}({str(value)!r})"
    if is_dataclass(value):
        held = [f"{each.name}={written(found)}" for each, found in _held(value)]
        return f"{type(value).__name__}({', '.join(held)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {written(found)}" for key, found in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(written, value)) + "]"
    return repr(value)


def _held(value: Any) -> Iterator[tuple[Any, Any]]:
    for each in fields(value):
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        found = getattr(value, each.name)
        if each.name not in LEFT_OUT and not each.name.startswith("_") and (default is MISSING or found != default):
            yield each, found


def events_of(wire: str, case: Odd) -> list[str]:
    decoder = StreamDecoder(wire=wire, limits=case.limits)
    found: list[str] = []
    for events in (*map(decoder.feed, case.payloads), decoder.finish()):
        found += map(shown, events)
    return found


def shown(event: Event) -> str:
    preview = f" shows {event.preview!r}" if isinstance(event, ToolCallDelta) else ""
    return f"{written(event)}{preview}"


def calls_of(case: Odd) -> Iterator[str]:
    """What comes of fragments in a stream that ends well, and what of the end if the stream is cut there."""
    well, cut = StreamEnd("tool_calls", "tool_calls", complete=True), StreamEnd(None, None, complete=False)
    for end in (well, cut):
        stage = Accumulate({"f"}, case.limits, "salt")
        try:
            for event in (*case.payloads, end):
                events = list(stage.feed(event))
                yield from map(shown, events if event is end or end is well else ())
        except LimitExceeded as error:
            yield written(error)


FRAGMENTS = odd_streams("fragments", fragment_of)
STREAMS = {wire: odd_streams(wire, payload_of) for wire in (ANTHROPIC, BEDROCK, CHAT)} | {"fragments": FRAGMENTS}


def pages() -> Iterator[tuple[str, Path, str]]:
    for wire, cases in STREAMS.items():
        read = calls_of if cases is FRAGMENTS else partial(events_of, wire)
        sections = ["\n".join([f"# {name}", *read(case)]) for name, case in cases.items()]
        yield wire, GOLDEN / f"{wire}.txt", "\n\n".join(sections) + "\n"


def test_the_events_of_odd_streams_are_as_they_were_read_with_care() -> None:
    for wire, path, page in pages():
        expected, found = (set(each.split("\n\n")) for each in (path.read_text(encoding="utf-8"), page))
        assert "\n\n".join(sorted(found - expected)) == "\n\n".join(sorted(expected - found)), wire
        assert len(found) == len(STREAMS[wire])


if __name__ == "__main__":
    for _, path, page in pages():
        path.write_text(page, encoding="utf-8")
