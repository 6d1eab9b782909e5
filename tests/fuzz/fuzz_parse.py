"""Any bytes, any split, any wire: the same Turn, no exception, nothing runs that is not whole, histories are encodable.

    python tests/fuzz/fuzz_parse.py --runs 20000 --seed 1         see the README beside it

An input begins with four bytes: which wire (or none: to be found), how the rest is to be read, a seed, and the dialect
of the calls in the text, if they are to be found. The rest is a body as it is, or payloads, one a line, that are put
into a framing or given as mappings.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

sys.path.extend(str(Path(__file__).resolve().parents[2] / folder) for folder in ("tests", "tests/text_calls", "."))

from dialect_cases import CASES  # pyright: ignore[reportMissingImports]
from every_wire import CHAT, FRAMES, FRAMINGS, check_sendable, dumped, payloads_of
from every_wire import said as every_said
from mutations import cut, random_json, shuffled, spoiled
from sansio import QUIRKS, body_of, check_turn, snapshot

from streamtools import Limits, StreamDecoder, ToolCallValidated, Turn, parse
from streamtools.events import ToolCallDelta, ToolCallEnd, ToolCallStart
from streamtools.stages import DEFAULT, DIALECTS, split_think, text_calls
from streamtools.turn import TurnBuilder
from streamtools.wires import WIRES

MAX_SIZE = 64 << 10
HEAD = 4
FORMS = ("body", *FRAMES, "mappings")
# Of JSON lines the first has to tell; an AWS event has one name.
SAME_AS_BYTES = [wire for wire in WIRES if FRAMINGS[wire][0] == "sse"]
TOOLS = ("get_weather", "get_time", "search", "f", "bash")
STAGES = {"": DEFAULT} | {
    dialect: DEFAULT.insert_before("accumulate", split_think()).insert_before("accumulate", text_calls(dialect))
    for dialect in DIALECTS
}
LIMITS = {"default": Limits(), "tiny": Limits(max_event_bytes=600, max_stream_bytes=4000, max_text_bytes=30)}
LIMITS["narrow"] = Limits(
    max_tool_calls=2,
    max_argument_bytes=20,
    max_total_argument_bytes=30,
    max_json_depth=2,
    max_id_bytes=4,
    max_name_bytes=8,
    max_open_blocks=2,
    max_path_depth=2,
    max_array_index=2,
    max_error_excerpt=10,
)


class Input:
    """What the fuzzer's bytes mean."""

    def __init__(self, data: bytes) -> None:
        head, self.rest = data[:HEAD].ljust(HEAD, b"\0"), data[HEAD:]
        self.wire = [*WIRES, None][head[0] % (len(WIRES) + 1)]
        self.form = FORMS[head[1] % len(FORMS)]
        self.limits = ("default", *LIMITS)[head[1] // len(FORMS) % (1 + len(LIMITS))]
        self.dice = random.Random(head[2])
        self.stages = list(STAGES.values())[head[3] % len(STAGES)]

    @property
    def payloads(self) -> list[Any]:
        """The rest as payloads, one a line."""
        return list(filter(lambda value: value is not None, map(_loads, self.rest.split(b"\n"))))

    @property
    def items(self) -> list[Any]:
        """What a source would yield, whole."""
        if self.form == "mappings":
            return [payload for payload in self.payloads if isinstance(payload, dict)]
        return [self.rest if self.form == "body" else b"".join(FRAMES[self.form](self.payloads))]


def _loads(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def encoded(wire: str | None, form: str, limits: str, seed: int, rest: bytes, dialect: str = "") -> bytes:
    """An `Input` as bytes."""
    how = FORMS.index(form) + len(FORMS) * (1 + list(LIMITS).index(limits))
    return bytes([[*WIRES, None].index(wire), how, seed, list(STAGES).index(dialect)]) + rest


def check(data: bytes) -> Turn:
    """Whether the invariant holds for an input. Raises AssertionError, or whatever should not have escaped."""
    given = Input(data)
    items, limits = given.items, LIMITS[given.limits]
    turn = parse(items, wire=given.wire, tools=TOOLS, limits=limits, stages=given.stages)
    again, events = read(items if given.form == "mappings" else cut(given.dice, items[0]), given, limits)
    whole, split = said(turn), said(again)
    assert whole == split, f"cut otherwise it differs in {[name for name in whole if whole[name] != split[name]]}"
    check_turn(turn)
    check_calls(turn, events)
    if given.form == "mappings" and given.wire in SAME_AS_BYTES and given.limits == "default" and is_plain(items):
        check_same_as_bytes(given, turn)
    check_sendable(turn, {turn.wire or WIRES[0], given.dice.choice(WIRES)})
    return turn


def check_calls(turn: Turn, events: list[Any]) -> None:
    """Each call begins once and ends once, or is void and in no turn, whether it had ended or not; its deltas are its
    text, and what is ready stays what it is."""
    told: dict[type, Counter[str]] = {kind: Counter() for kind in (ToolCallStart, ToolCallEnd, ToolCallValidated)}
    deltas: dict[str, list[str]] = {}
    void = Counter(e.call_id for e in events if isinstance(e, ToolCallEnd) and e.call.problem == "void")
    for event in events:
        if type(event) in told and not (isinstance(event, ToolCallEnd) and event.call.problem == "void"):
            told[type(event)][event.call_id] += 1
        elif isinstance(event, ToolCallDelta):
            deltas.setdefault(event.call_id, []).append(event.delta)
    assert told[ToolCallStart] == Counter(call.call_id for call in turn.calls) + void
    assert max(told[ToolCallEnd].values(), default=1) == 1
    assert told[ToolCallEnd].keys() | void.keys() == told[ToolCallStart].keys()
    calls = {call.call_id: call for call in turn.calls}
    for call in calls.values():
        text = "".join(deltas.get(call.call_id, ()))
        assert text.endswith(call.arguments_text) or call.problem == "argument_too_large"
    assert not told[ToolCallValidated] or max(told[ToolCallValidated].values()) == 1
    for event in events:
        if isinstance(event, ToolCallValidated) and event.call_id not in void:
            call = calls[event.call_id]
            assert (call.status, call.arguments_text) == ("ready", event.call.arguments_text)
            assert call.arguments == event.call.arguments


def check_same_as_bytes(given: Input, turn: Turn) -> None:
    """Payloads that somebody else parsed say the same as their bytes."""
    assert given.wire is not None
    body = FRAMES[FRAMINGS[given.wire][0]](given.items)
    as_bytes = parse(body, wire=given.wire, tools=TOOLS, limits=LIMITS[given.limits], stages=given.stages)
    one, other = said(turn), said(as_bytes)
    assert {**one, "warnings": ()} == {**other, "warnings": ()}


def is_plain(value: Any) -> bool:
    """Whether every JSON parser makes the same of a value."""
    if isinstance(value, dict):
        return all(is_plain(name) and is_plain(inner) for name, inner in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    if isinstance(value, str):
        return not re.search("[\ud800-\udfff]", value)
    return value is None or (abs(value) < 2**53 and value == value)


def read(items: Iterable[Any], given: Input, limits: Limits) -> tuple[Turn, list[Any]]:
    """The turn and the events, from the decoder itself."""
    decoder = StreamDecoder(wire=given.wire, tools=TOOLS, limits=limits, stages=given.stages)
    builder = TurnBuilder()
    events = [event for item in items for event in decoder.feed(item)]
    events += decoder.finish()
    builder.add_all(events)
    builder.wire = decoder.wire
    return builder.build(), events


def said(turn: Turn) -> dict[str, Any]:
    """All that a turn says. How much of what was too large had come depends on the split."""
    said = snapshot(replace(turn, error=None))
    error = turn.error
    return said | {"error": error and (type(error), error.kind, getattr(error, "setting", None) or str(error))}


# -- where inputs come from ------------------------------------------------------------------------------------------


@cache
def seeds() -> tuple[bytes, ...]:
    """A plain response of each wire and the known deviations, as bodies and as payloads."""
    calls = [("a", "f", '{"a":[1,"b"]}'), ("b", "bash", "{}")]
    plain = {wire: every_said(wire, text=["Hi"], reasoning=["so"], refusal=["no"], calls=calls) for wire in WIRES}
    found = [
        encoded(wire, form, "default", 0, b"\n".join(map(dumped, payloads)))
        for wire, payloads in plain.items()
        for form in (*FRAMINGS[wire], "mappings")
    ]
    for dialect, cases in CASES.items():
        for case in cases:
            deltas = [case.text[at : at + 7] for at in range(0, len(case.text), 7)]
            lines = b"\n".join(map(dumped, every_said(CHAT, text=deltas)))
            found.append(encoded(CHAT, "sse", "default", 0, lines, dialect))
    for number, quirk in enumerate(QUIRKS):
        body, wire = body_of(quirk), quirk["wire"]
        found.append(encoded(wire, "body", "default", number % 256, body))
        if payloads := payloads_of(body):
            lines = b"\n".join(map(dumped, payloads))
            form = (*FRAMINGS[wire], "mappings")[number % (len(FRAMINGS[wire]) + 1)]
            found.append(encoded(wire, form, ("default", "narrow")[number % 2], number % 256, lines))
    return tuple(found)


def mutated(data: bytes, dice: random.Random) -> bytes:
    """An input like this one, spoiled: its payloads, or its bytes, or how it is to be read."""
    head, given = bytearray(data[:HEAD].ljust(HEAD, b"\0")), Input(data)
    rest = given.rest
    other = Input(dice.choice(seeds()))
    if dice.random() < 0.15:
        head[0] = dice.randrange(len(WIRES) + 1)
    if dice.random() < 0.05:
        head[1] = dice.randrange(256)
    head[2] = dice.randrange(256)
    for _ in range(dice.randint(1, 3)):
        rest = _spoiled_bytes(rest, other.rest, dice) if given.form == "body" else _spoiled_lines(rest, other, dice)
    return bytes(head) + rest


def _spoiled_lines(rest: bytes, other: Input, dice: random.Random) -> bytes:
    lines = rest.split(b"\n")
    at = dice.randrange(len(lines))
    payload = _loads(lines[at])
    if dice.random() < 0.5 and payload is not None:
        others = other.payloads if other.form != "body" else ()
        with suppress(RecursionError):  # it was nested deep already
            lines[at] = dumped(spoiled(dice, payload, others))
    elif dice.random() < 0.9:
        lines = shuffled(dice, lines, other.rest.split(b"\n") if other.form != "body" else (), 1)
    else:
        lines[at] = dumped(random_json(dice))
    return b"\n".join(lines)


_SCRAPS = (
    b"\n", b"\r", b"\n\n", b"data: ", b"event: error\n", b": x\n", b"[DONE]", b"\0", b"\xff", b"\xed\xa0\x80",
    b'"', b"{", b"}", b"[", b"]", b",", b"\\", b"\\ud83d", b"1e999", b"null", b"<think>",
)  # fmt: skip


def _spoiled_bytes(body: bytes, other: bytes, dice: random.Random) -> bytes:
    at, to = sorted(dice.randrange(len(body) + 1) for _ in range(2))
    match dice.randrange(6):
        case 0:
            return body[:at] + body[to:]
        case 1:
            return body[:to] + body[at:]
        case 2:
            return body[:at] + dice.choice(_SCRAPS) + body[at:]
        case 3:
            return body[:at] + bytes([dice.randrange(256)]) + body[at + 1 :]
        case 4:
            return b"\n\n".join(shuffled(dice, body.split(b"\n\n"), other.split(b"\n\n"), 1))
        case _:
            return body[:at] + other[dice.randrange(len(other) + 1) :]


def run(count: int | None, seed: int, every: int = 1, *, seconds: float = math.inf) -> int:
    """Check every so many of the seeds, then so many mutations of them and of one another, or as many as there is time
    for. Return their number."""
    dice, pool = random.Random(seed), list(seeds())
    for data in pool[::every]:
        checked(data)
    until = time.monotonic() + seconds
    for number in range(sys.maxsize if count is None else count):
        if time.monotonic() > until:
            return number
        data = mutated(dice.choice(pool), dice)
        if len(data) <= MAX_SIZE:
            checked(data)
            if number % 20 == 0:
                pool[dice.randrange(len(pool))] = data
    return count or 0


def checked(data: bytes) -> None:
    """`check`; an input that fails is shown, so that it can be run again."""
    try:
        check(data)
    except BaseException:
        print(f"failing input: {data!r}", file=sys.stderr)
        raise


def main() -> None:
    """Runs as its options say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, help="mutated inputs; 2,000, or as many as --seconds allow")
    parser.add_argument("--seconds", type=float, default=math.inf, help="end after so long, whatever --runs says")
    parser.add_argument("--seed", type=int, default=0, help="what they are derived from")
    parser.add_argument("--every", type=int, default=1, help="of the seeds themselves, check every so many")
    given = vars(parser.parse_args())
    runs = given.pop("runs") or (2000 if given["seconds"] == math.inf else None)
    print(f"{run(runs, **given)} inputs of seed {given['seed']}: the invariant holds")


if __name__ == "__main__":
    main()
