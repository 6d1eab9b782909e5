"""A program changes under its conversations, from one deploy to the next: its provider, its wire, its messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import anyio
import pytest
from chat_client import Page
from every_wire import framed
from interleaved_answers import Part, arranged
from profiles import FULL, every
from streams import stream
from test_chat_app import decided, said, texts
from wire_cases.names import ANTHROPIC, CHAT, GEMINI

from streamtools import agent_loop, tool
from streamtools.content import Media, ToolResult
from streamtools.history import lint
from streamtools.web import Chats
from streamtools.web.client_input import texts_in
from streamtools.wires import WIRES

pytestmark = pytest.mark.anyio
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Deploys:
    """One file, and programs over it, each of them a deploy of its own.

    Args:
        path: the file.
        steps: what the model says, answer by answer.
    """

    def __init__(self, path: Path, steps: Sequence[Sequence[Part]] = ()) -> None:
        self._path = path
        self._steps = iter(enumerate(steps))
        self.asked: list[list[Any]] = []
        self.ran: list[str] = []
        self.began: anyio.Event | None = None
        """Set once a slow call has begun, which then never ends."""

    def chats(self, wire: str, *before: Any) -> Chats:
        """A program with that wire, and with these messages before all others."""

        @tool(needs_approval=True)
        async def pay(to: str) -> str:
            """Pay."""
            self.ran.append(to)
            return "paid"

        @tool(deferred=True)
        async def locate() -> str:
            """Say where the user is."""
            raise AssertionError("the page does that")

        @tool(effect="idempotent")
        async def look(at: str) -> Any:
            """Look."""
            if at == "picture":
                return ToolResult(blocks=["seen", Media(kind="image", mime_type="image/png", data=PNG)])
            if self.began is not None:
                self.began.set()
                await anyio.sleep_forever()
            return f"seen {at}"

        def run(chat: Any) -> Any:
            def ask(messages: list[Any], tools: Any) -> Any:
                self.asked.append(messages)
                number, parts = next(self._steps)
                return stream(framed(wire, arranged(wire, parts, response=str(number))))

            messages = [*before, *chat.messages(wire)]
            return agent_loop(ask, messages, tools=[pay, locate, look], wire=wire, **chat.options)

        return Chats(journal=self._path, run=run)

    def page(self, wire: str, *before: Any) -> Page:
        return Page(self.chats(wire, *before).app(may=lambda request: "ann"))


def call(id: str, name: str, **arguments: Any) -> Part:
    return "calls", [(id, name, json.dumps(arguments))]


PAIRS = [*permutations(WIRES, 2)]


@every("first, second", PAIRS[:: 5 if FULL else 17])
async def test_a_conversation_goes_on_over_another_wire_with_all_that_was_said_and_nothing_else(
    first: str, second: str, tmp_path: Path
) -> None:
    third = WIRES[(WIRES.index(second) + 1) % len(WIRES)]
    seen: list[Part] = [("text", ["Let me see."]), call("call00001", "look", at="trams")]
    again: list[Part] = [call("call00002", "look", at="boats")]
    said_last = [("text", [f"Answer {number}."]) for number in range(4)]
    steps: list[list[Part]] = [seen, [said_last[0]], again, [said_last[1]], [said_last[2]], [said_last[3]]]
    deploys = Deploys(tmp_path / f"{WIRES.index(first)}-{WIRES.index(second)}.db", steps)
    for number, wire in enumerate((first, first, second, third)):
        body = said(f"Question {number}?", id=f"m{number}")
        if number == 0:
            picture = {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{PNG}"}
            body["messages"][0]["parts"].append(picture)
        answer = await deploys.page(wire).ask("POST", "/", body)
        assert answer.status in (200, 400), answer.body
        if answer.status == 400:  # the wire takes no pictures
            body["messages"][0]["parts"].pop()
            answer = await deploys.page(wire).ask("POST", "/", body)
        assert texts(answer.chunks).endswith(f"Answer {number}."), (number, answer.body)
        messages = deploys.asked[-1]
        assert [one.code for one in lint(messages, wire)] == [], (wire, messages)
        words = [text.strip() for text in texts_in(messages)]
        assert "." not in words, messages
        for earlier in range(number + 1):
            assert words.count(f"Question {earlier}?") == 1, messages
            assert words.count(f"Answer {earlier}.") == (earlier < number), messages
        whole = str(messages)
        assert [whole.count(f"seen {at}") for at in ("trams", "boats")] == [1, 1][: min(number + 1, 2)] + [0] * (
            number == 0
        ), messages


# -- while a run waits --


def result(chunks: list[Any]) -> dict[str, Any]:
    part = {"type": "tool-locate", "toolCallId": "call00001", "state": "output-available", "input": {}, "output": "x"}
    message = {"id": "k/1", "role": "assistant", "parts": [{"type": "step-start"}, part]}
    return {"id": "k", "messages": [message], "trigger": "submit-message", "messageId": "k/1"}


def resumed(chunks: list[Any]) -> dict[str, Any]:
    (asked,) = {one["approvalId"] for one in chunks if one != "[DONE]" and "approvalId" in one}
    resume = [{"interruptId": asked, "status": "resolved", "payload": {"approved": True}}]
    return {
        "threadId": "k",
        "runId": "r",
        "messages": [{"id": "m1", "role": "user", "content": "go"}],
        "resume": resume,
    }


CHANGES: Mapping[str, tuple[str, list[Any]]] = {
    "another provider": (ANTHROPIC, []),
    "a third one": (GEMINI, []),
    "another system prompt": (CHAT, [{"role": "system", "content": "Be brief."}]),
}


@every("change", CHANGES)
async def test_a_program_that_makes_another_run_refuses_answers_to_the_one_that_waits_in_words(
    change: str, tmp_path: Path
) -> None:
    """Nothing is decided, nothing runs; and it goes on once the program is changed back."""
    wire, before = CHANGES[change]
    for waits in ("pay", "locate"):
        given = {"to": "eve"} if waits == "pay" else {}
        steps: list[list[Part]] = [[call("call00001", waits, **given)], [("text", ["Done."])]]
        deploys = Deploys(tmp_path / f"{wire}{len(before)}{waits}.db", steps)
        first = await deploys.page(CHAT).ask("POST", "/", said("go"))
        answer = (decided if waits == "pay" else lambda chunks, _: result(chunks))(first.chunks, "k/1")
        page = deploys.page(wire, *before)
        requests = [("/", answer), ("/", answer), ("/k/events", answer), ("/", said("else", id="m2")),
                    ("/", said("x", id="m1", messageId="m1"))]  # fmt: skip
        if waits == "pay":
            requests.append(("/ag-ui", resumed(first.chunks)))
        for path, body in requests:
            refused = await page.ask("POST", path, body)
            assert (refused.status, refused.json["error"]["code"]) == (409, "waiting"), (path, refused.body)
            assert "change it back" in refused.json["error"]["message"]
        for route in ("/k", "/k/ag-ui"):
            assert (await page.ask("GET", route)).json["refuses"] == refused.json["error"]["message"]
        assert (await page.ask("GET", "/k/stream")).status == 204
        assert await deploys.chats(wire, *before).recover() == []
        assert (deploys.ran, len(deploys.asked)) == ([], 1)

        back = deploys.page(CHAT)
        assert "refuses" not in (await back.ask("GET", "/k")).json
        assert texts((await back.ask("POST", "/", answer)).chunks) == "Done."
        assert deploys.ran == ["eve"][: waits == "pay"]
        assert "refuses" not in (await page.ask("GET", "/k")).json, "it is over"


async def test_a_run_that_waits_under_a_changed_program_can_be_stopped_and_the_conversation_goes_on(
    tmp_path: Path,
) -> None:
    deploys = Deploys(tmp_path / "chats.db", [[call("call00001", "pay", to="eve")], [("text", ["Hello."])]])
    first = await deploys.page(CHAT).ask("POST", "/", said("go"))
    page = deploys.page(ANTHROPIC)
    for _ in range(2):
        assert (await page.ask("POST", "/k/stop")).status == 204
    loaded = (await page.ask("GET", "/k")).json
    assert "refuses" not in loaded
    (pay,) = [part for part in loaded["messages"][1]["parts"] if part["type"] == "tool-pay"]
    assert (pay["state"], pay["errorText"]) == ("output-error", "Error: the call was not run: the run was stopped")
    again = await page.ask("POST", "/", said("go"))
    assert [one["type"] for one in again.chunks[:-1]][-2:] == ["tool-output-error", "abort"], "nothing is to be decided"
    late = await deploys.page(CHAT).ask("POST", "/", decided(first.chunks, "k/1"))
    assert (late.status, late.json["error"]["code"], deploys.ran) == (409, "nothing_waits", [])
    assert texts((await page.ask("POST", "/", said("hello", id="m2"))).chunks) == "Hello."
