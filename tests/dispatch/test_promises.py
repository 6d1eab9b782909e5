"""What is promised of calls, each in a situation that would break the promise: starts, ends, threads, contexts."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
import trio
import trio.testing
from alone import run_alone
from every_wire import FRAMINGS, IN_DELTAS, framed, said
from sansio import check_histories
from streams import anthropic, chat, hanging, stream
from wire_cases import CASES

from streamtools import Limits, Observation, StreamDecoder, StreamEnd, ToolContext, Turn, pipeline, tool
from streamtools.dispatch.in_process import abandoned_threads
from streamtools.errors import CallTruncated, TruncatedStream
from streamtools.events import StepEnd, ToolCallEnd, ToolProgress, ToolStarted
from streamtools.wires import WIRES

pytestmark = pytest.mark.anyio


def on_its_own_time(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Time is trio's own, which passes as soon as every task waits."""

    def run() -> None:
        trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))

    run.__name__ = test.__name__
    return run


async def turn_of(calls: list[tuple[str, str, str]], tools: list[Any], **options: Any) -> Turn:
    with anyio.fail_after(30):
        async with pipeline(stream(chat(calls=calls)), tools=tools, **options) as events:
            _ = [event async for event in events]
    return events.turn


async def no_thread_is_left_to_itself() -> None:
    with anyio.fail_after(30):
        while abandoned_threads():  # noqa: ASYNC110  # a thread ends, and has no event to wait for
            await anyio.sleep(0.001)


class Started:
    """An observer that counts the calls that were started."""

    event_types = frozenset({ToolStarted})

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_event(self, event: Any) -> None:
        self.calls.append(event.call_id)

    def around_tool(self, call_id: str) -> None:
        return None


@tool(effect="pure")
async def double(n: int) -> int:
    """Twice n."""
    return 2 * n


# -- when a call starts ------------------------------------------------------------------------------------------

ENDS_ITSELF = [wire for wire in WIRES if CASES[wire].events_of_a_call is not None]
ENDS_WITH_THE_RESPONSE = [wire for wire in WIRES if wire not in ENDS_ITSELF]


@pytest.mark.parametrize("policy", ["early", "auto"])
@pytest.mark.parametrize("wire", ENDS_ITSELF)
async def test_a_call_starts_at_its_own_end_marker_and_not_an_event_before(wire: str, policy: Any) -> None:
    before = len(framed(wire, said(wire, text=["Hi"], ends=False)))
    items = framed(wire, said(wire, text=["Hi"], calls=[("a", "double", '{"n":123}')], pieces=3, ends=False))
    assert len(items) == before + (CASES[wire].events_of_a_call or 0)
    gate, started = anyio.Event(), Started()

    async def source() -> AsyncIterator[bytes]:
        for item in items[:-1]:
            yield item
        await gate.wait()
        yield items[-1]
        await anyio.sleep_forever()

    with anyio.fail_after(30):
        async with pipeline(source(), wire=wire, tools=[double], start=policy, observers=[started]) as events:
            await anyio.wait_all_tasks_blocked()
            assert started.calls == []
            gate.set()
            async for event in events:  # the stream goes on, for ever
                if isinstance(event, Observation):
                    break
    assert started.calls == ["a"]
    assert [observation.value for observation in events.turn.observations] == [246]


async def test_a_call_starts_before_more_is_read_however_fast_the_source_is() -> None:
    pulled, at_start = 0, -1

    @tool(effect="pure")
    async def look() -> str:
        """Look how much was read."""
        nonlocal at_start
        at_start = pulled
        return "looked"

    call = anthropic(calls=[("a", "look", "{}")], stop=None)
    text = anthropic(["x"] * 100, stop="end_turn")[1:]

    async def source() -> AsyncIterator[bytes]:
        nonlocal pulled
        for item in [*call, *text]:
            pulled += 1
            yield item  # without a checkpoint: everything is there already

    async with pipeline(source(), tools=[look]) as events:
        _ = [event async for event in events]
    assert at_start == len(call)


@pytest.mark.parametrize("wire", ENDS_WITH_THE_RESPONSE)
async def test_where_calls_have_no_end_marker_they_start_when_the_response_says_that_it_has_ended(wire: str) -> None:
    payloads = said(wire, calls=[("a", "double", '{"n":123}'), ("b", "double", '{"n":4}')], pieces=3)
    items, gate, started = framed(wire, payloads), anyio.Event(), Started()

    async def source() -> AsyncIterator[bytes]:
        for item in items[:-1]:
            yield item
        await gate.wait()
        yield items[-1]
        if FRAMINGS[wire][0] == "sse":
            yield b"data: [DONE]\n\n"

    with anyio.fail_after(30):
        async with pipeline(source(), wire=wire, tools=[double], start="early", observers=[started]) as events:
            await anyio.wait_all_tasks_blocked()
            assert started.calls == []
            gate.set()
            _ = [event async for event in events]
    assert sorted(started.calls) == ["a", "b"]


def test_every_wire_has_its_place_in_the_tests_above() -> None:
    for wire in WIRES:
        decoder = StreamDecoder(wire=wire)
        payloads = said(wire, calls=[("a", "double", '{"n":1}')], ends=False)
        events = [event for payload in payloads for event in decoder.feed(payload)]
        assert any(isinstance(event, ToolCallEnd) for event in events) is (wire in ENDS_ITSELF), wire


@on_its_own_time
async def test_calls_run_while_the_stream_goes_on_so_that_the_longest_decides_and_not_the_sum() -> None:
    @tool(effect="pure")
    async def work(seconds: int) -> str:
        """Work."""
        await trio.sleep(seconds)
        return "done"

    calls = [("a", "work", '{"seconds": 30}'), ("b", "work", '{"seconds": 20}')]

    async def source() -> AsyncIterator[bytes]:
        for item in anthropic(calls=calls):
            yield item
            await trio.sleep(3)  # nine events, 27 s; the first call ends after the fourth

    started = trio.current_time()
    async with pipeline(source(), tools=[work]) as events:
        _ = [event async for event in events]
    assert [observation.outcome for observation in events.turn.observations] == ["ok", "ok"]
    lasted = trio.current_time() - started
    assert lasted == 9 + 30  # nine seconds until the first call's end, then the longer of the two


FAILS = {
    "length": (anthropic(calls=[("a", "spend", "{}")], stop="max_tokens"), None),
    "cut": (anthropic(calls=[("a", "spend", "{}")], stop=None), None),
    "error": (anthropic(calls=[("a", "spend", "{}")], stop=None), OSError("reset")),
}


@pytest.mark.parametrize("policy", ["auto", "early", "turn_end"])
@pytest.mark.parametrize("how", FAILS)
async def test_a_turn_that_fails_has_started_what_spends_only_if_that_was_asked_for_and_its_result_stays(
    how: str, policy: Any
) -> None:
    spent: list[int] = []
    done = anyio.Event()

    @tool(effect="once")
    async def spend() -> str:
        """Spend."""
        spent.append(1)
        done.set()
        return "spent"

    body, error = FAILS[how]

    async def source() -> AsyncIterator[bytes]:
        for item in body:
            yield item
            if policy == "early" and b"content_block_stop" in item:
                await done.wait()
                await anyio.wait_all_tasks_blocked()
        if error is not None:
            raise error

    seen: list[Any] = []
    with anyio.fail_after(30):
        async with pipeline(source(), tools=[spend], start=policy) as events:
            with contextlib.nullcontext() if how == "length" else pytest.raises((OSError, TruncatedStream)):
                async for event in events:
                    seen.append(event)
    (observation,) = events.turn.observations
    (end,) = [event for event in seen if isinstance(event, StreamEnd)]
    if policy == "early":
        assert (spent, observation.outcome, observation.model_content) == ([1], "ok", "spent")
    else:
        assert (spent, observation.outcome, observation.attempts) == ([], "skipped", 0)
        assert "the turn ended" in observation.model_content
    assert (end.finish, end.error is None) == (("length", True) if how == "length" else (None, False))
    assert isinstance(seen[-1], StepEnd)
    check_histories(events.turn)


async def test_a_call_whose_arguments_do_not_fit_does_not_start_early_either() -> None:
    started = Started()
    calls = [("a", "double", '{"n": "many"}'), ("b", "nope", "{}"), ("c", "double", '{"n": 1}')]
    body = anthropic(calls=calls)
    async with pipeline(stream(body), tools=[double], start="early", observers=[started]) as events:
        _ = [event async for event in events]
    assert started.calls == ["c"]
    assert [o.outcome for o in events.turn.observations] == ["invalid", "unknown_tool", "ok"]


# -- arguments that were cut -------------------------------------------------------------------------------------


@pytest.mark.parametrize("finish", ["length", "tool_calls", "stop", None])
async def test_a_call_that_was_cut_runs_nothing_tells_the_model_so_and_keeps_its_text_for_the_program(
    finish: str | None,
) -> None:
    ran: list[str] = []

    @tool(effect="pure")
    async def write(path: str, content: str = "") -> str:
        """Write."""
        ran.append(content)
        return "written"

    cut = '{"path": "a.txt", "content": "line1'
    body = chat(calls=[("a", "write", cut)], finish=finish)
    seen: list[Any] = []
    async with pipeline(stream(body), tools=[write], start="early") as events:
        with contextlib.nullcontext() if finish else pytest.raises(TruncatedStream):
            async for event in events:
                seen.append(event)
    (observation,) = events.turn.observations
    assert (ran, observation.outcome, observation.attempts) == ([], "truncated", 0)
    assert isinstance(observation.error, CallTruncated)
    assert "cut" in observation.model_content
    assert "was not run" in observation.model_content
    assert "smaller" in observation.model_content  # what it had better do
    assert "line1" not in observation.model_content
    (call,) = events.turn.calls
    assert (call.arguments_text, call.arguments, call.dispatchable) == (cut, None, False)
    (end,) = [event for event in seen if isinstance(event, ToolCallEnd)]
    assert end.call.arguments_text == cut
    (said_so,) = events.turn.messages()[0]["tool_calls"]
    assert said_so["function"]["arguments"] == "{}"
    check_histories(events.turn)


@pytest.mark.parametrize("wire", sorted(IN_DELTAS))
async def test_a_connection_that_is_lost_inside_a_call_truncates_it_on_every_wire(wire: str) -> None:
    whole = said(wire, calls=[("a", "double", '{"n":1}'), ("b", "double", '{"n":23456}')], pieces=3)
    alone = said(wire, calls=[("a", "double", '{"n":1}')], pieces=3, ends=False)
    body = framed(wire, whole[: len(alone) + 3])  # the head of the second call, and two of its three pieces
    async with pipeline(stream(body, then=OSError("reset")), wire=wire, tools=[double]) as events:
        with pytest.raises(OSError, match="reset"):
            _ = [event async for event in events]
    first, second = events.turn.observations
    assert (second.outcome, second.attempts) == ("truncated", 0)
    if wire == "openai.realtime":  # only the response's end says that a call was not cut
        assert (first.outcome, first.attempts) == ("truncated", 0)
    elif wire in ENDS_WITH_THE_RESPONSE:  # nothing has ended the first one either
        assert (first.outcome in ("skipped", "cancelled"), first.attempts) == (True, 0)
    else:
        assert (first.outcome, first.attempts) == ("ok", 1)
    check_histories(events.turn)


ENDS_BADLY: dict[str, tuple[str | None, BaseException | None]] = {
    "length": ("length", None),
    "content_filter": ("content_filter", None),
    "cut": (None, None),
    "error": (None, OSError("reset")),
}


@pytest.mark.parametrize("policy", ["auto", "early"])
@pytest.mark.parametrize("effect", ["pure", "idempotent"])
@pytest.mark.parametrize("how", ENDS_BADLY)
async def test_a_call_that_nothing_but_a_bad_end_of_its_turn_has_ended_does_not_start(
    how: str, effect: Any, policy: Any
) -> None:
    """On wires whose calls end with the response (Chat Completions) the end marker is the finish reason of a good end:
    what a lost connection or a token limit leaves behind may parse, and is a call that the wire never ended."""
    ran: list[int] = []

    @tool(effect=effect)
    async def act(n: int) -> str:
        """Act."""
        ran.append(n)
        return "done"

    finish, error = ENDS_BADLY[how]
    started = Started()
    body = chat(calls=[("a", "act", '{"n": 1}'), ("b", "act", '{"n": 2}')], finish=finish)
    source = stream(body, then=error)
    async with pipeline(source, tools=[act], start=policy, observers=[started]) as events:
        with contextlib.nullcontext() if finish else pytest.raises((OSError, TruncatedStream)):
            _ = [event async for event in events]
    assert (ran, started.calls) == ([], [])
    assert {o.outcome for o in events.turn.observations} <= ({"skipped"} if finish else {"skipped", "cancelled"})
    assert [o.attempts for o in events.turn.observations] == [0, 0]
    check_histories(events.turn)


# -- one observation for each call -------------------------------------------------------------------------------


async def test_a_stream_that_fails_with_calls_done_running_queued_and_cut_observes_each_once() -> None:
    inside = anyio.Event()

    @tool(effect="pure")
    async def wait(n: int) -> str:
        """Wait to be cancelled."""
        inside.set()
        await anyio.sleep_forever()
        return "never"

    calls = [("a", "double", '{"n": 1}'), ("b", "wait", '{"n": 1}'), ("c", "wait", '{"n": 2}')]
    *whole, _ = anthropic(calls=[*calls, ("d", "wait", '{"n": ')], stop=None)

    async def source() -> AsyncIterator[bytes]:
        for item in whole:
            yield item
        await inside.wait()
        await anyio.wait_all_tasks_blocked()
        raise OSError("reset")

    seen: list[Observation] = []
    with anyio.fail_after(30):
        async with pipeline(source(), tools=[double, wait], limits=Limits(max_concurrency=1)) as events:
            with pytest.raises(OSError, match="reset"):
                async for event in events:
                    if isinstance(event, Observation):
                        seen.append(event)
    assert [o.call_id for o in events.turn.observations] == ["a", "b", "c", "d"]
    assert sorted(o.call_id for o in seen) == ["a", "b", "c", "d"]
    assert [(o.outcome, o.attempts) for o in events.turn.observations] == [
        ("ok", 1),
        ("cancelled", 1),
        ("skipped", 0),
        ("truncated", 0),
    ]
    check_histories(events.turn)


@pytest.mark.parametrize("how", ["break", "timeout of the tool"])
async def test_a_tool_that_swallows_its_cancellation_is_waited_for_before_the_line_after_the_block(how: str) -> None:
    release, cancelled = anyio.Event(), anyio.Event()
    ended: list[int] = []

    @tool(effect="pure", timeout=0.01 if how != "break" else None)
    async def stay() -> str:
        """Swallow one cancellation, and go on."""
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled.set()
        with anyio.CancelScope(shield=True):
            await release.wait()
        ended.append(1)
        return "late"

    async def lets_go() -> None:
        await cancelled.wait()
        await anyio.wait_all_tasks_blocked()
        assert ended == []
        release.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(lets_go)
            async with pipeline(hanging(anthropic(calls=[("a", "stay", "{}")], stop=None)), tools=[stay]) as events:
                async for event in events:
                    if isinstance(event, ToolStarted if how == "break" else Observation):
                        if how == "break":
                            await anyio.wait_all_tasks_blocked()
                        break
            assert ended == [1]
    (observation,) = events.turn.observations
    assert observation.outcome in (("cancelled", "ok") if how == "break" else ("timed_out", "ok"))


# -- threads -----------------------------------------------------------------------------------------------------


async def test_of_thirty_sync_tools_that_time_out_few_threads_are_left_and_the_rest_is_refused() -> None:
    release, lock = threading.Event(), threading.Lock()
    alive = most = 0

    @tool(effect="pure", timeout=0.02)
    def stuck(n: int) -> bool:
        """Wait."""
        nonlocal alive, most
        with lock:
            alive += 1
            most = max(most, alive)
        try:
            return release.wait(20)
        finally:
            with lock:
                alive -= 1

    @tool(effect="pure")
    def quick() -> str:
        """Be quick."""
        return "done"

    limits = Limits(max_threads=2, max_abandoned_threads=4, max_concurrency=30)
    thirty = [(f"c{n}", "stuck", f'{{"n": {n}}}') for n in range(30)]
    seen: list[Observation] = []
    try:
        while abandoned_threads() < limits.max_abandoned_threads:  # one that was given up may not have begun yet
            seen += (await turn_of(thirty, [stuck], limits=limits)).observations
        left = abandoned_threads()
        refused = await turn_of(thirty, [stuck], limits=limits)
        seen += refused.observations
        assert abandoned_threads() == left
    finally:
        release.set()
    # Those that run at once may all be given up when one more would have been the last.
    assert max(left, most) <= limits.max_abandoned_threads + limits.max_threads - 1
    assert {observation.outcome for observation in seen} == {"timed_out", "failed"}
    assert [observation.outcome for observation in refused.observations] == ["failed"] * 30
    for observation in seen:
        if observation.outcome == "failed":
            assert (observation.attempts, observation.still_running) == (0, False)
            assert "max_abandoned_threads" in observation.model_content
    check_histories(refused)
    await no_thread_is_left_to_itself()
    again = await turn_of([("a", "quick", "{}")], [quick], limits=limits)
    assert [observation.outcome for observation in again.observations] == ["ok"]  # there is room again


async def test_whether_a_thread_is_given_up_is_for_its_own_call_alone() -> None:
    given_up, release = threading.Event(), threading.Event()

    @tool(effect="pure")
    def inner() -> str:
        """Take as long as it takes, until the impatient one was given up."""
        assert given_up.wait(45)
        return "whole"

    @tool(effect="pure", timeout=60)
    async def outer() -> str:
        """Run a sync tool that has no time-out, inside one that has."""
        return f"outer: {(await run_alone(inner, {})).value}"

    @tool(effect="pure", timeout=0.02)
    def impatient() -> bool:
        """Be given up."""
        return release.wait(45)

    calls = [("a", "outer", "{}"), ("b", "inner", "{}"), ("c", "impatient", "{}")]
    try:
        with anyio.fail_after(30):
            async with pipeline(stream(chat(calls=calls)), tools=[outer, inner, impatient]) as events:
                async for event in events:
                    if isinstance(event, Observation) and event.call_id == "c":
                        given_up.set()
    finally:
        given_up.set()
        release.set()
    seen = [(o.outcome, o.value, o.still_running) for o in events.turn.observations]
    assert seen[:2] == [("ok", "outer: whole", False), ("ok", "whole", False)]
    assert seen[2][0] == "timed_out"
    await no_thread_is_left_to_itself()


# -- context variables -------------------------------------------------------------------------------------------

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@pytest.mark.parametrize("kind", ["async", "sync", "generator"])
async def test_tools_see_the_context_in_which_the_block_was_entered_and_what_they_set_stays_theirs(kind: str) -> None:
    both = [anyio.Event(), anyio.Event()]
    loop = anyio.lowlevel.current_token()

    def look_and_set(n: int) -> str:
        seen = variable.get()
        variable.set(f"tool {n}")
        return seen

    if kind == "sync":

        @tool(effect="pure")
        def look(n: int) -> str:
            """Look, set, and look again."""
            before = look_and_set(n)
            anyio.from_thread.run_sync(both[n].set, token=loop)
            anyio.from_thread.run(both[1 - n].wait, token=loop)
            return f"{before}, {variable.get()}"
    elif kind == "async":

        @tool(effect="pure")
        async def look(n: int) -> str:
            """Look, set, and look again."""
            before = look_and_set(n)
            both[n].set()
            await both[1 - n].wait()
            return f"{before}, {variable.get()}"
    else:
        from streamtools.content import FinalResult

        @tool(effect="pure")
        async def look(n: int) -> AsyncIterator[Any]:
            """Look, set, and look again."""
            before = look_and_set(n)
            both[n].set()
            await both[1 - n].wait()
            yield "between"
            yield FinalResult(f"{before}, {variable.get()}")

    async def source() -> AsyncIterator[bytes]:
        variable.set("the source's own")
        for item in chat(calls=[("a", "look", '{"n": 0}'), ("b", "look", '{"n": 1}')]):
            await anyio.lowlevel.checkpoint()
            yield item

    token = variable.set("when made")
    try:
        events = pipeline(source(), tools=[look])
        variable.set("when entered")
        with anyio.fail_after(30):
            async with events:
                variable.set("inside")
                async for _ in events:
                    assert variable.get() == "inside"
        assert variable.get() == "inside"
    finally:
        variable.reset(token)
    seen = [observation.value for observation in events.turn.observations]
    assert seen == ["when entered, tool 0", "when entered, tool 1"]


# -- progress ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["async", "sync"])
async def test_the_progress_of_one_call_waits_for_no_other_and_no_model_reads_it(other: str) -> None:
    release = threading.Event()
    freed = anyio.Event()

    @tool(effect="pure")
    async def report(ctx: ToolContext) -> str:
        """Report, and go on when that was seen."""
        ctx.progress("halfway there")
        await freed.wait()
        return "reported"

    if other == "async":

        @tool(effect="pure")
        async def busy() -> str:
            """Wait for the other's progress to be seen."""
            await freed.wait()
            return "done"
    else:

        @tool(effect="pure")
        def busy() -> str:
            """Wait for the other's progress to be seen."""
            assert release.wait(45)
            return "done"

    seen: list[Any] = []
    with anyio.fail_after(30):
        body = chat(calls=[("a", "busy", "{}"), ("b", "report", "{}")])
        async with pipeline(stream(body), tools=[busy, report]) as events:
            async for event in events:
                seen.append(event)
                if isinstance(event, ToolProgress):
                    freed.set()
                    release.set()
    first_end = next(at for at, event in enumerate(seen) if isinstance(event, Observation))
    assert [type(event) for event in seen[:first_end]].count(ToolProgress) == 1
    for wire in WIRES:
        assert "halfway" not in repr(events.turn.messages(wire))


# -- one logical call, one key -----------------------------------------------------------------------------------


async def test_a_key_is_the_same_after_a_time_out_and_another_for_every_other_call() -> None:
    keys: dict[str, list[str]] = {}

    @tool(effect="idempotent", retries=1, retry_delay_s=0.001, timeout=0.02)
    async def act(ctx: ToolContext, n: int) -> str:
        """Hang at first."""
        mine = keys.setdefault(f"{ctx.run_id} {ctx.call_id}", [])
        mine.append(ctx.idempotency_key)
        if len(mine) == 1:
            await anyio.sleep_forever()
        return "done"

    calls = [("a", "act", '{"n": 1}'), ("b", "act", '{"n": 1}'), ("c", "act", '{"n": 2}')]
    for _ in range(2):  # another run
        turn = await turn_of(calls, [act])
        assert [(o.outcome, o.attempts) for o in turn.observations] == [("ok", 2)] * 3
    assert len(keys) == 6
    assert all(len(set(mine)) == 1 for mine in keys.values())
    assert len({mine[0] for mine in keys.values()}) == 6


# -- results in call order ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
async def test_events_come_in_the_order_of_completion_with_the_calls_place_and_histories_in_call_order(
    order: tuple[int, ...],
) -> None:
    gates = [anyio.Event() for _ in range(5)]
    gates[0].set()

    @tool(effect="pure")
    async def work(n: int) -> int:
        """End when it is its turn."""
        await gates[order.index(n)].wait()
        return n

    seen: list[int] = []
    calls = [(f"c{n}", "work", f'{{"n": {n}}}') for n in range(4)]
    with anyio.fail_after(30):
        async with pipeline(stream(chat(calls=calls)), tools=[work]) as events:
            async for event in events:
                if isinstance(event, Observation):
                    assert event.value == event.index
                    seen.append(event.index)
                    gates[len(seen)].set()
    assert tuple(seen) == order
    assert [message["content"] for message in events.turn.messages()[1:]] == ["0", "1", "2", "3"]
    check_histories(events.turn)
