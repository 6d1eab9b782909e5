"""Runs as the AI SDK's chats read them: the real `ai` 7 and 6, with their transport, from begin to end.

In a client's message every text, reasoning, call, input, result and error of the run's turns stands exactly once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from grammar import GeneratedRun, generated, is_pending
from node_judge import judged, program

from streamtools.events import AnswerRequested, ApprovalRequested, ApprovalResolved, MessageAdded
from streamtools.parts import ToolCall
from streamtools.turn import Turn
from streamtools.web.approval_ids import approval_id
from streamtools.web.encoding import framed, plain
from streamtools.web.folded import joined
from streamtools.web.held import HeldBack
from streamtools.web.log import Entry, VisitEnd, run_end
from streamtools.web.ui_messages import UIMessages
from streamtools.web.ui_requests import read_ui_request

Version = Literal[6, 7]
RUNS = int(os.environ.get("STREAMTOOLS_WEB_RUNS", "30"))
"""How many runs are judged; `nox -s web` says 2,000."""


class Reader:
    """What a server sends to one client, as `ChatApp` does."""

    def __init__(self, version: Version) -> None:
        self.encoder = UIMessages(version=version, message_id="answer")
        self.held = None if version == 7 else HeldBack()

    def body(self, entries: Iterable[Entry], *, ends: bool = True) -> str:
        frames = [*self.encoder.begin()]
        last: Entry | None = None
        for last in entries:
            frames += self.frames(last)
        if ends and isinstance(last, VisitEnd):
            for event in () if self.held is None else self.held.finish():
                frames += self.encoder(event)
            frames += self.encoder(run_end(last))
        return b"".join(framed(frame) for frame in frames).decode()

    def frames(self, entry: Entry) -> Iterator[Any]:
        if not isinstance(entry, VisitEnd):
            for event in (entry,) if self.held is None else self.held.feed(entry):
                yield from self.encoder(event)


def responses(run: GeneratedRun, version: Version) -> Iterator[dict[str, Any]]:
    """What a client asks and is sent: each visit for itself, or all at once; whole again after a crash."""
    if run.seed % 3 == 0:
        yield {"answers": [], "resumes": False, "body": Reader(version).body(joined(run.entries))}
        return
    before: list[Entry] = []
    died = False
    for visit in run.visits:
        reader = Reader(version)
        if not died:
            for entry in before:
                for _ in reader.frames(entry):
                    continue
        given = [
            {"approvalId": approval_id(run.run_id, *key), "approved": approved, "reason": reason}
            for *key, approved, reason in visit.approvals
        ] + [{"toolCallIds": [call_id, f"{call_id}@{step}"], "output": value} for step, call_id, value in visit.results]
        entries = joined([*before, *visit.entries]) if died else visit.entries
        yield {"answers": given, "resumes": died, "body": reader.body(entries)}
        before += visit.entries
        died = visit.died


def test_the_clients_have_every_part_of_every_run_exactly_once(tmp_path: Path) -> None:
    program("ai_sdk.mjs")  # makes no runs that nobody judges
    runs = generated(RUNS, tmp_path)
    for version in (7, 6):
        chats = [{"version": version, "responses": list(responses(run, version))} for run in runs]
        found = judged("ai_sdk.mjs", chats, tmp_path)
        assert len(found) == len(runs)
        wrong = {
            run.seed: problems
            for run, chat, given in zip(runs, found, chats, strict=True)
            if (problems := [*compared(run, chat), *posted(given["responses"], chat)])
        }
        count = sum(len(chat["responses"]) for chat in chats)
        print(f"\nai {version}: {len(runs)} runs, {count} responses, {len(wrong)} wrong")
        assert not wrong, dict(list(wrong.items())[:5])


def test_a_response_that_goes_on_anywhere_behind_joined_events_has_the_same_bytes(tmp_path: Path) -> None:
    for run in generated(max(8, RUNS // 8), tmp_path):
        for version in (7, 6):
            whole = Reader(version)
            frames = [b"".join(map(framed, whole.frames(entry))) for entry in run.entries]
            for cut in range(len(frames)):
                again = Reader(version)
                before = run.entries[:cut]
                for entry in joined(before) if version == 7 else before:  # 6 is yet to be shown what is held back
                    for _ in again.frames(entry):
                        continue
                again.encoder.begin()
                rest = [b"".join(map(framed, again.frames(entry))) for entry in run.entries[cut:]]
                assert rest == frames[cut:], (run.seed, version, cut)


def compared(run: GeneratedRun, chat: dict[str, Any]) -> Iterator[str]:
    """Yields what is wrong with a client's messages."""
    fails = run.outcome in ("error", "interrupted") or any(visit.died for visit in run.visits)
    broken = [text for text in chat["refused"] if not text.startswith("The answer broke off")]
    if broken or (chat["refused"] and not fails):
        yield f"refused: {chat['refused']}"
    mine = [message for message in chat["messages"] if message["role"] == "assistant"]
    if len(mine) != 1 or mine[0]["id"] != "answer":
        if mine or any(turn.parts for turn in run.turns):
            yield f"messages: {[message['id'] for message in mine]}"
        return
    steps: list[list[Any]] = []
    for part in mine[0]["parts"]:
        if part["type"] == "step-start":
            steps.append([])
        else:
            steps[-1].append(part)
    turns = list(run.turns)
    while turns and not turns[-1].parts and steps[len(turns) - 1 :] in ([], [[]]):
        del steps[len(turns) - 1 :], turns[-1]  # a client shows a step when something is in it
    if len(steps) != len(turns):
        yield f"steps: {len(steps)}, not {len(turns)}"
        return
    ids: set[str] = set()
    for number, (parts, turn) in enumerate(zip(steps, turns, strict=True)):
        for problem in in_step(run, number, parts, turn, ids):
            yield f"step {number}: {problem}"
    read = [entry.message_id for entry in joined(run.entries) if isinstance(entry, MessageAdded)]
    kinds = ("steering-message", "data-steering")
    shown = [part["id"] for part in mine[0]["parts"] if part["type"] in kinds]
    if shown != read:
        yield f"steering: {shown}, not {read}"


def posted(responses: list[dict[str, Any]], chat: dict[str, Any]) -> Iterator[str]:
    """Yields the answers that a server does not find in what the client has posted."""
    for response, body in zip(responses, chat["posted"], strict=True):
        if not response["answers"]:
            continue
        found = read_ui_request(body.encode())
        ids = {(one.id, one.approved, one.reason) for one in found.approvals}
        results = {(one.call_id, str(one.value)) for one in found.results}
        for one in response["answers"]:
            if "approvalId" in one:
                if (one["approvalId"], one["approved"], one["reason"]) not in ids:
                    yield f"posted: {ids}, not {one}"
            elif not results & {(call_id, str(one["output"])) for call_id in one["toolCallIds"]}:
                yield f"posted: {results}, not {one}"


def in_step(run: GeneratedRun, step: int, parts: list[Any], turn: Turn, ids: set[str]) -> Iterator[str]:
    for kind, text in (("text", turn.text + turn.refusal), ("reasoning", turn.reasoning)):
        own = [part for part in parts if part["type"] == kind]
        if "".join(part["text"] for part in own) != text or any(part["state"] != "done" for part in own):
            yield f"{kind}: {own}, not {text!r}"
    calls = [part for part in parts if part["type"].startswith("tool-")]
    if len(calls) != len(turn.calls):
        yield f"calls: {[part['toolCallId'] for part in calls]}, not {[call.call_id for call in turn.calls]}"
        return
    for part, call in zip(calls, turn.calls, strict=True):
        expected = f"{call.call_id}@{step}" if call.call_id in ids else call.call_id
        ids.add(call.call_id)
        if part["toolCallId"] != expected or part["type"] != f"tool-{call.name}":
            yield f"call: {part['toolCallId']} {part['type']}, not {expected} {call.name}"
        yield from of_call(run, step, part, turn, call)


def of_call(run: GeneratedRun, step: int, part: dict[str, Any], turn: Turn, call: ToolCall) -> Iterator[str]:
    told = [one for one in joined(run.entries) if isinstance(one, (ApprovalRequested, AnswerRequested))]
    key = (step, call.call_id, call.name)  # a call of a discarded attempt may still ask, under an id that recurs
    shown_to = [one for one in told if (one.step, one.call_id, one.tool_name) == key]
    asked = [one for one in shown_to if isinstance(one, ApprovalRequested)]
    end = next((one for one in turn.observations if one.call_id == call.call_id), None)
    state, shown = part["state"], {key: part.get(key) for key in ("output", "errorText")}
    if is_pending(turn, call):
        if state not in ("input-available", "approval-requested", "approval-responded"):
            yield f"{call.name}: {state}, but nothing has ended it"
    elif end is not None and end.outcome == "ok":
        value = plain(end.value, end.model_content)
        if (state, shown["output"], part.get("preliminary")) != ("output-available", value, None):
            yield f"{call.name}: {state} {shown}, not {value!r}"
    elif end is not None and end.outcome == "denied" and asked:
        if state != "output-denied":
            yield f"{call.name}: {state}, but it was denied"
    elif end is not None and (state, shown["errorText"], shown["output"]) != ("output-error", end.model_content, None):
        yield f"{call.name}: {state} {shown}, not {end.outcome} {end.model_content!r}"
    given = call.arguments if call.arguments is not None else call.arguments_text
    had = part.get("input") if part.get("input") is not None else part.get("rawInput")  # 6, of one that is no JSON
    wanted = [plain(one.arguments) for one in shown_to[-1:] if call.name != "ask"] or [given]
    edited = [one for one in joined(run.entries) if isinstance(one, ApprovalResolved) and one.arguments is not None]
    if one := next((one for one in edited[::-1] if (one.step, one.call_id, one.tool_name) == key), None):
        wanted = [one.arguments]
    if had not in wanted:
        yield f"{call.name}: input {had!r}, not {wanted}"
