"""What AG-UI's clients are sent; `test_ag_ui_client` has them read it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
from asgi_client import Client, told
from shown_runs import fed, shown_runs
from streams import chat, stream

from streamtools import agent_loop, tool
from streamtools.errors import AnswerPending, ApprovalPending, ToolError
from streamtools.events import (
    AnswerRequested,
    ApprovalRequested,
    ApprovalResolved,
    AttemptDiscarded,
    Event,
    MessageAdded,
    Observation,
    OutputEnd,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    StepEnd,
    StepStart,
    StreamEnd,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolProgress,
    ToolStarted,
)
from streamtools.integrations import EventStreamResponse
from streamtools.parts import OUTCOMES, RUN_OUTCOMES, ToolCall, Usage
from streamtools.web import AGUI
from streamtools.web.ag_ui_requests import read_ag_ui_request
from streamtools.web.approval_ids import read_approval_id
from streamtools.web.encoding import RunEnd

START = StepStart("r", seq=0)
CALL = [ToolCallStart("a", "look", seq=1), ToolCallDelta("a", '{"at":', seq=2)]


def sent(*events: Event | RunEnd, **options: Any) -> list[dict[str, Any]]:
    """The protocol's events but RUN_STARTED and those of the step."""
    frames = [data for _, data in fed(AGUI(thread_id="t", **options), events)]
    return [one for one in frames if one["type"] not in ("RUN_STARTED", "STEP_STARTED", "STEP_FINISHED")]


def kinds(frames: list[dict[str, Any]]) -> list[str]:
    return [one["type"] for one in frames]


def ended(call_id: str, text: str, arguments: Any = None, seq: int = 3) -> ToolCallEnd:
    return ToolCallEnd(
        ToolCall(call_id=call_id, name="look", arguments_text=text, arguments=arguments, status="ready"), seq=seq
    )


def test_a_call_of_every_outcome_has_one_result_as_text_and_one_that_waits_has_none() -> None:
    for outcome in OUTCOMES:
        end = Observation(call_id="a", tool_name="look", outcome=outcome, value={"n": 1}, model_content="words", seq=4)
        *_, result = sent(START, *CALL, end)
        expected = '{"n":1}' if outcome == "ok" else "words"
        assert (result["type"], result["toolCallId"], result["content"]) == ("TOOL_CALL_RESULT", "a", expected)
        assert result.get("metadata") == (None if outcome == "ok" else {"outcome": outcome})
        assert sent(START, *CALL, end, answered=["a"])[-1]["type"] == "TOOL_CALL_END"  # the client has it
    for error in (ApprovalPending(), AnswerPending()):
        end = Observation(call_id="a", tool_name="look", outcome="skipped", error=error, seq=4)
        assert kinds(sent(START, *CALL, end)) == ["TOOL_CALL_START", "TOOL_CALL_ARGS"]
    for value, content in (
        ("é", "é"),
        ([1, None], "[1,null]"),
        (None, "words"),
        (object(), "words"),
        (1 << 70, str(1 << 70)),
    ):
        end = Observation(call_id="a", tool_name="look", outcome="ok", value=value, model_content="words", seq=4)
        assert sent(START, *CALL, end)[-1]["content"] == content


def test_every_end_of_a_run_has_its_event_and_progress_words_and_tokens_their_places() -> None:
    failed, stopped = {"error", "interrupted"}, {"cancelled", "left"}
    for outcome, facts in RUN_OUTCOMES.items():
        frames = [one for _, one in fed(AGUI(thread_id="t", run_id="r1"), [START, RunEnd(outcome=outcome)])]
        assert kinds(frames)[:3] == ["RUN_STARTED", "STEP_STARTED", "STEP_FINISHED"]
        end = frames[-1]
        assert (end["type"] == "RUN_ERROR") == (outcome in failed) == facts.is_error
        if outcome in failed:
            assert end["code"] == outcome if outcome != "error" else "internal_error"
        else:
            assert (end["threadId"], end["runId"], end["metadata"]) == ("t", "r1", {"outcome": outcome})
            assert end["outcome"] == {"type": "cancelled" if outcome in stopped else "success"}
    broken = sent(START, RunEnd(outcome="error", error_kind="stream_truncated"))[-1]
    assert broken == {"type": "RUN_ERROR", "message": "the run failed: stream truncated", "code": "stream_truncated"}
    said = MessageAdded("m", ({"role": "user", "content": "And Oslo?"},), seq=1)
    usage = Usage(input_tokens=5, output_tokens=2, tool_use_input_tokens=1)
    frames = sent(
        START,
        said,
        StreamStart("google.x", "g", seq=2),
        *CALL,
        ToolProgress("a", "look", 1, seq=4),
        ToolProgress("a", "look", 2, seq=5),
        OutputEnd({"n": 1}, seq=6),
        StreamEnd("stop", usage=usage, seq=7),
        StreamEnd("stop", usage=usage, seq=8),
        RunEnd(outcome="answered"),
    )
    assert [one.get("role", one.get("delta")) for one in frames[:2]] == ["user", "And Oslo?"]
    progress = [one for one in frames if one["type"] == "ACTIVITY_SNAPSHOT"]
    assert len({one["messageId"] for one in progress}) == 1
    assert [one["content"]["value"] for one in progress] == [1, 2]
    end = frames[-1]
    assert end["result"] == {"n": 1}
    tokens = {"inputTokens": 12, "outputTokens": 4, "totalTokens": 16}
    assert end["usage"] == [{"provider": "google", "model": "g", **tokens}]


def test_arguments_are_whole_whatever_the_deltas_were_and_a_provider_s_call_waits_for_nobody() -> None:
    whole = '{"at": "x"}'
    for deltas, end in (([whole], whole), (['{"at":', ' "x"}'], whole), (['{"at":'], whole), ([], whole), ([], "{}")):
        events = [ToolCallDelta("a", delta, seq=at) for at, delta in enumerate(deltas, 2)]
        last = ended("a", "" if end == "{}" else end, {} if end == "{}" else {"at": "x"}, seq=9)
        frames = sent(START, CALL[0], *events, last)
        assert "".join(one.get("delta", "") for one in frames) == end
    frames = sent(
        START, *CALL, ended("a", "[]"), Observation(call_id="a", tool_name="look", outcome="ok", value=1, seq=4)
    )
    assert [(one["type"], one["toolCallId"]) for one in frames] == [
        ("TOOL_CALL_START", "a"), ("TOOL_CALL_ARGS", "a"), ("TOOL_CALL_END", "a"), ("TOOL_CALL_RESULT", "a"),
        ("TOOL_CALL_START", "a@0"), ("TOOL_CALL_ARGS", "a@0"), ("TOOL_CALL_END", "a@0"), ("TOOL_CALL_RESULT", "a@0"),
    ]  # fmt: skip
    assert "replaced" in frames[3]["content"]
    assert frames[5]["delta"] == "[]"
    call = ToolCallStart("s", "web_search", kind="server", seq=1)
    frames = sent(START, call, StreamEnd("stop", complete=True, seq=2), StepEnd(seq=3), RunEnd(outcome="answered"))
    assert kinds(frames) == ["TOOL_CALL_START", "TOOL_CALL_END", "TOOL_CALL_RESULT", "RUN_FINISHED"]
    assert frames[-1]["outcome"] == {"type": "success"}


def test_a_text_that_is_replaced_or_void_becomes_an_activity() -> None:
    text = [TextStart(seq=1), TextDelta("By", seq=2), TextDelta("e", seq=3)]
    call = ToolCallStart("a", "look", seq=4)
    cases: list[tuple[list[Event], list[str], str]] = [
        ([*text, TextEnd(seq=4)], [], "Bye"),
        ([*text, TextEnd(whole="Hi", seq=4)], ["r:0:1"], "Hi"),
        ([*text, TextEnd(whole="", seq=4)], ["r:0:1"], ""),
        ([TextStart(seq=1), TextEnd(whole="Hi", seq=4)], [], "Hi"),
        ([ReasoningDelta("hm", seq=1), ReasoningEnd(whole="ha", seq=2)], ["r:0:0:reasoning"], "ha"),
        (
            [*text, call, AttemptDiscarded(1, 1, "crash", seq=5), RefusalDelta("No", seq=6)],
            ["r:0:1", "r:0:4", "r:0:5:a"],
            "No",
        ),
    ]
    for events, gone, left in cases:
        frames = sent(START, *events)
        assert [one["messageId"] for one in frames if one["type"] == "ACTIVITY_SNAPSHOT"] == gone
        shown = [one for one in frames if "delta" in one and one.get("messageId", "") not in {*gone, ""}]
        assert "".join(one["delta"] for one in shown) == left
        assert len({one["messageId"] for one in shown}) <= 1
    assert sent(START, TextStart(seq=1), TextEnd(seq=2)) == []  # nothing was said


def test_a_call_in_which_its_process_died_keeps_its_id_and_has_one_end() -> None:
    died = [ToolCallStart("a", "look", seq=1), TextStart(seq=2), AttemptDiscarded(1, 2, "crash", seq=3)]
    frames = sent(START, *died, Observation(call_id="a", tool_name="look", outcome="ok", value=1, seq=4))
    assert [one["toolCallId"] for one in frames if one["type"] == "TOOL_CALL_RESULT"] == ["a"]
    # The step before goes on, and the next one is taken back.
    later = [
        ToolCallStart("a", "look", seq=1),
        StepStart("r", seq=2, step=1),
        ToolCallStart("b", "look", seq=3, step=1),
    ]
    frames = sent(START, *later, AttemptDiscarded(1, 2, "crash", seq=4))
    assert [one["toolCallId"] for one in frames if one["type"] == "TOOL_CALL_RESULT"] == ["b"]


def test_people_are_asked_by_interrupts_that_name_what_they_were_shown() -> None:
    asked = ApprovalRequested("a", "look", {"at": "x"}, fingerprint="f", approvals=2, seq=4)
    question = AnswerRequested("b", "look", {}, fingerprint="g", question="Which?", seq=5)
    handed = AnswerRequested("c", "look", {}, fingerprint="h", rests=True, seq=6)
    calls = [ToolCallStart(name, "look", seq=at) for at, name in enumerate("abc", 1)]
    frames = sent(START, *calls, asked, question, handed, StepEnd("suspended", seq=7), RunEnd(outcome="suspended"))
    first, second = frames[-1]["outcome"]["interrupts"]
    assert [one["value"] for one in frames if one["type"] == "CUSTOM"] == [first, second]
    assert (first["reason"], first["toolCallId"], first["metadata"]) == (
        "tool_call", "a", {"arguments": {"at": "x"}, "approvals": 2},
    )  # fmt: skip
    assert first["responseSchema"]["required"] == ["approved"]
    assert (second["reason"], second["message"]) == ("input_required", "Which?")
    for one, call_id, fingerprint in ((first, "a", "f"), (second, "b", "g")):
        shown = read_approval_id(one["id"])
        assert (shown.run_id, shown.step, shown.call_id, shown.fingerprint) == ("r", 0, call_id, fingerprint)
    alone = sent(START, calls[2], handed, StepEnd("suspended", seq=7), RunEnd(outcome="suspended"))
    assert alone[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["c"]}
    # A client runs a call with the arguments that it knows: one that was edited is another call for it.
    asked = ApprovalRequested("c", "look", {"at": "x"}, fingerprint="h", seq=4)
    edited = ApprovalResolved("c", "look", True, arguments={"at": "y"}, seq=5)
    handed = AnswerRequested("c", "look", {"at": "y"}, fingerprint="h", rests=True, seq=6)
    end = (StepEnd("suspended", seq=7), RunEnd(outcome="suspended"))
    frames = sent(START, calls[2], asked, edited, handed, *end)
    assert frames[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["c@0"]}
    assert [one["delta"] for one in frames if one["type"] == "TOOL_CALL_ARGS"] == ['{"at":"y"}']
    (void,) = [one for one in frames if one["type"] == "TOOL_CALL_RESULT"]
    assert (void["toolCallId"], void["metadata"]) == ("c", {"outcome": "replaced"})
    assert sent(replace(START, continued=True), edited, handed, *end, goes_on=True) == frames[-5:]
    begun = ToolStarted("c", "look", seq=5)  # here: its result comes later
    assert sent(START, calls[2], asked, edited, begun, handed, *end)[-1]["outcome"]["pendingToolCallIds"] == ["c"]
    seen = Observation(call_id="c", tool_name="look", outcome="ok", edited={"at": "y"})  # a process died before
    (_, resolved) = [one["value"] for one in sent(START, calls[2], asked, seen, StepEnd()) if one["type"] == "CUSTOM"]
    assert resolved == {"id": resolved["id"], "approved": True, "editedArgs": {"at": "y"}}


def test_a_step_that_goes_on_without_a_log_is_not_told_of_again() -> None:
    again = [StepStart("r", continued=True, seq=0), *CALL, ended("a", '{"at": 1}')]
    end = Observation(call_id="a", tool_name="look", outcome="failed", error=ToolError("x"), model_content="x", seq=4)
    assert kinds(sent(*again, end, goes_on=True)) == ["TOOL_CALL_RESULT"]
    assert kinds(sent(*again, end))[0] == "TOOL_CALL_START"  # a log may have lost all that came before
    for visits in shown_runs().values():
        for visit in visits[1:]:
            frames = fed(AGUI(thread_id="t", goes_on=True), visit)
            assert "step 0" not in [data.get("stepName") for _, data in frames] or visit[0].step != 0  # type: ignore[union-attr]


def test_a_response_of_a_run_follows_its_request() -> None:
    @tool(deferred=True)
    def choose(question: str) -> str:
        """Ask the user."""
        raise AssertionError("nothing here runs it")

    posted = read_ag_ui_request(
        b'{"threadId": "t", "runId": "r1", "messages": [{"id": "m", "role": "user", "content": "Go."}]}'
    )
    body = chat([], [("a", "choose", '{"question": "Which?"}')])
    run = agent_loop(lambda *_: stream(body), [], tools=[choose], wire="openai.chat_completions")
    client = Client()
    encode = AGUI(thread_id=posted.chat_id, run_id=posted.run_id, answered=[one.call_id for one in posted.results])
    anyio.run(client.request, EventStreamResponse(run, encode=encode))
    frames = [data for _, data in told(client.body)]
    assert frames[0] == {"type": "RUN_STARTED", "threadId": "t", "runId": "r1", "protocolVersion": "1.0"}
    assert frames[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["a"]}
