"""The fixture ``replayed``: a recording is a test in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from record.recorded import run_loop
from streams import anthropic
from wire_cases.names import ANTHROPIC

from streamtools import tool
from streamtools.record import record
from streamtools.testing.fixtures import Replayed, replayed

__all__ = ["replayed"]

REPOSITORY = Path(__file__).resolve().parents[2]

RAN: list[str] = []


@tool(effect="idempotent")
async def get_weather(city: str) -> str:
    """Get the weather."""
    RAN.append(city)
    return "rain"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    async def make() -> None:
        asks = anthropic([], [("c1", "get_weather", '{"city": "Oslo"}')])
        ends = anthropic(["Rain."], stop="end_turn")
        await run_loop(asks, ends, tools=[get_weather], observers=[record(tmp_path / "run.jsonl")], wire=ANTHROPIC)

    anyio.run(make)
    RAN.clear()
    return tmp_path / "run.jsonl"


def test_a_recording_is_a_test_in_one_line(replayed: Replayed, recording: Path) -> None:
    assert replayed(recording, tools=[get_weather]).text == "Rain."
    assert RAN == []


def test_it_fails_where_a_tool_would_now_refuse_the_call(replayed: Replayed, recording: Path) -> None:
    @tool(name="get_weather", effect="idempotent")
    async def changed(town: str) -> str:
        """Get the weather."""
        return "rain"

    with pytest.raises(
        AssertionError, match=r"does not replay as it was recorded:\nevent .* call.problem: None"
    ) as told:
        replayed(recording, tools=[changed])
    assert "(get_weather: town: is required but missing" in str(told.value)
    assert "Oslo" not in str(told.value)


@pytest.mark.thorough
def test_paths_are_relative_to_the_test_and_a_conftest_names_the_fixtures(recording: Path) -> None:
    folder = recording.parent
    (folder / "conftest.py").write_text('pytest_plugins = ["streamtools.testing.fixtures"]\n', encoding="utf-8")
    there = folder / "test_it.py"
    there.write_text("def test_it(replayed):\n    assert replayed('run.jsonl').text == 'Rain.'\n", encoding="utf-8")
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", there.name],
        cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr
