"""The span of a run: its steps below it, its totals, its outcome; and the links where there is none."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from decisions import decisions_on
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from scripted import Spans, span_id
from streams import chat, stream

from streamtools import Trajectory, agent_loop, pipeline, resume, tool
from streamtools.dispatch import MemoryStore, Suspended
from streamtools.errors import LocalProtocolError
from streamtools.events import ToolStarted
from streamtools.telemetry.tracing import Tracing

pytestmark = pytest.mark.anyio
KEY = b"0123456789abcdef"


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def parent_id(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


@tool(effect="pure")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effect="once", needs_approval=True)
async def pay(n: int) -> str:
    """Pay."""
    return "paid"


USAGE = b'data: {"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5}}\n\n'


def bodies() -> Any:
    said = iter([chat(calls=[("c1", "add", '{"a":1,"b":2}')]), chat(text=["3"])])

    def ask(messages: Any, tools: Any) -> Any:
        *events, done = next(said)
        return stream([*events, USAGE, done])

    return ask


async def run_of(spans: Spans, **options: Any) -> None:
    run = Trajectory(observers=[Tracing(spans.provider)], **options)
    async with agent_loop(bodies(), [], tools=[add], wire="openai.chat_completions", trajectory=run) as events:
        await events.finish()


async def test_a_run_of_the_loop_is_a_span_with_its_steps_below_and_its_totals(spans: Spans) -> None:
    await run_of(spans, name="sums", conversation_id="thread-7")
    run = spans.named("invoke_agent sums")
    said = attributes(run)
    assert (said["gen_ai.operation.name"], said["gen_ai.agent.name"]) == ("invoke_agent", "sums")
    assert (said["gen_ai.conversation.id"], said["streamtools.run.outcome"]) == ("thread-7", "answered")
    assert (said["streamtools.run.steps"], said["gen_ai.usage.input_tokens"]) == (2, 20)
    assert said["gen_ai.usage.output_tokens"] == 10
    steps = [span for span in spans.all if span.name == "streamtools.step"]
    assert [attributes(step)["streamtools.step.number"] for step in steps] == [0, 1]
    assert {parent_id(step) for step in steps} == {span_id(run)}
    assert {step.context.trace_id for step in steps if step.context} == {run.context.trace_id if run.context else 0}
    assert [link for step in steps for link in step.links] == [], "the run is above them"
    chats = [attributes(span) for span in spans.all if span.name.startswith("chat")]
    assert [found["gen_ai.conversation.id"] for found in chats] == ["thread-7"] * 2
    assert run.status.status_code is StatusCode.UNSET
    assert spans.ledger.balanced


async def test_a_loop_of_ones_own_has_a_run_span_if_its_trajectory_is_entered(spans: Spans) -> None:
    ask = bodies()
    async with Trajectory(name="sums", observers=[Tracing(spans.provider)]) as run:
        for _ in range(2):
            async with pipeline(ask([], []), tools=[add], trajectory=run) as events:
                _ = [seen async for seen in events]
    said = attributes(spans.named("invoke_agent sums"))
    assert (said["streamtools.run.steps"], "streamtools.run.outcome" in said) == (2, False)
    with pytest.raises(LocalProtocolError, match="entered once"):
        async with run:
            pass


async def test_steps_without_a_run_span_are_linked(spans: Spans) -> None:
    ask, run = bodies(), Trajectory(observers=[Tracing(spans.provider)])
    for _ in range(2):
        async with pipeline(ask([], []), tools=[add], trajectory=run) as events:
            _ = [seen async for seen in events]
    first, second = (span for span in spans.all if span.name == "streamtools.step")
    assert [link.context for link in second.links] == [first.context]
    assert [dict(link.attributes or {}) for link in second.links] == [{"streamtools.link.type": "follows"}]
    assert first.links == ()
    assert not [span for span in spans.all if span.name.startswith("invoke_agent")]


async def test_an_exception_that_leaves_the_run_is_its_error_by_its_type(spans: Spans) -> None:
    with pytest.raises(ValueError, match="secret"):
        async with Trajectory(observers=[Tracing(spans.provider)]):
            raise ValueError("secret")
    run = spans.named("invoke_agent")
    assert (run.status.status_code, run.status.description) == (StatusCode.ERROR, "the run failed: ValueError")
    assert [dict(event.attributes or {}) for event in run.events] == [{"exception.type": "ValueError"}]
    assert "secret" not in run.to_json()


async def test_a_request_that_fails_ends_the_run_with_an_error(spans: Spans) -> None:
    def refuse(messages: Any, tools: Any) -> Any:
        raise ConnectionError("no route")

    run = Trajectory(observers=[Tracing(spans.provider)])
    with pytest.raises(ConnectionError):
        async with agent_loop(refuse, [], wire="openai.chat_completions", trajectory=run) as events:
            await events.finish()
    said = spans.named("invoke_agent")
    assert (attributes(said)["streamtools.run.outcome"], said.status.status_code) == ("error", StatusCode.ERROR)


async def test_a_run_within_a_run_is_a_part_of_it_and_ends_first(spans: Spans) -> None:
    async with Trajectory(name="outer", observers=[Tracing(spans.provider)]) as run:
        async with agent_loop(bodies(), [], tools=[add], wire="openai.chat_completions", trajectory=run) as events:
            await events.finish()
        assert not [span for span in spans.all if span.name.startswith("invoke_agent")], "the outer one goes on"
    assert attributes(spans.named("invoke_agent outer"))["streamtools.run.steps"] == 2


async def test_the_time_of_the_request_is_a_part_of_the_chat(spans: Spans) -> None:
    asked = 1.0  # on the monotonic clock, long ago
    async with pipeline(stream(chat(text=["a"])), observers=[Tracing(spans.provider)], requested_at=asked) as events:
        _ = [seen async for seen in events]
    said = spans.named("chat m")
    step = spans.named("streamtools.step")
    assert said.start_time == step.start_time
    assert attributes(said)["gen_ai.response.time_to_first_chunk"] > 1.0


async def test_calls_that_are_resumed_are_linked_to_the_step_that_asked(spans: Spans) -> None:
    body = chat(calls=[("c1", "pay", '{"n":1}')])
    async with pipeline(stream(body), tools=[pay], observers=[Tracing(spans.provider)]) as events:
        _ = [seen async for seen in events]
    suspended = events.suspended
    assert suspended is not None
    asked = spans.named("streamtools.step")
    pending = spans.named("streamtools.call pay")
    assert (pending.status.status_code, pending.events) == (StatusCode.UNSET, ()), "waiting is no failure"
    assert attributes(pending)["streamtools.call.reason"] == "not run: it waits for an approval"
    again = Suspended.from_text(suspended.to_text(KEY), KEY)
    observers = [Tracing(spans.provider)]
    async with resume(
        again, tools=[pay], store=MemoryStore(), decisions=decisions_on(again, {"c1": True}), observers=observers
    ) as resumed:
        _ = [seen async for seen in resumed]
    (_, step) = (span for span in spans.all if span.name == "streamtools.step")
    assert [dict(link.attributes or {}) for link in step.links] == [{"streamtools.link.type": "resumes"}]
    assert asked.context is not None
    assert step.links[0].context.span_id == asked.context.span_id


async def test_a_run_that_is_resumed_has_its_id_and_numbers_and_links_to_the_step_and_the_chat_before(
    spans: Spans,
) -> None:
    first = iter(
        [chat(calls=[("c1", "add", '{"a":1,"b":2}')]), chat(calls=[("c2", "add", "{}"), ("c3", "pay", '{"n":1}')])]
    )
    second = iter([chat(calls=[("c4", "add", '{"a":1,"b":2}')]), chat(text=["3"], finish="stop")])
    store, wire = MemoryStore(), "openai.chat_completions"
    loop = agent_loop(
        lambda *_: stream(next(first)), [], tools=[add, pay], wire=wire, store=store,
        trajectory=Trajectory(name="till", observers=[Tracing(spans.provider)]),
    )  # fmt: skip
    async with loop as events:
        await events.finish()
    before = {span.name: span for span in spans.all}
    spans.exporter.clear()
    suspended = events.suspended
    assert suspended is not None
    suspended = Suspended.from_text(suspended.to_text(KEY), KEY)
    again = agent_loop(
        lambda *_: stream(next(second)), events.messages, tools=[add, pay], wire=wire, store=store,
        suspended=suspended, decisions=decisions_on(suspended, {"c3": True}),
        trajectory=Trajectory(name="till", observers=[Tracing(spans.provider)]),
    )  # fmt: skip
    async with again as events:
        assert (await events.finish()).text == "3"

    run, step = before["invoke_agent till"], before["streamtools.step"]
    for last in (run, step):
        assert attributes(last)["streamtools.calls.suspended"] == ("1.1",)
        assert attributes(last)["streamtools.run.id"] == suspended.run_id
    assert {attributes(span)["streamtools.run.id"] for span in spans.all} == {suspended.run_id}
    resumed, *later = [span for span in spans.all if span.name == "streamtools.step"]
    assert [attributes(span)["streamtools.step.number"] for span in (resumed, *later)] == [1, 2, 3]
    paid = spans.named("execute_tool pay")
    assert attributes(paid)["streamtools.call.key"] == "1.1"
    assert step.context is not None
    asked = {
        "streamtools.resumes.trace_id": f"{step.context.trace_id:032x}",
        "streamtools.resumes.span_id": f"{step.context.span_id:016x}",
    }
    for span in (spans.named("invoke_agent till"), resumed):
        (link,) = span.links
        assert (link.context.span_id, dict(link.attributes or {})) == (
            step.context.span_id,
            {"streamtools.link.type": "resumes"},
        )
        assert asked.items() <= attributes(span).items()
        assert "streamtools.calls.suspended" not in attributes(span)
    proposer = before["chat m"].context  # the later one of two
    assert proposer is not None
    (link,) = paid.links
    assert (link.context.span_id, link.context.trace_id) == (proposer.span_id, proposer.trace_id)
    assert dict(link.attributes or {}) == {"streamtools.link.type": "proposed_by"}
    assert attributes(paid)["streamtools.proposed_by.span_id"] == f"{proposer.span_id:016x}"
    assert not [span for span in later if "streamtools.resumes.span_id" in attributes(span)]


async def test_a_run_that_goes_on_from_its_journal_links_its_calls_to_the_chat_that_made_them(
    spans: Spans, tmp_path: Any
) -> None:
    @tool(effect="once")
    async def book(n: int) -> str:
        """Book."""
        await anyio.sleep_forever()
        return "booked"

    def line() -> Any:
        return agent_loop(
            lambda *_: stream(chat(calls=[("c1", "book", '{"n":1}')])), [], tools=[book],
            wire="openai.chat_completions", journal=tmp_path / "runs.sqlite",
            trajectory=Trajectory(run_id="r", observers=[Tracing(spans.provider)]),
        )  # fmt: skip

    async with line() as events:
        async for event in events:
            if isinstance(event, ToolStarted):
                break
    proposer, asked = spans.named("chat m").context, spans.named("streamtools.step").context
    spans.exporter.clear()
    async with line() as events:
        _ = [seen async for seen in events]
    (call,) = spans.tools()
    assert (call.name, attributes(call)["streamtools.call.outcome"]) == ("streamtools.call book", "unknown")
    assert proposer is not None
    assert asked is not None
    assert [link.context.span_id for link in call.links] == [proposer.span_id]
    for span in (spans.named("invoke_agent"), spans.named("streamtools.step")):
        assert attributes(span)["streamtools.resumes.span_id"] == f"{asked.span_id:016x}"


async def test_what_a_run_takes_up_of_the_suspended_one_depends_on_what_it_is_already(spans: Spans) -> None:
    body = stream(chat(calls=[("c1", "pay", '{"n":1}')]))
    async with pipeline(body, tools=[pay], observers=[Tracing(spans.provider)]) as events:
        _ = [seen async for seen in events]
    kept = events.suspended
    assert kept is not None
    entered = Trajectory()
    cases = {"new": Trajectory(), "its id": Trajectory(run_id=kept.run_id), "own id": Trajectory(run_id="mine")}
    with entered:
        found = {}
        for name, run in (cases | {"entered": entered}).items():
            async with resume(kept, tools=[pay], store=MemoryStore(), trajectory=run) as resumed:
                _ = [seen async for seen in resumed]
            assert resumed.suspended is not None
            links = (resumed.suspended.traceparent, resumed.suspended.proposed_by)
            assert links == (kept.traceparent, kept.proposed_by), "a run without spans passes on what it was given"
            assert None not in links
            found[name] = (run.run_id == kept.run_id, resumed.suspended.seq >= kept.seq)
    assert found == {
        "new": (True, True), "its id": (True, True), "own id": (False, False), "entered": (False, False)
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "nonsense", "00-zz-11-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 9999])
async def test_a_traceparent_that_names_no_span_is_no_link(spans: Spans, text: str) -> None:
    from dataclasses import replace

    body = chat(calls=[("c1", "pay", '{"n":1}')])
    async with pipeline(stream(body), tools=[pay], observers=()) as events:
        _ = [seen async for seen in events]
    assert events.suspended is not None
    strange = replace(events.suspended, traceparent=text)
    observers = [Tracing(spans.provider)]
    async with resume(
        strange, tools=[pay], store=MemoryStore(), decisions=decisions_on(strange, {"c1": False}), observers=observers
    ) as run:
        _ = [seen async for seen in run]
    assert spans.named("streamtools.step").links == ()


async def test_an_observer_that_fails_at_the_beginning_of_a_run_is_dropped_and_the_run_goes_on(caplog: Any) -> None:
    class Broken:
        event_types = None

        def on_event(self, event: Any) -> None:
            raise AssertionError("it was dropped")

        def around_tool(self, call_id: str) -> None:
            return None

        def begin_run(self, run: Any) -> None:
            raise RuntimeError("secret")

    run = Trajectory(observers=[Broken()])
    async with agent_loop(bodies(), [], tools=[add], wire="openai.chat_completions", trajectory=run) as events:
        assert (await events.finish()).text == "3"
    assert "Broken raised RuntimeError" in caplog.text
    assert "secret" not in caplog.text


def test_a_name_is_given_once() -> None:
    with pytest.raises(TypeError, match="give name, conversation_id, run_id and privacy to the Trajectory"):
        agent_loop(bodies(), [], wire="openai.chat_completions", trajectory=Trajectory(), name="a")
    with pytest.raises(TypeError, match="name is a text, not int"):
        Trajectory(name=3)  # type: ignore[arg-type]
