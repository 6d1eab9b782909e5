"""What the frames for `useChat` say; `test_ai_sdk.py` has its clients read whole runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio
import pytest
from asgi_client import Client
from shown_runs import Shown, fed, shown_runs
from streams import chat, stream

from streamtools import agent_loop
from streamtools.errors import ToolError
from streamtools.events import (
    ApprovalRequested,
    ApprovalResolved,
    AttemptDiscarded,
    MessageAdded,
    Observation,
    ProviderItem,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallEnd,
    ToolCallStart,
    ToolCallValidated,
    ToolStarted,
)
from streamtools.integrations import EventStreamResponse
from streamtools.parts import OUTCOMES, RUN_OUTCOMES, CallKind, ToolCall
from streamtools.web.approval_ids import ApprovalId, approval_id, read_approval_id
from streamtools.web.encoding import RunEnd
from streamtools.web.ui_messages import UIMessages

START = StepStart("r", seq=0)
ASKED = ApprovalRequested("a", "pay", {"amount": 1}, fingerprint="f", seq=4)


def chunks(events: Iterable[Any], **options: Any) -> list[Any]:
    """What a response says, without its head."""
    return [data for _, data in fed(UIMessages(**options), events)][1:]


def kinds(events: Iterable[Any], **options: Any) -> list[str]:
    return [one if isinstance(one, str) else one["type"] for one in chunks(events, **options)]


def call(status: str = "ready", kind: CallKind = "function", name: str = "pay") -> list[Shown]:
    made = ToolCall(call_id="a", name=name, kind=kind, arguments={"amount": 1}, status=status)  # type: ignore[arg-type]
    return [START, ToolCallStart("a", name, kind, seq=1), ToolCallEnd(made, seq=2), ToolCallValidated(made, seq=3)]


def test_a_call_has_an_end_for_every_outcome() -> None:
    for outcome in OUTCOMES:
        end = Observation(call_id="a", tool_name="pay", outcome=outcome, error=ToolError("x"), model_content="why")
        ready = {"ok": "tool-output-available", "discarded": "finish-step"}.get(outcome, "tool-output-error")
        never = {"ok": "tool-output-available", "discarded": "finish-step"}.get(outcome, "tool-input-error")
        denied = "tool-output-denied" if outcome == "denied" else ready
        cases: list[tuple[list[Shown], str]] = [
            ([*call(), ToolStarted("a", "pay", seq=4), end], ready), ([*call(), end], never), ([START, end], never),
            ([*call(), ASKED, end], denied),
        ]  # fmt: skip
        for events, kind in cases:
            found = chunks([*events, StepEnd()])
            last = found[-1] if outcome == "discarded" else found[-2]
            assert last["type"] == kind, (outcome, events)
            assert last.get("errorText", "why") == "why"


def test_a_run_has_an_end_for_every_outcome() -> None:
    named = {"answered": "stop", "complete": "stop", "suspended": "tool-calls", "interrupted": "interrupted"}
    for outcome in [*RUN_OUTCOMES, "complete", "abandoned"]:
        for version in (6, 7):
            *_, end, done = chunks([START, RunEnd(outcome=outcome, error=RuntimeError("secret"))], version=version)
            assert done == "[DONE]"
            if outcome in ("cancelled", "left", "abandoned"):
                assert end["type"] == "abort"
            elif outcome == "error" or (outcome == "interrupted" and version == 6):
                assert (end["type"], "secret" in end["errorText"]) == ("error", False)
            else:
                assert end == {"type": "finish", "finishReason": named.get(outcome, "other")}
    for name, reason in {"length": "length", "filter": "content-filter"}.items():
        assert chunks(shown_runs()[name][0])[-2]["finishReason"] == reason


def test_an_input_comes_once_when_the_call_runs_or_somebody_is_asked() -> None:
    """A page's `onToolCall` acts on it: never on a call that may yet be refused, or be taken back."""
    assert "tool-input-available" not in kinds(call())
    assert kinds([*call(), ToolStarted("a", "pay", seq=4)]).count("tool-input-available") == 1
    asked = [*call(), ASKED, ApprovalResolved("a", "pay", True, "so be it", seq=5), ToolStarted("a", "pay", seq=6)]
    shown = approval_id("r", 0, "a", "f")
    assert chunks(asked)[-3:] == [
        {"type": "tool-input-available", "toolCallId": "a", "toolName": "pay", "input": {"amount": 1}},
        {"type": "tool-approval-request", "approvalId": shown, "toolCallId": "a"},
        {"type": "tool-approval-response", "approvalId": shown, "approved": True, "reason": "so be it"},
    ]
    assert kinds(asked, version=6)[-1] == "tool-approval-request"
    kept = {"call_id": "a", "tool_name": "pay", "model_content": "1"}  # its process died behind the decision
    ended = Observation(outcome="ok", edited={"amount": 2}, **kept)
    edited = {"type": "tool-input-available", "toolCallId": "a", "toolName": "pay", "input": {"amount": 2}}
    assert edited in chunks([*call(), ASKED, ended])
    elsewhere = [StepStart("r", dispatches=False, seq=0), *call()[1:], StepEnd(seq=4)]
    assert kinds(elsewhere)[-2:] == ["tool-input-available", "finish-step"]
    one = chunks([*call(), ToolStarted("a", "pay", seq=4)], dynamic_tools=["pay"])
    assert [chunk.get("dynamic") for chunk in one[1:]] == [True, True]


def test_the_provider_s_own_calls_end_with_the_sources_that_they_have_found() -> None:
    raw = {"tool_use_id": "a", "content": [
        {"url": "https://example.org", "title": "An example", "encrypted_content": "secret"},
        {"url": "javascript:alert(1)"}, "other", {"url": 3},
    ]}  # fmt: skip
    found = chunks([*call(kind="server"), ProviderItem("web_search_tool_result", raw, seq=4), StepEnd(seq=5)])
    source = {"url": "https://example.org", "title": "An example"}
    assert found[2] | {"input": None} == {
        "type": "tool-input-available", "toolCallId": "a", "toolName": "pay", "input": None, "providerExecuted": True
    }  # fmt: skip
    assert found[3:-1] == [
        {"type": "source-url", "sourceId": "0.0", **source},
        {"type": "tool-output-available", "toolCallId": "a", "output": [source], "providerExecuted": True},
    ]
    assert chunks([*call(kind="server"), StepEnd(seq=5)])[-2]["output"] is None


def test_what_was_taken_back_is_reset_and_what_the_user_said_before_it_stays() -> None:
    early, late = (
        MessageAdded(name, ({"role": "user", "content": name},), seq=seq) for name, seq in (("a", 1), ("b", 5))
    )
    events = [START, early, TextStart(seq=2), TextDelta("Ha", seq=3), *call()[2:], late]
    found = chunks([*events, AttemptDiscarded(1, 2, "crash", seq=6), TextStart(seq=7)])
    assert [one.get("id", one["type"]) for one in found[-3:]] == ["reset-step", "a", "7"]
    assert kinds([*call(), AttemptDiscarded(1, 1, "crash", seq=6), *call()[1:]]).count("tool-input-start") == 2
    died = [START, *events[2:4], *call()[1:], ToolStarted("a", "pay", seq=7)]  # in the call: all but its begin is kept
    again = chunks([*died, AttemptDiscarded(1, 7, "crash", seq=8)])
    at = again.index({"type": "reset-step"})
    assert again[at + 1 :] == again[1 : at - 1]
    assert "reset-step" not in kinds([*died, AttemptDiscarded(1, 8, "crash", seq=9)])
    assert "reset-step" not in kinds([*events, AttemptDiscarded(1, 2, "crash", seq=6)], version=6)
    after = StepStart("r", seq=9, step=1), ToolCallStart("a", "look", seq=13, step=1)
    ended = [*call(), Observation(call_id="a", tool_name="pay", outcome="ok", seq=7), StepEnd(seq=8)]
    goes_on = [
        after[0],
        TextStart(seq=10, step=1),
        AttemptDiscarded(1, 9, "crash", seq=11),
        StepStart("r", continued=True, seq=12),
    ]
    for before in (ended, [*ended, *goes_on]):
        assert chunks([*before, *after])[-1]["toolCallId"] == "a@1", "each call of a message has an id of its own"
    replaced = [START, TextStart(seq=1), TextDelta("Bye", seq=2), TextEnd(whole="Hello", seq=3)]
    assert chunks(replaced)[-1] == {"type": "data-text-replaced", "id": "1", "data": {"text": "Hello"}}


def test_an_approval_s_id_names_what_was_shown_and_others_are_none() -> None:
    for parts in [("r", 0, "a", "f"), ("r#1", 12, "call#%23", "é\u2028 "), ("", 0, "", "")]:
        assert read_approval_id(approval_id(*parts)) == ApprovalId(*parts)
    for text in [
        "",
        "r#0#a",
        "r#0#a#f#g",
        "r#x#a#f",
        "r#-1#a#f",
        "r#00#a#f",
        "r#0#%61#f",
        f"r#{'9' * 30}#a#f",
        "é#0#a#f",
    ]:
        assert read_approval_id(text) is None, text
    with pytest.raises(ValueError, match="version 6 or 7"):
        UIMessages(version=5)  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_a_response_is_named_as_a_stream_of_ui_messages() -> None:
    client = Client()
    run = agent_loop(lambda *_: stream(chat(["Hi"], finish="stop")), [], wire="openai.chat_completions")
    with anyio.fail_after(20):
        await client.request(EventStreamResponse(run, encode=UIMessages(message_id="m")))
    assert (b"x-vercel-ai-ui-message-stream", b"v1") in client.start["headers"]
    assert client.body.startswith(b'data: {"type":"start","messageId":"m"}\n\n')
    assert client.body.endswith(b"data: [DONE]\n\n")
