"""The README's table of what other loops do: each cell is what the real packages did with the same bytes."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anyio.to_thread import run_sync

pytest.importorskip("langgraph.checkpoint.sqlite", reason="THERE IS NO LANGGRAPH: the README's table was not made")
pytest.importorskip("langchain_openai", reason="THERE IS NO LANGCHAIN: the README's table was not made")
pytest.importorskip("pydantic_ai", reason="THERE IS NO PYDANTIC-AI: the README's table was not made")
import peers
from peers import CHAT, CUT, LOOPS, LOST, RAISES, RESPONSES, SAME_INDEX, Bank, Server, two_calls

README = Path(__file__).resolve().parent.parent.parent / "README.md"

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # LangGraph knows no other


class Met:
    """What a loop made of an answer."""

    def __init__(self) -> None:
        self.bank = Bank()
        self.server = Server([])
        self.error = ""

    async def with_(self, loop: Any, folder: Path, calls: Any, wire: str = CHAT) -> Met:
        """Runs a loop on an answer, to its end or its error."""
        self.server = Server(calls, wire)
        await run_sync(folder.mkdir)
        try:
            await loop(self.server, self.bank.pay, wire, folder)
        except Exception as error:
            self.error = type(error).__name__
        assert self.server.requests, self.error
        return self

    @property
    def read(self) -> list[str]:
        """The results that the model has read."""
        return self.server.results()


def cut(met: Met) -> str:
    if met.bank.paid:
        return f"**paid to `{met.bank.paid[0]}`**"
    return f"`{met.error}`" if met.error else "not run; the model reads why"


def lost(met: Met) -> str:
    return "**paid all the same**" if met.bank.paid else f"`{met.error}`, nothing paid"


def same_index(met: Met) -> str:
    if sorted(met.bank.paid) == ["Ada", "Bob"]:
        return "both run"
    return f"`{met.error}`" if met.error else "**neither runs**"


def raises(met: Met) -> str:
    kept = {"paid Ada", "paid Bob"} <= set(met.read)
    return "the model reads it, beside the other results" if kept else f"`{met.error}` ends the run"


async def started(loop: Any, folder: Path) -> str:
    met, early = Met(), False

    async def between() -> None:
        nonlocal early
        # A loop that starts calls at the end of the response does so after this: the wait has to end by itself.
        for _ in range(200):
            await asyncio.sleep(0)
        early = met.bank.first.is_set()

    await met.with_(loop, folder, two_calls(between), RESPONSES)
    assert sorted(met.bank.paid) == ["Ada", "Bob"], met.error
    return "while the model writes on" if early else "at the end of the response"


def killed(name: str, folder: Path) -> str:
    folder.mkdir()
    command = [sys.executable, "-W", "ignore", peers.__file__, name, str(folder)]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode in (0, 9), done.stderr[-2000:]
    paid = (folder / "paid").read_text().split()
    return "**pays twice**" if len(paid) == 2 else "pays once; a person settles it"


MET: dict[str, tuple[list[Any], Callable[[Met], str]]] = {
    'Arguments end in the middle: `{"to":"Ada`': (CUT, cut),
    "The stream ends before the response does": (LOST, lost),
    "A server numbers both calls 0": (SAME_INDEX, same_index),
    "One of three tools raises": (RAISES, raises),
}


async def table(folder: Path) -> list[str]:
    rows = []
    for at, (row, (calls, words)) in enumerate(MET.items()):
        cells = [words(await Met().with_(loop, folder / f"{at}{name}", calls)) for name, loop in LOOPS.items()]
        rows.append([row, *cells])
    cells = [await started(loop, folder / f"started{name}") for name, loop in LOOPS.items()]
    rows.append(["A call that may run twice starts", *cells])
    rows.append(["Killed within a payment, and begun again", *(killed(name, folder / f"k{name}") for name in LOOPS)])
    return ["| " + " | ".join(row) + " |" for row in rows]


@pytest.mark.deadline(180)
async def test_the_table_of_the_readme_is_what_the_loops_do(tmp_path: Path) -> None:
    rows = await table(tmp_path)
    block = re.search(r"<!-- peers: begin -->\n(.*?)<!-- peers: end -->", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None, "\n" + "\n".join(rows)
    assert [line for line in block[1].splitlines() if line.startswith("| ")][1:] == rows, "\n" + "\n".join(rows)
