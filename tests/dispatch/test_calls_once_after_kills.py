"""Calls that must run once, when a worker or the whole program is killed, or the disk is full."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import placed_tools
import pytest
from decisions import decisions_on
from once_turns import WAIT_S, run, said
from placed_tools import marks
from processes import wait_until_gone
from streams import chat, stream

from streamtools import Observation, Suspended, Trajectory, pipeline, resume
from streamtools.dispatch.executors import ProcessExecutor, SqliteStore
from streamtools.events import ToolProgress

pytestmark = [pytest.mark.anyio, pytest.mark.costly]


async def test_killing_the_worker_in_the_middle_is_unknown_and_one_effect(tmp_path: Path) -> None:
    path, outcomes = tmp_path / "effects", list[Observation]()
    for _ in range(2):  # as a program that is started again
        store = SqliteStore(tmp_path / "calls.sqlite3")
        async with ProcessExecutor([placed_tools.order]) as executor:
            with anyio.fail_after(WAIT_S):
                body = stream(chat(calls=[said("order", path=str(path))]))
                options: dict[str, Any] = {"executor": executor, "store": store, "trajectory": Trajectory(run_id="r")}
                async with pipeline(body, tools=[placed_tools.order], **options) as events:
                    async for event in events:
                        if isinstance(event, ToolProgress):
                            os.kill(marks(path)[0], signal.SIGKILL)
        store.close()
        outcomes += events.turn.observations
    assert [seen.outcome for seen in outcomes] == ["unknown", "unknown"]
    assert (
        "the worker that ran order was lost (signal 9); the call may have had its effect" in outcomes[0].model_content
    )
    assert "not run again: the call was begun before" in outcomes[1].model_content
    assert len(marks(path)) == 1


PROGRAM = """
import sys
from dataclasses import replace
import anyio
import placed_tools
from streams import chat, stream
from streamtools import Observation, Suspended, Trajectory, pipeline, resume
from streamtools.events import ToolProgress
from streamtools.dispatch.executors import ProcessExecutor, SqliteStore

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


def program(*arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, env=environment)


KILLED = [
    ("order", "here", b"begun\n"),
    ("order", "elsewhere", b"begun\n"),
    ("place_order", "here", b"ended ok False\n"),
    ("place_order", "elsewhere", b"ended ok False\n"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "where", "sign"), KILLED, ids=lambda value: str(value))
async def test_killing_the_whole_program_leaves_one_effect_and_no_guess(
    tmp_path: Path, name: str, where: str, sign: bytes
) -> None:
    """In the middle of a call, the next start finds it unknown; behind its end, it finds the result."""
    path, calls = tmp_path / "effects", tmp_path / "calls.sqlite3"
    with program(name, str(path), str(calls), where) as running:
        assert running.stdout is not None
        assert await anyio.to_thread.run_sync(running.stdout.readline) == sign
        running.kill()
    (worker,) = marks(path)
    await wait_until_gone(worker)
    made, store = getattr(placed_tools, name), SqliteStore(calls)
    try:
        async with ProcessExecutor([made]) as executor:
            options = {"executor": executor} if where == "elsewhere" else {}
            seen = await run(said(name, path=str(path)), made, store, **options)
    finally:
        store.close()
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
from streamtools.dispatch.executors import SqliteStore

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
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "calls.sqlite3")]
    done = subprocess.run(command, capture_output=True, env=environment, timeout=WAIT_S, text=True, check=False)
    assert done.stdout.splitlines() == ["ok False 1", "failed False 1", "failed False 1", "ok False 2", "ok True 2"], (
        done.stderr
    )


@pytest.mark.thorough
async def test_a_call_that_is_out_of_time_is_killed_and_not_made_again(tmp_path: Path) -> None:
    path, store = tmp_path / "effects", SqliteStore(tmp_path / "calls.sqlite3")
    made = replace(placed_tools.order, timeout=2)
    async with ProcessExecutor([placed_tools.place_order, placed_tools.order], max_workers=1) as executor:
        await run(said("place_order", path=str(path)), placed_tools.place_order, store, executor=executor)
        first = await run(said("order", "b", path=str(path)), made, store, executor=executor)
        await wait_until_gone(marks(path)[1])
        second = await run(said("order", "b", path=str(path)), made, store, executor=executor)
    store.close()
    assert [first.only.outcome, second.only.outcome] == ["timed_out", "unknown"]
    assert len(marks(path)) == 2


async def test_a_call_that_waited_for_an_approval_runs_once_though_it_is_resumed_twice(tmp_path: Path) -> None:
    path, store = tmp_path / "effects", SqliteStore(tmp_path / "calls.sqlite3")
    made, key = replace(placed_tools.place_order, needs_approval=True), b"a key of thirty-two bytes or more"
    waiting = await run(said("place_order", path=str(path)), made, store)
    assert waiting.pipeline.suspended is not None
    text = waiting.pipeline.suspended.to_text(key)
    seen: list[Observation] = []
    async with ProcessExecutor([placed_tools.place_order]) as executor:
        for verdicts in ({"a": True}, {}):
            suspended = Suspended.from_text(text, key)
            options: dict[str, Any] = {"decisions": decisions_on(suspended, verdicts), "executor": executor}
            with anyio.fail_after(WAIT_S):
                async with resume(suspended, tools=[made], store=store, **options) as events:
                    seen += [event async for event in events if isinstance(event, Observation)]
    store.close()
    assert [(one.outcome, one.recorded) for one in seen] == [("ok", False), ("ok", True)]
    assert len(marks(path)) == 1


QUEUED = """
import sys, threading
import anyio
from streams import chat, stream
from streamtools import Limits, Trajectory, pipeline, tool
from streamtools.events import ToolStarted
from streamtools.dispatch import SqliteStore

calls, wait = sys.argv[1], sys.argv[2] == "wait"

@tool(effect="once")
def order(n: int) -> str:
    "Order."
    if wait:
        threading.Event().wait()
    return "ordered"

async def main():
    body = chat(calls=[(f"c{n}", "order", '{"n": ' + str(n) + '}') for n in range(16)])
    options = {"store": SqliteStore(calls), "limits": Limits(max_threads=2), "trajectory": Trajectory(run_id="r")}
    begun = 0
    async with pipeline(stream(body), tools=[order], **options) as events:
        async for event in events:
            if isinstance(event, ToolStarted) and wait:
                begun += 1
                if begun == 2:
                    await anyio.wait_all_tasks_blocked()
                    print("two", flush=True)
    print(*(seen.outcome for seen in events.turn.observations), flush=True)

anyio.run(main)
"""


def queued(calls: Path, how: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", QUEUED, str(calls), how], stdout=subprocess.PIPE, env=environment)


async def test_of_calls_that_waited_for_threads_only_those_that_had_begun_are_unknown_after_a_kill(
    tmp_path: Path,
) -> None:
    with queued(tmp_path / "calls.sqlite3", "wait") as running:
        assert running.stdout is not None
        assert await anyio.to_thread.run_sync(running.stdout.readline) == b"two\n"
        running.kill()
    with queued(tmp_path / "calls.sqlite3", "go") as again:
        output, _ = await anyio.to_thread.run_sync(again.communicate)
    assert sorted(output.decode().split()) == ["ok"] * 14 + ["unknown"] * 2
