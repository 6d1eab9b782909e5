"""The chat of ``examples/chat`` in a real browser, under a real server."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import pytest
from anyio.to_thread import run_sync
from served import serving
from view.browser import Browser, needs_chromium

pytest.importorskip("starlette", reason="THERE IS NO STARLETTE: the chat of the examples was not opened")
from examples.chat.app import page_app
from examples.chat.model import BOOK, BOOKED, DENIED, LOOK

pytestmark = [pytest.mark.anyio, pytest.mark.costly, needs_chromium, pytest.mark.asyncio_only]  # uvicorn's

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


@pytest.mark.thorough
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


STATUS = 'document.getElementById("status").textContent'
WAITS = "Waiting for you: approve or deny book"


@contextmanager
def process(port: int, folder: Path) -> Iterator[None]:
    """Serves the chat in a process, which is killed at the end."""
    code = (
        f"import sys, uvicorn; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); "
        "from examples.chat.app import page_app; "
        f"uvicorn.run(page_app('chats.db'), port={port}, access_log=False)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            assert any("Uvicorn running" in line for line in server.stderr)
            yield
        finally:
            server.kill()


@pytest.mark.thorough
@pytest.mark.deadline(300)
async def test_a_page_comes_back_by_itself_when_its_server_dies_and_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    with Browser(tmp_path / "profile") as browser, anyio.fail_after(240):

        async def until(condition: str) -> None:
            assert await run_sync(browser.run, WAIT.format(condition=condition))

        async def visit(address: str) -> None:
            await run_sync(browser.visit, "about:blank")
            await run_sync(browser.open, address)

        with process(port, tmp_path):
            await visit(f"http://127.0.0.1:{port}/")
            await run_sync(browser.run, SEND)
            await until('document.querySelectorAll(".call").length === 2')
        await until(f'{STATUS}.startsWith("Connection lost")')
        with process(port, tmp_path):
            await until(f'{STATUS}.startsWith("Answering") && document.querySelector(".call progress")')
        await until(f'{STATUS}.startsWith("Connection lost")')
        with (tmp_path / "chats.db.times.jsonl").open("a", encoding="utf-8") as times:
            times.write('["torn')
        with process(port, tmp_path):
            await until(f"{STATUS} === {json.dumps(WAITS)}")
        await run_sync(browser.run, 'document.querySelector(".approve").click()')
        await until(f'{STATUS}.startsWith("No connection")')
        with process(port, tmp_path):
            await until(f'{STATUS} === "Answered"')
            await run_sync(browser.drawn)
            said, results, rows = [await run_sync(browser.run, one) for one in (SAID, RESULTS, ROWS)]
            assert said == [LOOK[0].strip(), BOOK[0].strip(), BOOKED]
            assert len(results) == 4
            assert len(rows) == 7
            assert "unknown" not in "".join(rows)
            await visit(await run_sync(browser.run, "location.href"))
            await run_sync(browser.drawn)
            assert [await run_sync(browser.run, one) for one in (SAID, RESULTS, ROWS)] == [said, results, rows]
