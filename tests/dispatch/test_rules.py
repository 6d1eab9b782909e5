"""Rules and filters of a user's own: calls are judged before they run, and results before the model reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from ran import ran
from streams import chat, exhaust, stream

from streamtools import Event, Observation, Pipeline, agent_loop, pipeline, tool
from streamtools.errors import CallDenied
from streamtools.events import ApprovalRequested, StreamEnd, StreamStart, StreamWarning, ToolStarted
from streamtools.seams import Allow, Ask, ReadyCall, Refuse, StepView, Verdict

pytestmark = pytest.mark.anyio


@tool(effect="pure")
async def post(text: str) -> str:
    """Post a text."""
    ran.append(text)
    return "posted"


class Moderation:
    """Asks a model about each call, and waits for its score."""

    def __init__(self, scores: Mapping[str, float]) -> None:
        self.scores = scores
        self.waiting = {text: anyio.Event() for text in scores}
        self.asked: list[str] = []

    async def judge(self, call: ReadyCall, step: StepView) -> Verdict:
        text = call.arguments["text"]
        self.asked.append(text)
        await self.waiting[text].wait()
        if self.scores[text] > 0.9:
            return Refuse("denied", CallDenied("not run: harmful"))
        return Ask() if self.scores[text] > 0.5 else Allow()


class Fixed:
    def __init__(self, verdict: Any) -> None:
        self.verdict = verdict
        self.heard: list[Observation] = []

    def judge(self, call: ReadyCall, step: StepView) -> Any:
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict() if callable(self.verdict) else self.verdict

    def listeners(self, step: StepView) -> Mapping[type[Event], Callable[[Any], None]]:
        return {Observation: self.heard.append}


def posting(*texts: str, **options: Any) -> Pipeline:
    calls = [(f"c{number}", "post", f'{{"text": "{text}"}}') for number, text in enumerate(texts)]
    return pipeline(stream(chat(calls=calls)), tools=[post], **options)


def outcomes(events: Pipeline) -> list[str]:
    return [seen.outcome for seen in sorted(events.turn.observations, key=lambda seen: seen.index)]


async def test_a_rule_may_ask_a_model_about_each_call_and_the_calls_keep_their_order() -> None:
    rule = Moderation({"good": 0.1, "doubtful": 0.7, "bad": 1.0, "fine": 0.2})
    asked: list[str] = []
    with anyio.fail_after(30):
        async with posting(*rule.scores, capabilities=[rule]) as events:
            while len(rule.asked) < 4:  # all at once
                await anyio.lowlevel.checkpoint()
            for text in ("fine", "bad", "doubtful"):
                rule.waiting[text].set()
            await anyio.wait_all_tasks_blocked()
            assert ran == [], "the first is still being judged"
            rule.waiting["good"].set()
            async for event in events:
                if isinstance(event, ApprovalRequested):
                    asked.append(event.arguments["text"])
                    events.deny(event)
    assert (sorted(ran), asked) == (["fine", "good"], ["doubtful"])
    assert outcomes(events) == ["ok", "denied", "denied", "ok"]


async def test_a_call_that_is_cancelled_or_left_while_it_is_judged_does_not_hold_up_anybody() -> None:
    rule = Moderation({"slow": 0.0, "quick": 0.0})
    rule.waiting["quick"].set()
    with anyio.fail_after(30):
        async with posting("slow", "quick", capabilities=[rule]) as events:
            await anyio.wait_all_tasks_blocked()
            assert events.cancel("c0", "no more")
            await exhaust(events)
        assert (ran, outcomes(events)) == (["quick"], ["cancelled", "ok"])
        async with posting("slow", capabilities=[rule]) as events:
            await anyio.wait_all_tasks_blocked()
            await events.aclose()
        assert outcomes(events) == ["skipped"]


async def test_all_rules_have_to_agree_and_one_that_fails_is_against_the_call() -> None:
    for verdict, expected in (
        (Allow(), "ok"),
        (Refuse("denied", CallDenied("no")), "denied"),
        (ValueError("secret"), "failed"),
        ("yes", "failed"),
        (lambda: Ask(approvals=0), "failed"),
        (lambda: Refuse("ok", CallDenied("no")), "failed"),
        (lambda: Refuse("none", CallDenied("no")), "failed"),  # type: ignore[arg-type]
        (lambda: Refuse("denied", "no"), "failed"),  # type: ignore[arg-type]
    ):
        first, second = Fixed(Allow()), Fixed(verdict)
        with anyio.fail_after(30):
            async with posting("x", capabilities=[first, second]) as events:
                await events.finish()
        (seen,) = events.turn.observations
        assert seen.outcome == expected, verdict
        assert first.heard == second.heard == [seen]
        assert "secret" not in seen.model_content
    assert ran == ["x"]


async def test_a_rule_is_asked_only_about_the_calls_that_concern_it_and_may_want_several_people() -> None:
    class Two(Fixed):
        def concerns(self, name: str) -> bool:
            return name == "post"

    with anyio.fail_after(30):
        async with posting("x", capabilities=[Two(Ask(approvals=2))]) as events:
            async for event in events:
                if isinstance(event, ApprovalRequested):
                    assert event.approvals == 2
                    events.approve(event, by="ann")
                    events.approve(event, by="bob")
        assert outcomes(events) == ["ok"]

        class Others(Two):
            def concerns(self, name: str) -> bool:
                return name != "post"

        class Broken(Two):
            def concerns(self, name: str) -> bool:
                raise ValueError("secret")

        class Silent(Two):
            def concerns(self, name: str) -> Any:
                return None

        others = Others(Refuse("denied", CallDenied("no")))
        for rule, expected in ((others, "ok"), (Broken(Allow()), "failed"), (Silent(Allow()), "failed")):
            async with posting("y", capabilities=[rule]) as events:
                await events.finish()
            assert outcomes(events) == [expected]


@pytest.mark.parametrize("kind", [StreamStart, ToolStarted, StreamEnd, Observation, StreamWarning])
async def test_a_rule_that_fails_to_hear_an_event_fails_the_later_calls_of_its_run_alone(kind: type[Event]) -> None:
    class Deaf(Fixed):
        def listeners(self, step: StepView) -> Mapping[type[Event], Callable[[Any], None]]:
            if kind is StreamWarning:
                raise ValueError("secret")
            return {kind: self.fail, StreamWarning: self.fail}

        def fail(self, event: Event) -> None:
            raise ValueError("secret")

    rule, codes, seen = Deaf(Allow()), list[str](), list[Observation]()
    bodies = [chat(calls=[(f"c{number}", "post", '{"text": "x"}')]) for number in range(2)]
    bodies.append(chat(["done"], finish="stop"))

    async def ask(messages: list[Any], tools: list[Any]) -> Any:
        return stream(bodies.pop(0))

    told = [{"role": "user", "content": "Post it."}]
    with anyio.fail_after(30):
        async with agent_loop(ask, told, tools=[post], wire="openai.chat_completions", capabilities=[rule]) as run:
            async for event in run:
                codes += [event.code] if isinstance(event, StreamWarning) else []
                seen += [event] if isinstance(event, Observation) else []
    first = "failed" if kind in (StreamStart, StreamWarning) else "ok"
    assert (run.outcome, [one.outcome for one in seen], codes) == ("answered", [first, "failed"], ["capability_failed"])
    assert seen[1].model_content == "Error: not run: the rule Deaf raised ValueError"


class Shorten:
    def __init__(self, most: int) -> None:
        self.most = most

    def apply(self, observation: Observation, step: StepView) -> Observation:
        if self.most < 0:
            raise ValueError("secret")
        if not self.most:
            return None  # type: ignore[return-value]
        return replace(observation, call_id="z", outcome="failed", model_content=observation.model_content[: self.most])


async def test_a_filter_changes_what_the_model_reads_and_leaves_the_value_to_the_program() -> None:
    left_out = "The result was left out: the filter Shorten raised"
    for most, expected in ((3, "pos"), (-1, f"{left_out} ValueError."), (0, f"{left_out} TypeError.")):
        with anyio.fail_after(30):
            turn = await posting("x", capabilities=[Shorten(most), Shorten(100)])
        (seen,) = turn.observations
        assert (seen.call_id, seen.outcome, seen.value, seen.model_content) == ("c0", "ok", "posted", expected)
        assert expected in str(turn.messages())


async def test_in_a_run_that_goes_on_from_its_journal_rules_hear_and_filters_get_what_was_filtered(
    tmp_path: Path,
) -> None:
    class Kept(Shorten):
        def restore(self, observation: Observation, step: StepView) -> None:
            restored.append((observation.model_content, step.number))

    restored: list[tuple[str, int]] = []
    ends: list[str | None] = []
    bodies = [chat(calls=[("c", "post", '{"text": "x"}')]), chat(), chat(["done"], finish="stop")]

    async def ask(messages: list[Any], tools: list[Any]) -> Any:
        return stream(bodies.pop(0))

    for visit in range(2):
        rule = Fixed(Allow())
        loop = agent_loop(
            ask,
            [{"role": "user", "content": "Post it."}],
            tools=[post],
            wire="openai.chat_completions",
            journal=tmp_path / f"{tmp_path.name}.db",
            run_id="r",
            capabilities=[rule, Kept(3)],
        )
        with anyio.fail_after(30):
            async with loop as run:
                async for event in run:
                    if not visit and getattr(event, "step", 0) == 1:
                        break
        assert [seen.model_content for seen in rule.heard] == ["pos"]
        ends.append(loop.outcome)
    assert (ran, restored, ends) == (["x"], [("pos", 0)], ["left", "answered"])
