"""Calls in the text are run as native ones are, on asyncio and trio."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Literal

import anyio
import pytest
from dialect_cases import CASES, TOOLS, WHOLE
from profiles import FULL, every, mostly_thorough
from streams import anthropic, chat, chat_chunk, sse, stream
from test_text_calls import with_calls

from streamtools import Event, Observation, StreamEnd, TextDelta, Turn, pipeline, tool
from streamtools.events import ToolCallStart
from streamtools.history import lint
from streamtools.stages import DIALECTS

pytestmark = pytest.mark.anyio


@every("dialect", mostly_thorough(CASES, 8))
async def test_every_dialect_runs_its_tools(dialect: str) -> None:
    case = WHOLE[dialect]
    body = chat(["a\n", *case.text, "\nb"], finish="stop")
    async with pipeline(stream(body), tools=TOOLS, stages=with_calls(dialect)) as events:
        seen = [event async for event in events]
    assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == "a\n\nb"
    assert [(o.outcome, o.value) for o in events.turn.observations] == [("ok", "Paris: sun for 1")]
    assistant, result = events.turn.messages()
    assert (assistant["content"], result["content"]) == ("a\n\nb", "Paris: sun for 1")


async def test_a_harmless_call_starts_at_its_own_end_while_the_text_goes_on() -> None:
    may_end = anyio.Event()

    async def slow() -> AsyncIterator[bytes]:
        first, *rest = chat([WHOLE["hermes"].text, "later"], finish="stop")
        yield first
        yield rest[0]
        await may_end.wait()
        for item in rest[1:]:
            yield item

    order = []
    with anyio.fail_after(30):
        async with pipeline(slow(), tools=TOOLS, stages=with_calls("hermes")) as events:
            async for event in events:
                if isinstance(event, (Observation, TextDelta, StreamEnd)):
                    order.append(type(event).__name__)
                if isinstance(event, Observation):
                    may_end.set()
    assert order == ["Observation", "TextDelta", "StreamEnd"]


async def test_a_tool_with_effects_waits_for_the_end_of_the_turn_and_needs_a_good_one() -> None:
    ran = []

    @tool
    async def get_weather(city: str) -> str:
        """It spends something."""
        ran.append(city)
        return "ok"

    for finish, outcome, calls in (("length", "skipped", []), ("stop", "ok", ["Paris"])):
        body = chat([WHOLE["hermes"].text], finish=finish)
        async with pipeline(stream(body), tools=[get_weather], stages=with_calls("hermes")) as events:
            seen = [type(event).__name__ async for event in events]
        assert seen.index("StreamEnd") < seen.index("ToolStarted" if calls else "Observation")
        assert [o.outcome for o in events.turn.observations] == [outcome]
        assert ran == calls


# -- a server that has the call in the text, and sends it natively, too ------------------------------------------------

NATIVE = '{"a":1}'
EFFECTS: tuple[Literal["once", "idempotent"], ...] = ("once", "idempotent")
ORDERS: dict[str, tuple[list[str], int]] = {
    # what comes: a call in the text, a native one of the same arguments, or of others; how many calls that is
    "the text first": (["text", "native"], 1),
    "the native one first": (["native", "text"], 1),
    "two of each": (["text", "text", "native", "native"], 2),
    "two of each, by turns": (["text", "native", "text", "native"], 2),
    "two in the text and one": (["text", "text", "native"], 2),
    "one in the text and two": (["text", "native", "native"], 2),
    "other arguments": (["text", "other"], 2),
    "the text alone": (["text"], 1),
}


def leaking(wire: str, example: str, order: Sequence[str]) -> list[bytes]:
    """A body in which a server has calls in the text, and sends some natively."""
    written, text = {"native": NATIVE, "other": '{"a":2}'}, f"{example}\n"
    if wire == "anthropic.messages":
        events = [
            payload
            for at, what in enumerate(order)
            for payload in _block(at, text if what == "text" else None, written.get(what, ""))
        ]
        start, *_, end, stop = anthropic([], [], stop="tool_use")
        return [start, *sse(events), end, stop]
    deltas: list[dict[str, Any]] = []
    for number, what in enumerate(order):
        function = {"name": "f", "arguments": written.get(what)}
        call = {"index": number, "id": f"native_{number}", "type": "function", "function": function}
        deltas.append({"content": text} if what == "text" else {"tool_calls": [call]})
    return [*sse([*map(chat_chunk, deltas), chat_chunk({}, "tool_calls")]), b"data: [DONE]\n\n"]


def _block(at: int, text: str | None, arguments: str) -> Iterator[dict[str, Any]]:
    block: dict[str, Any] = {"type": "tool_use", "id": f"native_{at}", "name": "f", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": arguments}
    if text is not None:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
    yield {"type": "content_block_start", "index": at, "content_block": block}
    yield {"type": "content_block_delta", "index": at, "delta": delta}
    yield {"type": "content_block_stop", "index": at}


async def _run_leaking(
    body: list[bytes], dialect: str, effect: Literal["once", "idempotent", "pure"] = "once", start: Any = "auto"
) -> tuple[list[int], list[Event], Turn]:
    ran: list[int] = []

    @tool(effect=effect)
    async def f(a: int) -> str:
        """Do it."""
        ran.append(a)
        return "done"

    async with pipeline(stream(body), tools=[f], stages=with_calls(dialect), start=start) as events:
        seen = [event async for event in events]
    return ran, seen, events.turn


async def test_a_call_that_stands_in_the_text_and_comes_natively_is_one_call() -> None:
    for number, (dialect, known) in enumerate(DIALECTS.items()):
        wire = ("openai.chat_completions", "anthropic.messages")[number % 2]
        for name, (order, count) in ORDERS.items() if FULL or number < 6 else [*ORDERS.items()][:3]:
            if order.count("text") > 1 and (known.at_beginning or ":0" in known.example):
                continue  # its markers count at the beginning alone, or the example has an id, which is one call's
            ran, seen, turn = await _run_leaking(leaking(wire, known.example, order), dialect)
            case, copies = (dialect, wire, name), len(order) - count
            assert len(ran) == len(turn.calls) == len(turn.observations) == count, case
            begun = sorted(event.call_id for event in seen if isinstance(event, ToolCallStart))
            ends = [event for event in seen if isinstance(event, Observation)]
            assert begun == sorted(event.call_id for event in ends), case
            assert [event.outcome for event in ends].count("discarded") == copies, case
            native = [call for call in turn.calls if call.call_id.startswith("native")]
            assert len(native) == len(order) - order.count("text"), case
            codes = [warning.code for warning in turn.warnings if warning.code == "call_in_text"]
            assert codes == ["call_in_text"] * bool(copies), case
            found = lint([{"role": "user", "content": "?"}, *turn.messages()], wire)
            assert {one.code for one in found} <= {"bad_id"}, case  # an id that stands in the text


async def test_a_copy_of_a_call_never_pays_twice_whatever_starts_it_and_however_it_is_cut() -> None:
    example = DIALECTS["hermes"].example
    for order, count in ORDERS.values():
        whole = b"".join(leaking("openai.chat_completions", example, order))
        for start in ("auto", "early", "turn_end"):
            for size, effect in zip((7, 64), EFFECTS, strict=True):
                body = [whole[at : at + size] for at in range(0, len(whole), size)]
                ran, _, turn = await _run_leaking(body, "hermes", effect, start)
                assert (len(ran), len(turn.calls)) == (count, count), effect
            _, _, turn = await _run_leaking([whole], "hermes", "pure", start)
            assert len(turn.calls) == len(turn.observations) == count, "a copy may run, but is told once"
    call = {"id": "native", "type": "function", "function": {"name": "f", "arguments": NATIVE}}
    message = {"role": "assistant", "content": example, "tool_calls": [call]}
    answer = {"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}
    ran, _, turn = await _run_leaking([json.dumps(answer).encode()], "hermes")
    assert (len(ran), [call.call_id for call in turn.calls]) == (1, ["native"])
