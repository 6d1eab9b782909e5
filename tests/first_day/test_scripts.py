"""The tasks of a first day, each a script of somebody who knows only README and `docs/`, against a scripted model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from integrations.loopback import Loopback
from streams import anthropic, chat, chat_chunk, sse
from test_examples import README, programs

SCRIPTS = Path(__file__).resolve().parent / "scripts"
REPOSITORY = SCRIPTS.parent.parent.parent
PATIENCE_S = 60

WEATHER = chat(["Let me see. "], [("c1", "get_weather", '{"city": "Tokyo"}')])
ANSWER = chat(["It is ", "15 degrees."], finish="stop")


def run(script: str | Path, directory: Path, *bodies: Iterable[bytes]) -> tuple[str, Loopback]:
    """Runs a script against a model that answers with these bodies; returns its output, and the model."""
    with Loopback(*bodies) as model:
        done = subprocess.run(
            [sys.executable, "-W", "error::RuntimeWarning", str(SCRIPTS / script)],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **keys(model.url)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, model


def keys(url: str) -> dict[str, str]:
    return {
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "unused",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "unused",
    }


def roles(model: Loopback) -> list[list[str]]:
    """The roles of the messages of each request."""
    return [[message["role"] for message in body["messages"]] for _, body in model.requests]


def test_the_loop_of_readme_runs_as_it_stands(tmp_path: Path) -> None:
    script = tmp_path / "readme.py"
    script.write_text(programs(README.read_text(encoding="utf-8"))[0].source, encoding="utf-8")
    said, model = run(script, tmp_path, WEATHER, ANSWER)
    assert said == "Let me see. [get_weather: ok, 15 degrees]\nIt is 15 degrees."
    assert roles(model) == [["user"], ["user", "assistant", "tool"]]
    assert model.requests[0][1]["tools"][0]["function"]["name"] == "get_weather"


def test_a_loop_around_anthropics_sdk(tmp_path: Path) -> None:
    calls = anthropic(["Let me see. "], [("t1", "get_weather", '{"city": "Tokyo"}')])
    said, model = run("anthropic_loop.py", tmp_path, calls, anthropic(["15 degrees."], stop="end_turn"))
    assert said == "Let me see. [get_weather: 15 degrees]\n15 degrees."
    assert roles(model) == [["user"], ["user", "assistant", "user"]]
    assert [path for path, _ in model.requests] == ["/v1/messages"] * 2


def test_a_run_over_plain_http(tmp_path: Path) -> None:
    said, _ = run("httpx_loop.py", tmp_path, WEATHER, ANSWER)
    assert said == (
        "Let me see. [get_weather: 15 degrees]\nIt is 15 degrees.\n"
        "answered: ['user', 'assistant', 'tool', 'assistant']\n"
    )


def test_an_approval_over_a_restart_pays_once(tmp_path: Path) -> None:
    pays = chat([], [("c1", "pay", '{"to": "Ada", "amount": 5}')])
    assert run("approval_asked.py", tmp_path, pays)[0] == "suspended ['pay']\n"
    assert not (tmp_path / "payments.txt").exists()
    for _ in range(2):  # the button was pressed twice
        said, model = run("approval_decided.py", tmp_path, chat(["Done."], finish="stop"))
        assert said == "answered Done.\n['paid 5 to Ada']\n"
        assert roles(model) == [["user", "assistant", "tool"]]
    assert (tmp_path / "payments.txt").read_text() == "5 to Ada\n"


@pytest.mark.thorough
def test_the_tools_of_an_mcp_server(tmp_path: Path) -> None:
    pytest.importorskip("mcp.server.mcpserver", reason="the server of the script is of mcp 2")
    said, model = run("mcp_tools.py", tmp_path, chat([], [("c1", "weather__forecast", '{"city": "Oslo"}')]))
    assert said == "weather__forecast ok sun in Oslo\n"
    assert model.requests[0][1]["tools"][0]["function"]["name"] == "weather__forecast"


@pytest.mark.thorough
def test_a_trace_that_the_jaeger_ui_opens(tmp_path: Path) -> None:
    assert run("traces.py", tmp_path, WEATHER)[0] == "tool_calls\n"
    (trace,) = json.loads((tmp_path / "trace.json").read_text())["data"]
    names = {span["operationName"] for span in trace["spans"]}
    assert {"streamtools.step", "execute_tool get_weather"} <= names
    assert "Tokyo" not in json.dumps(trace)


@pytest.mark.thorough
def test_a_stage_and_a_transform_of_ones_own(tmp_path: Path) -> None:
    body = chat(["Card 4111 1111 1111 1111", " is yours."], finish="stop")
    assert run("own_stage.py", tmp_path, body)[0] == "Card [card] \n is yours.\n2 Card [card]  is yours.\n"


@pytest.mark.thorough
def test_a_history_that_moves_to_another_provider(tmp_path: Path) -> None:
    said, model = run("moved_history.py", tmp_path, WEATHER, anthropic(["Sunny."], stop="end_turn"))
    assert said == "Be brief. () Sunny.\n"
    path, request = model.requests[1]
    assert (path, request["system"]) == ("/v1/messages", "Be brief.")
    assert [message["role"] for message in request["messages"]] == ["user", "assistant", "user"]


@pytest.mark.thorough
def test_a_preview_grows_while_the_model_writes(tmp_path: Path) -> None:
    head = {"index": 0, "id": "c1", "type": "function", "function": {"name": "write_letter", "arguments": ""}}
    pieces = ['{"to": "A', 'da", "text": "Dear', ' Ada"}']
    deltas = [head, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]
    body = sse([*(chat_chunk({"tool_calls": [delta]}) for delta in deltas), chat_chunk({}, "tool_calls")])
    said, _ = run("growing_preview.py", tmp_path, [*body, b"data: [DONE]\n\n"])
    assert said.splitlines()[-3:] == [
        "{'to': 'A'}",
        "{'to': 'Ada', 'text': 'Dear'}",
        "{'to': 'Ada', 'text': 'Dear Ada'}",
    ]


def test_tests_of_ones_own_agent(tmp_path: Path) -> None:
    script = tmp_path / "test_my_agent.py"
    script.write_text((SCRIPTS / "tests_of_my_agent.py").read_text(encoding="utf-8"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout  # two tests, on asyncio and on trio
