"""Ctrl-C at any moment, also again and again: the program ends within `cancel_grace`, with every observation made.

`benchmarks.soak_interrupts` draws the programs and the moments; here are thirty of them, and what each must keep.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from profiles import every, mostly_thorough

from benchmarks.soak_interrupts import BOUND_S, Tally, soak

ROOT = Path(__file__).parents[2]
LOADED_S = 3.0  # what a machine with other work to do may add to each bound
START_S = 30.0
ANYIO = tuple(int(part) for part in version("anyio").split(".")[:2])

BODY = """
import asyncio, json, os, signal, sys, threading, time
import anyio
from streamtools import Limits, pipeline, tool
from streamtools.events import ToolStarted


def body(name):
    def chunk(delta, finish=None):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return b"data: " + json.dumps({"object": "chat.completion.chunk", "choices": [choice]}).encode() + b"\\n\\n"

    call = {"index": 0, "id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}
    return [chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), b"data: [DONE]\\n\\n"]


def interrupt():
    print("interrupted", time.monotonic(), flush=True)
    os.kill(os.getpid(), signal.SIGINT)


async def use(tool, at, grace=1.0):
    block = pipeline(body(tool.name), tools=[tool], limits=Limits(cancel_grace=grace))
    try:
        async with block as events:
            async for event in events:
                if isinstance(event, ToolStarted) and at is not None:
                    threading.Timer(at, interrupt).start()
    finally:
        print("observed", [seen.outcome for seen in block.turn.observations], flush=True)
        print("warned", [warning.code for warning in block.turn.warnings], flush=True)
"""


def run(program: str) -> tuple[dict[str, str], float, str]:
    """Runs a program; returns the words that it has printed by their first one, how long it took to end from the
    interrupt or its ``over``, and what it said on stderr."""
    command = [sys.executable, "-c", BODY + textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, cwd=ROOT, check=False)
    ended = time.monotonic()
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    return said, ended - float(said.get("interrupted") or said["over"]), done.stderr


@pytest.fixture(scope="module")
def thirty() -> Tally:
    """Twenty-eight programs that share a process, and two that have their own."""
    return soak(30, 7, whole_every=15)


@pytest.mark.thorough
def test_every_program_that_is_interrupted_ends_in_time(thirty: Tally) -> None:
    assert thirty.trials == 30
    assert thirty.hung == []
    assert max(thirty.took) < BOUND_S + LOADED_S


@pytest.mark.thorough
def test_every_call_has_its_one_observation_whenever_the_program_was_interrupted(thirty: Tally) -> None:
    assert thirty.announced > 0
    assert thirty.missing == []
    assert thirty.twice == []


@pytest.mark.thorough
def test_nothing_of_ours_is_on_stderr_after_an_interrupt(thirty: Tally) -> None:
    assert [said for said in thirty.noise if "never awaited" not in said] == []  # which asyncio says of its own, too


@every("runner", mostly_thorough(["asyncio.run(main())", "import trio; trio.run(main)"], 1))
def test_a_sync_tool_that_never_ends_keeps_no_program_alive(runner: str) -> None:
    said, took, errors = run(
        f"""
        @tool(timeout=0.1)
        def never() -> None:
            "Never ends."
            while True:
                time.sleep(1)

        async def main():
            await use(never, None)
            print("over", time.monotonic(), flush=True)

        {runner}
        """
    )
    assert said["observed"] == "['timed_out']"
    assert errors == ""
    assert took < LOADED_S


@pytest.mark.thorough
def test_an_interrupt_during_a_tools_cleanup_lets_it_finish() -> None:
    said, _, errors = run(
        """
        @tool
        async def clean() -> None:
            "Cleans up."
            try:
                await anyio.sleep(60)
            finally:
                threading.Timer(0.05, interrupt).start()
                await anyio.sleep(0.3)
                print("cleaned up", flush=True)

        async def main():
            with anyio.move_on_after(0.1):
                await use(clean, None)

        asyncio.run(main())
        """
    )
    assert said["cleaned"] == "up"
    assert said["observed"] == "['cancelled']"
    if ANYIO >= (4, 16):  # before, a scope of anyio that has been cancelled keeps an interrupt to itself
        assert errors.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.thorough
def test_an_async_tool_that_swallows_its_cancellation_is_warned_of() -> None:
    said, took, _ = run(
        """
        @tool
        async def stubborn() -> str:
            "Goes on."
            until = time.monotonic() + 0.8
            while time.monotonic() < until:
                try:
                    await anyio.sleep(0.05)
                except BaseException:
                    pass
            return "went on"

        async def main():
            await use(stubborn, 0.05, grace=0.2)

        asyncio.run(main())
        """
    )
    assert "tool_unresponsive" in said["warned"]
    assert took < 0.8 + LOADED_S
