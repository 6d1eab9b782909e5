"""Spans as OTLP's JSON: the document, and the file that is a valid one at any time."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanKind, Status, StatusCode
from scripted import Script, Spans

from streamtools.errors import ToolFailed
from streamtools.telemetry import Tracing
from streamtools.telemetry.setup import FileExporter, to_otlp


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
        script.end_step("stop", finish_raw="stop")


def in_base64(held: dict[str, Any]) -> dict[str, Any]:
    """Ids as a generic reader of protobuf's JSON wants them."""
    named = ("traceId", "spanId", "parentSpanId")
    return {key: base64.b64encode(bytes.fromhex(one)).decode() if key in named else one for key, one in held.items()}


def spans_in(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [span for one in document["resourceSpans"] for scope in one["scopeSpans"] for span in scope["spans"]]


def test_a_document_is_what_the_exporter_sends_with_ids_in_hexadecimal_and_enums_as_integers(spans: Spans) -> None:
    two_steps(spans)
    tracer = spans.provider.get_tracer("app")
    with tracer.start_as_current_span("bad", kind=SpanKind.CLIENT, attributes={"many": (1, 2)}) as bad:
        bad.set_status(Status(StatusCode.ERROR, "why"))
    written = json.dumps(to_otlp(spans.all), allow_nan=False)
    read = json.loads(written, object_hook=in_base64)
    assert ParseDict(read, ExportTraceServiceRequest()) == encode_spans(spans.all)
    (first,) = [span for span in spans_in(json.loads(written)) if span["spanId"] == "0000000000000001"]
    assert first["traceId"] == trace.format_trace_id(0xA1)
    assert '"kind": 3' in written  # an enum by its number
    assert '"code": 2' in written
    assert to_otlp([]) == {"resourceSpans": []}


# -- the file ----------------------------------------------------------------------------------------------------


def names(path: Path) -> list[str]:
    return [span["name"] for span in spans_in(json.loads(path.read_text()))]


def test_the_file_is_a_valid_document_after_every_export_and_replaces_what_was_there(
    spans: Spans, tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    path.write_text("something else")
    exporter = FileExporter(str(path))
    assert names(path) == []
    two_steps(spans)
    for count, span in enumerate(spans.all, start=1):
        assert exporter.export([span]) is SpanExportResult.SUCCESS
        assert names(path) == [known.name for known in spans.all[:count]]
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_keeps_the_first_spans_and_says_once_that_it_drops(
    spans: Spans, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="streamtools")
    path = tmp_path / "trace.json"
    exporter = FileExporter(path, max_spans=3)
    two_steps(spans)
    assert exporter.export(spans.all[:2]) is SpanExportResult.SUCCESS
    assert exporter.export(spans.all[2:5]) is SpanExportResult.FAILURE
    assert exporter.export(spans.all[5:]) is SpanExportResult.FAILURE
    assert names(path) == [span.name for span in spans.all[:3]]
    assert exporter.dropped == len(spans.all) - 3
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} contains max_spans=3 spans; further spans are dropped"
    ]


def test_a_path_that_cannot_be_written_is_refused_at_once_and_later_the_old_document_stays(
    spans: Spans, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        FileExporter(tmp_path / "missing" / "trace.json")
    path = tmp_path / "trace.json"
    exporter = FileExporter(path)
    path.unlink()
    path.mkdir()  # a directory cannot be replaced by a file
    spans.provider.get_tracer("app").start_span("x").end()
    with pytest.raises(OSError):
        exporter.export(spans.all)
    assert list(tmp_path.iterdir()) == [path]
