"""The span of a run: its steps below it, its totals, its outcome; and the links where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from decisions import decisions_on
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from profiles import every
from scripted import Spans, span_id
from streams import add, chat, stream

from streamtools import Trajectory, agent_loop, pipeline, resume, tool
from streamtools.dispatch import MemoryStore, Suspended
from streamtools.errors import LocalProtocolError
from streamtools.observers import Observer
from streamtools.telemetry.tracing import Tracing

pytestmark = pytest.mark.anyio
KEY = b"0123456789abcdef"


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def parent_id(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


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
            await pipeline(ask([], []), tools=[add], trajectory=run)
    said = attributes(spans.named("invoke_agent sums"))
    assert (said["streamtools.run.steps"], "streamtools.run.outcome" in said) == (2, False)
    with pytest.raises(LocalProtocolError, match="entered once"):
        async with run:
            pass


async def test_an_exception_that_leaves_the_run_is_its_error_by_its_type(spans: Spans) -> None:
    with pytest.raises(ValueError, match="secret"):
        async with Trajectory(observers=[Tracing(spans.provider)]):
            raise ValueError("secret")
    run = spans.named("invoke_agent")
    assert (run.status.status_code, run.status.description) == (StatusCode.ERROR, "the run failed: ValueError")
    assert [dict(event.attributes or {}) for event in run.events] == [{"exception.type": "ValueError"}]
    assert "secret" not in run.to_json()


async def test_the_time_of_the_request_is_a_part_of_the_chat(spans: Spans) -> None:
    asked = 1.0  # on the monotonic clock, long ago
    await pipeline(stream(chat(text=["a"])), observers=[Tracing(spans.provider)], requested_at=asked)
    said = spans.named("chat m")
    step = spans.named("streamtools.step")
    assert said.start_time == step.start_time
    assert attributes(said)["gen_ai.response.time_to_first_chunk"] > 1.0


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


@every("text", ["", "nonsense", "00-zz-11-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 9999])
async def test_a_traceparent_that_names_no_span_is_no_link(text: str) -> None:
    spans = Spans()
    body = chat(calls=[("c1", "pay", '{"n":1}')])
    async with pipeline(stream(body), tools=[pay], observers=()) as events:
        _ = [seen async for seen in events]
    assert events.suspended is not None
    strange = replace(events.suspended, traceparent=text)
    observers = [Tracing(spans.provider)]
    await resume(
        strange, tools=[pay], store=MemoryStore(), decisions=decisions_on(strange, {"c1": False}), observers=observers
    )
    assert spans.named("streamtools.step").links == ()


async def test_an_observer_that_fails_at_the_beginning_of_a_run_is_dropped_and_the_run_goes_on(caplog: Any) -> None:
    class Broken(Observer):
        def on_event(self, event: Any) -> None:
            raise AssertionError("it was dropped")

        def begin_run(self, run: Any) -> None:
            raise RuntimeError("secret")

    run = Trajectory(observers=[Broken()])
    async with agent_loop(bodies(), [], tools=[add], wire="openai.chat_completions", trajectory=run) as events:
        assert (await events.finish()).text == "3"
    assert "Broken raised RuntimeError" in caplog.text
    assert "secret" not in caplog.text


def test_a_name_is_given_once() -> None:
    with pytest.raises(TypeError, match="pass name, conversation_id, run_id and privacy to the Trajectory"):
        agent_loop(bodies(), [], wire="openai.chat_completions", trajectory=Trajectory(), name="a")
    with pytest.raises(TypeError, match="name must be a string, not int"):
        Trajectory(name=3)  # type: ignore[arg-type]
