"""``streamtools view``: writes a page or a Chrome trace and tells a mistake in one line."""

from __future__ import annotations

import json
import os
import webbrowser
from pathlib import Path

import pytest

from streamtools.cli import main

GOLDEN = Path(__file__).parent / "telemetry" / "golden"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A file of `configure("jaeger-file")`."""
    path = tmp_path / "trace.json"
    path.write_bytes(sorted(GOLDEN.glob("*.json"))[0].read_bytes())
    return path


def test_a_page_is_written_beside_the_run_and_its_path_printed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(run)]) == 0
    assert capsys.readouterr().out == f"{run.with_suffix('.html')}\n"
    assert run.with_suffix(".html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_page_that_is_there_is_not_overwritten_unless_it_is_named(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = run.with_suffix(".html")
    there.write_text("mine", encoding="utf-8")
    assert main(["view", str(run)]) == 0
    other = Path(capsys.readouterr().out.strip())
    assert there.read_text(encoding="utf-8") == "mine"
    assert other.read_text(encoding="utf-8").startswith("<!doctype html>")
    other.unlink()
    assert main(["view", str(run), "-o", str(there), "--title", "Mine"]) == 0
    assert '"title":"Mine"' in there.read_text(encoding="utf-8")


def test_a_chrome_trace_takes_the_place_of_the_page(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "perfetto.json"
    assert main(["view", str(run), "--chrome-trace", str(trace)]) == 0
    assert json.loads(trace.read_bytes())["traceEvents"]
    assert not run.with_suffix(".html").exists()
    for options in (
        ["--terminal", "-o", "x.html"],
        ["--chrome-trace", "x", "--open"],
        ["--terminal", "--chrome-trace", "x"],
    ):
        assert main(["view", str(run), *options]) == 2
        assert "is in place of the page; leave out --" in capsys.readouterr().err


def test_the_page_is_opened_on_request(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert main(["view", str(run), "--open"]) == 0
    assert opened == [run.with_suffix(".html").as_uri()]


def test_a_file_of_another_kind_is_refused_in_one_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content, told in (
        (b"{", "nor JSON"),
        (b"\xff\xfe", "nor JSON"),
        (b"[]", "expected a recording, or spans"),
        (b"[" * 100_000, "nor JSON"),
        (b'{"data":[{"spans":[]}]}', "expected spans named"),
        (b'{"resourceSpans":[]}', "expected spans named"),
    ):
        run.write_bytes(content)
        assert main(["view", str(run)]) == 1
        error = capsys.readouterr().err
        assert told in error, content[:20]
        assert error.count("\n") == 1


def test_a_file_that_does_not_fit_into_memory_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.truncate(run, (1 << 30) + 1)  # with a hole: it takes no room
    assert main(["view", str(run)]) == 1
    assert "1024 MiB" in capsys.readouterr().err


def test_a_path_that_is_none_is_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["nowhere.json"], [str(run), "nowhere.json"], [str(run), "-o", "/nowhere/page.html"]):
        assert main(["view", *arguments]) == 1
        assert "streamtools: error: cannot" in capsys.readouterr().err
