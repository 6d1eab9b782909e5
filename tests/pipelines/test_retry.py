"""What `Retry` says: after which errors, how often, after which pause; and what everybody sees of an attempt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import orjson
import pytest
from kept_spans import kept_spans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from promises import Promises
from streams import anthropic, chat, hanging, stream

from streamtools import (
    ApprovalRequested,
    Event,
    Limits,
    Observation,
    Retry,
    StreamError,
    TextDelta,
    ToolCallValidated,
    Trajectory,
    agent_loop,
    pipeline,
    tool,
)
from streamtools.dispatch import MemoryStore
from streamtools.errors import DeadlineExceeded, LimitExceeded
from streamtools.events import AttemptBegan, AttemptCommitted, AttemptDiscarded, RequestFailed, StepEnd, TextEnd
from streamtools.history import lint
from streamtools.integrations.asgi import encode_event
from streamtools.observers import Observer
from streamtools.parts import Failure
from streamtools.privacy import Privacy, redact_secrets
from streamtools.record import record, replay
from streamtools.seams import Again, Sight
from streamtools.telemetry import Metrics, Tracing
from streamtools.view import draw

pytestmark = pytest.mark.anyio
CHAT = "openai.chat_completions"
ASKED = [{"role": "user", "content": "Hi"}]
AT_ONCE = Retry(backoff=0)
ANYWHERE = Retry(backoff=0, after_output=True)
MESSAGES = "anthropic.messages"
ANSWER = chat(["Done."], finish="stop")
DONE = anthropic(["Done."], stop="end_turn")
CUT = chat(["So far"], finish=None)


PROMISES = Promises()


class Ask:
    """Gives one thing after the other: a body, a stream, or an exception to raise."""

    def __init__(self, *given: Any) -> None:
        self.given = list(given)
        self.asked: list[Any] = []

    async def __call__(self, messages: Any = None, tools: Any = None) -> Any:
        self.asked.append(messages)
        await anyio.lowlevel.checkpoint()
        given = self.given.pop(0)
        if isinstance(given, BaseException):
            raise given
        return stream(given) if isinstance(given, list) else given


class RefusedError(Exception):
    def __init__(self, status: int, **headers: str) -> None:
        super().__init__("refused")
        self.status_code = status
        self.response = type("Response", (), {"headers": {k.replace("_", "-"): v for k, v in headers.items()}})()


def in_band(kind: str, code: Any = None) -> list[bytes]:
    return [b"data: " + orjson.dumps({"error": {"message": "no", "type": kind, "code": code}}) + b"\n\n"]


PASSES: dict[str, Any] = {
    "a lost connection": ConnectionResetError(),
    "a timeout": TimeoutError(),
    "httpx": httpx.ReadError("gone"),
    "httpx's timeout": httpx.ConnectTimeout("slow"),
    "408": RefusedError(408),
    "409": RefusedError(409),
    "425": RefusedError(425),
    "429": RefusedError(429, Retry_After="9"),
    "500": RefusedError(500),
    "529": RefusedError(529),
    "a cut stream": [],
    "a cut first event": [ANSWER[0][:40]],
    "overloaded": in_band("overloaded_error"),
    "429 in band": in_band("x", 429),
    "unavailable": in_band("x", "UNAVAILABLE"),
}
STAYS: dict[str, Any] = {
    "400": RefusedError(400),
    "422": RefusedError(422),
    "a mistake": KeyError("x"),
    "httpx's own": httpx.UnsupportedProtocol("ftp"),
    "no money": in_band("insufficient_quota", 429),
    "a wrong request": in_band("invalid_request_error"),
    "nothing": None,
}


@PROMISES.add
async def the_model_is_asked_again_after_what_may_pass_and_never_after_what_will_not(_: Path) -> None:
    for case, given in PASSES.items():
        ask = Ask(given, ANSWER)
        run = agent_loop(ask, ASKED, wire=CHAT, retry=Retry(backoff=0, max_wait=0))
        with anyio.fail_after(20):
            turn = await run
        assert (turn.text, run.outcome, len(ask.asked), len(run.turns)) == ("Done.", "answered", 2, 1), case
    for case, given in STAYS.items():
        ask = Ask(given, ANSWER)
        run = agent_loop(ask, ASKED, wire=CHAT, retry=AT_ONCE)
        with anyio.fail_after(20), pytest.raises(Exception):
            await run
        assert (run.outcome, len(ask.asked)) == ("error", 1), case
    ask = Ask(KeyError("x"), ANSWER)  # the program knows better
    assert (await agent_loop(ask, ASKED, wire=CHAT, retry=Retry(backoff=0, when=lambda error: True))).text == "Done."
    ask = Ask(httpx.ReadError("x"), ANSWER)
    with pytest.raises(httpx.ReadError):
        await agent_loop(ask, ASKED, wire=CHAT, retry=Retry(backoff=0, when=lambda error: False))


@PROMISES.add
async def when_all_attempts_are_used_up_the_last_error_is_raised_and_fallbacks_come_in_order(_: Path) -> None:
    errors = [ConnectionResetError(str(number)) for number in range(7)]
    ask, second, third = Ask(*errors[:2]), Ask(*errors[2:4]), Ask(*errors[4:6])
    run = agent_loop(ask, ASKED, wire=CHAT, retry=Retry(attempts=2, backoff=0), fallback=[second, third])
    seen: list[Event] = []
    with anyio.fail_after(20):
        async with run:
            with pytest.raises(ConnectionResetError) as caught:
                async for event in run:
                    seen.append(event)
    assert caught.value is errors[5]
    assert (run.outcome, run.messages, len(run.turns)) == ("error", ASKED, 1)
    assert [(one.attempt, one.fallback) for one in seen if isinstance(one, AttemptBegan)] == [
        (1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2),
    ]  # fmt: skip
    assert len([one for one in seen if isinstance(one, RequestFailed)]) == 6
    assert [one.outcome for one in seen if isinstance(one, StepEnd)] == ["error"]
    # Without retry=, each is asked once; a key that is refused is the first provider's affair, a wrong request is not.
    ask, second = Ask(RefusedError(401)), Ask(ANSWER)
    assert (await agent_loop(ask, ASKED, wire=CHAT, fallback=[second])).text == "Done."
    ask, second = Ask(RefusedError(400)), Ask(ANSWER)
    with pytest.raises(RefusedError):
        await agent_loop(ask, ASKED, wire=CHAT, fallback=[second])
    # After output, nothing is asked again unless the reader can forget.
    for retry, outcome in ((AT_ONCE, "interrupted"), (None, "error")):
        run = agent_loop(Ask(CUT, ANSWER), ASKED, wire=CHAT, retry=retry)
        with pytest.raises(StreamError):
            await run
        assert (run.outcome, run.messages) == (outcome, ASKED)
        assert run.turn.is_draft


@PROMISES.add
async def a_pause_is_as_long_as_was_said_and_no_longer_than_allowed(_: Path) -> None:
    retry = Retry(backoff=1, max_wait=6, jitter=lambda: 1.0)
    assert [retry.pause(number, None) for number in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert [Retry(backoff=1, max_wait=6, jitter=lambda: 0.0).pause(number, None) for number in (1, 9)] == [1.0, 6.0]
    assert [retry.pause(1, seconds) for seconds in (0.0, 5.0, 60.0)] == [0.0, 5.0, 6.0]
    cases: list[tuple[Any, Retry, Limits, float | None]] = [
        (RefusedError(429, retry_after="7"), Retry(), Limits(), 7.0),
        (RefusedError(429, retry_after_ms="250"), Retry(), Limits(), 0.25),
        (RefusedError(429, retry_after="Fri, 31 Dec 2999 23:59:59 GMT"), Retry(max_wait=9), Limits(), 9.0),
        (RefusedError(429, retry_after="soon"), Retry(backoff=8, jitter=lambda: 0.5), Limits(), 6.0),
        (RefusedError(429, retry_after="7"), Retry(total=5), Limits(), None),
        (RefusedError(429, retry_after="7"), Retry(), Limits(run_timeout=5), None),
        (RefusedError(429, retry_after="7"), Retry(), Limits(step_timeout=5), None),
    ]
    for given, retry, limits, expected in cases:
        found: list[float] = []
        run = agent_loop(Ask(given, ANSWER), ASKED, wire=CHAT, retry=retry, limits=limits)
        with anyio.fail_after(20):
            try:
                async with run:
                    async for event in run:
                        if isinstance(event, AttemptDiscarded):
                            found.append(event.delay_s)
                            break  # left in the middle of the pause
            except RefusedError:
                assert run.outcome == "error"
        assert found == ([] if expected is None else [expected])
        assert run.outcome == ("error" if expected is None else "left")
    for mistake in ({"attempts": 0}, {"attempts": True}, {"backoff": -1}, {"max_wait": float("nan")}, {"total": "1"}):
        with pytest.raises(ValueError, match=f"Retry\\({next(iter(mistake))}="):
            Retry(**mistake)  # type: ignore[arg-type]


@PROMISES.add
async def a_retry_that_could_do_something_twice_is_refused_in_words(_: Path) -> None:
    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    with pytest.raises(ValueError, match="pay has the effect"):
        agent_loop(Ask(), ASKED, tools=[pay], wire=CHAT, retry=ANYWHERE, start="early")
    with pytest.raises(TypeError, match="functions that make the request, not list"):
        pipeline(ANSWER, wire=CHAT, retry=AT_ONCE)
    for retry in (3, Retry):
        with pytest.raises(TypeError, match=rf"streamtools.Retry\(...\), not {type(retry).__name__}"):
            agent_loop(Ask(), ASKED, wire=CHAT, retry=retry)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="functions that make the request"):
        agent_loop(Ask(), ASKED, wire=CHAT, fallback=["gpt"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"write fallback=\[\.\.\.\]"):
        agent_loop(Ask(), ASKED, wire=CHAT, fallback=Ask())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"write fallback=\[\.\.\.\]"):
        pipeline(Ask(), wire=CHAT, fallback=Ask())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Retry\(when=429\): must be a function of the error"):
        Retry(when=429)  # type: ignore[arg-type]
    agent_loop(Ask(), ASKED, tools=[pay], wire=CHAT, retry=AT_ONCE, start="early")


@PROMISES.add
async def one_stream_is_asked_for_again_as_well(_: Path) -> None:
    ask, second = Ask(CUT), Ask(ANSWER)
    seen: list[Event] = []
    events = pipeline(ask, wire=CHAT, retry=Retry(attempts=1, after_output=True), fallback=[second])
    branch = events.branch()
    async with events:
        async for event in events:
            seen.append(event)
        assert [event async for event in branch] == seen
    assert (events.turn.text, events.turn.complete) == ("Done.", True)
    assert [type(one) for one in seen if "Attempt" in type(one).__name__] == [
        AttemptBegan, AttemptDiscarded, AttemptBegan, AttemptCommitted,
    ]  # fmt: skip

    def blocking() -> str:
        ask, second = Ask(ConnectionResetError()), Ask(ANSWER)
        with agent_loop(ask, ASKED, wire=CHAT, retry=Retry(attempts=1), fallback=[second]).sync() as run:
            return run.finish().text

    assert await anyio.to_thread.run_sync(blocking) == "Done."


class AnotherModel:
    """Asks again twice when the provider is busy; after that, another model, once."""

    after_output = True

    def __init__(self, ask: Any) -> None:
        self.ask = ask
        self.seen: list[tuple[Any, ...]] = []

    def broke(self, failure: Failure, sight: Sight) -> Again | None:
        self.seen.append(
            (failure.code or failure.outcome, sight.attempt, sight.fallback, sight.asked, sight.has_output)
        )
        if failure.may_pass and sight.asked <= 2 and sight.fallback == 0:
            return Again(failure.retry_after or 0.0)
        return Again(request=self.ask) if sight.fallback == 0 else None


@PROMISES.add
async def a_policy_of_ones_own_decides_what_follows_a_failure(_: Path) -> None:
    busy = [in_band("overloaded_error"), CUT, RefusedError(429, retry_after="0")]
    asked = [("overloaded", 1, 0, 1, False), ("connection_lost", 2, 0, 2, True), ("rate_limited", 3, 0, 3, False)]
    policy = AnotherModel(Ask(ANSWER))
    events = pipeline(Ask(*busy), wire=CHAT, capabilities=[policy])
    assert ((await events).text, policy.seen) == ("Done.", asked)

    policy = AnotherModel(Ask(ConnectionResetError()))
    run = agent_loop(Ask(*busy), ASKED, wire=CHAT, capabilities=[policy])
    with pytest.raises(ConnectionResetError):
        await run
    assert (run.outcome, policy.seen) == ("error", [*asked, ("connection_lost", 4, 1, 1, False)])

    def blocking() -> str:
        with agent_loop(Ask(*busy), ASKED, wire=CHAT, capabilities=[AnotherModel(lambda: ANSWER)]).sync() as run:
            return run.finish().text

    assert await anyio.to_thread.run_sync(blocking) == "Done."
    for answer, note in ((Again(fallback=1), "there are 0"), (Again(request="x"), "a function"), ("again", "str")):  # type: ignore[arg-type]
        policy.broke = lambda failure, sight, answer=answer: answer  # type: ignore[method-assign]
        with pytest.raises(ConnectionResetError) as caught:
            await pipeline(Ask(ConnectionResetError()), wire=CHAT, capabilities=[policy])
        assert note in caught.value.__notes__[0]
    with pytest.raises(TypeError, match="pass either retry= or AnotherModel"):
        agent_loop(Ask(), ASKED, wire=CHAT, retry=AT_ONCE, capabilities=[policy])


@PROMISES.add
async def a_call_that_runs_serves_the_same_call_of_the_next_attempt_and_is_cancelled_if_there_is_none(_: Path) -> None:
    for goes_on in (True, False):
        await _served(goes_on)


async def _served(goes_on: bool) -> None:
    begun, may_end, left = anyio.Event(), anyio.Event(), anyio.Event()
    runs: list[str] = []

    @tool(effect="pure")
    async def look(at: str) -> dict[str, str]:
        """Look."""
        runs.append(at)
        begun.set()
        try:
            await may_end.wait()
        except anyio.get_cancelled_exc_class():
            left.set()
            raise
        return {"at": at}

    async def first() -> Any:
        for item in anthropic(calls=[("a", "look", '{"at": "x"}'), ("b", "look", '{"at": "x"}')], stop=None):
            yield item
            await anyio.lowlevel.checkpoint()
        await begun.wait()
        raise ConnectionResetError

    again = anthropic(calls=[("b", "look", '{"at": "x"}' if goes_on else '{"at": "y"}')])
    ask, limits = Ask(first(), again, DONE), Limits(max_concurrency=1)
    run = agent_loop(ask, ASKED, tools=[look], wire=MESSAGES, retry=ANYWHERE, limits=limits)
    seen: list[Event] = []
    with anyio.fail_after(20):
        async with run:
            async for event in run:
                seen.append(event)
                if isinstance(event, AttemptCommitted) and event.step == 0:
                    may_end.set()
    assert run.outcome == "answered"
    (observed,) = run.turns[0].observations
    assert observed.outcome == "ok"
    discarded = [one for one in seen if isinstance(one, Observation) and one.outcome == "discarded"]
    assert [one.call_id for one in discarded] == ["a", "b"]
    if goes_on:
        assert (runs, observed.recorded, observed.value) == (["x"], True, {"at": "x"})
        assert "elsewhere" in [wait.reason for wait in observed.waits]
        assert not left.is_set()
    else:
        assert (runs[-1], observed.recorded, left.is_set()) == ("y", False, True)


@PROMISES.add
async def an_answer_is_cut_where_a_call_has_begun_and_the_next_step_reads_its_result(_: Path) -> None:
    paid: list[int] = []
    begun = anyio.Event()

    @tool(effect="once")
    async def pay(amount: int) -> str:
        """Pay."""
        begun.set()
        await anyio.lowlevel.checkpoint()
        paid.append(amount)
        return "paid"

    @tool(effect="once")
    async def other() -> str:
        """Do something else."""
        paid.append(0)
        return "done"

    async def first() -> Any:
        for item in anthropic(["Now"], [("a", "pay", '{"amount": 3}'), ("b", "other", "{}")], stop=None):
            yield item
        await begun.wait()
        raise ConnectionResetError

    ask = Ask(first(), DONE)
    run = agent_loop(ask, ASKED, tools=[pay, other], wire=MESSAGES, retry=ANYWHERE, start="manual")
    seen: list[Event] = []
    with anyio.fail_after(20):
        async with run, anyio.create_task_group() as tasks:
            async for event in run:
                seen.append(event)
                if isinstance(event, ToolCallValidated) and event.call.name == "pay":
                    tasks.start_soon(run.run_call, event)
    assert (run.outcome, paid) == ("answered", [3])
    assert [(one.attempt, one.cut) for one in seen if isinstance(one, AttemptCommitted)] == [(1, True), (1, False)]
    assert [one.outcome for one in run.turns[0].observations] == ["ok", "skipped"]
    assert lint(run.messages, MESSAGES) == []
    assert [message["role"] for message in ask.asked[1]] == ["user", "assistant", "user"]


@PROMISES.add
async def an_approval_of_a_discarded_call_decides_nothing_about_the_next_one_and_keys_differ(_: Path) -> None:
    keys: list[str | None] = []

    @tool(effect="once", needs_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    @tool(effect="pure", needs_approval=True)
    async def look() -> str:
        """Look."""
        return "seen"

    calls = [("a", "pay", '{"amount": 3}'), ("b", "look", "{}")]
    store = MemoryStore()
    run = agent_loop(
        Ask(stream(anthropic(calls=calls, stop=None), then=ConnectionResetError()), anthropic(calls=calls), DONE),
        ASKED, tools=[pay, look], wire=MESSAGES, retry=ANYWHERE, store=store,
    )  # fmt: skip
    asked: list[ApprovalRequested] = []
    with anyio.fail_after(20):
        async with run:
            for _ in range(2):
                async for event in run:
                    if isinstance(event, ApprovalRequested):
                        asked.append(event)
                    if isinstance(event, AttemptBegan) and event.attempt == 2:
                        assert not run.approve(asked[0])  # it is void by now
                    if isinstance(event, Observation):
                        keys.append(event.idempotency_key)
                for request in asked[1:] if run.outcome is None else ():
                    run.approve(request)
    assert run.outcome == "answered"
    assert [request.tool_name for request in asked] == ["look", "pay", "look"] or [
        request.tool_name for request in asked
    ] == ["look", "look", "pay"]
    assert len(set(keys)) == 4
    assert [one.outcome for one in run.turns[0].observations] == ["ok", "ok"]


@PROMISES.add
async def discarded_tokens_count_in_the_runs_usage_and_budget_and_its_calls_do_not(_: Path) -> None:
    @tool(effect="pure")
    async def look(at: str) -> str:
        """Look."""
        return at

    tracers, exporter = kept_spans()
    again = anthropic(["So"], [("a", "look", '{"at": "x"}')])
    cut = again[:-1]  # its counts have come, and its end has not
    ask = Ask(stream(cut, then=ConnectionResetError()), again, DONE)
    limits, seen = Limits(max_repeated_calls=1, call_budget=2), Trajectory(observers=[Tracing(tracers)])
    run = agent_loop(ask, ASKED, tools=[look], wire=MESSAGES, retry=ANYWHERE, limits=limits, trajectory=seen)
    with anyio.fail_after(20):
        await run
    spans = {span.name.split()[0]: [] for span in exporter.get_finished_spans()}
    for span in exporter.get_finished_spans():
        spans[span.name.split()[0]].append((span.attributes or {}).get("gen_ai.usage.output_tokens"))
    assert (spans["chat"], spans["invoke_agent"]) == ([1, 1, 1], [3])
    assert (run.usage.output_tokens, run.trajectory.spent.tokens, run.trajectory.spent.calls) == (3, 3, 1)
    assert [one.outcome for one in run.turns[0].observations] == ["ok"]
    ask = Ask(stream(cut, then=ConnectionResetError()), again)
    run = agent_loop(ask, ASKED, tools=[look], wire=MESSAGES, retry=ANYWHERE, limits=Limits(token_budget=1))
    with anyio.fail_after(20), pytest.raises(ConnectionResetError):
        await run
    assert (len(ask.asked), run.outcome) == (1, "interrupted")


@PROMISES.add
async def a_silent_provider_is_asked_again_within_the_time_for_the_first_chunk(_: Path) -> None:
    for silent in (hanging([]), hanging(CUT)):
        limits = Limits(first_chunk_timeout=0.05, idle_timeout=0.05)
        run = agent_loop(Ask(silent, ANSWER), ASKED, wire=CHAT, retry=ANYWHERE, limits=limits)
        with anyio.fail_after(20):
            assert (await run).text == "Done."
    run = agent_loop(Ask(hanging([])), ASKED, wire=CHAT, retry=AT_ONCE, limits=Limits(run_timeout=0.05))
    with anyio.fail_after(20), pytest.raises(DeadlineExceeded):
        await run
    ask = Ask(chat(["x" * 99]), ANSWER)
    with pytest.raises(LimitExceeded):
        await agent_loop(ask, ASKED, wire=CHAT, retry=ANYWHERE, limits=Limits(max_text_bytes=9))


@PROMISES.add
async def recordings_spans_metrics_pages_and_frames_know_the_attempts(tmp_path: Path) -> None:
    (tracers, exporter), reader = kept_spans(), InMemoryMetricReader()

    @tool(effect="pure")
    async def look(at: str) -> str:
        """Look."""
        return at

    shown: list[Event] = []

    class Watching(Observer):
        def on_event(self, event: Event) -> None:
            shown.append(event)

    for privacy in (None, Privacy(redact=redact_secrets())):
        shown.clear()
        exporter.clear()
        path = tmp_path / f"{privacy is None}.jsonl"
        observers = [Tracing(tracers), Metrics(MeterProvider([reader])), record(path), Watching()]
        reader = InMemoryMetricReader()
        run = agent_loop(
            Ask(
                stream(chat(["So far"], [("a", "look", '{"at": "x"}')], finish=None), then=ConnectionResetError()),
                RefusedError(429),
                chat(calls=[("a", "look", '{"at": "y"}')]),
                ANSWER,
            ),
            ASKED, tools=[look], wire=CHAT, retry=Retry(backoff=0, max_wait=0, after_output=True),
            trajectory=Trajectory(observers=observers, default_observers=False, privacy=privacy),
        )  # fmt: skip
        seen: list[Event] = []
        with anyio.fail_after(20):
            async with run:
                async for event in run:
                    seen.append(event)
        assert run.outcome == "answered"
        assert [event.seq for event in seen] == list(range(len(seen)))
        async with replay(path) as again:
            replayed = [event async for event in again]
        assert [type(event) for event in replayed] == [type(event) for event in shown]
        assert again.differences == ()
        assert [turn.text for turn in again.turns] == [turn.text for turn in run.turns] == ["", "Done."]
        assert [call.arguments for call in again.turns[0].calls] == [{"at": "y"}]
        chats = [span for span in exporter.get_finished_spans() if span.name.startswith("chat")]
        types = [None if span.attributes is None else span.attributes.get("error.type") for span in chats]
        assert types == ["ConnectionResetError", "429", None, None]
        assert all(span.end_time is not None for span in exporter.get_finished_spans())
        html = str(draw(seen))
        assert html
        frames = [frame for event in seen if (frame := encode_event(event)) is not None]
        (first, second) = [data for name, data in frames if name == "attempt_discarded"]
        assert (first["attempt"], second["cause"]) == (1, "request_failed")
    deltas = "".join(event.text for event in shown if isinstance(event, TextDelta) and event.step == 0)
    assert deltas in ("", "So far")


@PROMISES.add
async def a_run_that_goes_on_from_its_journal_has_the_attempt_that_counted_and_pays_once(folder: Path) -> None:
    paid: list[int] = []

    @tool(effect="once")
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    calls = [("a", "pay", '{"amount": 3}')]
    for _ in range(3):  # the first program dies behind the payment, the second one reads the answer, the third all
        dies = not paid
        again = anthropic(["Well"], calls)
        broken = stream(anthropic(["Wait"], calls, stop=None), then=ConnectionResetError())
        ask = Ask(*([broken, again] if dies else []), stream(DONE))
        run = agent_loop(
            ask, ASKED, tools=[pay], wire=MESSAGES, retry=ANYWHERE, journal=folder / "runs.db", run_id="order-7"
        )
        with anyio.fail_after(20):
            async with run:
                async for event in run:
                    if dies and isinstance(event, Observation) and event.outcome == "ok":
                        break
        assert paid == [3]
        assert [one.text for one in run.turns][:1] == ["Well"]
    assert (run.outcome, [one.text for one in run.turns], ask.asked) == ("answered", ["Well", "Done."], [])


@PROMISES.add
async def a_policy_sees_texts_anew_in_each_attempt_and_leaves_our_words(_: Path) -> None:
    shown: list[Event] = []

    class Watching(Observer):
        def on_event(self, event: Event) -> None:
            shown.append(event)

    policy = Privacy(redact=lambda text: text.upper())
    run = Trajectory(observers=[Watching()], default_observers=False, privacy=policy)
    ask = Ask(stream(chat(["half"], finish=None), then=ConnectionResetError()), ANSWER)
    await agent_loop(ask, ASKED, wire=CHAT, retry=ANYWHERE, trajectory=run)
    assert [one.cause for one in shown if isinstance(one, AttemptDiscarded)] == ["stream_truncated"]
    assert [one.whole for one in shown if isinstance(one, TextEnd)] == ["DONE."]


@PROMISES.add
async def a_message_or_a_stop_ends_the_pause_before_the_next_attempt(_: Path) -> None:
    for act, outcome in (("say", "answered"), ("stop", "cancelled")):
        ask = Ask(RefusedError(429, retry_after="600"), ANSWER)
        run = agent_loop(ask, ASKED, wire=CHAT, retry=Retry(max_wait=600, total=None))
        with anyio.fail_after(20):
            async with run:
                async for event in run:
                    if isinstance(event, AttemptDiscarded):
                        if act == "say":
                            run.say("Never mind.", when="now")
                        else:
                            run.stop()
        assert (run.outcome, len(ask.asked)) == (outcome, 2 if act == "say" else 1)


@pytest.mark.deadline(120)
async def test_every_promise_about_attempts_holds(tmp_path: Path) -> None:
    await PROMISES.check_all(tmp_path)
