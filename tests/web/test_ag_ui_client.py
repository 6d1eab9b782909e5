"""Runs as AG-UI's own client reads them, its verifier on, from the first request to the last.

In the client's messages every text, reasoning, call, argument and result of the run's turns stands exactly once, and
beside it what a call of the client's own was before somebody has edited it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grammar import GeneratedRun, generated, is_pending
from node_judge import judged, program
from shown_runs import shown_runs

from streamtools.events import AnswerRequested, AttemptDiscarded, Event, MessageAdded, Observation, ToolCallStart
from streamtools.web.ag_ui import AGUI
from streamtools.web.encoding import RunEnd, framed, plain
from streamtools.web.folded import joined
from streamtools.web.held import HeldBack
from streamtools.web.log import VisitEnd, run_end

RUNS = int(os.environ.get("STREAMTOOLS_WEB_RUNS", "20"))
"""How many runs are judged; `nox -s web` says 2,000, and breaks every connection at each event."""
Shown = Event | RunEnd


@dataclass
class Thread:
    """What a server sends to one client: each response by an encoder of its own that knows what came before."""

    retracts: bool = False
    before: list[Shown] = field(default_factory=list)
    ids: dict[tuple[int, str], str] = field(default_factory=dict)
    edited: dict[tuple[int, str], tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """The client's calls that were approved with other arguments: the id before, and the arguments."""
    responses: list[dict[str, Any]] = field(default_factory=list)

    @property
    def answers(self) -> dict[str, str]:
        return {id: content for response in self.responses for id, content in response["answers"]}

    def respond(self, events: Sequence[Shown], answers: dict[tuple[int, str], str]) -> None:
        given = {self.ids[key]: content for key, content in answers.items() if self.ids[key] not in self.answers}
        run_id = f"run {len(self.responses)}"
        answered = [*self.answers, *given]  # a client posts its whole thread
        encoder = AGUI(thread_id="t", run_id=run_id, answered=answered, can_retract=self.retracts)
        held = None if self.retracts else HeldBack()
        for event in self.before:
            self._feed(encoder, held, event)
        frames = [*encoder.begin()]
        for event in events:
            frames += self._feed(encoder, held, event)
        self.before += events
        self.responses.append({"body": b"".join(map(framed, frames)).decode(), "answers": list(given.items())})

    def _feed(self, encoder: AGUI, held: HeldBack | None, event: Shown) -> list[Any]:
        found: list[Any] = []
        for one in _shown(held, event):
            frames: list[Any] = [*encoder(one)]
            if isinstance(one, (ToolCallStart, AnswerRequested)):
                key = (one.step, one.call_id)
                for started in (sent for _, sent in frames if sent["type"] == "TOOL_CALL_START"):
                    if isinstance(one, AnswerRequested):
                        self.edited[key] = (self.edited.get(key, (self.ids[key],))[0], dict(one.arguments))
                    self.ids[key] = started["toolCallId"]
            found += frames
        return found


def _shown(held: HeldBack | None, event: Shown) -> Iterable[Shown]:
    """Yields an event when a reader shows it; a crash takes back what nobody could hold."""
    if held is None:
        yield event
    elif isinstance(event, RunEnd):
        yield from held.finish()
        yield event
    else:
        yield from held.feed(event)
        if isinstance(event, AttemptDiscarded):
            yield event


def judgements(threads: Iterable[Thread], directory: Path) -> list[Any]:
    return judged("ag_ui_client.mjs", [{"responses": one.responses} for one in threads], directory)


def thread_of(run: GeneratedRun) -> Thread:
    """Returns what a client gets of a run. Where the process died, half of them ask again."""
    thread, events, answers = Thread(run.seed % 3 == 0), list[Shown](), dict[tuple[int, str], str]()
    shown = -1
    for visit in run.visits:
        answers |= {(step, call_id): json.dumps(value) for step, call_id, value in visit.results}
        entries, shown = joined(visit.entries, shown), visit.entries[-1].seq
        for entry in entries if run.seed % 5 == 0 else visit.entries:
            if not isinstance(entry, VisitEnd):
                events.append(entry)
            elif not (visit.died and run.seed % 2 == 0 and visit is not run.visits[-1]):
                thread.respond([*events, run_end(entry)], answers)
                events, answers = [], {}
    return thread


def problems_of(run: GeneratedRun, thread: Thread, found: dict[str, Any]) -> list[Any]:
    problems = [*found["complaints"]]
    if len(found["ends"]) != len(thread.responses):
        problems.append(("ends", found["ends"]))
    messages = [one for one in found["messages"][1:] if one["role"] != "activity"]
    if len({one["id"] for one in messages}) != len(messages):
        problems.append("an id recurs")
    if run.outcome == "cancelled":  # the step in which it was stopped has no turn if its process died at once
        unknown = f"{run.run_id}:{len(run.turns)}:"
        messages = [one for one in messages if not one["id"].startswith(unknown)]
    said = [one["content"] for one in messages if one["role"] == "user"]
    added = {entry.message_id for entry in run.entries if isinstance(entry, MessageAdded)}
    if said != run.said[: len(added)]:
        problems.append(("said", said, run.said))
    wanted_calls: list[Any] = []
    wanted_results: dict[str, Any] = {}
    for step, turn in enumerate(run.turns):
        mine = [one for one in messages if one["id"].startswith(f"{run.run_id}:{step}:")]
        for role, text in (("assistant", turn.text + turn.refusal), ("reasoning", turn.reasoning)):
            if (shown := "".join(one.get("content", "") for one in mine if one["role"] == role)) != text:
                problems.append((step, role, shown, text))
        ends, again = {one.call_id: one for one in turn.observations}, list[Any]()
        if run.outcome == "cancelled":  # a stopped run has skipped calls, of which some had ended in an earlier visit
            ends |= {one.call_id: one for one in run.entries if isinstance(one, Observation) and one.step == step}
        for call in turn.calls:
            id = thread.ids.get((step, call.call_id), "missing")
            before, edits = thread.edited.get((step, call.call_id), (id, None))
            wanted_calls.append((before, call.name, call.arguments_text))
            if edits is not None:  # a client can neither change nor forget a call
                wanted_results[before] = "not run: its arguments were replaced"
                again.append((id, call.name, json.dumps(edits, ensure_ascii=False, separators=(",", ":"))))
            if not is_pending(turn, call):
                wanted_results[id] = thread.answers.get(id, _content(ends[call.call_id]))
        wanted_calls += again
    calls = [call for message in messages for call in message.get("toolCalls", ())]
    found_calls = [(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in calls]
    if found_calls != wanted_calls:
        problems.append(("calls", found_calls, wanted_calls))
    results = [(one["toolCallId"], one["content"]) for one in messages if one["role"] == "tool"]
    if sorted(results) != sorted(wanted_results.items()):
        problems.append(("results", results, wanted_results))
    return problems


def _content(end: Observation) -> str:
    value = plain(end.value)
    if end.outcome != "ok" or value is None:
        return end.model_content
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_the_client_refuses_no_run_and_has_each_text_call_and_result_once(tmp_path: Path) -> None:
    program("ag_ui_client.mjs")  # makes no runs that nobody judges
    runs = generated(RUNS, tmp_path)
    threads = [thread_of(run) for run in runs]
    found = judgements(threads, tmp_path)
    each = zip(runs, threads, found, strict=True)
    problems = [(run.seed, wrong) for run, one, has in each if (wrong := problems_of(run, one, has))]
    assert not problems, (len(problems), problems[:3])
    print(f"\n{len(runs)} runs, {sum(len(one.responses) for one in threads)} responses: none refused by @ag-ui/client")


def test_a_response_may_begin_anywhere_and_the_client_has_the_same(tmp_path: Path) -> None:
    """The connection breaks at each event, and the rest comes in a response of its own."""
    program("ag_ui_client.mjs")
    names, threads = list[tuple[str, int]](), list[Thread]()
    for name, visits in shown_runs().items():
        events = visits[0]
        for cut in range(0, len(events), 1 if RUNS >= 1_000 else 9):
            thread = Thread(retracts=True)
            if cut:
                thread.respond(events[:cut], {})
            thread.respond(events[cut:], {})
            names.append((name, cut))
            threads.append(thread)
    found = judgements(threads, tmp_path)
    whole = {name: one for (name, cut), one in zip(names, found, strict=True) if cut == 0}
    for (name, cut), one in zip(names, found, strict=True):
        assert one["complaints"] == [], (name, cut)
        assert one["messages"] == whole[name]["messages"], (name, cut)
        assert [end["outcome"] for end in one["ends"]] == [end["outcome"] for end in whole[name]["ends"]], (name, cut)
