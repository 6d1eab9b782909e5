"""What a user may well get wrong is refused where it is written, by an error that says what to write instead."""

from __future__ import annotations

from typing import Any

import pytest
from streams import chat

from streamtools import Trajectory, pipeline, tool
from streamtools.stages import DEFAULT, StageList, text_calls


@tool
async def f() -> str:
    """Do it."""
    return "done"


async def pass_on(events: Any) -> Any:
    async for event in events:
        yield event


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"tools": {"f": f}}, "pass its values"),
        ({"tools": ["f"]}, r"a bare name \('f'\)"),
        ({"tools": f}, r"tools=\[...\]"),
        ({"stages": [f]}, "streamtools.stages.DEFAULT"),
        ({"transforms": pass_on}, r"transforms=\[...\]"),
        ({"limits": {"max_tool_calls": 1}}, r"streamtools.Limits\(...\)"),
        ({"trajectory": "run"}, r"streamtools.Trajectory\(\)"),
    ],
    ids=["mapping", "names", "one tool", "stages", "one transform", "limits", "trajectory"],
)
def test_an_option_of_the_wrong_kind_is_refused_with_what_to_pass(options: dict[str, Any], hint: str) -> None:
    with pytest.raises(TypeError, match=hint):
        pipeline(chat(["Hi"]), **options)


def test_a_stage_that_makes_calls_cannot_stand_behind_the_one_that_joins_them() -> None:
    for make in (
        lambda: DEFAULT.append(text_calls("hermes")),
        lambda: DEFAULT.insert_after("finalize", text_calls("hermes")),
        lambda: DEFAULT.insert_before("accumulate", text_calls("hermes")).append(text_calls("json")),
        lambda: DEFAULT.append(StageList([]).append(text_calls("hermes"))),
    ):
        with pytest.raises(ValueError, match='insert_before\\("accumulate"'):
            make()
    both = DEFAULT.insert_before("accumulate", text_calls("hermes")).insert_before("accumulate", text_calls("json"))
    assert list(both)[:3] == ["text_calls", "text_calls", "accumulate"]


def test_the_name_of_a_users_own_stage_says_nothing_about_its_place() -> None:
    class text_calls:
        def feed(self, event: Any) -> Any:
            return [event]

        def finish(self) -> Any:
            return []

    assert list(DEFAULT.append(text_calls))[-1] == "text_calls"


def test_a_run_is_named_by_a_text() -> None:
    with pytest.raises(TypeError, match="run_id is a text, not int"):
        Trajectory(run_id=7)  # type: ignore[arg-type]
