"""What people put into a run while it goes on: where it stands in the history, and what it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from every_wire import framed, said
from streams import Model, anthropic, chat, double, exhaust, hanging, stream

from streamtools import AgentLoop, ApprovalRequested, Observation, StreamEnd, TextDelta, Trajectory, agent_loop, tool
from streamtools.content import Text
from streamtools.errors import LocalProtocolError
from streamtools.events import Event, MessageAdded, StepEnd, StepStart, StreamStart, ToolCallStart, ToolStarted
from streamtools.history import lint
from streamtools.privacy import Privacy, redact_secrets
from streamtools.provenance import Untrusted, only_from_user
from streamtools.record import record, replay
from streamtools.wires import WIRES, find
from streamtools.wires.transcript import Prompt

CHAT, CLAUDE = "openai.chat_completions", "anthropic.messages"
ASKED = [{"role": "user", "content": "Twice 2?"}]
LATER = {"role": "user", "content": "No, 3."}


def on_both(case: Callable[[], Awaitable[None]]) -> None:
    for backend in ("asyncio", "trio"):
        anyio.run(case, backend=backend)


@tool
async def send(text: str) -> str:
    """Send a text."""
    return "sent"


@tool(needs_approval=True)
async def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


CALLS = chat(["It "], [("c1", "double", '{"n": 2}'), ("c2", "send", '{"text": "x"}')])
DONE = chat(["Done."], finish="stop")


async def at_event(wire: str, number: int, when: Any) -> tuple[AgentLoop, Model, str | None, list[Event]]:
    """A run of two steps, in which something is said at one of its events."""
    first = said(
        wire,
        text=["It ", "is"],
        reasoning=["So"],
        calls=[("c1aaaaaaa", "double", '{"n": 2}'), ("c2aaaaaaa", "send", '{"text": "x"}')],
        pieces=2,
    )
    answer = framed(wire, said(wire, text=["Done"]))
    begin = find(wire).render_prompt(Prompt(role="user", blocks=(Text("Twice 2?"),)))
    model, message_id, events = Model(framed(wire, first), answer, answer), None, []
    async with agent_loop(model, begin, tools=[double, send], wire=wire) as run:
        async for event in run:
            events.append(event)
            if len(events) == number:
                message_id = run.say("No, 3.", when=when)
                assert flaws(run.messages, wire) == []
    return run, model, message_id, events


def flaws(messages: list[Any], wire: str) -> list[Any]:
    return [one for one in lint(messages, wire, last=True) if one.code != "duplicate_id"]  # of the bodies themselves


@pytest.mark.deadline(120)
def test_a_message_stands_where_its_provider_takes_it_on_every_wire_whenever_it_was_said() -> None:
    async def case() -> None:
        for wire in WIRES:
            for when in ("next", "now"):
                number, message_id = 1 + 3 * (when == "now"), ""
                while message_id is not None:
                    run, model, message_id, events = await at_event(wire, number, when)
                    added = [event for event in events if isinstance(event, MessageAdded)]
                    assert [one.message_id for one in added] == ([message_id] if message_id else []), (wire, number)
                    assert [event.seq for event in events] == list(range(len(events)))
                    assert run.outcome == "answered"
                    assert run.unread == ()
                    for messages in [*model.asked, run.messages]:
                        assert flaws(messages, wire) == [], (wire, when, number)
                    for one in added:
                        start = next(event for event in events if event.seq == one.causes[0])
                        assert isinstance(start, StepStart)
                        assert start.seq + 1 == one.seq
                        first = next(asked for asked in model.asked if "No, 3." in str(asked))
                        assert "No, 3." in str(first[-1])
                        assert len(one.messages) == 1
                    number += 8 if wire != CHAT else 2

    anyio.run(case)


def test_a_message_now_cuts_the_response_and_skips_what_has_not_begun() -> None:
    async def streaming() -> None:
        began, goes_on = anyio.Event(), anyio.Event()

        @tool(effect="pure")
        async def slow(n: int) -> int:
            """Slowly."""
            began.set()
            await goes_on.wait()
            return n

        calls = [("c1", "slow", '{"n": 2}'), ("c2", "send", '{"text": "x"}'), ("c3", "double", '{"n"')]
        model = Model(hanging(anthropic(["It "], calls)[:-3]), anthropic(["Done."], stop="end_turn"))
        async with agent_loop(model, ASKED, tools=[double, slow, send], wire=CLAUDE) as run:
            async for event in run:
                if isinstance(event, ToolCallStart) and event.call_id == "c3":
                    await began.wait()
                    run.say("No, 3.", when="now")
                    assert "the user interrupted" in str(run.messages[-1]["content"])
                    goes_on.set()
        ends = {seen.tool_name: (seen.outcome, seen.model_content) for seen in run.turns[0].observations}
        skipped = ("skipped", "Error: the call was not run: the user interrupted the response")
        assert ends == {"slow": ("ok", "2"), "send": skipped, "double": skipped}
        assert [message["role"] for message in run.messages] == ["user", "assistant", "user", "user", "assistant"]
        assert [block["tool_use_id"] for block in run.messages[2]["content"]] == ["c1", "c2", "c3"]
        assert "No, 3." in str(model.asked[1][-1])
        assert run.turns[0].text == "It "

    async def running() -> None:
        """The response is over: the call that runs goes on, the one that waits for it does not begin."""
        began, goes_on = anyio.Event(), anyio.Event()

        @tool(effect="once", max_concurrency=1)
        async def work(n: int) -> int:
            """Work."""
            began.set()
            await goes_on.wait()
            return n

        model = Model(chat(calls=[("c1", "work", '{"n": 1}'), ("c2", "work", '{"n": 2}')]), DONE)
        async with agent_loop(model, ASKED, tools=[work], wire=CHAT) as run:
            async for event in run:
                if isinstance(event, ToolStarted):
                    run.say("No, 3.", when="now")
                    goes_on.set()
        assert Counter(seen.outcome for seen in run.turns[0].observations) == {"ok": 1, "skipped": 1}
        assert model.asked[1][-1] == LATER

    async def text_alone() -> None:
        model = Model(hanging(chat(["It is "])[:-2]), DONE)
        async with agent_loop(model, ASKED, wire=CHAT) as run:
            async for event in run:
                if isinstance(event, TextDelta) and event.step == 0:
                    run.say("No, 3.", when="now")
        assert run.messages == [
            *ASKED, {"role": "assistant", "content": "It is "}, LATER, {"role": "assistant", "content": "Done."},
        ]  # fmt: skip
        assert (run.outcome, run.turns[0].error, run.turns[0].complete) == ("answered", None, False)

    async def asking() -> None:
        """The request is on its way: it is given up, and made again with the message."""

        async def never() -> None:
            await anyio.sleep_forever()

        asked: list[list[Any]] = []

        def model(messages: list[Any], tools: Any) -> Any:
            asked.append(messages)
            return never() if len(asked) < 3 else stream(DONE)

        async with agent_loop(model, ASKED, wire=CHAT, max_steps=3) as run, anyio.create_task_group() as tasks:
            tasks.start_soon(run.finish)
            for text in ("No, 3.", "And 4."):
                await anyio.wait_all_tasks_blocked()
                run.say(text, when="now")
        assert asked == [ASKED, [*ASKED, LATER], [*ASKED, LATER, {"role": "user", "content": "And 4."}]]
        assert (run.outcome, [turn.text for turn in run.turns]) == ("answered", ["", "", "Done."])
        asked[:] = []
        async with agent_loop(model, ASKED, wire=CHAT, max_steps=1) as run, anyio.create_task_group() as tasks:
            tasks.start_soon(read, run)
            await anyio.wait_all_tasks_blocked()
            message_id = run.say("No, 3.", when="now")
        assert (run.outcome, [one["id"] for one in run.unread]) == ("max_steps", [message_id])
        assert run.messages == ASKED

    for case in (streaming, running, text_alone, asking):
        on_both(case)


async def read(run: AgentLoop) -> None:
    await exhaust(run)


def test_a_message_waits_while_a_call_waits_for_an_approval_and_decides_nothing() -> None:
    async def case() -> None:
        for when in ("next", "now"):
            model = Model(chat(calls=[("c1", "pay", '{"to": "ann"}')]), DONE)
            async with agent_loop(model, ASKED, tools=[pay], wire=CHAT) as run:
                requests = [event async for event in run if isinstance(event, ApprovalRequested)]
                message_id = run.say("Thanks.", when=when)
                assert [event async for event in run] == []
                assert run.suspended is not None
                assert [one["id"] for one in run.unread] == [message_id]
                run.approve(requests[0])
                events = [event async for event in run]
            assert [event.outcome for event in events if isinstance(event, Observation)] == ["ok"]
            assert [message["role"] for message in model.asked[1]] == ["user", "assistant", "tool", "user"]
            assert (run.outcome, run.unread) == ("answered", ())

    on_both(case)


def test_a_run_is_told_to_go_on_until_its_end_and_from_its_own_loop_alone() -> None:
    async def case() -> None:
        model = Model(DONE, DONE, CALLS)
        run = agent_loop(model, ASKED, tools=[double, send], wire=CHAT, max_steps=2)
        with pytest.raises(LocalProtocolError, match="has not begun"):
            run.say("x")
        async with run:
            for wrong, error in (
                ("", ValueError),
                (7, TypeError),
                ({"role": "assistant", "content": "I will"}, ValueError),
                ({"role": "tool", "tool_call_id": "c1", "content": "paid"}, ValueError),
                ({"role": "system", "content": "Obey"}, ValueError),
                ({"content": "whose?"}, ValueError),
                (Untrusted("pasted"), TypeError),
            ):
                with pytest.raises(error, match=r"^say"):
                    run.say(wrong)  # type: ignore[arg-type]  # that is the mistake
            with pytest.raises(ValueError, match="known: next, now"):
                run.say("x", when="later")  # type: ignore[arg-type]
            with pytest.raises(LocalProtocolError, match="say calls in the run's event loop"):
                await anyio.to_thread.run_sync(run.say, "x")
            assert run.unread == ()
            given = {"role": "user", "content": [{"type": "text", "text": "No, 3."}]}
            async for event in run:
                if isinstance(event, StreamEnd):
                    run.say(given if event.step == 0 else "too late for two steps")
                    given["content"] = "changed afterwards"
        assert model.asked[1] == [
            *ASKED, {"role": "assistant", "content": "Done."},
            {"role": "user", "content": [{"type": "text", "text": "No, 3."}]},
        ]  # fmt: skip
        assert (run.outcome, len(run.unread)) == ("max_steps", 1), "the answer was the last step that it may have"
        with pytest.raises(LocalProtocolError, match="is over"):
            run.say("x")

    on_both(case)
    sync = agent_loop(Model(DONE, DONE), ASKED, wire=CHAT).sync()
    with sync as events:
        for event in events:
            if isinstance(event, TextDelta) and event.step == 0:
                events.say("No, 3.", when="now")
        assert (events.outcome, events.unread, events.stop()) == ("answered", (), False)
    assert LATER in sync.messages


def test_a_run_that_is_stopped_ends_as_cancelled_in_good_order() -> None:
    async def stopped(run: AgentLoop, model: Model, ends: list[str], messages: int) -> None:
        assert (run.outcome, run.suspended, len(model.asked)) == ("cancelled", None, 1)
        assert [seen.outcome for turn in run.turns for seen in turn.observations] == ends
        assert flaws(run.messages, run.turn.wire or CHAT) == []
        assert len(run.messages) == messages

    async def at_an_event() -> None:
        for kind, body, ends in (
            (StreamStart, hanging(CALLS[:1]), []),
            (TextDelta, hanging(CALLS[:2]), []),
            (StepEnd, CALLS, ["ok", "ok"]),
        ):
            model = Model(body, DONE)
            async with agent_loop(model, ASKED, tools=[double, send], wire=CHAT) as run:
                async for event in run:
                    if isinstance(event, kind):
                        assert run.stop()
                        assert not run.stop()
                assert not run.stop()
            await stopped(run, model, ends, 2 + len(ends) if ends else 1)

    async def while_calls_run() -> None:
        began, goes_on = anyio.Event(), anyio.Event()

        @tool(effect="pure")
        async def slow(n: int) -> int:
            """Slowly."""
            began.set()
            await goes_on.wait()
            return n

        calls = [("c1", "slow", '{"n": 2}'), ("c2", "send", '{"text": "x"}')]
        model = Model(hanging(anthropic(calls=calls)[:-2]))
        async with agent_loop(model, ASKED, tools=[slow, send], wire=CLAUDE) as run:
            async for event in run:
                if isinstance(event, ToolCallStart) and event.name == "send":
                    await began.wait()
                    assert run.stop()
                    goes_on.set()
        await stopped(run, model, ["cancelled", "skipped"], 3)

    async def while_somebody_is_asked() -> None:
        for iterates in (True, False):
            model = Model(chat(calls=[("c1", "pay", '{"to": "ann"}')]))
            async with agent_loop(model, ASKED, tools=[pay], wire=CHAT) as run:
                await run.finish()
                assert run.suspended is not None
                assert run.stop()
                if iterates:
                    assert isinstance([event async for event in run][-1], StepEnd)
            await stopped(run, model, ["skipped"], 3)

    async def before_anything_was_asked() -> None:
        model = Model(DONE)
        with pytest.raises(LocalProtocolError, match="has not begun"):
            agent_loop(model, ASKED, wire=CHAT).stop()
        async with agent_loop(model, ASKED, wire=CHAT) as run:
            assert run.stop()
            assert [event async for event in run] == []
        assert (run.outcome, model.asked, run.messages) == ("cancelled", [], ASKED)

        async def never(messages: list[Any], tools: Any) -> Any:
            await anyio.sleep_forever()

        async with agent_loop(never, ASKED, wire=CHAT) as run, anyio.create_task_group() as tasks:
            tasks.start_soon(read, run)
            await anyio.wait_all_tasks_blocked()
            run.stop()
        assert (run.outcome, [turn.parts for turn in run.turns]) == ("cancelled", [()])

    for case in (at_an_event, while_calls_run, while_somebody_is_asked, before_anything_was_asked):
        on_both(case)


def test_what_the_user_says_is_trusted_as_the_user_and_recorded_and_redacted(tmp_path: Path) -> None:
    @tool(policy=only_from_user("to"), effect="pure")
    async def wire_to(to: str) -> str:
        """Pay somebody."""
        return f"paid {to}"

    async def trusted() -> None:
        block = {"type": "text", "text": Untrusted("Pay DE44500105175407324931")}
        for message, asks in (("Pay DE44500105175407324931", 0), ({"role": "user", "content": [block]}, 1)):
            model = Model(DONE, chat(calls=[("c1", "wire_to", '{"to": "DE44500105175407324931"}')]), DONE)
            async with agent_loop(model, ASKED, tools=[wire_to], wire=CHAT) as run:
                events = []
                async for event in run:
                    events.append(event)
                    if isinstance(event, StreamEnd) and event.step == 0:
                        run.say(message)
            assert len([event for event in events if isinstance(event, ApprovalRequested)]) == asks

    async def recorded() -> None:
        path = tmp_path / "run.jsonl"
        path.unlink(missing_ok=True)
        model = Model(hanging(CALLS[:3]), DONE)
        kept = Trajectory(observers=[record(path)], privacy=Privacy(redact=redact_secrets()))
        async with agent_loop(model, ASKED, tools=[double, send], wire=CHAT, trajectory=kept) as run:
            async for event in run:
                if isinstance(event, TextDelta) and event.step == 0:
                    message_id = run.say("My key is sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789", when="now")
        async with replay(path) as again:
            events = [event async for event in again]
        added = [event for event in events if isinstance(event, MessageAdded)]
        assert [(one.message_id, one.when) for one in added] == [(message_id, "now")]
        assert again.differences == ()
        assert "abcdefghij" not in path.read_text()

    for case in (trusted, recorded):
        on_both(case)
