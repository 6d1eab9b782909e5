"""How calls start, run and end: concurrency, threads, times, results, and what the model reads of them."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from streams import anthropic, chat, hanging, key_of, stream

from streamtools import Limits, Observation, ToolContext, ToolError, Turn, pipeline, tool
from streamtools.dispatch.in_process import abandoned_threads
from streamtools.events import StreamWarning, ToolProgress, ToolStarted

pytestmark = pytest.mark.anyio


async def turn_of(calls: list[tuple[str, str, str]], tools: list[Any], **options: Any) -> Turn:
    async with pipeline(stream(chat(calls=calls)), tools=tools, **options) as events:
        _ = [event async for event in events]
    return events.turn


@tool(effect="pure")
async def double(n: int) -> int:
    """Twice n."""
    return 2 * n


async def test_calls_run_at_the_same_time() -> None:
    inside = 0
    all_inside = anyio.Event()

    @tool(effect="pure")
    async def meet(n: int) -> str:
        """Wait until all eight are here."""
        nonlocal inside
        inside += 1
        if inside == 8:
            all_inside.set()
        await all_inside.wait()
        return "met"

    with anyio.fail_after(30):
        turn = await turn_of([(f"c{n}", "meet", f'{{"n": {n}}}') for n in range(8)], [meet])
    assert [observation.outcome for observation in turn.observations] == ["ok"] * 8


async def test_no_more_calls_run_at_once_than_the_limit_allows() -> None:
    now = most = 0

    @tool(effect="pure")
    async def count(n: int) -> str:
        """Count those inside."""
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        now -= 1
        return "counted"

    turn = await turn_of(
        [(f"c{n}", "count", f'{{"n": {n}}}') for n in range(9)], [count], limits=Limits(max_concurrency=3)
    )
    assert (most, len(turn.observations)) == (3, 9)


async def test_one_tool_that_fails_leaves_its_siblings_alone_and_says_only_its_type() -> None:
    @tool(effect="pure")
    async def fail(password: str) -> str:
        """Fail."""
        raise ValueError(f"bad password {password}")

    turn = await turn_of([("a", "fail", '{"password": "hunter2"}'), ("b", "double", '{"n": 4}')], [fail, double])
    first, second = turn.observations
    assert (first.outcome, second.outcome, second.value) == ("failed", "ok", 8)
    assert first.model_content == "Error: the tool fail raised ValueError"
    assert isinstance(first.error and first.error.__cause__, ValueError)
    assert "hunter2" not in repr(first) + first.report() + repr(turn)


async def test_a_tool_speaks_to_the_model_by_raising_a_tool_error() -> None:
    @tool(effect="pure")
    async def find(city: str) -> str:
        """Find."""
        raise ToolError("no such city; try its English name")

    turn = await turn_of([("a", "find", '{"city": "X"}')], [find])
    assert turn.observations[0].model_content == "Error: no such city; try its English name"


async def test_a_tool_that_takes_too_long_is_timed_out_and_the_others_are_not() -> None:
    @tool(effect="pure", timeout=0.01)
    async def slow() -> str:
        """Sleep."""
        await anyio.sleep_forever()
        return "never"

    turn = await turn_of([("a", "slow", "{}"), ("b", "double", '{"n": 1}')], [slow, double])
    assert [observation.outcome for observation in turn.observations] == ["timed_out", "ok"]
    assert "0.01 s" in turn.observations[0].model_content
    assert not turn.observations[0].still_running


async def test_the_time_in_the_queue_is_not_the_tools_time() -> None:
    @tool(effect="pure", timeout=0.5)
    async def brief(n: int) -> str:
        """Take most of the time."""
        await anyio.sleep(0.15)
        return "done"

    turn = await turn_of(
        [(f"c{n}", "brief", f'{{"n": {n}}}') for n in range(5)], [brief], limits=Limits(max_concurrency=1)
    )
    assert [observation.outcome for observation in turn.observations] == ["ok"] * 5


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


async def test_sync_tools_run_in_threads_with_the_callers_context() -> None:
    @tool(effect="pure")
    def where() -> str:
        """Say where."""
        return f"{threading.current_thread() is threading.main_thread()} {variable.get()}"

    @tool(effect="pure")
    async def sets() -> str:
        """Set the variable."""
        before = variable.get()
        variable.set("changed")
        return before

    token = variable.set("callers")
    try:
        turn = await turn_of([("a", "where", "{}"), ("b", "sets", "{}")], [where, sets])
        assert [observation.value for observation in turn.observations] == ["False callers", "callers"]
        assert variable.get() == "callers"
    finally:
        variable.reset(token)


async def wait_until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not condition():  # noqa: ASYNC110 - a thread that nobody waits for sets no event
            await anyio.sleep(0.001)


async def test_a_sync_tool_that_is_given_up_is_marked_as_still_running_and_counted_until_it_ends() -> None:
    release = threading.Event()
    started = threading.Event()

    @tool(effect="pure", timeout=0.2)
    def stuck() -> str:
        """Wait."""
        started.set()
        release.wait(45)
        return "late"

    turn = await turn_of([("a", "stuck", "{}")], [stuck])
    (observation,) = turn.observations
    assert (observation.outcome, observation.still_running) == ("timed_out", True)
    assert abandoned_threads() == 1
    assert "still running" in observation.report()

    refused = await turn_of([("b", "stuck", "{}")], [stuck], limits=Limits(max_abandoned_threads=1))
    assert refused.observations[0].outcome == "failed"
    assert "max_abandoned_threads" in refused.observations[0].model_content

    release.set()
    await wait_until(lambda: abandoned_threads() == 0)
    assert turn.observations[0].value is None


async def test_a_turn_that_goes_on_is_warned_when_a_given_up_tool_ends_and_one_that_is_over_is_not() -> None:
    release, given_up, warned = threading.Event(), anyio.Event(), anyio.Event()

    @tool(effect="pure", timeout=0.05)
    def stuck() -> str:
        """Wait."""
        release.wait(45)
        return "late"

    @tool(effect="pure")
    async def goes_on() -> str:
        """Let the other tool end, and wait for the warning."""
        with anyio.fail_after(30):
            await given_up.wait()
            release.set()
            await warned.wait()
        return "done"

    for names in (["stuck", "goes_on"], ["stuck"]):
        release.clear()
        calls = [(name, name, "{}") for name in names]
        async with pipeline(stream(chat(calls=calls)), tools=[stuck, goes_on]) as events:
            async for event in events:
                if isinstance(event, Observation) and event.call_id == "stuck":
                    given_up.set()
                if isinstance(event, StreamWarning) and event.code == "late_result":
                    warned.set()
        turn = events.turn
        del events, event
        release.set()
        await wait_until(lambda: abandoned_threads() == 0)
        late = [warning.detail for warning in turn.warnings if warning.code == "late_result"]
        assert [text.endswith("ended after it was given up") for text in late] == [True] * (len(names) - 1)


async def test_leaving_the_block_does_not_wait_for_a_sync_tool() -> None:
    release = threading.Event()

    @tool(effect="pure")
    def stuck(ctx: ToolContext) -> bool:
        """Wait, and look."""
        release.wait(45)
        return ctx.cancelled

    body = anthropic(calls=[("a", "stuck", "{}")], stop=None)
    with anyio.fail_after(30):
        async with pipeline(hanging(body), tools=[stuck]) as events:
            async for event in events:
                if isinstance(event, ToolStarted):
                    break
            await anyio.sleep(0.01)
    assert [observation.outcome for observation in events.turn.observations] == ["cancelled"]
    release.set()
    await wait_until(lambda: abandoned_threads() == 0)


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_progress_is_an_event_between_start_and_observation(kind: str) -> None:
    if kind == "async":

        @tool(effect="pure")
        async def work(ctx: ToolContext) -> str:
            """Report."""
            ctx.progress({"done": 0.5})
            return ctx.idempotency_key
    else:

        @tool(effect="pure")
        def work(ctx: ToolContext) -> str:
            """Report."""
            ctx.progress({"done": 0.5})
            return ctx.idempotency_key

    async with pipeline(stream(chat(calls=[("a", "work", "{}")])), tools=[work]) as events:
        seen = [event async for event in events if isinstance(event, (ToolStarted, ToolProgress, Observation))]
    start, progress, observation = seen
    assert isinstance(progress, ToolProgress)
    assert progress.value == {"done": 0.5}
    assert isinstance(observation, Observation)
    assert (progress.causes, observation.causes) == ((start.seq,), (progress.seq,))
    assert observation.value == observation.idempotency_key == key_of("a", run=events.run_id)


async def test_bad_arguments_and_unknown_tools_are_observed_and_run_nothing() -> None:
    calls = [("a", "double", '{"n": "many"}'), ("b", "nope", "{}"), ("c", "double", '{"n": 1'), ("d", "double", "[]")]
    turn = await turn_of(calls, [double])
    assert [observation.outcome for observation in turn.observations] == [
        "invalid",
        "unknown_tool",
        "truncated",
        "invalid",
    ]
    invalid = turn.observations[0]
    assert (invalid.validated, invalid.schema_present, invalid.attempts) == (False, True, 0)
    assert "many" not in invalid.model_content + str(invalid.validation_error)
    assert "n" in invalid.model_content
    assert "double" in turn.observations[1].model_content
    assert [call.status for call in turn.calls] == ["invalid", "ready", "truncated", "invalid"]


async def test_the_record_of_a_call_holds_typed_arguments_by_name() -> None:
    @dataclass
    class Place:
        city: str

    @tool(effect="pure")
    async def visit(place: Place, days: int = 2) -> str:
        """Visit."""
        return place.city

    turn = await turn_of([("a", "visit", '{"place": {"city": "Oslo"}}')], [visit])
    (observation,) = turn.observations
    assert observation.validated_args is not None
    assert observation.validated_args["place"].city == "Oslo"
    assert (observation.validated, observation.observation_type, observation.schema_source) == (
        True,
        "str",
        "typed_signature",
    )
    assert observation.duration is not None


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text stays text", "text stays text"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (None, "null"),
        (float("nan"), "null"),
        (b"\xff\xfe", '"__4="'),
        ("\ud83d half", "? half"),
    ],
)
async def test_the_model_reads_the_value_as_text_or_json(value: Any, content: str) -> None:
    @tool(effect="pure", require_hints=False)
    async def give():
        """Give."""
        return value

    turn = await turn_of([("a", "give", "{}")], [give])
    assert turn.observations[0].model_content == content
    assert turn.messages()[1]["content"] == content


async def test_a_value_that_no_json_can_carry_is_a_failure_that_names_its_type() -> None:
    @tool(effect="pure", require_hints=False)
    async def give():
        """Give."""
        return object()

    turn = await turn_of([("a", "give", "{}")], [give])
    assert turn.observations[0].outcome == "failed"
    assert turn.observations[0].model_content == (
        "Error: the tool returned a value of type object, which cannot be written as JSON"
    )


@pytest.mark.parametrize(("size", "cut"), [(99, False), (100, False), (101, True)])
async def test_a_long_result_is_cut_for_the_model_and_says_so(size: int, cut: bool) -> None:
    @tool(effect="pure")
    async def give() -> str:
        """Give."""
        return "x" * size

    turn = await turn_of([("a", "give", "{}")], [give], limits=Limits(max_result_bytes=100))
    observation = turn.observations[0]
    assert observation.value == "x" * size
    assert observation.model_content.startswith("x" * min(size, 100))
    assert ("[cut: the first 100 of 101 bytes]" in observation.model_content) is cut


async def test_turn_end_holds_pure_calls_and_early_lets_once_calls_start_at_once() -> None:
    @tool(effect="once")
    async def spend() -> str:
        """Spend."""
        return "spent"

    body = anthropic(calls=[("a", "spend", "{}"), ("b", "double", '{"n": 1}')], stop="max_tokens")
    outcomes = {}
    for policy in ("auto", "early", "turn_end"):
        async with pipeline(stream(body), tools=[spend, double], start=policy) as events:
            _ = [event async for event in events]
        outcomes[policy] = [observation.outcome for observation in events.turn.observations]
    assert outcomes == {"auto": ["skipped", "ok"], "early": ["ok", "ok"], "turn_end": ["skipped", "skipped"]}
    with pytest.raises(ValueError, match="unknown start 'later'; known: auto, early, turn_end, manual"):
        pipeline(stream(body), start="later")  # type: ignore[arg-type]


async def test_a_call_to_the_providers_own_tool_is_reported_and_never_run() -> None:
    @tool(effect="pure")
    async def web_search(query: str) -> str:
        """Ours, by the same name."""
        raise AssertionError("ran")

    body = [
        item.replace(b'"tool_use"', b'"server_tool_use"')
        for item in anthropic(calls=[("srv", "web_search", '{"query": "x"}')], stop="end_turn")
    ]
    async with pipeline(stream(body), tools=[web_search]) as events:
        _ = [event async for event in events]
    assert [call.kind for call in events.turn.calls] == ["server"]
    assert events.turn.observations == ()


async def test_events_come_as_calls_end_and_messages_in_call_order() -> None:
    second_done = anyio.Event()

    @tool(effect="pure")
    async def first() -> str:
        """Wait for the second."""
        await second_done.wait()
        return "1"

    @tool(effect="pure")
    async def second() -> str:
        """Go first."""
        second_done.set()
        return "2"

    async with pipeline(
        stream(chat(calls=[("a", "first", "{}"), ("b", "second", "{}")])), tools=[first, second]
    ) as events:
        seen = [event.call_id async for event in events if isinstance(event, Observation)]
    assert seen == ["b", "a"]
    assert [message.get("tool_call_id") for message in events.turn.messages()[1:]] == ["a", "b"]


async def test_an_observer_that_raises_is_dropped_and_the_stream_goes_on() -> None:
    class Broken:
        event_types = None

        def on_event(self, event: Any) -> None:
            raise RuntimeError("secret")

        def around_tool(self, call_id: str) -> None:
            raise RuntimeError("secret")

    class Asked(Broken):
        event_types = ()

        def see_parts(self, parts: Any) -> None:
            raise RuntimeError("secret")

    for broken in (Broken, Asked):
        async with pipeline(stream(chat(["Hi"], finish="stop")), observers=[broken()]) as events:
            _ = [event async for event in events]
        assert events.turn.text == "Hi"
        told = [(warning.code, warning.detail) for warning in events.turn.warnings]
        assert told == [("observer_failed", f"{broken.__name__} raised RuntimeError")]


async def test_async_transforms_see_every_event_and_may_change_them() -> None:
    from streamtools import TextDelta

    async def shout(events: Any) -> Any:
        async for event in events:
            await anyio.lowlevel.checkpoint()
            yield TextDelta(event.text.upper()) if isinstance(event, TextDelta) else event

    body = chat(["hi ", "there"], [("a", "double", '{"n": 1}')])
    async with pipeline(stream(body), tools=[double], transforms=[shout]) as events:
        seen = [event async for event in events]
    assert events.turn.text == "HI THERE"
    assert events.turn.observations[0].value == 2
    assert [event.seq for event in seen] == list(range(len(seen)))


async def test_an_observer_that_fails_around_a_tool_is_dropped_and_changes_nothing_for_the_tool() -> None:
    class Around:
        event_types = (Observation,)

        def __init__(self, fails: str) -> None:
            self.fails = fails
            self.seen: list[str] = []

        def on_event(self, event: Observation) -> None:
            self.seen.append(event.call_id)

        def around_tool(self, call_id: str) -> Any:
            if self.fails == "making":
                raise OSError(self.fails)
            return self

        def __enter__(self) -> None:
            if self.fails == "entering":
                raise OSError(self.fails)

        def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
            if error is not None and self.fails == "raising it again":
                raise error
            if self.fails == "leaving":
                raise OSError(self.fails)

    @tool(effect="pure")
    async def refuse() -> None:
        """Refuse."""
        raise ToolError("no")

    calls = [("a", "double", '{"n": 2}'), ("b", "refuse", "{}")]
    for fails in ("making", "entering", "leaving", "raising it again"):
        around = Around(fails)
        turn = await turn_of(calls, [double, refuse], observers=[around])
        found = {seen.call_id: (seen.outcome, seen.value, str(seen.error)) for seen in turn.observations}
        assert found == {"a": ("ok", 4, "None"), "b": ("failed", None, "no")}, fails
        is_dropped = fails != "raising it again"
        warned = [warning.detail for warning in turn.warnings if warning.code == "observer_failed"]
        assert warned == ["Around raised OSError"] * is_dropped, fails
        assert sorted(around.seen) == ([] if is_dropped else ["a", "b"]), fails  # trio picks who ends first
