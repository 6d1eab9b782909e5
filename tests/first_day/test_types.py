"""The programs of README and of the pages pass both type checkers, as they are set up without any options, and strict
checkers infer what a program would otherwise have to assert."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import get_args

import pytest
from test_examples import PAGES, programs

from streamtools.events import Event

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PATIENCE_S = 300

SETTINGS = {
    "mypy.ini": "[mypy]\n",
    "pyrightconfig.json": json.dumps(
        {"extraPaths": [str(REPOSITORY)], "pythonVersion": "3.11", "enableTypeIgnoreComments": False}
    ),
}
CHECKERS = {
    "mypy": ["mypy", "."],
    "pyright": ["pyright", "--pythonpath", sys.executable, "."],
}

# A line that is to fail has an `ignore`: one that nothing needs is an error in both checkers.
INFERRED = """
# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
# mypy: disallow-untyped-defs, disallow-any-generics, warn-return-any, warn-unused-ignores
from typing import Any, assert_never, assert_type

from pydantic import BaseModel
from typing_extensions import TypedDict

import streamtools.events as ev
from streamtools import AgentLoop, Event, Pipeline, agent_loop, parse, pipeline


class City(BaseModel):
    name: str


class Village(TypedDict):
    name: str


async def ask(messages: list[Any], tools: Any) -> bytes:
    return b""


async def outputs() -> None:
    assert_type((await pipeline(b"", output=City)).output_as(City), City)
    assert_type((await agent_loop(ask, [], wire="ollama.chat", output=City)).output_as(City), City)
    assert_type(parse(b"", output=Village).output_as(Village)["name"], str)
    parse(b"").output_as(City).town  # type: ignore[attr-defined]  # pyright: ignore


def closed(event: Event) -> str | None:
    match event:
        EVERY_CASE
            return None
        case _:
            assert_never(event)


def open_ended(event: Event) -> None:
    match event:
        case ev.TextDelta():
            pass
        case _:
            assert_never(event)  # type: ignore[arg-type]  # pyright: ignore


async def iterated(events: Pipeline, run: AgentLoop) -> None:
    async for event in events:
        closed(event)
    async for event in run:
        closed(event)
    for event in events.sync():
        closed(event)
"""


def inferred() -> str:
    """Returns the program, whose match has a case for each event."""
    every = " | ".join(f"ev.{kind.__name__}()" for kind in get_args(Event))
    return INFERRED.replace("EVERY_CASE", f"case {every}:")


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
    (project / "inferred.py").write_text(inferred(), encoding="utf-8")
    for page in PAGES:
        for program in programs(page.read_text(encoding="utf-8")):
            if program.missing():
                continue
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
