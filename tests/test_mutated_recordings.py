"""Recorded responses, spoiled: events dropped, doubled, moved, cut off, or taken from another stream.

Whatever becomes of them, nothing raises, the turn is consistent, its histories can be sent, and no call is guessed. A
call may run only if it is whole, which is judged here by a plain reading of the spoiled stream, without the library:

* its name stands in the stream as the name of a call;
* its arguments are pieces of arguments that stand in the stream, whole and in their order, with nothing between them,
  or an object that does; no text at all is `{}`;
* after the last of them, or beside it, the stream says that the turn is over; on the Responses wire also that the call
  is, which elsewhere follows.

The recordings are looked for as in `test_corpus`. Of the cases a sample is run; `STREAMTOOLS_FUZZ_TIMES=50` runs fifty
times as many, and others at every run.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest
from every_wire import CHAT, FRAMES, GEMINI, MISTRAL, RESPONSES, check_sendable, dumped, events_of, payloads_of
from mutations import TIMES, cut, shuffled
from profiles import examples
from sansio import check_turn, snapshot

from streamtools import ToolCall, Turn, parse

test_corpus = pytest.importorskip("test_corpus", reason="THE RECORDED RESPONSES WERE NOT FOUND, so none was spoiled")
CORE: list[dict[str, Any]] = test_corpus.CORE
MUTANTS = examples(40, quick=8) * TIMES
SEED = random.randrange(2**32) if TIMES > 1 else 0

of_core = pytest.mark.parametrize("row", CORE, ids=[row["file"] for row in CORE])


@cache
def recorded(file: str) -> tuple[bytes, ...]:
    """A recording, an event an item; of a JSON array, its values."""
    body: bytes = test_corpus.body_of(file)
    if kind_of(file)[1] == b"[":
        return tuple(dumped(payload) for payload in payloads_of(body))
    return tuple(events_of(body))


def joined(events: Sequence[bytes], file: str) -> bytes:
    if kind_of(file)[1] == b"[":
        return b"".join(FRAMES["json_array"]([json.loads(event) for event in events])) if events else b""
    return b"".join(events)


def kind_of(file: str) -> tuple[str, bytes]:
    """The wire, and what tells the framing: events of one are at home in another of the same kind."""
    begin: bytes = test_corpus.body_of(file).lstrip()[:1]
    return test_corpus.WIRES[file], begin if begin in b"[{\0" else b""


def names_of(file: str) -> tuple[str, ...]:
    return tuple({call.name for call in parse(test_corpus.body_of(file), wire=test_corpus.WIRES[file]).calls})


@of_core
def test_a_spoiled_recording_runs_nothing_that_is_not_whole(row: dict[str, Any]) -> None:
    file, wire = row["file"], test_corpus.WIRES[row["file"]]
    akin = [other["file"] for other in CORE if kind_of(other["file"]) == kind_of(file)]
    for number in range(MUTANTS):
        dice = random.Random(f"{SEED}:{file}:{number}")
        other = dice.choice(akin)
        events = shuffled(dice, recorded(file), recorded(other), dice.randint(1, 3))
        body = joined(events, file)
        if dice.random() < 0.2:
            body = body[: dice.randrange(len(body) + 1)]
        tools = tuple({*names_of(file), *names_of(other)})
        turn = parse(body, wire=wire, tools=tools)
        case = f"SEED={SEED}, case {number}, with {other}"
        check_turn(turn)
        check_sendable(turn)
        for call in turn.calls:
            if call.dispatchable:
                assert why_not_whole(call, turn, body, wire) is None, case
        if number % 4 == 0:
            assert snapshot(parse(cut(dice, body), wire=wire, tools=tools)) == snapshot(turn), case


# -- a plain reading of calls ----------------------------------------------------------------------------------------

ARGUMENT_KEYS = ("arguments", "partial_json", "input", "delta", "args", "parameters")
NAMES = ("name",)
DONE = re.compile(rb"^data: ?\[DONE\]", re.MULTILINE)


def why_not_whole(call: ToolCall, turn: Turn, body: bytes, wire: str) -> str | None:
    """Why this call must not run; None if it may."""
    payloads = payloads_of(body)
    if not turn.complete or turn.error is not None:
        return "the turn did not end well"
    named = [at for at, payload in enumerate(payloads) if any(is_named(call, name) for name in found(payload, NAMES))]
    if not named:
        return "nobody named it"
    last = last_piece(call, payloads, wire, named[0])
    if last is None:
        return "its arguments are not those of the stream"
    after = payloads[last:]
    over = any(ends_the_turn(payload, wire) for payload in after)
    if not over and not (wire in LATE and any(ends_the_turn(p, wire) for p in payloads) and DONE.search(body)):
        return "nothing says that the turn is over"
    if wire == RESPONSES and not any(ends_a_call(payload) for payload in after):
        return "nothing says that the call is over"
    return None


def is_named(call: ToolCall, name: object) -> bool:
    return isinstance(name, str) and call.name in name


def last_piece(call: ToolCall, payloads: Sequence[Any], wire: str, begin: int) -> int | None:
    """Where the last piece of the call's arguments stands, if they can be put together from pieces in their order."""
    text, value = call.arguments_text, call.arguments
    if not text.strip():
        return begin
    ends = {0: begin}  # how much of the text is there, and by which payload at the earliest
    for at, payload in enumerate(payloads):
        for piece in found(payload, ARGUMENT_KEYS):
            if isinstance(piece, dict) and same(piece, value):
                return at
            if not isinstance(piece, str) or not piece:
                continue
            if piece == text:
                return at
            for size in sorted(ends, reverse=True):
                if text.startswith(piece, size):
                    ends.setdefault(size + len(piece), at)
    if wire == GEMINI and any(True for payload in payloads for _ in found(payload, ("partialArgs",))):
        return begin  # arguments by paths: their own tests say what becomes of them
    return ends.get(len(text))


def same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def found(value: Any, keys: Sequence[str]) -> Iterator[Any]:
    """What stands under one of these keys, however deep."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in keys:
                yield inner
            yield from found(inner, keys)
    elif isinstance(value, list):
        for inner in value:
            yield from found(inner, keys)


def ends_the_turn(payload: Any, wire: str) -> bool:
    if not isinstance(payload, dict):
        return False
    ends: bool = test_corpus.ends_the_turn(payload) or "messageStop" in payload
    if wire == GEMINI and isinstance(inner := payload.get("response"), dict):
        ends = ends or test_corpus.ends_the_turn(inner)
    return ends


def ends_a_call(payload: Any) -> bool:
    """On this wire a response that is over does not end its calls: an item does, or the list of all items."""
    kind = str(payload.get("type"))
    return kind.endswith(".done") or any(True for _ in found(payload.get("response"), ("call_id",)))


LATE = {CHAT, MISTRAL, GEMINI}
"""On these something may follow what ends the turn."""


def test_a_call_that_is_not_whole_is_seen() -> None:
    """The judgement above can fail."""

    def chunk(name: str | None, arguments: str, finish: str | None = None) -> dict[str, Any]:
        function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
        return {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": function}]}, "finish_reason": finish}]}

    end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    head, rest = chunk("f", '{"a"'), chunk(None, ":1}")

    def judged(*payloads: dict[str, Any], then: bytes = b"") -> str | None:
        return why_not_whole(call, turn, b"".join(FRAMES["sse"](payloads)) + then, CHAT)

    turn = parse([head, rest, end])
    (call,) = turn.calls
    assert call.dispatchable
    assert judged(head, rest, end) is None
    assert judged(head, end, rest, then=b"data: [DONE]\n\n") is None
    for spoiled in ([head, rest], [rest, end], [rest, head, end], [head, end], [head, end, rest], [end], []):
        assert judged(*spoiled) is not None
