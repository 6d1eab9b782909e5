"""``streamtools runs``: a person sees which runs go on, ended or died."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from streams import chat

from streamtools import agent_loop, tool
from streamtools.cli import main
from streamtools.dispatch import Journal
from streamtools.durable.records import written_key
from streamtools.events import ToolStarted

FILE = "runs.db"


@tool(effect="once")
async def pay(to: str) -> str:
    """Pay."""
    if to == "hangs":
        await anyio.sleep_forever()
    return f"paid {to}"


async def make_runs() -> None:
    async def ask(messages: list[Any], tools: Any) -> AsyncIterator[bytes]:
        to = messages[0]["content"]
        is_first = len(messages) == 1
        calls = [("c", "pay", f'{{"to": "{to}"}}')] if is_first else []
        for chunk in chat(["a secret"], calls, finish="tool_calls" if is_first else "stop"):
            yield chunk

    for to, run_id, name in (("x", "order-7", "shop"), ("hangs", "order-8", None)):
        messages = [{"role": "user", "content": to}]
        wire = "openai.chat_completions"
        async with agent_loop(ask, messages, tools=[pay], wire=wire, journal=FILE, run_id=run_id, name=name) as run:
            async for event in run:
                if isinstance(event, ToolStarted) and to == "hangs":
                    break


def test_runs_are_listed_reported_and_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def prints(*command: str) -> str:
        assert main(["runs", *command]) == 0
        out = capsys.readouterr().out
        assert "secret" not in out
        return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "NOW", out)

    anyio.run(make_runs)
    assert [re.split("  +", line) for line in prints("list", FILE).splitlines()] == [
        ["RUN", "STATE", "STEPS", "BEGAN", "NAME"],
        ["order-7", "answered", "2", "NOW", "shop"],
        ["order-8", "left", "1", "NOW"],
    ]
    assert prints("report", FILE) == "no run is dead or waits for a person\n"
    with closing(sqlite3.connect(FILE)) as connection, connection:  # its process was killed
        change = """UPDATE records SET value = json_set(CAST(value AS TEXT), '$.ended_at', NULL, '$.outcome', NULL)"""
        connection.execute(f"{change} WHERE kind = 'run' AND key = ?", (written_key(("run", "order-8")),))
    found = prints("report", FILE)
    assert re.fullmatch(
        r"order-8: dead, 1 response on record, began NOW\n  order-8:0:\w+:c: unknown, begun NOW\n"
        r"for a call with an unknown outcome, .*\n  streamtools store complete runs.db KEY --result JSON\n"
        r"  streamtools store release runs.db KEY\nto continue a run, .*\n",
        found,
    )
    (dead,) = [run for run in anyio.run(Journal(FILE).runs) if run.ended_at is None]
    assert (dead.run_id, dead.is_running) == ("order-8", False)
    assert prints("forget", FILE, "order-8") == "forgotten: a run with this id begins anew; the store keeps the calls\n"
    assert main(["runs", "forget", FILE, "order-8"]) == 1
    assert capsys.readouterr().err == "streamtools: error: there is no run 'order-8'\n"
    assert main(["runs", "list", "nothing.db"]) == 1
    capsys.readouterr()
    for mistake, words in (
        (["--otpl", "http://x", FILE], "unrecognized arguments: --otpl (try streamtools runs report --help)"),
        ([FILE, "more"], "unrecognized arguments: more (try streamtools runs report --help)"),
    ):
        assert main(["runs", "report", *mistake]) == 2
        assert words in capsys.readouterr().err
