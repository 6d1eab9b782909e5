"""The page in a real browser: every question is answered within one click, nothing that a model wrote runs, and a long
run opens at once."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from decisions import decisions_on
from view.browser import Browser, needs_chromium
from view.seen_runs import HOSTILE, hostile_events, many_events, watched

from streamtools import pipeline, resume, tool
from streamtools.dispatch import MemoryStore
from streamtools.text import printable
from streamtools.view import Watch, draw, page

in_chromium = [needs_chromium, pytest.mark.thorough]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def opened(chromium: Browser, tmp_path: Path) -> Browser:
    """The run with every kind of trouble, opened in the browser."""
    watch = Watch("Trip")
    anyio.run(watched, watch)
    return shown(chromium, page(watch), tmp_path)


def shown(browser: Browser, html: str, folder: Path, query: str = "") -> Browser:
    path = folder / "run.html"
    path.write_bytes(html.encode("utf-8", "replace"))
    browser.complaints.clear()
    browser.requests.clear()
    browser.resize(1280, 800)
    browser.open(path.as_uri() + query)
    return browser


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


@pytest.mark.parametrize("question", [pytest.param(name, marks=in_chromium) for name in QUESTIONS])
def test_every_question_is_answered_with_one_click(opened: Browser, question: str) -> None:
    name, at, answer = QUESTIONS[question]
    opened.click(row_of(opened, name, at))
    assert re.search(answer, opened.text("#details")), opened.text("#details")
    assert opened.complaints == []


@needs_chromium
@pytest.mark.thorough
def test_the_run_is_summed_up_without_a_click(opened: Browser) -> None:
    answers = (r"Where the time went", r"Tokens\s", r"Calls\s+7", r"answered\s+3 of 7 calls failed", "It is planned")
    for answer in answers:
        assert re.search(answer, opened.text("body"))


@needs_chromium
@pytest.mark.thorough
def test_a_run_that_was_resumed_says_where_it_was_asked_for(chromium: Browser, tmp_path: Path) -> None:
    @tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    async def suspended(watch: Watch) -> None:
        body = b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":'
        body += b'{"name":"pay","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
        async with pipeline(body, tools=[pay], observers=[watch]) as events:
            async for _ in events:
                pass
        assert events.suspended is not None
        async with resume(
            events.suspended,
            tools=[pay],
            decisions=decisions_on(events.suspended, {"c1": True}),
            store=MemoryStore(),
            observers=[watch],
        ) as events:
            async for _ in events:
                pass

    watch = Watch()
    anyio.run(suspended, watch)
    shown(chromium, page(watch), tmp_path).click("s1")
    assert "It goes on with Step 1" in chromium.text("#details")


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
def test_a_screen_reader_finds_rows_and_tabs(opened: Browser) -> None:
    nodes = opened.command("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]}
    roles = {role for role, _ in named}
    assert {"tree", "treeitem", "tab", "tablist", "heading", "slider", "searchbox"} <= roles
    assert any(role == "treeitem" and "waited" in name and "for approval" in name for role, name in named)
    named_ones = ("treeitem", "tab", "button", "slider", "searchbox")
    assert not [role for role, name in named if role in named_ones and not name]


@needs_chromium
@pytest.mark.thorough
def test_a_reader_who_wants_less_motion_sees_moments_and_no_animation(opened: Browser) -> None:
    asked = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    opened.command("Emulation.setEmulatedMedia", features=asked)
    try:
        opened.run("play()")
        opened.drawn()
        moments = opened.run("(async () => { const seen = new Set(); for (let i = 0; i < 20; i++) { seen.add(now());"
                             " await new Promise(requestAnimationFrame); } return seen.size; })()")  # fmt: skip
        assert moments <= 2
        opened.run("state.playing && play()")
    finally:
        opened.command("Emulation.setEmulatedMedia", features=[])


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


CONTRAST = """
(() => {
  const linear = (c) => c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4;
  const light = (colour) => colour.slice(0, 3).map(linear)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const behind = (one) => { for (; one; one = one.parentElement) {
    const c = parts(getComputedStyle(one).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
  const found = [];
  for (const one of document.querySelectorAll("body *")) {
    if (![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) || !one.offsetParent) continue;
    if (one.closest("script, style, .skip, .hidden")) continue;
    const [a, b] = [light(parts(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.push(`${one.className || one.tagName}: ${one.textContent.slice(0, 30)}`);
  }
  return found;
})()
"""


@pytest.mark.parametrize("theme", [pytest.param(theme, marks=in_chromium) for theme in ("light", "dark")])
def test_every_text_stands_out_from_its_ground(opened: Browser, theme: str) -> None:
    opened.run(f"setTheme(THEMES.findIndex(([name]) => name === {theme!r}))")
    for name, at in (("get_rates", 0), ("pay", 1), ("find_hotel", 0), ("Step 2", 0)):
        opened.click(row_of(opened, name, at))
        assert opened.run(CONTRAST) == []
    opened.run("show('events')")
    assert opened.run(CONTRAST) == []


@pytest.mark.parametrize(
    "width", [pytest.param(width, marks=in_chromium) for width in (320, 360, 768, 1280, 2560, 3840)]
)
def test_nothing_sticks_out_at_any_width(opened: Browser, width: int) -> None:
    opened.resize(width, 800)
    opened.drawn()
    assert opened.run("document.documentElement.scrollWidth") <= width
    assert opened.run("byId('scroller').clientHeight") > 100
    opened.click(row_of(opened, "get_rates"))
    assert opened.run("byId('details').scrollWidth <= byId('details').clientWidth")


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


def test_a_page_made_twice_is_the_same() -> None:
    events = many_events(300)
    assert page(events) == page(draw(events))
    assert '"title":"Mine"' in page(events, title="Mine")
