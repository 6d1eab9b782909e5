"""A finished answer is shown as its stream was: each text, call and result once, from the history of any wire."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from arranged import Part, arranged
from every_wire import framed
from streams import stream
from wire_cases.names import COHERE, REALTIME

from streamtools import ApprovalRequested, Decision, Event, Observation, Trajectory, Turn, agent_loop, tool
from streamtools.dispatch import SqliteStore
from streamtools.errors import AnswerPending, ExportError
from streamtools.events import (
    AnswerRequested,
    ApprovalResolved,
    AttemptDiscarded,
    MessageAdded,
    StepStart,
    TextDelta,
)
from streamtools.history import lint
from streamtools.privacy import Privacy, redact_secrets
from streamtools.web.ag_ui_requests import read_ag_ui_request
from streamtools.web.approval_ids import approval_id
from streamtools.web.client_input import UserFile, UserMessage, UserText, to_wire
from streamtools.web.encoding import RunEnd
from streamtools.web.finished_messages import ag_ui_messages, ag_ui_user_message, ui_message, ui_user_message
from streamtools.web.history_parts import (
    AddedMessage,
    AskedQuestion,
    AssistantCall,
    AssistantPart,
    AssistantStep,
    AssistantText,
    ShownApproval,
    assistant_parts,
)
from streamtools.web.log import read_entries, written_entries
from streamtools.web.ui_messages import UIMessages
from streamtools.web.ui_requests import read_ui_request
from streamtools.wires import WIRES

APART = frozenset({"openai.chat_completions", "mistral.chat", "cohere.chat", "ollama.chat"})
"""Wires whose messages have texts apart from calls."""
ASKED = UserMessage("u", (UserText("What is there?"),))
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"


@tool(effect="pure")
async def look(at: int) -> dict[str, Any]:
    """Look somewhere."""
    if at == 2:
        raise ValueError("nobody may see this")
    return {"seen": at}


@tool(effect="pure")
async def word(at: int) -> str | None:
    """Say a word."""
    return {3: "7 degrees", 4: "42", 5: None, 6: KEY}[at]


@tool(needs_approval=True)
async def pay(at: int) -> int:
    """Pay."""
    return at


@tool(external=True)
async def where(at: int) -> str:
    """Run by the client."""
    raise AssertionError("it is not run here")


Steps = Sequence[Sequence[Part]]
Played = tuple[list[Any], list[Event], tuple[Turn, ...], list[Any]]


async def _played(wire: str, steps: Steps, verdicts: Mapping[str, bool | None], options: Mapping[str, Any]) -> Played:
    answers = iter(enumerate(steps))

    def ask(messages: Any, tools: Any) -> Any:
        number, parts = next(answers)
        return stream(framed(wire, arranged(wire, parts, response=str(number))))

    begun, events = to_wire(ASKED, wire), list[Event]()
    async with agent_loop(ask, begun, tools=[look, word, pay, where], wire=wire, **options) as run:
        async for event in run:
            events.append(event)
            if isinstance(event, ApprovalRequested):
                verdict = verdicts.get(event.call_id)
                if verdict is not None:
                    _ = run.approve(event) if verdict else run.deny(event, "too much")
            elif isinstance(event, AnswerRequested):
                run.answer(event, {"lat": 1})
    return run.messages[len(begun) :], events, run.turns, run.messages


def played(wire: str, steps: Steps, verdicts: Mapping[str, bool | None] | None = None, **options: Any) -> Played:
    logging.disable(logging.CRITICAL)  # a tool that fails is a warning in the log
    try:
        return anyio.run(partial(_played, wire, steps, verdicts or {}, options))
    finally:
        logging.disable(logging.NOTSET)


def call(call_id: str, name: str, at: Any) -> tuple[str, str, str]:
    return call_id, name, json.dumps({"at": at})


def shown(name: str, call_id: str, at: Any, **more: Any) -> AssistantCall:
    return AssistantCall(name=name, call_id=call_id, arguments={"at": at}, **{"is_over": True, **more})


def test_a_finished_answer_is_shown_from_the_history_of_every_wire() -> None:
    steps: Steps = [
        [
            ("reasoning", ["hm"]),
            ("text", ["Let me ", "see."]),
            ("calls", [call("call_a1", "look", 1), call("call_a2", "look", 2), call("call_a3", "word", 3)]),
        ],
        [("calls", [call("call_a1", "look", 1), call("call_b2", "word", 4), call("call_b3", "word", 5)])],
        [("calls", [call("call_c1", "gone", 1), call("call_c2", "look", "x"), call("call_a1", "where", 7)])],
        [("text", ["Done."])],
    ]
    failed, unknown = "Error: the tool look raised ValueError", "Error: unknown tool 'gone'; available to"
    for wire in WIRES:
        added, events, _, messages = played(wire, steps)
        assert {violation.code for violation in lint(messages, wire)} <= {
            "duplicate_id",
            "bad_id",
        }  # of the responses here
        for kept in ([], events):
            first, *others = assistant_parts(added, wire, events=kept)
            said = [part for part in others if isinstance(part, AssistantText)]
            texts = {AssistantText("hm", "reasoning"), AssistantText("Let me see."), AssistantText("Done.")}
            if wire == REALTIME:
                texts -= {AssistantText("hm", "reasoning")}
            if wire == COHERE:
                texts ^= {AssistantText("Let me see."), AssistantText("Let me see.", "reasoning")}
            assert (first, len(said), set(said)) == (AssistantStep(0), len(texts), texts), wire
            found = [part for part in others if not isinstance(part, AssistantText)]
            ends: Any = {} if not kept else {"outcome": "ok"}
            assert [_cut(part) for part in found] == [
                shown("look", "call_a1", 1, result={"seen": 1}, **ends),
                shown("look", "call_a2", 2, error=failed, **_outcome(kept, "failed")),
                shown("word", "call_a3", 3, result="7 degrees", **ends),
                AssistantStep(1),
                shown("look", "call_a1@1", 1, result={"seen": 1}, **ends),
                shown("word", "call_b2", 4, result="42", **ends),
                shown("word", "call_b3", 5, result=None, **ends),
                AssistantStep(2),
                shown("gone", "call_c1", 1, error=unknown, **_outcome(kept, "unknown_tool")),
                shown(
                    "look",
                    "call_c2",
                    "x",
                    error="Error: invalid arguments for look: at: s",
                    **_outcome(kept, "invalid"),
                ),
                shown("where", "call_a1@2", 7, result={"lat": 1}, **ends),
                AssistantStep(3),
            ], wire


def _cut(part: AssistantPart) -> AssistantPart:
    """A part, with an error no longer than its first words."""
    return replace(part, error=part.error[:40]) if isinstance(part, AssistantCall) and part.error else part


def _outcome(kept: Sequence[Event], outcome: str) -> dict[str, Any]:
    return {"outcome": outcome} if kept else {}


def test_approvals_are_shown_where_events_were_kept() -> None:
    steps: Steps = [
        [("calls", [call("yes", "pay", 5), call("no", "pay", 6), call("see", "look", 1)])],
        [("calls", [call("yes", "pay", 7)])],
        [("text", ["Done."])],
    ]
    wire = "anthropic.messages"
    added, events, _, _ = played(wire, steps, {"yes": True, "no": False})
    ids = [_id(event, events) for event in events if isinstance(event, ApprovalRequested)]
    parts = assistant_parts(added, wire, events=events)
    denied = ShownApproval(id=ids[1], approved=False, reason="too much")
    words = "Error: not run: the call was not approved: too much"
    assert parts == (
        AssistantStep(0),
        shown("pay", "yes", 5, result=5, outcome="ok", approval=ShownApproval(id=ids[0], approved=True)),
        shown("pay", "no", 6, error=words, outcome="denied", approval=denied),
        shown("look", "see", 1, result={"seen": 1}, outcome="ok"),
        AssistantStep(1),
        shown("pay", "yes@1", 7, result=7, outcome="ok", approval=ShownApproval(id=ids[2], approved=True)),
        AssistantStep(2),
        AssistantText("Done."),
    )
    _, first, second, third, *_ = ui_message(parts, "m")["parts"]
    base = {"type": "tool-pay", "toolCallId": "yes", "input": {"at": 5}}
    approval = {"id": ids[0], "approved": True}
    assert first == {**base, "state": "output-available", "output": 5, "approval": approval}
    approval = {"id": ids[1], "approved": False, "reason": "too much"}
    assert second == {**base, "toolCallId": "no", "input": {"at": 6}, "state": "output-denied", "approval": approval}
    assert "approval" not in third

    alone = ui_message(assistant_parts(added, wire), "m")["parts"]
    assert [part.get("state") for part in alone[1:4]] == ["output-available", "output-error", "output-available"]
    assert alone[1]["output"] == "5", "a number is text, where only the history is known"

    waiting, before, _, _ = played(wire, steps[:1], {"yes": True, "no": None})
    yes, no = [_id(event, before) for event in before if isinstance(event, ApprovalRequested)]
    left = ui_message(assistant_parts(waiting, wire, events=before), "m")["parts"]
    assert [(part["toolCallId"], part["state"], part.get("approval")) for part in left[1:]] == [
        ("yes", "output-available", {"id": yes, "approved": True}),
        ("no", "approval-requested", {"id": no}),
        ("see", "output-available", None),
    ]
    decided = [*before, *(event for event in events if isinstance(event, ApprovalResolved) and event.call_id == "no")]
    assert ui_message(assistant_parts(waiting, wire, events=decided), "m")["parts"][2]["state"] == "approval-responded"


def _id(asked: ApprovalRequested, events: Sequence[Event]) -> str:
    run_id = next(event.run_id for event in events if isinstance(event, StepStart))
    return approval_id(run_id, asked.step, asked.call_id, asked.fingerprint)


def test_what_the_policy_of_a_run_hides_is_hidden_here_too() -> None:
    steps: Steps = [
        [
            ("reasoning", [KEY]),
            ("text", [f"The key is {KEY}."]),
            ("calls", [call("a", "word", 6), call("b", KEY, KEY)]),
        ],
        [("text", ["Done."])],
    ]
    names = ["look", "word", "pay", "where"]
    for redact, hidden in ((redact_secrets(), KEY), (lambda text: "x", "key is")):
        privacy = Trajectory(privacy=Privacy(redact=redact))
        added, events, _, _ = played("anthropic.messages", steps, trajectory=privacy)
        assert hidden in str(added), "a history is whole"
        parts = assistant_parts(added, "anthropic.messages", redact=redact, tool_names=names)
        assert hidden not in json.dumps([ui_message(parts, "m"), ag_ui_messages(parts, "m")])
        assert next(part.name for part in parts if isinstance(part, AssistantCall)) == "word"
        (observed,) = [one for one in events if isinstance(one, Observation) and one.call_id == "a"]
        logged = assistant_parts(added, "anthropic.messages", redact=redact, events=[observed])
        assert [part.name == "word" for part in logged if isinstance(part, AssistantCall)] == [True, False]


def test_a_run_that_waited_for_a_person_and_went_on_is_one_answer(tmp_path: Path) -> None:
    steps: Steps = [
        [("calls", [call("see", "look", 1)])],
        [("text", ["Well"]), ("calls", [call("no", "pay", 6), call("yes", "pay", 5), call("see", "look", 1)])],
        [("text", ["Done."])],
    ]
    wire, store = "anthropic.messages", SqliteStore(tmp_path / "calls.db")

    async def visits() -> tuple[list[Any], list[Event]]:
        answers, events, begun = iter(enumerate(steps)), list[Event](), to_wire(ASKED, wire)

        def ask(messages: Any, tools: Any) -> Any:
            number, parts = next(answers)
            return stream(framed(wire, arranged(wire, parts, response=str(number))))

        given: dict[str, Any] = {"tools": [look, pay], "wire": wire, "store": store}
        async with agent_loop(ask, begun, **given) as run:
            events += [event async for event in run]
        assert run.suspended is not None
        decisions = [Decision.on(one, one.call_id == "yes") for one in run.suspended.calls]
        again = agent_loop(ask, run.messages, suspended=run.suspended, decisions=decisions, **given)
        async with again:
            events += [event async for event in again]
        return again.messages[len(begun) :], events

    added, events = anyio.run(visits)
    parts = assistant_parts(added, wire, events=events)
    assert [part if isinstance(part, (AssistantStep, AssistantText)) else part.call_id for part in parts] == [
        AssistantStep(0), "see", AssistantStep(1), AssistantText("Well"), "no", "yes", "see@1", AssistantStep(2),
        AssistantText("Done."),
    ]  # fmt: skip
    asked = dict.fromkeys(_id(event, events) for event in events if isinstance(event, ApprovalRequested))
    assert [part.approval for part in parts if isinstance(part, AssistantCall) and part.name == "pay"] == [
        ShownApproval(id=id_, approved=approved) for id_, approved in zip(asked, (False, True), strict=True)
    ], "each was asked twice, and is one"
    discarded = AttemptDiscarded(1, from_seq=0, cause="stream_truncated", step=1, seq=10_000)
    kept = assistant_parts(added, wire, events=[*events, discarded])
    assert [part.outcome for part in kept if isinstance(part, AssistantCall)] == ["ok", None, None, None]
    crashed = [  # the process died in the step, and its successor went on with the one before
        TextDelta("Do", step=3, seq=10_000),
        AttemptDiscarded(1, from_seq=10_000, cause="crash", step=2, seq=10_001),
        TextDelta("Done.", step=3, seq=10_002),
    ]
    stopped = assistant_parts(added, wire, events=[*events, *crashed])
    assert stopped == (*parts, AssistantStep(3), AssistantText("Done.")), "it had said the same words again"


def test_each_text_call_and_result_of_any_answer_is_shown_once() -> None:
    """As the client of the AI SDK has it after the stream, unless the wire keeps texts apart from calls."""
    dice = random.Random(7)
    for number in range(44):
        wire = WIRES[number % len(WIRES)]
        steps = [_any_step(dice, step) for step in range(dice.randint(1, 4))]
        verdicts = {f"pay{step}": dice.random() < 0.5 for step in range(4)}
        added, events, turns, _ = played(wire, [*steps, [("text", ["The end."])]], verdicts)
        parts = assistant_parts(added, wire, events=events)
        assert assistant_parts(added, wire, events=read_entries(written_entries(events))) == parts
        client = _after(UIMessages(message_id="m"), events)
        assert _as_shown(client, wire) == _as_shown(ui_message(parts, "m")["parts"], wire), (wire, steps)

        for shown_parts in (parts, assistant_parts(added, wire)):
            calls = [part for part in shown_parts if isinstance(part, AssistantCall)]
            seen = [(one.call_id, one.outcome == "ok") for turn in turns for one in turn.observations]
            assert [(one.call_id.partition("@")[0], one.error is None) for one in calls] == seen, (wire, steps)
            ag_ui = ag_ui_messages(shown_parts, "m")
            assert len({message["id"] for message in ag_ui}) == len(ag_ui)
            made = [call["id"] for message in ag_ui for call in message.get("toolCalls", ())]
            answered = [message["toolCallId"] for message in ag_ui if message["role"] == "tool"]
            assert made == answered == [one.call_id for one in calls]
            texts = "".join(part.text for part in shown_parts if isinstance(part, AssistantText))
            contents = "".join(message.get("content", "") for message in ag_ui if message["role"] != "tool")
            assert sorted(texts) == sorted(contents)


def _after(encoder: UIMessages, events: Sequence[Event]) -> list[dict[str, Any]]:
    """The parts that a client has of a stream, as `processUIMessageStream` of `ai` 7 makes them."""
    frames = [data for event in [*events, RunEnd(outcome="answered")] for _, data in encoder(event)]
    parts: list[dict[str, Any]] = []
    open_: dict[str, dict[str, Any]] = {}
    for chunk in frames[:-1]:  # the last is no chunk
        kind, _, act = chunk["type"].rpartition("-")
        if chunk["type"] == "start-step":
            parts.append({"type": "step-start"})
        elif kind in ("text", "reasoning"):
            if act == "start":
                parts.append({"type": kind, "text": "", "state": "done"})
                open_[chunk["id"]] = parts[-1]
            elif act == "delta":
                open_[chunk["id"]]["text"] += chunk["delta"]
        elif chunk["type"] in ("tool-input-start", "tool-input-available", "tool-input-error"):
            if chunk["toolCallId"] not in open_:
                parts.append({"type": f"tool-{chunk['toolName']}", "toolCallId": chunk["toolCallId"]})
                open_[chunk["toolCallId"]] = parts[-1]
            open_[chunk["toolCallId"]] |= {
                "state": {"start": "input-streaming", "available": "input-available", "error": "output-error"}[act],
                **{name: chunk[name] for name in ("input", "errorText") if name in chunk},
            }
        elif chunk["type"] == "tool-approval-request":
            part = open_[chunk["approvalId"]] = open_[chunk["toolCallId"]]
            part |= {"state": "approval-requested", "approval": {"id": chunk["approvalId"]}}
        elif chunk["type"] == "tool-approval-response":
            answer = {name: chunk[name] for name in ("approved", "reason") if name in chunk}
            open_[chunk["approvalId"]]["approval"] |= answer
        elif kind == "tool-output":
            given = {name: chunk[name] for name in ("output", "errorText") if name in chunk}
            open_[chunk["toolCallId"]] |= {"state": f"output-{act}", **given}
        elif chunk["type"] not in ("tool-input-delta", "finish-step", "finish"):
            raise AssertionError(f"no client is known that reads {chunk['type']}")
    return parts


def _as_shown(parts: list[dict[str, Any]], wire: str) -> list[Any]:
    """Parts without what a history cannot have: the places of texts between calls; arguments that were refused."""
    shown_parts: list[Any] = []
    for part in parts:
        if part["type"] == "step-start":
            shown_parts.append({"texts": "", "others": []})
        step = shown_parts[-1]
        is_text = part["type"] in ("text", "reasoning")
        if is_text and wire in APART:
            step["texts"] = "".join(sorted(step["texts"] + part["text"]))
        elif is_text and step["others"] and step["others"][-1]["type"] == part["type"]:
            step["others"][-1]["text"] += part["text"]
        else:
            refused = "Error: invalid" in part.get("errorText", "")
            step["others"].append({name: one for name, one in part.items() if not (refused and name == "input")})
    return shown_parts


def _any_step(dice: random.Random, step: int) -> list[Part]:
    parts: list[Part] = [("reasoning", [f"r{step} "])] if dice.random() < 0.5 else []
    for number in range(dice.randint(1, 3)):
        if dice.random() < 0.5:
            parts.append(("text", [f"t{step}.{number} "]))
        call_id = f"call{number}" if dice.random() < 0.5 else f"call{step}x{number}"
        parts.append(
            ("calls", [call(call_id, dice.choice(["look", "word", "gone"]), dice.choice([1, 2, 3, 4, 5, "x"]))])
        )
    if dice.random() < 0.5:
        parts.append(("calls", [call(f"pay{step}", "pay", 5), call(f"where{step}", "where", 7)]))
    return parts


def test_a_result_is_shown_as_json_or_as_the_text_that_the_model_has_read() -> None:
    class Odd:
        pass

    def part(text: str, **seen: Any) -> AssistantCall:
        made = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "a", "content": text}
        added = [{"role": "assistant", "content": [made]}, {"role": "user", "content": [result]}]
        events = [Observation(call_id="a", tool_name="look", model_content=text, **seen)] if seen else []
        _, found = assistant_parts(added, "anthropic.messages", events=events)
        assert isinstance(found, AssistantCall)
        return found

    for text, result in (
        ('{"a": [1]}', {"a": [1]}),
        ("[1, null]", [1, None]),
        ("true", True),
        ("null", None),
        ("12345678901234567890", "12345678901234567890"),
        ("no such city", "no such city"),
        ('{"cut', '{"cut'),
        ("", ""),
    ):
        assert (part(text).result, part(text).error, part(text).is_over) == (result, None, True), text
        (message,) = [one for one in ag_ui_messages([AssistantStep(0), part(text)], "m") if one["role"] == "tool"]
        assert json.loads(message["content"]) == result if not isinstance(result, str) else message["content"] == text
    for value, result in (
        (42, 42),
        ("42", "42"),
        ([float("nan")], [None]),
        (b"\xff", "_w=="),
        (Odd(), "text"),
        (None, None),
    ):
        assert part("text", outcome="ok", value=value).result == result
    assert part("Error: it", outcome="ok", value="Error: it").error is None, "a tool may begin so"
    late = part("Error: none", outcome="suspended", error=AnswerPending())
    assert (late.is_over, late.error) == (False, None)


def test_messages_and_questions_within_a_run_are_shown_in_their_step() -> None:
    added, events, _, _ = played("anthropic.messages", [[("calls", [call("a", "look", 1)])], [("text", ["Done."])]])
    asked = AnswerRequested("a", "look", {}, fingerprint="f", question={"which": 1}, seq=5)
    said = MessageAdded("u2", ({"role": "user", "content": [{"type": "text", "text": "Quick"}]},), step=1, seq=90)
    kept = [asked, *events, said]
    parts = assistant_parts(added, "anthropic.messages", events=kept)
    run_id = next(event.run_id for event in events if isinstance(event, StepStart))
    question = AskedQuestion(id=approval_id(run_id, 0, "a", "f"), call_id="a", question={"which": 1})
    assert (parts[2], parts[4]) == (question, AddedMessage("u2", ("Quick",)))
    text = {"type": "text", "text": "Quick"}
    for version, steered in (
        (7, {"type": "steering-message", "id": "u2", "parts": [text]}),
        (6, {"type": "data-steering", "id": "u2", "data": {"parts": [text]}}),
    ):
        shown_parts = ui_message(parts, "m", version=version)["parts"]
        data = {"toolCallId": "a", "question": {"which": 1}}
        assert shown_parts[2] == {"type": "data-question", "id": question.id, "data": data}
        assert shown_parts[4] == steered
        assert json.loads(json.dumps(shown_parts)) == shown_parts
    assert {"id": "u2", "role": "user", "content": "Quick"} in ag_ui_messages(parts, "m")
    silent = [event for event in kept if not isinstance(event, StepStart)]
    assert question not in assistant_parts(added, "anthropic.messages", events=silent), "of a run that is not known"


def test_what_is_shown_of_messages_that_no_run_has_added() -> None:
    """The user's words, a call without a result, text where there should be arguments, calls of the provider's own."""
    chat = "openai.chat_completions"
    made = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{cut"}}
    history: list[Any] = [
        {"role": "user", "content": "What is there?"},
        {"role": "assistant", "content": None, "refusal": "No.", "tool_calls": [made]},
    ]
    parts = assistant_parts(history, chat)
    assert parts == (
        AssistantStep(0),
        AssistantText("No."),
        AssistantCall(name="look", call_id="a", arguments="{cut", is_over=False),
    )
    assert ui_message(parts, "m")["parts"][2]["state"] == "input-available"
    assert [message["role"] for message in ag_ui_messages(parts, "m")] == ["assistant"]
    assert assistant_parts([], chat) == ()
    (thought,) = ag_ui_messages([AssistantStep(0), AssistantText("hm", "reasoning")], "m")
    assert thought == {"id": "m:0:0", "role": "reasoning", "content": "hm"}
    with pytest.raises(ExportError, match="no wire is called 'nothing'"):
        assistant_parts([], "nothing")

    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    ended = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
    own = assistant_parts([{"role": "model", "parts": [code, ended, {"text": "It is 1."}]}], "gemini.generate_content")
    (_, ran, _) = ui_message(own, "m")["parts"]
    assert (ran["type"], ran["state"], ran["providerExecuted"]) == ("tool-code_execution", "input-available", True)

    picture = UserFile(media_type="image/png", url="data:image/png;base64,iVBORw0KGgo=", filename="a.png")
    linked = UserFile(media_type="application/pdf", url="https://example.com/a.pdf")
    message = UserMessage("u", (UserText("Look"), picture, linked))
    assert ui_user_message(message)["parts"][1] == {
        "type": "file", "mediaType": "image/png", "url": picture.url, "filename": "a.png",
    }  # fmt: skip
    assert read_ui_request(json.dumps({"id": "c", "messages": [ui_user_message(message)]}).encode()).message == message
    posted = {"threadId": "t", "runId": "r", "messages": [ag_ui_user_message(message)]}
    found = read_ag_ui_request(json.dumps(posted).encode()).message
    nameless = UserFile(media_type="image/png", url=picture.url)
    assert found == UserMessage("u", (UserText("Look"), nameless, linked)), "AG-UI has no names of files"
    assert ag_ui_user_message(ASKED) == {"id": "u", "role": "user", "content": "What is there?"}
