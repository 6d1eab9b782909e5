"""A call of which a piece came while it was not open is cut on every wire: it never runs for ``{}`` or for defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cohere_streams import event
from gemini_streams import call, piece, pieces, response
from profiles import FULL, every
from responses_streams import CREATED, added, arguments, done, ended, function
from sansio import checked, codes
from streams import chat_chunk
from test_disorder import WIRES, Said
from wire_cases.names import ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, INTERACTIONS, LIVE, MISTRAL, OLLAMA, RESPONSES

from streamtools import StreamDecoder, ToolCall, Turn, parse, pipeline, tool
from streamtools.events import ToolCallDelta, ToolCallStart, ToolStarted

Payload = dict[str, Any]
Payloads = list[Payload]

RAN: list[str] = []
ALL = '{"audience":"board"}'
FIRST, LAST = ALL[:9], ALL[9:]


@tool(effect="pure")
async def send(audience: str = "everyone") -> str:
    """Send it."""
    RAN.append(audience)
    return "sent"


TEXTS: dict[str, Callable[[Any], Payload]] = {
    ANTHROPIC: lambda n: {"type": "content_block_delta", "index": n, "delta": {"type": "text_delta", "text": "Hm"}},
    BEDROCK: lambda n: {"contentBlockDelta": {"contentBlockIndex": n, "delta": {"text": "Hm"}}},
    COHERE: lambda n: event("content-delta", n, content={"text": "Hm"}),
    INTERACTIONS: lambda n: {"event_type": "step.delta", "index": n, "delta": {"type": "text", "text": "Hm"}},
}
"""A piece of text on the wires that mark where a call begins and ends, and number what they say in between."""

# The order in which starts (an id), pieces, ends and texts come, each with its number; and of which calls those that
# are named are whole: their audience, or None.
ORDERS: dict[str, tuple[list[tuple[str, Any, str]], dict[str, str | None]]] = {
    "all before": ([("piece", 0, ALL), ("begin", 0, "a"), ("end", 0, "")], {"a": "board"}),
    "a part before": ([("piece", 0, FIRST), ("begin", 0, "a"), ("piece", 0, LAST), ("end", 0, "")], {"a": "board"}),
    "a part before and the rest behind": (
        [("piece", 0, FIRST), ("begin", 0, "a"), ("end", 0, ""), ("piece", 0, LAST)],
        {"a": None},
    ),
    "all before, and all again": (
        [("piece", 0, ALL), ("begin", 0, "a"), ("piece", 0, ALL), ("end", 0, "")],
        {"a": None},
    ),
    "before a start that comes twice": (
        [("piece", 0, ALL), ("begin", 0, "a"), ("begin", 0, "a"), ("end", 0, "")],
        {"a": "board"},
    ),
    "before a call that never ends": ([("piece", 0, ALL), ("begin", 0, "a")], {"a": "board"}),
    "before two at one place": (
        [("piece", 0, ALL), ("begin", 0, "a"), ("end", 0, ""), ("begin", 0, "b"), ("end", 0, "")],
        {"a": None, "b": None},
    ),
    "after the end of another": (
        [
            *(("begin", 0, "a"), ("piece", 0, ALL), ("end", 0, "")),
            *(("piece", 0, LAST), ("begin", 0, "b"), ("end", 0, "")),
        ],
        {"a": "board", "b": None},
    ),
    "each event twice": (
        [(kind, 0, text) for kind, text in (("piece", ALL), ("begin", "a"), ("end", "")) for _ in range(2)],
        {"a": None},
    ),
    "without a number": ([("piece", None, ALL), ("begin", 0, "a"), ("end", 0, "")], {"a": None}),
    "without a number, while it is open": ([("begin", 0, "a"), ("piece", None, ALL), ("end", 0, "")], {"a": None}),
    "beside another": (
        [
            *(("begin", 1, "b"), ("piece", 0, ALL), ("piece", 1, ALL), ("begin", 0, "a")),
            *(("end", 1, ""), ("end", 0, "")),
        ],
        {"b": "board", "a": "board"},
    ),
    "a text before": ([("text", 0, ""), ("begin", 0, "a"), ("end", 0, "")], {"a": "everyone"}),
    "an empty piece before": ([("piece", 0, ""), ("begin", 0, "a"), ("piece", 0, ALL), ("end", 0, "")], {"a": "board"}),
    "none": ([("begin", 0, "a"), ("end", 0, "")], {"a": "everyone"}),
}


def payloads_of(wire: str, order: list[tuple[str, Any, str]]) -> Payloads:
    shapes = WIRES[wire]
    said = [
        TEXTS[wire](n) if kind == "text" else shapes.payloads([Said(kind, n, text, text)])[1] for kind, n, text in order
    ]
    return [*shapes.head, *said, *shapes.tail]


def named(turn: Turn) -> list[ToolCall]:
    return [call for call in turn.calls if call.name]


async def run(payloads: Payloads, wire: str, start: str) -> Turn:
    RAN.clear()
    async with pipeline(payloads, tools=[send], wire=wire, start=start) as events:  # type: ignore[arg-type]
        seen = [each async for each in events]
    turn = events.turn
    checked(turn)
    begun = [each.call_id for each in seen if isinstance(each, ToolStarted)]
    assert sorted(call.call_id for call in turn.calls if call.status == "ready") == sorted(begun)
    assert [one.call_id for one in turn.observations] == [call.call_id for call in turn.calls]
    return turn


@pytest.mark.anyio
@every("wire", TEXTS)
async def test_a_call_has_the_arguments_from_before_it_if_they_can_be_its_alone_else_it_is_cut(wire: str) -> None:
    for number, (order, expected) in enumerate(ORDERS.values()):
        payloads = payloads_of(wire, order)
        for start in ("early", "turn_end") if FULL else (("early", "turn_end")[number % 2],):
            turn = await run(payloads, wire, start)
            found = {call.call_id: call for call in named(turn)}
            whole = {id_: found[id_].arguments for id_ in expected}
            assert whole == {
                id_: {"audience": said} if said == "board" else None if said is None else {}
                for id_, said in expected.items()
            }, order
            assert {call.status for call in named(turn) if call.arguments is None} <= {"truncated"}, order
            assert sorted(said for said in expected.values() if said is not None) == sorted(RAN), order
            assert None in expected.values() or "arguments_lost" not in codes(turn), order


@every("wire", TEXTS)
def test_the_pieces_of_a_call_are_told_after_its_start_alone(wire: str) -> None:
    for order, _ in ORDERS.values():
        decoder = StreamDecoder(wire=wire, tools=[send])
        events = [each for payload in payloads_of(wire, order) for each in decoder.feed(payload)]
        begun: set[str] = set()
        for each in (*events, *decoder.finish()):
            if isinstance(each, ToolCallStart):
                begun.add(each.call_id)
            assert not isinstance(each, ToolCallDelta) or each.call_id in begun


def test_places_without_end_are_bounded_and_then_no_call_is_trusted() -> None:
    strays = [("piece", number + 1, ALL) for number in range(5000)]
    turn = parse(payloads_of(ANTHROPIC, [*strays, ("begin", 0, "a"), ("end", 0, "")]))
    assert [(call.status, codes(turn)) for call in turn.calls] == [
        ("truncated", ["delta_without_block", "arguments_lost"])
    ]


def test_such_a_call_stays_cut_when_its_interaction_is_resumed() -> None:
    """One that would be whole is cut, too, where nothing but what came before it was seen."""
    for order, expected in ORDERS.values():
        payloads = payloads_of(INTERACTIONS, order)
        for place in range(1, len(payloads)):
            first = parse(payloads[:place], tools=[send])
            turn = parse(payloads[place:], wire=INTERACTIONS, tools=[send], continues=first)
            begun = {call.call_id for call in first.calls}
            for found in named(turn):
                whole = expected[found.call_id] is not None
                assert (found.status == "ready") is whole or (whole and found.call_id not in begun), (order, place)


# -- wires that do not number their calls, or not always -------------------------------------------------------------


def chat(*calls: Payload) -> Payloads:
    return [*(chat_chunk({"tool_calls": [one]}) for one in calls), chat_chunk({}, "tool_calls")]


def line(*calls: Payload, done: bool = False) -> Payload:
    message = {"role": "assistant", "content": "", "tool_calls": [{"function": one} for one in calls]}
    return {"model": "m", "created_at": "x", "message": message, "done": done, "done_reason": "stop"}


NAMED: Payload = {"id": "a", "type": "function", "function": {"name": "send"}}
PIECE: Payload = {"function": {"arguments": ALL}}
BOARD = piece("$.audience", stringValue="board")
WHOLE = {"args": {"audience": "board"}}

# What comes, and the arguments of the calls that have a name: None if they never run.
UNNUMBERED: dict[str, tuple[str, Payloads, list[Any]]] = {
    "chat": (CHAT, chat(PIECE, {"index": 0, **NAMED}), [None]),
    "chat, all without a number": (CHAT, chat(PIECE, NAMED), [None]),
    "chat, numbered": (CHAT, chat({"index": 0, **PIECE}, {"index": 0, **NAMED}), [{"audience": "board"}]),
    "chat, at a place of its own": (CHAT, chat({"index": 0, **NAMED}, {"index": 1, **PIECE}), [None]),
    "mistral": (MISTRAL, chat(PIECE, {"index": 0, **NAMED}), [None]),
    "ollama": (
        OLLAMA,
        [line({"arguments": {"audience": "board"}}), line({"name": "send"}), line(done=True)],
        [None],
    ),
    "gemini": (
        GEMINI,
        [
            response(pieces(BOARD), call("send", willContinue=True), {"functionCall": {}}),
            response(call("send"), call("send", **WHOLE), finish="STOP"),
        ],
        [None, None, {"audience": "board"}],
    ),
    "gemini, with ids": (
        GEMINI,
        [response(pieces(BOARD, id="a"), call("send", id="b"), call("send", id="a"), finish="STOP")],
        [{}, None],
    ),
    "live": (LIVE, [{"toolCall": {"functionCalls": [{"partialArgs": [BOARD]}, {"name": "send", "id": "a"}]}}], [None]),
    "responses": (RESPONSES, [CREATED, arguments(0, ALL), added(0, function()), done(0, function()), ended()], [ALL]),
}


@pytest.mark.anyio
async def test_arguments_without_a_number_are_no_calls_and_no_call_without_any_runs_beside_them() -> None:
    for name, (wire, payloads, expected) in UNNUMBERED.items():
        if wire == RESPONSES:
            turn = parse(payloads, tools=["f"])
            assert [call.arguments_text for call in turn.calls] == expected
            continue
        turn = await run(payloads, wire, "early")
        assert [call.arguments for call in named(turn)] == expected, name
        assert {call.status for call in named(turn) if call.arguments is None} <= {"truncated"}, name
        assert ("arguments_lost" in codes(turn)) == (None in expected), name
