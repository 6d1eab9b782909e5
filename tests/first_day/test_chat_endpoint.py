"""A chat behind FastAPI, under uvicorn: the answer reaches the user after its tools have run, in a page's code, too."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from integrations.loopback import Loopback
from streams import chat
from web.asgi_client import told
from web.served import client_of, serving

from streamtools.history import lint

pytest.importorskip("fastapi", reason="FastAPI is not installed")
from fastapi import Request
from fastapi.responses import HTMLResponse

SCRIPTS = Path(__file__).resolve().parent / "scripts"
GUIDE = Path(__file__).resolve().parent.parent.parent / "docs" / "web" / "endpoint.md"
PAGE_CODE = re.compile(r"^```js\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATIENCE_S = 30

WEATHER = chat(["Let me see. "], [("c1", "get_weather", '{"city": "Tokyo"}')])
RAIN = chat(["I will wait. "], [("c2", "wait_for_rain", "{}")])
PAYS = chat([], [("c3", "pay", '{"to": "Ada", "amount": 5}')])
ANSWER = chat(["It is sunny", " in Tokyo."], finish="stop")

DRIVER = """
const fetched = globalThis.fetch, base = process.argv[2];
globalThis.fetch = (path, options) => fetched(base + path, options);
let shown = "";
const outcome = await chat("weather in Tokyo?", (text) => { shown += text; });
console.log(`${outcome}: ${shown}`);
"""

PAGE = """<!doctype html><title>Chat</title><h1>Chat</h1><p id="answer"></p><p id="outcome"></p>
<script type="module">
{code}
const shown = document.getElementById("answer");
const show = (text) => {{ shown.textContent += text; }};
document.getElementById("outcome").textContent = await chat("weather in Tokyo?", show);
await fetch("/shown", {{ method: "POST", body: document.body.innerText }});
</script>"""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-quic")  # fmt: skip

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn's


@asynccontextmanager
async def served(
    monkeypatch: pytest.MonkeyPatch, *bodies: Iterable[bytes], name: str = "chat_endpoint"
) -> AsyncIterator[tuple[ModuleType, int]]:
    """Serves a script against a model that answers with these bodies; gives the module, and the port."""
    with Loopback(*bodies) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.url)
        spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        script = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, script)  # where FastAPI resolves annotations
        spec.loader.exec_module(script)
        async with script.model, serving(script.app) as port:
            yield script, port


def said(events: list[tuple[str, Any]]) -> str:
    return "".join(data["text"] for name, data in events if name == "text_delta")


async def test_the_answer_reaches_the_user_after_its_tools_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(monkeypatch, WEATHER, ANSWER) as (script, port), client_of(port) as client:
        events = told((await client.post("/chat", json={"text": "weather in Tokyo?"})).content)
    assert said(events) == "Let me see. It is sunny in Tokyo."
    names = [name for name, _ in events]
    assert names.index("tool_started") < names.index("observation") < len(names) - 1
    assert events[-1] == ("run_end", {"outcome": "answered"})
    assert [message["role"] for message in script.history] == ["user", "assistant", "tool", "assistant"]


async def test_a_user_who_leaves_finds_a_history_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(monkeypatch, RAIN, ANSWER) as (script, port), client_of(port) as client:
        async with client.stream("POST", "/chat", json={"text": "rain?"}) as response:
            read = b""
            async for piece in response.aiter_bytes():
                read += piece
                if b"event: tool_started" in read:
                    break
        with anyio.fail_after(PATIENCE_S):
            await script.stored.wait()
        assert lint(script.history, "openai.chat_completions", last=True) == []
        assert script.history[-1]["tool_call_id"] == "c2"
        events = told((await client.post("/chat", json={"text": "And now?"})).content)
    assert (said(events), events[-1][1]["outcome"]) == ("It is sunny in Tokyo.", "answered")
    roles = [message["role"] for message in script.history]
    assert roles == ["user", "assistant", "tool", "user", "assistant"]


@pytest.mark.parametrize(("approved", "outcome"), [(True, "ok"), (False, "denied")])
async def test_a_button_on_the_page_decides_and_the_answer_follows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, approved: bool, outcome: str
) -> None:
    monkeypatch.setenv("CALLS", str(tmp_path / "calls.db"))
    async with (
        served(monkeypatch, PAYS, ANSWER, name="approval_endpoint") as (script, port),
        client_of(port) as client,
    ):
        with script.store:
            asked = told((await client.post("/chat", json={"text": "Pay Ada 5."})).content)
            assert asked[-1] == ("run_end", {"outcome": "suspended", "call_ids": ["c3"]})
            request = next(data for name, data in asked if name == "approval_requested")
            assert request["arguments"] == {"to": "Ada", "amount": 5}
            assert script.paid == []
            click = {"call_id": "c3", "fingerprint": request["fingerprint"], "approved": approved}
            for wrong, status in (({"call_id": "c4"}, 404), ({"fingerprint": "of another payment"}, 409)):
                refused = await client.post("/decide", json=[{**click, **wrong}])
                assert (refused.status_code, script.paid) == (status, [])
            events = told((await client.post("/decide", json=[click])).content)
            for second, status in (({}, 409), ({"approved": not approved}, 409), ({"call_id": "c4"}, 404)):
                assert (await client.post("/decide", json=[{**click, **second}])).status_code == status
    assert [data["outcome"] for name, data in events if name == "observation"] == [outcome]
    assert script.paid == (["5 to Ada"] if approved else [])
    assert (said(events), events[-1]) == ("It is sunny in Tokyo.", ("run_end", {"outcome": "answered"}))
    assert [message["role"] for message in script.history] == ["user", "assistant", "tool", "assistant"]
    assert len(script.waiting) == 1


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node to run a page's code")
async def test_the_code_for_a_page_shows_the_answer_and_its_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (code,) = PAGE_CODE.findall(GUIDE.read_text(encoding="utf-8"))
    page = tmp_path / "page.mjs"
    page.write_text(code + DRIVER, encoding="utf-8")
    async with served(monkeypatch, WEATHER, ANSWER) as (_, port):
        done = await anyio.run_process(["node", str(page), f"http://127.0.0.1:{port}"], stderr=subprocess.STDOUT)
    assert done.stdout.decode() == "answered: Let me see.  [get_weather] It is sunny in Tokyo.\n"


@pytest.mark.skipif(CHROMIUM is None, reason="THERE IS NO CHROMIUM: no page was looked at")
@pytest.mark.thorough
async def test_a_browser_shows_the_answer_after_the_tools_have_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (code,) = PAGE_CODE.findall(GUIDE.read_text(encoding="utf-8"))
    page = PAGE.format(code=code)
    shown: list[str] = []
    is_shown = anyio.Event()

    async def keep(request: Request) -> None:
        shown.append((await request.body()).decode())
        is_shown.set()

    async with served(monkeypatch, WEATHER, ANSWER) as (script, port):
        script.app.get("/", response_class=HTMLResponse)(lambda: page)
        script.app.post("/shown")(keep)
        command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path}", f"http://127.0.0.1:{port}/"]
        # A group of its own: the browser's helpers end with it.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        browser = await anyio.open_process(command, **quiet)
        try:
            with anyio.fail_after(PATIENCE_S):
                await is_shown.wait()
        finally:
            os.killpg(browser.pid, signal.SIGKILL)
            await browser.wait()
    (text,) = shown
    assert text.split("\n\n") == ["Chat", "Let me see. [get_weather] It is sunny in Tokyo.", "answered"]
