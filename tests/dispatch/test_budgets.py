"""Budgets of calls and of tokens: of a run by its limits, of several runs by the pool that they share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from decisions import decisions_on
from streams import Call, Model, chat, chat_chunk, double, exhaust, sse, stream

from streamtools import Limits, Suspended, Trajectory, Turn, agent_loop, pipeline, resume, run_calls, tool
from streamtools.dispatch import CallPool, MemoryStore
from streamtools.dispatch.pool import tokens_of
from streamtools.errors import BudgetExceeded, CallDenied, LocalProtocolError, ToolError, TruncatedStream
from streamtools.events import StreamEnd, ToolCallValidated
from streamtools.history import lint
from streamtools.integrations.hosting import CallHost
from streamtools.provenance import only_from_user
from streamtools.tools import Toolset

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns

CHAT = "openai.chat_completions"
KEY = b"k" * 32
ASKED: list[Any] = [{"role": "user", "content": "Double them."}]
OVER = "over_budget"


@tool(effect="pure")
def double_in_a_thread(n: int) -> int:
    """Twice n."""
    return 2 * n


@tool
async def pay(n: int) -> str:
    """Pay n."""
    return f"paid {n}"


@tool(needs_approval=True)
async def pay_if_approved(n: int) -> str:
    """Pay n."""
    return f"paid {n}"


@tool(effect="pure", policy=only_from_user("n"))
async def pay_for_the_user(n: int) -> str:
    """Pay n."""
    return f"paid {n}"


TOOLS: list[Any] = [double, double_in_a_thread, pay, pay_if_approved]


def calls(*names: str, first: int = 0) -> list[Call]:
    return [(f"c{n}", name, f'{{"n": {n}}}') for n, name in enumerate(names, first)]


def body(
    made: Sequence[Call] = (), tokens: dict[str, Any] | int | None = None, finish: str = "tool_calls"
) -> list[bytes]:
    """A response with these calls, whose last chunk counts its tokens."""
    said = chat([] if made else ["Done."], calls=made, finish=finish if made else "stop")
    counts = {"prompt_tokens": tokens, "completion_tokens": 0} if isinstance(tokens, int) else tokens
    if counts is not None:
        said[-1:-1] = sse([{**chat_chunk({}), "choices": [], "usage": counts}])
    return said


def outcomes(turn: Turn) -> list[str]:
    by_call = {seen.call_id: seen.outcome for seen in turn.observations}
    return [by_call[call.call_id] for call in turn.calls]


async def loop(model: Model, **options: Any) -> Any:
    run = agent_loop(model, ASKED, tools=TOOLS, wire=CHAT, **options)
    async with run:
        await exhaust(run)
    return run


# -- calls -------------------------------------------------------------------------------------------------------------


async def test_of_the_calls_of_a_turn_so_many_run_as_there_are_left_in_their_order_however_they_start() -> None:
    mixed = ["pay", "double", "pay_if_approved", "double_in_a_thread", "pay_for_the_user"]
    wrong = []
    for start in ("auto", "early", "turn_end"):
        for names in (mixed, mixed[::-1], ["double"] * 5, ["pay_if_approved"] * 5, ["pay_for_the_user"] * 5):
            for limits, pool in (
                (Limits(call_budget=3), None),
                (Limits(), CallPool(call_budget=3)),
                (Limits(call_budget=4, max_concurrency=1), CallPool(Limits(max_concurrency=1), call_budget=3)),
            ):
                run = Trajectory()
                turn = await pipeline(
                    stream(body(calls(*names))), tools=[*TOOLS, pay_for_the_user], start=start,
                    limits=limits, pool=pool, trajectory=run,
                    approve=lambda request: True, request={"messages": [{"role": "user", "content": "0 1 2 3 4"}]},
                )  # fmt: skip
                spent = run.spent.calls if pool is None else pool.spent.calls
                if (outcomes(turn), spent) != (["ok"] * 3 + [OVER] * 2, 3):
                    wrong.append((start, names, limits, outcomes(turn), spent))
                assert lint([*ASKED, *turn.messages()], CHAT) == []
    assert wrong == []


async def test_a_call_beyond_the_budget_names_it_and_the_model_reads_that_it_is_to_answer() -> None:
    for limits, pool, place, scope in (
        (Limits(call_budget=1), None, "this run are spent (Limits(call_budget=1))", "run"),
        (Limits(), CallPool(call_budget=1), "the runs that share a pool are spent (CallPool(call_budget=1))", "pool"),
    ):
        turn = await pipeline(stream(body(calls("pay", "pay"))), tools=TOOLS, limits=limits, pool=pool)
        seen = turn.observations[-1]
        error = seen.error
        assert isinstance(error, BudgetExceeded)
        assert isinstance(error, CallDenied)
        assert (error.budget, error.limit, error.scope) == ("call_budget", 1, scope)
        text = f"not run: the calls of {place}; make no more calls, and answer with what you have"
        assert (seen.model_content, seen.attempts) == (f"Error: {text}", 0)
        with pytest.raises(BudgetExceeded, match="call_budget=1"):
            seen.unwrap()


async def test_a_call_by_hand_counts_when_it_is_run() -> None:
    limits = Limits(call_budget=2)
    async with pipeline(stream(body(calls(*["pay"] * 4))), tools=TOOLS, start="manual", limits=limits) as events:
        ready = [event.call.call_id async for event in events if isinstance(event, ToolCallValidated)]
        seen = [(await events.run_call(call_id)).outcome for call_id in (ready[3], ready[0], ready[0], ready[1])]
    assert seen == ["ok", "ok", "ok", OVER]
    assert outcomes(events.turn) == ["ok", OVER, "skipped", "ok"]


async def test_a_call_that_ends_without_having_begun_gives_its_place_back_and_one_that_began_keeps_it() -> None:
    tries = 0

    @tool(effect="pure", retries=2, retry_delay_s=0.001)
    async def flaky(n: int) -> str:
        """Fail twice."""
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionError
        return "done"

    @tool(effect="pure")
    async def fails(n: int) -> str:
        """Fail."""
        raise ToolError("no")

    async def instead(call: Any, run: Any) -> str:
        return "answered"

    store, noted = MemoryStore(), Trajectory(run_id="noted")
    await pipeline(stream(body(calls("pay"))), tools=TOOLS, store=store, trajectory=noted)
    again: dict[str, Any] = {"store": store, "trajectory": Trajectory(run_id="noted")}
    cases: list[tuple[str, list[bytes], dict[str, Any], int]] = [
        ("it is retried", body(calls("flaky")), {}, 1),
        ("it fails", body(calls("fails")), {}, 1),
        ("it is denied", body(calls("pay_if_approved")), {"approve": lambda request: False}, 0),
        ("its policy denies it", body(calls("pay_for_the_user")), {"approve": lambda request: False}, 0),
        ("its arguments are wrong", body([("c", "pay", '{"n": "x"}')]), {}, 0),
        ("nobody knows it", body(calls("gone")), {}, 0),
        ("the turn ends badly", body(calls("pay"), finish="length"), {}, 0),
        ("middleware answers", body(calls("pay")), {"middleware": instead}, 0),
        ("a store has its end", body(calls("pay")), again, 0),
        ("it is left to others", body(calls("pay")), {"start": "off"}, 0),
    ]
    wrong = []
    for what, said, options, count in cases:
        pool = CallPool(call_budget=9)
        options = {"trajectory": Trajectory(), "request": {"messages": ASKED}, **options}
        await pipeline(stream(said), tools=[*TOOLS, pay_for_the_user, flaky, fails], pool=pool, **options)
        counted = (options["trajectory"].spent.calls, pool.spent.calls)
        if counted != (count, count):
            wrong.append((what, counted))
    assert wrong == []


async def test_all_steps_of_a_run_and_the_pipelines_in_its_tools_count_together() -> None:
    run = Trajectory()
    limits = Limits(call_budget=4)

    @tool(effect="pure")
    async def delegate(n: int) -> list[str]:
        """Have others do it."""
        inner = stream(body(calls("double", "double")))
        return outcomes(await pipeline(inner, tools=TOOLS, limits=limits, trajectory=run))

    first = await pipeline(stream(body(calls("pay"))), tools=TOOLS, limits=limits, trajectory=run)
    second = await pipeline(stream(body(calls("delegate"))), tools=[delegate], limits=limits, trajectory=run)
    third = await run_calls([("c1", "double", {"n": 1})], TOOLS, limits=limits, trajectory=run)
    assert [*outcomes(first), *second.observations[0].value, *outcomes(third)] == ["ok", "ok", "ok", OVER]
    assert run.spent.calls == 4


async def test_a_provider_that_asks_whether_it_may_run_a_call_takes_a_place_and_is_answered_no_without_one() -> None:
    asks = [{"type": "mcp_approval_request", "id": f"q{n}", "name": "send", "server_label": "s", "arguments": "{}"}
            for n in range(2)]  # fmt: skip
    head, end = ({"id": "r", "model": "m", "status": status, "output": asks} for status in ("in_progress", "completed"))
    said = [{"type": "response.created", "response": {**head, "output": []}}]
    said += [{"type": "response.output_item.done", "output_index": n, "item": one} for n, one in enumerate(asks)]
    said += [{"type": "response.completed", "response": end}]
    turn = await pipeline(
        stream(said), wire="openai.responses", approve=lambda request: True, limits=Limits(call_budget=1)
    )
    assert outcomes(turn) == ["ok", OVER]
    answers = [one for one in turn.messages() if one["type"] == "mcp_approval_response"]
    assert [(one["approval_request_id"], one["approve"]) for one in answers] == [("q0", True), ("q1", False)]
    assert lint([*ASKED, *turn.messages()], "openai.responses") == []


async def test_a_run_that_was_suspended_goes_on_with_what_it_had_spent() -> None:
    limits = Limits(call_budget=3, token_budget=100)
    made = calls("pay", "pay_if_approved", "pay_if_approved")
    async with pipeline(stream(body(made, tokens=60)), tools=TOOLS, limits=limits) as events:
        await events.finish()
        open_still = events.suspended
    for suspended in (open_still, events.suspended):
        kept = Suspended.from_text(suspended.to_text(KEY), KEY)
        assert (kept.calls_spent, kept.tokens_spent) == (1, 60)
        for budgets, ends, spent in (
            (limits, ["ok", "ok"], 3),
            (Limits(call_budget=2), ["ok", OVER], 2),
            (Limits(token_budget=60), [OVER, OVER], 1),
        ):
            run = Trajectory(run_id=kept.run_id)
            decisions = decisions_on(kept, {"c1": True, "c2": True})
            turn = await resume(
                kept, tools=TOOLS, store=MemoryStore(), decisions=decisions, limits=budgets, trajectory=run
            )
            assert (outcomes(turn), run.spent.calls, run.spent.tokens) == (ends, spent, 60)


async def test_runs_that_share_a_pool_share_its_budget_in_whatever_event_loops_and_threads_they_are() -> None:
    pool, ends = CallPool(call_budget=20, token_budget=1000), list[str]()

    async def one() -> None:
        turn = await pipeline(stream(body(calls(*["double"] * 8), tokens=10)), tools=TOOLS, pool=pool)
        ends.extend(outcomes(turn))

    async def several() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(one)

    others = [threading.Thread(target=anyio.run, args=(several,)) for _ in range(2)]
    for other in others:
        other.start()
    await several()
    for other in others:
        await anyio.to_thread.run_sync(other.join)
    assert (ends.count("ok"), ends.count(OVER)) == (20, 52)
    assert (pool.spent.calls, pool.spent.tokens) == (20, 90)


# -- tokens ------------------------------------------------------------------------------------------------------------


async def test_input_and_output_count_once_whatever_they_are_part_of_or_came_by() -> None:
    openai = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 80},
        "completion_tokens_details": {"reasoning_tokens": 15},
    }
    gemini = {"promptTokenCount": 30, "candidatesTokenCount": 5, "thoughtsTokenCount": 4, "toolUsePromptTokenCount": 7}
    answer = {"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}]}, "finishReason": "STOP"}]}
    run, pool = Trajectory(), CallPool()
    await pipeline(stream(body(tokens=openai)), trajectory=run, pool=pool)
    assert (run.spent.tokens, pool.spent.tokens) == (120, 120)
    await pipeline(stream([{**answer, "usageMetadata": gemini}]), wire="gemini.generate_content", trajectory=run)
    assert run.spent.tokens == 120 + 30 + 5 + 4 + 7


async def test_once_the_tokens_are_spent_no_further_call_runs_and_what_was_released_goes_on() -> None:
    made = calls("double", "pay", "pay_if_approved")
    for limits, pool in ((Limits(token_budget=50), None), (Limits(), CallPool(token_budget=50))):
        run = Trajectory()
        turn = await pipeline(
            stream(body(made, tokens=50)), tools=TOOLS, limits=limits, pool=pool, trajectory=run,
            approve=lambda request: True,
        )  # fmt: skip
        assert outcomes(turn) == ["ok", OVER, OVER]  # the first ran while the response was not counted yet
        assert "tokens of" in turn.observations[-1].model_content
        assert run.spent.calls == 1
        next_turn = await pipeline(
            stream(body(calls("double"))), tools=TOOLS, limits=limits, pool=pool, trajectory=run, start="early"
        )
        assert outcomes(next_turn) == [OVER]
    async with pipeline(
        stream(body(calls("pay_if_approved"), tokens=50)), tools=TOOLS, start="early", limits=Limits(token_budget=50)
    ) as events:
        async for event in events:
            if isinstance(event, StreamEnd):
                events.approve("c0")
    assert outcomes(events.turn) == ["ok"]  # it had been released, and was asked about, before


async def test_a_call_that_only_the_end_releases_never_runs_beyond_the_tokens_whenever_its_texts_are_read() -> None:
    @tool(policy=only_from_user("n"))
    async def pay_as_asked(n: int) -> str:
        """Pay n."""
        return f"paid {n}"

    request = {"messages": [{"role": "user", "content": "Pay 0 and 1. " * 2_000}]}
    made = calls("pay_as_asked", "pay_for_the_user")
    for start, ends in (("auto", [OVER, "ok"]), ("turn_end", [OVER, OVER])):
        turn = await pipeline(
            stream(body(made, tokens=50)), tools=[pay_as_asked, pay_for_the_user], request=request, start=start,
            limits=Limits(token_budget=50),
        )  # fmt: skip
        assert outcomes(turn) == ends, start


async def test_a_response_without_counts_adds_nothing_and_a_budget_of_tokens_warns_of_that() -> None:
    for limits, pool, warned in (
        (Limits(token_budget=5), None, ["tokens_uncounted"]),
        (Limits(), CallPool(token_budget=5), ["tokens_uncounted"]),
        (Limits(call_budget=5), CallPool(), []),
    ):
        run = Trajectory()
        turn = await pipeline(stream(body(calls("pay"))), tools=TOOLS, limits=limits, pool=pool, trajectory=run)
        assert [warning.code for warning in turn.warnings] == warned
        assert (outcomes(turn), run.spent.tokens) == (["ok"], 0)
        turn = await run_calls(calls("pay"), TOOLS, limits=limits, pool=pool, trajectory=run)
        assert turn.warnings == ()  # no model was asked


# -- a run -------------------------------------------------------------------------------------------------------------


async def test_a_loop_asks_no_more_once_the_tokens_are_spent() -> None:
    for limits, pool in ((Limits(token_budget=100), None), (Limits(), CallPool(token_budget=100))):
        model = Model(body(calls("pay"), 60), body(calls("pay", "double", first=1), 40), body())
        run = await loop(model, limits=limits, pool=pool)
        assert (run.outcome, len(model.asked), run.trajectory.spent.tokens) == ("budget", 2, 100)
        assert [outcomes(turn) for turn in run.turns] == [["ok"], [OVER, "ok"]]
        assert lint(run.messages, CHAT) == []
        answers = await loop(Model(body(tokens=150)), limits=limits)
        assert answers.outcome == "answered"  # it was the last response anyway


async def test_a_model_whose_calls_are_spent_is_asked_for_its_answer_and_the_run_ends_if_it_goes_on() -> None:
    limits = Limits(call_budget=1)
    answers = Model(body(calls("pay", "pay")), body())
    run = await loop(answers, limits=limits)
    assert (run.outcome, outcomes(run.turns[0])) == ("answered", ["ok", OVER])
    assert "make no more calls" in str(answers.asked[1][-1])
    goes_on = Model(*(body(calls("pay", first=n)) for n in range(9)))
    run = await loop(goes_on, limits=limits)
    assert (run.outcome, len(goes_on.asked)) == ("budget", 3)
    assert [outcomes(turn) for turn in run.turns] == [["ok"], [OVER], [OVER]]


async def test_a_run_whose_pool_has_no_tokens_left_asks_nothing() -> None:
    pool = CallPool(token_budget=10)
    await loop(Model(body(tokens=10)), pool=pool)
    model = Model(body())
    run = await loop(model, pool=pool)
    assert (run.outcome, run.turns, run.messages, model.asked) == ("budget", (), ASKED, [])
    with pytest.raises(LocalProtocolError, match="no turn: its tokens were spent before it began"):
        await agent_loop(model, ASKED, wire=CHAT, pool=pool)


# -- adapters, and what is refused -------------------------------------------------------------------------------------


async def test_behind_an_adapter_a_pool_has_a_budget_and_limits_cannot_have_one() -> None:
    pool = CallPool(call_budget=2)
    host = CallHost("RunCalls", Toolset(TOOLS), store=None, observers=None, options={"pool": pool})
    seen = [await host.run((f"c{n}", "double", {"n": n}), double, identity=None, place=None) for n in range(3)]
    assert [one.outcome for one in seen] == ["ok", "ok", OVER]
    for name in ("call_budget", "token_budget"):
        limits = Limits(**{name: 5})  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=rf"RunCalls: Limits\({name}=\.\.\.\) cannot be enforced, .* pool=CallPool"):
            CallHost("RunCalls", Toolset(TOOLS), store=None, observers=None, options={"limits": limits})


def test_a_budget_of_a_pool_is_a_number_greater_than_zero() -> None:
    make: Callable[..., CallPool] = CallPool
    for name in ("call_budget", "token_budget"):
        for value in (0, -1, True, 2.5, "1"):
            with pytest.raises(ValueError, match=f"{name}={value!r}: must be an integer greater than 0"):
                make(**{name: value})


async def test_a_turn_that_goes_on_where_it_was_cut_counts_its_tokens_once() -> None:
    run, wire = Trajectory(), "gemini.interactions"
    begun = {"id": "v1", "status": "in_progress"}
    cut_off = [
        {"event_type": "interaction.created", "event_id": "1", "interaction": begun},
        {"event_type": "interaction.status_update", "event_id": "2", "interaction_id": "v1", "status": "in_progress",
         "usage": {"total_input_tokens": 7, "total_output_tokens": 2}},
    ]  # fmt: skip
    rest = {"id": "v1", "status": "completed", "usage": {"total_input_tokens": 7, "total_output_tokens": 5}}
    async with pipeline(stream(cut_off), wire=wire, trajectory=run) as events:
        with pytest.raises(TruncatedStream):
            await events.finish()
    assert (run.spent.tokens, events.turn.resume_from is not None) == (9, True)
    last = {"event_type": "interaction.completed", "event_id": "3", "interaction": rest}
    turn = await pipeline(stream([last]), wire=wire, trajectory=run, continues=events.turn)
    assert (tokens_of(turn.usage), run.spent.tokens) == (12, 12)
