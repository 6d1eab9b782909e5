"""Each list of words that is spelt in more than one form is the same list in each: types, tables, keyword arguments."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import get_args, get_type_hints

from profiles import every
from test_architecture import MODULES, Module, called
from tolerated import TOLERATED

from streamtools import pipeline, tool
from streamtools.events import StreamEnd
from streamtools.front import PipelineKeywords, StepKeywords
from streamtools.parts import (
    FINISHES,
    OUTCOMES,
    RUN_OUTCOMES,
    STEP_OUTCOMES,
    WAITS,
    Finish,
    Outcome,
    RunOutcome,
    StepOutcome,
    WaitReason,
)
from streamtools.tools import Tool
from streamtools.tools.options import RunKeywords, RunOptions, ToolKeywords, ToolOptions
from streamtools.warning_codes import WARNINGS, Severity


@every(
    ("table", "words"),
    [
        (FINISHES, Finish),
        (OUTCOMES, Outcome),
        (STEP_OUTCOMES, StepOutcome),
        (RUN_OUTCOMES, RunOutcome),
        (WAITS, WaitReason),
    ],
)
def test_every_word_has_its_row(table: dict[str, object], words: object) -> None:
    assert tuple(table) == get_args(words)


@every("finish", get_args(Finish))
def test_calls_that_are_held_start_after_the_finishes_that_let_them(finish: Finish) -> None:
    assert StreamEnd(finish=finish, complete=True).ended_well is FINISHES[finish].lets_calls_start
    assert not StreamEnd(finish=finish, complete=False).ended_well


def test_the_options_of_tools_and_of_steps_are_the_same_in_each_form() -> None:
    assert get_type_hints(RunKeywords) == get_type_hints(RunOptions)
    assert get_type_hints(ToolKeywords) == get_type_hints(ToolOptions)
    assert {field.name for field in fields(RunOptions)} <= {field.name for field in fields(Tool)}
    explained = inspect.getdoc(tool) or ""
    assert [field.name for field in fields(ToolOptions) if f"    {field.name}: " not in explained] == []
    for keywords in (StepKeywords, PipelineKeywords):
        written = {name: hint.__forward_arg__ for name, hint in keywords.__annotations__.items()}
        assert written == {name: inspect.signature(pipeline).parameters[name].annotation for name in written}


def test_the_warnings_of_the_table_are_those_that_are_emitted() -> None:
    spoken, given = set[str](), {row.warning for rows in TOLERATED.values() for row in rows if row.warning}
    for name, module in MODULES.items():
        given.update(emitted(module))
        if name != "streamtools.warning_codes":
            constants = (node.value for node in module.nodes if isinstance(node, ast.Constant))
            spoken.update(value for value in constants if isinstance(value, str))
    assert given <= set(WARNINGS) <= spoken
    assert {facts.severity for facts in WARNINGS.values()} == set(get_args(Severity))


def emitted(module: Module) -> Iterator[str]:
    """The codes that a module gives to a `StreamWarning` or to a function that makes one."""
    for node in module.nodes:
        if isinstance(node, ast.Call) and called(node).lstrip("_") in ("warn", "StreamWarning", "note"):
            for part in (part for given in node.args[:1] for part in ast.walk(given)):
                if isinstance(part, ast.Constant) and re.fullmatch(r"[a-z_]+", str(part.value)):
                    yield str(part.value)
