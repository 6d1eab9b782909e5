"""What is left of a conversation that was removed: nothing, but calls whose ends nobody knows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from chat_client import Page
from streams import chat, stream
from test_chat_app import WIRE, decided, said

from streamtools import agent_loop, tool
from streamtools.dispatch import Journal, SqliteStore
from streamtools.durable.store_sqlite import SqliteRecords
from streamtools.policy import Offloading
from streamtools.web import Chats

pytestmark = pytest.mark.anyio
WORDS = ("crimson", "ultramarine", "vermilion", "k/1")
"""In the messages, arguments, results and reasons of the conversation."""


class Program:
    """Conversations whose calls need approvals, are done by the page, are long, happen once, or never end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / "results"
        """Where long results are kept by the runs that are made from now on."""
        self.results.mkdir()
        self.paid: list[str] = []
        self.booked: list[str] = []
        self.chats = Chats(journal=folder / "chats.db", run=self.run)
        self.page = Page(self.chats.app(may=lambda request: "ann"))

    def run(self, given: Any) -> Any:
        @tool(needs_approval=True)
        def pay(color: str) -> str:
            """Pays."""
            self.paid.append(color)
            return f"paid for {color}"

        @tool(idempotency_key="color", scope="conversation")
        def book(color: str) -> str:
            """Books."""
            self.booked.append(color)
            return f"booked {color}"

        @tool(idempotency_key="color", scope="forever")
        def burn(color: str) -> str:
            """Burns."""
            return "burnt"

        @tool(effect="pure")
        def long(color: str) -> str:
            """Tells a lot."""
            return f"{color} " * 500

        @tool(deferred=True)
        def locate(color: str) -> str:
            """Says where the user is."""
            raise AssertionError("the page does that")

        @tool(timeout=0.001)
        async def hang(color: str) -> str:
            """Never ends."""
            await anyio.sleep_forever()
            raise AssertionError

        long_results = Offloading(above=100, directory=self.results)
        tools = [pay, book, burn, long, locate, hang]
        return agent_loop(
            self.ask, given.messages(WIRE), tools=tools, wire=WIRE, offload_above=long_results, **given.options
        )

    def ask(self, messages: list[Any], tools: Any) -> Any:
        if messages[-1]["role"] != "user":
            return stream(chat(["Crimson done."], finish="stop"))
        names = messages[-1]["content"].split()
        calls = [(f"c{at}", name, '{"color": "crimson"}') for at, name in enumerate(names)]
        return stream(chat(["I call for crimson."], calls))

    def rows(self) -> dict[str, list[Any]]:
        """The rows of all tables, as text."""
        with closing(sqlite3.connect(self.folder / "chats.db")) as connection:
            names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            names = [name for name in names if name not in ("sqlite_sequence", "counted")]
            return {name: [str(row) for row in connection.execute(f'SELECT * FROM "{name}"')] for name in names}

    def left(self, *words: str) -> list[str]:
        return [row for rows in self.rows().values() for row in rows for word in words if word in row]


async def test_a_removed_conversation_leaves_no_record_no_decision_no_answer_and_no_file(tmp_path: Path) -> None:
    program = Program(tmp_path)
    page, results = program.page, tmp_path / "results"
    await page.ask("POST", "/", said("book long", id="m0", chat="k/1:0:"))  # its keys begin nearly alike
    kept = program.rows()["records"]
    files = {path.name for path in results.iterdir()}
    for _ in range(2):  # the same again, which nothing of the first may answer
        asked = await page.ask("POST", "/", said("pay book long locate"))
        run_id = asked.chunks[0]["messageId"]
        body = decided(asked.chunks, run_id)
        body["messages"][0]["parts"][1]["approval"]["reason"] = "ultramarine"
        body["messages"][0]["parts"].append({"type": "tool-locate", "toolCallId": "c3", "state": "output-available",
                                             "input": {}, "output": "vermilion"})  # fmt: skip
        assert (await page.ask("POST", "/", body)).chunks[-2]["type"] == "finish"
        assert {word for word in WORDS[:3] if program.left(word)} == set(WORDS[:3])
        assert len(list(results.iterdir())) == len(files) + 1
        assert (await page.ask("DELETE", "/k")).status == 204
        assert program.left("ultramarine", "vermilion") == []
        (gone,) = {*program.rows()["records"]}.difference(kept)
        assert "'gone'" in gone
        assert {*kept}.issubset(program.rows()["records"])
        assert {path.name for path in results.iterdir()} == files
    assert (program.paid, program.booked) == (["crimson"] * 2, ["crimson"] * 3)
    assert await program.chats.history("k/1:0:") is not None


async def test_a_call_whose_end_nobody_knows_outlives_its_conversation_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = Program(tmp_path)
    await program.page.ask("POST", "/", said("hang burn"))
    store = program.chats.journal.store
    (unknown,) = await store.calls()
    assert unknown.state == "unknown"
    assert (await program.page.ask("DELETE", "/k")).status == 204
    assert [call.key for call in await store.calls()] == [unknown.key]
    assert unknown.key in caplog.text
    for run_id in ("operation", "run"):  # with which other keys begin
        assert await Journal(store).erase(run_id) == []
    assert sorted(call.key.split(":")[:2] for call in await store.calls(completed=True)) == [
        ["k/1", "0"], ["operation", "forever"]
    ]  # fmt: skip
    await store.settle(unknown.key, None)
    assert await Journal(store).erase("k/1") == []


async def test_a_file_that_cannot_be_removed_keeps_the_conversation(tmp_path: Path) -> None:
    program = Program(tmp_path)
    page = program.page
    await page.ask("POST", "/", said("long"))
    (path,) = (tmp_path / "results").iterdir()
    path.unlink()
    path.mkdir()  # nobody but a directory resists everybody
    assert (await page.ask("DELETE", "/k")).status == 500
    assert (await page.ask("GET", "/k")).status == 200
    path.rmdir()
    assert (await page.ask("DELETE", "/k")).status == 204
    assert (await page.ask("GET", "/k")).status == 404


async def test_files_of_a_run_are_removed_from_each_directory_that_its_visits_have_named(tmp_path: Path) -> None:
    program = Program(tmp_path)
    page = program.page
    asked = await page.ask("POST", "/", said("pay long"))
    program.results = tmp_path / "later"
    program.results.mkdir()
    await page.ask("POST", "/", decided(asked.chunks, "k/1"))
    directories = (tmp_path / "results", tmp_path / "later")
    assert [len(list(one.iterdir())) for one in directories] == [1, 1]
    assert (await page.ask("DELETE", "/k")).status == 204
    assert [len(list(one.iterdir())) for one in directories] == [0, 0]


async def test_what_other_processes_begin_while_a_conversation_is_removed_is_removed_too_or_does_nothing(
    tmp_path: Path,
) -> None:
    begun, held, counts = anyio.Event(), anyio.Event(), {"asked": 0, "booked": 0}

    class SlowStore(SqliteStore):
        class _records(SqliteRecords):
            async def commit(self, *ops: Any, undo: Any = ()) -> Any:
                if any(getattr(one, "prefix", ()) == ("turn", "k") for one in ops):
                    begun.set()
                    await held.wait()
                return await super().commit(*ops, undo=undo)

    def run(given: Any) -> Any:
        @tool
        def book() -> str:
            """Books."""
            counts["booked"] += 1
            return "booked"

        @tool(effect="pure")
        async def wait() -> str:
            """Takes long."""
            await anyio.sleep_forever()
            raise AssertionError

        def ask(messages: list[Any], tools: Any) -> Any:
            counts["asked"] += 1
            if messages[-1]["content"] == "long":
                return stream(chat([], [("c1", "book", "{}"), ("c2", "wait", "{}")]))
            return stream(chat(["Crimson."], finish="stop"))

        return agent_loop(ask, given.messages(WIRE), tools=[book, wait], wire=WIRE, **given.options)

    path, removed = tmp_path / "chats.db", list[int]()
    page = Page(Chats(records=SlowStore(path), run=run).app(may=lambda request: True))
    other = Page(Chats(journal=path, run=run).app(may=lambda request: True))

    async def remove() -> None:
        removed.append((await page.ask("DELETE", "/k")).status)

    await page.ask("POST", "/", said("long"), leave=lambda answer: b'"booked"' in answer.body)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(remove)
        await begun.wait()
        assert (await other.ask("GET", "/k/stream")).status == 204
        assert counts == {"asked": 1, "booked": 1}
        assert (await other.ask("POST", "/", said("short", id="m2"))).status == 200
        held.set()
    assert removed == [204]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT kind FROM records").fetchall() == [("gone",)]
