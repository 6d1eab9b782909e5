"""The pages say what the code does."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from named_tests import missing
from sansio import DATA, QUIRKS, body_of

from streamtools import parse
from streamtools.warning_codes import WARNINGS
from streamtools.wires import WIRES

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"
SOURCES = sorted((REPOSITORY / "streamtools").rglob("*.py"))


@pytest.mark.parametrize("page", ["guide/parallel-calls.md", "guide/exactly-once.md"])
def test_a_page_names_tests_that_exist_for_its_promises(page: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py::\w+)`", (REPOSITORY / "docs" / page).read_text(encoding="utf-8"))
    assert len(named) > 10
    assert missing(named) == []


def test_every_warning_code_is_on_the_page_about_debugging() -> None:
    page = (REPOSITORY / "docs" / "see" / "debugging.md").read_text(encoding="utf-8")
    codes = {
        code
        for source in SOURCES
        for code in re.findall(r'(?:\bwarn|_warn|Warning)\(\s*"([a-z_]+)"', source.read_text(encoding="utf-8"))
    }
    assert len(codes) > 20
    assert sorted(code for code in codes if f"`{code}`" not in page) == []


@cache
def script(name: str) -> ModuleType:
    """A program that writes something into the pages."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
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


# -- the pages about wires ---------------------------------------------------------------------------------------------


def test_the_moving_picture_is_what_both_loops_do_on_a_mock_clock() -> None:
    pytest.importorskip("anthropic", reason="THERE IS NO ANTHROPIC SDK: the moving picture was not made again")
    picture = script("moving_picture")
    sdk, ours = picture.measured()
    assert picture.PICTURE.read_text(encoding="utf-8") == picture.drawn([sdk, ours]), "python docs/moving_picture.py"
    written = sdk.writes[0][1]
    assert min(began for began, _ in sdk.runs.values()) >= written
    assert all(abs(ours.runs[call][0] - ours.arguments[call][1]) < 1e-6 for call in ours.runs)


def test_every_wire_has_its_page_which_the_table_of_wires_links() -> None:
    shared = (DOCS / "providers" / "index.md").read_text(encoding="utf-8")
    deviations = (DOCS / "providers" / "deviations.md").read_text(encoding="utf-8")
    assert [name for name in ("bodies", "calls") if f"<!-- tolerances: {name} -->" not in deviations] == []
    pages = {wire: tables().WIRE_PAGES[wire] for wire in WIRES}
    assert [wire for wire, page in pages.items() if f"| [`{wire}`]({page.name}) |" not in shared] == []
    for wire, page in pages.items():
        written = page.read_text(encoding="utf-8")
        assert written.startswith(f"# `{wire}`\n\n"), page
        assert re.findall("<!-- tolerances: (.*) -->", written) == [wire], page


SHARED = [DOCS / "providers" / name for name in ("index.md", "deviations.md", "hosted-tools.md", "token-counts.md")]


def test_the_page_of_each_wire_has_the_warnings_that_its_cases_produce() -> None:
    """A code that every wire shares may be on the page about all of them instead."""
    produced = defaultdict[str, set[str]](set)
    for quirk in QUIRKS:
        turn = parse(body_of(quirk), wire=quirk["wire"], tools=quirk["tools"])
        produced[quirk["wire"]] |= {warning.code for warning in turn.warnings}
    shared = words_on("".join(page.read_text(encoding="utf-8") for page in SHARED))
    assert [
        f"{wire}: {problem}"
        for wire, page in tables().WIRE_PAGES.items()
        for problem in wrong_codes(page.read_text(encoding="utf-8"), produced[wire], shared)
    ] == []


def wrong_codes(page: str, produced: Collection[str], shared: Collection[str]) -> Iterator[str]:
    """Yields what is wrong with the warning codes on the page of a wire whose cases produce these codes."""
    for code in re.findall(r"\bwarnings? `(\w+)`", page.replace("\n", " ")):
        if code not in WARNINGS:
            yield f"`{code}` is on the page as a warning, and not in WARNINGS"
    for code in sorted(words_on(page) & WARNINGS.keys() - produced):
        yield f"`{code}` is on the page, and no case produces it"
    for code in sorted(produced - words_on(page) - shared):
        yield f"a case produces `{code}`, which is on no page"


def words_on(page: str) -> set[str]:
    """The words on a page that may be codes."""
    return set(re.findall(r"`([a-z_]+)`", page))


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        (
            "left out, with the\nwarning `other_answer`",
            "`other_answer` is on the page as a warning, and not in WARNINGS",
        ),
        ("calls are found (`missing_index`), `bom`", "`missing_index` is on the page, and no case produces it"),
        ("nothing", "a case produces `bom`, which is on no page"),
        ("arguments behind a mark (`bom`)", None),
    ],
)
def test_a_wrong_code_on_a_page_is_seen(page: str, problem: str | None) -> None:
    assert next(wrong_codes(page, {"bom", "name_split"}, {"name_split"}), None) == problem


GOOGLES_WORDS = {"safety_decision"}
"""Words of a provider that neither the package nor a case has."""


def test_the_words_on_the_pages_about_wires_are_still_in_use() -> None:
    """So also a code that was renamed or removed is found, be it called a warning there or not."""
    used = set(GOOGLES_WORDS)
    for source in [*SOURCES, *(DATA / "quirks").iterdir()]:
        used.update(re.findall(r"[a-z]+(?:_[a-z]+)+", source.read_text(encoding="utf-8")))
    for page in tables().WIRE_PAGES.values():
        words = {word for word in words_on(page.read_text(encoding="utf-8")) if "_" in word.strip("_")}
        assert sorted(words - used) == [], page


# -- links -------------------------------------------------------------------------------------------------------------


def test_links_between_the_pages_lead_somewhere() -> None:
    pages = {page: prose_of(page) for page in [*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md")]}
    for page, prose in pages.items():
        for target, _, heading in (link.partition("#") for link in re.findall(r"\]\((?!https?:)([^)]+)", prose)):
            path = (page.parent / target).resolve() if target else page
            assert path.exists(), f"{page.name}: {target}"
            assert not heading or heading in headings_of(pages[path]), f"{page.name}: {target}#{heading}"


def prose_of(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def headings_of(prose: str) -> set[str]:
    """The anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.*)", prose, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
