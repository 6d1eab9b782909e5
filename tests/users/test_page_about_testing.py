"""The tests of docs/see/testing.md run: as written, with anyio's plugin alone, and with pytest-asyncio alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from profiles import mostly_thorough

pytest.importorskip("pytest_asyncio", reason="PYTEST-ASYNCIO IS NOT INSTALLED: the page about testing was not run")

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "see" / "testing.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
TESTS = len(re.findall(r"^(?:async )?def test_", "".join(BLOCKS), re.MULTILINE))
CONFIGURATION = """\
[pytest]
asyncio_mode = {mode}
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""
PATIENCE_S = 60


def as_written(tests: str) -> str:
    return tests


def of_anyio(tests: str) -> str:
    tests = tests.replace("pytest.mark.asyncio", "pytest.mark.anyio").replace(
        'params=["asyncio", "trio"]', 'params=["asyncio"]'
    )
    return tests.replace("import pytest_asyncio\n", "").replace("pytest_asyncio.fixture", "pytest.fixture")


def without_markers(tests: str) -> str:
    return re.sub(r"@pytest\.mark\.\w+\n", "", tests)


STYLES: list[Any] = [
    (as_written, "strict", (), TESTS + 1),  # one is anyio's, on two backends
    *mostly_thorough(
        [
            (of_anyio, "strict", ("-p", "no:asyncio"), TESTS),
            (without_markers, "auto", ("-p", "no:anyio"), TESTS),
        ],
        0,
    ),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("style", "mode", "options", "count"), STYLES)
def test_the_tests_of_the_page_pass(
    style: Callable[[str], str], mode: str, options: tuple[str, ...], count: int, tmp_path: Path
) -> None:
    configuration = CONFIGURATION.format(mode=mode)
    if "no:asyncio" in options:
        configuration = re.sub(r"^asyncio_.*\n", "", configuration, flags=re.MULTILINE)
    (tmp_path / "pytest.ini").write_text(configuration, encoding="utf-8")
    (tmp_path / "test_page.py").write_text(style("\n".join(BLOCKS)), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert f"{count} passed in" in done.stdout
