"""A tool is run for the callers that its hints allow, whoever the provider says has called it."""

from __future__ import annotations

import io
import json
from typing import Any

import anyio
import pytest
from decisions import decisions_on
from kept_spans import kept_spans
from ran import ran
from responses_streams import CREATED, added, done, ended, function
from rich.console import Console
from streams import anthropic, chat, stream

from streamtools import ApprovalRequested, Suspended, ToolCall, Trajectory, pipeline, resume, run_calls, tool
from streamtools.content import RequestHints
from streamtools.dispatch import MemoryStore
from streamtools.history import lint
from streamtools.integrations.asgi import encode_event
from streamtools.telemetry import Tracing
from streamtools.tools import RunCall, ToolCallRequest
from streamtools.view import Watch, page
from streamtools.view.terminal import show

pytestmark = pytest.mark.anyio


PROGRAM = {"type": "program", "caller_id": "call_p"}
CODE = {"type": "code_execution_20260521", "tool_id": "srvtoolu_1"}
DIRECT = {"type": "direct"}
UNREADABLE: tuple[Any, ...] = ("me", ["direct"], {}, {"type": None}, {"type": ["direct"]})
KEY = b"0123456789abcdef"


def made(*allowed: Any, **options: Any) -> Any:
    @tool(name="f", hints=RequestHints(allowed_callers=allowed), **options)
    async def pay(to: str = "everyone") -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    return pay


def messages_body(caller: Any) -> list[Any]:
    """An Anthropic stream with one call of a caller; with none named, if that is None."""
    body = [json.loads(line.partition(b"data: ")[2]) for line in anthropic(calls=[("a", "f", '{"to": "bob"}')])]
    body[1]["content_block"] |= {} if caller is None else {"caller": caller}
    return body


def responses_body(caller: Any) -> list[Any]:
    """The same on the Responses API."""
    item = function(1, '{"to": "bob"}', **({} if caller is None else {"caller": caller}))
    return [CREATED, added(0, {**item, "arguments": ""}), done(0, item), ended(output=[item])]


BODIES = {"anthropic.messages": (messages_body, CODE), "openai.responses": (responses_body, PROGRAM)}


async def outcome(body: list[Any], wire: str, *allowed: Any) -> tuple[str, str]:
    ran.clear()
    with anyio.fail_after(30):
        turn = await pipeline(stream(body), tools=[made(*allowed)], wire=wire)
    (call,), (seen,) = turn.calls, turn.observations
    assert (ran == ["bob"]) == (seen.outcome == "ok")
    assert lint([{"role": "user", "content": "Pay."}, *turn.messages()], wire, last=True) == []
    return call.caller, seen.outcome


async def test_a_call_by_somebody_who_may_not_call_is_denied_and_answered_on_every_wire_that_names_callers() -> None:
    for wire, (body, code) in BODIES.items():
        for caller in (None, DIRECT):
            assert await outcome(body(caller), wire) == ("direct", "ok")
            assert await outcome(body(caller), wire, "direct") == ("direct", "ok")
            assert await outcome(body(caller), wire, "direct", "code") == ("direct", "ok")
            assert await outcome(body(caller), wire, "code") == ("direct", "denied")
        for caller in (code, *UNREADABLE):
            assert await outcome(body(caller), wire) == ("code", "ok"), caller
            assert await outcome(body(caller), wire, "direct") == ("code", "denied"), caller
            assert await outcome(body(caller), wire, "code") == ("code", "ok"), caller


async def test_where_a_wire_names_no_callers_the_model_calls_itself() -> None:
    body = chat(calls=[("a", "f", '{"to": "bob"}')])
    assert await outcome(body, "openai.chat_completions", "direct") == ("direct", "ok")
    assert await outcome(body, "openai.chat_completions", "code") == ("direct", "denied")


async def test_the_model_reads_who_may_call() -> None:
    call = ToolCall(call_id="a", name="f", arguments_text="{}", arguments={}, status="ready", caller="code")
    (seen,) = (await run_calls([call], [made("direct")])).observations
    assert seen.model_content == "Error: not run: f is for calls by the model itself, not by the model's code"


async def test_nobody_is_asked_to_approve_a_call_that_may_not_be_made_and_a_kept_one_keeps_its_caller() -> None:
    body = messages_body(CODE)
    async with pipeline(stream(body), tools=[made("direct", needs_approval=True)]) as events:
        _ = [event async for event in events]
    assert (events.suspended, [one.outcome for one in events.turn.observations]) == (None, ["denied"])
    async with pipeline(stream(body), tools=[made("code", needs_approval=True)]) as events:
        _ = [event async for event in events]
    kept = Suspended.from_text(events.suspended.to_text(KEY), KEY)
    for allowed, expected in (("direct", "denied"), ("code", "ok")):
        decisions = decisions_on(kept, {"a": True})
        turn = await resume(kept, tools=[made(allowed)], store=MemoryStore(), decisions=decisions)
        assert [one.outcome for one in turn.observations] == [expected]


async def test_whoever_sees_a_call_sees_its_caller() -> None:
    """Middleware, an approver, the web client, spans, and the pictures made of events."""
    for wire, (body, code) in BODIES.items():
        for named, caller in ((None, "direct"), (code, "code")):
            seen: list[str] = []

            async def layer(call: ToolCallRequest, run: RunCall, seen: list[str] = seen) -> Any:
                seen.append(call.caller)
                return await run()

            watch, drawn = Watch(), Console(file=io.StringIO(), width=100)
            provider, exporter = kept_spans()
            observers = [Tracing(tracer_provider=provider), watch]
            async with pipeline(
                stream(body(named)),
                tools=[made(needs_approval=True)],
                wire=wire,
                middleware=layer,
                trajectory=Trajectory(observers=observers, default_observers=False),
            ) as events:
                async for event in events:
                    if isinstance(event, ApprovalRequested):
                        sent = encode_event(event)
                        seen += [event.caller, sent[1]["caller"]]
                        events.approve(event)
            assert seen == [caller] * 3
            (span,) = [span for span in exporter.get_finished_spans() if span.name.startswith("execute_tool")]
            by_code = caller == "code"
            assert ((span.attributes or {}).get("streamtools.call.caller") == "code") == by_code
            fact = ("caller", "code that the model wrote")
            assert (fact in watch.picture.calls[0].facts) == by_code
            assert ("code that the model wrote" in page(watch)) == by_code
            show(watch.picture, drawn)
            assert isinstance(drawn.file, io.StringIO)
            assert ("by code: f" in drawn.file.getvalue()) == by_code
