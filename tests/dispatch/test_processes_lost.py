"""Worker processes that are lost, killed, forked or late: what is said of the call, and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import executor_tools
import pytest
from executor_tools import worker_id
from processes import begin, begin_with, call, is_gone, nobody, program, says, wait_for, wait_until_gone
from profiles import every

from streamtools import ToolContext, tool
from streamtools.dispatch import EndUnknown, SqliteStore
from streamtools.errors import ToolOutcomeUnknown
from streamtools.executors import ProcessExecutor
from streamtools.executors.worker import kill_family, new_mark
from streamtools.seams import call_fingerprint
from streamtools.testing.executors import TOOLS

pytestmark = [pytest.mark.anyio, pytest.mark.sweep]

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing tells a process's environment")


# -- tools, which the workers import from here --


@tool
def answer_late(path: str, ctx: ToolContext) -> str:
    """Report the worker, then return; when the answer has been written, `path` is there."""
    ctx.progress(os.getpid())
    threading.Timer(0.0, _when_written, [lambda: open(path, "w").close()]).start()
    return "answered"


def _when_written(act: Callable[[], object]) -> None:
    """The worker's main thread waits for the next call when the answer to this one has been written."""
    main = threading.main_thread().ident or 0
    while sys._current_frames()[main].f_code.co_name != "serve":
        time.sleep(0.001)
    act()


@tool(effect="once")
def hold_order(path: str, ctx: ToolContext) -> None:
    """Have an effect, then stay, with a child in a session of its own."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    ctx.progress(child.pid)
    threading.Event().wait()


# -- the handshake --


async def test_a_worker_that_is_lost_while_its_call_begins_leaves_the_outcome_unknown() -> None:
    """Also where "go" could not be written: a claim that was made has to stay."""
    async with ProcessExecutor([worker_id]) as executor:
        worker = await executor.run(call("worker_id"), begin, nobody)
        lose = begin_with(60, partial(os.kill, worker, signal.SIGKILL), partial(wait_until_gone, worker))
        with pytest.raises(ToolOutcomeUnknown, match="signal 9"):
            await executor.run(call("worker_id"), lose, nobody)
        assert await executor.run(call("worker_id"), begin, nobody) != worker


# -- time --


async def test_an_answer_that_is_there_when_the_time_is_over_is_the_calls_end(tmp_path: Path) -> None:
    """The loop is busy from before the answer until after the deadline."""
    written = tmp_path / "written"

    def stay_busy(value: Any) -> None:
        until = time.monotonic() + 1
        wait_for(lambda: written.exists() and time.monotonic() > until)

    async with ProcessExecutor([answer_late]) as executor:
        given = call("answer_late", path=str(written))
        assert await executor.run(given, begin_with(1), stay_busy) == "answered"


# -- nothing is left --


@every("apart", [False, pytest.param(True, marks=LINUX)])
async def test_what_tools_have_left_behind_ends_with_the_executor(apart: bool) -> None:
    async with ProcessExecutor([executor_tools.start_child]) as executor:
        child = await executor.run(call("start_child", apart=apart, stay=False), begin, lambda value: None)
        assert not is_gone(child)
    await wait_until_gone(child)


@every("apart", [False, pytest.param(True, marks=LINUX)])
async def test_what_a_dead_worker_has_left_behind_ends_when_its_death_is_seen(apart: bool) -> None:
    children: list[int] = []
    async with ProcessExecutor([executor_tools.start_child]) as executor:
        with pytest.raises(ToolOutcomeUnknown, match="exit code 7"):
            await executor.run(call("start_child", apart=apart, stay=False, die=True), begin, children.append)
        await wait_until_gone(children[0])


async def test_a_process_that_has_the_number_of_a_dead_worker_by_now_is_left_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as other:  # noqa: ASYNC220
        worker: Any = SimpleNamespace(pid=other.pid, returncode=0)
        kill_family(worker, new_mark())
        other.communicate(b"\n")
    assert other.returncode == 0


# -- kills --


@every("seconds", [0.0, 0.02, 0.1, 0.2, 0.3, 0.5])
async def test_a_call_that_is_cancelled_at_any_time_leaves_no_worker_behind(seconds: float) -> None:
    """While its worker starts, imports, runs; and the executor goes on afterwards."""
    with anyio.fail_after(20):
        async with ProcessExecutor(TOOLS, max_workers=1) as executor:
            with anyio.move_on_after(seconds):
                await executor.run(call("work", path=os.devnull), begin, lambda value: None)
            assert (await executor.run(call("echo", value=1), begin, nobody))["value"] == 1
    assert not [pid for pid in children() if not is_gone(pid)]


def children() -> list[int]:
    """The processes that this one has started and that are there."""
    listed = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    return [int(pid) for pid in listed.read_text().split()] if listed.exists() else []


PARENT = """
import sys, anyio
from test_processes_lost import hold_order
from streamtools.dispatch import SqliteStore
from streamtools.executors import Invocation, ProcessExecutor, run_once

async def main():
    call = Invocation(tool="hold_order", arguments={"path": sys.argv[1]}, key="order:7")
    async with ProcessExecutor([hold_order]) as executor:
        store = SqliteStore(sys.argv[2])
        await run_once(store, executor, call, lambda value: print(value, flush=True))

anyio.run(main)
"""


@LINUX
async def test_killing_the_whole_program_ends_its_workers_and_their_children_and_leaves_the_claim(
    tmp_path: Path,
) -> None:
    effects, calls = tmp_path / "effects", tmp_path / "calls"
    with program(PARENT, effects, calls) as running:
        child = int(await says(running))
        running.kill()
    await wait_until_gone(int(effects.read_text()))
    await wait_until_gone(child)
    store = SqliteStore(calls)
    claim = await store.claim("order:7", call_fingerprint("hold_order", {"path": str(effects)}))
    store.close()
    assert isinstance(claim, EndUnknown)
    assert len(effects.read_text().splitlines()) == 1
