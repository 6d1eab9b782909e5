"""The pages say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCES = sorted((REPOSITORY / "streamtools").rglob("*.py"))


def test_every_warning_code_is_on_the_page_about_wires() -> None:
    page = (REPOSITORY / "docs" / "wires.md").read_text(encoding="utf-8")
    codes = {
        code
        for source in SOURCES
        for code in re.findall(r'(?:\bwarn|_warn|\bWarning)\(\s*"([a-z_]+)"', source.read_text(encoding="utf-8"))
    }
    assert len(codes) > 20
    assert sorted(code for code in codes if f"`{code}`" not in page) == []


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
