"""``streamtools view`` of traces: a collector's file, a trace in a Jaeger, and several of them as one picture."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from streams import chat

from streamtools import StreamToolsError, pipeline
from streamtools.cli import main
from streamtools.cli.fetch import fetch_trace, trace_address
from streamtools.record import record

TRACE = "0af7651916cd43dd8448eb211c80319c"
V3, OLD = f"/api/v3/traces/{TRACE}", f"/api/traces/{TRACE}"
SECRET = "hunter2"


def otlp(run_id: str = "run-7", span_id: str = "b7ad6b7169203331") -> dict[str, Any]:
    step = {
        "traceId": TRACE,
        "spanId": span_id,
        "name": "streamtools.step",
        "startTimeUnixNano": "1544712660000000000",
        "endTimeUnixNano": "1544712661000000000",
        "attributes": [{"key": "streamtools.run.id", "value": {"stringValue": run_id}}],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [step]}]}]}


JAEGER = {"data": [{"spans": [{"traceID": TRACE, "spanID": "1", "operationName": "streamtools.step", "startTime": 1,
    "duration": 2, "tags": [{"key": "streamtools.run.id", "type": "string", "value": "run-old"}]}]}]}  # fmt: skip


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[str, str]:
    """The page that was written, and the mistake that was reported."""
    status = main(["view", *map(str, arguments)])
    out, error = capsys.readouterr()
    assert bool(error) == bool(status), error
    if status:
        return "", error
    path = Path(out.strip())
    html = path.read_text(encoding="utf-8")
    path.unlink()
    return html, ""


def test_a_collectors_file_is_read_line_by_line_without_the_torn_ones_and_several_files_are_one_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = json.dumps(otlp()).encode(), json.dumps(otlp("run-8", "c7ad6b7169203331")).encode()
    file, second = tmp_path / "traces.jsonl", tmp_path / "second.json"
    for lines, torn in (((one, b'{"resourceMetrics":[]}', other), 0), ((one, one[:50], other, b'{"res'), 2)):
        file.write_bytes(b"\r\n".join(lines))
        html, _ = shown(capsys, file)
        assert "run-7" in html
        assert "run-8" in html
        assert (f"Lines that were torn are missing: {torn}." in html) == bool(torn)
    file.write_bytes(one)
    second.write_bytes(json.dumps(JAEGER).encode())
    html, _ = shown(capsys, file, second)
    assert "run-7" in html
    assert "run-old" in html

    async def recorded() -> None:
        async with pipeline(chat(["Hi."]), observers=[record(tmp_path / "run.jsonl")]) as events:
            _ = [seen async for seen in events]

    anyio.run(recorded)
    html, _ = shown(capsys, tmp_path / "run.jsonl", tmp_path / "run.jsonl")
    assert "resumed as" in html
    _, error = shown(capsys, tmp_path / "run.jsonl", file)
    assert "cannot show recordings and traces in one picture" in error


# -- a Jaeger ----------------------------------------------------------------------------------------------------------

Answers = dict[str, tuple[int, bytes]]


class Served:
    """A Jaeger on this machine, and what it was asked."""

    def __init__(self) -> None:
        self.answers: Answers = {}
        self.asked: list[str] = []
        self.gone = threading.Event()
        self.url = ""


@contextmanager
def served() -> Iterator[Served]:
    held = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            held.asked.append(self.path)
            status, body = held.answers.get(self.path, (404, b'{"error": {}}'))
            self.send_response(status)
            if status == 302:
                self.send_header("Location", body.decode())
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
            if body.endswith(b"..."):  # there is more to come, but it never does
                held.gone.wait()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        held.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield held
        finally:
            held.gone.set()
            server.shutdown()


def test_a_trace_is_fetched_from_a_jaeger_of_any_version_by_any_of_its_addresses(
    capsys: pytest.CaptureFixture[str],
) -> None:
    v3 = json.dumps({"result": otlp()}).encode()
    old = json.dumps(JAEGER).encode()
    page = b"<!doctype html>"  # an older Jaeger's, for a path that it does not know
    with served() as jaeger:
        for path, answers, run_id, asked in (
            (f"/trace/{TRACE}?uiFind=x#y", {V3: (200, v3)}, "run-7", [V3]),
            (V3, {V3: (200, v3)}, "run-7", [V3]),
            (f"{OLD}/", {V3: (404, b""), OLD: (200, old)}, "run-old", [V3, OLD]),
            (f"/trace/{TRACE.upper()}", {V3: (200, page), OLD: (200, old)}, "run-old", [V3, OLD]),
            (f"/a/b/trace/{TRACE}", {f"/a/b{V3}": (200, v3)}, "run-7", [f"/a/b{V3}"]),
        ):
            jaeger.answers, jaeger.asked = answers, []
            html, _ = shown(capsys, jaeger.url + path)
            assert run_id in html
            assert jaeger.asked == asked


def test_an_address_that_gives_no_trace_is_a_mistake_of_one_line_without_its_secrets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with served() as jaeger, served() as other:
        place, host = f"{jaeger.url}/trace/{TRACE}", jaeger.url.removeprefix("http://")
        for address, answers, told in (
            (
                f"{place}?token={SECRET}#{SECRET}",
                {},
                f"cannot fetch {place}: /api/v3/traces/… answered 404, /api/traces/…",
            ),
            (place, {V3: (302, other.url.encode() + V3.encode())}, "answered 302"),
            (f"{place}?{SECRET}", {V3: (200, b'{"resourceSpans": []}')}, f"cannot show {place}: expected spans named"),
            (f"http://ann:{SECRET}@{host}/trace/{TRACE}", {}, "with a name or a password"),
            (f"http://{SECRET}@{host}/trace/{TRACE}", {}, "with a name or a password"),
            (f"{jaeger.url}/search?{SECRET}", {}, "expected a path that ends in /trace/ID"),
            (f"{jaeger.url}/trace/xyz\r\nHost:{SECRET}", {}, "expected a path that ends in /trace/ID"),
            (f"http://127.0.0.1:port{SECRET}/trace/{TRACE}", {}, "its host or its port makes no sense"),
            (f"http://{'a' * 99}.x/trace/{TRACE}", {}, "cannot fetch http://aaa"),
            (f"http://[::1]:1/trace/{TRACE}", {}, "cannot fetch http://[::1]:1/trace/"),
            (f"file:///etc/{SECRET}", {}, "expected http:// or https://"),
            (f"http://127.0.0.1:1/trace/{TRACE}", {}, "cannot fetch http://127.0.0.1:1/trace/"),
        ):
            jaeger.answers = answers
            _, error = shown(capsys, address)
            assert told in error
            assert SECRET not in error
            assert error.count("\n") == 1
        assert other.asked == [], "a redirect leads nowhere"


def test_a_jaeger_that_answers_too_much_or_for_too_long_is_left() -> None:
    with served() as jaeger:
        place = trace_address(f"{jaeger.url}/trace/{TRACE}")
        jaeger.answers = {V3: (200, b" " * 1025 + b"...")}
        with pytest.raises(StreamToolsError, match=r"/trace/0af7.*: the answer has more than 1024 bytes"):
            fetch_trace(place, most_bytes=1024)
        with pytest.raises(StreamToolsError, match=r"/trace/0af7.*: no whole answer within 0\.2 s"):
            fetch_trace(place, timeout_s=0.2)
