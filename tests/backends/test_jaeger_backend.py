"""A Jaeger of the caller's, version 2: what its API gives back of a run.

``STREAMTOOLS_JAEGER_URL`` is its query service (``http://localhost:16686``), ``OTEL_EXPORTER_OTLP_ENDPOINT`` where it
takes spans (``http://localhost:4318``).

Source: https://github.com/jaegertracing/jaeger-idl/blob/main/proto/api_v3/query_service.proto (read 2026-11-23)
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from night_questions import unanswered
from servers import eventually
from sums import AGENT, ARGUMENTS, CONVERSATION, FAILING, MODEL, SAYS, SPANS, USAGE, send

from streamtools.cli.fetch import fetch_trace, trace_address
from streamtools.view import draw_traces

WANTED = ("STREAMTOOLS_JAEGER_URL", "OTEL_EXPORTER_OTLP_ENDPOINT")
MISSING = [name for name in WANTED if not os.environ.get(name)]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"NO JAEGER WAS ASKED: {' and '.join(MISSING)} NOT SET")

Span = dict[str, Any]
ERROR = {2, "STATUS_CODE_ERROR"}


def spans_of(trace_id: str) -> list[Span] | None:
    """All spans of a trace; None while some are missing."""
    url = f"{os.environ['STREAMTOOLS_JAEGER_URL'].rstrip('/')}/api/v3/traces/{trace_id}"
    answer = httpx.get(url, timeout=30, trust_env=False)
    if not answer.is_success:
        return None
    told = answer.json()
    resources = told.get("result", told).get("resourceSpans", [])
    found = [span for resource in resources for scope in resource["scopeSpans"] for span in scope["spans"]]
    return found if len(found) == len(SPANS) else None


def attributes(held: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a span or an event, each a value as OTLP's JSON has it: an int64 is a text there."""
    return {one["key"]: _value(one["value"]) for one in held.get("attributes", [])}


def _value(value: dict[str, Any]) -> Any:
    ((kind, said),) = value.items()
    return int(said) if kind == "intValue" else said


def test_a_trace_is_the_same_picture_by_either_api_of_jaeger() -> None:
    trace_id = send(None).trace_id
    assert eventually(lambda: spans_of(trace_id))
    base = os.environ["STREAMTOOLS_JAEGER_URL"].rstrip("/")
    picture = draw_traces(*fetch_trace(trace_address(f"{base}/trace/{trace_id}?uiFind=x")))
    assert [(call.name, call.outcome) for call in picture.calls] == [("add", "ok"), ("root", "failed")]
    older = httpx.get(f"{base}/api/traces/{trace_id}", timeout=30, trust_env=False).json()
    assert draw_traces(older).patch() == picture.patch()


def test_jaeger_gives_the_run_back_with_its_tree_its_content_its_links_and_its_failure() -> None:
    trace_id = send(None).trace_id
    spans = eventually(lambda: spans_of(trace_id))
    names = {span["spanId"]: span["name"] for span in spans}
    assert sorted(names.values()) == SPANS
    run, step = f"invoke_agent {AGENT}", "streamtools.step"
    above = {span["name"]: names.get(span.get("parentSpanId", "")) for span in spans}
    assert above.pop(f"streamtools.begin.run {AGENT}") == run
    assert above == {run: None, step: run, "chat m": step, "execute_tool add": step, "execute_tool root": step}

    by_name = {span["name"]: span for span in spans if span["name"] not in ("chat m", step)}
    told = attributes(by_name[run])
    assert (told["gen_ai.agent.name"], told["gen_ai.conversation.id"]) == (AGENT, CONVERSATION)
    for name, arguments, result in (("add", ARGUMENTS, "3"), ("root", FAILING, "ArithmeticError")):
        told = attributes(by_name[f"execute_tool {name}"])
        assert json.loads(told["gen_ai.tool.call.arguments"]) == arguments
        assert result in told["gen_ai.tool.call.result"]

    first, second = sorted((span for span in spans if span["name"] == "chat m"), key=_begin)
    for chat in map(attributes, (first, second)):
        tokens = [chat["gen_ai.usage.input_tokens"], chat["gen_ai.usage.output_tokens"]]
        assert (chat["gen_ai.response.model"], tokens) == (MODEL, list(USAGE.values()))
    (message,) = json.loads(attributes(first)["gen_ai.output.messages"])
    assert message["parts"][0]["content"] == SAYS
    assert {link["spanId"] for link in second["links"]} == {
        by_name[f"execute_tool {name}"]["spanId"] for name in ("add", "root")
    }

    failed = [span for span in spans if span.get("status", {}).get("code") in ERROR]
    assert [(span["name"], span["status"]["message"]) for span in failed] == [
        ("execute_tool root", "the tool root raised ArithmeticError")
    ]
    assert [attributes(event)["exception.type"] for event in failed[0]["events"]] == ["ArithmeticError"]


def test_jaeger_answers_the_nine_questions_about_runs_that_were_refused_waited_died_and_went_on(tmp_path: Path) -> None:
    endpoint, url = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"], os.environ["STREAMTOOLS_JAEGER_URL"]
    assert unanswered(tmp_path, endpoint, url) == {}


def _begin(span: Span) -> int:
    return int(span["startTimeUnixNano"])
