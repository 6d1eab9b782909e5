"""Calls that are done outside: how they wait, whose answer counts, and how a run goes on with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from streams import anthropic, chat, exhaust, stream, until

from streamtools import (
    AgentLoop,
    ApprovalRequested,
    CallAnswer,
    Decision,
    Limits,
    Observation,
    Retry,
    Suspended,
    ToolContext,
    ToolError,
    Trajectory,
    agent_loop,
    pipeline,
    resume,
    run_calls,
    tool,
)
from streamtools.content import AnsweredLater, ToolResult
from streamtools.dispatch import Journal, MemoryStore, SqliteStore
from streamtools.durable.memory import MemoryRecords
from streamtools.errors import AnswerError, AnswerPending, JournalError, ToolDefinitionError
from streamtools.events import AnswerRequested, Event, StreamWarning, ToolStarted
from streamtools.history import lint, with_results
from streamtools.provenance import untrusted
from streamtools.record import record

CHAT = "openai.chat_completions"
ASKED = [{"role": "user", "content": "Where shall we meet?"}]
SECRET = b"a secret of enough bytes"
CALLS = [("c", "choose", '{"question": "Which city?"}')]
ONE_CALL = chat(calls=CALLS)
DONE = chat(text=["Rome."], finish="stop")
pytestmark = pytest.mark.anyio


@tool(deferred="wait")
async def choose(question: str) -> str:
    """Ask the user."""
    raise AssertionError("nothing here runs it")


@tool(name="choose", deferred=True)
def choose_later(question: str) -> str:
    """Ask the user."""
    raise AssertionError("nothing here runs it")


@tool(effect="pure")
async def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


class Model:
    """Answers with one body after the other."""

    def __init__(self, *bodies: list[bytes]) -> None:
        self.bodies = bodies
        self.asked: list[list[Any]] = []

    async def __call__(self, messages: list[Any], tools: Any) -> AsyncIterator[bytes]:
        self.asked.append(messages)
        for item in self.bodies[len(self.asked) - 1]:
            await anyio.lowlevel.checkpoint()
            yield item

    def run(self, *tools: Any, **options: Any) -> AgentLoop:
        return agent_loop(self, ASKED, tools=tools, **{"wire": CHAT, **options})


def result_of(run: AgentLoop, call_id: str = "c") -> Any:
    return next(one["content"] for one in run.messages if one.get("tool_call_id") == call_id)


async def test_a_run_waits_for_an_answer_and_goes_on_with_it(tmp_path: Path) -> None:
    """However its calls start, with a store or a journal or neither."""

    async def passing(call: Any, run: Any) -> Any:
        return await run()

    ways: tuple[dict[str, Any], ...] = (
        {},
        {"start": "early"},
        {"start": "turn_end"},
        {"store": MemoryStore()},
        {"journal": tmp_path / f"{anyio.get_current_task().id}.db", "run_id": "order-7"},
        {"offload_above": 10_000},
        {"middleware": passing},
    )
    for number, options in enumerate(ways):
        model = Model(ONE_CALL, DONE)
        async with model.run(choose, look, **options) as run:
            events: list[Event] = []
            async for event in run:
                events.append(event)
                if isinstance(event, AnswerRequested):
                    assert (event.tool_name, event.arguments, event.rests) == (
                        "choose",
                        {"question": "Which city?"},
                        False,
                    )
                    assert run.answer(event, "Rome")
        (seen,) = run.turns[0].observations
        assert (run.outcome, seen.outcome, seen.value) == ("answered", "ok", "Rome"), number
        assert "answer" in [wait.reason for wait in seen.waits]
        order = (AnswerRequested, ToolStarted, Observation)
        assert tuple(type(event) for event in events if isinstance(event, order)) == order
        assert (result_of(run), model.asked[1]) == ("Rome", run.messages[:-1])
        assert lint(run.messages, CHAT) == []


async def test_the_first_answer_counts_and_others_are_refused_in_words() -> None:
    for store in (None, MemoryStore()):
        async with pipeline(stream(ONE_CALL), tools=[choose, look], wire=CHAT, store=store) as events:
            async for event in events:
                if isinstance(event, AnswerRequested):
                    refused: list[tuple[tuple[str, str], dict[str, Any], str]] = [
                        (("nobody", "Rome"), {}, "unknown_call"),
                        (("c", "Rome"), {"fingerprint": "x"}, "changed_call"),
                    ]
                    for given, options, code in refused:
                        with pytest.raises(AnswerError) as caught:
                            events.answer(*given, **options)
                        assert caught.value.code == code
                    with pytest.raises(TypeError, match="JSON"):
                        events.answer("c", object())
                    assert events.answer("c", {"city": "Rome"}) is True
                    assert events.answer("c", {"city": "Rome"}) is False
                    with pytest.raises(AnswerError, match="already has a different answer") as caught:
                        events.answer("c", {"city": "Oslo"})
                    assert caught.value.code == "already_answered"
        assert events.turn.observations[0].value == {"city": "Rome"}
        assert events.answer("c", {"city": "Rome"}) is False


async def test_an_answer_is_bounded_and_checked_as_the_result_of_any_tool() -> None:
    @tool(deferred="wait", output_schema={"type": "object", "required": ["city"]})
    def choose(question: str) -> dict[str, Any]:
        """Ask."""
        raise AssertionError("nothing here runs it")

    tried: list[tuple[Any, dict[str, Any], str, str]] = [
        ({"city": "Rome"}, {}, "ok", '{"city":"Rome"}'),
        ({"town": "Rome"}, {}, "failed", "does not fit the tool's output schema"),
        ("no idea", {"is_error": True}, "failed", "Error: no idea"),
        (ToolResult(blocks=["Rome it is"], value={"city": "Rome"}), {}, "ok", "Rome it is"),
        ({"city": "R" * 500}, {}, "ok", "[cut: the first 100"),
    ]
    for result, options, outcome, words in tried:
        limits = Limits(max_result_bytes=100)
        async with pipeline(stream(ONE_CALL), tools=[choose], wire=CHAT, limits=limits) as events:
            async for event in events:
                if isinstance(event, AnswerRequested):
                    events.answer(event, result, **options)
        (seen,) = events.turn.observations
        assert (seen.outcome, words in seen.model_content) == (outcome, True), (result, seen)


async def test_a_call_that_nobody_answers_in_time_times_out_and_one_that_is_cancelled_ends() -> None:
    @tool(name="choose", deferred="wait", timeout=0.01)
    async def impatient(question: str) -> str:
        """Ask."""
        raise AssertionError("nothing here runs it")

    for one, limits in ((impatient, Limits()), (choose, Limits(tool_timeout=0.01))):
        turn = await pipeline(stream(ONE_CALL), tools=[one], wire=CHAT, limits=limits)
        (seen,) = turn.observations
        assert (seen.outcome, seen.attempts) == ("timed_out", 0)
        assert "Do not call it again" in seen.model_content  # it may have been done
    for either in (choose, choose_later):
        async with pipeline(stream(ONE_CALL), tools=[either], wire=CHAT) as events:
            async for event in events:
                if isinstance(event, AnswerRequested):
                    assert events.cancel(event, "the page was closed")
                    with pytest.raises(AnswerError) as caught:
                        events.answer(event, "Rome")
                    assert caught.value.code == "over"
        (seen,) = events.turn.observations
        assert (seen.outcome, events.suspended) == ("cancelled", None)
        assert "the page was closed" in seen.model_content


async def test_a_run_rests_and_is_resumed_with_the_answers_in_another_process() -> None:
    store = MemoryStore()
    calls = [("c", "choose", '{"question": "Which city?"}'), ("l", "look", '{"at": "a map"}')]
    model = Model(chat(calls=calls), DONE)
    async with model.run(choose_later, look, store=store) as run:
        await exhaust(run)
        assert len(model.asked) == 1
    assert (run.outcome, len(model.asked)) == ("suspended", 1)
    (seen, looked) = sorted(run.turns[0].observations, key=lambda one: one.call_id)
    assert (seen.outcome, type(seen.error), looked.outcome) == ("suspended", AnswerPending, "ok")
    assert lint(run.messages, CHAT) == []

    suspended = Suspended.from_text(run.suspended.to_text(SECRET), SECRET)
    (call,) = suspended.calls
    assert (call.waits_for, call.arguments) == ("answer", {"question": "Which city?"})
    for call_id, code in {"x": "unknown_call", "c": "changed_call"}.items():
        wrong = CallAnswer(call_id=call_id, fingerprint="", result=1)
        with pytest.raises(AnswerError) as caught:
            resume(suspended, tools=[choose_later], store=store, answers=[wrong])
        assert caught.value.code == code

    later = Model(DONE)
    given: dict[str, Any] = {"store": store, "suspended": suspended}
    resumed = agent_loop(
        later, run.messages, tools=[choose_later, look], wire=CHAT, **given, answers=[CallAnswer.to(call, "Rome")]
    )
    async with resumed:
        events = [event async for event in resumed]
    assert not any(isinstance(event, AnswerRequested) for event in events)  # it was answered before
    assert (resumed.outcome, result_of(resumed)) == ("answered", "Rome")
    assert lint(resumed.messages, CHAT) == []

    await suspended.answer([CallAnswer.to(call, "Rome")], store)  # the same again
    with pytest.raises(AnswerError, match="already has a different answer"):
        await suspended.answer([CallAnswer.to(call, "Oslo")], store)
    turn = await resume(suspended, tools=[choose_later], store=store)
    assert turn.observations[0].value == "Rome"
    assert with_results(run.messages, turn.observations, CHAT) != run.messages


async def test_a_run_that_rests_goes_on_where_it_is_when_it_is_answered_there() -> None:
    model = Model(ONE_CALL, DONE)
    async with model.run(choose_later) as run:
        await exhaust(run)
        assert run.answer(run.suspended.calls[0], "Rome")
        await exhaust(run)
    assert (run.outcome, result_of(run)) == ("answered", "Rome")

    for one in (choose, choose_later):  # left while it waits, whether it rests or not
        async with Model(ONE_CALL).run(one) as run:
            await until(run, AnswerRequested)
            with pytest.raises(AnswerError):
                run.answer("nobody", "Rome")
        assert run.outcome in ("suspended", "left")
        assert (run.suspended is None) == (run.outcome == "left")


async def test_a_call_is_approved_first_and_then_done_outside() -> None:
    @tool(name="choose", deferred=True, needs_approval=True)
    async def gated(question: str) -> str:
        """Ask."""
        raise AssertionError("nothing here runs it")

    store = MemoryStore()
    async with pipeline(stream(ONE_CALL), tools=[gated], wire=CHAT, store=store) as events:
        async for event in events:
            assert not isinstance(event, AnswerRequested)
            if isinstance(event, ApprovalRequested):
                with pytest.raises(AnswerError, match="waits for no answer"):
                    events.answer(event, "Rome")
    first = events.suspended
    assert first.calls[0].waits_for == "approval"
    with pytest.raises(AnswerError):
        await first.answer([CallAnswer.to(first.calls[0], "Rome")], store)

    decisions = [Decision.on(first.calls[0], True, by="ann")]
    async with resume(first, tools=[gated], store=store, decisions=decisions) as events:
        handed = [event async for event in events if isinstance(event, AnswerRequested)]
    second = events.suspended
    assert (len(handed), second.calls[0].waits_for) == (1, "answer")
    async with resume(second, tools=[gated], store=store) as events:  # nobody is asked for approval again
        async for event in events:
            assert not isinstance(event, ApprovalRequested)
            if isinstance(event, AnswerRequested):
                events.answer(event, "Rome")
    assert events.turn.observations[0].value == "Rome"


async def test_what_is_said_waits_for_the_answer_and_a_stop_ends_the_call() -> None:
    model = Model(ONE_CALL, DONE)
    async with model.run(choose) as run:
        async for event in run:
            if isinstance(event, AnswerRequested):
                run.say("Not in winter.", when="now")
                run.answer(event, "Rome")
    assert (run.outcome, result_of(run)) == ("answered", "Rome")
    assert [one["role"] for one in model.asked[1]] == ["user", "assistant", "tool", "user"]

    for one in (choose, choose_later):
        model = Model(ONE_CALL, DONE)
        async with model.run(one) as run:
            async for event in run:
                if isinstance(event, AnswerRequested):
                    run.stop()
        (seen,) = run.turns[0].observations
        assert (run.outcome, seen.outcome, len(model.asked)) == ("cancelled", "cancelled", 1)
        assert "the run was stopped" in seen.model_content
        assert lint(run.messages, CHAT) == []


async def test_an_answer_reaches_a_run_on_record_from_elsewhere_and_outlives_its_process(tmp_path: Path) -> None:
    for number, one in enumerate((choose, choose_later)):
        path = tmp_path / f"{number}.db"
        async with Model(ONE_CALL).run(one, journal=path, run_id="r") as run:
            async for event in run:  # its process ends while the call waits
                if isinstance(event, AnswerRequested):
                    break
        with SqliteStore(path) as store:
            journal = Journal(store)
            with pytest.raises(JournalError, match="no run 'other'"):
                await journal.answer("other", "c", "Rome")
            with pytest.raises(AnswerError, match="'x' of the run 'r' waits for no answer"):
                await journal.answer("r", "x", "Rome")
            await journal.answer("r", "c", "Rome")
            await journal.answer("r", "c", "Rome")
            with pytest.raises(AnswerError, match="already has a different answer"):
                await journal.answer("r", "c", "Oslo")
        model = Model(DONE)
        async with model.run(one, journal=path, run_id="r") as run:
            events = [event async for event in run]
        assert not any(isinstance(event, AnswerRequested) for event in events)
        assert (run.outcome, result_of(run), len(model.asked)) == ("answered", "Rome", 1)
        with SqliteStore(path) as store:
            await Journal(store).answer("r", "c", "Rome")  # after the end, it is the one on record
            with pytest.raises(AnswerError, match="already has a different answer"):
                await Journal(store).answer("r", "c", "Oslo")

        model = Model()
        async with model.run(one, journal=path, run_id="r") as run:  # all is on record
            await exhaust(run)
        assert (run.outcome, result_of(run)) == ("answered", "Rome")


async def test_a_living_run_hears_an_answer_from_another_process(tmp_path: Path) -> None:
    """Whether its calls are claimed in the journal's file or in another store."""
    for number, options in enumerate(({}, {"store": MemoryStore()})):
        path = tmp_path / f"{number}.db"
        with anyio.fail_after(20), SqliteStore(path) as elsewhere:
            async with Model(ONE_CALL, DONE).run(choose, journal=path, run_id="r", **options) as run:
                async for event in run:
                    if isinstance(event, AnswerRequested):
                        await Journal(elsewhere).answer("r", "c", {"city": "Rome"})
            assert (run.outcome, result_of(run)) == ("answered", '{"city":"Rome"}')
            again = Model()
            async with again.run(choose, journal=path, run_id="r", **options) as run:
                await exhaust(run)
            assert (run.outcome, again.asked) == ("answered", [])


async def test_an_answer_from_elsewhere_is_for_the_latest_question_of_a_call() -> None:
    @tool(name="choose")
    async def asking(question: str, ctx: ToolContext) -> str:
        """Ask again and again."""
        return ", ".join([str(await ctx.ask(f"{question} {number}")) for number in range(6)])

    with MemoryStore() as store, anyio.fail_after(20):
        journal, given = Journal(store), iter("abcdef")
        async with Model(ONE_CALL, DONE).run(asking, journal=journal, run_id="r") as run:
            async for event in run:
                if isinstance(event, AnswerRequested):
                    await journal.answer("r", "c", next(given))
        assert (run.outcome, result_of(run)) == ("answered", "a, b, c, d, e, f")
        assert await journal.erase("r") == []
        assert await store.records.scan((), limit=9) == []  # each answer is gone


async def test_an_answer_from_elsewhere_is_not_for_a_discarded_call_with_the_same_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @tool(effect="idempotent")
    async def guess(of: int, ctx: ToolContext) -> str:
        """Ask in the middle."""
        if of % 2:  # the response breaks off while the question is stored
            model.has_asked.set()
        return str(await ctx.ask("?"))

    @tool(effect="idempotent", needs_approval=True)
    async def pay(of: int) -> str:
        """Pay."""
        raise AssertionError("nobody approves")

    hand_over = MemoryRecords.hand_over

    def slow(self: MemoryRecords, *ops: Any) -> Any:
        stored = hand_over(self, *ops)

        async def wait() -> Any:
            if any(getattr(op, "key", ("",))[0] == "handed" for op in ops):
                await anyio.wait_all_tasks_blocked()
            return await stored()

        return wait

    monkeypatch.setattr(MemoryRecords, "hand_over", slow)

    class Breaking(Model):
        """Its first answer breaks off when the call in it has asked."""

        has_asked: anyio.Event

        async def __call__(self, messages: list[Any], tools: Any) -> AsyncIterator[bytes]:
            self.asked.append(messages)
            for item in self.bodies[len(self.asked) - 1]:
                yield item
            if len(self.asked) == 1:
                await self.has_asked.wait()

    # The order of the calls' records is that of hashes: no single case would do.
    for name, of in [("pay", 0), *(("guess", number) for number in range(12))]:
        first = anthropic(calls=[("c", name, f'{{"of": {of}}}')], stop=None)
        model = Breaking(first, anthropic(calls=CALLS), anthropic(text=["Rome."], stop="end_turn"))
        model.has_asked = anyio.Event()
        options: dict[str, Any] = {"retry": Retry(attempts=2, backoff=0, after_output=True)}
        options |= {"wire": "anthropic.messages", "run_id": f"run {of}"}
        with MemoryStore() as store, anyio.fail_after(20):
            journal, questions = Journal(store), []
            async with model.run(guess, pay, choose_later, journal=journal, **options) as run:
                async for event in run:
                    if isinstance(event, (ApprovalRequested, AnswerRequested)):
                        questions.append(event.tool_name)
                        model.has_asked.set()
            assert (run.outcome, questions[-1]) == ("suspended", "choose")
            assert questions[0] == name or of % 2
            await journal.answer(options["run_id"], "c", "Rome")
            async with model.run(guess, pay, choose_later, journal=journal, **options) as run:
                async for _ in run:
                    pass
            assert (run.outcome, [one.value for one in run.turns[0].observations]) == ("answered", ["Rome"])


async def test_the_first_of_two_answers_from_two_places_counts() -> None:
    store, codes = MemoryStore(), []
    async with pipeline(stream(ONE_CALL), tools=[choose], wire=CHAT, store=store) as events:
        async for event in events:
            if isinstance(event, StreamWarning):
                codes.append(event.code)
            if isinstance(event, AnswerRequested):
                elsewhere = events.suspended
                await elsewhere.answer([CallAnswer.to(event, "Rome")], store)
                assert events.answer(event, "Oslo")
    (seen,) = events.turn.observations
    assert (seen.value, codes) == ("Rome", ["already_answered"])


async def test_a_running_call_asks_and_goes_on_with_the_answer(tmp_path: Path) -> None:
    """Background work waits so for its end, and an MCP server for what it asks the user."""

    @tool(name="choose", timeout=20)
    async def asking(question: str, ctx: ToolContext) -> str:
        """Ask twice."""
        city = await ctx.ask({"which": question})
        street = await ctx.ask({"which": question})
        try:
            await ctx.ask("really?")
        except ToolError as error:
            return f"{city}, {street}; {error}"
        raise AssertionError("it was answered with an error")

    @tool(name="choose", timeout=0.01)
    async def impatient(question: str, ctx: ToolContext) -> str:
        """Ask in vain."""
        return str(await ctx.ask(question))

    for number, options in enumerate(
        ({}, {"store": MemoryStore()}, {"journal": tmp_path / "runs.db", "run_id": "r"}, {"start": "early"})
    ):
        path, asked = tmp_path / f"{number}.jsonl", []
        given: dict[str, Any] = options
        model, trajectory = Model(ONE_CALL, DONE), Trajectory(run_id="r", observers=[record(path)])
        if "journal" in given:
            given, trajectory = {"journal": given["journal"], "run_id": "r"}, None
        async with model.run(asking, trajectory=trajectory, **given) as run:
            async for event in run:
                if isinstance(event, AnswerRequested):
                    asked.append(event)
                    if len(asked) == 2:
                        with pytest.raises(AnswerError) as caught:  # a late repetition
                            run.answer(asked[0], "Oslo")
                        assert caught.value.code == "changed_call"
                    run.answer(event, ["Rome", "Via Appia", "no"][len(asked) - 1], is_error=len(asked) == 3)
        assert [one.question for one in asked] == [{"which": "Which city?"}] * 2 + ["really?"]
        (seen,) = run.turns[0].observations
        assert (seen.outcome, seen.value) == ("ok", "Rome, Via Appia; no")
        assert [wait.reason for wait in seen.waits].count("answer") == 3

    turn = await pipeline(stream(ONE_CALL), tools=[impatient], wire=CHAT)
    assert turn.observations[0].outcome == "timed_out"
    with pytest.raises(ToolError, match="only in the process of the run"):
        await ToolContext().ask("?")


async def test_a_tool_hands_its_call_on_to_work_in_the_background_and_is_not_run_again(tmp_path: Path) -> None:
    """Also not after a crash, with a journal or a store."""
    began: list[str] = []

    def background(**options: Any) -> Any:
        @tool(name="choose", timeout=30)
        async def begin(question: str, ctx: ToolContext) -> str | AnsweredLater:
            """Begin."""
            began.append(ctx.idempotency_key)
            return AnsweredLater(**options)

        return begin

    async def passing(call: Any, run: Any) -> Any:
        return await run()

    async with Model(ONE_CALL, DONE).run(background(wait=True), middleware=passing) as run:  # it waits
        events: list[Event] = []
        async for event in run:
            events.append(event)
            if isinstance(event, AnswerRequested):
                run.answer(event, "Rome")
    order = (ToolStarted, AnswerRequested, Observation)
    assert tuple(type(event) for event in events if isinstance(event, order)) == order
    (seen,) = run.turns[0].observations
    assert (run.outcome, seen.value, seen.attempts, len(began)) == ("answered", "Rome", 1, 1)

    began.clear()
    path = tmp_path / "runs.db"
    async with Model(ONE_CALL).run(background(), journal=path, run_id="r") as run:  # it rests
        await exhaust(run)
    assert (run.outcome, run.turns[0].observations[0].outcome) == ("suspended", "suspended")
    async with Model().run(background(), journal=path, run_id="r") as run:  # it goes on waiting
        await exhaust(run)
    assert run.outcome == "suspended"
    with SqliteStore(path) as store:
        await Journal(store).answer("r", "c", {"city": "Rome"})
    async with Model(DONE).run(background(), journal=path, run_id="r") as run:
        await exhaust(run)
    assert (run.outcome, result_of(run), len(began)) == ("answered", '{"city":"Rome"}', 1)

    began.clear()
    kept = MemoryStore()
    async with pipeline(stream(ONE_CALL), tools=[background()], wire=CHAT, store=kept) as parted:
        await exhaust(parted)
    (call,) = parted.suspended.calls
    for answers in ((), (CallAnswer.to(call, "Rome"),)):
        given: dict[str, Any] = {"tools": [background()], "store": kept, "answers": answers}
        async with resume(parted.suspended, **given) as resumed:
            await exhaust(resumed)
        assert (resumed.suspended is None, len(began)) == (bool(answers), 1)
    assert resumed.turn.observations[0].value == "Rome"

    for end in ("cancel", "stop"):
        async with Model(ONE_CALL, DONE).run(background(wait=True)) as run:
            async for event in run:
                if isinstance(event, AnswerRequested):
                    assert run.cancel(event) if end == "cancel" else run.stop()
        (seen,) = run.turns[0].observations
        assert (seen.outcome, "may have had its effect" in seen.model_content) == ("cancelled", True)


def test_a_call_done_outside_stands_in_runs_of_every_kind() -> None:
    def ask(messages: list[Any], tools: Any) -> Any:
        yield from ONE_CALL if len(messages) == 1 else DONE

    with agent_loop(ask, ASKED, tools=[choose], wire=CHAT).sync() as blocking:
        for event in blocking:
            if isinstance(event, AnswerRequested):
                assert blocking.answer(event, "Rome")
    assert blocking.messages[2]["content"] == "Rome"

    async def at_hand() -> None:
        turn = await answered(run_calls([("c", "choose", {"question": "?"})], [choose_later]))
        assert turn.observations[0].value == "Rome"

    async def again() -> None:
        """A call that was handed out in an answer which broke off is discarded with it, if it may be."""
        asked: list[Any] = []

        async def broken(messages: list[Any], tools: Any) -> AsyncIterator[bytes]:
            asked.append(messages)
            for item in (
                anthropic(calls=CALLS, stop=None) if len(asked) == 1 else anthropic(text=["Rome"], stop="end_turn")
            ):
                yield item
            if len(asked) == 1:
                await seen.wait()
                raise ConnectionResetError

        seen = anyio.Event()
        options: dict[str, Any] = {"wire": "anthropic.messages", "retry": Retry(after_output=True)}
        with pytest.raises(ValueError, match="after_output=True"):  # a call of `choose` may not be made twice
            agent_loop(broken, ASKED, tools=[choose], start="early", **options)
        idempotent = tool(name="choose", deferred="wait", effect="idempotent")(choose.fn)
        outcomes: list[str] = []
        async with agent_loop(broken, ASKED, tools=[idempotent], **options) as run:
            async for event in run:
                if isinstance(event, AnswerRequested):
                    seen.set()
                if isinstance(event, Observation):
                    outcomes.append(event.outcome)
        assert (run.outcome, len(asked), outcomes) == ("answered", 2, ["discarded"])

    async def trusted() -> None:
        """What comes from outside is not the user's."""
        paid: list[str] = []

        @tool(policy=untrusted("to"))
        async def pay(to: str) -> str:
            """Pay."""
            paid.append(to)
            return "paid"

        for trusts in (False, True):
            source = tool(name="choose", deferred="wait", trusted=trusts)(choose.fn)
            model = Model(ONE_CALL, chat(calls=[("p", "pay", '{"to": "Evelyn-Eaves"}')]), DONE)
            async with model.run(source, pay) as run:
                async for event in run:
                    if isinstance(event, AnswerRequested):
                        run.answer(event, "Evelyn-Eaves")
            assert (run.outcome, bool(paid)) == (("answered", True) if trusts else ("suspended", False))

    for case in (at_hand, again, trusted):
        for backend in ("asyncio", "trio"):
            anyio.run(case, backend=backend)


async def answered(block: Any) -> Any:
    """The turn of a pipeline, whose calls are answered when it waits, or when it rests."""
    async with block as events:
        resting = True
        while resting:
            async for event in events:
                if isinstance(event, AnswerRequested):
                    events.answer(event, "Rome")
            resting = events.resting
    return events.turn


def test_what_holds_for_calls_here_alone_is_refused_for_those_done_outside() -> None:
    tried: list[dict[str, Any]] = [{"deferred": "yes"}, *({"deferred": True, **one} for one in HERE)]
    for options in tried:
        with pytest.raises(ToolDefinitionError):
            tool(name="choose", **options)(choose.fn)


HERE: tuple[dict[str, Any], ...] = (
    {"conflict_key": "question"},
    {"max_concurrency": 1},
    {"exclusive": True},
    {"idempotency_key": "question"},
    {"effect": "pure", "retries": 1},
)
