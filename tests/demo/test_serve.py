"""``python -m demo.serve``: a program's SDK asks the tiny model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from demo.serve import main, settings
from demo.server import installed

REPOSITORY = Path(__file__).resolve().parents[2]
needs_server = pytest.mark.skipif(
    not installed(), reason="THE MODEL SERVER IS NOT INSTALLED: nothing was asked of the real model"
)
ASKS = """
import os, sys, urllib.request
with urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + "/models") as answer:
    sys.exit(int(sys.argv[1]) if b"tools.gguf" in answer.read() else 9)
"""


@needs_server
def test_a_program_finds_the_model_and_its_status_is_passed_on(tmp_path: Path) -> None:
    program = tmp_path / "first.py"
    program.write_text(ASKS)
    assert main([str(program), "0"]) == 0
    assert main([sys.executable, str(program), "3"]) == 3


@needs_server
def test_a_program_that_does_not_exist_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-program"]) == 127
    assert "cannot run no-such-program: No such file" in capsys.readouterr().err


def test_help_says_how_to_run_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "python -m demo.serve first.py" in capsys.readouterr().out


def test_both_sdks_are_led_to_the_model() -> None:
    assert settings("http://127.0.0.1:1")["OPENAI_BASE_URL"] == "http://127.0.0.1:1/v1"
    assert settings("http://127.0.0.1:1")["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"


@needs_server
@pytest.mark.skipif(os.name != "posix", reason="signals are otherwise on this system")
def test_a_program_ends_with_the_process_that_serves_the_model() -> None:
    sleeps = "import time; print('begun', flush=True); time.sleep(60)"
    served = subprocess.Popen(
        [sys.executable, "-m", "demo.serve", sys.executable, "-c", sleeps],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    with served:
        assert served.stdout.readline() == "begun\n"
        served.send_signal(signal.SIGTERM)
        assert served.wait(20) == 128 + signal.SIGTERM
