"""The first page that a reader makes: its commands in an empty folder, its files, and a question in a real browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.to_thread import run_sync
from served import serving
from streams import chat
from view.browser import CHROMIUM, Browser

pytest.importorskip("fastapi", reason="THERE IS NO FASTAPI: the first page was not made")
pytest.importorskip("openai", reason="THERE IS NO openai: the first page was not made")
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.sweep,
    pytest.mark.skipif(
        os.environ.get("STREAMTOOLS_WEB_RUNS") != "2000",
        reason="NOT MADE: the first page asks npm's registry for its packages; `make test-web` does it",
    ),
]
PAGE = Path(__file__).parents[2] / "docs/start/fastapi.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALL_S, PATIENCE_S = 600, 60
ASK = """
(() => { const text = document.querySelector("input");
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(text, "weather in Oslo?");
  text.dispatchEvent(new Event("input", { bubbles: true }));
  document.querySelector("form").requestSubmit(); })()
"""
ANSWERED = '/degrees/.test(document.body.innerText) && !document.querySelector("input").disabled'
UNTIL = """
new Promise((done) => {{
  const look = () => ({condition}) ? done(true) : setTimeout(look, 5);
  setTimeout(() => done(document.body.innerText), {most});
  look();
}})
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn's


async def complete(request: Any) -> Response:
    """Plays the model: calls the tool, then says what it has returned."""
    last = (await request.json())["messages"][-1]
    calls = [("call_1", "get_weather", json.dumps({"city": "Oslo"}))]
    said = chat(["In Oslo: ", last["content"]], finish="stop") if last["role"] == "tool" else chat([], calls)
    return Response(b"".join(said), media_type="text/event-stream")


@contextmanager
def started(command: list[str], marker: str, *, cwd: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Runs a server, and gives the address that it prints behind the marker."""
    server = subprocess.Popen(
        command, cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    assert server.stdout is not None
    try:
        seen = list[str]()
        for line in server.stdout:
            seen.append(line)
            if (found := re.search(rf"{marker}\s+(http://[\w.]+:[0-9]+)", line)) is not None:
                break
        else:
            pytest.fail(f"{command} has ended: {''.join(seen)}")
        yield found[1]
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # npm's children, too
        server.wait()
        server.stdout.close()


def make(folder: Path, env: Mapping[str, str]) -> tuple[str, list[str]]:
    """Does what the page says, and builds; returns vite's configuration, and the command that serves the page. Skips
    the test where packages cannot be installed."""
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert [kind for kind, _ in blocks] == ["python", "sh", "sh", "sh", "ts", "tsx", "sh"]
    (_, server), _, _, (_, install), (_, config), (_, app), (_, dev) = blocks
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("NOT MADE: the first page needs node and npm")
    ping = ["npm", "ping", "--fetch-retries=0", f"--fetch-timeout={PATIENCE_S * 500}"]
    if subprocess.run(ping, env=env, capture_output=True, check=False, timeout=PATIENCE_S).returncode != 0:
        pytest.skip("NOT MADE: the first page needs npm's registry, which cannot be reached")
    version = subprocess.run(["node", "--version"], env=env, capture_output=True, text=True, check=True).stdout
    if int(version[1:].partition(".")[0]) < 22:  # as the page says of `ai`
        assert ".app(may=lambda request: True)" in server
        server = server.replace(".app(may=lambda request: True)", ".app(may=lambda request: True, ai_version=6)")
    (folder / "server.py").write_text(server, encoding="utf-8")
    run(["sh", "-ec", install], folder, env)
    (folder / "page/vite.config.ts").write_text(config, encoding="utf-8")
    (folder / "page/src/App.tsx").write_text(app, encoding="utf-8")
    run(["npm", "run", "build"], folder / "page", env)  # tsc, then vite build
    return config, dev.partition("#")[0].split()


def run(command: list[str], cwd: Path, env: Mapping[str, str]) -> None:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=INSTALL_S)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"


def shown(folder: Path, env: Mapping[str, str], config: str, dev: list[str]) -> list[str]:
    """Asks on the page as it is developed, and as it was built; returns its words each time."""
    found = list[str]()
    page = folder / "page"
    serve = [sys.executable, "-m", "uvicorn", "server:app", "--port", "0"]
    with started(serve, "running on", cwd=folder, env=env) as address, Browser(folder / "profile") as browser:
        assert config.count("http://127.0.0.1:8000") == 1
        (page / "vite.config.ts").write_text(config.replace("http://127.0.0.1:8000", address), encoding="utf-8")
        for command in (dev, ["npm", "run", "preview"]):
            with started(command, "Local:", cwd=page, env=env) as local:
                browser.visit(f"{local}/")
                for condition in ('document.querySelector("input")', ANSWERED):
                    seen = browser.run(UNTIL.format(condition=condition, most=PATIENCE_S * 1000))
                    assert seen is True, (command, seen, browser.complaints)
                    if condition != ANSWERED:
                        browser.run(ASK)
                found.append(browser.run("document.body.innerText"))
        assert browser.complaints == []
    return found


@pytest.mark.deadline(1200)
async def test_the_first_page_is_made_as_its_text_says_and_reads_an_answer(tmp_path: Path) -> None:
    model = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    async with serving(model, patience_s=1100) as port:
        own = {"NO_COLOR": "1", "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": "unused"}
        env = {**os.environ, **own}
        made = await run_sync(make, tmp_path, env)
        assert (tmp_path / "page/dist/index.html").exists()
        if CHROMIUM is None:
            pytest.skip("THERE IS NO CHROMIUM: the first page was built, and not opened")
        found = await run_sync(shown, tmp_path, env, *made)
    call = "[tool-get_weather: output-available]"
    wanted = ["user", "weather in Oslo?", "assistant", call, "In Oslo: 12 degrees"]
    assert [words.split("\n\n") for words in found] == [wanted, wanted]
