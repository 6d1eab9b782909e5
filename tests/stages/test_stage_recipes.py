"""Stages that have to know the stream's tools or limits, and lists of stages inside lists."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from profiles import every
from streams import chat

from streamtools import Event, Limits, StreamEnd, parse
from streamtools.events import StreamWarning
from streamtools.stages import DEFAULT, Stage, StageList, split_think, text_calls
from streamtools.tools import Toolset


class Remark:
    """Warns of what it knows."""

    handles = frozenset({StreamEnd})

    def __init__(self, what: str) -> None:
        self.what = what

    def feed(self, event: Event) -> Iterable[Event]:
        return (StreamWarning("remarked", self.what), event)

    def finish(self) -> Iterable[Event]:
        return ()


class Knowing:
    """A recipe."""

    def build(self, tools: Toolset, limits: Limits, id_salt: str) -> Stage:
        return Remark(f"{sorted(tools)} {limits.max_tool_calls} {id_salt!r}")


class Named(Knowing):
    name = "knowing"


def test_a_recipe_makes_a_stage_that_knows_the_stream() -> None:
    stages = DEFAULT.append(Knowing())
    turn = parse(chat(["x"], finish="stop"), tools=["b", "a"], stages=stages, limits=Limits(max_tool_calls=7))
    assert [warning.detail for warning in turn.warnings] == ["['a', 'b'] 7 ''"]


def test_a_recipe_is_called_by_its_name_or_its_class() -> None:
    stages = DEFAULT.append(Knowing()).insert_before("accumulate", Named())
    assert list(stages) == ["knowing", "accumulate", "finalize", "validate", "Knowing"]
    assert list(stages.without("knowing").without("Knowing")) == list(DEFAULT)
    with_both = DEFAULT.insert_before("accumulate", split_think()).insert_before("accumulate", text_calls("hermes"))
    assert repr(with_both) == "StageList(split_think, text_calls, accumulate, finalize, validate)"


def test_a_list_of_stages_is_a_stage() -> None:
    both = StageList([("split_think", split_think().build), ("text_calls", text_calls("hermes").build)])
    stages = DEFAULT.insert_before("accumulate", both)
    assert list(stages) == ["StageList", "accumulate", "finalize", "validate"]
    turn = parse(chat(['a<think>b</think><tool_call>{"name": "f"}</tool_call>'], finish="stop"), stages=stages)
    assert (turn.text, turn.reasoning, [call.name for call in turn.calls]) == ("a", "b", ["f"])


@every("stage", [7, "text_calls", object()])
def test_what_is_neither_stage_nor_recipe_is_refused(stage: object) -> None:
    with pytest.raises(TypeError, match="a stage has feed"):
        DEFAULT.append(stage)  # type: ignore[arg-type]
