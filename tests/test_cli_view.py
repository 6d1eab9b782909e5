"""``streamtools view``: writes a page and tells a mistake in one line."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from streams import chat

from streamtools import pipeline
from streamtools.cli import main
from streamtools.record import record


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A recording."""
    path = tmp_path / "run.jsonl"

    async def recorded() -> None:
        await pipeline(chat(["Hi."]), observers=[record(path)])

    anyio.run(recorded)
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
    assert main(["view", str(run), str(run), "-o", str(there), "--title", "Mine"]) == 0
    assert '"title":"Mine"' in there.read_text(encoding="utf-8")
    assert "resumed as" in there.read_text(encoding="utf-8")


def test_a_mistake_is_one_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other, large = run.with_name("other.json"), run.with_name("large.jsonl")
    other.write_bytes(b'{"resourceSpans":[]}')
    large.touch()
    os.truncate(large, (1 << 30) + 1)  # with a hole: it takes no room
    for arguments, status, told in (
        (["nowhere.jsonl"], 1, "cannot read nowhere.jsonl"),
        ([str(run), "nowhere.jsonl"], 1, "cannot read nowhere.jsonl"),
        ([str(run), "-o", "/nowhere/page.html"], 1, "cannot write /nowhere/page.html"),
        ([str(run), str(other)], 1, "expected a recording"),
        ([str(large)], 1, "1024 MiB"),
        ([str(run), "--terminal", "-o", "x.html"], 2, "writes no page; omit --output"),
    ):
        assert main(["view", *arguments]) == status
        error = capsys.readouterr().err
        assert told in error, arguments
        assert error.count("\n") == 1
