"""Approvals on every wire, in every mode, over a restart, behind a web server, and beside other consumers."""

from __future__ import annotations

import gc
import json
import threading
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
from decisions import decisions_on
from every_wire import ANTHROPIC, GEMINI, framed, said
from spoken_histories import NATIVE
from streams import anthropic, chat, stream

from streamtools import (
    ApprovalRequested,
    Decision,
    Deny,
    Event,
    Limits,
    Observation,
    Pipeline,
    Suspended,
    ToolContext,
    Trajectory,
    pipeline,
    resume,
    tool,
)
from streamtools.content import FinalResult
from streamtools.dispatch import CallPool, MemoryStore
from streamtools.events import StepEnd, ToolStarted
from streamtools.exports import export_all
from streamtools.history import lint, with_results
from streamtools.integrations.asgi import EventStreamResponse
from streamtools.modes import JSONObjectAdapter, OpenAIStructuredAdapter, ParsedAdapter, ValidatedAdapter
from streamtools.pipelines.agent_loop import agent_loop
from streamtools.wires import WIRES

pytestmark = [pytest.mark.anyio, pytest.mark.sweep]

KEY = "a key that is long enough"

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@tool(needs_approval=True)
async def pay(to: str, amount: int = 1) -> str:
    """Pay."""
    ran.append(f"{to} {amount}")
    await anyio.lowlevel.checkpoint()
    return f"paid {to}"


@tool(effect="pure")
async def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


def calls_of(ids: str) -> list[tuple[str, str, str]]:
    if ids == "none":
        ids_of = ["", "", "", ""]
    elif ids == "foreign":
        ids_of = ["with space", "x" * 70, "toolu/1", "ü"]
    else:
        ids_of = ["callaaaaa", "callbbbbb", "callccccc", "callddddd"]
    bodies = [("pay", '{"to":"x","amount":5}'), ("look", '{"at":"z"}'), ("pay", '{"to":"y"}'), ("pay", '{"to":"w"}')]
    return [(id_, name, text) for id_, (name, text) in zip(ids_of, bodies, strict=True)]


def verdict(request: ApprovalRequested) -> bool | str:
    return True if request.arguments["to"] != "y" else Deny("too much")


# -- every wire --


@pytest.mark.parametrize("ids", ["usual", "foreign", "none"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_turn_that_was_suspended_is_in_the_history_what_it_would_have_been_at_once(wire: str, ids: str) -> None:
    body = framed(wire, said(wire, text=["Well."], reasoning=["Hm."], calls=calls_of(ids)))
    target = wire if ids != "foreign" else WIRES[WIRES.index(wire) - 1]  # which does not take these ids
    user = NATIVE[target].user("Pay them.")

    def block(**options: Any) -> Pipeline:
        run = Trajectory(run_id="r", observers=())  # ids that are made up are made of it
        return pipeline(stream(body), tools=[pay, look], wire=wire, trajectory=run, **options)

    with anyio.fail_after(30):
        async with block(approve=verdict) as at_once:
            _ = [event async for event in at_once]
        wanted = [user, *at_once.turn.messages(target)]
        assert sorted(ran) == ["w 1", "x 5"]
        ran.clear()

        async with block() as events:
            _ = [event async for event in events]
        assert events.suspended is not None
        kept = json.dumps([[user, *events.turn.messages(target)], events.suspended.to_text(KEY)])

        messages, text = json.loads(kept)
        store = MemoryStore()
        assert lint(messages, target) == []
        first, *rest = Suspended.from_text(text, KEY).calls
        assert [first.index, *(call.index for call in rest)] == [0, 2, 3]
        others = {call.call_id: call.arguments["to"] != "y" or Deny("too much") for call in rest}
        for decisions in ({first.call_id: True}, others):
            suspended = Suspended.from_text(text, KEY)
            given = decisions_on(suspended, decisions)
            async with resume(suspended, tools=[pay, look], store=store, decisions=given) as later:
                _ = [event async for event in later]
            messages = json.loads(json.dumps(with_results(messages, later.turn.observations, target)))
            assert lint(messages, target) == []
            if later.suspended is not None:
                text = later.suspended.to_text(KEY)
    assert later.suspended is None
    assert messages == json.loads(json.dumps(wanted))
    assert sorted(ran) == ["w 1", "x 5"]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_run_of_any_wire_is_gone_on_with_where_it_was_suspended(wire: str) -> None:
    bodies = [said(wire, text=["Well."], calls=calls_of("none")), said(wire, text=["Done."])]
    asked: list[list[Any]] = []

    async def model(messages: list[Any], tools: list[Any]) -> Any:
        asked.append(json.loads(json.dumps(messages)))
        return stream(framed(wire, bodies[len(asked) - 1]))

    user = NATIVE[wire].user("Pay them.")
    exports = export_all([pay, look], wire)
    with anyio.fail_after(30):
        async with agent_loop(model, [user], tools=exports, wire=wire) as run:
            await run.finish()
        assert run.suspended is not None
        kept = json.dumps([run.messages, run.suspended.to_text(KEY)])
        messages, text = json.loads(kept)
        suspended = Suspended.from_text(text, KEY)
        async with agent_loop(
            model, messages, tools=exports, wire=wire, suspended=suspended, approve=verdict, store=MemoryStore()
        ) as later:
            await later.finish()
    assert (later.outcome, sorted(ran)) == ("answered", ["w 1", "x 5"])
    assert lint(asked[1], wire) == []
    assert "waits for an approval" not in json.dumps(asked[1])


async def test_signatures_of_a_suspended_turn_stay_in_its_history() -> None:
    def part(**call: Any) -> dict[str, Any]:
        return {"functionCall": call, "thoughtSignature": "c2ln"}

    second = {"functionCall": {"name": "pay", "args": {"to": "y"}}}
    content = {"role": "model", "parts": [part(name="pay", args={"to": "x"}), second]}
    body = framed(GEMINI, [{"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}]}])
    async with pipeline(stream(body), tools=[pay], wire=GEMINI) as events:
        _ = [event async for event in events]
    assert events.suspended is not None
    one, other = events.suspended.calls
    messages = [NATIVE[GEMINI].user("Pay."), *events.turn.messages()]
    decisions = [Decision.on(one, True), Decision.on(other, False)]
    async with resume(events.suspended, tools=[pay], store=MemoryStore(), decisions=decisions) as later:
        _ = [event async for event in later]
    after = with_results(messages, later.turn.observations, GEMINI)
    assert json.dumps(after).count("c2ln") == json.dumps(messages).count("c2ln") == 1
    assert after[1] is messages[1]
    assert lint(after, GEMINI) == []
    assert json.dumps(after).index("paid x") < json.dumps(after).index("not approved")


async def test_a_suspended_turn_with_a_call_that_the_server_ran_stays_sendable() -> None:
    def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"type": "content_block_start", "index": index, "content_block": start},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": index},
        ]

    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "c", "usage": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    body = [
        {"type": "message_start", "message": message},
        *block(0, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "Hm"},
               {"type": "signature_delta", "signature": "c2ln"}),
        *block(1, {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
               {"type": "input_json_delta", "partial_json": '{"query": "x"}'}),
        *block(2, found),
        *block(3, {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {}},
               {"type": "input_json_delta", "partial_json": '{"to": "x"}'}),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    ]  # fmt: skip
    async with pipeline(stream(body), tools=[pay], wire=ANTHROPIC) as events:
        _ = [event async for event in events]
    assert events.suspended is not None
    (call,) = events.suspended.calls
    messages = [NATIVE[ANTHROPIC].user("Pay."), *events.turn.messages()]
    async with resume(
        events.suspended, tools=[pay], store=MemoryStore(), decisions=decisions_on(events.suspended, {"toolu_1": True})
    ) as later:
        _ = [event async for event in later]
    after = with_results(messages, later.turn.observations, ANTHROPIC)
    assert (call.call_id, lint(messages, ANTHROPIC), lint(after, ANTHROPIC)) == ("toolu_1", [], [])
    assert "c2ln" in json.dumps(after)
    assert "paid x" in json.dumps(after)
    assert [o.index for o in later.turn.observations] == [call.index]


# -- modes --


@pytest.mark.parametrize(
    "adapter",
    [OpenAIStructuredAdapter(), JSONObjectAdapter(), ValidatedAdapter(), ParsedAdapter()],
    ids=lambda adapter: type(adapter).__name__,
)
async def test_a_call_in_a_models_text_is_asked_about_suspended_and_resumed(adapter: Any) -> None:
    payload = json.dumps({"tool": "pay", "arguments": {"to": "x", "amount": None}})
    if not isinstance(adapter, OpenAIStructuredAdapter):
        payload = json.dumps({"tool": "pay", "arguments": {"to": "x"}})
    body = chat([payload], finish="stop")
    with anyio.fail_after(30):
        _ = adapter.format_request([pay], [])
        async with pipeline(stream(body), tools=[pay], stages=adapter.stages()) as events:
            (request,) = [event async for event in events if isinstance(event, ApprovalRequested)]
        defaults = {} if isinstance(adapter, ParsedAdapter) else {"amount": 1}
        assert (request.arguments, ran) == ({"to": "x", **defaults}, [])
        assert events.suspended is not None
        suspended = Suspended.from_text(events.suspended.to_text(KEY), KEY)
        decisions = [Decision.on(request, True)]
        async with resume(
            suspended, tools=[pay], stages=adapter.stages(), store=MemoryStore(), decisions=decisions
        ) as later:
            _ = [event async for event in later]
    assert [o.outcome for o in later.turn.observations] == ["ok"]
    assert ran == ["x 1"]


# -- behind a web server, beside other consumers --


class Client:
    """A client that takes all it is sent and does not go."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        await anyio.sleep_forever()
        raise AssertionError

    async def send(self, message: Any) -> None:
        await anyio.lowlevel.checkpoint()
        self.sent.append(message)

    @property
    def text(self) -> str:
        return b"".join(message.get("body", b"") for message in self.sent).decode()


async def test_a_response_ends_when_only_approvals_are_left_and_says_whom_it_waits_for() -> None:
    events = pipeline(stream(anthropic(["Hi"], [("a", "pay", '{"to": "secret"}')])), tools=[pay])
    client, kept = Client(), list[Suspended | None]()

    async def after(run: Any) -> None:
        kept.append(run.suspended)

    with anyio.fail_after(30):
        await EventStreamResponse(events, after=after)({"type": "http"}, client.receive, client.send)
    assert client.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert kept[0] is not None
    assert [call.call_id for call in kept[0].calls] == ["a"]
    assert '"to":"secret"' in client.text  # somebody has to see what is approved
    assert client.text.count("secret") == 1
    assert client.text.endswith('event: run_end\ndata: {"outcome":"suspended","call_ids":["a"]}\n\n')


async def test_a_branch_sees_what_is_asked_and_decided_and_ends_with_the_block() -> None:
    seen: list[Event] = []

    async def watch(branch: Any) -> None:
        async for event in branch:
            seen.append(event)
            if isinstance(event, ApprovalRequested):
                assert events.approve(event)
            if isinstance(event, Observation):
                observed.set()

    observed = anyio.Event()
    events = pipeline(stream(anthropic(calls=[("a", "pay", '{"to": "x"}')])), tools=[pay])
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks, events:
            tasks.start_soon(watch, events.branch())
            _ = [event async for event in events]  # which may come to rest before the branch has decided
            await observed.wait()
            _ = [event async for event in events]
    assert ran == ["x 1"]
    assert isinstance(seen[-1], StepEnd)
    assert [event.seq for event in seen] == list(range(seen[0].seq, seen[-1].seq + 1))


async def test_resting_pipelines_hold_no_place_of_a_shared_dispatcher() -> None:
    shared = CallPool(Limits(max_concurrency=1))
    body = anthropic(calls=[("a", "pay", '{"to": "x"}')])

    def block() -> Pipeline:
        return pipeline(stream(body), tools=[pay], pool=shared)

    with anyio.fail_after(30):
        async with block() as first, block() as second:
            _ = [event async for event in first]
            _ = [event async for event in second]
            assert (shared.running, shared.waiting) == (0, 0)
            second.approve("a")
            _ = [event async for event in second]
            assert [o.outcome for o in second.turn.observations] == ["ok"]
            assert [o.outcome for o in first.turn.observations] == []
    assert [o.outcome for o in first.turn.observations] == ["skipped"]
    assert ran == ["x 1"]


# -- one failure cancels the others, in every shape --


@tool(effect="pure")
async def fail() -> str:
    """Fail."""
    raise KeyError("no such thing")


@tool(effect="pure")
async def progress() -> Any:
    """Report for ever."""
    while True:
        yield "on it"
        await anyio.sleep_forever()
    yield FinalResult("never")


@tool(effect="pure", exclusive=True)
async def alone() -> str:
    """Run alone."""
    ran.append("alone")
    return "done"


@tool(effect="pure", conflict_key=lambda _: "k")
async def keyed() -> str:
    """Work on one thing."""
    ran.append("keyed")
    return "done"


@pytest.mark.parametrize("dispatch", ["auto", "early", "turn_end"])
@pytest.mark.parametrize("make", [anthropic, chat])
async def test_one_failure_cancels_calls_of_every_kind_and_no_other_pipelines(make: Any, dispatch: Any) -> None:
    names = ["progress", "fail", "alone", "keyed", "pay"]
    calls = [(f"c{n}", name, '{"to": "x"}' if name == "pay" else "{}") for n, name in enumerate(names)]
    shared = CallPool(Limits(max_concurrency=2))
    tools: list[Any] = [progress, fail, alone, keyed, pay]
    options: dict[str, Any] = {"start": dispatch, "on_tool_error": "cancel"}
    unrelated = make(calls=[("o", "pay", '{"to": "other"}')])
    with anyio.fail_after(30):
        async with (
            pipeline(stream(unrelated), tools=tools, pool=shared) as other,
            pipeline(stream(make(calls=calls)), tools=tools, pool=shared, **options) as events,
        ):
            _ = [event async for event in other]
            seen: list[Event] = [event async for event in events]
            assert not events.resting
            other.approve("o")
            _ = [event async for event in other]
    outcomes = {o.call_id: o.outcome for o in events.turn.observations}
    assert outcomes.pop("c1") == "failed"
    assert outcomes.keys() == {"c0", "c2", "c3", "c4"}
    assert set(outcomes.values()) <= {"cancelled", "skipped"}
    assert isinstance(seen[-1], StepEnd)
    assert ran == ["other 1"]
    assert (shared.running, shared.waiting) == (0, 0)


async def test_an_approved_call_that_fails_cancels_those_that_still_wait_for_a_word() -> None:
    broken = tool(needs_approval=True, name="broken")(fail.fn)
    calls = [("f", "broken", "{}"), ("a", "pay", '{"to": "x"}')]
    with anyio.fail_after(30):
        async with pipeline(stream(chat(calls=calls)), tools=[broken, pay], on_tool_error="cancel") as events:
            _ = [event async for event in events]
            events.approve("f")
            _ = [event async for event in events]
            assert events.approve("a") is False
    assert {o.call_id: o.outcome for o in events.turn.observations} == {"f": "failed", "a": "skipped"}
    assert (events.suspended, ran) == (None, [])


async def test_an_approver_that_still_thinks_is_cancelled_when_a_sibling_fails() -> None:
    async def approve(request: ApprovalRequested) -> bool:
        if request.call_id == "f":
            return True
        await anyio.sleep_forever()
        return True

    broken = tool(needs_approval=True, name="broken")(fail.fn)
    calls = [("a", "pay", '{"to": "x"}'), ("f", "broken", "{}")]
    with anyio.fail_after(30):
        async with pipeline(
            stream(chat(calls=calls)), tools=[broken, pay], on_tool_error="cancel", approve=approve
        ) as events:
            _ = [event async for event in events]
    assert {o.call_id: o.outcome for o in events.turn.observations} == {"f": "failed", "a": "skipped"}


# -- whatever is shown --


async def test_no_argument_is_in_what_is_shown_of_an_approval_or_a_state() -> None:
    body = chat(calls=[("a", "pay", '{"to": "SECRET"}')])
    async with pipeline(stream(body), tools=[pay]) as events:
        seen = [event async for event in events]
    assert events.suspended is not None
    (left,) = [o for o in events.turn.observations if isinstance(o, Observation)]
    for shown in (*seen, events.suspended, *events.suspended.calls, left, left.report(), left.error, events):
        assert "SECRET" not in repr(shown)
        assert "SECRET" not in str(shown)
    assert "SECRET" in events.suspended.to_text(KEY)
    assert not any(isinstance(event, ToolStarted) for event in seen)


# -- one failure, by and by --


async def test_a_thread_goes_on_and_is_told_of_when_a_sibling_fails() -> None:
    begun, release, loop = anyio.Event(), threading.Event(), anyio.lowlevel.current_token()

    @tool(effect="pure")
    def block_thread() -> str:
        """Block a thread."""
        anyio.from_thread.run_sync(begun.set, token=loop)
        release.wait(45)
        return "late"

    @tool(effect="pure")
    async def fail_then() -> str:
        """Fail when the other one runs."""
        await begun.wait()
        raise KeyError("no such thing")

    calls = [("t", "block_thread", "{}"), ("f", "fail_then", "{}")]
    try:
        with anyio.fail_after(30):
            async with pipeline(
                stream(chat(calls=calls)), tools=[block_thread, fail_then], on_tool_error="cancel"
            ) as events:
                _ = [event async for event in events]
    finally:
        release.set()
    found = {o.call_id: (o.outcome, o.still_running) for o in events.turn.observations}
    assert found == {"f": ("failed", False), "t": ("cancelled", True)}


async def test_a_failure_that_is_tried_again_cancels_nobody() -> None:
    @tool(effect="pure", retries=1, retry_delay_s=0.0001)
    async def flaky(ctx: ToolContext) -> str:
        """Fail at first."""
        if ctx.attempt == 1:
            raise KeyError("no such thing")
        return "done"

    with anyio.fail_after(30):
        calls = [("f", "flaky", "{}"), ("l", "look", '{"at": "z"}')]
        async with pipeline(stream(chat(calls=calls)), tools=[flaky, look], on_tool_error="cancel") as events:
            _ = [event async for event in events]
    assert {o.outcome for o in events.turn.observations} == {"ok"}


# -- what no approver should do --


class _Fatal(BaseException):
    """Like a KeyboardInterrupt, without one."""


async def test_what_is_no_error_comes_out_of_the_block_and_runs_nothing() -> None:
    def approve(request: ApprovalRequested) -> bool:
        raise _Fatal

    calls = [("a", "pay", '{"to": "x"}'), ("b", "pay", '{"to": "y"}')]
    events = pipeline(stream(chat(calls=calls)), tools=[pay], approve=approve)
    with anyio.fail_after(30), pytest.raises(BaseException) as caught:
        async with events:
            _ = [event async for event in events]
    assert isinstance(caught.value, _Fatal) or caught.group_contains(_Fatal)
    assert [o.outcome for o in events.turn.observations] == ["skipped", "skipped"]
    assert ran == []


async def test_an_opened_pipeline_that_is_dropped_at_rest_is_closed() -> None:
    async def drop() -> None:
        async with anyio.create_task_group() as tasks:
            events = pipeline(stream(chat(calls=[("a", "pay", '{"to": "x"}')])), tools=[pay]).open(tasks)
            _ = [event async for event in events]
            assert events.resting
            del events
            gc.collect()

    with anyio.fail_after(30), pytest.warns(ResourceWarning, match="were dropped and not closed"):
        await drop()
    assert ran == []


# -- whenever it is left --


@pytest.mark.parametrize("given", ["decisions", "approver", "loop"])
async def test_resumed_and_cancelled_in_any_round_each_call_runs_once_at_most_and_none_is_lost(given: str) -> None:
    """The process goes in the middle of a resumption, and another one begins again with the same text and store."""
    body = anthropic(calls=[("a", "pay", '{"to": "x"}'), ("b", "pay", '{"to": "y"}'), ("c", "pay", '{"to": "z"}')])
    async with pipeline(stream(body), tools=[pay]) as events:
        _ = [event async for event in events]
    assert events.suspended is not None
    messages = [NATIVE[ANTHROPIC].user("Pay."), *events.turn.messages()]
    suspended, ids = Suspended.from_text(events.suspended.to_text(KEY), KEY), {"a", "b", "c"}

    async def approve(request: ApprovalRequested) -> bool | None:
        await anyio.lowlevel.checkpoint()
        return True if request.call_id == "a" else None

    options: dict[str, Any] = {}
    if given == "decisions":
        options["decisions"] = decisions_on(suspended, {"a": True})
    elif given == "approver":
        options["approve"] = approve

    async def go_on(store: MemoryStore) -> Pipeline:
        later = resume(suspended, tools=[pay], store=store, **options)
        found.append(later)
        async with later:
            async for event in later:
                if given == "loop" and isinstance(event, ApprovalRequested) and event.call_id == "a":
                    later.approve(event)
        return later

    found: list[Pipeline] = []
    for rounds in range(200):
        ran.clear()
        found.clear()
        store, done = MemoryStore(), False
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:

                async def kill(group: Any, rounds: int) -> None:
                    for _ in range(rounds):
                        await anyio.lowlevel.checkpoint()
                    group.cancel_scope.cancel()

                tasks.start_soon(kill, tasks, rounds)
                await go_on(store)
                done = not tasks.cancel_scope.cancel_called
                tasks.cancel_scope.cancel()
            first = len(ran)
            for later in found:  # unless it was cancelled before it was made
                announced = {call.call_id for call in later.turn.calls}
                assert {o.call_id for o in later.turn.observations} == announced, rounds
                assert lint(with_results(messages, later.turn.observations, ANTHROPIC), ANTHROPIC) == [], rounds
                waiting = set() if later.suspended is None else {call.call_id for call in later.suspended.calls}
                assert waiting in (ids, {"b", "c"}), rounds
                assert "a" not in waiting or first == 0, rounds
            second = await go_on(store)
        (outcome,) = [o.outcome for o in second.turn.observations if o.call_id == "a"]
        assert outcome in ("ok", "unknown"), rounds
        assert ran == ["x 1"], rounds
        if done:
            break
    else:
        pytest.fail("the resumption has more rounds than were tried")
    assert rounds > 5
