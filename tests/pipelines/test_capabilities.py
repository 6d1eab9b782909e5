"""``capabilities=[...]``: objects of a user's own take part in a run, each at the seams whose methods it has."""

from __future__ import annotations

from typing import Any

import pytest
from profiles import every
from streams import chat

from streamtools import Retry, agent_loop, pipeline, run_calls
from streamtools.seams import Seams


class Rule:
    def judge(self, call: Any, step: Any) -> None:
        """Judges nothing."""


class Gate:
    async def enter(self, call: Any) -> None:
        """Keeps nothing."""


class Source:
    async def next(self, request: Any) -> None:
        """Has no step."""


def made_by(word: str, capabilities: Any) -> Any:
    if word == "pipeline":
        return pipeline(chat(["Hi"]), capabilities=capabilities)
    if word == "run_calls":
        return run_calls([], [], capabilities=capabilities)
    return agent_loop(lambda messages, tools: None, [], wire="anthropic.messages", capabilities=capabilities)


@every("word", ["pipeline", "run_calls", "agent_loop"])
@every(
    ("capabilities", "hint"),
    [
        (Rule(), r"write capabilities=\[...\]"),
        (Seams(rules=(Rule(),)), "not Seams"),
        ([Rule(), object()], r"object has no method of a seam; the methods are judge \(CallRule\), "),
        ([Rule], "Rule is a class; pass an object of it"),
        ([Gate(), Rule(), Gate()], "a run has one Gate, but got two: Gate and Gate"),
    ],
)
def test_what_fits_no_seam_or_a_taken_one_is_refused(word: str, capabilities: Any, hint: str) -> None:
    with pytest.raises(TypeError, match=hint):
        made_by(word, capabilities)


def test_a_source_of_steps_belongs_to_a_run_of_steps_and_attempts_to_where_a_model_is_asked() -> None:
    for word in ("pipeline", "run_calls"):
        with pytest.raises(TypeError, match="Source works only in agent_loop"):
            made_by(word, [Source()])
    with pytest.raises(TypeError, match="Retry works only in pipeline and agent_loop"):
        made_by("run_calls", [Retry()])
    made_by("agent_loop", [Source(), Rule(), Rule(), Gate()])
