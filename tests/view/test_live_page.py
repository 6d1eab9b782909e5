"""The live page in a real browser: it follows a run that a real server tells it of."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from anyio.to_thread import run_sync
from view.browser import Browser, needs_chromium
from view.seen_runs import watched
from web.served import serving

from streamtools.view import LiveView, Watch

pytestmark = [pytest.mark.anyio, pytest.mark.thorough, needs_chromium]

FOLLOWED = """
new Promise((done) => { const look = () => model.live === "over" ? done(model.calls.map((call) => call.outcome))
  : setTimeout(look, 5); look(); })
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn's


async def test_the_page_follows_a_run_to_its_end(tmp_path: Path) -> None:
    watch = Watch("Live")
    live = LiveView(watch, interval=0.01)
    with Browser(tmp_path) as browser:
        async with serving(live) as port:
            await run_sync(browser.open, live.url(f"http://127.0.0.1:{port}/"))
            assert await run_sync(browser.text, "#title") == "Live"
            with anyio.fail_after(60):
                await watched(watch)
                live.finish()
                outcomes = await run_sync(browser.run, FOLLOWED)
            await run_sync(browser.drawn)
            assert outcomes == [call.outcome for call in watch.picture.calls]
            assert await run_sync(browser.run, "model.rows.length") == 11
            assert await run_sync(browser.text, "#status") == "The run has ended."
            assert browser.complaints == []


async def test_a_page_of_another_host_that_leads_here_reads_nothing(tmp_path: Path) -> None:
    watch = Watch("Live")
    await watched(watch)
    live = LiveView(watch)
    live.finish()
    with Browser(tmp_path, flags=["--host-resolver-rules=MAP evil.example 127.0.0.1"]) as browser:
        async with serving(live) as port:
            read = "fetch('/events').then(async (answer) => [answer.status, await answer.text()])"
            await run_sync(browser.visit, f"http://evil.example:{port}/")
            assert await run_sync(browser.run, "location.host") == f"evil.example:{port}"
            status, text = await run_sync(browser.run, read)
            assert (status, "get_weather" in text) == (421, False)
