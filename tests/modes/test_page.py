"""What the page about modes shows runs."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "models-without-tools.md"


def test_the_pages_programs_print_what_the_page_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    printed = []
    for program in programs:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(program, str(PAGE), "exec"), {"__name__": "page"})
        printed.append(out.getvalue())
    assert len(programs) == 4
    for line in printed[2].splitlines():
        assert line in page
    (shown,) = re.findall(r"^```\n(Results.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert printed[3] == shown
