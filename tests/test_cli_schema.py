"""``streamtools schema``: a tool as each provider sees it, for people and for programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from profiles import every

from streamtools.cli import main

TOOLS = '''
from streamtools import Tool, tool


def add(a: int, b: int = 0) -> int:
    """Add two numbers.

    Args:
        a: The first.
    """
    return a + b


@tool
def put(values: dict[str, int]) -> None:
    """Put values."""


@tool(name="a.b")
def dotted() -> None:
    """Do it."""


ALL = [add, put]
nothing = 3


def untyped(a):
    """No hints."""


'''


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_tools.py").write_text(TOOLS, encoding="utf-8")
    (tmp_path / "empty_tools.py").write_text("", encoding="utf-8")
    (tmp_path / "broken_tools.py").write_text("raise RuntimeError('on import')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("shop_tools", "empty_tools", "broken_tools"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_show_prints_the_payload_of_each_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "show", "shop_tools:add", "--targets", "openai,mcp"]) == 0
    out = capsys.readouterr().out
    chat, mcp = out.split("# mcp\n")
    assert chat.startswith("# openai.chat_completions\n")
    assert json.loads(chat.partition("\n")[2])["function"]["name"] == "add"
    assert json.loads(mcp)["inputSchema"]["required"] == ["a"]


def test_show_gives_programs_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "show", "shop_tools:ALL", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["target"], one["payload"]["function"]["name"]) for one in found] == [
        ("openai.chat_completions", "add"),
        ("openai.chat_completions", "put"),
    ]
    assert main(["schema", "show", "shop_tools:add", "--json", "--targets", "openai,openai.strict"]) == 0
    assert [one["needs_decoding"] for one in json.loads(capsys.readouterr().out)] == [False, True]


def test_diff_names_each_place_and_how_it_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "diff", "shop_tools:add", "--targets", "openai,openai.strict"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "add: openai.chat_completions -> openai.chat_completions.strict"
    assert '  + /parameters/required: "b"' in lines
    assert "  - /parameters/properties/b/default: 0" in lines


def test_diff_with_check_exits_with_1_on_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["schema", "diff", "shop_tools:add", "--targets", "openai,openai.strict", "--json"]
    assert main(arguments) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert {"path": "/parameters/required", "kind": "added", "before": None, "after": "b"} in found["changes"]
    assert main([*arguments, "--check"]) == 1


@every(
    ("arguments", "status", "says"),
    [
        (["show", "nowhere:add"], 1, "cannot import nowhere: ModuleNotFoundError"),
        (["show", "shop_tools.py"], 1, "name the module without .py"),
        (["show", "broken_tools:add"], 1, "cannot import broken_tools: RuntimeError: on import"),
        (["show", "shop_tools:nowhere"], 1, "shop_tools:nowhere: module 'shop_tools' has no attribute 'nowhere'"),
        (["show", "shop_tools:nothing"], 1, "is not callable; pass a function"),
        (["show", "shop_tools:untyped"], 1, "parameter 'a': has no type hint"),
        (["show", "empty_tools"], 1, "the module has no tools; name a function: empty_tools:function"),
        (["show", "./shop_tools.py"], 1, "expected package.module:function, got './shop_tools.py'"),
        (["show", "shop_tools:add", "--targets", "morse"], 2, "unknown target 'morse'; known: openai, "),
        (["show", "shop_tools:add", "--targets", "claude"], 2, "unknown target 'claude'; write 'anthropic.messages'; "),
        (["show", "shop_tools:add", "--targets", ","], 2, "names no target"),
        (["show", "shop_tools:add", "--targets", "ollama.strict"], 2, "ollama.chat has no strict mode"),
        (["diff", "shop_tools:add", "--targets", "openai"], 2, "pass two or more to compare"),
        (["diff", "shop_tools:add"], 2, "the following arguments are required: --targets"),
        ([], 2, "the following arguments are required: ACTION"),
    ],
)
def test_a_mistake_is_one_line_and_a_status(
    arguments: list[str], status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", *arguments]) == status
    out, err = capsys.readouterr()
    assert says in err
    assert (out, err.count("\n")) == ("", 1)
