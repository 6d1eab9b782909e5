"""How calls start, run and end: concurrency, threads, times, results, and what the model reads of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from profiles import every
from streams import anthropic, chat, double, hanging, key_of, stream, turn_of, until

from streamtools import Event, Limits, Observation, TextDelta, ToolContext, ToolError, parse, pipeline, tool
from streamtools.dispatch.in_process import abandoned_threads
from streamtools.errors import TruncatedStream
from streamtools.events import StreamWarning, ToolProgress, ToolStarted
from streamtools.stages import DEFAULT
from streamtools.tools import Toolset

pytestmark = pytest.mark.anyio


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
            await until(events, ToolStarted)
            await anyio.sleep(0.01)
    assert [observation.outcome for observation in events.turn.observations] == ["cancelled"]
    release.set()
    await wait_until(lambda: abandoned_threads() == 0)


@every("kind", ["async", "sync"])
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


@every(
    ("value", "content"),
    [
        ("text stays text", "text stays text"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (None, "null"),
        (float("nan"), "null"),
        (b"\xff\xfe", '"__4="'),
        ("\ud83d half", "? half"),
        (object(), "Error: the tool returned a value of type object, which cannot be written as JSON"),
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


async def test_turn_end_holds_pure_calls_and_early_lets_once_calls_start_at_once() -> None:
    @tool(effect="once")
    async def spend() -> str:
        """Spend."""
        return "spent"

    body = anthropic(calls=[("a", "spend", "{}"), ("b", "double", '{"n": 1}')], stop="max_tokens")
    outcomes = {}
    for policy in ("auto", "early", "turn_end"):
        turn = await pipeline(stream(body), tools=[spend, double], start=policy)
        outcomes[policy] = [observation.outcome for observation in turn.observations]
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
    turn = await pipeline(stream(body), tools=[web_search])
    assert [call.kind for call in turn.calls] == ["server"]
    assert turn.observations == ()


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
        turn = await pipeline(stream(chat(["Hi"], finish="stop")), observers=[broken()])
        assert turn.text == "Hi"
        told = [(warning.code, warning.detail) for warning in turn.warnings]
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


async def test_a_sync_call_that_was_skipped_does_not_start_although_it_has_just_got_its_thread() -> None:
    """A limiter gives its place behind a shield; trio runs what may run in any order, hence many times."""
    ran: list[int] = []

    @tool(effect="idempotent")
    def write() -> None:
        """Write."""
        ran.append(1)

    body = anthropic(calls=[("a", "write", "{}")], stop=None)
    for _ in range(40):
        seen: list[Event] = []
        with anyio.fail_after(30):
            async with pipeline(stream(body), tools=[write]) as events:
                with pytest.raises(TruncatedStream):
                    async for event in events:
                        seen.append(event)
        (observation,) = [event for event in seen if isinstance(event, Observation)]
        started = [event for event in seen if isinstance(event, ToolStarted)]
        assert all(event.seq < observation.seq for event in started)
        if observation.outcome == "skipped":
            assert (observation.attempts, started) == (0, [])


class Shouts:
    """Takes text once it was told to, and wants nothing before."""

    def __init__(self, wanted: Any) -> None:
        self.wanted = wanted

    @property
    def handles(self) -> Any:
        return self.wanted

    def feed(self, event: Event) -> Iterable[Event]:
        return [TextDelta(event.text.upper())] if isinstance(event, TextDelta) else [event]

    def finish(self) -> Iterable[Event]:
        return ()


def said(stage: Shouts) -> str:
    return parse(chat(["a", "b"], finish="stop"), stages=DEFAULT.append(lambda: stage)).text


def test_what_one_stream_wants_is_not_what_another_wants_whose_stages_look_alike() -> None:
    changes = Shouts(frozenset())
    chain = DEFAULT.append(lambda: changes).build(Toolset([]), Limits())
    changes.wanted = frozenset({TextDelta})  # after the chain was made
    chain.feed(TextDelta("x"))
    assert said(Shouts(frozenset())) == "ab"
    assert said(Shouts(frozenset({TextDelta}))) == "AB"
