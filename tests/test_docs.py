"""The pages say what the code does."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from named_tests import missing

from streamtools.wires import WIRES

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCES = sorted((REPOSITORY / "streamtools").rglob("*.py"))


@pytest.mark.parametrize("page", ["dispatch.md", "once.md"])
def test_a_page_names_tests_that_exist_for_its_promises(page: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py::\w+)`", (REPOSITORY / "docs" / page).read_text(encoding="utf-8"))
    assert len(named) > 10
    assert missing(named) == []


def test_every_warning_code_is_on_the_page_about_debugging() -> None:
    page = (REPOSITORY / "docs" / "debugging.md").read_text(encoding="utf-8")
    codes = {
        code
        for source in SOURCES
        for code in re.findall(r'(?:\bwarn|_warn|Warning)\(\s*"([a-z_]+)"', source.read_text(encoding="utf-8"))
    }
    assert len(codes) > 20
    assert sorted(code for code in codes if f"`{code}`" not in page) == []


def test_the_tables_of_the_pages_are_those_of_the_code() -> None:
    page = (REPOSITORY / "docs" / "wires.md").read_text(encoding="utf-8")
    spec = importlib.util.spec_from_file_location("tables", REPOSITORY / "docs" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    assert [name for name in ("bodies", "calls", *WIRES) if f"<!-- tolerances: {name} -->" not in page] == []
    assert [name for name in WIRES if f"| [`{name}`](#{name.replace('.', '')}) |" not in page] == []
    for path in tables.PAGES:
        written = path.read_text(encoding="utf-8")
        assert tables.with_tables(written) == written, "run: python docs/tables.py"


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")]:
        prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
