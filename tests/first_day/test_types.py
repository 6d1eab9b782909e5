"""The programs of README and of the pages pass both type checkers, as they are set up without any options."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from test_examples import PAGES, programs

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PATIENCE_S = 300

SETTINGS = {
    "mypy.ini": "[mypy]\n",
    "pyrightconfig.json": f'{{"extraPaths": ["{REPOSITORY}"], "pythonVersion": "3.11"}}',
}
CHECKERS = {
    "mypy": ["mypy", "."],
    "pyright": ["pyright", "--pythonpath", sys.executable, "."],
}


def as_module(source: str) -> str:
    """Returns a program as a module: one that awaits at its top becomes the body of an async function."""
    try:
        ast.parse(source)
        compile(source, "page", "exec")
    except SyntaxError:
        return f"async def program() -> None:\n{textwrap.indent(source, '    ')}"
    return source


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a module for each program."""
    project = tmp_path_factory.mktemp("pages")
    for name, text in SETTINGS.items():
        (project / name).write_text(text, encoding="utf-8")
    for page in PAGES:
        for program in programs(page.read_text(encoding="utf-8")):
            name = f"{page.stem.lower().replace('-', '_')}_{program.line}.py"
            (project / name).write_text(as_module(program.source), encoding="utf-8")
    return project


@pytest.mark.thorough
@pytest.mark.parametrize("checker", CHECKERS)
def test_the_programs_of_the_pages_pass_a_type_checker(checker: str, modules: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *CHECKERS[checker]],
        cwd=modules,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert len(list(modules.glob("*.py"))) > 30
    assert done.returncode == 0, done.stdout + done.stderr
