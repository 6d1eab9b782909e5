"""Suspended calls, resumed: kept in odd shapes, in any run, on every wire, and left at odd moments."""

from __future__ import annotations

import json
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from decisions import decisions_on
from every_wire import ANTHROPIC, framed, said
from payments import PAY_A, PAY_B, block, look, outcomes, pay
from profiles import every, thorough_unless
from ran import ran
from spoken_histories import NATIVE
from streams import anthropic, chat, stream

from streamtools import (
    ApprovalRequested,
    Decision,
    Deny,
    Limits,
    Pipeline,
    Suspended,
    ToolCallValidated,
    Trajectory,
    pipeline,
    resume,
    tool,
)
from streamtools.dispatch import MemoryStore
from streamtools.errors import ApprovalPending, SuspendedError
from streamtools.front import agent_loop
from streamtools.history import lint, with_results
from streamtools.modes import JSONObjectAdapter, OpenAIStructuredAdapter, ParsedAdapter, ValidatedAdapter
from streamtools.wires import WIRES

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns

KEY = b"0123456789abcdef0123456789abcdef"
ROOM = 64 << 20  # for calls that are as large as the limits allow


async def suspended_of(calls: list[tuple[str, str, str]], **options: Any) -> Suspended:
    async with block(calls, **options) as events:
        _ = [event async for event in events]
    text = events.suspended.to_text(KEY, max_bytes=ROOM)
    return Suspended.from_text(text, KEY, max_bytes=ROOM)


async def resumed(suspended: Suspended, **options: Any) -> Pipeline:
    options.setdefault("tools", [pay, look])
    options.setdefault("store", MemoryStore())
    options["decisions"] = decisions_on(suspended, options.get("decisions", {}))
    with anyio.fail_after(30):
        async with resume(suspended, **options) as events:
            _ = [event async for event in events]
    return events


# -- kept as text --


LARGE: list[Any] = [
    ('{"to":"' + "ß€漢😀" * 75_000 + '"}', str),
    pytest.param('{"to": [' + ",".join(["1"] * 400_000) + "]}", list[float], marks=pytest.mark.thorough),
    pytest.param('{"to": [' + "1e5," * 200_000 + "1]}", list[float], marks=pytest.mark.thorough),
]


@every("text, kind", LARGE)
async def test_arguments_that_were_not_too_large_are_not_when_they_are_resumed(text: str, kind: Any) -> None:
    async def count(to: Any) -> int:
        """Count."""
        return len(to)

    count.__annotations__["to"] = kind
    made = tool(count, needs_approval=True, name="pay")
    suspended = await suspended_of([("a", "pay", text)], tools=[made])
    later = await resumed(suspended, tools=[made], decisions={"a": True})
    assert outcomes(later) == {"a": "ok"}


@every(
    "arguments",
    [
        '{"to": "\\ud83d\\ude00"}',
        '{"to": "half \\ud83d"}',
        '{"to": "\\u0000\\u2028\\u202e"}',
        '```json\n{"to": "x"}\n```',
        '"{\\"to\\": \\"x\\"}"',
        '{"to": "x", "to": "y"}',
        '{"to": "x", "amount": 123456789012345678901234567890}',
        '{"to": "x", "amount": ' + "9" * 4000 + "}",
        '{"to": "x", "amount": ' + "9" * 5000 + "}",
    ],
)
async def test_what_would_have_run_at_once_is_what_runs_when_it_is_resumed(arguments: str) -> None:
    ran.clear()
    with anyio.fail_after(30):
        async with block([("a", "pay", arguments)], approve=lambda _: True) as events:
            _ = [event async for event in events]
    at_once, ran[:] = list(ran), []
    if outcomes(events) != {"a": "ok"}:
        return  # it is refused without anybody's being asked
    later = await resumed(await suspended_of([("a", "pay", arguments)]), decisions={"a": True})
    assert (outcomes(later), ran) == ({"a": "ok"}, at_once)


@every("opening", ["[", '{"calls":'])
def test_a_text_of_any_depth_is_refused_in_so_many_words(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    for depth in (10, 100, *range(400, 1000), 3_000, 100_000):
        text = '{"x":' + opening * depth + "1" + closing * depth + "}"
        with pytest.raises(SuspendedError):
            Suspended.from_text(text, KEY)


@every("text", ["{}", "null", "1", '"x"', '{"signature": 1}', b"\xff", b"\xff\xfe{", "\ud800"])
def test_what_is_no_state_is_refused(text: Any) -> None:
    with pytest.raises(SuspendedError):
        Suspended.from_text(text, KEY)


# -- resumed --


async def test_what_was_suspended_is_within_the_limits_that_it_is_resumed_with() -> None:
    """Else its id would be made up anew, and with it its key; or it would be refused after it was approved."""
    tight = Limits(max_id_bytes=1, max_name_bytes=1, max_tool_calls=1, max_argument_bytes=1, max_total_argument_bytes=1)
    suspended = await suspended_of([("call_1", "pay", '{"to": "x"}'), ("call_2", "pay", '{"to": "y"}')])
    store, decisions = MemoryStore(), {"call_1": True, "call_2": True}
    later = await resumed(suspended, limits=tight, store=store, decisions=decisions)
    again = await resumed(suspended, store=store)
    assert outcomes(later) == outcomes(again) == {"call_1": "ok", "call_2": "ok"}
    assert [o.recorded for o in again.turn.observations] == [True, True]
    assert len(ran) == 2


async def test_a_resumed_call_does_not_count_as_a_repetition_of_itself() -> None:
    run, limits = Trajectory(observers=()), Limits(max_repeated_calls=1)
    suspended = await suspended_of([PAY_A], trajectory=run, limits=limits)
    later = await resumed(suspended, trajectory=run, limits=limits, decisions={"a": True})
    assert (outcomes(later), ran) == ({"a": "ok"}, ["pay x 1"])


@every("effect", ["pure", "once"])
@every("after", range(8))
async def test_a_resumption_that_is_left_anywhere_leaves_its_calls_suspended(after: int, effect: Any) -> None:
    asks = tool(needs_approval=True, name="pay", effect=effect)(pay.fn)
    suspended = await suspended_of([PAY_A, PAY_B], tools=[asks])
    run = Trajectory(observers=())
    async with resume(suspended, tools=[asks], store=MemoryStore(), trajectory=run) as events:
        for _ in range(after):
            await anext(events)
    assert [call.call_id for call in events.suspended.calls] == ["a", "b"]
    assert (events.suspended.seq, events.suspended.step) == (run.next_seq, suspended.step)
    assert all(isinstance(o.error, ApprovalPending) for o in events.turn.observations)
    assert ran == []


@every("given", ["", 'say "hi"\n'])
async def test_a_freeform_call_keeps_its_text_and_its_place(given: str) -> None:
    ran.clear()

    @tool(kind="custom", needs_approval=True)
    async def patch(text: str) -> str:
        """Patch."""
        ran.append(text)
        return "patched"

    item = {"type": "custom_tool_call", "id": "i", "call_id": "a", "name": "patch", "input": given}
    other = {"type": "function_call", "id": "j", "call_id": "l", "name": "look", "arguments": '{"at": "z"}'}
    response = {"id": "r", "object": "response", "status": "completed", "output": [other, item]}
    body = [{"type": "response.completed", "response": response}]
    async with pipeline(stream(body), tools=[patch, look], wire="openai.responses") as events:
        _ = [event async for event in events]
    assert events.suspended is not None
    later = await resumed(events.suspended, tools=[patch], decisions={"a": True})
    assert ran == ["look z", given]
    assert [(o.call_id, o.index) for o in later.turn.observations] == [("a", 1)]


# -- in a run of many steps --

CHAT, OLLAMA = "openai.chat_completions", "ollama.chat"
ASKED = [{"role": "user", "content": "Pay them."}]


async def test_a_run_that_is_left_at_once_still_has_what_it_was_to_go_on_with() -> None:
    suspended = await suspended_of([PAY_A])
    async with block([PAY_A]) as events:
        _ = [event async for event in events]
    messages = [*ASKED, *events.turn.messages(CHAT)]
    options: dict[str, Any] = {"tools": [pay], "wire": CHAT, "suspended": suspended, "store": MemoryStore()}
    async with agent_loop(lambda messages, tools: stream([]), messages, **options) as run:
        pass
    assert (run.outcome, run.suspended, run.messages) == ("suspended", suspended, messages)


def ollama(calls: list[tuple[str, str]]) -> list[bytes]:
    """A body whose calls have no ids."""
    tools = [{"function": {"name": name, "arguments": json.loads(text)}} for name, text in calls]
    message = {"role": "assistant", "content": "", "tool_calls": tools}
    ends = {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
    return [json.dumps(line).encode() + b"\n" for line in ({"model": "m", "message": message, "done": False}, ends)]


async def test_ids_that_are_made_up_differ_in_all_steps_of_a_run_also_behind_a_resumption() -> None:
    bodies = [ollama([("pay", '{"to": "x"}')]), ollama([("pay", '{"to": "x"}')]), ollama([])]

    async def model(messages: list[Any], tools: list[Any]) -> Any:
        return stream(bodies.pop(0))

    options: dict[str, Any] = {"tools": [pay], "wire": OLLAMA, "store": MemoryStore()}
    with anyio.fail_after(30):
        async with agent_loop(model, ASKED, trajectory=Trajectory(run_id="r", observers=()), **options) as run:
            await run.finish()
        kept = Suspended.from_text(run.suspended.to_text(KEY), KEY)
        async with agent_loop(model, run.messages, suspended=kept, approve=lambda _: True, **options) as later:
            seen = [event async for event in later if isinstance(event, ToolCallValidated)]
    assert (later.outcome, ran) == ("answered", ["pay x 1", "pay x 1"])
    assert len({event.call_id for event in seen}) == 2


# -- everywhere, and whenever --


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


IDS = ("usual", "foreign", "none")


@every(
    "wire, ids",
    thorough_unless(
        lambda case: WIRES.index(case[0]) % 3 == IDS.index(case[1]), [(wire, ids) for wire in WIRES for ids in IDS]
    ),
)
async def test_a_turn_that_was_suspended_is_in_the_history_what_it_would_have_been_at_once(wire: str, ids: str) -> None:
    ran.clear()
    body = framed(wire, said(wire, text=["Well."], reasoning=["Hm."], calls=calls_of(ids)))
    target = wire if ids != "foreign" else WIRES[WIRES.index(wire) - 1]  # which does not take these ids
    user = NATIVE[target].user("Pay them.")

    def asked(**options: Any) -> Pipeline:
        run = Trajectory(run_id="r", observers=())  # ids that are made up are made of it
        return pipeline(stream(body), tools=[pay, look], wire=wire, trajectory=run, **options)

    with anyio.fail_after(30):
        async with asked(approve=verdict) as at_once:
            _ = [event async for event in at_once]
        wanted = [user, *at_once.turn.messages(target)]
        assert sorted(ran) == ["look z", "pay w 1", "pay x 5"]
        ran.clear()

        async with asked() as events:
            _ = [event async for event in events]
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
    assert sorted(ran) == ["look z", "pay w 1", "pay x 5"]


@every("adapter", [OpenAIStructuredAdapter(), JSONObjectAdapter(), ValidatedAdapter(), ParsedAdapter()])
async def test_a_call_in_a_models_text_is_asked_about_suspended_and_resumed(adapter: Any) -> None:
    ran.clear()
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
        suspended = Suspended.from_text(events.suspended.to_text(KEY), KEY)
        decisions = [Decision.on(request, True)]
        turn = await resume(suspended, tools=[pay], stages=adapter.stages(), store=MemoryStore(), decisions=decisions)
    assert [o.outcome for o in turn.observations] == ["ok"]
    assert ran == ["pay x 1"]


@pytest.mark.thorough
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@every("given", ["decisions", "approver", "loop"])
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
        assert ran == ["pay x 1"], rounds
        if done:
            break
    else:
        pytest.fail("the resumption has more rounds than were tried")
    assert rounds > 5
