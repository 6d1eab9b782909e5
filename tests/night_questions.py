"""The nine questions that somebody has at night about the runs of `night_runs`, with the answers that traces give.

A question is a function of what the search for a run's id finds; it raises where the trace does not answer it.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import anyio
from night_runs import Traces, busy, dying, provider_to, waiting
from opentelemetry.sdk.trace import TracerProvider

from streamtools.cli import main
from streamtools.dispatch import Journal
from streamtools.telemetry.dead_runs import BegunCall, DeadRun, draw

__all__ = ["QUESTIONS", "unanswered"]

PATIENCE_S = 30.0  # until a span can be found
SECONDS = 1_000_000.0  # of Jaeger's microseconds


def which_response_caused_this_call(busy: Traces, late: Traces, till: Traces) -> None:
    """The link to its chat, beside it in the same step; of a resumed call in the trace of the day before."""
    for name in ("execute_tool get_rate", "execute_tool mail", "streamtools.call fly"):
        call = busy.one(name)
        assert (busy.linked(call), busy.above(call)) == (["chat c"], "streamtools.step")
    paid = late.one("execute_tool pay")
    (chat,) = late.all("chat")
    assert late.linked(paid) == ["chat c"]
    assert late.tag(paid, "streamtools.proposed_by.span_id") == chat["spanID"]
    assert late.one("streamtools.approval pay", streamtools__approval__verdict="approved")["traceID"] != chat["traceID"]


def which_text_or_result_in_it(busy: Traces, late: Traces, till: Traces) -> None:
    """Of each value, for a tool with a policy; without one, the results that the response had read."""
    words = "`to` occurs only in the result of `fetch_page`"
    for name in ("execute_tool mail", "streamtools.approval mail"):
        assert busy.tag(busy.one(name), "streamtools.call.findings") == words
    found = busy.tag(busy.one("execute_tool look_up"), "streamtools.call.findings")
    assert found == "`name` occurs in none of the texts that the model has read"
    assert "execute_tool fetch_page" in busy.linked(busy.all("chat")[2])
    assert "evil" not in str(busy.spans)


def which_results_fed_this_answer(busy: Traces, late: Traces, till: Traces) -> None:
    """The links of its chat; calls of one name differ in their keys."""
    _, first, second, third = busy.all("chat")
    assert busy.linked(first) == []
    assert busy.linked(second) == ["execute_tool fetch_page", "execute_tool get_rate", "execute_tool stock"]
    books = [one for one in busy.spans if one["spanID"] in str(third["references"]) and "book" in one["operationName"]]
    assert sorted(busy.tag(one, "streamtools.call.key") for one in books) == ["1.0", "1.1", "1.7"]


def what_did_it_wait_for(busy: Traces, late: Traces, till: Traces) -> None:
    """A span beside it, as long as the wait, with the reason; and who decided."""
    key = busy.one("streamtools.wait book", streamtools__wait__reason="key")
    assert (busy.tag(key, "streamtools.call.key"), key["duration"] >= 0.02 * SECONDS) == ("1.1", True)
    started = busy.one("execute_tool stock")
    cold = busy.one("streamtools.wait stock", streamtools__wait__reason="worker_start")
    assert cold["startTime"] + cold["duration"] <= started["startTime"] + 1, "microseconds are rounded"
    decided = busy.one("streamtools.approval mail")
    assert "ann" in busy.tag(decided, "streamtools.approval.by")
    assert late.all("streamtools.approval pay")[0]["duration"] >= 0


def what_did_it_cost(busy: Traces, late: Traces, till: Traces) -> None:
    """Tokens and money of each chat, and their sum on the run."""
    run, chats = busy.one("invoke_agent busy"), busy.all("chat c")
    for key in ("gen_ai.usage.output_tokens", "streamtools.cost"):
        assert abs(busy.tag(run, key) - sum(busy.tag(chat, key) for chat in chats)) < 1e-9 < busy.tag(run, key)


def why_did_it_not_run(busy: Traces, late: Traces, till: Traces) -> None:
    """In words, on a span of another name and without length, which is an error unless the call may still run."""
    reasons = {
        "fly": "there is no such tool", "book": "its arguments do not fit the tool's schema", "erase": "it was denied",
    }  # fmt: skip
    for name, words in reasons.items():
        call = busy.one(f"streamtools.call {name}")
        said = busy.tag(call, "streamtools.call.reason"), busy.tag(call, "otel.status_description")
        assert said == (f"not run: {words}",) * 2
        assert (call["duration"], busy.tag(call, "error")) == (0, True)
    held = late.one("streamtools.call pay")
    said = late.tag(held, "streamtools.call.reason"), late.tag(held, "error")
    assert said == ("not run: it waits for an approval", None)
    lost = till.one("streamtools.call charge")
    assert till.tag(lost, "streamtools.call.reason") == "it may or may not have run: its end is not known"
    assert busy.tag(busy.one("execute_tool nap"), "otel.status_description").startswith("timed out after ")


def which_attempt_failed_and_why(busy: Traces, late: Traces, till: Traces) -> None:
    """A tool's: an event. A model's: a chat of its own with an error, the number and the pause."""
    call = busy.one("execute_tool get_rate")
    (failed,) = busy.logs(call, "streamtools.attempt")
    assert (failed["streamtools.attempt.number"], failed["error.type"]) == (1, "ConnectionError")
    assert (failed["streamtools.attempt.delay_s"] > 0, busy.tag(call, "streamtools.call.outcome")) == (True, "ok")
    refused = busy.all("chat")[0]
    said = [busy.tag(refused, key) for key in ("error.type", "streamtools.attempt.number", "otel.status_description")]
    assert said == ["429", 1, "the request failed, and the model was asked again"]
    assert [one["exception.type"] for one in busy.logs(refused, "exception")] == ["streamtools.errors.RequestError"]
    assert busy.tag(busy.all("chat")[1], "streamtools.attempt.number") == 2


def where_did_the_time_go(busy: Traces, late: Traces, till: Traces) -> None:
    """A chat contains its request; pauses and waits have spans of their own. The law is in `test_no_unnamed_time`."""
    assert all(chat["duration"] >= 0.02 * SECONDS for chat in busy.all("chat"))
    refused, answered, *_ = busy.all("chat")
    pause = busy.one("streamtools.pause")
    for before, after in ((refused, pause), (pause, answered)):
        assert abs(before["startTime"] + before["duration"] - after["startTime"]) <= 1, "microseconds are rounded"
    assert pause["duration"] >= busy.tag(refused, "streamtools.attempt.delay_s") * SECONDS - 1000
    assert [span["operationName"] for span in busy.all("SELECT")] == ["SELECT stock"]
    assert busy.above(busy.one("SELECT stock")) == "execute_tool stock"


def what_happened_the_day_before(busy: Traces, late: Traces, till: Traces) -> None:
    """One search for the run's id finds all its traces; the resumed step leads back, and what died has a name."""
    waited, resumed = late.all("streamtools.step")
    assert late.linked(resumed) == ["streamtools.step"]
    assert late.tag(resumed, "streamtools.resumes.trace_id") == waited["traceID"] != resumed["traceID"]
    assert late.tag(waited, "streamtools.calls.suspended") == '["0.0"]'

    first, second, *later = till.all("streamtools.begin.call charge")
    ended = {till.tag(call, "streamtools.call.key") for call in till.all("execute_tool charge")}
    begun = [till.tag(call, "streamtools.call.key") for call in (first, second)]
    assert (begun, later) == (["0.0", "1.0"], [])
    assert ended == {"0.0"}, "the second one is the culprit"
    dead = till.one("invoke_agent till", otel__status_description="its process died")
    assert dead["traceID"] == second["traceID"]
    (reported,) = [one for one in till.all("streamtools.begin.call") if one["operationName"][-1] == "l"]
    for key in ("streamtools.step.number", "gen_ai.tool.call.id"):
        assert till.tag(reported, key) == till.tag(second, key)
    (back,) = [run for run in till.all("invoke_agent till") if till.tag(run, "streamtools.resumes.trace_id")]
    assert till.tag(back, "streamtools.resumes.trace_id") == second["traceID"] != back["traceID"]
    assert till.tag(back, "streamtools.run.outcome") == "suspended"


QUESTIONS: list[Callable[[Traces, Traces, Traces], None]] = [
    which_response_caused_this_call, which_text_or_result_in_it, which_results_fed_this_answer, what_did_it_wait_for,
    what_did_it_cost, why_did_it_not_run, which_attempt_failed_and_why, where_did_the_time_go,
    what_happened_the_day_before,
]  # fmt: skip


def unanswered(folder: Path, target: str, url: str | None = None) -> dict[str, str]:
    """Makes the runs, and returns the questions that their traces leave open, each with what is wrong.

    Args:
        folder: for the files of the runs.
        target: a file for the spans, or the OTLP endpoint of a Jaeger.
        url: the query service of that Jaeger.
    """
    ids = {name: f"{name}-{os.urandom(4).hex()}" for name in ("busy", "late", "till")}
    journal = str(folder / "runs.db")
    with provider_to(target) as provider:
        anyio.run(busy, provider, ids["busy"])
        anyio.run(waiting, provider, ids["late"], folder)
        command = [sys.executable, str(Path(__file__).with_name("night_runs.py")), target, ids["till"], journal]
        killed = subprocess.run(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=120)
        assert killed.returncode == -9
        _report(provider, journal, target if url is not None else None)
        assert anyio.run(dying, provider, ids["till"], journal) == "suspended"
    ends = time.monotonic() + (0 if url is None else PATIENCE_S)
    while left := _left({name: Traces.with_run(target, run_id, url) for name, run_id in ids.items()}):
        if time.monotonic() > ends:
            break
        time.sleep(0.2)
    return left


def _left(found: dict[str, Traces]) -> dict[str, str]:
    left: dict[str, str] = {}
    for question in QUESTIONS:
        try:
            question(**found)
        except (AssertionError, ValueError, KeyError, TypeError, IndexError) as error:
            left[question.__name__] = "".join(traceback.format_exception(error)[-2:])
    return left


def _report(provider: TracerProvider, journal: str, endpoint: str | None) -> None:
    """Draws the dead run: by ``streamtools runs report --otlp``, where there is an endpoint."""
    if endpoint is not None:
        with contextlib.redirect_stdout(io.StringIO()):
            assert main(["runs", "report", journal, "--otlp", endpoint]) == 0
        return
    known = Journal(journal)
    (run,), calls = anyio.run(known.runs), anyio.run(known.store.calls)
    begun = tuple(BegunCall(call.key, call.state, call.claimed_at) for call in calls if call.state != "completed")
    draw([DeadRun(run.run_id, run.name, "dead", run.began_at, run.traceparent, begun)], provider)
