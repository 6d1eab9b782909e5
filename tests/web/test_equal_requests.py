"""Equal requests at the same moment: a double click, two tabs, a client that sends once more."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from chat_client import Answer, Page
from profiles import examples
from streams import chat, stream
from test_chat_app import WIRE, said, texts

from streamtools import agent_loop, tool
from streamtools.dispatch import SqliteStore
from streamtools.durable.store_sqlite import SqliteRecords
from streamtools.web import Chats

pytestmark = pytest.mark.anyio


class Unhurried(SqliteStore):
    """A file whose answers reach their callers some turns of the event loop later, in an order made of a seed."""

    class _records(SqliteRecords):
        random: Random

        def handed(self, *work: Any) -> Callable[[], Coroutine[Any, Any, Any]]:
            waiter = super().handed(*work)

            async def wait() -> Any:
                found = await waiter()
                for _ in range(self.random.choice((0, 0, 1, 3, 9, 30))):
                    await anyio.lowlevel.checkpoint()
                return found

            return wait

    def __init__(self, path: Path, random: Random) -> None:
        super().__init__(path)
        self.records.random = random  # type: ignore[attr-defined]


class Program:
    """Processes that share a file, with a tool that has an effect, and one that the page runs."""

    def __init__(self, path: Path, random: Random, processes: int) -> None:
        self.paid = 0
        self.asked = 0
        self.chats = [Chats(journal=Unhurried(path, random), run=self.run) for _ in range(processes)]

    def run(self, given: Any) -> Any:
        @tool
        def pay() -> str:
            """Pays."""
            self.paid += 1
            return "paid"

        @tool(deferred=True)
        def locate() -> str:
            """Says where the user is."""
            raise AssertionError("the page does that")

        def ask(messages: list[Any], tools: Any) -> Any:
            self.asked += 1
            if messages[-1]["role"] == "user":
                return stream(chat(["I pay. "], [("c1", messages[-1]["content"], "{}")]))
            return stream(chat(["Paid."], finish="stop"))

        return agent_loop(ask, given.messages(WIRE), tools=[pay, locate], wire=WIRE, **given.options)

    def pages(self) -> list[Page]:
        return [Page(one.app(may=lambda request: True, ai_version=version)) for one in self.chats for version in (7, 6)]

    async def aclose(self) -> None:
        for one in self.chats:
            await one.aclose()
            one.journal.store.close()


async def test_equal_requests_at_once_begin_one_run_and_each_reads_its_whole_answer(tmp_path: Path) -> None:
    for seed in range(examples(15, quick=3)):
        random = Random(seed)
        program = Program(tmp_path / f"{seed}.db", random, 1 + seed % 2)
        pages = program.pages()
        for number in range(1, 4):
            answers: list[Answer] = []

            async def post(page: Page, later: int, number: int = number, answers: list[Answer] = answers) -> None:
                for _ in range(later):
                    await anyio.lowlevel.checkpoint()
                answers.append(await page.ask("POST", "/", said("pay", id=f"m{number}")))

            async with anyio.create_task_group() as tasks:
                for at in range(4):
                    tasks.start_soon(post, pages[at % len(pages)], random.choice((0, 1, 5, 40, 200)))
            await post(pages[-1], 0)  # it has ended
            where = (seed, number)
            assert [one.status for one in answers] == [200] * 5, where
            assert [texts(one.chunks) for one in answers] == ["I pay. Paid."] * 5, where
            assert (program.paid, program.asked) == (number, 2 * number), where
        turns = await program.chats[0].history("k")
        assert [(one.run_id, one.outcome) for one in turns or ()] == [(f"k/{at}", "answered") for at in (1, 2, 3)], seed
        await program.aclose()


async def test_equal_answers_at_once_count_once_and_each_reads_on(tmp_path: Path) -> None:
    for seed in range(examples(15, quick=3)):
        random = Random(seed)
        program = Program(tmp_path / f"{seed}.db", random, 1 + seed % 2)
        pages, answers = program.pages(), list[Answer]()
        await pages[0].ask("POST", "/", said("locate"))
        part = {"type": "tool-locate", "toolCallId": "c1", "state": "output-available", "input": {}, "output": "Rome"}
        message = {"id": "k/1", "role": "assistant", "parts": [{"type": "step-start"}, part]}
        body = {"id": "k", "messages": [message], "trigger": "submit-message", "messageId": "k/1"}

        async def post(page: Page, later: int, body: Any = body, answers: list[Answer] = answers) -> None:
            for _ in range(later):
                await anyio.lowlevel.checkpoint()
            answers.append(await page.ask("POST", "/", body))

        async with anyio.create_task_group() as tasks:
            for at in range(4):
                tasks.start_soon(post, pages[at % len(pages)], random.choice((0, 1, 5, 40, 200)))
        await post(pages[-1], 0)
        assert [(one.status, texts(one.chunks)) for one in answers] == [(200, "Paid.")] * 5, seed
        assert program.asked == 2
        await program.aclose()
