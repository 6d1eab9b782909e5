"""The command line, as a person or a script uses it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from profiles import every

import streamtools
from demo.replay import capture
from streamtools.cli import main

REPOSITORY = Path(__file__).resolve().parent.parent
CHAT, MESSAGES = "openai.chat_completions", "anthropic.messages"

posix = pytest.mark.skipif(os.name != "posix", reason="signals and broken pipes are otherwise on this system")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command writes goes away."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def command(*arguments: str) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "streamtools", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


# -- what a user gets wrong --------------------------------------------------------------------------------------

WRONG = [
    ([], 2, "the following arguments are required: COMMAND (try streamtools --help)"),
    (["frobnicate"], 2, "invalid choice: 'frobnicate'"),
    (["decode", "x", "--wire", "morse"], 2, "unknown wire 'morse'; known: openai.chat_completions, openai.responses"),
    (["decode"], 2, "the following arguments are required: FILE"),
    (["decode", "missing.sse"], 1, "cannot read missing.sse: No such file or directory"),
    (["decode", "page.html"], 1, "the body is an HTML page: <html>"),
    (["decode", "empty"], 1, "the body contains no event"),
]


@every(("arguments", "status", "says"), WRONG)
def test_a_mistake_is_one_line_and_a_status(
    arguments: list[str], status: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "page.html").write_bytes(b"<html>\n<h1>Bad gateway</h1>\n")
    assert main(arguments) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("streamtools: error: ")
    assert says in err
    assert err.count("\n") == 1


# -- help --------------------------------------------------------------------------------------------------------


@every(
    ("arguments", "says"),
    [
        (["--help"], "show the contents of captured responses"),
        (["decode", "--help"], "\n  streamtools decode capture.sse --json"),
        (["schema", "diff", "--help"], "\n  streamtools schema diff myapp.tools:add --targets openai,mcp --check\n"),
        (["store", "release", "--help"], "\n  streamtools store release calls.sqlite3 KEY\n"),
        (["view", "--help"], "\n  streamtools view run.jsonl --open\n"),
    ],
)
def test_help_fits_a_page_and_shows_how(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert says in out
    assert max(map(len, out.splitlines())) <= 80
    assert err == ""


def test_help_lists_the_commands_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out.partition("  COMMAND\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == ["decode", "mcp", "replay", "runs", "schema", "store", "view"]


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"streamtools {streamtools.__version__}\n"


# -- decode ------------------------------------------------------------------------------------------------------


@every(
    ("wire", "finish", "usage"),
    [
        (CHAT, "tool_calls, complete", "83 input tokens, 69 output tokens, 0 cached input tokens"),
        (MESSAGES, "tool_calls (tool_use), complete", "83 input tokens, 69 output tokens, 0 cached input tokens"),
    ],
)
def test_decode_tells_what_a_response_amounts_to(
    wire: str, finish: str, usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decode", str(capture(wire, 1))]) == 0
    assert capsys.readouterr().out == (
        f"wire       {wire}\n"
        "model      tools.gguf\n"
        'calls      get_weather  ready  {"city": "Tokyo"}\n'
        '           get_weather  ready  {"city": "Oslo"}\n'
        '           get_weather  ready  {"city": "Lima"}\n'
        f"finish     {finish}\n"
        f"usage      {usage}\n"
    )


def test_decode_reads_calls_in_the_text_if_asked_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
    chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    path = tmp_path / "capture.sse"
    path.write_text(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n")
    assert main(["decode", str(path)]) == 0
    assert "calls" not in capsys.readouterr().out
    assert main(["decode", str(path), "--calls-in-text", "hermes"]) == 0
    shown = capsys.readouterr().out
    assert "f  ready" in shown
    assert "text" not in shown
    assert main(["decode", str(path), "--calls-in-text", "klingon"]) == 2
    assert "hermes" in capsys.readouterr().err


def test_decode_gives_programs_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", str(capture(MESSAGES, 1)), "--json"]) == 0
    turn = json.loads(capsys.readouterr().out)
    assert [call["arguments"]["city"] for call in turn["calls"]] == ["Tokyo", "Oslo", "Lima"]
    assert {call["status"] for call in turn["calls"]} == {"ready"}
    assert (turn["finish"], turn["complete"], turn["error"]) == ("tool_calls", True, None)
    assert turn["usage"].keys() == {field.name for field in fields(streamtools.Usage)}
    assert turn["usage"]["output_tokens"] == 69


CUT = b"""\
data: {"choices":[{"delta":{"content":"Let me\\nsee \\u001b[2J \\ud83d"}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{\\"a\\": 1"}}]}}]}

"""


def test_decode_tells_of_a_response_that_broke_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cut.sse").write_bytes(CUT)
    assert main(["decode", "cut.sse"]) == 1
    out = capsys.readouterr().out
    assert "text       Let me\n           see \\x1b[2J " in out, "a line each, and nothing that a terminal obeys"
    assert 'calls      add  truncated (incomplete_json)  {"a": 1\n' in out
    assert "finish     none, incomplete: its terminal marker is missing\n" in out
    assert "error      stream_truncated: " in out
    assert main(["decode", "cut.sse", "--json"]) == 1
    turn = json.loads(capsys.readouterr().out)
    assert turn["error"]["kind"] == "stream_truncated"
    assert turn["calls"][0]["arguments"] is None


def test_decode_shows_several_files_under_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = capture(MESSAGES, 1).read_bytes()
    Path("a.sse").write_bytes(whole)
    Path("d\x1b[2J.sse").write_bytes(whole[:-200])
    assert main(["decode", "a.sse", "d\x1b[2J.sse"]) == 1
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if ".sse:" in line] == ["a.sse:", "d\\x1b[2J.sse:"]
    assert main(["decode", "a.sse", "d\x1b[2J.sse", "--json"]) == 1
    assert [json.loads(line)["complete"] for line in capsys.readouterr().out.splitlines()] == [True, False]


def test_decode_keeps_the_lines_of_a_text_and_shows_those_of_arguments_as_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = {"index": 0, "id": "a", "function": {"name": "add", "arguments": '{\n"a": 1}'}}
    delta = {"content": "one\n\ntwo", "tool_calls": [call]}
    body = json.dumps({"choices": [{"delta": delta, "finish_reason": "tool_calls"}]})
    (tmp_path / "lines.sse").write_text(f"data: {body}\n\ndata: [DONE]\n\n", encoding="utf-8")
    assert main(["decode", "lines.sse"]) == 0
    out = capsys.readouterr().out
    assert "text       one\n\n           two\n" in out
    assert 'calls      add  ready  {\\n"a": 1}\n' in out


def test_output_survives_a_terminal_that_lacks_the_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = 'data: {"choices":[{"delta":{"content":"東京"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    (tmp_path / "tokyo.sse").write_text(body, encoding="utf-8")
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert main(["decode", "tokyo.sse"]) == 0
    assert b"text       \\u6771\\u4eac\n" in raw.getvalue()


# -- what ends a command from outside ----------------------------------------------------------------------------


def test_ctrl_c_while_it_reads_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Interrupted(io.RawIOBase):
        def readinto(self, _: object) -> int:
            raise KeyboardInterrupt

        def readable(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Interrupted())))
    assert main(["decode", "-"]) == 130
    assert capsys.readouterr() == ("", "")


@posix
def test_a_pipe_that_breaks_is_141(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["decode", str(capture(CHAT, 1))]) == 141
    assert capsys.readouterr().err == ""


@posix
@pytest.mark.thorough
def test_a_reader_that_leaves_ends_it_quietly_with_141() -> None:
    with command("decode", str(capture(CHAT, 1))) as process:
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
    assert (process.returncode, err) == (141, "")
