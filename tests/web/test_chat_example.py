"""The chat of ``examples/chat`` in a real browser, under a real server."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync
from served import serving
from view.browser import Browser, needs_chromium

pytest.importorskip("starlette", reason="THERE IS NO STARLETTE: the chat of the examples was not opened")
from examples.chat import app as example
from examples.chat.app import page_app
from examples.chat.model import BOOK, BOOKED, DENIED, FAILED, LOOK, PICTURE_WIRE, SOURCES

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


KEYS = {"Enter": 13, "Tab": 9, "Escape": 27}
STATUS = 'document.getElementById("status").textContent'
WAITS = "Waiting for you: approve or deny book"
FOCUS = "document.activeElement.id || document.activeElement.className"
IN_SIGHT = (
    """[document.documentElement, document.getElementById("log")].every((one) => one.scrollWidth <= one.clientWidth)"""
)


def press(browser: Browser, key: str, *, shift: bool = False) -> None:
    text = {"text": "\r"} if key == "Enter" else {}
    named = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": 8 if shift else 0}
    browser.command("Input.dispatchKeyEvent", type="keyDown", **named, **text)
    browser.command("Input.dispatchKeyEvent", type="keyUp", **named)


def go_to(browser: Browser, wanted: str, *, shift: bool = False) -> None:
    for _ in range(20):
        if browser.run(FOCUS) == wanted:
            return
        press(browser, "Tab", shift=shift)
    raise AssertionError(f"no way to {wanted} by keys; the focus is at {browser.run(FOCUS)}")


def say(browser: Browser, text: str) -> None:
    go_to(browser, "text")
    browser.command("Input.insertText", text=text)
    press(browser, "Enter")


def heard(browser: Browser) -> dict[str, dict[str, Any]]:
    """Returns the regions that a screen reader reads out when they change: liveness, whether it has to wait, texts."""
    nodes = {one["nodeId"]: one for one in browser.command("Accessibility.getFullAXTree")["nodes"]}

    def texts(node: Any) -> str:
        below = "".join(texts(nodes[child]) for child in node.get("childIds", ()) if child in nodes)
        return below or str(node.get("name", {}).get("value", ""))

    def facts(node: Any) -> dict[str, Any]:
        return {one["name"]: one["value"].get("value") for one in node.get("properties", ())}

    roles = {one["role"]["value"]: one for one in nodes.values() if not one.get("ignored")}
    names = [one["name"]["value"] for one in nodes.values() if one.get("role", {}).get("value") == "button"]
    found = {role: {**facts(roles[role]), "text": texts(roles[role])} for role in ("log", "status", "alert")}
    return {**found, "buttons": dict.fromkeys(names)}


async def test_a_chat_works_by_keys_alone_is_read_out_keeps_still_and_fits_on_a_small_screen(tmp_path: Path) -> None:
    with Browser(tmp_path / "profile", width=320, height=640) as browser, anyio.fail_after(60):
        async with serving(page_app(tmp_path / "chats.db", pause=0.02)) as port:

            async def until(condition: str) -> None:
                assert await run_sync(browser.run, WAIT.format(condition=condition))
                assert browser.run(IN_SIGHT), condition

            for motion, moves in (("no-preference", True), ("reduce", False)):
                features = [{"name": "prefers-reduced-motion", "value": motion}]
                browser.command("Emulation.setEmulatedMedia", features=features)
                await run_sync(browser.visit, "about:blank")
                await run_sync(browser.open, f"http://127.0.0.1:{port}/")
                say(browser, f"A weekend in {'Lisbon' * 40}?")
                await until('document.querySelector(".call progress")')
                # The server, which is in this loop, stands still while the page is looked at.
                assert bool(browser.run("document.getAnimations().length")) is moves
            assert heard(browser)["log"]["live"] == "polite"
            assert browser.run('document.querySelector(".answer").ariaBusy') == "true"
            await until(f'{STATUS}.startsWith("Waiting")')
            regions = heard(browser)
            assert regions["alert"] == regions["alert"] | {"live": "assertive", "text": f"{WAITS}."}
            assert (regions["status"]["live"], regions["status"]["text"]) == ("polite", WAITS)
            assert BOOK[0].strip() in regions["log"]["text"]
            assert {"Approve book", "Deny book", "Stop"} <= set(regions["buttons"])
            assert browser.run('document.querySelector(".answer").ariaBusy') == "false"
            press(browser, "Escape")  # stops what goes on, and takes no decision
            for ends in ("Cancel", "Approve"):
                go_to(browser, "quiet edit", shift=True)
                press(browser, "Enter")
                focused = browser.run("document.activeElement.labels[0].textContent")
                assert focused == "Arguments of book, as JSON"
                field = browser.run("document.activeElement.id")
                browser.run("document.activeElement.select()")
                for written, wrong in (("[3]", "Write a JSON object: { … }"), ("{", "This is not JSON yet: ")):
                    browser.command("Input.insertText", text=written)
                    go_to(browser, "approve")
                    press(browser, "Enter")
                    assert browser.run("document.activeElement.id") == field
                    assert browser.run("document.activeElement.ariaInvalid") == "true"
                    described = "document.getElementById(document.activeElement.getAttribute('aria-describedby'))"
                    assert browser.run(f"{described}.textContent").startswith(wrong)
                    browser.run("document.activeElement.select()")
                assert browser.run(IN_SIGHT)
                if ends == "Cancel":
                    go_to(browser, "quiet")
                    press(browser, "Enter")
                    assert browser.run(FOCUS) == "quiet edit"
            browser.command("Input.insertText", text=json.dumps(EDITED))
            go_to(browser, "approve")
            press(browser, "Enter")
            await until(f'{STATUS} === "Answered"')
            assert browser.run(FOCUS) == "text"
            assert "edited" in heard(browser)["log"]["text"]
            say(browser, "What do the trams of Lisbon look like?")
            await until(f'{STATUS} === "Answered" && document.querySelector(".answer:last-child .sources")')
            assert "Image 1 of this answer, made by the model" in heard(browser)["log"]["text"]
            assert BOOKED in heard(browser)["log"]["text"]
            assert heard(browser)["alert"]["text"] == ""
            say(browser, "A weekend in Atlantis?")
            await until(f'{STATUS} === "Answered" && log.includes({json.dumps(FAILED)})')
            for key in ("Enter", "Escape"):
                say(browser, "Tell me the story of Lisbon")
                await until('document.querySelector(".answer:last-child .said")')
                if key == "Enter":
                    go_to(browser, "stop")
                press(browser, key)
                await until(f'{STATUS} === "Stopped"')
                assert browser.run(FOCUS) == "text"
                assert heard(browser)["log"]["text"].endswith("Stopped")
            assert browser.complaints == []


EDITED = {"train": "Sud Express", "berths": 12345678901234567, "price_eur": 5}
EDIT = """
(() => { document.querySelector(".edit").click(); const text = document.querySelector(".editor textarea");
  text.value = %s; text.dispatchEvent(new Event("input")); document.querySelector(".editor .approve").click(); })()
"""
CARD = """
(() => { const card = [...document.querySelectorAll(".call")].at(-1);
  return [!!card.querySelector(".edited"), card.querySelector(".state").textContent,
    card.querySelector(".arguments").textContent,
    card.querySelector(".result")?.textContent ?? ""]; })()
"""
LINKS = """
[...document.querySelectorAll(".answer:last-child a")].map((one) => [one.firstChild.textContent,
  one.href.slice(0, 20), one.target, one.rel, one.download])
"""
SHOWN = '[...document.querySelectorAll(".answer:last-child li, .file > span")].map((one) => one.textContent)'
IMAGES = "[...document.images].map((one) => [one.alt, one.naturalWidth > 0])"
OUTSIDE = ["_blank", "noopener noreferrer", ""]


async def hostile(messages: list[Any], pause: float) -> Any:
    """Makes files of all kinds, and names sources twice, without a title, and no pages."""
    files = [
        {"inlineData": {"mimeType": "text/html", "data": "PHNjcmlwdD4="}},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://one.example/a.pdf"}},
        {"fileData": {"mimeType": "text/html", "fileUri": "javascript:alert(1)"}},
    ]
    pages = [
        {"uri": "https://two.example/", "title": "<b>Two</b>"},
        {"uri": "https://one.example/"},
        {"uri": "https://two.example/", "title": "Another"},
        {"uri": "javascript:alert(1)", "title": "None"},
    ]
    chunks = [*({"web": page} for page in pages), {"retrievedContext": {"title": "A book"}}]
    for part in [{"text": "Look. "}, *files, {"text": "There. "}]:
        yield {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]}
    yield {"candidates": [{"index": 0, "finishReason": "STOP", "groundingMetadata": {"groundingChunks": chunks}}]}


async def test_edited_arguments_sources_and_files_are_shown_alike_live_and_after_a_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Browser(tmp_path / "profile") as browser, anyio.fail_after(60):
        async with serving(page_app(tmp_path / "chats.db", pause=0.01)) as port:

            async def until(condition: str) -> None:
                assert await run_sync(browser.run, WAIT.format(condition=condition))

            async def ask(text: str) -> None:
                await run_sync(browser.run, SEND.replace("Lisbon or Porto?", text))

            async def alike(*looks: str) -> list[Any]:
                """Returns what is seen, which a reload does not change."""
                await until(f'{STATUS} === "Answered"')
                await run_sync(browser.drawn)
                live = [browser.run(look) for look in looks]
                address = browser.run("location.href")
                await run_sync(browser.visit, "about:blank")
                await run_sync(browser.open, address)
                await until(f'{STATUS} === "Answered"')
                await run_sync(browser.drawn)
                assert [browser.run(look) for look in looks] == live
                return live

            await run_sync(browser.open, f"http://127.0.0.1:{port}/")
            asked = dict(BOOK[1][0][1])
            misfit = "its arguments were edited, and cannot be run: "
            for edited, is_marked, state, result in (
                (EDITED, True, "done", f"booked {EDITED['berths']} berths on Sud Express for 5 EUR"),
                (asked, False, "done", "booked 2 berths on Lusitania 335 for 118 EUR"),
                ({"train": "A", "berths": "many"}, False, "denied", misfit),
            ):
                await ask("Lisbon or Porto?")
                await until('document.querySelector(".edit")')
                if edited is EDITED:  # too much for the server, which says so in place
                    await run_sync(browser.run, EDIT % json.dumps(json.dumps({**asked, "train": "A" * 300_000})))
                    await until('document.querySelector(".wrong")?.textContent')
                    assert browser.run(STATUS) == WAITS
                    browser.run('document.querySelector(".editor .quiet").click()')
                await run_sync(browser.run, EDIT % json.dumps(json.dumps(edited)))
                ((marked, shown, arguments, said),) = await alike(CARD)
                assert (marked, shown) == (is_marked, state)
                assert said == result if result != misfit else said.startswith(misfit)
                ran = asked if state == "denied" else edited
                exact = [value for value in ran.values() if value != EDITED["berths"]]  # as far as a browser can
                assert all(str(value) in arguments for value in exact)
            await ask("What do the trams of Lisbon look like?")
            links, shown, images = await alike(LINKS, SHOWN, IMAGES)
            assert links[0] == ["Download image-1.svg", "data:image/svg+xml;b", "", "", "image-1.svg"]
            assert links[1:] == [[title, url[:20], *OUTSIDE] for title, url in SOURCES.items()]
            assert shown[0] == "Trams in Lisbon (opens in a new tab) en.wikipedia.org"
            assert images == [["Image 1 of this answer, made by the model", True]]
            monkeypatch.setattr(example, "script_of", lambda messages: (PICTURE_WIRE, hostile))
            await ask("Anything")
            links, shown = await alike(LINKS, SHOWN)
            assert links == [
                ["Download file-1.html", "data:text/html;base6", "", "", "file-1.html"],
                ["Download image-2.png", "data:image/png;base6", "", "", "image-2.png"],
                ["file-3.pdf", "https://one.example/", *OUTSIDE],
                ["<b>Two</b>", "https://two.example/", *OUTSIDE],
                ["https://one.example/", "https://one.example/", *OUTSIDE],
            ]
            assert [one.split(" (")[0] for one in shown] == ["<b>Two</b>", "https://one.example/", "A book"]
            (refused,) = browser.complaints  # the arguments that were too much
            assert "409 (Conflict)" in refused


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
            say(browser, "A weekend in Lisbon or Porto?")
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
