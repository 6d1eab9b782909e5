"""A provider declines the model in mid-answer, and another one goes on: the calls before that place are void."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anthropic._models import construct_type
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from bedrock_streams import chunk
from sansio import check_turn, snapshot
from streams import sse, stream

from streamtools import Observation, Usage, agent_loop, parse, pipeline, tool
from streamtools.events import ToolCallStart, ToolStarted
from streamtools.history import convert, lint, repair, with_results
from streamtools.stages import DEFAULT, text_calls
from streamtools.wires import WIRES

pytestmark = pytest.mark.anyio
MESSAGES = "anthropic.messages"
ASKED = [{"role": "user", "content": "?"}]
Block = dict[str, Any]

# -- answers: the content of a message, which is a stream or a whole answer --------------------------------------------


def text(said: str) -> Block:
    return {"type": "text", "text": said}


def thought(of: str) -> Block:
    return {"type": "thinking", "thinking": of, "signature": f"signed {of}"}


def call(id: str, name: str, **arguments: Any) -> Block:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def handed(to: str = "served") -> Block:
    trigger = {"type": "refusal", "category": "cyber"}
    return {"type": "fallback", "from": {"model": "asked"}, "to": {"model": to}, "trigger": trigger}


def searched(id: str, *, found: bool) -> list[Block]:
    made = {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "x"}}
    result = {"type": "web_search_tool_result", "tool_use_id": id, "content": []}
    return [made, result] if found else [made]


VOID = [call("a", "pay", to="Eve"), call("b", "look", at=1), call("c", "nothing")]
AFTER = call("z", "pay", to="Ada")
ANSWERS: dict[str, tuple[list[Block], str, list[str]]] = {
    # what came, its stop reason, the ids of the calls that count
    "a call after it": ([thought("1"), text("So"), *VOID, handed(), thought("2"), AFTER], "tool_use", ["z"]),
    "text after it": ([*VOID, handed(), text("No.")], "end_turn", []),
    "nothing after it": ([text("So"), *VOID, handed()], "end_turn", []),
    "at the very start": ([handed(), text("Yes."), AFTER], "tool_use", ["z"]),
    "two hops": ([*VOID[:1], handed("second"), *VOID[1:], handed(), AFTER], "tool_use", ["z"]),
    "two hops and a text": ([text("So"), handed("second"), *VOID, handed(), text("No.")], "end_turn", []),
    "the same call again": ([VOID[1], handed(), call("d", "look", at=1)], "tool_use", ["d"]),
    "declined again": ([*VOID, handed(), AFTER], "refusal", ["z"]),
    "a search that was done": ([*searched("s", found=True), VOID[0], handed(), text("No.")], "end_turn", ["s"]),
    "a search that was not done": ([*searched("s", found=False), handed(), text("No.")], "end_turn", ["s"]),
    "a pause": ([*searched("s", found=True), handed(), *searched("t", found=False)], "pause_turn", ["s", "t"]),
}
ITERATIONS = [
    {"type": "message", "model": "asked", "input_tokens": 15, "output_tokens": 20, "cache_read_input_tokens": 2},
    {"type": "fallback_message", "model": "served", "input_tokens": 18, "output_tokens": 30},
]
FINISHES = {"end_turn": "stop", "tool_use": "tool_calls", "refusal": "content_filter", "pause_turn": "pause"}
COUNTED = {"input_tokens": 18, "output_tokens": 30, "iterations": ITERATIONS}


def went_back(content: list[Block]) -> list[Block]:
    """The blocks that the API wants back: before the last hand-over, neither calls of ours nor unanswered searches."""
    last = max(at for at, block in enumerate(content) if block["type"] == "fallback")
    answered = [block.get("tool_use_id") for block in content]

    def is_void(at: int, block: Block) -> bool:
        kind = block["type"]
        return at < last and (kind == "tool_use" or (kind == "server_tool_use" and block["id"] not in answered))

    return [block for at, block in enumerate(content) if not is_void(at, block)]


def payloads(content: list[Block], reason: str, *, ends: bool = True) -> list[Block]:
    message = {"id": "m", "type": "message", "role": "assistant", "model": "asked", "content": []}
    found: list[Block] = [
        {"type": "message_start", "message": message | {"usage": {"input_tokens": 15, "output_tokens": 1}}}
    ]
    for at, block in enumerate(content):
        begun, deltas = dict(block), list[Block]()
        if block["type"] in ("tool_use", "server_tool_use"):
            begun["input"], written = {}, json.dumps(block["input"]) if block["input"] else ""
            pieces = [written[:5], written[5:]]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        elif block["type"] == "text":
            begun["text"], deltas = "", [{"type": "text_delta", "text": block["text"]}]
        elif block["type"] == "thinking":
            begun |= {"thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        found.append({"type": "content_block_start", "index": at, "content_block": begun})
        found += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        found.append({"type": "content_block_stop", "index": at})
    end = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": COUNTED}
    return [*found, end, {"type": "message_stop"}] if ends else found


def whole(content: list[Block], reason: str) -> Block:
    message = {"id": "m", "type": "message", "role": "assistant", "model": "served", "content": content}
    return message | {"stop_reason": reason, "stop_sequence": None, "usage": COUNTED}


def pieces(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def in_sdk_objects(content: list[Block], reason: str) -> list[Any]:
    return [construct_type(type_=BetaRawMessageStreamEvent, value=payload) for payload in payloads(content, reason)]


def without_stops(content: list[Block], reason: str) -> list[Block]:
    """Payloads of a gateway that loses the end of each hand-over, and gives the first one a piece of its own."""
    kept = list[Block]()
    for payload in payloads(content, reason):
        at, kind = payload.get("index"), payload["type"]
        is_handed = at is not None and content[at]["type"] == "fallback"
        if not (is_handed and kind == "content_block_stop"):
            kept.append(payload)
        if is_handed and kind == "content_block_start" and content[at] == handed():
            kept.append({"type": "content_block_delta", "index": at, "delta": {"type": "new_delta"}})
    return kept


FORMS: dict[str, Callable[[list[Block], str], Any]] = {
    "bytes": lambda *said: stream(sse(payloads(*said), named=True)),
    "each byte": lambda *said: stream(pieces(b"".join(sse(payloads(*said), named=True)), 1)),
    "dicts": lambda *said: stream(payloads(*said)),
    "dicts without stops": lambda *said: stream(without_stops(*said)),
    "SDK objects": lambda *said: stream(in_sdk_objects(*said)),
    "InvokeModel": lambda *said: stream([chunk(payload) for payload in payloads(*said)]),
    "whole": lambda *said: stream([json.dumps(whole(*said)).encode()]),
    "whole SDK object": lambda *said: construct_type(type_=BetaMessage, value=whole(*said)),
}


class Purse:
    """The tools of a run, and what they did."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.cancelled = 0
        self.begun = anyio.Event()

        @tool
        async def pay(to: str) -> str:
            """Pay."""
            self.paid.append(to)
            return "paid"

        @tool(effect="pure")
        async def look(at: int) -> int:
            """Look somewhere."""
            return at

        @tool
        async def nothing() -> None:
            """Do nothing."""

        self.tools = [pay, look, nothing]


async def test_only_calls_of_the_model_that_served_the_answer_run_and_go_back() -> None:
    for number, (name, (content, reason, counting)) in enumerate(ANSWERS.items()):
        for form, made in list(FORMS.items())[number % 4 :: 4]:
            for start in ("auto", "turn_end") if form == "dicts" else ("auto",):
                purse = Purse()
                async with pipeline(made(content, reason), tools=purse.tools, start=start) as events:
                    seen = [event async for event in events]
                turn, case = events.turn, (name, form, start)
                may_run = reason == "tool_use"
                assert purse.paid == (["Ada"] if may_run and "z" in counting else []), case
                started = [
                    event.call_id for event in seen if isinstance(event, ToolCallStart) and event.kind != "server"
                ]
                ends = [event for event in seen if isinstance(event, Observation)]
                assert sorted(started) == sorted(end.call_id for end in ends), case
                assert {end.outcome for end in ends if end.call_id not in counting} <= {"discarded", "ok"}, case
                assert [call.call_id for call in turn.calls] == counting, case
                assert [end.call_id for end in turn.observations] == [id for id in counting if id in started], case
                assert (turn.model, turn.error) == ("served", None), case
                assert turn.finish == FINISHES[reason], case
                assert turn.usage == Usage(input_tokens=35, output_tokens=50, cached_input_tokens=2), case
                messages = turn.messages()
                assert messages[0]["content"] == went_back(content), case
                assert lint([*ASKED, *messages], MESSAGES) == [], case


def test_parse_gives_the_turn_that_a_pipeline_gives_for_any_split() -> None:
    content, reason, counting = ANSWERS["a call after it"]
    body, expected = b"".join(sse(payloads(content, reason), named=True)), None
    for cut in range(1, len(body), 7):
        turn = parse([body[:cut], body[cut:]])
        check_turn(turn)
        assert [call.call_id for call in turn.calls] == counting
        expected = expected or snapshot(turn)
        assert snapshot(turn) == expected
    for wire in WIRES:
        if wire != MESSAGES:
            assert "Eve" not in json.dumps(turn.messages(wire)), wire
    leaked = text('<tool_call>{"name": "pay", "arguments": {"to": "Eve"}}</tool_call>')
    for after, counted in ((text("No."), "stop"), (AFTER, "tool_calls")):
        body = payloads([leaked, handed(), after], "end_turn")
        assert parse(body, stages=DEFAULT.insert_before("accumulate", text_calls("hermes"))).finish == counted
    cut_off = parse(payloads(content[:-1], reason, ends=False))
    assert (cut_off.complete, cut_off.calls, cut_off.model) == (False, (), "served")


async def test_a_call_that_has_begun_is_stopped_if_it_may_be_and_else_goes_on_to_its_end() -> None:
    stopped, begun, paid = list[str](), anyio.Event(), list[str]()

    @tool(effect="pure")
    async def look(at: int) -> int:
        """Look for long."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append("look")
        return at

    @tool
    async def pay(to: str) -> str:
        """Pay slowly."""
        begun.set()
        await anyio.lowlevel.checkpoint()
        paid.append(to)
        return "paid"

    for name, start, ends in [("look", "auto", ["discarded"]), ("pay", "early", ["ok"])]:
        begun = anyio.Event()
        content = [call("a", name, **({"at": 1} if name == "look" else {"to": "Eve"})), handed(), text("No.")]
        said = payloads(content, "end_turn")
        place = next(at for at, one in enumerate(said) if one.get("content_block", {}).get("type") == "fallback")

        async def source(said: list[Block] = said, place: int = place) -> Any:
            for at, payload in enumerate(said):
                if at == place:
                    await begun.wait()
                yield payload

        with anyio.fail_after(10):
            async with pipeline(source(), tools=[look, pay], start=start) as events:  # type: ignore[arg-type]
                seen = [event async for event in events]
        observed = [event for event in seen if isinstance(event, Observation)]
        assert [one.outcome for one in observed] == ends
        assert [one.attempts for one in observed] == [1]
        assert sum(isinstance(event, ToolStarted) for event in seen) == 1
        assert (events.turn.calls, events.turn.observations) == ((), ())
    assert (stopped, paid) == (["look"], ["Eve"])


async def test_nobody_is_asked_about_a_void_call_any_more_and_its_id_may_come_again() -> None:
    @tool(needs_approval=True, effect="pure")
    async def ask(to: str) -> str:
        """Pay."""
        raise AssertionError("nobody has approved it")

    purse, again = Purse(), [call("b", "ask", to="Eve"), VOID[0], handed(), VOID[0]]
    async with pipeline(stream(payloads(again, "tool_use")), tools=[*purse.tools, ask]) as events:
        seen = [event async for event in events if isinstance(event, Observation)]
    assert (purse.paid, [one.outcome for one in seen]) == (["Eve"], ["discarded", "discarded", "ok"])
    assert len(events.turn.calls) == 1


def test_histories_that_others_have_written_lose_what_was_declined() -> None:
    for content, _, _ in ANSWERS.values():
        ids = [block["id"] for block in content if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": id, "content": "x"} for id in ids]
        history = [*ASKED, {"role": "assistant", "content": content}]
        answered = [*history, {"role": "user", "content": [*results, text("And?")]}, *ASKED]
        void = [content.index(block) for block in content if block not in went_back(content)]
        found = lint(answered, MESSAGES)
        last = [len(content) - 1] if content[-1]["type"] == "server_tool_use" else []  # which nobody will answer
        assert sorted(one.path for one in found if one.code == "unanswered_call") == [
            f"messages[1].content[{at}]" for at in sorted({*void, *last})
        ]
        mended = repair(answered, MESSAGES)
        assert mended[1]["content"] == [block for block in went_back(content) if content.index(block) not in last]
        assert lint(mended, MESSAGES) == []
        for wire in WIRES:
            assert "Eve" not in json.dumps(convert(answered, MESSAGES, wire).messages), wire
        if "z" in ids:
            (late,) = with_results([*history, {"role": "user", "content": results[-1:]}], {"z": "late"}, MESSAGES)[-1][
                "content"
            ]
            assert (late["tool_use_id"], late["content"]) == ("z", "late")


async def test_a_run_that_goes_on_from_its_journal_knows_what_was_declined(tmp_path: Path) -> None:
    content, reason, _ = ANSWERS["a call after it"]
    purse, asked = Purse(), list[str]()

    def ask(messages: Any, tools: Any) -> Any:
        asked.append("again" if len(messages) > 1 else "first")
        said = (content, reason) if len(messages) == 1 else ([text("Done.")], "end_turn")
        return stream(payloads(*said))

    options: Any = {"tools": purse.tools, "wire": MESSAGES, "journal": tmp_path / "runs.db", "run_id": "r"}
    async with agent_loop(ask, ASKED, **options) as run:
        async for event in run:
            if isinstance(event, Observation) and event.outcome == "ok" and event.call_id == "z":
                break
    for _ in range(2):
        async with agent_loop(ask, ASKED, **options) as run:
            _ = [event async for event in run]
        assert (run.outcome, purse.paid, asked) == ("answered", ["Ada"], ["first", "again"])
        assert [[call.call_id for call in turn.calls] for turn in run.turns] == [["z"], []]
        assert lint(run.messages, MESSAGES, last=True) == []
