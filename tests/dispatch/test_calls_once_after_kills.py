"""Calls that must run once, when a worker or the whole program is killed, or the disk is full."""

from __future__ import annotations

from pathlib import Path

import placed_tools
import pytest
from once_turns import WAIT_S, run, said
from placed_tools import marks
from processes import program, says, wait_until_gone

from streamtools.dispatch import SqliteStore
from streamtools.executors import ProcessExecutor

pytestmark = [pytest.mark.anyio, pytest.mark.costly]


PROGRAM = """
import sys
from dataclasses import replace
import anyio
import placed_tools
from streams import chat, stream
from streamtools import Observation, Suspended, Trajectory, pipeline, resume
from streamtools.events import ToolProgress
from streamtools.dispatch import SqliteStore
from streamtools.executors import ProcessExecutor

name, path, calls, where = sys.argv[1:]

async def main():
    made, store = getattr(placed_tools, name), SqliteStore(calls)
    async with ProcessExecutor([made]) as executor:
        body = stream(chat(calls=[("a", name, '{"path": "' + path + '"}')]))
        options = {"executor": executor} if where == "elsewhere" else {}
        async with pipeline(body, tools=[made], store=store, trajectory=Trajectory(run_id="r"), **options) as events:
            async for event in events:
                if isinstance(event, ToolProgress):
                    print("begun", flush=True)
                elif isinstance(event, Observation):
                    print("ended", event.outcome, event.recorded, flush=True)
                    if event.outcome == "ok":
                        await anyio.sleep_forever()

anyio.run(main)
"""


KILLED = [
    ("order", "here", "begun"),
    ("order", "elsewhere", "begun"),
    ("place_order", "here", "ended ok False"),
    ("place_order", "elsewhere", "ended ok False"),
]


@pytest.mark.thorough
@pytest.mark.deadline(120)
@pytest.mark.parametrize(("name", "where", "sign"), KILLED, ids=lambda value: str(value))
async def test_killing_the_whole_program_leaves_one_effect_and_no_guess(
    tmp_path: Path, name: str, where: str, sign: str
) -> None:
    """In the middle of a call, the next start finds it unknown; behind its end, it finds the result."""
    path, calls = tmp_path / "effects", tmp_path / "calls.sqlite3"
    with program(PROGRAM, name, path, calls, where) as running:
        assert await says(running) == sign
        running.kill()
    (worker,) = marks(path)
    await wait_until_gone(worker)
    made = getattr(placed_tools, name)
    with SqliteStore(calls) as store:
        async with ProcessExecutor([made]) as executor:
            options = {"executor": executor} if where == "elsewhere" else {}
            seen = await run(said(name, path=str(path)), made, store, **options)
    if name == "order":
        assert (seen.only.outcome, seen.only.recorded) == ("unknown", False)
    else:
        assert (seen.only.outcome, seen.only.recorded, seen.only.value) == ("ok", True, f"ordered by {worker}")
    assert marks(path) == [worker]


FULL_DISK = """
import os, resource, sys
import anyio
from streams import chat, stream
from streamtools import Trajectory, pipeline, tool
from streamtools.dispatch import SqliteStore

ran = []

@tool
async def pay() -> str:
    '''Pay.'''
    ran.append("pay")
    return "paid"

async def turn(call_id, store):
    body = stream(chat(calls=[(call_id, "pay", "{}")]))
    async with pipeline(body, tools=[pay], store=store, trajectory=Trajectory(run_id="r")) as events:
        _ = [event async for event in events]
    (seen,) = events.turn.observations
    print(seen.outcome, seen.recorded, len(ran), flush=True)

async def main():
    path = sys.argv[1]
    store = SqliteStore(path)
    await turn("a", store)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(path + "-wal"), most))
    await turn("b", store)
    await turn("b", store)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    await turn("b", store)
    await turn("a", store)

anyio.run(main)
"""


def test_on_a_full_disk_nothing_runs_and_when_there_is_room_again_all_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="what stands for a full disk is a limit on the size of files")
    with program(FULL_DISK, tmp_path / "calls.sqlite3") as running:
        said, errors = running.communicate(timeout=WAIT_S)
    assert said.splitlines() == ["ok False 1", "failed False 1", "failed False 1", "ok False 2", "ok True 2"], errors
