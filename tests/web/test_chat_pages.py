"""The pages of useChat and AG-UI in a real browser, loaded anew behind each event of a run that asks a person."""

from __future__ import annotations

import json
import os
import re
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.to_thread import run_sync
from held_page import TEXTS, THOUGHT, Held, Script
from served import serving
from view.browser import Browser, needs_chromium

pytest.importorskip("starlette", reason="THERE IS NO STARLETTE: the pages of useChat and AG-UI were not opened")
from starlette.applications import Starlette
from starlette.routing import Mount

from examples.chat.app import CLIENTS, clients, may, page_app, pages
from examples.chat.model import BOOKED
from streamtools.web import Chats

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.sweep,
    needs_chromium,
    pytest.mark.skipif(
        set(clients()) != set(CLIENTS),
        reason="NOT OPENED: the pages of useChat and AG-UI are not bundled; `make test-web` does it, with node and npm",
    ),
]
# What a page has read and shows, and how it is used.
WATCH = """
globalThis.read = 0; // frames
globalThis.look = (messages, isBusy, error) => {
  globalThis.shown = { messages, isBusy, error: error && String(error) };
};
const ask = globalThis.fetch;
globalThis.fetch = async (...request) => {
  const answer = await ask(...request);
  if (!answer.headers.get("content-type")?.startsWith("text/event-stream")) return answer;
  const counted = new TransformStream({ transform(bytes, to) {
    read += new TextDecoder().decode(bytes).split("\\n\\n").length - 1;
    to.enqueue(bytes);
  } });
  return new Response(answer.body.pipeThrough(counted), answer);
};
"""
WAIT = """
new Promise((done) => {{
  const look = () => {condition} ? done(true) : setTimeout(look, 2);
  setTimeout(() => done(JSON.stringify(globalThis.shown)), {most});
  look();
}})
"""
PATIENCE_MS = 20_000
FULL = os.environ.get("STREAMTOOLS_WEB_RUNS") == "2000"
"""Whether the pages are loaded anew behind every event; `make test-web` does so."""
APART = ("tool", "activity")
SEND = """
(() => { const text = document.getElementById("text");
  Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(text, "Lisbon or Porto?");
  text.dispatchEvent(new Event("input", { bubbles: true }));
  text.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true })); })()
"""
ASKS = 'document.querySelector(".approve") && !shown.isBusy'
ENDED = f"JSON.stringify(shown.messages).includes({json.dumps(TEXTS[-1])}) && !shown.isBusy"


class Visit:
    """A person at one page, with a conversation of their own."""

    def __init__(self, browser: Browser, address: str, held: Held, chats: Chats) -> None:
        self._browser, self._address, self._held, self._chats = browser, address, held, chats
        self.asked_at: int | None = None
        """How many frames had passed when the person decided."""

    async def begin(self) -> None:
        """Opens the page, and asks."""
        await self._load(self._address)
        self.url = await run_sync(self._browser.run, "location.href")
        self.chat = self.url.partition("#")[2]
        await run_sync(self._browser.run, SEND)

    async def _load(self, url: str) -> None:
        await run_sync(self._browser.visit, "about:blank")
        await run_sync(self._browser.open, url)

    async def _until(self, condition: str) -> None:
        found = await run_sync(self._browser.run, WAIT.format(condition=condition, most=PATIENCE_MS))
        assert found is True, f"not seen: {condition}; {found}"

    async def decide(self) -> None:
        """Approves, when the page asks."""
        await self._until(ASKS)
        self.asked_at = self._held.sent
        await run_sync(self._browser.run, 'document.querySelector(".approve").click()')

    async def read(self) -> None:
        """Waits until the page has read all that has passed, and shows it."""
        await self._until(f"read >= {self._held.sent - (self.asked_at or 0)}")
        await run_sync(self._browser.drawn)

    async def reload(self, *, late: bool) -> None:
        """Loads the page anew. A `late` one joins the run when it has ended since the messages were read."""
        held, joined = self._held, self._held.joined
        held.holds_joins = late
        await self._load(self.url)
        if late:
            held.open()
            while await self._chats.join(self.chat) is not None:
                await anyio.lowlevel.checkpoint()
            held.holds_joins = False
        else:
            await held.until(lambda: held.joined > joined)
        held.open()

    async def end(self) -> Any:
        """Goes on to the end; returns the messages, without what tells one conversation, or pace, from another."""
        if self.asked_at is None:
            await self.decide()
        await self._until(ENDED)
        shown = await run_sync(self._browser.run, "JSON.stringify(shown)")
        found = json.loads(re.sub(r"chat/[0-9]+", "chat/1", shown.replace(self.chat, "chat")))
        messages = found["messages"]
        assert found == {"messages": messages, "isBusy": False}, "an error is shown"
        assert len({message.pop("id") for message in messages}) == len(messages), messages
        for message in messages:
            for part in message.get("parts", ()):
                if part["type"] == "reasoning":
                    part.pop("id", None)  # names the part in the stream
        # Results of AG-UI are messages, in the order in which they came.
        return sorted(messages, key=lambda message: str(message) if message["role"] in APART else "")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn's


async def reloaded_once(visit: Visit, held: Held, asked_at: int, count: int, *, late: bool) -> Any:
    """Loads the page anew when as many frames have passed as may; returns the messages at the end."""
    most = held.most or 0
    await visit.begin()
    if most > asked_at:
        await visit.decide()
    await held.until(lambda: held.is_held or (held.sent == most and most in (asked_at, count)))
    await visit.read()
    await visit.reload(late=late)
    return await visit.end()


def kept(messages: Any) -> Any:
    """Returns messages as a finished conversation has them: without progress, and without the spaces in arguments."""
    if not isinstance(messages, list):
        return messages
    found = json.loads(json.dumps([one for one in messages if one["role"] != "activity"]))
    for call in (call["function"] for one in found for call in one.get("toolCalls", ())):
        call["arguments"] = json.loads(call["arguments"])
    return found


async def reloaded(name: str, folder: Path) -> Any:
    """Loads a page anew behind frames of a run, early and late; returns what it ends with each time."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await chats.app(may=may)(scope, receive, send)

    held = Held(app)
    script = Script(held)
    chats = Chats(journal=folder / "chats.db", run=script.run)
    routes = [*pages(), Mount("/chats", held)]
    with Browser(folder / "profile") as browser:
        await run_sync(lambda: browser.command("Page.addScriptToEvaluateOnNewDocument", source=WATCH))
        async with chats, serving(Starlette(routes=routes), patience_s=1100) as port:

            def visit() -> Visit:
                return Visit(browser, f"http://127.0.0.1:{port}/{name}/", held, chats)

            held.begin(10_000)
            first = visit()
            await first.begin()
            whole = await first.end()
            asked_at, count = first.asked_at or 0, held.sent
            wrong: list[Any] = []
            indices = sorted({*range(0, count + 1, 1 if FULL else 9), asked_at, asked_at + 1, count})
            for index, late in product(indices, (False, True)):
                held.begin(index)
                found: Any = "it stands still"
                with anyio.move_on_after(PATIENCE_MS / 250):
                    try:
                        found = await reloaded_once(visit(), held, asked_at, count, late=late)
                    except AssertionError as error:
                        found = str(error)
                if found != whole and not (held.is_whole and kept(found) == kept(whole)):
                    wrong.append((index, late, found))
            assert set(script.booked.values()) == {1}
            assert browser.complaints == []
    print(f"\n{name}: loaded anew twice at {len(indices)} of {count + 1} places: {len(wrong)} times it went wrong")
    assert not wrong, wrong[:3]
    return whole


@pytest.mark.deadline(1200)
async def test_a_page_of_use_chat_that_is_loaded_anew_behind_any_event_ends_with_the_same_messages(
    tmp_path: Path,
) -> None:
    whole = await reloaded("use-chat", tmp_path)
    said, answer = whole
    assert (said["role"], answer["role"]) == ("user", "assistant")
    shown = [part.get("text") or part.get("output") for part in answer["parts"] if part["type"] != "step-start"]
    seen = [{"seen": at} for at in ("Lisbon", "Porto", "trains")]
    assert shown == [THOUGHT, TEXTS[0], *seen[:2], TEXTS[1], seen[2], "2 booked", TEXTS[2]]


@pytest.mark.deadline(1200)
async def test_a_page_of_ag_ui_that_is_loaded_anew_behind_any_event_ends_with_the_same_messages(
    tmp_path: Path,
) -> None:
    whole = await reloaded("ag-ui", tmp_path)
    assert [one["content"] for one in whole[1:5]] == [THOUGHT, *TEXTS]
    calls = [call["id"] for one in whole for call in one.get("toolCalls", ())]
    assert calls == ["call_0_0", "call_0_1", "call_1_0", "call_1_1"]
    results = [(one["toolCallId"], one["content"]) for one in whole if one["role"] == "tool"]
    said = [*(f'{{"seen":"{at}"}}' for at in ("Lisbon", "Porto", "trains")), "2 booked"]
    assert sorted(results) == list(zip(calls, said, strict=True))


EDIT = """
(() => { const text = document.querySelector(".editor textarea");
  Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(text, %s);
  text.dispatchEvent(new Event("input", { bubbles: true }));
  setTimeout(() => document.querySelector(".editor .approve").click()); })()
"""
SHOWN = """
[[...document.querySelectorAll(".call .arguments")].at(-1).textContent,
 [...document.images].map((one) => one.src.slice(0, 18)),
 [...document.querySelectorAll(".sources a")].map((one) => [one.textContent, one.rel])]
"""
SOURCES = [[title, "noopener noreferrer"] for title in ("Trams in Lisbon", "Carris")]


async def test_pages_of_use_chat_and_ag_ui_send_edited_arguments_and_use_chat_shows_sources_and_pictures(
    tmp_path: Path,
) -> None:
    edited = json.dumps({"train": "Sud Express", "berths": 3, "price_eur": 5}, separators=(",", ":"))
    with Browser(tmp_path / "profile") as browser, anyio.fail_after(120):
        async with serving(page_app(tmp_path / "chats.db", pause=0.01), patience_s=130) as port:

            async def until(condition: str) -> None:
                found = await run_sync(browser.run, WAIT.format(condition=condition, most=PATIENCE_MS))
                assert found is True, f"not seen: {condition}"

            for name in CLIENTS:
                await run_sync(browser.visit, "about:blank")
                await run_sync(browser.open, f"http://127.0.0.1:{port}/{name}/")
                await run_sync(browser.run, SEND)
                await until('document.querySelector(".edit")')
                browser.run('document.querySelector(".edit").click()')
                await until('document.querySelector(".editor")')
                browser.run(EDIT % json.dumps("[]"))
                await until('document.querySelector(".wrong").textContent')
                browser.run(EDIT % json.dumps(edited))
                for _ in "live", "loaded anew":
                    await until(f'document.getElementById("log").innerText.includes({json.dumps(BOOKED[-20:])})')
                    assert browser.run(SHOWN) == [edited, [], []]
                    address = browser.run("location.href")
                    await run_sync(browser.visit, "about:blank")
                    await run_sync(browser.open, address)
                if name == "ag-ui":
                    continue
                await run_sync(browser.run, SEND.replace("Lisbon or Porto?", "What do the trams look like?"))
                for _ in "live", "loaded anew":
                    await until('document.querySelector(".sources")')
                    await run_sync(browser.drawn)
                    assert browser.run(SHOWN)[1:] == [["data:image/svg+xml"], SOURCES]
                    await run_sync(browser.visit, "about:blank")
                    await run_sync(browser.open, address)
            assert browser.complaints == []
