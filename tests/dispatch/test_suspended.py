"""Calls that waited for an approval when their block was left: kept as signed text, decided later, run once."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from decisions import decisions_on
from payments import outcomes
from profiles import every
from ran import ran
from streams import anthropic, chat, key_of, stream

from streamtools import Decision, Deny, Limits, Pipeline, Suspended, ToolContext, Trajectory, pipeline, resume, tool
from streamtools.dispatch import MemoryStore, StillRunning
from streamtools.errors import DecisionError, SuspendedError
from streamtools.events import Event, StepEnd, StepStart
from streamtools.exports import export_all
from streamtools.history import lint, with_results
from streamtools.observers import Observer

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns

KEY = b"0123456789abcdef0123456789abcdef"

keys: list[str] = []


@pytest.fixture(autouse=True)
def _no_keys() -> None:
    keys.clear()


@tool(needs_approval=True)
async def pay(to: str, ctx: ToolContext, amount: int = 1) -> str:
    """Pay."""
    ran.append(f"{to} {amount}")
    keys.append(ctx.idempotency_key)
    await anyio.lowlevel.checkpoint()
    return f"paid {to}"


@tool(effect="pure")
async def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


CALLS = [
    ("a", "pay", '{"to": "x", "amount": 5}'),
    ("l", "look", '{"at": "z"}'),
    ("b", "pay", '{"to": "y"}'),
    ("c", "pay", '{"to": "z"}'),
]
TOOLS = [pay, look]


async def left(body: list[bytes] | None = None, **options: Any) -> Pipeline:
    """A pipeline that was left while three calls waited."""
    options.setdefault("tools", TOOLS)
    async with pipeline(stream(anthropic(["Hi"], CALLS) if body is None else body), **options) as events:
        _ = [event async for event in events]
    return events


async def suspended_text(key: bytes | str = KEY) -> str:
    suspended = (await left(trajectory=Trajectory(run_id="run", observers=()))).suspended
    return suspended.to_text(key)


async def resumed(text: str, store: Any = None, **options: Any) -> Pipeline:
    """Resumed in what stands for another process: nothing but the text is shared."""
    options.setdefault("tools", TOOLS)
    suspended = Suspended.from_text(text, KEY)
    options["decisions"] = decisions_on(suspended, options.get("decisions", {}))
    with anyio.fail_after(30):
        async with resume(suspended, store=store or MemoryStore(), **options) as events:
            _ = [event async for event in events]
    return events


# -- the text --


async def test_a_suspended_call_says_what_it_would_do_and_is_the_same_after_a_round_trip() -> None:
    text = await suspended_text()
    suspended = Suspended.from_text(text, KEY)
    assert [(call.call_id, call.tool_name, call.arguments, call.index) for call in suspended.calls] == [
        ("a", "pay", {"to": "x", "amount": 5}, 0),
        ("b", "pay", {"to": "y"}, 2),
        ("c", "pay", {"to": "z"}, 3),
    ]
    assert (suspended.run_id, suspended.step, suspended.wire) == ("run", 0, "anthropic.messages")
    assert Suspended.from_text(suspended.to_text(KEY).encode(), KEY.decode()) == suspended
    assert '"x"' not in repr(suspended)
    assert isinstance(json.loads(text.rpartition(".")[0]), dict)


async def test_a_state_that_is_too_old_is_refused_and_says_how_old_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    text = await suspended_text()
    issued_at = json.loads(text.rpartition(".")[0])["issued_at"]
    monkeypatch.setattr("time.time", lambda: issued_at + 8 * 24 * 3600.0)
    with pytest.raises(SuspendedError, match=r"is 691200 s old \(max_age_s=604800\)"):
        Suspended.from_text(text, KEY)
    assert Suspended.from_text(text, KEY, max_age_s=None)


@every("key", [b"short", "", b"", 7])
async def test_a_key_that_is_none_is_refused(key: Any) -> None:
    text = await suspended_text()
    with pytest.raises(ValueError, match="each key is a secret of at least 16 bytes"):
        Suspended.from_text(text, key)
    with pytest.raises(ValueError, match="key is a secret of at least 16 bytes"):
        Suspended.from_text(text, KEY).to_text(key)


async def test_a_state_that_is_too_large_is_refused_whole_when_it_is_written_and_when_it_is_read() -> None:
    text = await suspended_text()
    suspended = Suspended.from_text(text, KEY, max_bytes=len(text))
    for given in (" " * (256 * 1024 + 1), b" " * (256 * 1024 + 1), '{"a":' + "[" * (4 << 20)):
        with pytest.raises(SuspendedError, match=r"expected at most max_bytes=262144, got \d+"):
            Suspended.from_text(given, KEY)
    for act in (lambda: suspended.to_text(KEY, max_bytes=100), lambda: Suspended.from_text(text, KEY, max_bytes=100)):
        with pytest.raises(SuspendedError, match=rf"expected at most max_bytes=100, got {len(text)}"):
            act()


# -- resuming --


async def test_decisions_are_taken_and_what_is_not_decided_stays_suspended() -> None:
    text = await suspended_text()
    events = await resumed(text, decisions={"a": True, "b": Deny("too much")})
    assert (ran, outcomes(events)) == (["x 5"], {"b": "denied", "a": "ok", "c": "skipped"})
    rest = events.suspended
    assert [(call.call_id, call.index) for call in rest.calls] == [("c", 3)]
    again = await resumed(rest.to_text(KEY), decisions={"c": True})
    assert (ran, outcomes(again), again.suspended) == (["x 5", "z 1"], {"c": "ok"}, None)


async def test_the_run_goes_on_with_its_id_its_step_its_numbers_and_the_calls_keys() -> None:
    first = await left(trajectory=Trajectory(run_id="run", observers=()))
    suspended = first.suspended
    assert suspended is not None
    with anyio.fail_after(30):
        async with resume(
            suspended, tools=TOOLS, store=MemoryStore(), decisions=decisions_on(suspended, {"a": True})
        ) as events:
            seen = [event async for event in events]
    assert isinstance(seen[0], StepStart)
    assert (seen[0].run_id, seen[0].asks_model, seen[0].step) == ("run", False, 0)
    assert [event.seq for event in seen] == list(range(suspended.seq, suspended.seq + len(seen)))
    assert keys == [key_of("a", run="run", response="msg_1")]


async def test_a_call_that_is_resumed_twice_runs_once_and_has_the_same_result() -> None:
    text, store = await suspended_text(), MemoryStore()
    first = await resumed(text, store, decisions={"a": True})
    second = await resumed(text, store, decisions={"b": True})
    assert ran == ["x 5", "y 1"]
    (a, b) = [o for o in second.turn.observations if o.outcome == "ok"]
    assert (a.value, a.recorded, a.attempts, b.recorded) == ("paid x", True, 0, False)
    assert first.turn.observations[0].model_content == a.model_content


async def test_resumed_calls_need_an_approval_whatever_their_tools_say_now() -> None:
    free = tool(name="pay")(pay.fn)
    events = await resumed(await suspended_text(), tools=[free])
    assert (ran, set(outcomes(events).values())) == ([], {"skipped"})


async def test_resumed_calls_are_validated_again() -> None:
    @tool(name="pay", needs_approval=True)
    async def stricter(to: int) -> str:
        """Pay by number."""
        ran.append("paid")
        return "paid"

    text = await suspended_text()
    events = await resumed(text, tools=[stricter], decisions={"a": True, "b": True, "c": True})
    assert (ran, set(outcomes(events).values())) == ([], {"invalid"})
    gone = await resumed(text, tools=[look], decisions={"a": True})
    assert set(outcomes(gone).values()) == {"unknown_tool"}

    store, yes = MemoryStore(), {"a": True, "b": True, "c": True}
    before = await resumed(text, decisions=yes, store=store)
    paid = len(ran)
    for tools in ([stricter], [look]):  # what has run has the ending that it had
        again = await resumed(text, tools=tools, store=store)
        assert (outcomes(again), len(ran)) == (outcomes(before), paid)
        assert all(seen.recorded for seen in again.turn.observations)

    class Busy(MemoryStore):
        async def claim(self, key: str, fingerprint: str, /) -> Any:
            return StillRunning(1.0, "there", 7)

    for limit in (Limits(tool_timeout=0.01), Limits()):
        impatient = replace(stricter, timeout=None if limit.tool_timeout == 0.01 else 0.01)
        busy = await resumed(text, tools=[impatient], decisions=yes, store=Busy(), limits=limit)
        assert (set(outcomes(busy).values()), len(ran)) == ({"unknown"}, paid)


async def test_what_an_export_has_rewritten_is_turned_back_when_it_is_resumed() -> None:
    @tool(needs_approval=True)
    async def book(seats: dict[str, int]) -> str:
        """Book."""
        ran.append(repr(seats))
        return "booked"

    exports = export_all([book], "openai.chat_completions", strict=True)
    arguments = json.dumps({"seats": [{"key": "A", "value": 2}]})
    events = await left(chat(calls=[("a", "book", arguments)]), tools=exports)
    suspended = events.suspended
    _ = await resumed(suspended.to_text(KEY), tools=exports, decisions={"a": True})
    assert ran == ["{'A': 2}"]


async def test_the_history_gets_the_results_where_the_calls_are() -> None:
    events = await left()
    messages = [{"role": "user", "content": "Pay."}, *events.turn.messages()]
    assert lint(messages, "anthropic.messages") == []
    assert json.dumps(messages).count("waits for an approval") == 3
    later = await resumed(events.suspended.to_text(KEY), decisions={"a": True, "b": Deny("no"), "c": True})
    after = with_results(messages, later.turn.observations, "anthropic.messages")
    assert lint(after, "anthropic.messages") == []
    assert "waits for an approval" not in json.dumps(after)
    blocks = after[-1]["content"]
    assert [block["tool_use_id"] for block in blocks] == ["a", "l", "b", "c"]


@every(
    ("options", "error", "told"),
    [
        ({"decisions": {"a": True}}, TypeError, r"write \[Decision.on\(call, True\) for call in suspended.calls\]"),
        ({"decisions": [True]}, TypeError, "expected a list of Decision, got a bool"),
        ({"store": None}, TypeError, "resume needs a store, such as SqliteStore"),
    ],
)
async def test_misuse_is_refused_before_anything_runs(options: dict[str, Any], error: Any, told: str) -> None:
    suspended = Suspended.from_text(await suspended_text(), KEY)
    given = {"store": MemoryStore(), **options}
    with pytest.raises(error, match=told):
        resume(suspended, tools=TOOLS, **given)


async def test_a_decision_counts_only_for_the_call_that_was_shown_not_for_its_id() -> None:
    """Tab 1 shows a payment, the conversation goes on, and another payment waits under the same id."""
    shown = (await left(anthropic(calls=[("call_0", "pay", '{"to": "bob", "amount": 5}')]))).suspended
    waits = (await left(anthropic(calls=[("call_0", "pay", '{"to": "eve", "amount": 9000}')]))).suspended
    old, new = Decision.on(shown.calls[0], True), Decision.on(waits.calls[0], True)
    unknown = Decision(call_id="call_1", fingerprint=new.fingerprint, verdict=True)
    for decision, code, words in (
        (old, "changed_call", "the call 'call_0' that waits is not the one that was shown"),
        (unknown, "unknown_call", "no call 'call_1' is suspended; there are call_0"),
    ):
        with pytest.raises(DecisionError, match=f"decisions: {words}") as caught:
            resume(waits, tools=TOOLS, store=MemoryStore(), decisions=[decision])
        assert (caught.value.code, caught.value.call_id) == (code, decision.call_id)
        assert "eve" not in str(caught.value)
    with pytest.raises(ValueError, match="decisions: two are about the call 'call_0'"):
        resume(waits, tools=TOOLS, store=MemoryStore(), decisions=[new, Decision.on(waits.calls[0], False)])
    assert ran == []
    later = await resumed(waits.to_text(KEY), decisions={"call_0": True})
    assert (outcomes(later), ran) == ({"call_0": "ok"}, ["eve 9000"])


def test_a_decision_is_checked_where_it_is_made() -> None:
    for given, words in (
        ({"call_id": 7, "fingerprint": "f", "verdict": True}, "expected call_id as a str, got int"),
        ({"call_id": "c", "fingerprint": None, "verdict": True}, "expected fingerprint as a str, got NoneType"),
        *(({"verdict": one}, "expected True or False as verdict") for one in ("yes", None, 1, Deny("no"))),
        *(({"by": one}, "expected by as a str or None, got") for one in (7, ["ann"], b"ann")),
        *(({"by": one}, "expected by of 1 to 256 characters, got") for one in ("", "x" * 257)),
        *(({"at": one}, "expected at in seconds since 1970, got") for one in ("now", True, None, -1, 1e999, math.nan)),
        ({"reason": 7}, "expected reason as a str or None, got int"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            Decision(**{"call_id": "c", "fingerprint": "f", "verdict": True, **given})


def test_only_what_was_read_is_resumed() -> None:
    with pytest.raises(TypeError, match="resume takes a Suspended"):
        resume("{}", tools=TOOLS, store=MemoryStore())  # type: ignore[arg-type]


async def test_a_step_that_is_left_with_waiting_calls_ends_as_suspended_and_the_next_one_goes_on_with_it() -> None:
    seen: list[Event] = []

    class Watching(Observer):
        def on_event(self, event: Event) -> None:
            seen.append(event)

    run = Trajectory(run_id="run", observers=[Watching()])
    suspended = (await left(trajectory=run)).suspended
    assert suspended is not None
    again = Trajectory(run_id="run", observers=[Watching()])
    decisions = dict.fromkeys(("a", "b", "c"), True)
    await resumed(suspended.to_text(KEY), trajectory=again, decisions=decisions)
    assert [event.outcome for event in seen if isinstance(event, StepEnd)] == ["suspended", "complete"]
    assert [event.continued for event in seen if isinstance(event, StepStart)] == [False, True]
