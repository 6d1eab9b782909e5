"""Conversations over HTTP: pages that start a run, join it, leave it, come back, decide, and stop it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from chat_client import Answer, Page
from profiles import every
from streams import chat, stream

from streamtools import ToolContext, agent_loop, tool
from streamtools.durable.records import DeletePrefix
from streamtools.privacy import Privacy
from streamtools.web import Chats, PageRequest
from streamtools.web.log import log_key

pytestmark = pytest.mark.anyio
WIRE = "openai.chat_completions"
DATA = Path(__file__).parents[1] / "data"


class Program:
    """A program with tools that count, and a model that does as the user says.

    Args:
        path: the journal's file.
        options: for `Chats`.
    """

    def __init__(self, path: Path, **options: Any) -> None:
        self.asked: list[list[Any]] = []
        self.paid: list[int] = []
        self.held = anyio.Event()
        """While it is not set, a slow answer does not go on."""
        self.chats = Chats(journal=path, run=self.run, **options)

    def run(self, given: Any) -> Any:
        @tool(needs_approval=True)
        def pay(amount: int) -> str:
            """Pays."""
            self.paid.append(amount)
            return f"paid {amount}"

        @tool(effect="pure")
        async def look(at: str, ctx: ToolContext) -> str:
            """Looks."""
            ctx.progress("half")
            return f"seen {at}"

        @tool(deferred=True)
        def locate() -> str:
            """Says where the user is."""
            raise AssertionError("the page does that")

        return agent_loop(self.ask, given.messages(WIRE), tools=[pay, look, locate], wire=WIRE, **given.options)

    def ask(self, messages: list[Any], tools: Any) -> Any:
        self.asked.append(messages)
        said = messages[-1]
        if said["role"] != "user":
            return stream(chat(["Done: ", str(len(self.asked))], finish="stop"))
        if said["content"] == "slow":
            return self.slow()
        if said["content"] == "pay":
            return stream(chat(["I pay."], [("c1", "pay", '{"amount": 5}'), ("c2", "look", '{"at": "x"}')]))
        if said["content"] == "where":
            return stream(chat([], [("c1", "locate", "{}")]))
        if said["content"] == "twice":
            return stream(chat(["One."], [("c1", "look", '{"at": "x"}')]))
        return stream(chat(["Hello, ", said["content"]], finish="stop"))

    async def slow(self) -> AsyncIterator[bytes]:
        items = chat(["a", "b", "c", "d"], finish="stop")
        for item in items[:3]:
            yield item
        await self.held.wait()
        for item in items[3:]:
            yield item

    def page(self, **headers: str) -> Page:
        return Page(self.chats.app(may=lambda request: "ann"), **headers)

    async def drop_log(self, run_id: str) -> None:
        """Does as the time."""
        await self.chats.journal.store.records.commit(DeletePrefix(log_key(run_id)))


def said(text: str, *, id: str = "m1", chat: str = "k", **more: Any) -> dict[str, Any]:
    """What `useChat` posts for a message of the user's."""
    message = {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}
    return {"id": chat, "messages": [message], "trigger": "submit-message", **more}


def decided(chunks: list[Any], message_id: str, *, approved: bool = True) -> dict[str, Any]:
    """What it posts when the person has decided about all calls that the chunks ask about."""
    asked = [one for one in chunks if one != "[DONE]" and one["type"] == "tool-approval-request"]
    parts = [
        {"type": "tool-pay", "toolCallId": one["toolCallId"], "state": "approval-responded", "input": {"amount": 5},
         "approval": {"id": one["approvalId"], "approved": approved}}
        for one in asked
    ]  # fmt: skip
    message = {"id": message_id, "role": "assistant", "parts": [{"type": "step-start"}, *parts]}
    return {"id": "k", "messages": [message], "trigger": "submit-message", "messageId": message_id}


def texts(chunks: list[Any]) -> str:
    return "".join(one.get("delta", "") for one in chunks if one != "[DONE]")


def kinds(answer: Answer) -> list[str]:
    return [one if one == "[DONE]" else one["type"] for one in answer.chunks]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path / "chats.db")


async def test_a_page_has_an_answer_and_the_next_one_knows_the_first(program: Program) -> None:
    page = program.page()
    first = await page.ask("POST", "/", said("you"))
    assert (first.status, first.headers["x-vercel-ai-ui-message-stream"]) == (200, "v1")
    assert texts(first.chunks) == "Hello, you"
    assert first.chunks[0] == {"type": "start", "messageId": "k/1"}
    assert kinds(first)[-2:] == ["finish", "[DONE]"]
    await page.ask("POST", "/", said("again", id="m2"))
    assert [one["content"] for one in program.asked[-1]] == ["you", "Hello, you", "again"]
    assert (await page.ask("GET", "/k/stream")).status == 204, "nothing runs"


async def test_a_run_outlives_its_page_and_others_join_it_from_its_beginning(program: Program) -> None:
    page = program.page()
    left = await page.ask("POST", "/", said("slow"), leave=lambda answer: b'b"}' in answer.body)
    assert not left.ended
    refused = await page.ask("POST", "/", said("more", id="m2"))
    assert (refused.status, refused.json["error"]["code"]) == (409, "running")
    async with anyio.create_task_group() as tasks:
        joined = [page.begin(tasks, "GET", "/k/stream") for _ in range(3)]
        await anyio.wait_all_tasks_blocked()
        program.held.set()
    assert [texts(one.chunks) for answers in joined for one in answers] == ["abcd"] * 3
    assert len(program.asked) == 1


async def test_an_event_source_that_comes_back_gets_each_event_once_and_stops_at_the_end(program: Program) -> None:
    page = program.page()
    program.held.set()
    await page.ask("POST", "/k/events", said("slow"))
    whole = await page.ask("GET", "/k/events", last_event_id="1.0")
    frames = whole.frames
    assert all(id is not None for _, id, _ in frames)
    assert frames[-1][0] == "run_end"
    for at, (_, id, _) in enumerate(frames[:-1]):
        rest = await page.ask("GET", "/k/events", last_event_id=str(id))
        assert [one[2] for one in rest.frames if one[0] != "text_delta"] == [
            one[2] for one in frames[at + 1 :] if one[0] != "text_delta"
        ]
    assert (await page.ask("GET", "/k/events", last_event_id=str(frames[-1][1]))).status == 204
    assert (await page.ask("GET", "/k/events")).status == 204
    assert len(program.asked) == 1


async def test_a_person_decides_in_a_request_of_its_own_and_no_part_comes_twice(program: Program) -> None:
    page = program.page()
    first = await page.ask("POST", "/", said("pay"))
    assert kinds(first).count("tool-approval-request") == 1
    assert first.chunks[-2] == {"type": "finish", "finishReason": "tool-calls"}
    refused = await page.ask("POST", "/", said("more", id="m2"))
    assert (refused.status, refused.json["error"]["code"]) == (409, "waiting")
    second = await page.ask("POST", "/", decided(first.chunks, "k/1"))
    assert program.paid == [5]
    assert texts(second.chunks).startswith("Done")
    assert "tool-input-available" not in kinds(second)
    assert kinds(second)[:3] == ["start", "tool-approval-response", "tool-output-available"]
    again = await page.ask("POST", "/", decided(first.chunks, "k/1"))
    assert (again.status, program.paid) == (409, [5])


async def test_an_answer_that_was_made_up_runs_nothing(program: Program) -> None:
    page = program.page()
    first = await page.ask("POST", "/", said("pay"))
    made_up = decided(first.chunks, "k/1")
    for part in made_up["messages"][0]["parts"][1:]:
        part["approval"]["id"] = part["approval"]["id"][:-3] + "abc"
    assert (await page.ask("POST", "/", made_up)).status == 409
    assert program.paid == []


async def test_a_call_that_the_page_does_has_its_result_from_there(program: Program) -> None:
    page = program.page()
    first = await page.ask("POST", "/", said("where"))
    assert kinds(first)[-2:] == ["finish", "[DONE]"]
    part = {"type": "tool-locate", "toolCallId": "c1", "state": "output-available", "input": {}, "output": "here"}
    message = {"id": "k/1", "role": "assistant", "parts": [{"type": "step-start"}, part]}
    body = {"id": "k", "messages": [message], "trigger": "submit-message", "messageId": "k/1"}
    second = await page.ask("POST", "/", body)
    assert texts(second.chunks).startswith("Done")
    assert program.asked[-1][-1]["content"] == "here"


async def test_another_answer_and_another_message_are_branches(program: Program) -> None:
    page = program.page()
    await page.ask("POST", "/", said("you"))
    await page.ask("POST", "/", said("two", id="m2"))
    again = {"id": "k", "messages": [], "trigger": "regenerate-message", "messageId": "k/2"}
    await page.ask("POST", "/", again | {"messages": said("two", id="m2")["messages"]})
    assert [one["content"] for one in program.asked[-1]] == ["you", "Hello, you", "two"]
    await page.ask("POST", "/", said("other", messageId="m1"))
    assert [one["content"] for one in program.asked[-1]] == ["other"]
    turns = await program.chats.history("k")
    assert turns is not None
    assert [turn.run_id for turn in turns] == ["k/4"]


@every("route", ["/", "/ag-ui"])
async def test_a_page_with_a_history_that_the_server_does_not_know_is_told_so(route: str, tmp_path: Path) -> None:
    program = Program(tmp_path / f"{len(route)}.db")
    page = program.page()

    async def ask(chat: str, *ids: str) -> Any:
        messages = [
            {
                "id": one,
                "role": "user" if one[0] == "m" else "assistant",
                "content": "you",
                "parts": [{"type": "text", "text": "you"}],
            }
            for one in ids
        ]
        answer = await page.ask("POST", route, {"id": chat, "threadId": chat, "runId": "r", "messages": messages})
        return answer.status if answer.status == 200 else (answer.status, answer.json["error"]["code"])

    unknown = (409, "unknown_history")
    assert await ask("lost", "m1", "a1", "m2") == unknown
    assert await ask("k", "a0", "m0", "m1") == 200, "the page greets its user, and m0 was refused"
    assert await ask("k", "a0", "m1", "a1", "m2") == 200
    assert await ask("k", "a0", "m1", "a1", "m2") == 200, "the same again"
    assert await ask("k", "a0", "m1", "a1", "m3") == unknown, "another tab has said more"
    assert await ask("k", "m9", "a9", "m3") == unknown
    assert await ask("k", "m2", "a2", "m8", "a8", "m3") == unknown, "its records are older than the page"
    assert await ask("k", "m1", "a1", "m2", "m3") == 200, "the answer has broken off"
    assert await ask("k", "m4") == 200, "the new message alone"
    assert len(program.asked) == 4


async def test_stopping_is_a_request_and_may_be_repeated(program: Program) -> None:
    page = program.page()
    left = await page.ask("POST", "/", said("slow"), leave=lambda answer: b'b"}' in answer.body)
    assert not left.ended
    assert (await page.ask("POST", "/k/stop", {"run": "k/7"})).status == 204
    async with anyio.create_task_group() as tasks:
        answers = page.begin(tasks, "GET", "/k/stream")
        await anyio.wait_all_tasks_blocked()
        for _ in range(2):
            assert (await page.ask("POST", "/k/stop", {"run": "k/1"})).status == 204
    assert kinds(answers[0])[-2:] == ["abort", "[DONE]"]
    turns = await program.chats.history("k")
    assert turns[-1].outcome == "cancelled"
    shown = texts(answers[0].chunks)
    assert shown.startswith("ab")
    for _ in range(2):  # from the log, and from what was kept of it
        (_, answer) = (await page.ask("GET", "/k")).json["messages"]
        assert [part["text"] for part in answer["parts"] if part["type"] == "text"] == [shown]
    await page.ask("POST", "/", said("you", id="m2"))
    assert [one["content"] for one in program.asked[-1] if one["role"] == "user"] == ["slow", "you"]
    assert len((await page.ask("GET", "/k")).json["messages"]) == 4


async def test_a_decision_may_meet_a_run_that_is_being_left(tmp_path: Path) -> None:
    for number in range(8):
        program, boxed, asked = Program(tmp_path / f"{number}.db"), list[Answer](), anyio.Event()
        page = program.page()

        def watch(answer: Answer, asked: anyio.Event = asked, boxed: list[Answer] = boxed) -> bool:
            if b"tool-approval-request" in answer.body and not asked.is_set():
                boxed.append(answer)
                asked.set()
            return False

        async def first(page: Page = page, watch: Callable[[Answer], bool] = watch) -> None:
            await page.ask("POST", "/", said("pay"), leave=watch)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            await asked.wait()
            for _ in range(4 * number):
                await anyio.lowlevel.checkpoint()
            second = await page.ask("POST", "/", decided(boxed[0].chunks, "k/1"))
        assert texts(second.chunks).startswith("Done"), number
        assert program.paid == [5]


async def test_a_deleted_conversation(program: Program) -> None:
    page = program.page()
    await page.ask("POST", "/", said("you"))
    assert (await page.ask("GET", "/k/events", last_event_id="1.3")).status == 200
    assert (await page.ask("DELETE", "/k")).status == 204
    assert (await page.ask("DELETE", "/k")).status == 404
    assert (await page.ask("GET", "/k/events", last_event_id="1.3")).status == 410
    assert await program.chats.journal.runs() == []
    for _ in range(2):  # what a deleted conversation has paid is not the payment of another one
        asked = await page.ask("POST", "/", said("pay"))
        await page.ask("POST", "/", decided(asked.chunks, asked.chunks[0]["messageId"]))
        assert (await page.ask("DELETE", "/k")).status == 204
    assert program.paid == [5, 5]


async def test_logs_of_old_runs_expire_and_say_so(program: Program) -> None:
    page = program.page()
    for number in range(1, 5):
        await page.ask("POST", "/", said("you", id=f"m{number}"))
    for number in (1, 2):
        await program.drop_log(f"k/{number}")
    statuses = [(await page.ask("GET", "/k/events", last_event_id=f"{number}.3")).status for number in range(1, 5)]
    assert statuses == [410, 410, 200, 200]


@every("begun", ["twice", "pay"])
async def test_the_same_request_again_is_answered_alike_when_the_log_is_gone(begun: str, tmp_path: Path) -> None:
    def program() -> Program:
        return Program(tmp_path / f"{begun}.db")

    def shown(answer: Answer) -> list[str]:
        told = [one for one in answer.chunks if one != "[DONE]" and one.get("event") != "tool_call_delta"]
        return ["".join(one.get("delta") or one.get("text") or "" for one in told), *map(str, answer.chunks[-2:])]

    for name, route in (("a", "/"), ("b", "/b/events")):
        here, there = program(), program()
        first = await here.page().ask("POST", route, said(begun, chat=name))
        await here.drop_log(f"{name}/1")
        again = await there.page().ask("POST", route, said(begun, chat=name))
        assert (shown(again), there.asked) == (shown(first), [])


async def test_a_client_of_ag_ui_asks_decides_and_answers(program: Program) -> None:
    page = program.page()

    async def ask(run_id: str, messages: list[Any], **more: Any) -> list[Any]:
        body = {"threadId": "k", "runId": run_id, "messages": messages, "tools": [], "context": [], "state": {},
                "forwardedProps": {}, **more}  # fmt: skip
        answer = await page.ask("POST", "/ag-ui", body)
        assert answer.status == 200, answer.body
        return answer.chunks

    async def loaded(query: str = "") -> Any:
        return (await page.ask("GET", f"/k/ag-ui{query}")).json

    assert (await page.ask("GET", "/k/ag-ui")).status == 404, "nobody has said anything"
    messages: list[Any] = [{"id": "m1", "role": "user", "content": "pay"}]
    first = await ask("r1", messages)
    assert await loaded() == {"id": "k", "messages": messages, "unfinished": "k/1"}, "an interrupt is no message"
    again = await ask("r1", messages)
    assert again[-1]["outcome"] == first[-1]["outcome"]
    assert (first[0]["type"], first[-1]["type"], first[-1]["outcome"]["type"]) == (
        "RUN_STARTED", "RUN_FINISHED", "interrupt"
    )  # fmt: skip
    (asked,) = first[-1]["outcome"]["interrupts"]
    resume = [{"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}]
    second = await ask("r2", messages, resume=resume)
    assert program.paid == [5]
    assert "".join(one["delta"] for one in second if one["type"] == "TEXT_MESSAGE_CONTENT").startswith("Done")
    assert [one["toolCallId"] for one in second if one["type"] == "TOOL_CALL_RESULT"] == ["c1"]
    found = await loaded()
    assert found.keys() == {"id", "messages"}
    assert [one["role"] for one in found["messages"]] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [one.get("content") for one in found["messages"][2:4]] == ["paid 5", "seen x"]
    messages = [*found["messages"], {"id": "m2", "role": "user", "content": "where"}]
    third = await ask("r3", messages)
    assert await loaded() == {"id": "k", "messages": messages, "unfinished": "k/2"}, "a call that the client runs"
    assert await loaded("?before=k/2") == {"id": "k", "messages": messages[:-1]}
    (start,) = (one for one in third if one["type"] == "TOOL_CALL_START")
    messages += [
        {"id": "a1", "role": "assistant", "toolCalls": [
            {"id": start["toolCallId"], "type": "function", "function": {"name": "locate", "arguments": "{}"}}]},
        {"id": "t1", "role": "tool", "toolCallId": start["toolCallId"], "content": "here"},
    ]  # fmt: skip
    await ask("r4", messages)
    assert program.asked[-1][-1]["content"] == "here"
    found = (await loaded())["messages"]
    assert [one.get("content") for one in found if one["role"] == "tool"] == ["paid 5", "seen x", "here"]
    await ask("r5", [*found, {"id": "m3", "role": "user", "content": "you"}])
    assert program.asked[-1][-1]["content"] == "you"
    assert (await loaded())["messages"][:-2] == found
    slow = {"threadId": "k", "runId": "r6", "messages": [{"id": "m4", "role": "user", "content": "slow"}]}
    await page.ask("POST", "/ag-ui", slow, leave=lambda answer: b'b"}' in answer.body)
    found = await loaded()
    assert (found["messages"][-1]["id"], found["unfinished"]) == ("m4", "k/4")
    program.held.set()


async def test_finished_messages_come_in_pages_and_outlive_the_log(program: Program) -> None:
    page = Page(program.chats.app(may=lambda request: True, max_turns=2))
    asked = await page.ask("POST", "/", said("pay", id="m0"))
    await page.ask("POST", "/", decided(asked.chunks, "k/1", approved=False))
    first = (await page.ask("GET", "/k")).json["messages"]
    assert "output-denied" in [part.get("state") for part in first[1]["parts"]], "no history says that"
    await program.drop_log("k/1")
    assert (await page.ask("GET", "/k")).json["messages"] == first
    for number in range(1, 5):
        await page.ask("POST", "/", said("you", id=f"m{number}"))
    assert (await page.ask("GET", "/k/events", last_event_id="1.3")).status == 410, "its log has expired"
    seen, before = list[Any](), ""
    for size in (4, 4, 2):
        found = (await page.ask("GET", f"/k{before}")).json
        assert len(found["messages"]) == size
        seen[:0] = found["messages"]
        before = f"?before={found.get('before')}"
    assert "before" not in found
    assert seen[:2] == first
    assert [one["id"] for one in seen if one["role"] == "user"] == [f"m{number}" for number in range(5)]
    await page.ask("POST", "/", said("you", chat="other"))
    for wrong in ("other/1", "k/99", "k/-1", "k/٣", "..."):
        assert (await page.ask("GET", f"/k?before={wrong}")).status == 404, "no run of this conversation"
    assert (await page.ask("GET", "/k?before=k/1")).json["messages"] == []


async def test_an_answer_whose_log_has_dropped_while_a_call_waited_is_whole_in_the_end(tmp_path: Path) -> None:
    asked = await Program(tmp_path / "chats.db").page().ask("POST", "/", said("pay"))
    program = Program(tmp_path / "chats.db")  # of a process of its own
    await program.drop_log("k/1")
    waiting = (await program.page().ask("GET", "/k")).json["messages"][1]
    assert [part.get("state") for part in waiting["parts"][2:]] == ["approval-requested", "output-available"]
    await program.page().ask("POST", "/", decided(asked.chunks, "k/1"))
    loaded = (await Program(tmp_path / "chats.db").page().ask("GET", "/k")).json["messages"][1]
    kinds = [part["type"] for part in loaded["parts"]]
    assert kinds == ["step-start", "text", "tool-pay", "tool-look", "step-start", "text"]
    assert [part.get("output") for part in loaded["parts"]][2:4] == ["paid 5", "seen x"]
    again = await program.page().ask("POST", "/", said("pay"))
    assert texts(again.chunks).startswith("I pay.Done"), "all of it is streamed to who comes late"


async def test_a_file_from_before_conversations_were_records_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((DATA / "chats-4.sql").read_text())
    program = Program(path)
    page = program.page()
    shown = [one.get("text") or one.get("output") for message in (await page.ask("GET", "/a")).json["messages"]
             for one in message["parts"] if one["type"] != "step-start"]  # fmt: skip
    assert shown == ["twice", "One.", "seen x", "Done: 3", "again", "Hello, again"]
    assert (await page.ask("GET", "/a/events", last_event_id="4.2")).frames[-1][2]["outcome"] == "answered"
    assert texts((await page.ask("POST", "/", said("more", chat="a", id="m3"))).chunks) == "Hello, more"
    told = [one["content"] for one in program.asked[-1]]
    assert told == ["twice", "One.", "seen x", "Done: 3", "again", "Hello, again", "more"]
    waiting = (await page.ask("GET", "/k")).json["messages"][1]
    (call,) = [one for one in waiting["parts"] if one.get("state") == "approval-requested"]
    asked = [{"type": "tool-approval-request", "toolCallId": "c1", "approvalId": call["approval"]["id"]}]
    assert texts((await page.ask("POST", "/", decided(asked, "k/5"))).chunks).startswith("Done")
    assert program.paid == [5]
    listed = {one["id"]: (one["owner"], one["is_open"]) for one in (await page.ask("GET", "/")).json["chats"]}
    assert listed == {"a": ("ann", False), "g": ("ann", True), "k": ("ann", False)}
    assert (await page.ask("DELETE", "/g")).status == 204


async def test_what_leaves_obeys_one_policy_in_the_stream_and_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hidden = Privacy(redact=lambda text: text.replace("you", "***"))
    page = Program(tmp_path / "chats.db", privacy=hidden).page()
    answer = await page.ask("POST", "/", said("you"))
    assert (await page.ask("GET", "/k")).json["messages"][1]["parts"][1]["text"] == texts(answer.chunks) == "Hello, ***"
    body = said("", id="m2")
    files = [("a.txt", "data:text/plain;base64,aGkgeW91"), ("you.txt", "data:text/plain;base64,aGk="),
             ("b.txt", "data:text/plain;base64,aGk="), ("c.png", "https://example.com/you.png")]  # fmt: skip
    body["messages"][0]["parts"] = [{"type": "text", "text": "Are you there?"}] + [
        {"type": "file", "mediaType": "text/plain" if name.endswith("t") else "image/png", "filename": name, "url": url}
        for name, url in files
    ]
    assert (await page.ask("POST", "/", body)).status == 200
    for route in ("/k", "/k/ag-ui"):
        loaded = await page.ask("GET", route)
        assert b"you" not in loaded.body, "the user's own words"
        assert b"aGkgeW91" not in loaded.body
        assert b"Are *** there?" in loaded.body
        assert loaded.body.count(b"aGk=") == 1, "a file that the policy leaves as it is"
    events = await page.ask("GET", "/k/events", last_event_id="1.0")
    assert b"you" not in events.body

    def fails(text: str) -> str:
        if "you" in text:
            raise KeyError("you")
        return text

    page = Program(tmp_path / "failing.db", privacy=Privacy(redact=fails)).page()
    for answer in (await page.ask("POST", "/", said("you")), await page.ask("GET", "/k/events", last_event_id="1.0")):
        assert b"you" not in answer.body
        assert any(word in answer.body for word in (b'"type":"error"', b'"outcome":"error"')), (
            "it is not shown as whole"
        )
    loaded = await page.ask("GET", "/k")
    assert (loaded.status, loaded.json["error"]["code"]) == (500, "internal_error")
    assert b"you" not in loaded.body
    assert "policy failed (KeyError)" in caplog.text
    assert "you" not in caplog.text


async def test_only_those_who_may_are_answered(program: Program) -> None:
    seen: list[tuple[str, str]] = []

    async def may(request: PageRequest) -> bool:
        seen.append((request.chat_id, request.act))
        return request.headers.get("x-user") == "ann"

    app = program.chats.app(may=may)
    requests = [("POST", "/", said("you")), ("GET", "/k", None), ("GET", "/k/stream", None), ("GET", "/k/events", None),
                ("POST", "/k/stop", {}), ("DELETE", "/k", None)]  # fmt: skip
    for method, path, body in requests:
        assert (await Page(app).ask(method, path, body)).status == 403, path
    assert program.asked == []
    assert seen == [("k", "run"), ("k", "read"), ("k", "read"), ("k", "read"), ("k", "stop"), ("k", "delete")]
    assert (await Page(app, **{"x-user": "ann"}).ask("POST", "/", said("you"))).status == 200


async def test_what_is_no_request_is_refused_in_words(program: Program) -> None:
    page = program.page()
    for method, path, body, status in (
        ("POST", "/", b"{", 400),
        ("POST", "/", {"id": "k"}, 400),
        ("POST", "/", b" " * (9 << 20), 413),
        ("POST", "/other/events", said("you"), 400),
        ("PUT", "/", None, 404),
        ("POST", "/k/stop", b"[]", 400),
        ("POST", "/", said("you", chat="x" * 300), 400),
    ):
        answer = await page.ask(method, path, body)
        assert (answer.status, answer.headers["content-type"]) == (status, "application/json"), path
        assert answer.json["error"]["message"]
    assert program.asked == []
