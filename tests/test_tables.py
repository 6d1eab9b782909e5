"""Each list of words that is spelt in more than one form is the same list in each: types, tables, keyword arguments."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

from streamtools import pipeline, tool
from streamtools.events import StreamEnd
from streamtools.parts import FINISHES, OUTCOMES, Finish, Outcome
from streamtools.pipelines.entry import PipelineKeywords, StepKeywords
from streamtools.tools import Tool
from streamtools.tools.options import RunKeywords, RunOptions, ToolKeywords, ToolOptions


def test_every_finish_and_every_outcome_has_its_row() -> None:
    assert tuple(FINISHES) == get_args(Finish)
    assert tuple(OUTCOMES) == get_args(Outcome)


@pytest.mark.parametrize("finish", get_args(Finish))
def test_calls_that_are_held_start_after_the_finishes_that_let_them(finish: Finish) -> None:
    assert StreamEnd(finish=finish, complete=True).ended_well is FINISHES[finish].lets_calls_start
    assert not StreamEnd(finish=finish, complete=False).ended_well


def test_only_success_has_no_stage_at_which_it_failed() -> None:
    assert [outcome for outcome, facts in OUTCOMES.items() if facts.stage is None] == ["ok"]


@pytest.mark.parametrize(("options", "keywords"), [(RunOptions, RunKeywords), (ToolOptions, ToolKeywords)])
def test_the_options_of_tools_and_their_keywords_are_the_same(options: type, keywords: type) -> None:
    assert get_type_hints(keywords) == get_type_hints(options)


def test_a_tool_has_all_options_that_its_calls_are_run_by() -> None:
    assert {field.name for field in fields(RunOptions)} <= {field.name for field in fields(Tool)}


def test_every_option_of_tools_is_explained_where_tools_are_made() -> None:
    explained = inspect.getdoc(tool) or ""
    assert [field.name for field in fields(ToolOptions) if f"    {field.name}: " not in explained] == []


@pytest.mark.parametrize("keywords", [StepKeywords, PipelineKeywords])
def test_every_option_of_a_step_is_one_of_the_pipelines_and_has_its_type(keywords: type) -> None:
    written = {name: hint.__forward_arg__ for name, hint in keywords.__annotations__.items()}
    assert written == {name: inspect.signature(pipeline).parameters[name].annotation for name in written}
