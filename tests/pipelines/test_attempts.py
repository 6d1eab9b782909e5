"""Answers that break off and are asked for again: on every wire, cut anywhere, with other ids, order and text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import anyio
import anyio.lowlevel
import orjson
import pytest
import responses_streams as r
from gemini_streams import call as gemini_call
from gemini_streams import response as gemini_response
from gemini_streams import text as gemini_text
from profiles import FULL
from streams import anthropic, chat, sse, stream

from streamtools import (
    Event,
    Observation,
    Retry,
    TextDelta,
    ToolCallValidated,
    agent_loop,
    tool,
)
from streamtools.dispatch import MemoryStore
from streamtools.events import AttemptBegan, AttemptCommitted, AttemptDiscarded, StepEnd, StepStart, ToolCallStart
from streamtools.history import lint

pytestmark = pytest.mark.anyio
AT_ONCE = Retry(backoff=0, after_output=True, attempts=3, jitter=lambda: 0.0)
ASKED = [{"role": "user", "content": "Pay 3, please."}]
CONTENTS = [{"role": "user", "parts": [{"text": "Pay 3, please."}]}]

Call = tuple[str, str, dict[str, Any]]  # id, name, arguments


def responses(texts: Sequence[str], calls: Sequence[Call]) -> list[bytes]:
    payloads: list[dict[str, Any]] = [r.CREATED]
    items: list[dict[str, Any]] = []
    if texts:
        name = f"msg_{len(''.join(texts))}"
        payloads.append(r.added(0, r.message(id=name, status="in_progress")))
        payloads += [{**r.text(0, piece), "item_id": name} for piece in texts]
        items.append(r.message(r.output_text("".join(texts)), id=name))
        payloads.append(r.done(0, items[0]))
    for index, (call_id, name, arguments) in enumerate(calls, len(items)):
        head = {"type": "function_call", "id": f"fc{call_id}", "call_id": call_id, "name": name}
        payloads.append(r.added(index, {**head, "arguments": ""}))
        items.append({**head, "arguments": orjson.dumps(arguments).decode(), "status": "completed"})
        payloads.append(r.done(index, items[-1]))
    return sse([*payloads, r.ended(output=items)], named=True)


def gemini(texts: Sequence[str], calls: Sequence[Call]) -> list[bytes]:
    payloads = [gemini_response(gemini_text(piece)) for piece in texts]
    payloads += [gemini_response(gemini_call(name, arguments)) for _, name, arguments in calls]
    payloads.append(gemini_response(gemini_text(""), finish="STOP"))
    return [b"data: " + orjson.dumps(payload) + b"\r\n\r\n" for payload in payloads]


def _texts(calls: Sequence[Call]) -> list[tuple[str, str, str]]:
    return [(call_id, name, orjson.dumps(arguments).decode()) for call_id, name, arguments in calls]


WIRES: dict[str, tuple[Callable[[Sequence[str], Sequence[Call]], list[bytes]], list[Any]]] = {
    "openai.chat_completions": (
        lambda texts, calls: chat(texts, _texts(calls), "tool_calls" if calls else "stop"),
        ASKED,
    ),
    "anthropic.messages": (
        lambda texts, calls: anthropic(texts, _texts(calls), "tool_use" if calls else "end_turn"),
        ASKED,
    ),
    "openai.responses": (responses, ASKED),
    "gemini.generate_content": (gemini, CONTENTS),
}


@dataclass
class Bank:
    """Tools, and what they have done."""

    done: Counter[str] = field(default_factory=Counter)

    def tools(self, operation: str | None = None) -> list[Any]:
        @tool(effect="once", operation=operation)
        async def pay(amount: int) -> str:
            """Pay."""
            self.done[f"pay {amount}"] += 1
            await anyio.lowlevel.checkpoint()
            return "paid"

        @tool(effect="pure")
        async def rate(of: str) -> int:
            """Look a rate up."""
            self.done[f"rate {of}"] += 1
            await anyio.lowlevel.checkpoint()
            return 7

        @tool(effect="idempotent")
        async def note(text: str) -> str:
            """Note."""
            self.done[f"note {text}"] += 1
            await anyio.lowlevel.checkpoint()
            return "noted"

        return [pay, rate, note]


FIRST: list[Call] = [
    ("a", "rate", {"of": "EUR"}),
    ("b", "pay", {"amount": 3}),
    ("c", "note", {"text": "x"}),
]
"""The calls of the answer that breaks off."""
AGAIN: dict[str, tuple[list[str], list[Call]]] = {
    "the same ids": (["Let ", "me."], FIRST),
    "new ids, another order": (
        ["Let us."],
        [("d", "note", {"text": "x"}), ("e", "pay", {"amount": 3}), ("f", "rate", {"of": "EUR"})],
    ),
    "another answer": (["It depends."], [("a", "rate", {"of": "CHF"})]),
    "no calls": (["I cannot."], []),
}
"""How the model answers the next time."""


class Reader:
    """A consumer that honours the events of attempts: it shows what is not discarded."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.kept: list[Event] = []

    def take(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, AttemptDiscarded):
            self.kept = [one for one in self.kept if one.step != event.step or one.seq < event.from_seq]
        else:
            self.kept.append(event)

    def texts(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for event in self.kept:
            if isinstance(event, TextDelta):
                found[event.step] = found.get(event.step, "") + event.text
        return found


class Model:
    """Gives the bodies in turn, and the last one as soon as it has read results."""

    def __init__(self, *bodies: Any) -> None:
        self.bodies = list(bodies)
        self.asked: list[list[Any]] = []

    async def __call__(self, messages: list[Any], tools: Any) -> Any:
        self.asked.append(list(messages))
        await anyio.lowlevel.checkpoint()
        body = self.bodies.pop(-1 if len(messages) > len(self.asked[0]) else 0)
        if isinstance(body, Exception):
            raise body
        return body if hasattr(body, "__anext__") else stream(body)


async def read(run: Any) -> Reader:
    """Reads a run to its end; with manual starts, runs every call that is ready."""
    reader = Reader()
    is_manual = run._options.get("start") == "manual"
    async with run, anyio.create_task_group() as tasks:
        while run.outcome is None:
            async for event in run:
                reader.take(event)
                if is_manual and isinstance(event, ToolCallValidated):
                    tasks.start_soon(run.run_call, event)
                    await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()  # the run rests until a task runs its call
    return reader


def check(reader: Reader, run: Any, bank: Bank, wire: str, place: str) -> None:
    """Checks what holds of every run, wherever an answer of it broke off."""
    assert run.outcome == "answered", place
    assert [count for what, count in bank.done.items() if what.startswith("pay") and count > 1] == [], place
    assert lint(run.messages, wire) == [], place
    assert reader.texts() == {turn_at: turn.text for turn_at, turn in enumerate(run.turns) if turn.text}, place
    began = [event for event in reader.events if isinstance(event, AttemptBegan)]
    over = [event for event in reader.events if isinstance(event, (AttemptDiscarded, AttemptCommitted))]
    assert [one.attempt for one in began] == [one.attempt for one in over], place
    assert (
        [type(one) for one in reader.events].count(StepStart)
        == len(run.turns)
        == len([one for one in reader.events if isinstance(one, StepEnd)])
    ), place
    assert [event.seq for event in reader.events] == list(range(len(reader.events))), place
    announced = [event.call_id for event in reader.events if isinstance(event, ToolCallStart)]
    observed = [event.call_id for event in reader.events if isinstance(event, Observation)]
    assert Counter(announced) == Counter(observed), place
    for turn in run.turns:
        assert all(seen.outcome != "discarded" for seen in turn.observations), place
        assert {seen.call_id for seen in turn.observations} == {call.call_id for call in turn.calls}, place


def cases() -> Iterator[tuple[str, str, str, int, BaseException | None]]:
    """Yields wire, start, the next answer, the number of events before the break, and the error; all of them where
    everything is tried, else each break of each wire in one way."""
    errors = (ConnectionResetError("reset"), None)
    for wire, (compose, _) in WIRES.items():
        breaks = len(compose(["Let ", "me see."], FIRST))
        for number, (start, cut, again, error) in enumerate(
            product(("auto", "early", "manual"), range(breaks), AGAIN, errors)
        ):
            if error is None and cut == breaks - 1:
                continue  # on some wires nothing is missing but a marker that nobody needs
            if FULL or number % 8 == (3 * cut + len(start)) % 8:
                yield wire, start, again, cut, error


@pytest.mark.deadline(600)
async def test_an_answer_that_breaks_off_anywhere_is_asked_for_again_and_nothing_happens_twice() -> None:
    bank = Bank()
    kinds = {start: bank.tools("amount" if start == "early" else None) for start in ("auto", "early", "manual")}
    for wire, start, again, cut, error in cases():
        compose, asked = WIRES[wire]
        texts, calls = AGAIN[again]
        bank.done.clear()
        body = stream(compose(["Let ", "me see."], FIRST)[:cut], then=error)
        model = Model(body, compose(texts, calls), compose(["Done."], []))
        options: dict[str, Any] = {"store": MemoryStore()} if start == "early" else {}
        run = agent_loop(model, asked, tools=kinds[start], wire=wire, retry=AT_ONCE, start=start, **options)
        with anyio.fail_after(30):
            reader = await read(run)
        check(reader, run, bank, wire, f"{wire}, {start}, {again}, cut at {cut}, {error!r}")
