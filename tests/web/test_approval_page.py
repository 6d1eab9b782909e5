"""The page pattern of docs/approval.md, run as it stands there: tabs, double clicks, two approvers, a crash."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from asgi_client import Client
from streams import chat, stream

from streamtools import Suspended, tool

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "approval.md"
PAYS = ("call_0", "pay", '{"to": "bob", "amount": 500}')

paid: list[str] = []


class Site:
    """An application made of the page's code blocks, and its users' browsers."""

    def __init__(self, *answers: list[bytes]) -> None:
        pytest.importorskip("starlette", reason="the page answers with Starlette's responses")
        source = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
        self.names: dict[str, Any] = {"__name__": "page"}
        exec(compile(source, str(PAGE), "exec", dont_inherit=True), self.names)
        bodies = iter(answers)

        async def ask(messages: Any, tools: Any) -> Any:
            return stream(next(bodies))

        self.names["ask"] = ask
        self.use(needs_approval=True)

    def use(self, **options: Any) -> None:
        @tool(name="pay", **options)
        async def pay(to: str, amount: int) -> str:
            """Pay."""
            paid.append(f"{amount} to {to}")
            return f"paid {amount} to {to}"

        self.names["pay"] = pay

    async def ask(self, question: str) -> list[Any]:
        """Asks; returns the requests for approval that the page shows."""
        client = Client()
        await client.request(await self.names["chat"](question))
        assert client.told[-1][0] == "run_end"
        return [data for name, data in client.told if name == "approval_requested"]

    async def click(self, shown: Any, approved: bool, user: str = "ann") -> tuple[int, Any]:
        """Clicks; returns the status, and the events or the error."""
        click = {"call_id": shown["call_id"], "fingerprint": shown["fingerprint"], "approved": approved}
        response, client = await self.names["decide"](user, [click]), Client()
        await client.request(response)
        assert client.start is not None
        status = client.start["status"]
        return status, client.told if status == 200 else json.loads(client.body)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paid.clear()
    monkeypatch.chdir(tmp_path)


def asks(*calls: tuple[str, str, str]) -> list[bytes]:
    return chat(calls=list(calls or [PAYS]))


DONE = chat(["Done."], finish="stop")


async def test_of_two_tabs_the_first_click_counts_and_the_second_is_told_of_it() -> None:
    for first, second in ((True, False), (False, True), (True, True)):
        paid.clear()
        site = Site(asks(), DONE)  # each run has an id of its own, so they share the store
        (shown,) = await site.ask("Pay bob.")
        status, events = await site.click(shown, first)
        assert status == 200
        (resolved,) = [data for name, data in events if name == "approval_resolved"]
        assert (resolved["approved"], resolved["by"]) == (first, ["ann"])
        assert resolved["at"] > 0
        assert [data["outcome"] for name, data in events if name == "observation"] == ["ok" if first else "denied"]
        status, said = await site.click(shown, second, "bob")
        assert (status, said["approved"], said["by"]) == (409, first, "ann")
        assert paid == (["500 to bob"] if first else [])
        site.names["store"].close()


async def test_a_double_click_pays_once_and_is_answered_twice() -> None:
    site, statuses = Site(asks(), DONE), []

    async def click(approved: bool) -> None:
        statuses.append((await site.click(shown, approved))[0])

    (shown,) = await site.ask("Pay bob.")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tabs:
            for _ in range(4):
                tabs.start_soon(click, True)
    assert (sorted(statuses), paid) == ([200, 409, 409, 409], ["500 to bob"])


async def test_a_call_that_was_never_shown_is_unknown_and_one_that_was_left_behind_is_not_run() -> None:
    site = Site(asks(), asks(("call_0", "pay", '{"to": "eve", "amount": 9000}')), DONE)
    (bob,) = await site.ask("Pay bob.")
    (eve,) = await site.ask("Pay eve.")
    assert bob["call_id"] == eve["call_id"] == "call_0"
    for shown in ({**eve, "fingerprint": "0" * 64}, {**eve, "call_id": "call_1"}):
        assert (await site.click(shown, True))[0] == 404
    assert (await site.click(bob, True))[0] == 409
    assert paid == []
    assert ((await site.click(eve, True))[0], paid) == (200, ["9000 to eve"])


async def test_a_call_that_has_waited_for_too_long_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(asks())
    (shown,) = await site.ask("Pay bob.")
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 8 * 86_400)
    assert ((await site.click(shown, True))[0], paid) == (410, [])


async def test_two_approvers_click_one_after_the_other() -> None:
    site = Site(asks(), DONE)
    site.use(needs_approval=True, requires=2)
    (shown,) = await site.ask("Pay bob.")
    assert shown["requires"] == 2
    status, events = await site.click(shown, True, "ann")
    assert (status, events[-1][1]["outcome"], paid) == (200, "suspended", [])
    assert (await site.click(shown, True, "ann"))[0] == 409
    status, events = await site.click(shown, True, "bob")
    assert (status, events[-1][1]["outcome"], paid) == (200, "answered", ["500 to bob"])
    status, said = await site.click(shown, False, "eve")
    assert (status, said["approved"], said["by"]) == (409, True, "bob")


async def test_a_server_that_dies_behind_the_click_goes_on_with_it_when_it_starts() -> None:
    site = Site(asks(), DONE)
    (shown,) = await site.ask("Pay bob.")
    click = {"call_id": shown["call_id"], "fingerprint": shown["fingerprint"], "approved": True}
    await site.names["decide"]("ann", [click])  # and the server dies, before the response begins
    assert ((await site.click(shown, False))[0], paid) == (409, [])
    kept = site.names["kept"]
    suspended = Suspended.from_text(kept["waiting"], site.names["SECRET"], bound_to="conversation 7")
    async with site.names["go_on_with"](suspended) as run:
        _ = [event async for event in run]
    await site.names["keep"](run)
    assert (run.outcome, paid) == ("answered", ["500 to bob"])
    assert ((await site.click(shown, False))[1]["approved"], paid) == (True, ["500 to bob"])
