"""The chat of ``examples/chat`` in a real browser, under a real server."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from anyio.to_thread import run_sync
from served import serving
from view.browser import Browser, needs_chromium

pytest.importorskip("starlette", reason="THERE IS NO STARLETTE: the chat of the examples was not opened")
from examples.chat.app import page_app
from examples.chat.model import BOOK, BOOKED, DENIED, LOOK

pytestmark = [pytest.mark.anyio, pytest.mark.costly, needs_chromium]

WAIT = """
new Promise((done) => {{ const look = () => {{ const log = document.getElementById("log")?.innerText ?? "";
  if ({condition}) done(true); else setTimeout(look, 5); }}; look(); }})
"""
SEND = """
(() => { const text = document.getElementById("text"); text.value = "Lisbon or Porto?";
  text.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", cancelable: true })); })()
"""
SAID = '[...document.querySelectorAll(".said")].map((one) => one.textContent.trim())'
ROWS = '[...document.querySelectorAll("#time li")].map((one) => one.innerText)'
RESULTS = '[...document.querySelectorAll(".result")].map((one) => one.textContent)'


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn's


async def test_a_chat_goes_on_over_reloads_and_a_decision_with_nothing_lost_or_shown_twice(tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser, anyio.fail_after(60):
        async with serving(page_app(tmp_path / "chats.db", pause=0.02)) as port:

            async def until(condition: str) -> None:
                assert await run_sync(browser.run, WAIT.format(condition=condition))

            async def visit(address: str) -> None:
                await run_sync(browser.visit, "about:blank")
                await run_sync(browser.open, address)

            async def reload() -> None:
                await visit(await run_sync(browser.run, "location.href"))

            for verdict, end in (("approve", BOOKED), ("deny", DENIED)):
                await visit(f"http://127.0.0.1:{port}/")
                await run_sync(browser.run, SEND)
                await until('document.querySelector(".call progress")')  # in the middle of a call
                await reload()
                await until('document.getElementById("status").textContent.startsWith("Waiting")')
                await run_sync(browser.drawn)
                rows = await run_sync(browser.run, ROWS)
                await reload()
                await run_sync(browser.drawn)
                assert await run_sync(browser.run, ROWS) == rows
                await until(f'document.querySelector(".{verdict}")')
                await run_sync(browser.run, f'document.querySelector(".{verdict}").click()')
                texts = [LOOK[0].strip(), BOOK[0].strip(), end]
                await until(f"log.includes({json.dumps(end)}) && !document.getElementById('send').hidden")
                results = await run_sync(browser.run, RESULTS)
                assert await run_sync(browser.run, SAID) == texts
                assert len(results) == (4 if end == BOOKED else 3)
                await reload()
                await until(f"log.includes({json.dumps(end)})")
                assert await run_sync(browser.run, SAID) == texts
                assert await run_sync(browser.run, f"{RESULTS}.length") == len(results)
            await visit(f"http://127.0.0.1:{port}/")
            await run_sync(browser.run, SEND)
            await until('document.querySelector(".call progress")')
            await run_sync(browser.run, 'document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }))')
            await until('document.querySelector(".end") && !document.getElementById("send").hidden')
            assert await run_sync(browser.text, "#status") == "Stopped"
            assert browser.complaints == []
