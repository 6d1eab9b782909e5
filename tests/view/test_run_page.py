"""The page in a real browser: every question is answered within one click, nothing that a model wrote runs, and a long
run opens at once."""

from __future__ import annotations

import json
import re
import sys
import types
import unicodedata
from pathlib import Path
from typing import Any

import anyio
import pytest
from profiles import every
from view.browser import Browser, needs_chromium, shown
from view.seen_runs import HOSTILE, hostile_events, many_events, stamped, watched

from streamtools.events import (
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
from streamtools.ground.text import printable
from streamtools.parts import ToolCall
from streamtools.view import Watch, draw, page


@pytest.fixture
def opened(chromium: Browser, tmp_path: Path) -> Browser:
    """The run with every kind of trouble, opened in the browser."""
    watch = Watch("Trip")
    anyio.run(watched, watch)
    return shown(chromium, page(watch), tmp_path)


def row_of(browser: Browser, name: str, at: int = 0) -> str:
    """The `ref` of a row of the timeline, by the name of its call."""
    rows = browser.run(f"model.rows.filter((row) => nameOf(row.lane) === {name!r}).map((row) => row.ref)")
    return str(rows[at])


QUESTIONS = {
    "which response caused this call?": ("pay", 0, r"Asked for by\s+Step 2"),
    "which text in it?": ("pay", 0, r"After this text\s+Paying\."),
    "which result in it?": ("pay", 0, r"The model had these results:\s+get_weather"),
    "which results fed this answer?": ("Step 2", 0, r"Fed by\s+([\w ]+ of step 1\s+[\w ]+\s+){4}"),
    "what did it wait for?": ("pay", 0, r"Waited\s+(.*\s+)?[\d.]+ \S+ for approval"),
    "what did the answer cost?": ("Step 1", 0, r"Cost\s"),
    "why did it not run?": ("find_hotel", 0, r"Why it did not run\s+UnknownTool: unknown tool 'find_hotel'"),
    "why was it not allowed?": ("pay", 1, r"CallDenied: .*too much"),
    "which attempt failed, why?": (
        "get_rates",
        0,
        r"Attempts\s+1\. .* ConnectionError, tried again after .*\s+2\. .* ConnectionError, .*\s+3\. .* ok",
    ),
    "where did the step's time go?": ("Step 2", 0, r"Where the time went\s+model answers"),
}
"""The questions that are asked of a run at night, the row to click on, and the answer's text."""


@needs_chromium
@pytest.mark.thorough
@every("question", QUESTIONS)
def test_every_question_is_answered_with_one_click(opened: Browser, question: str) -> None:
    name, at, answer = QUESTIONS[question]
    opened.click(row_of(opened, name, at))
    assert re.search(answer, opened.text("#details")), opened.text("#details")
    assert opened.complaints == []


@needs_chromium
@pytest.mark.thorough
def test_nothing_that_a_model_or_tool_wrote_runs_or_loads(chromium: Browser, tmp_path: Path) -> None:
    shown(chromium, page(draw(hostile_events())), tmp_path)
    for tab in ("timeline", "events"):
        chromium.run(f"show({tab!r})")
        chromium.drawn()
    chromium.run("show('timeline')")
    for ref in ("s0", "c0"):
        chromium.click(ref)
    chromium.run("byId('search').value = 'onerror'; search()")
    chromium.run("moveTo(0.004e6)")
    chromium.drawn()
    assert "owned" not in str(chromium.run("document.title")).split("·")[-1]
    assert chromium.run("document.querySelectorAll('img, iframe, object, embed, base').length") == 0
    assert chromium.run("document.scripts.length") == 2
    assert "<img src=x onerror" in chromium.text("#details")
    assert chromium.complaints == []
    assert [url for url in chromium.requests if not url.startswith("file:")] == []


TURNING = r"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
VISIBLE = TURNING + r"\u200b\u2060\ufeff\xad\x1b\x9b\r\U000e0041"
INVISIBLE = VISIBLE.encode().decode("unicode_escape")
ON_THE_PAGE = """
[document.title, document.body.innerText, ...[...document.body.querySelectorAll("*")].flatMap(
  (one) => one.matches("script") ? [] : [one.textContent, ...[...one.attributes].map((attribute) => attribute.value)])]
"""


@needs_chromium
@pytest.mark.thorough
def test_no_text_turns_the_direction_of_writing_or_hides_on_the_page(chromium: Browser, tmp_path: Path) -> None:
    arguments = json.dumps({INVISIBLE: INVISIBLE})  # they are read, and then shown in lines
    shown(chromium, page(draw(hostile_events(INVISIBLE, arguments=arguments)), title=INVISIBLE), tmp_path)
    seen: list[str] = []
    for tab in ("timeline", "events"):
        chromium.run(f"show({tab!r})")
        chromium.drawn()
        seen += chromium.run(ON_THE_PAGE)
    chromium.run("show('timeline')")
    for ref in ("s0", "c0"):
        chromium.click(ref)
        assert VISIBLE in chromium.text("#details")
        seen += chromium.run(ON_THE_PAGE)
    assert f': "{TURNING}' in chromium.text("#growing")
    for time in range(12):
        chromium.run(f"moveTo({time}e3)")
        chromium.drawn()
        seen += chromium.run(ON_THE_PAGE)
    assert [text for text in seen if not set(text).isdisjoint(INVISIBLE)] == []
    assert chromium.run("document.title") == f"{VISIBLE} · streamtools"
    assert chromium.complaints == []


@needs_chromium
@pytest.mark.thorough
def test_the_page_escapes_what_the_terminal_escapes_but_for_tabs(chromium: Browser, tmp_path: Path) -> None:
    shown(chromium, page([]), tmp_path)
    texts = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")]
    escaped = chromium.run(f"{json.dumps(texts)}.map(shown)")
    differing = [one for one, here in zip(texts, escaped, strict=True) if here != printable(one)]
    assert differing == ["\t"]
    assert chromium.run("shown('a\\ud83d')") == "a\ufffd"


@needs_chromium
@pytest.mark.thorough
def test_the_policy_refuses_a_script_that_got_in_all_the_same(chromium: Browser, tmp_path: Path) -> None:
    html = page(draw(hostile_events())).replace("</body>", "<script>document.title = 'owned'</script></body>")
    shown(chromium, html, tmp_path)
    assert chromium.run("document.title") != "owned"
    assert any("Content Security Policy" in told for told in chromium.complaints)


@needs_chromium
@pytest.mark.thorough
def test_a_run_of_many_events_opens_within_two_seconds(chromium: Browser, tmp_path: Path) -> None:
    events = many_events(100_000)
    html = page(draw(events))
    assert len(html.encode()) <= 15_000_000
    shown(chromium, html, tmp_path)
    assert int(chromium.run("document.documentElement.dataset.ready")) <= 2000
    assert chromium.run("document.querySelectorAll('.row').length") < 100
    assert chromium.run("eventOrder().length") == len(events)
    chromium.run("byId('scroller').scrollTop = 1e6")
    chromium.drawn()
    assert chromium.run("model.rows.length") > 200
    assert chromium.run("pool.has(model.rows.at(-1).key)")


@needs_chromium
@pytest.mark.thorough
def test_arguments_grow_as_the_moment_moves(opened: Browser) -> None:
    ref = row_of(opened, "get_weather")
    opened.click(ref)
    call = opened.run(f"laneOf({ref!r})")
    lengths = []
    for part in (0, 0.3, 0.7, 1):
        opened.run(f"moveTo({call['start']} + {part} * ({call['whole']} - {call['start']}))")
        opened.drawn()
        lengths.append(len(opened.text("#growing")))
    assert '"Lisbon"' in opened.text("#growing")
    assert opened.text("#moment")


@needs_chromium
@pytest.mark.thorough
def test_everything_can_be_reached_with_the_keyboard_and_is_told_to_a_screen_reader(opened: Browser) -> None:
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        press(opened, key)
    assert opened.run("state.selected") == "c0"
    assert opened.run("byId('scroller').getAttribute('aria-activedescendant')") == "row-c0"
    assert "get_weather" in str(opened.run("byId('row-c0').textContent"))
    press(opened, "n")
    assert opened.run("moodOf(laneOf(state.selected))") == "bad"
    press(opened, "2")
    assert opened.run("document.querySelectorAll('.event.boundary').length") > 5
    nameless = (
        "[...document.querySelectorAll('button, input')].filter((one) => !one.textContent && !one.ariaLabel).length"
    )
    assert opened.run(nameless) == 0
    press(opened, "/")
    assert opened.run("document.activeElement.id") == "search"


def press(browser: Browser, key: str) -> None:
    browser.run(f"document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{key: {key!r}, bubbles: true}}))")
    browser.drawn()


@needs_chromium
@pytest.mark.thorough
@every("width", (320, 768, 1280, 3840))
def test_nothing_sticks_out_at_any_width(opened: Browser, width: int) -> None:
    opened.resize(width, 800)
    opened.drawn()
    assert opened.run("document.documentElement.scrollWidth") <= width
    assert opened.run("byId('scroller').clientHeight") > 100
    opened.click(row_of(opened, "get_rates"))
    assert opened.run("byId('details').scrollWidth <= byId('details').clientWidth")


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


@needs_chromium
@pytest.mark.thorough
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


def test_the_page_needs_nothing_else() -> None:
    html = page(draw(hostile_events()))
    assert re.findall(r"(?:src|href)\s*=\s*[\"'](?!#)", html.partition('<script type="application/json"')[0]) == []
    assert "default-src 'none'" in html
    assert "http://www.w3.org/2000/svg" in html  # a name, not an address that is asked
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", html) == []


def test_no_text_can_end_the_element_that_holds_the_data() -> None:
    html = page(draw(hostile_events()))
    data = html.partition('id="data">')[2].partition("</script>")[0]
    assert "<" not in data
    assert data.endswith("}")
    assert HOSTILE[:9] not in data
