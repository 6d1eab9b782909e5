"""Conversations whose pages repeat themselves, come back at odd places, and ask while their files fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chat_client import Page
from streams import chat, stream
from test_chat_app import WIRE, Program, decided, said, texts

from streamtools import agent_loop, tool
from streamtools.dispatch import Decision
from streamtools.web import Chats

pytestmark = pytest.mark.anyio


class Payer:
    """A program whose model wants some payments in each of its first steps, always with the same ids.

    Args:
        path: the journal's file.
        amounts: those of the payments in a step.
        steps: how many steps pay.
    """

    def __init__(self, path: Path, *amounts: int, steps: int = 1) -> None:
        self.paid: list[int] = []
        self.chats = Chats(journal=path, run=self.run)
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
    second = await page.ask("POST", "/", decided(first.chunks, "k/1"))
    assert program.paid == [5]
    again = await page.ask("POST", "/", decided(first.chunks, "k/1"))
    assert (again.status, again.json["error"]["code"], program.paid) == (409, "nothing_waits", [5])
    asked = [one for one in second.chunks if one != "[DONE]" and one.get("approvalId", "").startswith("k/1#1#")]
    await page.ask("POST", "/", decided(asked, "k/1"))
    assert program.paid == [5, 5]


async def test_a_decision_about_a_stopped_run_begins_nothing(tmp_path: Path) -> None:
    program = Program(tmp_path / "chats.db")
    page = program.page()
    asked = await page.ask("POST", "/", said("pay"))
    await page.ask("POST", "/k/stop", {})
    await page.ask("GET", "/k/stream")
    late = await page.ask("POST", "/", decided(asked.chunks, "k/1"))
    assert (late.status, late.json["error"]["code"], program.paid) == (409, "nothing_waits", [])
    turns = await program.chats.history("k")
    assert turns is not None
    assert turns[-1].outcome == "cancelled"
    assert texts((await page.ask("POST", "/", said("you", id="m2"))).chunks) == "Hello, you"


async def test_an_approval_counts_also_if_somebody_else_has_approved_the_call_beside_it(tmp_path: Path) -> None:
    for verdict, status, paid in ((True, 200, [5, 6]), (False, 409, [])):
        program = Payer(tmp_path / f"{verdict}.db", 5, 6)
        asked = await program.page().ask("POST", "/", said("go"))
        waiting = await program.chats.journal.suspended("k/1")
        assert waiting is not None
        await program.chats.journal.decide(waiting, Decision.on(waiting.calls[0], verdict, by="bob"))
        answer = await program.page().ask("POST", "/", decided(asked.chunks, "k/1"))
        assert (answer.status, sorted(program.paid)) == (status, paid)
