"""The pages say what the code does."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import targets
from streamtools import Limits
from streamtools.parts import OUTCOMES, RUN_OUTCOMES
from streamtools.warning_codes import WARNINGS
from streamtools.wires import WIRES

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"
MADE = re.compile(r"<!-- (?:tolerances|exports|dialects|words): \S+ -->.*?<!-- end -->", re.DOTALL)
"""A table that the code has made."""


def test_every_warning_code_has_its_row_and_each_fault_and_outcome_advice() -> None:
    page = (DOCS / "see" / "debugging.md").read_text(encoding="utf-8")
    assert [code for code in WARNINGS if f"`{code}`" not in page] == []
    advice = MADE.sub("", page)
    assert [code for code, one in WARNINGS.items() if one.severity == "fault" and f"`{code}`" not in advice] == []
    assert [outcome for outcome in OUTCOMES if outcome != "ok" and f"\n| `{outcome}` |" not in advice] == []
    runs = MADE.sub("", (DOCS / "reference" / "limits.md").read_text(encoding="utf-8"))
    assert [outcome for outcome in RUN_OUTCOMES if f"`{outcome}`" not in runs] == []


def test_the_limits_that_the_page_about_threats_names_exist_and_those_that_can_be_off_are_all_there() -> None:
    page = (REPOSITORY / "docs" / "threats.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"can be turned off by an explicit None:\s+(.*?)\.", page, re.DOTALL)
    optional = {field.name for field in fields(Limits) if str(field.type).endswith("| None")}
    assert set(re.findall(r"`(\w+)`", sentence)) == optional
    named = set(re.findall(r"`(max_\w+|idle_timeout|tool_timeout)`", page))
    assert named <= {field.name for field in fields(Limits)}


@cache
def script(name: str) -> ModuleType:
    """A program that writes something into the pages."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tables() -> ModuleType:
    """The program that writes the tables."""
    return script("tables")


def test_the_tables_of_the_pages_are_those_of_the_code() -> None:
    for path in tables().PAGES:
        written = path.read_text(encoding="utf-8")
        made = tables().with_tables(written)
        if sys.version_info >= (3, 13):  # whose argparse writes `-o, --output FILE`, and breaks lines otherwise
            written = re.sub(r"(-\w) ([A-Z]+), (--[\w-]+) \2", r"\1, \3 \2", written)
            made, written = " ".join(made.split()), " ".join(written.split())
        assert made == written, "run: python docs/tables.py"


def test_the_page_of_figures_has_those_that_were_measured() -> None:
    written = targets.PAGE.read_text(encoding="utf-8")
    assert targets.page(written, *targets.load()) == written, "run: python -m benchmarks.targets"


def test_what_loops_do_with_the_same_bytes_is_what_was_measured() -> None:
    same = script("same_bytes")
    for page in same.PAGES:
        written = page.read_text(encoding="utf-8")
        assert same.table() in written
        assert same.with_table(written) == written, "run: python docs/same_bytes.py"


# -- the pages about wires ---------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:Async generator '(openai|httpx2)\\.:ResourceWarning")  # the SDK leaves its own open
def test_the_moving_picture_is_what_both_loops_do_on_a_mock_clock() -> None:
    pytest.importorskip("openai", reason="THERE IS NO OPENAI SDK: the moving picture was not made again")
    picture = script("moving_picture")
    sdk, ours = picture.measured()
    assert picture.PICTURE.read_text(encoding="utf-8") == picture.drawn([sdk, ours]), "python docs/moving_picture.py"
    written = sdk.writes[0][1]
    assert min(began for began, _ in sdk.runs.values()) >= written
    assert all(abs(ours.runs[call][0] - ours.arguments[call][1]) < 1e-6 for call in ours.runs)


def test_every_wire_has_its_row_its_section_and_its_table_of_deviations() -> None:
    rows, sections, deviations = (
        (DOCS / "providers" / name).read_text(encoding="utf-8") for name in ("index.md", "wires.md", "deviations.md")
    )
    assert re.findall("<!-- tolerances: (.*) -->", deviations) == ["bodies", "calls", *WIRES]
    linked = dict(re.findall(r"^\| \[`([\w.]+)`\]\(wires\.md#([\w-]+)\) \|", rows, re.MULTILINE))
    assert list(linked) == [*WIRES]
    assert {*linked.values()} < headings_of(sections)
    assert [wire for wire in WIRES if f"`{wire}`" not in sections and f'"{wire}"' not in sections] == []


# -- links -------------------------------------------------------------------------------------------------------------


def test_links_between_the_pages_lead_somewhere() -> None:
    pages = {page: prose_of(page) for page in [*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md")]}
    for page, prose in pages.items():
        for target, _, heading in (link.partition("#") for link in re.findall(r"\]\((?!https?:)([^)]+)", prose)):
            path = (page.parent / target).resolve() if target else page
            assert path.exists(), f"{page.name}: {target}"
            assert not heading or heading in headings_of(pages[path]), f"{page.name}: {target}#{heading}"


def test_what_has_moved_leads_to_a_page_or_heading_and_leaves_no_page_behind() -> None:
    for old, new in tomllib.loads((DOCS / "moved.toml").read_text(encoding="utf-8")).items():
        page, _, heading = new.partition("#")
        assert heading in {"", *headings_of(prose_of(DOCS / page))}, new
        page, _, heading = old.partition("#")
        assert not (DOCS / page).exists() or heading not in {"", *headings_of(prose_of(DOCS / page))}, old


def test_a_redirect_leads_old_headings_to_their_new_places() -> None:
    assert script("redirects").script("guide/retries.md", {"": "guide/errors.md#retry", "#when": "see/new.md"}) == (
        '<script>{const to = {"#when": "../../see/new/"}[location.hash] ?? "../errors/#retry"; '
        "if (to) location.replace(to)}</script>"
    )


# -- size and words ----------------------------------------------------------------------------------------------------

FOR_DEVELOPERS = {"architecture.md", "internals.md", "figures.md", "dependencies.md", "threats.md"}
"""Pages that nobody has to read who uses the library."""
FIRST_WEEK = ("turn", "run", "store", "journal", "recording", "suspended")


def for_users() -> list[Path]:
    return [page for page in sorted(DOCS.rglob("*.md")) if page.name not in FOR_DEVELOPERS]


def test_the_pages_for_users_are_few_and_short() -> None:
    assert len(for_users()) <= 45
    words = {page: words_of(prose_of(page)) for page in for_users()}
    by_hand = {page: words_of(MADE.sub("", prose_of(page))) for page in for_users()}
    assert [page.name for page, count in by_hand.items() if count > 2000] == []
    assert sum(words.values()) <= 45_000


def test_the_table_of_contents_has_every_page() -> None:
    nav = (DOCS / "site.toml").read_text(encoding="utf-8")
    listed = re.findall(r'= "([\w/-]+\.md)"', nav)
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert len(listed) == len(set(listed))
    assert pages | {"examples/index.md", "security.md", "conventions.md", "changelog.md"} == set(listed)


def test_a_how_to_shows_code_on_its_first_screen() -> None:
    guides = [page for page in for_users() if page.parent.name in ("start", "guide", "web", "see", "providers")]
    late = [page.name for page in guides if page.read_text(encoding="utf-8").partition("\n```")[0].count("\n") > 16]
    assert late == []


def test_the_glossary_is_one_screen_and_begins_with_the_words_of_the_first_week() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    words = [row for row in rows if row != "word"]
    assert tuple(words[:6]) == FIRST_WEEK
    assert len(words) <= 25
    in_words = {page.name: re.sub("`[^`]*`", "", prose_of(page)) for page in for_users()}
    assert [name for name, text in in_words.items() if re.search(r"\btickets?\b", text, re.IGNORECASE)] == []


def test_a_table_begins_after_an_empty_line() -> None:
    """Otherwise the site shows its text in one paragraph."""
    for page in [REPOSITORY / "README.md", *DOCS.rglob("*.md")]:
        lines = prose_of(page).splitlines()
        for at in (at for at, line in enumerate(lines) if line.startswith("|---")):
            before, head = lines[at - 2 : at]
            assert head.startswith("|"), f"{page.name}: {head}"
            assert not before or before.startswith("<!--"), f"{page.name}: {before}"


@cache
def prose_of(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def words_of(prose: str) -> int:
    return sum(1 for word in re.sub("<!--.*?-->", "", prose).split() if re.search(r"\w", word))


def headings_of(prose: str) -> set[str]:
    """The anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.*)", prose, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
