"""A finished answer is folded out of what its stream has shown, and is what a client has of that stream."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from grammar import GeneratedRun, generated, is_pending
from node_judge import judged, program
from profiles import examples
from test_ag_ui_client import judgements, thread_of
from test_ai_sdk import RUNS, Version, compared, responses

from streamtools.events import (
    AnswerRequested,
    MessageAdded,
    Observation,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallEnd,
    ToolCallStart,
)
from streamtools.parts import ToolCall
from streamtools.web.ag_ui_requests import read_ag_ui_request
from streamtools.web.approval_ids import approval_id
from streamtools.web.client_input import UserFile, UserMessage, UserText
from streamtools.web.finished_messages import ag_ui_messages, ag_ui_user_message, ui_message, ui_user_message
from streamtools.web.folded import MAX_ANSWER_BYTES, folded, written_answer
from streamtools.web.log import Entry, read_entries
from streamtools.web.ui_requests import read_ui_request

VERSIONS: tuple[Version, ...] = (7, 6)
ASKED = UserMessage("u", (UserText("What is there?"),))


_RECURRING = re.compile(r"(?<=[0-9])@[0-9.]+")


def kept(entries: Sequence[Entry]) -> list[Entry]:
    """What is read of the answer that is kept."""
    return [*read_entries(written_answer(folded(entries)))]


def test_the_finished_messages_of_any_run_have_each_part_exactly_once(tmp_path: Path) -> None:
    wrong = {}
    for run in generated(examples(60, quick=12), tmp_path):
        answer = kept(run.entries)
        for version in VERSIONS:
            chat = {"messages": [ui_message(answer, "answer", version=version)], "refused": []}
            if problems := [*compared(run, chat)]:
                wrong[run.seed, version] = problems
        if problems := [*of_ag_ui(run, ag_ui_messages(answer))]:
            wrong[run.seed, 0] = problems
    assert not wrong, dict(list(wrong.items())[:3])


def of_ag_ui(run: GeneratedRun, messages: list[dict[str, Any]]) -> Iterator[Any]:
    """Yields what is wrong with messages of AG-UI."""
    if len({one["id"] for one in messages}) != len(messages):
        yield "an id recurs"
    for step, turn in enumerate(run.turns):
        mine = [one for one in messages if one["id"].startswith(f"{run.run_id}:{step}:")]
        for role, text in (("assistant", turn.text + turn.refusal), ("reasoning", turn.reasoning)):
            if (shown := "".join(one.get("content", "") for one in mine if one["role"] == role)) != text:
                yield step, role, shown, text
        calls = [call for one in mine for call in one.get("toolCalls", ())]
        edited = {(one.step, one.call_id) for one in run.entries if isinstance(one, AnswerRequested)}
        names = [one["function"]["name"] for one in calls]
        again = sum((step, call.call_id) in edited for call in turn.calls)  # a client's call that somebody has edited
        if not len(turn.calls) <= len(names) <= len(turn.calls) + again:
            yield step, names
        ended = sum(not is_pending(turn, call) for call in turn.calls)
        if not ended <= sum(one["role"] == "tool" for one in mine) <= ended + again:
            yield step, "results"


def test_an_answer_may_be_folded_again_with_what_follows(tmp_path: Path) -> None:
    for run in generated(examples(30, quick=6), tmp_path):
        whole, dice = written_answer(folded(run.entries)), random.Random(run.seed)
        for cut in sorted(dice.sample(range(len(run.entries)), min(12, len(run.entries)))):
            before, after = run.entries[:cut], run.entries[cut:]
            again = folded([*read_entries(written_answer(folded(before))), *after])
            assert written_answer(again) == whole, (run.seed, cut)


def test_the_real_clients_have_the_same_messages_behind_the_stream(tmp_path: Path) -> None:
    program("ai_sdk.mjs")
    runs = generated(RUNS, tmp_path)
    wrong: list[Any] = []
    for version in VERSIONS:
        chats = [{"version": version, "responses": [*responses(run, version)]} for run in runs]
        for run, chat in zip(runs, judged("ai_sdk.mjs", chats, tmp_path), strict=True):
            ours = ui_message(kept(run.entries), "answer", version=version)["parts"]
            theirs = [part for one in chat["messages"] if one["role"] == "assistant" for part in one["parts"]]
            if _comparable(ours, version) != _comparable(theirs, version):
                wrong.append((version, run.seed, ours, theirs))
    threads = [thread_of(run) for run in runs]
    for run, thread, found in zip(runs, threads, judgements(threads, tmp_path), strict=True):
        theirs = [one for one in found["messages"][1:] if one["role"] != "activity"]
        ours = ag_ui_messages(kept(run.entries))
        both = _in_any_order(ours, thread.answers), _in_any_order(theirs, thread.answers)
        if both[0] != both[1]:
            wrong.append((run.seed, *({*one} - {*other} for one, other in (both, both[::-1]))))
    assert not wrong, (len(wrong), wrong[:2])


def _comparable(parts: list[Any], version: int) -> list[Any]:
    if parts[-1:] == [{"type": "step-start"}]:  # a client may have one of which all was taken back
        parts = parts[:-1]
    # The client of 6 is not told what somebody has decided: it knows what its own user has clicked.
    hidden = ("approval", "state") if version == 6 else ()
    return [
        {name: value for name, value in part.items() if name not in (hidden if "approval" in part else ())}
        for part in parts
    ]


def _in_any_order(messages: list[Any], answers: dict[str, str]) -> list[str]:
    """Messages but for the order of results; without the client's own results, arguments that somebody edits, and the
    numbers in ids that recur, where a stream has an attempt more, which it took back."""
    found = json.loads(_RECURRING.sub("", json.dumps(messages)))
    own = {_RECURRING.sub("", id) for id in answers}
    for one in found:
        for call in one.get("toolCalls", ()):
            if call["function"]["name"] in ("pay", "vote"):
                call["function"]["arguments"] = "edited, perhaps"
        if one["role"] == "tool":
            one["id"] = ""
            one |= {"content": "the client's"} if one["toolCallId"] in own else {}
    return sorted(json.dumps(one, sort_keys=True) for one in found)


def test_an_answer_that_is_too_large_is_kept_without_its_largest_contents() -> None:
    large, call = "x" * (MAX_ANSWER_BYTES // 2), ToolCall(call_id="a", name="look", arguments={}, status="ready")
    entries: list[Entry] = [
        StepStart("r", seq=0), TextStart(seq=1), TextDelta("Hello", seq=2), TextEnd(seq=3),
        ToolCallStart("a", "look", seq=4), ToolCallEnd(call, seq=5),
        Observation(call_id="a", tool_name="look", outcome="ok", value=large, model_content=large, seq=6),
        TextStart(seq=7), TextDelta(large, seq=8), TextEnd(seq=9), StepEnd("complete", seq=10),
    ]  # fmt: skip
    written = written_answer(folded(entries))
    assert len(written) <= MAX_ANSWER_BYTES
    answer = [*read_entries(written)]
    _, said, called, more = ui_message(answer, "m")["parts"]
    assert (said["text"], called["output"][:11], called["state"]) == ("Hello", "[not kept: ", "output-available")
    assert len(more["text"]) in (len(large), len(called["output"]))
    assert [one["role"] for one in ag_ui_messages(answer)] == ["assistant", "tool", "assistant"]

    named = [
        Observation(call_id=f"{seq}" + "c" * (MAX_ANSWER_BYTES // 20), tool_name="look", outcome="ok", seq=seq)
        for seq in range(11, 41)
    ]
    written = written_answer(folded([*entries, *named]))
    assert MAX_ANSWER_BYTES * 0.8 < len(written) <= MAX_ANSWER_BYTES
    assert ui_message([*read_entries(written)], "m")["parts"][:2] == [{"type": "step-start"}, said]


def test_messages_and_questions_within_a_run_are_shown_in_their_step() -> None:
    call = ToolCall(call_id="a", name="look", arguments={"at": 1}, arguments_text='{"at": 1}', status="ready")
    said = MessageAdded("u2", ({"role": "user", "content": [{"type": "text", "text": "Quick"}]},), step=1, seq=7)
    entries: list[Entry] = [
        StepStart("r", seq=0), ToolCallStart("a", "look", seq=1), ToolCallEnd(call, seq=2),
        AnswerRequested("a", "look", {"at": 1}, fingerprint="f", question={"which": 1}, seq=3),
        Observation(call_id="a", tool_name="look", outcome="ok", value={"seen": 1}, seq=4), StepEnd("complete", seq=5),
        StepStart("r", step=1, seq=6), said, TextStart(step=1, seq=8), TextDelta("Done.", step=1, seq=9),
        TextEnd(step=1, seq=10),
    ]  # fmt: skip
    text = {"type": "text", "text": "Quick"}
    question = {"toolCallId": "a", "question": {"which": 1}}
    versions: list[tuple[Version, Any]] = [
        (7, {"type": "steering-message", "id": "u2", "parts": [text]}),
        (6, {"type": "data-steering", "id": "u2", "data": {"parts": [text]}}),
    ]
    for version, steered in versions:
        parts = ui_message(kept(entries), "m", version=version)["parts"]
        assert {"type": "data-question", "id": approval_id("r", 0, "a", "f"), "data": question} in parts
        assert parts[-2:] == [steered, {"type": "text", "text": "Done.", "state": "done"}]
    messages = ag_ui_messages(kept(entries))
    assert [(one["role"], one.get("content")) for one in messages] == [
        ("assistant", None), ("tool", '{"seen":1}'), ("user", "Quick"), ("assistant", "Done."),
    ]  # fmt: skip


def test_the_users_message_is_shown_as_clients_post_it() -> None:
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
