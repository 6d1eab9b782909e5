"""Conversations whose pages repeat themselves, come back at odd places, and ask while their files fail."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio
import pytest
from chat_client import Page
from streams import chat, stream
from test_chat_app import WIRE, Program, decided, kinds, said, texts

from streamtools import agent_loop, tool
from streamtools.dispatch import Decision, Journal, SqliteStore
from streamtools.durable.records import Put
from streamtools.durable.store_sqlite import SqliteRecords
from streamtools.privacy import Privacy
from streamtools.web import Chats, live
from streamtools.web.log import RunLog

pytestmark = pytest.mark.anyio


class Payer:
    """A program whose model wants some payments in each of its first steps, always with the same ids.

    Args:
        path: the journal's file.
        amounts: those of the payments in a step.
        steps: how many steps pay.
        privacy: the policy.
    """

    def __init__(self, path: Path, *amounts: int, steps: int = 1, privacy: Privacy | None = None) -> None:
        self.paid: list[int] = []
        self.chats = Chats(journal=path, run=self.run, privacy=privacy)
        self._amounts, self._steps = amounts, steps

    def run(self, given: Any) -> Any:
        @tool(needs_approval=True, effect="once")
        def pay(amount: int) -> str:
            """Pays."""
            self.paid.append(amount)
            return f"paid {amount}"

        def ask(messages: list[Any], tools: Any) -> Any:
            if sum(one["role"] == "assistant" for one in messages) == self._steps:
                return stream(chat(["Done."], finish="stop"))
            calls = [(f"c{at}", "pay", f'{{"amount": {amount}}}') for at, amount in enumerate(self._amounts)]
            return stream(chat(["I pay."], calls))

        return agent_loop(ask, given.messages(WIRE), tools=[pay], wire=WIRE, **given.options)

    def page(self, by: str = "ann") -> Page:
        return Page(self.chats.app(may=lambda request: by))


async def test_an_approval_that_is_sent_again_pays_for_no_later_call_that_looks_alike(tmp_path: Path) -> None:
    program = Payer(tmp_path / "chats.db", 5, steps=2)
    page = program.page()
    first = await page.ask("POST", "/", said("go"))
    approval = decided(first.chunks, "k/1")
    second = await page.ask("POST", "/", approval)
    assert program.paid == [5]
    again = await page.ask("POST", "/", decided(first.chunks, "k/1"))
    assert (again.status, again.json["error"]["code"], program.paid) == (409, "nothing_waits", [5])
    asked = [one for one in second.chunks if one != "[DONE]" and one.get("approvalId", "").startswith("k/1#1#")]
    await page.ask("POST", "/", decided(asked, "k/1"))
    assert program.paid == [5, 5]


async def test_a_call_that_is_approved_with_edits_runs_with_them_once_and_is_shown_so(tmp_path: Path) -> None:
    program = Payer(tmp_path / "chats.db", 5)
    page = program.page()
    first = await page.ask("POST", "/", said("go"))
    approval = decided(first.chunks, "k/1")
    (id,) = {one["approvalId"] for one in first.chunks if one != "[DONE]" and "approvalId" in one}
    large = await page.ask("POST", "/", approval | {"editedArgs": {id: {"amount": 4, "memo": "x" * 300_000}}})
    assert (large.status, large.json["error"]["code"], program.paid) == (409, "edited", [])
    second = await page.ask("POST", "/", approval | {"editedArgs": {id: {"amount": 4}}})
    assert program.paid == [4]
    given = [one for one in second.chunks if one != "[DONE]" and one["type"] == "tool-input-available"]
    assert [one["input"] for one in given] == [{"amount": 4}]
    for late in (approval, approval | {"editedArgs": {id: {"amount": 3}}}):
        again = await page.ask("POST", "/", late)
        assert (again.status, again.json["error"]["code"], program.paid) == (409, "nothing_waits", [4])
    messages = (await page.ask("GET", "/k")).json["messages"]
    (call,) = [part for one in messages for part in one.get("parts", ()) if part["type"] == "tool-pay"]
    assert (call["input"], call["state"]) == ({"amount": 4}, "output-available")
    for one in (await page.ask("GET", "/k/ag-ui")).json["messages"]:
        for called in one.get("toolCalls", ()):
            assert called["function"] == {"name": "pay", "arguments": '{"amount":4}'}

    program = Payer(tmp_path / "wrong.db", 5)
    page = program.page()
    first = await page.ask("POST", "/", said("go"))
    (id,) = {one["approvalId"] for one in first.chunks if one != "[DONE]" and "approvalId" in one}
    refused = await page.ask("POST", "/", decided(first.chunks, "k/1") | {"editedArgs": {id: {"amount": "all"}}})
    assert program.paid == []
    assert "tool-output-denied" in [one["type"] for one in refused.chunks if one != "[DONE]"]

    program = Payer(tmp_path / "masked.db", 5, privacy=Privacy(redact=lambda text: text.replace("5", "[an amount]")))
    page = program.page()
    first = await page.ask("POST", "/", said("go"))
    (call,) = [one for one in first.chunks if one != "[DONE]" and one["type"] == "tool-input-available"]
    assert call["input"] == {"amount": "[an amount]"}
    (id,) = {one["approvalId"] for one in first.chunks if one != "[DONE]" and "approvalId" in one}
    approval = decided(first.chunks, "k/1")
    refused = await page.ask("POST", "/", approval | {"editedArgs": {id: call["input"] | {"memo": "for Ada"}}})
    assert (refused.status, refused.json["error"]["code"]) == (409, "edited")
    assert "masked" in refused.json["error"]["message"]
    whole = await page.ask("POST", "/", approval | {"editedArgs": {id: {"amount": 15}}})
    assert (whole.status, program.paid) == (200, [15])
    assert b'"amount":15' not in whole.body

    program = Payer(tmp_path / "other.db", 5)
    page = program.page()
    first = await page.ask("POST", "/", said("go"))
    waiting = await program.chats.journal.suspended("k/1")
    await program.chats.journal.decide(waiting, Decision.on(waiting.calls[0], True, by="bob", arguments={"amount": 2}))
    late = await page.ask("POST", "/", decided(first.chunks, "k/1"))  # approves 5, and 2 were approved
    assert (late.status, late.json["error"]["code"]) == (409, "decided")
    await page.ask("GET", "/k/stream")
    assert program.paid == [2]


async def test_a_decision_about_a_stopped_run_begins_nothing(tmp_path: Path) -> None:
    program = Program(tmp_path / "chats.db")
    page = program.page()
    asked = await page.ask("POST", "/", said("pay"))
    await page.ask("POST", "/k/stop", {})
    await page.ask("GET", "/k/stream")
    late = await page.ask("POST", "/", decided(asked.chunks, "k/1"))
    assert (late.status, late.json["error"]["code"], program.paid) == (409, "nothing_waits", [])
    turns = await program.chats.history("k")
    assert turns[-1].outcome == "cancelled"
    assert texts((await page.ask("POST", "/", said("you", id="m2"))).chunks) == "Hello, you"


async def test_an_approval_counts_also_if_somebody_else_has_approved_the_call_beside_it(tmp_path: Path) -> None:
    for verdict, status, paid in ((True, 200, [5, 6]), (False, 409, [])):
        program = Payer(tmp_path / f"{verdict}.db", 5, 6)
        asked = await program.page().ask("POST", "/", said("go"))
        waiting = await program.chats.journal.suspended("k/1")
        await program.chats.journal.decide(waiting, Decision.on(waiting.calls[0], verdict, by="bob"))
        answer = await program.page().ask("POST", "/", decided(asked.chunks, "k/1"))
        assert (answer.status, sorted(program.paid)) == (status, paid)


async def test_a_page_that_comes_back_behind_the_end_is_answered_and_let_go(tmp_path: Path) -> None:
    program = Program(tmp_path / "chats.db")
    page = program.page()
    await page.ask("POST", "/", said("slow"), leave=lambda answer: b'b"}' in answer.body)
    async with anyio.create_task_group() as tasks:
        answers = page.begin(tasks, "GET", "/k/events", last_event_id="1.99999999", begun=program.held.set)
    assert [kind for kind, _, _ in answers[0].frames] == ["run_end"]
    for last in ("1.99999999", "1.9999999999999999999", "1.9223372036854775808", "1.٣"):
        assert (await page.ask("GET", "/k/events", last_event_id=last)).status == 204, last


async def test_a_page_that_joins_late_sees_all_of_a_run_whose_log_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_MOST_KEPT", 10)
    words, failed, held = [f"{number} " for number in range(100)], anyio.Event(), anyio.Event()

    class FullStore(SqliteStore):
        class _records(SqliteRecords):
            def hand_over(self, *ops: Any) -> Any:
                async def fail() -> None:
                    failed.set()
                    raise sqlite3.OperationalError("database or disk is full")

                is_of_log = any(isinstance(one, Put) and one.key[0] == "log" for one in ops)
                return fail if is_of_log else super().hand_over(*ops)

    async def slow() -> AsyncIterator[bytes]:
        items = chat(words, finish="stop")
        for item in items[:90]:
            yield item
        await held.wait()
        for item in items[90:]:
            yield item

    def run(given: Any) -> Any:
        return agent_loop(lambda messages, tools: slow(), given.messages(WIRE), wire=WIRE, **given.options)

    page = Page(Chats(records=FullStore(tmp_path / "chats.db"), run=run).app(may=lambda request: True))
    async with anyio.create_task_group() as tasks:
        asked = page.begin(tasks, "POST", "/", said("you"))
        await failed.wait()
        await anyio.wait_all_tasks_blocked()
        joined = page.begin(tasks, "GET", "/k/stream")
        await anyio.wait_all_tasks_blocked()
        held.set()
    assert [texts(one.chunks) for one in (*asked, *joined)] == ["".join(words)] * 2


async def test_a_conversation_that_is_being_removed_holds_up_no_other_one(tmp_path: Path) -> None:
    begun, held = anyio.Event(), anyio.Event()

    def run(given: Any) -> Any:
        @tool(effect="once")
        async def pay() -> str:
            """Pays, and cannot be cut off."""
            begun.set()
            with anyio.CancelScope(shield=True):
                await held.wait()
            return "paid"

        def ask(messages: list[Any], tools: Any) -> Any:
            calls = [("c1", "pay", "{}")] if messages[-1]["content"] == "pay" else []
            return stream(chat(["Yes."], calls, finish="tool_calls" if calls else "stop"))

        return agent_loop(ask, given.messages(WIRE), tools=[pay], wire=WIRE, **given.options)

    page = Page(Chats(journal=tmp_path / "chats.db", run=run).app(may=lambda request: True))
    removed: list[int] = []

    async def remove() -> None:
        removed.append((await page.ask("DELETE", "/k")).status)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(page.ask, "POST", "/", said("pay"))
        await begun.wait()
        tasks.start_soon(remove)
        await anyio.wait_all_tasks_blocked()
        assert texts((await page.ask("POST", "/", said("you", chat="other"))).chunks) == "Yes."
        assert removed == []
        held.set()
    assert removed == [204]


async def test_a_row_that_nobody_has_written_keeps_no_other_conversation_from_going_on(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    program = Program(path)
    for name in ("a", "b", "c"):
        await program.page().ask("POST", "/", said("slow", chat=name), leave=lambda answer: b'b"}' in answer.body)
    await program.chats.aclose()
    with closing(sqlite3.connect(path)) as connection, connection:
        change = "UPDATE records SET value = x'00' WHERE kind = 'turn' AND substr(key, 6, 1) = x'61'"
        assert connection.execute(change).rowcount == 1
    program = Program(path)
    program.held.set()
    assert await program.chats.recover() == ["b", "c"]
    page = program.page()
    assert (await page.ask("GET", "/a")).status == 500
    assert (await page.ask("DELETE", "/a")).status == 204
    await program.chats.aclose()


async def test_a_run_that_is_stopped_or_removed_before_it_has_begun_asks_no_model(tmp_path: Path) -> None:
    for place, (method, path, left) in enumerate((("POST", "/k/stop", "cancelled"), ("DELETE", "/k", None))):
        begun, held, asked = anyio.Event(), anyio.Event(), []

        async def run(given: Any, begun: Any = begun, held: Any = held, asked: Any = asked) -> Any:
            def ask(messages: list[Any], tools: Any) -> Any:
                asked.append(messages)
                return stream(chat(["Yes."], finish="stop"))

            begun.set()
            await held.wait()
            return agent_loop(ask, given.messages(WIRE), wire=WIRE, **given.options)

        both = [Chats(journal=tmp_path / f"{place}.db", run=run) for _ in "ab"]
        pages = [Page(chats.app(may=lambda request: True)) for chats in both]
        async with anyio.create_task_group() as tasks:
            answers = pages[0].begin(tasks, "POST", "/", said("you"))
            await begun.wait()
            assert (await pages[1].ask(method, path, {})).status == 204  # of another process
            held.set()
        for chats in both:
            await chats.aclose()
        known = [one.outcome for one in await both[0].journal.runs()]
        assert (known, len(await RunLog(both[0].journal.store.records).read("k/1", -1))) == (
            [left] * bool(left),
            bool(left),
        )
        assert (kinds(answers[0]), asked) == (["start", "abort", "[DONE]"], []), path
        assert (await pages[0].ask("GET", "/k/stream")).status == 204


async def test_a_conversation_whose_id_has_a_slash_is_asked_for_by_its_encoded_path(tmp_path: Path) -> None:
    for at, (chat_id, encoded) in enumerate((("a/b", "a%2Fb"), ("../k", "..%2fk"), ("a/%2F", "a%2F%252F"))):
        asked: list[tuple[str, str]] = []

        def may(request: Any, asked: list[tuple[str, str]] = asked) -> bool:
            asked.append((request.chat_id, request.act))
            return True

        app = Program(tmp_path / f"{at}.db").chats.app(may=may)
        for root in ("", "/api/chat"):

            async def mounted(scope: Any, receive: Any, send: Any, root: str = root, app: Any = app) -> None:
                raw = f"{root}{scope['path']}"
                await app({**scope, "root_path": root, "path": unquote(raw), "raw_path": raw.encode()}, receive, send)

            page, message = Page(mounted), f"m{root}"
            assert (await page.ask("POST", "/", said("you", chat=chat_id, id=message))).status == 200
            assert (await page.ask("GET", f"/{encoded}")).json["id"] == chat_id
            assert (await page.ask("POST", f"/{encoded}/stop", {})).status == 204
        assert set(asked) == {(chat_id, "run"), (chat_id, "read"), (chat_id, "stop")}
        assert (await page.ask("DELETE", f"/{encoded}")).status == 204


async def test_a_run_that_waits_for_a_call_of_no_known_end_is_gone_on_with_once_somebody_has_settled_it(
    tmp_path: Path,
) -> None:
    begun = 0

    def run(given: Any) -> Any:
        @tool(effect="once")
        async def pay(color: str = "blue") -> str:
            """Pays, unless its process dies."""
            nonlocal begun
            begun += 1
            if begun <= 2:
                await anyio.sleep_forever()
            return color

        book = tool(pay.fn, name="book", idempotency_key="color", scope="conversation")

        @tool(timeout=0.001)
        async def hang() -> str:
            """Never ends."""
            await anyio.sleep_forever()
            raise AssertionError

        def ask(messages: list[Any], tools: Any) -> Any:
            if messages[-1]["role"] == "user":
                return stream(chat([], [("c0", "hang", "{}")]))
            if messages[-1]["tool_call_id"] != "c0":
                return stream(chat(["Done."], finish="stop"))
            return stream(chat(["I pay."], [("c1", "pay", "{}"), ("c2", "book", '{"color": "red"}')]))

        return agent_loop(ask, given.messages(WIRE), tools=[pay, book, hang], wire=WIRE, **given.options)

    chats = Chats(journal=tmp_path / "chats.db", run=run)
    await Page(chats.app(may=lambda request: True)).ask("POST", "/", said("go"), leave=lambda answer: begun == 2)
    await chats.aclose()
    chats = Chats(journal=tmp_path / "chats.db", run=run)
    page, store = Page(chats.app(may=lambda request: True)), chats.journal.store

    async def visits() -> int:
        turns = await chats.history("k")
        return turns[-1].visits

    assert (await page.ask("GET", "/k/stream")).chunks[-2]["finishReason"] == "tool-calls"
    unknown = {call.key for call in await store.calls()}
    assert (await visits(), len(unknown)) == (2, 3)
    for number, key in enumerate(sorted(key for key in unknown if not key.startswith("k/1:0:")), 2):
        for _ in range(3):
            assert (await page.ask("GET", "/k/stream")).status == 204
            assert (await page.ask("GET", "/k/events")).status == 204
            assert (await page.ask("POST", "/", said("more", id="m2"))).json["error"]["code"] == "waiting"
            assert (await page.ask("POST", "/", said("go"))).status == 200  # the same again
            assert await chats.recover() == []
        assert (await visits(), begun) == (number, number)
        await store.settle(key, None)
        assert (await page.ask("GET", "/k/stream")).chunks[-2]["finishReason"] == (
            "tool-calls" if begun < 4 else "stop"
        )
    assert (await visits(), begun) == (4, 4)
    assert texts((await page.ask("POST", "/", said("go"))).chunks) == "I pay.Done."


async def test_a_model_is_not_told_of_a_call_that_has_run_before_a_stop_that_it_was_not_run(tmp_path: Path) -> None:
    asked: list[list[Any]] = []

    def run(given: Any) -> Any:
        @tool(needs_approval=True)
        def pay() -> str:
            """Pays."""
            raise AssertionError("nobody approves it")

        @tool(effect="idempotent")
        def put() -> str:
            """Puts something somewhere."""
            return "put"

        def ask(messages: list[Any], tools: Any) -> Any:
            asked.append(messages)
            if messages[-1]["content"] == "go":
                return stream(chat([], [("c1", "put", "{}"), ("c2", "pay", "{}")]))
            return stream(chat(["Yes."], finish="stop"))

        return agent_loop(ask, given.messages(WIRE), tools=[pay, put], wire=WIRE, **given.options)

    page = Page(Chats(journal=tmp_path / "chats.db", run=run).app(may=lambda request: True))
    await page.ask("POST", "/", said("go"))
    await page.ask("POST", "/k/stop", {})
    ends = [one for one in (await page.ask("GET", "/k/events", last_event_id="1.0")).frames if one[0] == "observation"]
    assert [(one["call_id"], one["outcome"]) for _, _, one in ends] == [("c1", "ok"), ("c2", "skipped")]
    await page.ask("POST", "/", said("and now?", id="m2"))
    read = [one["content"] for one in asked[-1] if one["role"] == "tool"]
    assert read == [
        "Error: the call is not run again: the run was stopped; it may have had its effect before",
        "Error: the call was not run: the run was stopped",
    ]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_calls_of_a_server_that_shuts_down_end_for_their_readers_as_its_successor_ends_them(
    tmp_path: Path, backend: str
) -> None:
    def chats_of(path: Path, begun: anyio.Event | None) -> Chats:
        def run(given: Any) -> Any:
            @tool(effect="idempotent", conflict_key=lambda arguments: "one")
            async def put(n: int) -> str:
                """Puts something somewhere, one after the other."""
                if begun is not None:
                    begun.set()
                    await anyio.sleep_forever()
                return f"put {n}"

            def ask(messages: list[Any], tools: Any) -> Any:
                if messages[-1]["role"] == "user":
                    return stream(chat([], [("c1", "put", '{"n": 1}'), ("c2", "put", '{"n": 2}')]))
                return stream(chat(["Done."], finish="stop"))

            return agent_loop(ask, given.messages(WIRE), tools=[put], wire=WIRE, **given.options)

        return Chats(journal=path, run=run)

    async def first(path: Path, closes: bool) -> None:
        begun = anyio.Event()
        chats = chats_of(path, begun)
        page = Page(chats.app(may=lambda request: True))
        async with anyio.create_task_group() as tasks:
            answers = page.begin(tasks, "POST", "/k/events", said("go"))
            await begun.wait()
            await anyio.wait_all_tasks_blocked()
            if closes:
                await chats.aclose()
            else:
                tasks.cancel_scope.cancel()
        if closes:
            assert [kind for kind, _, _ in answers[0].frames][-2:] == ["tool_started", "run_end"]

    async def second(path: Path) -> None:
        page = Page(chats_of(path, None).app(may=lambda request: True))
        frames = (await page.ask("GET", "/k/events")).frames
        ends = {one["call_id"]: one["outcome"] for kind, _, one in frames if kind == "observation"}
        assert (ends, frames[-1][2]["outcome"]) == ({"c1": "ok", "c2": "ok"}, "answered")
        parts = (await page.ask("GET", "/k")).json["messages"][-1]["parts"]
        assert [one["output"] for one in parts if one["type"] == "tool-put"] == ["put 1", "put 2"]

    for closes in (True, False):
        anyio.run(first, tmp_path / f"{closes}.db", closes, backend=backend)
        anyio.run(second, tmp_path / f"{closes}.db", backend=backend)


async def test_a_run_that_its_journal_has_forgotten_holds_up_its_conversation_no_more(tmp_path: Path) -> None:
    program = Program(tmp_path / "chats.db")
    page = program.page()
    asked = await page.ask("POST", "/", said("pay"))
    await program.chats.journal.forget("k/1")
    assert (await page.ask("GET", "/k/stream")).status == 204
    late = await page.ask("POST", "/", decided(asked.chunks, "k/1"))
    assert (late.status, late.json["error"]["code"], program.paid) == (409, "nothing_waits", [])
    assert texts((await page.ask("POST", "/", said("you", id="m2"))).chunks) == "Hello, you"
    few = Chats(journal=Journal(tmp_path / "few.db", max_runs=1), run=program.run)
    for number in range(3):
        await Page(few.app(may=lambda request: True)).ask("POST", "/", said("you", id=f"m{number}"))
    assert [one.run_id for one in await few.journal.runs()] == ["k/3"]


async def test_the_runs_of_others_push_out_no_call_that_waits_for_a_person(tmp_path: Path) -> None:
    program = Program(tmp_path / "chats.db")
    chats = Chats(journal=Journal(tmp_path / "few.db", max_runs=1), run=program.run)
    page = Page(chats.app(may=lambda request: True))
    asked = await page.ask("POST", "/", said("pay"))
    for number in range(3):
        other = Page(chats.app(may=lambda request: True))
        await other.ask("POST", "/", {**said("you", id=f"m{number}"), "id": f"other-{number}"})
    late = await page.ask("POST", "/", decided(asked.chunks, "k/1"))
    assert (late.status, len(program.paid)) == (200, 1)
