"""Copies of a run are in the order of `seq`, whatever a policy holds back, and nobody who reads them misses a word.

A text is held open while other tasks emit: the source waits in the middle of it for a call, or for another pipeline.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from every_wire import framed, said
from profiles import every
from streams import Seeing, stream
from web.asgi_client import Client
from web.chat_client import Answer, Page

from streamtools import Event, Trajectory, agent_loop, pipeline, tool
from streamtools.dispatch import SqliteStore
from streamtools.durable.records import Op, Put
from streamtools.durable.store_sqlite import SqliteRecords
from streamtools.events import Observation, TextDelta, ToolCallEnd
from streamtools.integrations import EventStreamResponse
from streamtools.observers import Observer
from streamtools.privacy import Privacy, redact_secrets
from streamtools.record import Recording, record, replay
from streamtools.web import Chats, OwnEvents
from streamtools.web.log import Entry, read_entries

pytestmark = pytest.mark.anyio

WIRE = "anthropic.messages"
TEXT = "Write to bob@example.org"
POLICIES = {
    "shapes": Privacy(redact=redact_secrets()),
    "function": Privacy(redact=lambda text: text.replace("bob@example.org", "[mail address]")),
}
MASKED = "Write to [mail address]"
ARGUMENTS = '{"at": 9, "to": "bob@example.org"}'
Gate = Callable[[], Awaitable[None]]


def block(at: int, kind: dict[str, Any], *deltas: dict[str, Any] | None) -> list[Any]:
    """A block of the response; None is where its source waits."""
    grown = [one and {"type": "content_block_delta", "index": at, "delta": one} for one in deltas]
    return [
        {"type": "content_block_start", "index": at, "content_block": kind},
        *grown,
        {"type": "content_block_stop", "index": at},
    ]


def call(at: int, *arguments: str | None) -> list[Any]:
    kind = {"type": "tool_use", "id": f"c{at}", "name": "look", "input": {}}
    return block(at, kind, *(one and {"type": "input_json_delta", "partial_json": one} for one in arguments))


PAYLOADS = [
    {"type": "message_start", "message": {"id": "m", "model": "claude", "usage": {"input_tokens": 1}}},
    *call(0, '{"at": 0, "to": ""}'),
    *call(1, '{"at": 1, "to": ""}'),
    *block(2, {"type": "text", "text": ""}, *({"type": "text_delta", "text": one} for one in TEXT), None),
    *call(3, *ARGUMENTS[:-4], None, ARGUMENTS[-4:]),
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]


async def answer(gate: Gate) -> AsyncIterator[bytes]:
    for payload in PAYLOADS:
        if payload is None:
            await gate()
        else:
            yield framed(WIRE, [payload])[0]


class Looker(Observer):
    """The tool, whose calls end one after the other when the source waits; and an observer that sees their ends."""

    event_types = (Observation,)
    sees_originals = True

    def __init__(self) -> None:
        self.waiting = [(anyio.Event(), anyio.Event()) for _ in range(2)]
        self.opened = 0

    def tool(self) -> Any:
        @tool(effect="pure")
        async def look(at: int, to: str) -> str:
            """Looks."""
            if at < len(self.waiting):
                await self.waiting[at][0].wait()
            return "seen"

        return look

    async def gate(self) -> None:
        begin, end = self.waiting[self.opened]
        self.opened += 1
        begin.set()
        await end.wait()

    def on_event(self, event: Event) -> None:
        assert isinstance(event, Observation)
        if event.call_id in ("c0", "c1"):
            self.waiting[int(event.call_id[1:])][1].set()


def in_order(numbers: Sequence[int]) -> bool:
    return all(first <= second for first, second in pairwise(numbers))


@every("named, host", [(name, host) for name in POLICIES for host in ("calls", "loop", "another pipeline", "left")])
async def test_no_copy_of_an_event_overtakes_one_before_it(named: str, host: str, tmp_path: Path) -> None:
    path, looker, seeing, policy = tmp_path / f"{named} {host}.jsonl", Looker(), Seeing(), POLICIES[named]
    is_alone = host != "another pipeline"
    run = Trajectory(observers=[looker, seeing, *([record(path)] if is_alone else [])], privacy=policy)

    async def gate() -> None:
        if host == "another pipeline":  # which ends while the text is held
            await pipeline(stream(framed(WIRE, said(WIRE, text=[TEXT]))), wire=WIRE, trajectory=run)
        elif host == "left" and looker.opened:
            client.gone.set()
            await anyio.sleep_forever()
        else:
            await looker.gate()

    sources = [answer(gate), stream(framed(WIRE, said(WIRE, text=["Done."])))]
    if host == "loop":
        shown: Any = agent_loop(lambda _, __: sources.pop(0), [], tools=[looker.tool()], wire=WIRE, trajectory=run)
    else:
        tools = [looker.tool()] if is_alone else []
        shown = pipeline(answer(gate), tools=tools, wire=WIRE, trajectory=run)
    client = Client()
    await client.request(EventStreamResponse(shown, encode=OwnEvents()))

    recorded = Recording.read(path).events if is_alone else []
    for events in (seeing.events, *([recorded] if is_alone else [])):
        assert in_order([event.seq for event in events])
        assert len({event.seq for event in events}) == events[-1].seq + 1  # none is missing
        for step in {event.step for event in events if isinstance(event, ToolCallEnd)}:
            said_so = "".join(one.text for one in events if isinstance(one, TextDelta) and one.step == step)
            assert said_so == MASKED if named == "shapes" else set(said_so) == {"·"}
    assert in_order([data["seq"] for _, data in client.told if "seq" in data])
    page = "".join(data["text"] for name, data in client.told if name == "text_delta" and data["step"] == 0)
    assert page == MASKED or (host == "left" and MASKED.startswith(page))
    grown = [data for name, data in client.told if name == "tool_call_delta"]
    given = "".join(data["delta"] for data in grown if data["call_id"] == "c3")
    assert "bob@" not in given
    if host != "left":
        assert given == ARGUMENTS.replace("bob@example.org", "[mail address]")
    if host == "calls":
        again = replay(path)
        assert (await again).text == MASKED
        assert again.differences == ()


class Watched(SqliteStore):
    """A file that says when it has the end of a call."""

    class _records(SqliteRecords):
        store: Watched

        def hand_over(self, *ops: Op) -> Any:
            for one in ops:
                if isinstance(one, Put) and one.key[0] == "log":
                    self.store.note(list(read_entries(one.value)))
            return super().hand_over(*ops)

    def __init__(self, path: Path) -> None:
        self.entries: list[Entry] = []
        self.awaited: dict[str, anyio.Event] = {}
        super().__init__(path)
        self.records.store = self  # type: ignore[attr-defined]

    def note(self, entries: Sequence[Entry]) -> None:
        self.entries += entries
        for entry in entries:
            if isinstance(entry, Observation):
                self.awaited.setdefault(entry.call_id, anyio.Event()).set()


@every("named", POLICIES)
async def test_a_page_and_the_log_of_a_conversation_have_each_word_once_and_in_order(
    named: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, looker, shown = Watched(tmp_path / f"{named}.db"), Looker(), anyio.Event()

    async def gate() -> None:
        call_id = f"c{looker.opened}"
        await looker.gate()
        await log.awaited.setdefault(call_id, anyio.Event()).wait()  # what came so far is written
        await shown.wait()  # and read

    def ask(messages: Any, tools: Any) -> Any:
        return answer(gate) if len(messages) == 1 else stream(framed(WIRE, said(WIRE, text=["Done."])))

    def begin(chat: Any) -> Any:
        loop = agent_loop(ask, chat.messages(WIRE), tools=[looker.tool()], wire=WIRE, **chat.options)
        loop.trajectory.observers = (looker, *loop.trajectory.observers)
        return loop

    def look(answer: Answer) -> bool:
        if b"c0" in answer.body and (named == "function" or b"Write" in answer.body):
            shown.set()
        return False

    async with Chats(records=log, run=begin, privacy=POLICIES[named]) as chats:
        page = Page(chats.app(may=lambda request: "ann"))
        message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
        asked = {"id": "k", "trigger": "submit-message", "messages": [message]}
        live = numbered(await page.ask("POST", "/k/events", asked, leave=look))
        assert "".join(word for _, word in live) == f"{MASKED}Done."
        taken = ""
        for id_, word in [("1.0", ""), *live[:-1]]:  # wherever it breaks, the rest follows
            taken += word
            if id_ is not None:
                rest = await page.ask("GET", "/k/events", last_event_id=id_)
                assert taken + "".join(word for _, word in numbered(rest)) == f"{MASKED}Done."
    assert in_order([entry.seq for entry in log.entries])
    assert not [one for one in caplog.records if "miss some events" in one.getMessage()]


def numbered(answer: Answer) -> list[tuple[str | None, str]]:
    """The id of each frame, if it has one, and its text, if it is one."""
    found = []
    for one in answer.body.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in one.split("\n") if ": " in line)
        is_text = lines.get("event") == "text_delta"
        found.append((lines.get("id"), json.loads(lines["data"])["text"] if is_text else ""))
    return found
