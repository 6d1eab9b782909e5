"""The chat of ``examples/chat`` as axe judges it, in a real browser: all states, both themes, two widths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync
from served import serving
from view.browser import Browser, needs_chromium

pytest.importorskip("starlette", reason="THERE IS NO STARLETTE: the chat of the examples was not opened")
from examples.chat.app import page_app

AXE = Path(__file__).parents[2] / ".node-web/node_modules/axe-core/axe.min.js"
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.thorough,
    pytest.mark.deadline(300),
    needs_chromium,
    pytest.mark.skipif(not AXE.exists(), reason="NOT JUDGED: axe is not here; `nox -s web` installs it"),
    pytest.mark.asyncio_only,  # uvicorn's
]
JUDGED = """
axe.run(document, { resultTypes: ["violations"] }).then(({ violations, passes }) => [
  violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.failureSummary).join("; ")}`), passes.length])
"""
SAY = """
(() => { document.getElementById("text").value = "A weekend in Lisbon or Porto?";
  document.getElementById("form").requestSubmit(); })()
"""
EDIT = """
(() => { document.querySelector(".editor textarea").value = '{"train": "A", "berths": 3, "price_eur": 9}';
  document.querySelector(".editor .approve").click(); })()
"""
UNTIL = """
new Promise((done) => { const look = () => (%s) ? done(true) : setTimeout(look, 5); look(); })
"""
STATUS = 'document.getElementById("status").textContent'


async def test_axe_finds_nothing_to_complain_of_in_the_example_chat(tmp_path: Path) -> None:
    found: dict[str, Any] = {}

    def judge(browser: Browser, state: str) -> None:
        # Runs in the server's own loop: the page goes on to be what it is until all is judged.
        for theme in ("light", "dark"):
            media = [{"name": "prefers-color-scheme", "value": theme}]
            browser.command("Emulation.setEmulatedMedia", features=media)
            for width in (320, 1280):
                browser.resize(width, 800)
                browser.drawn()
                found[f"{state}, {theme}, {width} px"] = browser.run(JUDGED)

    with Browser(tmp_path / "profile") as browser:
        browser.command("Page.addScriptToEvaluateOnNewDocument", source=AXE.read_text(encoding="utf-8"))
        async with serving(page_app(tmp_path / "chats.db", pause=0.02)) as port:

            async def until(condition: str) -> None:
                with anyio.fail_after(60):
                    assert await run_sync(browser.run, UNTIL % condition)

            await run_sync(browser.open, f"http://127.0.0.1:{port}/")
            judge(browser, "empty")
            browser.run(SAY)
            await until('!!document.querySelector(".call progress")')
            judge(browser, "running")
            assert browser.run('!!document.querySelector(".call progress")')
            await until(f'{STATUS}.startsWith("Waiting")')
            judge(browser, "waiting")
            browser.run('document.querySelector(".edit").click()')
            browser.run('document.querySelector(".editor textarea").value = "{"')
            browser.run('document.querySelector(".editor .approve").click()')
            judge(browser, "edited, and no JSON")
            browser.run(EDIT)
            await until(f'{STATUS} === "Answered" && !!document.querySelector(".edited")')
            browser.run(SAY.replace("A weekend in Lisbon or Porto?", "What do the trams look like?"))
            await until(
                f'{STATUS} === "Answered" && !!document.querySelector(".sources") && !!document.querySelector("img")'
            )
            judge(browser, "ended")
            await run_sync(browser.visit, f"http://127.0.0.1:{port}/nowhere")
            judge(browser, "nothing there")
    assert {state: violations for state, (violations, _) in found.items() if violations} == {}
    assert all(passes > 10 for _, passes in found.values())
