"""``streamtools replay``, and recordings under ``decode`` and ``view``."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from profiles import every
from record.recorded import lines, run_loop
from streams import anthropic
from wire_cases.names import ANTHROPIC

from streamtools import tool
from streamtools.cli import main
from streamtools.record import record


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Get the weather."""
    return f"rain in {city}"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    asks = anthropic(["Let me look."], [("c1", "get_weather", '{"city": "Oslo"}')])
    ends = anthropic(["Rain."], stop="end_turn")

    async def make() -> None:
        await run_loop(asks, ends, tools=[get_weather], observers=[record("run.jsonl")], wire=ANTHROPIC)

    anyio.run(make)
    return "run.jsonl"


def test_replay_shows_the_run(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", path, "--speed", "1000"]) == 0
    out = capsys.readouterr().out
    for words in ("Step 1 · ", "Let me look.", "get_weather Oslo → rain in Oslo", "Rain."):
        assert words in out, out
    assert "2 steps · 1 call" in out


def test_replay_checks_and_names_what_differs(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", path, "--check"]) == 0
    assert capsys.readouterr() == ("", "")
    there = Path(path)
    there.write_bytes(there.read_bytes().replace(b'"text":"Rain."', b'"text":"Snow."'))
    assert main(["replay", path, "--check"]) == 1
    assert capsys.readouterr().out == "event 16: TextDelta has another text\n"
    assert main(["replay", path, "--speed", "1000"]) == 1
    assert capsys.readouterr().err == "event 16: TextDelta has another text\n"


def test_a_run_is_chosen_by_the_beginning_of_its_id(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    there = Path(path)
    head = json.loads(lines(there)[0])
    there.write_bytes(there.read_bytes() + json.dumps({**head, "run_id": "other"}).encode() + b"\n")
    assert main(["replay", path]) == 1
    assert (
        f"it contains several runs; choose one by --run ID. Its runs: '{head['run_id']}', 'other'"
        in capsys.readouterr().err
    )
    assert main(["replay", path, "--run", head["run_id"][:6], "--check"]) == 0
    assert main(["replay", path, "--run", "zzz"]) == 1
    assert "it does not contain this run" in capsys.readouterr().err


@every(
    ("arguments", "status", "says"),
    [
        (["replay", "missing.jsonl"], 1, "cannot read missing.jsonl: No such file or directory"),
        (["replay", "page.html"], 1, "page.html is not a recording: it has no complete line"),
        (["replay", "run.jsonl", "--speed", "0"], 2, "expected a number greater than 0, got '0'"),
        (["replay", "run.jsonl", "--speed", "fast"], 2, "expected a number greater than 0, got 'fast'"),
        (["view", "page.html"], 1, "cannot read page.html: expected a recording of streamtools.record"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    arguments: list[str], status: int, says: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("page.html").write_text("<html>\n</html>\n", encoding="utf-8")
    assert main(arguments) == status
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


def test_decode_tells_each_step_of_a_recording(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", path]) == 0
    out = capsys.readouterr().out
    assert [line.split()[1] for line in out.splitlines() if line.startswith("wire")] == [ANTHROPIC, ANTHROPIC]


def test_view_makes_a_page_of_a_recording_or_prints_it(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", path]) == 0
    assert capsys.readouterr().out == "run.html\n"
    assert "rain in Oslo" in Path("run.html").read_text(encoding="utf-8")
    assert main(["view", path, "--terminal"]) == 0
    assert "rain in Oslo" in capsys.readouterr().out


def test_without_rich_the_extra_is_named(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "streamtools.view.terminal", None)
    monkeypatch.delattr("streamtools.view.terminal", raising=False)
    missing = "rich is not installed; install the extra `terminal`: pip install 'path/to/checkout[terminal]'"
    for arguments in (["replay", path], ["view", path, "--terminal"]):
        assert main(arguments) == 1
        assert missing in capsys.readouterr().err
    assert main(["replay", path, "--check"]) == 0
