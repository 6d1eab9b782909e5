"""What is tried again, by the library or by the model, and where that ends."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest
import trio
import trio.testing
from profiles import every
from stores import Runs
from streams import chat, stream, turn_of

from streamtools import Limits, Observation, ToolContext, Trajectory, agent_loop, pipeline, tool
from streamtools.errors import CallDenied, ModelRetry, UnknownTool
from streamtools.events import ToolStarted
from streamtools.parts import WAITS

pytestmark = pytest.mark.anyio

CHAT = "openai.chat_completions"


# -- retries --


@every("kind", ["async", "sync"])
async def test_a_call_that_raised_is_tried_again_under_the_same_key_and_every_attempt_is_told(kind: str) -> None:
    seen: list[tuple[int, str]] = []

    def act(ctx: ToolContext) -> str:
        """Fail twice."""
        seen.append((ctx.attempt, ctx.idempotency_key))
        if len(seen) < 3:
            raise ConnectionError
        return "done"

    async def act_async(ctx: ToolContext) -> str:
        """Fail twice."""
        return act(ctx)

    made = tool(act if kind == "sync" else act_async, name="act", effect="idempotent", retries=2, retry_delay_s=0.001)
    async with pipeline(stream(chat(calls=[("a", "act", "{}")])), tools=[made]) as events:
        told = [event async for event in events if isinstance(event, (ToolStarted, Observation))]
    assert [event.attempt for event in told if isinstance(event, ToolStarted)] == [1, 2, 3]
    assert [number for number, _ in seen] == [1, 2, 3]
    assert len({key for _, key in seen}) == 1
    observation = told[-1]
    assert isinstance(observation, Observation)
    assert (observation.outcome, observation.value, observation.attempts) == ("ok", "done", 3)


async def test_a_sync_attempt_that_was_given_up_reports_nothing_into_the_next() -> None:
    release, finished = threading.Event(), threading.Event()
    cancelled = []

    @tool(effect="pure", retries=1, retry_delay_s=0.001, timeout=0.5)
    def act(ctx: ToolContext) -> str:
        """Hang, then do it."""
        if ctx.attempt == 1:
            release.wait(45)
            cancelled.append(ctx.cancelled)
            ctx.progress("late")
            finished.set()
            return "late"
        release.set()
        finished.wait(45)
        return "done"

    async with pipeline(stream(chat(calls=[("a", "act", "{}")])), tools=[act]) as events:
        kinds = [type(event).__name__ async for event in events]
    (observation,) = events.turn.observations
    assert (observation.outcome, observation.value, cancelled) == ("ok", "done", [True])
    assert "ToolProgress" not in kinds


# -- the model's own second chance --


async def test_a_tool_that_wants_to_be_called_again_says_so_until_its_budget_is_used_up() -> None:
    @tool(effect="pure")
    async def find(city: str) -> str:
        """Find."""
        raise ModelRetry(f"{len(city)} letters are too few")

    run, said = Trajectory(), []
    for number in range(3):
        call = (f"c{number}", "find", f'{{"city": "{number}"}}')
        turn = await turn_of([call], [find], trajectory=run, limits=Limits(max_model_retries=2))
        (observation,) = turn.observations
        assert observation.outcome == "failed"
        assert isinstance(observation.error, ModelRetry)
        said.append(observation.model_content)
    again = "Error: 1 letters are too few\nCorrect the arguments and call find again."
    assert said[:2] == [again, again]
    assert said[2] == (
        "Error: 1 letters are too few\n"
        "Do not call find again: more than max_model_retries=2 of its calls could not be used."
    )


async def test_all_calls_of_a_tool_that_could_not_be_used_are_one_budget() -> None:
    @tool(effect="pure")
    async def find(city: str) -> str:
        """Find."""
        if city == "no":
            raise ModelRetry("another city")
        return "found"

    run, limits, said = Trajectory(), Limits(max_model_retries=3, max_repeated_calls=1), []
    texts = ['{"city": 1}', '{"city": "no"}', '{"city": "no"}', '{"town": "a"}', '{"city": "yes"}', '{"city": 2}']
    for number, text in enumerate(texts):
        turn = await turn_of([(f"c{number}", "find", text)], [find], trajectory=run, limits=limits)
        said.append((turn.observations[0].outcome, turn.observations[0].model_content))
    assert [outcome for outcome, _ in said] == ["invalid", "failed", "denied", "invalid", "ok", "invalid"]
    last = "Do not call find again: more than max_model_retries=3 of its calls could not be used."
    assert [content.endswith(last) for _, content in said] == [False, False, False, True, False, True]


async def test_an_invalid_call_that_comes_again_and_again_is_denied() -> None:
    @tool(effect="pure")
    async def find(city: str) -> str:
        """Find."""
        return city

    limits = Limits(max_repeated_calls=2)
    calls = [(f"c{number}", "find", '{"city": 1}') for number in range(4)] + [("d", "find", '{"city": 2}')]
    calls += [(f"e{number}", "seek", '{"city": 1}') for number in range(3)]
    outcomes = [one.outcome for one in (await turn_of(calls, [find], limits=limits)).observations]
    assert outcomes == [*["invalid"] * 2, *["denied"] * 2, "invalid", *["unknown_tool"] * 2, "denied"]


async def test_a_loop_asks_no_more_when_the_model_goes_on_with_calls_that_it_was_not_to_make_again() -> None:
    @tool(effect="pure")
    async def find(city: str) -> str:
        """Find."""
        return city

    bad, good, unknown = ("find", '{"city": 1}'), ("find", '{"city": "a"}'), ("seek", "{}")
    answer = chat(["Done."], finish="stop")
    for made, outcome, asked in (
        ([[bad], [bad], [bad], [bad]], "retries_exhausted", 4),  # told at the third, and made again
        ([[unknown]] * 4, "retries_exhausted", 4),
        ([[bad], [bad], [bad], [bad, good]], "answered", 5),  # something could be used
        ([[bad], [bad], [bad], [good], [bad]], "answered", 6),  # not in a row
        ([[bad], [bad], [bad]], "answered", 4),
    ):
        bodies = [
            chat(calls=[(f"c{step}_{at}", *call) for at, call in enumerate(calls)]) for step, calls in enumerate(made)
        ]
        left, seen = iter([*bodies, answer]), []

        async def ask(messages: Any, tools: Any, left: Any = left, seen: Any = seen) -> Any:
            seen.append(messages)
            return stream(next(left))

        run = agent_loop(ask, [], tools=[find], wire=CHAT, limits=Limits(max_model_retries=2))
        await run
        assert (run.outcome, len(seen)) == (outcome, asked), made


async def test_calls_of_tools_that_are_not_there_share_one_budget() -> None:
    @tool(effect="pure")
    async def find(city: str) -> str:
        """Find."""
        return city

    calls = [(f"c{number}", f"seek_{number}", "{}") for number in range(5)] + [("d", "find", '{"city": 1}')]
    seen = (await turn_of(calls, [find])).observations
    last = "Call only tools that exist: more than max_model_retries=3 calls named unknown tools."
    assert [one.model_content.endswith(last) for one in seen] == [*[False] * 3, True, True, False]


# -- tools that are not there --


@every(
    ("called", "closest"),
    [("get_wether", "get_weather"), ("GET_WEATHER", "get_weather"), ("sell_house", None), ("x" * 128, None)],
)
async def test_an_unknown_tool_is_answered_with_the_list_and_the_closest_name(called: str, closest: str | None) -> None:
    @tool(effect="pure")
    async def get_weather(city: str) -> str:
        """Weather."""
        return "rain"

    @tool(effect="pure")
    async def book() -> str:
        """Book."""
        return "booked"

    (observation,) = (await turn_of([("a", called, '{"city": "Oslo"}')], [get_weather, book])).observations
    assert observation.outcome == "unknown_tool"
    assert isinstance(observation.error, UnknownTool)
    assert observation.error.closest == closest
    assert "available tools: book, get_weather" in observation.model_content
    assert observation.model_content.endswith(f"; did you mean {closest!r}?" if closest else "get_weather")


# -- calls that come again and again --


async def test_a_call_that_is_made_too_often_with_the_same_arguments_is_denied_and_told_why() -> None:
    ran = []

    @tool(effect="pure")
    async def look(where: str, deep: bool = False) -> str:
        """Look."""
        ran.append(where)
        return "nothing"

    run, limits = Trajectory(), Limits(max_repeated_calls=2)
    spellings = ['{"where": "a", "deep": true}', '{"deep":true,"where":"a"}', '{"where":"\\u0061", "deep": true}']
    for number, text in enumerate(spellings[:2]):
        await turn_of([(f"c{number}", "look", text)], [look], trajectory=run, limits=limits)
    turn = await turn_of(
        [("x", "look", spellings[2]), ("y", "look", '{"where": "b"}')], [look], trajectory=run, limits=limits
    )
    denied, other = turn.observations
    assert (denied.outcome, other.outcome, denied.attempts) == ("denied", "ok", 0)
    assert isinstance(denied.error, CallDenied)
    assert "called 2 times with the same arguments" in denied.model_content
    assert sorted(ran) == ["a", "a", "b"]
    # Another run begins anew.
    assert (await turn_of([("z", "look", spellings[0])], [look], limits=limits)).observations[0].outcome == "ok"


async def test_only_so_many_different_calls_are_remembered() -> None:
    from streamtools.dispatch.states import RunCounts

    counts = RunCounts()
    for number in range(10_001):
        assert counts.count_call("t", {"n": number}, "") == 1
    assert counts.count_call("t", {"n": 10_000}, "") == 2
    assert counts.count_call("t", {"n": 1}, "") == 2, "the oldest that is remembered"
    assert counts.count_call("t", {"n": 0}, "") == 1, "the oldest was forgotten"


def test_the_same_call_is_counted_however_it_is_written_unless_it_is_large() -> None:
    from streamtools.dispatch.states import RunCounts
    from streamtools.tools import LARGE_CHARS

    small, large = "x" * LARGE_CHARS, "x" * (LARGE_CHARS + 1)
    counts = RunCounts()
    for tool_name, arguments, text, times in (
        ("t", {"a": 1, "b": 2}, "", 1),
        ("t", {"b": 2, "a": 1}, " ", 2),
        ("t", {"b": 2, "a": 1}, small, 3),
        ("t", {"b": 2, "a": 1}, large, 1),
        ("t", {"c": 3}, large, 2),
        ("u", {"b": 2, "a": 1}, "", 1),
        ("t", None, "cut", 1),
        ("t", None, "cut", 2),
        ("t", None, "cut ", 1),
        ("u", None, "cut", 1),
        ("t", None, "\ud800", 1),
        ("t", {"a": 2**70, "b": 1}, "", 1),
        ("t", {"b": 1, "a": 2**70}, "", 2),
        ("t", {"b": 1, "a": 2**71}, "", 1),
    ):
        assert counts.count_call(tool_name, arguments, text) == times, (tool_name, arguments, text[:9])
    assert [counts.count_useless(tool_name) for tool_name in ("t", "t", "", "t", "")] == [1, 2, 1, 3, 2]


async def test_an_observation_says_what_was_called_how_it_was_judged_and_how_long_it_ran() -> None:
    @tool(effect="idempotent", retries=1, retry_delay_s=0.001)
    async def look(n: int) -> int:
        """Look."""
        if n < 0:
            raise ConnectionError
        return n

    asked = {"a": ("look", '{"n": 1}'), "b": ("look", '{"n": "x"}'), "c": ("nope", "{}"), "d": ("look", '{"n": -1}')}
    asked["e"] = ("look", '{"n": "2"}')
    turn = await turn_of([(id_, *call) for id_, call in asked.items()], [look])
    wrong = "invalid arguments for look: n: should be a valid integer, unable to parse string as an integer"
    ran = {"outcome": "ok", "observation_type": "int", "attempts": 1}
    known = {"schema_source": "typed_signature", "schema_present": True, "validator": "pydantic", "validated": True}
    unknown = {"schema_source": None, "schema_present": False, "validator": None, "validated": False}
    expected: dict[str, dict[str, Any]] = {
        "a": known | ran | {"value": 1, "validated_args": {"n": 1}},
        "b": known | {"outcome": "invalid", "validated": False, "validation_error": wrong},
        "c": unknown | {"outcome": "unknown_tool"},
        "d": known | {"outcome": "failed", "validated_args": {"n": -1}, "attempts": 2},
        "e": known | ran | {"value": 2, "validated_args": {"n": 2}},
    }
    nothing = {"value": None, "validated_args": None, "observation_type": "error", "attempts": 0}
    nothing |= {"validation_error": None, "recorded": False, "still_running": False, "boundary": "validated"}
    nothing |= {"owner": None, "result": None, "coercions": ()}
    for index, seen in enumerate(sorted(turn.observations, key=lambda seen: seen.call_id)):
        facts = nothing | expected[seen.call_id] | {"index": index, "tool_name": asked[seen.call_id][0]}
        facts |= {"coercions": ("n: string to integer",)} if seen.call_id == "e" else {}
        assert {name: getattr(seen, name) for name in facts} == facts, seen.call_id
        assert all(WAITS[wait.reason].is_passing for wait in seen.waits)
        assert (seen.duration is None) is (seen.attempts == 0)
        assert seen.duration is None or 0 < seen.duration < 30
        assert len(seen.failed_attempts) == (seen.call_id == "d")


# -- delays --


def test_the_delay_before_another_attempt_doubles_up_to_a_minute() -> None:
    """On a clock that jumps to the next time that anybody waits for."""
    cases: list[tuple[float, int, list[float]]] = [
        (1.0, 8, [1, 2, 4, 8, 16, 32, 60, 60]),
        (50.0, 2, [50, 60]),
        (100.0, 1, [60]),
        (2.0**-70, 67, [*(2.0 ** (doubled - 70) for doubled in range(65)), 2.0**-6, 2.0**-6]),
    ]

    async def run(first: float, retries: int, expected: list[float]) -> None:
        @tool(effect="idempotent", retries=retries, retry_delay_s=first)
        async def fails() -> None:
            """Fail."""
            raise ConnectionError

        began = anyio.current_time()
        (seen,) = (await turn_of([("a", "fails", "{}")], [fails])).observations
        assert [attempt.delay_s for attempt in seen.failed_attempts] == expected
        assert [attempt.number for attempt in seen.failed_attempts] == list(range(1, retries + 1))
        assert seen.attempts == retries + 1
        assert anyio.current_time() - began == pytest.approx(sum(expected), abs=0.1)

    for case in cases:
        trio.run(run, *case, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_call_ends_at_its_time_and_on_an_executor_that_does_not_keep_it_a_second_later() -> None:
    class Deaf(Runs):
        async def run(self, call: Any, begin: Any, emit: Any, /) -> Any:
            await begin()
            await anyio.sleep_forever()

    @tool(effect="pure", timeout=5)
    async def stays() -> None:
        """Stay."""
        await anyio.sleep_forever()

    async def run(executor: Any, expected: float) -> None:
        began = anyio.current_time()
        (seen,) = (await turn_of([("a", "stays", "{}")], [stays], executor=executor)).observations
        assert (seen.outcome, anyio.current_time() - began) == ("timed_out", pytest.approx(expected, abs=0.01))

    for executor, expected in ((None, 5), (Deaf(), 6)):
        trio.run(run, executor, expected, clock=trio.testing.MockClock(autojump_threshold=0))
