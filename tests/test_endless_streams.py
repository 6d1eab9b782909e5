"""A server that repeats itself without end: a limit ends the stream, or nothing grows.

Every payload that the tests know is repeated, as it is and with one thing in it new at each time: a text, a number, a
name that was not there before. A sample of these is run; `STREAMTOOLS_FUZZ_TIMES=120` runs them all.
"""

from __future__ import annotations

import gc
import random
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import count, islice
from typing import Any

from every_wire import ANTHROPIC, BEDROCK, CHAT, COHERE, FRAMES, FRAMINGS, GEMINI, payloads_of, said
from mutations import TIMES, Path, paths, replaced
from profiles import FULL, every
from sansio import QUIRKS, body_of, check_turn
from wire_cases import CASES as WIRE_CASES

from streamtools import Limits, StreamDecoder
from streamtools.errors import LimitExceeded
from streamtools.turn import TurnBuilder
from streamtools.wires import WIRES

LIMITS = Limits(
    max_stream_bytes=1 << 40,
    max_text_bytes=100,
    max_tool_calls=4,
    max_argument_bytes=50,
    max_total_argument_bytes=100,
    max_open_blocks=12,
    max_id_bytes=40,
    max_name_bytes=40,
)
FIRST, LATER = 150, 550  # payloads; by the first all that is bounded is full
ROOM = 2400  # bytes that may be held more after the later ones: less than a pointer for each payload
SAMPLE = (100 if FULL else 14) * TIMES


@dataclass
class Repeated:
    """A payload of a stream, and what comes before it there."""

    wire: str
    before: list[dict[str, Any]]
    payload: dict[str, Any]
    vary: Callable[[int], dict[str, Any]]
    how: str


@cache
def repeated(wire: str) -> tuple[Repeated, ...]:
    """Every payload of the known streams of a wire, once for each shape, in every variation."""
    streams = [said(wire, text=["a"], reasoning=["b"], refusal=["c"], calls=[("d", "f", '{"e":1}')], pieces=2)]
    streams += [payloads_of(body_of(quirk)) for quirk in QUIRKS if quirk["wire"] == wire]
    found: dict[str, list[Repeated]] = {}
    for stream in streams:
        for place, payload in enumerate(stream):
            if isinstance(payload, dict) and (key := shape(payload)) not in found:
                found[key] = [
                    Repeated(wire, [item for item in before if isinstance(item, dict)], payload, vary, how)
                    for before in (stream[: place + 1], stream[:-1])  # in its place, and before the end
                    for how, vary in variations(payload)
                ]
    return tuple(each for every in found.values() for each in every)


def shape(value: Any, key: object = None) -> str:
    """What payloads that are read alike have in common."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{shape(inner, name)}" for name, inner in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(shape, value)) + "]"
    return str(value) if key in ("type", "event_type", "finish_reason") else type(value).__name__


def variations(payload: dict[str, Any]) -> Iterator[tuple[str, Callable[[int], dict[str, Any]]]]:
    """Ways in which the n-th repetition differs, of the payload as it is and of it with some text left empty."""
    emptied = [path for path in paths(payload) if isinstance(value := at(payload, path), str) and value]
    for base in (payload, *(replaced(payload, path, "") for path in emptied)):
        yield "as it is", partial(unchanged, base)
        for path in paths(base):
            yield f"something new at {path}", partial(varied, base, path)


def unchanged(payload: dict[str, Any], _: int) -> dict[str, Any]:
    return payload


def varied(payload: dict[str, Any], path: Path, number: int) -> Any:
    """The payload with something new at `path`: a new name, one more item, a new text, a new number."""
    value = at(payload, path)
    if isinstance(value, dict):
        return replaced(payload, path, {**value, f"k{number}": 1})
    if isinstance(value, list):
        return replaced(payload, path, [*value, *value[:1], {"type": "k", "k": number}])
    return replaced(payload, path, f"{value}{number}" if isinstance(value, str) else number)


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


NOT_HELD = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType, Limits)


def held(*roots: object) -> int:
    """Bytes that are reachable from these objects."""
    seen: dict[int, object] = {}
    waiting: list[object] = list(roots)
    while waiting:
        node = waiting.pop()
        if id(node) not in seen and not isinstance(node, NOT_HELD):
            seen[id(node)] = node
            waiting.extend(gc.get_referents(node))
    return sum(map(sys.getsizeof, seen.values()))


def grows(case: Repeated, first: int = FIRST, later: int = LATER) -> int | LimitExceeded | None:
    """How many bytes more are held after the later payloads; or what ended the stream."""
    decoder, builder = StreamDecoder(wire=case.wire, limits=LIMITS), TurnBuilder()
    for payload in case.before:
        builder.add_all(decoder.feed(payload))
    sizes = []
    for number in range(later):
        if decoder.done:
            break
        builder.add_all(decoder.feed(case.vary(number)))
        if number in (first - 1, later - 1):
            sizes.append(held(decoder, builder))
    ended = decoder.done
    builder.add_all(decoder.finish())
    turn = builder.build()
    check_turn(turn)
    if not ended:
        return sizes[1] - sizes[0]
    return turn.error if isinstance(turn.error, LimitExceeded) else None


@every("wire", WIRES)
def test_what_repeats_without_end_does_not_grow_or_is_ended_by_a_limit(wire: str) -> None:
    cases = repeated(wire)
    dice = random.Random(0)
    for case in dice.sample(cases, min(SAMPLE, len(cases))):
        more = grows(case)
        assert not isinstance(more, int) or more < ROOM, f"{more} bytes more: {case.how}: {case.payload!r}"


def call(**call: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}


def delta(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


def block(index: int, type_: str, **delta: Any) -> dict[str, Any]:
    return {"type": type_, "index": index, **({"delta": delta} if delta else {"content_block": {"type": "thinking"}})}


def image(body: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"image": body}}}


def gemini_call(more: dict[str, Any], **body: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [{"functionCall": body, **more}]}}]}


def legacy(kind: str, **body: Any) -> dict[str, Any]:
    return {"event_type": kind, "is_finished": False, **body}


ONCE_GREW: dict[str, tuple[str, list[dict[str, Any]], Callable[[int], dict[str, Any]]]] = {
    "reasoning details without text": (
        CHAT, [], lambda n: delta(reasoning_details=[{"type": "reasoning.text", "index": n}])
    ),
    "a signature of reasoning details": (
        CHAT, [], lambda n: delta(reasoning_details=[{"type": "reasoning.text", "signature": f"{n:50}"}])
    ),
    "names in reasoning details": (CHAT, [], lambda n: delta(reasoning_details=[{"type": "a", f"k{n}": n}])),
    "empty texts of reasoning details": (CHAT, [], lambda _: delta(reasoning_details=[{"type": "a", "text": ""}])),
    "space after a think block": (CHAT, [delta(content="<think>x</think>")], lambda _: delta(content=" ")),
    "labels of one call": (CHAT, [call(index=0, id="a", function={"name": "f"})], lambda n: call(index=n, id="a")),
    "long labels of one call": (
        CHAT, [call(index=0, id="a", function={"name": "f"})], lambda n: call(index=f"{n:99}", id="a")
    ),
    "pieces of a signature": (
        ANTHROPIC, [block(0, "content_block_start")],
        lambda _: block(0, "content_block_delta", type="signature_delta", signature="xy"),
    ),
    "empty pieces of a signature": (
        ANTHROPIC, [block(0, "content_block_start")],
        lambda _: block(0, "content_block_delta", type="signature_delta", signature=""),
    ),
    "citations": (
        ANTHROPIC, [{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}],
        lambda n: block(0, "content_block_delta", type="citations_delta", citation={"n": n}),
    ),
    "pieces of a call that has ended": (
        COHERE,
        [
            legacy("tool-calls-chunk", tool_call_delta={"index": 0, "name": "f"}),
            legacy("tool-calls-chunk", tool_call_delta={"index": 0, "parameters": "{}"}),
            legacy("tool-calls-generation", tool_calls=[{"name": "f", "parameters": {}}]),
        ],
        lambda _: legacy("tool-calls-chunk", tool_call_delta={"index": 0, "parameters": "xy"}),
    ),
    "names in an image": (BEDROCK, [image({"format": "png"})], lambda n: image({f"k{n}": n})),
    "empty pieces of a blob": (
        BEDROCK, [],
        lambda _: {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": ""}}}},
    ),
    "names beside a call's pieces": (
        GEMINI, [gemini_call({}, name="f", willContinue=True)], lambda n: gemini_call({f"k{n}": n}, willContinue=True)
    ),
    "empty pieces of a text": (
        GEMINI, [gemini_call({}, name="f", willContinue=True)],
        lambda _: gemini_call(
            {}, partialArgs=[{"jsonPath": "$.a", "stringValue": "", "willContinue": True}], willContinue=True
        ),
    ),
}  # fmt: skip


@every("name", ONCE_GREW)
def test_what_once_grew_does_not_grow(name: str) -> None:
    wire, before, vary = ONCE_GREW[name]
    more = grows(Repeated(wire, before, {}, vary, name))
    assert not isinstance(more, int) or more < ROOM


# -- what says nothing -----------------------------------------------------------------------------------------------

NOTHING = {wire: cases.nothing for wire, cases in WIRE_CASES.items()}
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


CASES = [
    *((wire, FRAMINGS[wire][0], name) for wire in WIRES for name in NOTHING[wire]),
    *((wire, framing, name) for wire in WIRES for framing in FRAMINGS[wire] for name in BLANKS[framing]),
]


@every(("wire", "framing", "name"), CASES)
def test_what_says_nothing_is_taken_without_end_and_does_not_grow(wire: str, framing: str, name: str) -> None:
    decoder, builder, sizes = StreamDecoder(wire=wire, limits=LIMITS), TurnBuilder(), []
    for number, item in enumerate(islice(nothings(wire, framing, name), LATER + 1)):
        builder.add_all(decoder.feed(item))
        if number in (FIRST, LATER):
            sizes.append(held(decoder, builder))
    assert not decoder.done
    assert sizes[1] - sizes[0] < ROOM
