"""The page as the conversation beside time, in a real browser: what its first screen answers, that it says nothing
wrong, how every call is reached, and what can be taken away."""

from __future__ import annotations

import base64
import json
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from view.browser import Browser, needs_chromium
from view.seen_runs import many_events, stamped, watched
from view.ten_runs import seen, ten_kinds

from streamtools.events import (
    Event,
    Observation,
    StepEnd,
    StepStart,
    StreamEnd,
    StreamStart,
    ToolCallEnd,
    ToolCallStart,
    ToolCallValidated,
    ToolStarted,
)
from streamtools.parts import ToolCall
from streamtools.view import Watch, draw, page
from streamtools.view.drawing import Drawing
from streamtools.view.picture import Picture

pytestmark = [needs_chromium, pytest.mark.thorough]

AXE = Path(__file__).parent.parent.parent / ".node-web" / "node_modules" / "axe-core" / "axe.min.js"
IN_SIGHT = """
((word) => {
  const inside = (box, frame) => box.left >= frame.left - 1 && box.right <= frame.right + 1
    && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
  const seen = (range) => {
    const box = range.getBoundingClientRect();
    if (!box.width || !inside(box, { left: 0, top: 0, right: innerWidth, bottom: innerHeight })) return false;
    for (let one = range.startContainer.parentElement; one !== document.body; one = one.parentElement) {
      const style = getComputedStyle(one);
      if (style.visibility === "hidden") return false;
      if (style.overflow !== "visible" && !inside(box, one.getBoundingClientRect())) return false;
    }
    return true;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const at = node.data.indexOf(word);
    if (at < 0 || node.parentElement.closest("script, style")) continue;
    const range = document.createRange();
    range.setStart(node, at);
    range.setEnd(node, at + word.length);
    if (seen(range)) return true;
  }
  return false;
})
"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def shown(browser: Browser, html: str, folder: Path, query: str = "") -> Browser:
    path = folder / "run.html"
    path.write_bytes(html.encode("utf-8", "replace"))
    browser.complaints.clear()
    browser.resize(1280, 800)
    browser.open(path.as_uri() + query)
    browser.drawn()
    return browser


def troubled_run() -> str:
    watch = Watch("Trip")
    anyio.run(watched, watch)
    return page(watch)


def test_the_first_screen_answers_five_questions_about_each_of_ten_runs(chromium: Browser, tmp_path: Path) -> None:
    missing = []
    for name, kind in ten_kinds().items():
        shown(chromium, page(anyio.run(seen, kind)), tmp_path)
        missing += [(name, word) for word in kind.words if not chromium.run(f"{IN_SIGHT}({json.dumps(word)})")]
        assert chromium.complaints == []
    print(f"{50 - len(missing)} of 50 questions are answered on the first screen", missing)
    assert len(missing) <= 10


# -- what is shown is true ---------------------------------------------------------------------------------------------

CAPTIONS_ON_BARS = """
[...document.querySelectorAll(".row")].flatMap((row) => {
  const boxes = (kind) => [...row.querySelectorAll(kind)].map((one) => one.getBoundingClientRect());
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5;
  const bars = boxes(".seg:not(.line)"), track = row.querySelector(".track").getBoundingClientRect();
  const outside = boxes(".caption").filter((one) => one.left < track.left - 1 || one.right > track.right + 1);
  const over = boxes(".caption").filter((one) => bars.some((bar) => meet(one, bar)));
  return [...over, ...outside].map(() => row.innerText);
})
"""
COLOURS = """
(() => {
  const ground = (one) => getComputedStyle(one).backgroundColor;
  const legend = Object.fromEntries([...document.querySelectorAll(".legend .swatch")].map(
    (one) => [one.className.replace("swatch ", ""), ground(one)]));
  return [...document.querySelectorAll(".row.step .seg:not(.whole)")].map(
    (one) => [one.className, legend[one.className.replace("seg ", "")] === ground(one)]);
})()
"""
ALIGNED = """
((time) => {
  moveTo(time);
  render();
  const scrub = byId("scrub"), box = scrub.getBoundingClientRect(), thumb = 14;
  const at = box.left + thumb / 2 + (scrub.value / scrub.max) * (box.width - thumb);
  const axis = byId("axis").getBoundingClientRect();
  const head = document.querySelector(".playhead").getBoundingClientRect().left;
  return [at, axis.left + share(time) * axis.width, head];
})
"""


def test_the_page_says_nothing_that_is_wrong(chromium: Browser, tmp_path: Path) -> None:
    kinds = ten_kinds()
    pages = {"trip": troubled_run(), **{name: page(anyio.run(seen, kinds[name])) for name in ("failure", "approval")}}
    for name, html in pages.items():
        shown(chromium, html, tmp_path)
        for window in ("fit()", "zoom(0.4, 0.2)", "zoom(0.5, 0.9)", "pan(0.3)"):
            chromium.run(window)
            for width in (1000, 1280, 2560):
                chromium.resize(width, 800)
                chromium.drawn()
                assert chromium.run(CAPTIONS_ON_BARS) == [], (name, window, width)
        chromium.resize(1280, 800)
        chromium.run("fit()")
        chromium.drawn()
        colours = chromium.run(COLOURS)
        assert colours
        assert [kind for kind, same in colours if not same] == []
        for part in (0.1, 0.45, 0.8):
            at, on_axis, head = chromium.run(f"{ALIGNED}({part} * model.length)")
            assert abs(at - on_axis) < 1.5
            assert abs(at - head) < 2.5
    shown(chromium, pages["failure"], tmp_path)
    assert chromium.text("#verdict").split("\n") == ["answered", "1 of 2 calls failed"]
    assert chromium.run("document.querySelector('#verdict .badge').className") == "badge good"
    assert chromium.run("document.querySelectorAll('.arrow').length") == 0  # they are for those who ask
    # A moment before the second call: it has not begun, and nothing of its end is said.
    chromium.run("moveTo(model.calls[1].start - 1)")
    chromium.drawn()
    row = chromium.text("#row-c1")
    assert "not begun" in row
    assert "no such city" not in row
    chromium.click("c1")
    assert "not begun" in chromium.text("#details h2")
    chromium.run("moveTo(Infinity)")
    chromium.drawn()
    assert re.search("Atlantis\\s+failed\\s+.*no such city", chromium.text("#row-c1"))
    assert "The model was told: “Error: the tool get_weather raised LookupError”" in chromium.text("#row-c1")
    # What waits for a person was told to nobody.
    shown(chromium, page(anyio.run(seen, kinds["suspended"])), tmp_path)
    assert "The model was told" not in chromium.text("body")


# -- unequal durations -------------------------------------------------------------------------------------------------


def long_run() -> list[Event]:
    """A call of ten minutes with six of 2 ms beside it, and a step an hour later."""
    events: list[Event] = [StepStart("long"), StreamStart("w", "m")]
    times = [0.0, 0.1]
    for number in range(7):
        name, call_id = ("build", "b") if number == 0 else ("ping", f"p{number}")
        call = ToolCall(call_id=call_id, name=name, index=number, arguments_text="{}", status="ready")
        events += [ToolCallStart(call_id, name, index=number), ToolCallEnd(call), ToolCallValidated(call)]
        times += [0.2, 0.2, 0.2]
    events.append(ToolStarted("b", "build"))
    times.append(0.3)
    for number in range(1, 7):
        events += [
            ToolStarted(f"p{number}", "ping"),
            Observation(call_id=f"p{number}", tool_name="ping", outcome="ok", model_content="pong", index=number),
        ]
        times += [300.0 + number, 300.002 + number]
    events += [Observation(call_id="b", tool_name="build", outcome="ok", model_content="done"), StreamEnd("tool_calls")]
    events += [StepEnd(), StepStart("long"), StreamStart("w", "m"), StreamEnd("stop"), StepEnd()]
    times += [600.0, 600.1, 600.2, 4200.0, 4200.5, 4260.0, 4260.1]
    for event, time in zip(stamped(events), times, strict=True):
        if hasattr(event, "time"):
            object.__setattr__(event, "time", 50 + time)
    return events


def pointed(browser: Browser, selector: str, to: float | None = None, *, clicks: int = 1, at: float = 0.5) -> None:
    """Clicks an element at a share of its width, or drags from there to another share."""
    box = browser.run(f"(({{left, top, width, height}}) => [left, top, width, height])"
                      f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")  # fmt: skip
    x, y = box[0] + at * box[2], box[1] + min(box[3] / 2, 12)
    button: dict[str, Any] = {"button": "left", "buttons": 1, "clickCount": 1}
    for number in range(1, clicks + 1):
        browser.command("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, **{**button, "clickCount": number})
        end = x if to is None else box[0] + to * box[2]
        if to is not None:
            for part in (0.3, 0.7, 1):
                where = x + (end - x) * part
                browser.command("Input.dispatchMouseEvent", type="mouseMoved", x=where, y=y, button="left", buttons=1)
        browser.command(
            "Input.dispatchMouseEvent", type="mouseReleased", x=end, y=y, **{**button, "clickCount": number}
        )
    browser.drawn()


WIDTH = "(document.querySelector('#row-{ref} .try')?.getBoundingClientRect().width ?? 0)"


def test_every_duration_can_be_read_within_two_actions(chromium: Browser, tmp_path: Path) -> None:
    shown(chromium, page(draw(long_run())), tmp_path)
    # Idle time is folded, with a mark that says how much.
    assert "59 min 59 s" in chromium.text("#axis") or "60 min 0 s" in chromium.text("#axis")
    assert chromium.run("share(model.steps[1].start)") > 0.5
    assert chromium.run("share(model.steps[1].end) - share(model.steps[1].start)") > 0.05
    # Two actions: open the row of equal calls, double click one of them.
    assert "ping ×6" in chromium.text("#row-g1")
    pointed(chromium, "#row-g1 .name")
    assert chromium.run(WIDTH.format(ref="c4")) < 5
    pointed(chromium, "#row-c4 .name", clicks=2)
    assert chromium.run("state.selected") == "c4"
    assert chromium.run(WIDTH.format(ref="c4")) > 100
    chromium.run("fit()")
    # The pointer's place stays where it is while the wheel zooms.
    chromium.drawn()
    before = chromium.run("timeAt(0.25)")
    x = chromium.run("byId('axis').getBoundingClientRect().left + byId('axis').clientWidth * 0.25")
    chromium.command("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=500, deltaX=0, deltaY=-240, modifiers=2)
    chromium.drawn()
    assert abs(chromium.run("timeAt(0.25)") - before) < 1e6
    assert chromium.run("state.to - state.from") < chromium.run("scale.length") * 0.6
    # The strip above has a window: a drag makes one, another moves it; a double click shows all.
    chromium.run("fit()")
    chromium.drawn()
    pointed(chromium, "#strip", 0.4, at=0.2)
    assert abs(chromium.run("state.from / scale.length / ROOM") - 0.2) < 0.02
    pointed(chromium, "#strip", 0.5, at=0.3)
    assert abs(chromium.run("state.from / scale.length / ROOM") - 0.4) < 0.02
    pointed(chromium, "#axis", 0.75, at=0.25)
    assert abs(chromium.run("state.from / scale.length / ROOM") - 0.45) < 0.02
    pointed(chromium, "#strip", clicks=2, at=0.9)
    assert chromium.run("state.from") == 0
    # Steps fold, one by one and all at once.
    pointed(chromium, "#row-s0 .caret")
    assert chromium.run("[!!byId('row-c0'), byId('row-s0').ariaExpanded]") == [False, "false"]
    assert "7 calls folded" in chromium.text("#row-s0")
    pointed(chromium, "#fold")
    pointed(chromium, "#fold")
    pointed(chromium, "#idle")
    assert chromium.run("share(model.steps[1].start)") > 0.9
    # 120 calls with 24 equal failures are a row.
    shown(chromium, page(anyio.run(seen, ten_kinds()["many equal calls"])), tmp_path)
    assert chromium.run("model.rows.length") == 4
    assert re.search("fetch ×120\\s+96 ok\\s+24 failed: TimeoutError", chromium.text("#row-g0"))


# -- what can be taken away --------------------------------------------------------------------------------------------

COPIED = """
(async (word) => {
  navigator.clipboard.writeText = async (text) => { window.copied = text; };
  [...document.querySelectorAll(".copy")].find((one) => one.textContent === word).click();
  await new Promise(requestAnimationFrame);
  return window.copied;
})
"""
HARD = {
    "city": 'T\u202eo"kyo\n\u2028',
    "big": 12345678901234567890,
    "flag": True,
    "none": None,
    "deep": [1.5, {"a": []}],
}


def test_a_call_can_be_linked_to_and_copied(chromium: Browser, tmp_path: Path) -> None:
    for given, result in ((HARD, '{"sky": null}'), ({**HARD, "class": [{}]}, "7 degrees"), ({}, "true")):
        text = json.dumps(given).replace('{"city"', '{"city": 1, "city"')  # the last one is meant
        call = ToolCall(call_id="c", name="get_weather", arguments_text=text, status="ready")
        events = [StepStart("r"), StreamStart("w", "m"), ToolCallStart("c", "get_weather"), ToolCallEnd(call)]
        events += [ToolCallValidated(call), StreamEnd("tool_calls"), ToolStarted("c", "get_weather")]
        events += [
            Observation(call_id="c", tool_name="get_weather", outcome="ok", model_content=result),
            StepEnd(),
        ]
        shown(chromium, page(draw(stamped(events))), tmp_path)
        chromium.click("c0")
        assert chromium.run("location.hash") == "#c0"
        record = json.loads(chromium.run(f"{COPIED}('as JSON')"))
        assert {**record["arguments"], "big": 0} == {**given, "big": 0} or given == {}
        assert (record["name"], record["outcome"], record["result"]) == ("get_weather", "ok", result)
        test = chromium.run(f"{COPIED}('Copy as test')")
        assert "\u202e" not in test
        asked = run_copied(test, "7 degrees" if result == "7 degrees" else json.loads(result))
        assert asked == [given]
        assert chromium.run(f"{COPIED}('link')") == chromium.run("location.href")
    chromium.open(chromium.run("location.href.replace('#c0', '')") + "?theme=dark#c0")
    assert "get_weather" in chromium.text("#details h2")
    chromium.run("location.hash = '#s0'")
    chromium.drawn()
    assert "Step 1" in chromium.text("#details h2")
    assert chromium.complaints == []


def run_copied(source: str, result: object) -> list[dict[str, Any]]:
    """Runs a copied test with a tool that returns a result; returns the arguments that the tool was given."""
    asked: list[dict[str, Any]] = []

    async def get_weather(**given: Any) -> object:
        asked.append(given)
        return result

    tools = types.ModuleType("your_tools")
    tools.get_weather = get_weather  # type: ignore[attr-defined]
    sys.modules["your_tools"] = tools
    try:
        room: dict[str, Any] = {}
        exec(compile(source, "copied", "exec"), room)
    finally:
        del sys.modules["your_tools"]
    anyio.run(next(value for name, value in room.items() if name.startswith("test_get_weather")))
    return asked


def test_every_step_is_printed(chromium: Browser, tmp_path: Path) -> None:
    shown(chromium, page(anyio.run(seen, ten_kinds()["fifty steps"])), tmp_path)
    count = "window.printed = [...document.querySelectorAll('.row')].map((row) => row.ariaPosInSet)"
    chromium.run(f"addEventListener('beforeprint', () => {{ {count}; }})")
    paper = base64.b64decode(chromium.command("Page.printToPDF", printBackground=True)["data"])
    assert chromium.run("window.printed") == [str(at) for at in range(1, 101)]  # all, in their order
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) >= 3
    chromium.drawn()
    assert chromium.run("document.querySelectorAll('.row').length") < 60


def test_an_audit_of_accessibility_finds_nothing(chromium: Browser, tmp_path: Path) -> None:
    if not AXE.exists():
        pytest.skip("NOT AUDITED: axe-core is not here; `make test-web` installs it")
    html, found = troubled_run(), []
    for theme in ("light", "dark"):
        shown(chromium, html, tmp_path, f"?theme={theme}")
        chromium.run(AXE.read_text(encoding="utf-8"))
        for state in ("fit()", "select('c3')", "toggleKeys()", "moveTo(model.length / 2)", "show('events')"):
            chromium.run(state)
            chromium.drawn()
            violations = chromium.run("axe.run().then(({violations}) => violations.map("
                                "(one) => [one.id, one.nodes.map((node) => node.html.slice(0, 120))]))")  # fmt: skip
            found += [(theme, state, one) for one in violations]
    assert found == []


# -- a million events --------------------------------------------------------------------------------------------------

FRAMES = """
(async () => {
  const spent = [];
  play();
  for (let frame = 0; frame < 100; frame++) {
    await new Promise(requestAnimationFrame);
    const began = performance.now();
    moveTo(now());
    render();
    spent.push(performance.now() - began);
  }
  play();
  return spent.sort((one, other) => one - other);
})()
"""


@pytest.mark.deadline(300)
def test_a_run_of_a_million_events_is_a_page_of_40_mb(chromium: Browser, tmp_path: Path) -> None:
    drawing = Drawing(Picture("million", max_events=2_000_000, max_chars=100_000_000))
    events = many_events(1_000_000)
    for event in events:
        drawing.feed(event)
    html = page(drawing.finish())
    size = len(html.encode()) / 1e6
    chromium.command("Performance.enable", timeDomain="threadTicks")
    shown(chromium, html, tmp_path)
    metrics = {one["name"]: one["value"] for one in chromium.command("Performance.getMetrics")["metrics"]}
    ready = int(chromium.run("document.documentElement.dataset.ready"))
    frames = chromium.run(FRAMES)
    print(f"{len(events):,} events: {size:.1f} MB, ready after {ready} ms ({metrics['TaskDuration']:.2f} s of the"
          f" thread's time), a frame's script {frames[50]:.1f} ms, 95 of 100 within {frames[95]:.1f} ms")  # fmt: skip
    assert size <= 40
    assert chromium.run("eventOrder().length") == len(events)
    assert chromium.run("document.querySelectorAll('.row').length") < 100
    assert chromium.run("textOf(model.pieces.at(-1))") == '{"value": "' + "x" * 120 + '"}'
    assert chromium.run("model.marks.at(-1)[0]") == len(events) - 1
    assert chromium.run("groupOf(Array(200000).fill(model.calls[0])).end === model.calls[0].end") is True
