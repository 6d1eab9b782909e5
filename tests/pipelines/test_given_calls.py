"""Calls that exist already: from a framework, a turn, a provider's dicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from decisions import decisions_on
from profiles import every
from streams import add, chat

from streamtools import Deny, Suspended, ToolCall, ToolContext, Trajectory, parse, resume, run_calls, tool
from streamtools.dispatch import MemoryStore
from streamtools.history import with_results

pytestmark = pytest.mark.anyio

KEY = b"a secret of enough bytes"


@tool(needs_approval=True)
def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


async def test_each_call_has_one_observation_in_the_order_given() -> None:
    calls = [("c", "add", {"a": 1, "b": 2}), ("b", "nothing", {}), ("a", "add", '{"a": "x"}'), (None, "add", b"{")]
    seen = (await run_calls(calls, [add])).observations
    assert [one.outcome for one in seen] == ["ok", "unknown_tool", "invalid", "truncated"]
    assert [one.call_id for one in seen][:3] == ["c", "b", "a"]
    assert (seen[0].value, [one.index for one in seen]) == (3, [0, 1, 2, 3])


async def test_the_calls_of_a_turn_run_as_they_ended_there() -> None:
    turn = parse(b"".join(chat(calls=[("a", "add", '{"a": 1, "b": 2}'), ("b", "add", '{"a": 1')])))
    done = await run_calls(turn.calls, [add])
    assert {one.call_id: one.outcome for one in done.observations} == {"a": "ok", "b": "truncated"}
    cut = ToolCall(call_id="c", name="add", arguments_text='{"a": 1, "b": 2', status="truncated")
    (seen,) = (await run_calls([cut], [add])).observations
    assert (seen.outcome, seen.attempts) == ("truncated", 0)


@every(
    "call",
    [
        {"name": "add", "args": {"a": 1, "b": 2}, "id": "x", "type": "tool_call"},
        {"toolUseId": "x", "name": "add", "input": {"a": 1, "b": 2}},
        {"type": "tool_use", "id": "x", "name": "add", "input": {"a": 1, "b": 2}},
        {"id": "x", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}},
        {"type": "function_call", "id": "fc_1", "call_id": "x", "name": "add", "arguments": '{"a": 1, "b": 2}'},
        {"toolUse": {"toolUseId": "x", "name": "add", "input": {"a": 1, "b": 2}}},
        {"functionCall": {"id": "x", "name": "add", "args": {"a": 1, "b": 2}}},
        ["x", "add", {"a": 1, "b": 2}],
    ],
)
async def test_a_call_is_read_as_providers_and_frameworks_have_it(call: Any) -> None:
    (seen,) = (await run_calls([call], [add])).observations
    assert (seen.call_id, seen.outcome, seen.value) == ("x", "ok", 3)


@every(
    ("calls", "error", "said"),
    [
        ("add", TypeError, r"calls must be a list of calls, not str; write"),
        ({"name": "add"}, TypeError, "calls must be a list of calls, not dict"),
        (ToolCall(call_id="a", name="add"), TypeError, "not ToolCall"),
        ([("a", "add")], TypeError, r"calls\[0\] is a tuple; pass \(id, name, arguments\)"),
        ([("a", "add", {}), 5], TypeError, r"calls\[1\] is a int"),
        ([("a", add, {})], TypeError, "the tool's name must be text, not Tool"),
        ([(5, "add", {})], TypeError, "the id must be text, or None to make one up, not int"),
        ([{"what": 1}], TypeError, r"calls\[0\]: no accessor knows this call .*or pass \(id, name, arguments\)"),
        ([("a", "add", {}), ("a", "add", {})], ValueError, "has the id 'a'; each call needs its"),
        ([ToolCall(call_id="a", name="web", kind="server")], ValueError, "the provider runs web itself"),
    ],
)
async def test_what_is_no_call_is_named_before_anything_runs(calls: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        run_calls(calls, [add])


async def test_a_value_is_any_object_and_is_written_only_when_its_text_is_read(
    anyio_backend_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    written: list[str] = []

    class Row:
        def __init__(self, name: str) -> None:
            self.name = name

    def rows() -> Iterator[str]:
        written.append("rows")
        yield "one"

    @tool(name=f"frame_on_{anyio_backend_name}")  # an odd result is logged once for a tool
    def frame() -> Any:
        """Return an object."""
        return Row("x")

    @tool
    def lines() -> Any:
        """Return lines."""
        return rows()

    one, other = (await run_calls([("a", frame.name, {}), ("b", "lines", {})], [frame, lines])).observations
    assert (one.outcome, one.error, one.value.name, one.observation_type) == ("ok", None, "x", "Row")
    assert written == []
    assert (other.model_content, written) == ('["one"]', ["rows"])
    assert (other.model_content, written) == ('["one"]', ["rows"])
    assert caplog.messages == []
    assert one.model_content == "[a value of type Row, which cannot be written as JSON]"
    says = "a result of type Row cannot be written as JSON; the model reads a note instead"
    assert caplog.messages == [f"{frame.name}: {says}"]


async def test_a_store_knows_calls_again_by_their_identity_whatever_run_they_are_made_in() -> None:
    paid: list[str] = []

    @tool
    def pay(ctx: ToolContext) -> str:
        """Pay."""
        paid.append(ctx.idempotency_key)
        return "paid"

    store, calls = MemoryStore(), [("a", "pay", {})]
    seen = [
        (await run_calls(calls, [pay], store=store, identity=identity, trajectory=trajectory)).observations[0]
        for identity, trajectory in [("thread/1", None), ("thread/1", Trajectory(run_id="r")), ("thread/2", None)]
    ]
    assert [one.recorded for one in seen] == [False, True, False]
    assert paid == [seen[0].idempotency_key, seen[2].idempotency_key] != [seen[2].idempotency_key] * 2
    with pytest.raises(TypeError, match="knows no call again without a stable identity; write run_calls"):
        run_calls(calls, [pay], store=store)
    with pytest.raises(ValueError, match=r"calls\[0\]: a store recognises a repeated call by its id"):
        run_calls([(None, "pay", {})], [pay], store=store, identity="thread/1")
    for wrong in ("", 7):
        with pytest.raises(TypeError, match="identity is a text"):
            run_calls(calls, [pay], store=store, identity=wrong)  # type: ignore[arg-type]


async def test_calls_that_wait_for_an_approval_are_asked_about_suspended_and_resumed() -> None:
    calls = [("a", "pay", {"to": "x"}), ("b", "add", {"a": 1, "b": 2})]
    (no, _) = (await run_calls(calls, [pay, add], approve=lambda _: Deny("not today"))).observations
    assert (no.outcome, "not today" in no.model_content) == ("denied", True)
    store = MemoryStore()
    async with run_calls(calls, [pay, add], store=store, trajectory=Trajectory(run_id="r")) as events:
        turn = await events.finish()
        assert [one.outcome for one in turn.observations] == ["ok"]
        kept = events.suspended.to_text(KEY)
    later = Suspended.from_text(kept, KEY)
    done = await resume(later, tools=[pay], store=store, decisions=decisions_on(later, {"a": True}))
    assert [(one.call_id, one.value) for one in done.observations] == [("a", "paid x")]
    asked = {"id": "a", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    history = with_results([{"role": "assistant", "tool_calls": [asked]}], done.observations, "openai.chat_completions")
    assert history[-1] == {"role": "tool", "tool_call_id": "a", "content": "paid x"}


@every("option", ["start", "transforms", "retries"])
async def test_an_option_that_there_is_not_is_refused_and_never_ignored(option: str) -> None:
    given: Any = {option: "manual"}
    with pytest.raises(TypeError, match=f"a step that asks no model has no option '{option}'; "):
        run_calls([("a", "add", {})], [add], **given)
    first = run_calls([("a", "pay", {"to": "x"})], [pay])
    await first
    assert first.suspended is not None
    with pytest.raises(TypeError, match=f"no option '{option}'"):
        resume(first.suspended, tools=[pay], store=MemoryStore(), **given)
