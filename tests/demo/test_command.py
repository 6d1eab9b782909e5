"""The demo's command line, as a person uses it: ``python -m demo``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from profiles import every

from demo import QUESTION, WIRES
from demo.__main__ import main

REPOSITORY = Path(__file__).resolve().parents[2]

posix = pytest.mark.skipif(os.name != "posix", reason="signals and broken pipes are otherwise on this system")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what the demo writes go away."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def command(*arguments: str) -> subprocess.Popen[str]:
    """Start the demo in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "demo", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


WRONG = [
    (["--frobnicate"], 2, "unrecognized arguments: --frobnicate (try python -m demo --help)"),
    (["--wire", "morse"], 2, f"argument --wire: unknown wire 'morse'; known: {', '.join(WIRES)}"),
    (["--port", "http"], 2, "argument --port: 'http' is no port: 0 to 65535"),
    (["--port", "65536"], 2, "argument --port: '65536' is no port: 0 to 65535"),
    (["--frob\x1b[2J"], 2, "unrecognized arguments: --frob\\x1b[2J"),
    (["--replay", "--trace", "empty/trace.json"], 1, "cannot write the trace to empty/trace.json: "),
    (["--replay", "Hello!"], 1, f"only {QUESTION!r} was recorded"),
    (["--replay", "--port", "8080"], 1, "a recording has no model file and no port"),
    (["--replay", "--model", "x.gguf"], 1, "a recording has no model file and no port"),
]


@every(("arguments", "status", "says"), WRONG)
def test_a_mistake_is_one_line_and_a_status(
    arguments: list[str], status: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert main(arguments) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("python -m demo: error: ")
    assert says in err
    assert err.count("\n") == 1


def test_a_missing_model_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("xllamacpp", reason="THE MODEL SERVER IS NOT INSTALLED: it was not given a missing file")
    assert main(["--model", "missing.gguf"]) == 1
    assert capsys.readouterr() == ("", "python -m demo: error: there is no model file missing.gguf\n")


@posix
def test_ctrl_c_ends_it_quietly_with_130() -> None:
    with command("--replay") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("you "):
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "")
