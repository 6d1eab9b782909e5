"""The laws that hold below the pipeline, each by its name and through the public API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from every_wire import FRAMES, FRAMINGS, IN_DELTAS, framed, said
from profiles import FULL, every, mostly_thorough
from sansio import ANTHROPIC, BUILT, CHAT, DATA, QUIRKS, WIRES, body_of, check_histories, check_turn, strict_json
from streams import anthropic, chat, chat_chunk, sse
from test_limits import block
from wire_cases import CASES

from streamtools import Event, Limits, StreamDecoder, ToolCallValidated, parse, tool
from streamtools.events import ToolCallDelta, ToolCallEnd, ToolCallStart

BODIES: dict[str, Callable[..., list[bytes]]] = {CHAT: chat, ANTHROPIC: anthropic}
on_both_wires = every("wire", BUILT)


def events_of(items: Iterable[bytes], **options: Any) -> list[list[Event]]:
    """The events of each item, and at last those of the end."""
    decoder = StreamDecoder(**options)
    return [*(decoder.feed(item) for item in items), decoder.finish()]


@tool
def search(query: str, limit: int = 10) -> str:
    """Search."""
    return ""


# -- 1: a call ends when the wire says so, never because its JSON parses ---------------------------------------------

ENDS = {
    CHAT: [chat_chunk({}, "tool_calls")],
    ANTHROPIC: [{"type": "content_block_stop", "index": 0}],
}


def argument_deltas(wire: str, pieces: Iterable[str]) -> list[dict[str, Any]]:
    if wire == CHAT:
        head = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "search", "arguments": ""}}
        deltas = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
        return [chat_chunk({"tool_calls": [call]}) for call in (head, *deltas)]
    block = {"type": "tool_use", "id": "call_1", "name": "search", "input": {}}
    return [
        {"type": "message_start", "message": {"id": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}}
            for piece in pieces
        ),
    ]


@on_both_wires
@every("whole", ['{"query":"a"}', '{"query":"a"} ', "{}", "null", '"{}"'])
def test_a_call_ends_when_the_wire_says_so_never_because_its_json_parses(wire: str, whole: str) -> None:
    decoder = StreamDecoder(tools=[search])
    before = [event for item in argument_deltas(wire, [whole, "", "  "]) for event in decoder.feed(item)]
    assert any(isinstance(event, ToolCallStart) for event in before)
    assert not any(isinstance(event, (ToolCallEnd, ToolCallValidated)) for event in before)
    after = [event for item in ENDS[wire] for event in decoder.feed(item)]
    if wire == CHAT:  # its calls end with the response
        assert not any(isinstance(event, (ToolCallEnd, ToolCallValidated)) for event in after)
        after = decoder.feed(b"data: [DONE]\n\n") + decoder.finish()
    assert [type(event) for event in after if isinstance(event, ToolCallEnd)] == [ToolCallEnd]


@on_both_wires
def test_what_follows_a_text_that_parses_belongs_to_the_call(wire: str) -> None:
    pieces = ['{"query":"a"}', ', "limit": 3}']
    for tail, problem in ((pieces[1:], "malformed_json"), (['{"query":"b"}'], "concatenated_json")):
        payloads = argument_deltas(wire, [pieces[0], *tail]) + ENDS[wire]
        payloads += [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]
        (call,) = parse(payloads if wire == ANTHROPIC else payloads[:-2], wire=wire, tools=[search]).calls
        assert (call.status, call.problem, call.dispatchable) == ("invalid", problem, False)


@every("wire", sorted(IN_DELTAS))
def test_on_no_wire_with_deltas_does_a_call_end_with_its_json(wire: str) -> None:
    payloads = said(wire, calls=[("a", "search", '{"query":"x"}')])
    at = next(at for at, payload in enumerate(payloads) if "query" in json.dumps(payload))
    decoder = StreamDecoder(wire=wire, tools=[search])
    before = [event for payload in payloads[: at + 1] for event in decoder.feed(payload)]
    assert any(isinstance(event, ToolCallDelta) for event in before)
    assert not any(isinstance(event, (ToolCallEnd, ToolCallValidated)) for event in before)
    after = [event for payload in payloads[at + 1 :] for event in decoder.feed(payload)] + decoder.finish()
    assert [event.call.status for event in after if isinstance(event, ToolCallEnd)] == ["ready"]


@every(("wire", "framing"), [(wire, framing) for wire in WIRES for framing in FRAMINGS[wire]])
def test_wherever_a_stream_of_any_wire_is_cut_nothing_of_it_runs(wire: str, framing: str) -> None:
    calls = [("a", "search", '{"query":"x"}'), ("b", "search", '{"query":"y"}')]
    payloads = said(wire, text=["Let me"], reasoning=["so"], calls=calls, pieces=2)
    frames = FRAMES[framing](payloads)
    body = b"".join(frames)
    whole = parse(body, wire=wire, tools=[search])
    assert [call.dispatchable for call in whole.calls] == [True, True]
    end = len(b"".join(frames[: len(frames) - CASES[wire].payloads_after_end]).rstrip(b"\n]"))
    for cut in sorted({*range(0, len(body), 3 if FULL else 11), *range(end - 30, min(end + 5, len(body)))}):
        turn = parse(body[:cut], wire=wire, tools=[search])
        check_turn(turn)
        running = [call for call in turn.calls if call.dispatchable]
        assert cut >= end or not running, f"cut at {cut}"
        assert not running or [call.arguments for call in turn.calls] == [call.arguments for call in whole.calls]
        assert turn.complete or turn.error is not None


@every("finish", ["length", "content_filter", "error", "other_word", None])
def test_a_whole_call_does_not_run_unless_its_turn_ended_well(finish: str | None) -> None:
    (call,) = parse(chat(calls=[("a", "search", '{"query":"x"}')], finish=finish), tools=[search]).calls
    assert (call.status, call.dispatchable) == ("ready", False)


# -- 2: arguments have three values with three names -------------------------------------------------------------------


def test_preview_history_form_and_arguments_are_three_values() -> None:
    items = chat(calls=[("a", "search", '{"query": "Par')], finish="length")
    deltas = [event for events in events_of(items) for event in events if isinstance(event, ToolCallDelta)]
    assert deltas[-1].preview == {"query": "Par"}, "the best view, for eyes only"
    turn = parse(items)
    assert turn.calls[0].arguments is None, "nothing runs that was cut"
    assert turn.calls[0].arguments_text == '{"query": "Par'
    assert turn.messages(CHAT)[0]["tool_calls"][0]["function"]["arguments"] == "{}", "always an object in the history"
    assert turn.messages(ANTHROPIC)[0]["content"][0]["input"] == {}


# -- 3: every announced call gets exactly one end and exactly one result in the history ------------------------------


def announced_and_ended(body: bytes, **options: Any) -> Iterator[tuple[list[str], list[str]]]:
    for cut in (len(body), len(body) // 2, len(body) // 3):
        events = [event for events in events_of([body[:cut]], **options) for event in events]
        starts = [event.call_id for event in events if isinstance(event, ToolCallStart)]
        yield starts, [event.call_id for event in events if isinstance(event, ToolCallEnd)]


@every("quirk", QUIRKS if FULL else QUIRKS[::3])
def test_every_announced_call_ends_once_and_has_one_result_in_the_history(quirk: dict[str, Any]) -> None:
    body = body_of(quirk)
    for starts, ends in announced_and_ended(body, wire=quirk["wire"], tools=quirk["tools"]):
        assert sorted(starts) == sorted(ends)
        assert len(set(starts)) == len(starts)
    check_histories(parse(body[: len(body) // 2], wire=quirk["wire"], tools=quirk["tools"]))


# -- 6: cost is linear -------------------------------------------------------------------------------------------------


def work(run: Callable[[], object]) -> int:
    """Calls made while it runs, and the characters that methods of text and bytes were given to look at.

    A stand-in for time that is the same at every run. It does not see what operators copy, but what is copied again and
    again is looked at again and again, too.
    """
    total = 0

    def count(frame: FrameType, kind: str, what: Any) -> None:
        nonlocal total
        if kind in ("call", "c_call"):
            total += 1
        if kind == "c_call" and isinstance(owner := getattr(what, "__self__", None), (str, bytes)):
            total += len(owner)

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return total


UNBOUNDED = Limits(max_tool_calls=10**6, max_open_blocks=10**6)


def call_chunk(**call: Any) -> dict[str, Any]:
    return chat_chunk({"tool_calls": [call]})


def message(blocks: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    end = [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]
    return [{"type": "message_start", "message": {"id": "m"}}, *(event for b in blocks for event in b), *end]


STREAMS: dict[str, Callable[[int], Any]] = {
    "one line in single bytes": lambda n: [bytes([byte]) for byte in sse([chat_chunk({"content": "x" * 4 * n})])[0]],
    "data lines of one event": lambda n: b"data:\n" * 4 * n + b"data: {}\n\n",
    "a body that is no event stream, in single bytes": lambda n: [b"x"] * 4 * n,
    "text": lambda n: sse(chat_chunk({"content": "word "}) for _ in range(n)),
    "white space before the text": lambda n: [chat_chunk({"content": " " * 20})] * n,
    "a think block": lambda n: [chat_chunk({"content": piece}) for piece in ["<think>", *["x<"] * n, "</think>", "Hi"]],
    "white space after a think block": lambda n: [
        chat_chunk({"content": piece}) for piece in ["<think></think>", *[" \n" * 10] * n, "Hi"]
    ],
    "arguments": lambda n: argument_deltas(CHAT, ['{"query": "', *["word "] * n, '"}']),
    "arguments in one deep value": lambda n: argument_deltas(ANTHROPIC, ['{"a":'] * n),
    "white space in arguments": lambda n: argument_deltas(ANTHROPIC, ["{", *[" " * 20] * n, "}"]),
    "a name in pieces": lambda n: [call_chunk(index=0, id="a", function={"name": f"piece{i}"}) for i in range(n)],
    "calls": lambda n: [call_chunk(index=i, id=f"c{i}", function={"name": "f", "arguments": "{}"}) for i in range(n)],
    "calls without id and index": lambda n: [call_chunk(function={"name": "f", "arguments": "{}"}) for _ in range(n)],
    "calls with one id": lambda n: [call_chunk(index=i, id="a", function={"name": "f"}) for i in range(n)],
    "calls with arguments as objects, in one chunk": lambda n: sse(
        [
            chat_chunk(
                {"tool_calls": [{"index": i, "function": {"name": "f", "arguments": {"a": i}}} for i in range(n)]}
            )
        ]
    ),
    "blocks": lambda n: message(block(i, {"type": "text", "text": "x"}) for i in range(n)),
    "blocks on one index": lambda n: message(block(0, {"type": "text", "text": "x"}) for _ in range(n)),
    "blocks in the start of a message": lambda n: sse(
        [
            {
                "type": "message_start",
                "message": {
                    "id": "m",
                    "content": [
                        {"type": "tool_use", "id": f"t{i}", "name": "f", "input": {"a": 1}} for i in range(n)
                    ],
                },
            }
        ]
    ),
    "calls that give their input at the start": lambda n: sse(
        message(block(i, {"type": "tool_use", "id": f"t{i}", "name": "f", "input": {"a": 1}}) for i in range(n))
    ),
    "a signature in pieces": lambda n: message(
        [block(0, {"type": "thinking"}, *[{"type": "signature_delta", "signature": "abc"}] * n)]
    ),
    "reasoning details": lambda n: [
        chat_chunk({"reasoning_details": [{"type": "reasoning.text", "index": i % 2, "text": "x"}]}) for i in range(n)
    ],
    "thinking in typed blocks between texts": lambda n: [
        chat_chunk({"content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "y"}]})
    ]
    * n,
    "warnings": lambda n: message(
        [block(0, {"type": "text"}, *({"type": f"new{i}", "text": "x"} for i in range(n)))]
    ),
}  # fmt: skip


@every("name", STREAMS)
def test_cost_is_linear(name: str) -> None:
    def cost(size: int) -> int:
        body = STREAMS[name](size)
        return work(lambda: parse(body, limits=UNBOUNDED).messages(CHAT))

    cost(10)  # what is made once
    small, large = cost(60), cost(360)
    assert large < 6 * 1.25 * small, f"{small} for sixty, {large} for six times as many"


SAID: dict[str, Callable[[int], dict[str, Any]]] = {
    "text": lambda n: {"text": ["word "] * n},
    "reasoning": lambda n: {"reasoning": ["word "] * n},
    "refusal": lambda n: {"refusal": ["word "] * n},
    "calls": lambda n: {"calls": [(f"c{i}", "f", '{"a":1}') for i in range(n)]},
    "arguments": lambda n: {"calls": [("a", "f", '{"a":"' + "word " * n + '"}')], "pieces": n},
    "nested arguments": lambda n: {"calls": [("a", "f", '{"a":[' + ",".join(["1"] * n) + "]}")], "pieces": n},
}


@every("wire", mostly_thorough(WIRES, 3))
@every("name", SAID)
def test_cost_is_linear_on_every_wire(wire: str, name: str) -> None:
    def cost(size: int) -> int:
        body = framed(wire, said(wire, **SAID[name](size)))
        return work(lambda: parse(body, wire=wire, limits=UNBOUNDED).messages())

    cost(10)
    small, large = cost(60), cost(240)
    assert large < 4 * 1.25 * small, f"{small} for sixty, {large} for four times as many"


@every(("wire", "framing"), [(wire, framing) for wire in WIRES for framing in FRAMINGS[wire]])
@every("size", mostly_thorough([1, 2, 64], 1))
def test_cost_is_linear_in_every_framing_however_small_the_chunks_are(wire: str, framing: str, size: int) -> None:
    def cost(length: int) -> int:
        payloads = said(wire, text=["x" * length, '"\\{[', "y" * length])
        body = b"".join(FRAMES[framing](payloads))
        chunks = [body[at : at + size] for at in range(0, len(body), size)]
        return work(lambda: parse(chunks, wire=wire))

    cost(10)
    small, large = cost(500), cost(2000)
    assert large < 4 * 1.25 * small, f"{small} for five hundred, {large} for four times as many"


# -- 7: sans-IO: no clock, no randomness, no event loop ----------------------------------------------------------------

DIGEST = """
import base64, hashlib, json, sys
from streamtools import parse
from streamtools.wires import WIRES
digest = hashlib.sha256()
for line in (line for path in sys.argv[1:] for line in open(path, encoding="utf-8")):
    quirk = json.loads(line)
    if quirk["wire"] not in WIRES:
        continue
    body = base64.b64decode(quirk["body_b64"]) if "body_b64" in quirk else quirk["body"].encode()
    turn = parse(body, wire=quirk["wire"], tools=quirk["tools"])
    told = [[c.call_id, c.name, c.arguments_text] for c in turn.calls], [[w.code, w.detail] for w in turn.warnings]
    digest.update(json.dumps([told, turn.text, turn.messages("anthropic.messages")]).encode())
print(digest.hexdigest())
"""


def test_the_same_bytes_give_the_same_turn_in_every_process() -> None:
    repository = Path(__file__).resolve().parent.parent
    files = sorted((DATA / "quirks").glob("*.jsonl"))[:: 1 if FULL else 3]
    digests = {
        subprocess.run(
            [
                sys.executable,
                "-c",
                DIGEST,
                *map(str, files),
            ],
            env={**os.environ, "PYTHONPATH": str(repository), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


@on_both_wires
def test_below_the_pipeline_no_event_knows_its_time_or_place(wire: str) -> None:
    for events in events_of(BODIES[wire](["Hi"], [("a", "f", "{}")])):
        for event in events:
            assert event.seq == -1
            assert getattr(event, "time", 0.0) == 0.0
            assert getattr(event, "causes", ()) == ()


# -- 9: a schema has one owner -----------------------------------------------------------------------------------------


def test_validation_is_against_the_tools_own_schema_whatever_was_exported() -> None:
    before = json.dumps(search.schema)
    for target in WIRES:
        payload = search.to(target)
        json.dumps(payload)
        _spoil(payload)
    assert json.dumps(search.schema) == before
    good, bad = parse(chat(calls=[("a", "search", '{"query":"x"}'), ("b", "search", "{}")]), tools=[search]).calls
    assert (good.status, bad.status, bad.problem) == ("ready", "invalid", "invalid_arguments")


def _spoil(payload: Any) -> None:
    """Change everything in a payload, in place."""
    for item in list(payload.values()) if isinstance(payload, dict) else payload:
        if isinstance(item, (dict, list)):
            _spoil(item)
    payload.clear()


def test_arguments_run_as_the_model_wrote_them_not_as_the_schema_would() -> None:
    (call,) = parse(chat(calls=[("a", "search", '{"query":"x"}')]), tools=[search]).calls
    assert call.arguments == strict_json(call.arguments_text), "no defaults are filled in"
    (ready,) = (
        event
        for events in events_of(chat(calls=[("a", "search", '{"query":"x"}')]), tools=[search])
        for event in events
        if isinstance(event, ToolCallValidated)
    )
    assert ready.call.arguments == {"query": "x"}
