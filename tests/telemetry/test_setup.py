"""One line of set-up: where spans go, what happens to a provider that is there already, and the end."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from profiles import every
from scripted import Script, Spans
from streams import chat

from streamtools import Trajectory, pipeline
from streamtools.errors import LocalProtocolError
from streamtools.telemetry import Tracing, configure
from streamtools.telemetry.setup import Telemetry
from streamtools.view import Watch


def draw(telemetry: Telemetry) -> None:
    Script(Tracing(telemetry.provider)).whole_step()


class Collector:
    """An OTLP/HTTP receiver on the loopback interface."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.paths: list[str] = []
        collector = self

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.paths.append(self.path)
                collector.requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    receiver = Collector()
    yield receiver
    receiver.close()


# -- where spans go ----------------------------------------------------------------------------------------------


def written(telemetry: Telemetry) -> list[tuple[str, str]]:
    """The name of each span in the file, and its service."""
    resources = json.loads(telemetry.path.read_text())["resourceSpans"]
    return [
        (span["name"], {a["key"]: a["value"] for a in one["resource"]["attributes"]}["service.name"]["stringValue"])
        for one in resources
        for scope in one["scopeSpans"]
        for span in scope["spans"]
    ]


def test_the_service_name_is_the_one_given_or_the_environments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "from-outside")
    for given, found in [(None, "from-outside"), ("mine", "mine")]:
        with configure("otlp-file", path=tmp_path / "t.json", set_global=False, service_name=given) as telemetry:
            draw(telemetry)
        assert written(telemetry) == [
            ("chat glm-mini", found), ("execute_tool beta", found), ("execute_tool alpha", found),
            ("streamtools.step", found),
        ]  # fmt: skip


def test_a_file_is_written_by_the_end(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with configure("otlp-file", path=path, set_global=False) as telemetry:
        assert telemetry.path == path
        assert json.loads(path.read_text()) == {"resourceSpans": []}
        draw(telemetry)
    (resource,) = json.loads(path.read_text())["resourceSpans"]
    assert sum(len(scope["spans"]) for scope in resource["scopeSpans"]) == 4


@every("suffix", ["", "/", "/v1/traces", "/v1/traces/"])
def test_otlp_sends_what_a_collector_understands(collector: Collector, suffix: str) -> None:
    with configure("otlp", endpoint=collector.url + suffix, service_name="demo", set_global=False) as telemetry:
        draw(telemetry)
    request = collector.requests.pop()
    assert collector.requests == []
    assert collector.paths.pop().rstrip("/") == "/v1/traces"
    (resource_spans,) = request.resource_spans
    assert {a.key: a.value.string_value for a in resource_spans.resource.attributes}["service.name"] == "demo"
    (scope_spans,) = resource_spans.scope_spans
    assert scope_spans.schema_url == "https://opentelemetry.io/schemas/1.41.0"
    by_name = {span.name: span for span in scope_spans.spans}
    chat, tool, step = (by_name[n] for n in ("chat glm-mini", "execute_tool alpha", "streamtools.step"))
    assert tool.parent_span_id == chat.parent_span_id == step.span_id
    (link,) = tool.links
    assert link.span_id == chat.span_id
    assert [(a.key, a.value.string_value) for a in link.attributes] == [("streamtools.link.type", "proposed_by")]
    values = {a.key: a.value for a in chat.attributes}
    assert values["gen_ai.usage.input_tokens"].int_value == 10
    assert values["gen_ai.response.finish_reasons"].array_value.values[0].string_value == "tool_calls"


def test_otlp_asks_the_environment_for_the_collector(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    with configure(set_global=False) as telemetry:
        draw(telemetry)
    assert collector.paths == ["/v1/traces"]


def test_otlp_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.common.trace_encoder", None)
    for exporter in ("otlp", "otlp-file"):
        with pytest.raises(ImportError, match=r"install the extra `otlp`: pip install 'path/to/checkout\[otlp\]'"):
            configure(exporter, set_global=False)  # type: ignore[arg-type]  # each is a text


def test_an_unknown_exporter_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="'zipkin': must be one of otlp, otlp-file, console"):
        configure("zipkin", set_global=False)  # type: ignore[arg-type]  # that is the point


# -- the program's provider --------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_observers_are_added_to_those_that_were_configured(no_global_provider: None, spans: Spans) -> None:
    trace.set_tracer_provider(spans.provider)
    watch, counts = Watch(), []
    cases: list[dict[str, Any]] = [
        {},
        {"observers": [watch]},
        {"observers": [Tracing()]},
        {"trajectory": Trajectory(observers=[Watch()], default_observers=False)},
    ]
    for options in cases:
        before = len(spans.all)
        await pipeline(chat(["Hi"], finish="stop"), **options)
        counts.append(len(spans.all) - before)
    usual = counts[0]
    assert usual > 0
    assert counts == [usual, usual, usual, 0]  # with a Tracing of one's own each span is drawn once
    assert len(watch.picture.steps) == 1


def test_a_provider_of_the_applications_own_is_added_to(no_global_provider: None, spans: Spans, tmp_path: Path) -> None:
    trace.set_tracer_provider(spans.provider)
    with configure("otlp-file", path=tmp_path / "trace.json", service_name="ignored") as telemetry:
        assert telemetry.provider is trace.get_tracer_provider() is spans.provider
        draw(telemetry)
    assert {service for _, service in written(telemetry)} == {"tests"}
    draw(telemetry)
    assert (len(written(telemetry)), len(spans.all)) == (4, 8)  # the application's own goes on


def test_configure_may_be_called_again_after_the_end(no_global_provider: None, tmp_path: Path) -> None:
    with configure("otlp-file", path=tmp_path / "first.json") as first:
        draw(first)
    with configure("otlp-file", path=tmp_path / "second.json") as second:
        draw(second)
        assert second.provider is first.provider
    assert (len(written(first)), len(written(second))) == (4, 4)


def test_a_provider_that_takes_no_exporters_is_refused(no_global_provider: None) -> None:
    trace.set_tracer_provider(trace.NoOpTracerProvider())
    with pytest.raises(LocalProtocolError, match=r"NoOpTracerProvider.*set_global=False"):
        configure("console")


def test_spans_after_the_end_go_nowhere_silently(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.WARNING)
    telemetry = configure("otlp-file", path=tmp_path / "trace.json", set_global=False)
    telemetry.shutdown()
    telemetry.shutdown()
    draw(telemetry)
    assert written(telemetry) == []
    assert not caplog.records
