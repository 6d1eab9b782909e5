"""Spans as Jaeger UI JSON: the format, and the file that is a valid document at any time."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from scripted import Script, Spans

from streamtools.errors import ToolFailed
from streamtools.telemetry import Tracing
from streamtools.telemetry.setup import JaegerFileExporter, to_jaeger

GOLDEN = Path(__file__).parent / "golden" / "two_steps.json"


def two_steps(spans: Spans) -> None:
    """A request of the application with two steps in it; in the first, one tool fails."""
    script = Script(Tracing(spans.provider))
    with spans.provider.get_tracer("app").start_as_current_span("request"):
        script.start()
        script.call("call_a", "alpha")
        script.call("call_b", "beta", index=1)
        script.end_stream(finish_raw="tool_calls")
        script.run("call_a", "alpha")
        script.run("call_b", "beta")
        failed = ToolFailed("the tool raised")
        failed.__cause__ = KeyError("x")
        causes = (
            script.observe("call_a", name="alpha", validated=True, attempts=1),
            script.observe("call_b", "failed", name="beta", index=1, error=failed, validated=True, attempts=1),
        )
        script.end()
        script.start(causes=causes)
        script.end_stream("stop", finish_raw="stop")
        script.end()


def timeless(document: dict[str, Any]) -> dict[str, Any]:
    """The document with times counted from its first step, and without those of the application's own span."""
    (jaeger_trace,) = document["data"]
    spans = jaeger_trace["spans"]
    first = min(span["startTime"] for span in spans if span["operationName"] == "streamtools.step")
    for span in spans:
        if span["operationName"] == "request":
            span["startTime"] = span["duration"] = 0
        else:
            # the two steps read the clocks apart from each other, so microseconds may differ
            span["startTime"] = round((span["startTime"] - first) / 1e5) * 100_000
            span["duration"] = round(span["duration"] / 1e5) * 100_000
        for log in span["logs"]:
            log["timestamp"] = round((log["timestamp"] - first) / 1e5) * 100_000
        for tag in span["tags"]:
            if tag["type"] == "float64":
                tag["value"] = round(tag["value"], 3)
            if tag["key"] == "otel.scope.version":
                tag["value"] = "version"
    return document


def test_two_steps_look_as_they_always_did(spans: Spans) -> None:
    """The golden file was looked at with care; a change here is a change for everybody's traces."""
    two_steps(spans)
    assert timeless(to_jaeger(spans.all)) == json.loads(GOLDEN.read_text())


def test_the_tree_can_be_rebuilt_from_references(spans: Spans) -> None:
    two_steps(spans)
    (jaeger_trace,) = to_jaeger(spans.all)["data"]
    names = {span["spanID"]: span["operationName"] for span in jaeger_trace["spans"]}
    tree: dict[str, list[list[tuple[str, str]]]] = {}
    for span in jaeger_trace["spans"]:
        kinds = [reference["refType"] for reference in span["references"]]
        assert kinds == sorted(kinds)  # CHILD_OF comes first, since the UI takes the first for the parent
        assert all(reference["traceID"] == jaeger_trace["traceID"] for reference in span["references"])
        kinds = [tag["value"] for reference in span["references"] for tag in reference.get("tags", ())]
        assert set(kinds) <= {"proposed_by", "observed", "follows"}
        assert len(kinds) == len(span["references"]) - bool(span["references"])
        tree.setdefault(span["operationName"], []).append(
            [(reference["refType"], names[reference["spanID"]]) for reference in span["references"]]
        )
    step, chat = ("CHILD_OF", "streamtools.step"), ("FOLLOWS_FROM", "chat glm-mini")
    assert tree == {
        "request": [[]],
        "streamtools.step": [
            [("CHILD_OF", "request")],
            [("CHILD_OF", "request"), ("FOLLOWS_FROM", "streamtools.step")],
        ],
        "execute_tool alpha": [[step, chat]],
        "execute_tool beta": [[step, chat]],
        "chat glm-mini": [
            [step],
            [step, ("FOLLOWS_FROM", "execute_tool alpha"), ("FOLLOWS_FROM", "execute_tool beta")],
        ],
    }


@pytest.mark.parametrize(
    ("value", "kind", "written"),
    [
        ("text", "string", "text"),
        ("hälf \ud83d", "string", "hälf ?"),
        (True, "bool", True),
        (7, "int64", 7),
        (2**53 + 1, "int64", str(2**53 + 1)),  # more than JavaScript's numbers hold
        (0.5, "float64", 0.5),
        (float("inf"), "string", "inf"),
        (b"\x00\xff", "binary", "AP8="),
        (("a", "b"), "string", '["a", "b"]'),
        ((1, 2), "string", "[1, 2]"),
    ],
)
def test_tags_are_typed(spans: Spans, value: Any, kind: str, written: Any) -> None:
    spans.provider.get_tracer("app").start_span("x", attributes={"key": value}).end()
    if isinstance(value, bytes) and not (spans.all[0].attributes or {}):
        pytest.skip("this OpenTelemetry drops bytes that are no text")
    (jaeger_trace,) = to_jaeger(spans.all)["data"]
    assert jaeger_trace["spans"][0]["tags"][0] == {"key": "key", "type": kind, "value": written}
    json.dumps(jaeger_trace, allow_nan=False)


def tags(span: dict[str, Any]) -> dict[str, Any]:
    return {tag["key"]: tag["value"] for tag in span["tags"]}


def test_status_and_kind_become_the_tags_that_the_ui_reads(spans: Spans) -> None:
    tracer = spans.provider.get_tracer("app", "1.2")
    with tracer.start_as_current_span("bad", kind=SpanKind.CLIENT) as bad:
        bad.set_status(Status(StatusCode.ERROR, "why"))
    with tracer.start_as_current_span("good") as good:
        good.set_status(StatusCode.OK)
    first, second = (jaeger_trace["spans"][0] for jaeger_trace in to_jaeger(spans.all)["data"])
    assert tags(first) == {
        "span.kind": "client",
        "otel.scope.name": "app",
        "otel.scope.version": "1.2",
        "otel.status_code": "ERROR",
        "error": True,
        "otel.status_description": "why",
    }
    assert tags(second)["otel.status_code"] == "OK"
    assert "error" not in tags(second)


def test_span_events_become_logs(spans: Spans) -> None:
    span = spans.provider.get_tracer("app").start_span("x")
    span.add_event("happened", {"n": 1}, timestamp=5_000_000)
    span.end()
    (jaeger_trace,) = to_jaeger(spans.all)["data"]
    assert jaeger_trace["spans"][0]["logs"] == [
        {
            "timestamp": 5_000,
            "fields": [
                {"key": "event", "type": "string", "value": "happened"},
                {"key": "n", "type": "int64", "value": 1},
            ],
        }
    ]


def test_programs_that_share_a_trace_are_its_processes(spans: Spans) -> None:
    other = TracerProvider(resource=Resource({"service.name": "other", "zone": "b"}), shutdown_on_exit=False)
    with spans.provider.get_tracer("app").start_as_current_span("mine") as mine:
        theirs = [other.get_tracer("app").start_span(name, links=[Link(mine.get_span_context())]) for name in "ab"]
        for span in theirs:
            span.end()
    (jaeger_trace,) = to_jaeger([*spans.all, *theirs])["data"]  # type: ignore[list-item]  # the SDK's spans are readable
    assert [span["processID"] for span in jaeger_trace["spans"]] == ["p1", "p2", "p2"]
    assert jaeger_trace["processes"]["p2"] == {
        "serviceName": "other",
        "tags": [{"key": "zone", "type": "string", "value": "b"}],
    }


def test_a_span_needs_a_scope_for_nothing_and_a_context_for_all() -> None:
    context = trace.SpanContext(1, 2, is_remote=False)
    (jaeger_trace,) = to_jaeger([ReadableSpan("x", context=context, resource=Resource({}))])["data"]
    assert tags(jaeger_trace["spans"][0]) == {"span.kind": "internal"}
    assert jaeger_trace["processes"]["p1"]["serviceName"] == "unknown_service"
    with pytest.raises(AssertionError, match="has a context"):
        to_jaeger([ReadableSpan("x")])


# -- the file ----------------------------------------------------------------------------------------------------


def read(path: Path) -> list[dict[str, Any]]:
    traces = json.loads(path.read_text())["data"]
    return [span for jaeger_trace in traces for span in jaeger_trace["spans"]]


def test_the_file_is_a_valid_document_after_every_export(spans: Spans, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    exporter = JaegerFileExporter(path)
    assert read(path) == []
    two_steps(spans)
    for count, span in enumerate(spans.all, start=1):
        assert exporter.export([span]) is SpanExportResult.SUCCESS
        assert len(read(path)) == count
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text("something else")
    JaegerFileExporter(str(path))
    assert read(path) == []


def test_the_file_keeps_the_first_spans_and_says_once_that_it_drops(
    spans: Spans, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="streamtools")
    path = tmp_path / "trace.json"
    exporter = JaegerFileExporter(path, max_spans=3)
    two_steps(spans)
    assert exporter.export(spans.all[:2]) is SpanExportResult.SUCCESS
    assert exporter.export(spans.all[2:5]) is SpanExportResult.FAILURE
    assert exporter.export(spans.all[5:]) is SpanExportResult.FAILURE
    assert [span["operationName"] for span in read(path)] == [span.name for span in spans.all[:3]]
    assert exporter.dropped == len(spans.all) - 3
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} holds max_spans=3 spans; further spans are dropped"
    ]


def test_a_path_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        JaegerFileExporter(tmp_path / "missing" / "trace.json")


def test_a_write_that_fails_leaves_the_old_document(spans: Spans, tmp_path: Path) -> None:
    directory = tmp_path / "traces"
    directory.mkdir()
    path = directory / "trace.json"
    exporter = JaegerFileExporter(path)
    path.unlink()
    path.mkdir()  # a directory cannot be replaced by a file
    spans.provider.get_tracer("app").start_span("x").end()
    with pytest.raises(OSError):
        exporter.export(spans.all)
    assert list(directory.iterdir()) == [path]


def test_trace_and_span_ids_are_hexadecimal(spans: Spans) -> None:
    spans.provider.get_tracer("app").start_span("x").end()
    (jaeger_trace,) = to_jaeger(spans.all)["data"]
    assert jaeger_trace["traceID"] == trace.format_trace_id(0xA1)
    assert jaeger_trace["spans"][0]["spanID"] == "0000000000000001"
