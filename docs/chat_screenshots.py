"""Makes the pictures of the example chat: ``python docs/chat_screenshots.py``, with Chromium installed.

The chat of ``examples/chat`` is served and used in a headless Chromium. Its times are those that the script of its
model plans, and the page's clock stands still, so that nothing differs from one run to the next.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from anyio.to_thread import run_sync

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "web")]

from served import serving  # noqa: E402  # the repository comes first
from view.browser import CHROMIUM, Browser  # noqa: E402

from examples.chat.app import page_app  # noqa: E402
from examples.chat.model import BOOK, LOOK  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
PAUSE_S = 0.05
PAUSES = {"get_weather": 12, "find_trains": 45}  # that a tool takes
ASKED = 27  # pauses, until three railways were asked
CHAT = "a-weekend-away"
SAID = "Two of us, a weekend in Lisbon or Porto: which one, and how do we get there from Madrid?"
CLOCK = """
Date.now = () => %(now)s;
const asked = window.fetch;
window.fetch = (address, options) => String(address).startsWith("times/")
  ? Promise.resolve(new Response(JSON.stringify({ now: %(now)s, runs: %(runs)s }))) : asked(address, options);
"""
UNTIL = "new Promise((done) => { const look = () => (%s) ? done(true) : setTimeout(look, 5); look(); })"
SAY = """
(() => { document.getElementById("text").value = %s; document.getElementById("form").requestSubmit();
  document.activeElement.blur(); })()
"""
ASKED_OF = 'document.querySelector(".call progress")?.value === %d'


def planned() -> tuple[dict[str, Any], float, float]:
    """Returns the times of the script in milliseconds; when the first picture is taken, and the second one."""
    marks: dict[str, Any] = {}
    now = end = 0.0
    for step, (message, (text, calls)) in enumerate(((1, LOOK), (3, BOOK))):
        now = end
        marks[f"{step}"] = {"from": now}
        now += len(re.findall(r"\S+", text))
        for index, (name, arguments) in enumerate(calls, 1):
            begun, now = now, now + -(-len(json.dumps(arguments)) // 5)
            call = marks[f"{step}/call_{message}_{index}"] = {"from": begun, "written": now}
            if name in PAUSES:
                call |= {"began": now, "to": now + PAUSES[name]}
                end = max(end, call["to"])
        marks[f"{step}"]["to"] = now
    asked = marks["0/call_1_2"]["began"] + ASKED
    tick = PAUSE_S * 1000
    scaled = {key: {mark: at * tick for mark, at in one.items()} for key, one in marks.items()}
    return scaled, asked * tick, now * tick


def until(marks: dict[str, Any], now: float) -> dict[str, Any]:
    """Returns the times that have come."""
    return {key: found for key, one in marks.items() if (found := {mark: at for mark, at in one.items() if at <= now})}


def take(browser: Browser, path: Path) -> None:
    """Takes a picture when nothing is drawn any more, while the server, which is in this loop, stands still."""
    taken = [b"", b"-"]
    browser.drawn()
    assert browser.run(f"{ASKED_OF % 3} || !!document.querySelector('.approve')"), "the machine is too slow: try again"
    while taken[-1] != taken[-2]:
        browser.drawn()
        browser.picture(path)
        taken.append(path.read_bytes())


async def main() -> int:
    """Writes the pictures; returns the exit status."""
    if CHROMIUM is None:
        print("there is no Chromium: apt install chromium", file=sys.stderr)
        return 1
    marks, asked, waiting = planned()
    with tempfile.TemporaryDirectory() as folder:
        for theme, now in (("light", asked), ("dark", waiting)):
            with Browser(Path(folder, theme)) as browser:
                runs = {f"{CHAT}/1": until(marks, now)}
                media = {"prefers-color-scheme": theme, "prefers-reduced-motion": "reduce"}
                features = [{"name": name, "value": value} for name, value in media.items()]
                browser.command("Emulation.setEmulatedMedia", features=features)
                script = CLOCK % {"now": now, "runs": json.dumps(runs)}
                browser.command("Page.addScriptToEvaluateOnNewDocument", source=script)
                async with serving(page_app(Path(folder, f"{theme}.db"), pause=3 * PAUSE_S)) as port:
                    address = f"http://127.0.0.1:{port}/#{CHAT}"
                    await run_sync(browser.open, address)
                    await run_sync(browser.run, SAY % json.dumps(SAID))
                    await run_sync(browser.run, UNTIL % (ASKED_OF % 2))
                    await run_sync(browser.visit, "about:blank")
                    await run_sync(browser.open, address)  # it now reads the planned times
                    if theme == "light":
                        await run_sync(browser.run, UNTIL % (ASKED_OF % 3))
                    else:
                        await run_sync(browser.run, UNTIL % '!!document.querySelector(".approve")')
                    take(browser, PICTURES / f"chat-{theme}.png")
                    await run_sync(browser.visit, "about:blank")
    return 0


if __name__ == "__main__":
    sys.exit(anyio.run(main))
