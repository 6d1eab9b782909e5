"""Worker processes that are lost, killed, forked or late: what is said of the call, and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import executor_tools
import pytest
from executor_tools import order, worker_id
from processes import (
    PATIENCE_S,
    begin,
    begin_with,
    call,
    is_gone,
    never,
    nobody,
    wait_for,
    wait_until_gone,
)

from streamtools.dispatch.executors import EndUnknown, ProcessExecutor, SqliteStore, call_fingerprint, run_once
from streamtools.dispatch.executors.worker import kill_family, new_mark
from streamtools.errors import ToolNotStarted, ToolOutcomeUnknown, ToolTimeout
from streamtools.testing.executors import TOOLS

pytestmark = [pytest.mark.anyio, pytest.mark.sweep]

CONTRACT_TOOLS = TOOLS["sync"]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing tells a process's environment")


# -- the handshake --


async def test_workers_are_out_of_reach_of_ctrl_c() -> None:
    async with ProcessExecutor([worker_id]) as executor:
        worker = await executor.run(call("worker_id"), begin, nobody)
        assert os.getsid(worker) == worker


async def test_a_call_whose_begin_is_refused_leaves_its_worker_to_the_next() -> None:
    def refuse() -> None:
        raise KeyError("refused")

    async with ProcessExecutor([worker_id]) as executor:
        before = await executor.run(call("worker_id"), begin, nobody)
        for _ in range(3):
            with pytest.raises(KeyError):
                await executor.run(call("worker_id"), begin_with(60, refuse), nobody)
        assert await executor.run(call("worker_id"), begin, nobody) == before


async def test_a_worker_that_is_lost_while_its_call_begins_leaves_the_outcome_unknown() -> None:
    """Also where "go" could not be written: a claim that was made has to stay."""
    async with ProcessExecutor([worker_id]) as executor:
        worker = await executor.run(call("worker_id"), begin, nobody)
        lose = begin_with(60, partial(os.kill, worker, signal.SIGKILL), partial(wait_until_gone, worker))
        with pytest.raises(ToolOutcomeUnknown, match="signal 9"):
            await executor.run(call("worker_id"), lose, nobody)
        assert await executor.run(call("worker_id"), begin, nobody) != worker


async def test_a_worker_that_is_lost_while_its_call_is_refused_harms_no_other_call() -> None:
    def refuse() -> None:
        raise KeyError("refused")

    async with ProcessExecutor([worker_id]) as executor:
        worker = await executor.run(call("worker_id"), begin, nobody)
        lose = begin_with(60, partial(os.kill, worker, signal.SIGKILL), partial(wait_until_gone, worker), refuse)
        with pytest.raises(KeyError):
            await executor.run(call("worker_id"), lose, nobody)
        assert await executor.run(call("worker_id"), begin, nobody) != worker


async def test_a_call_begins_once_however_many_workers_are_tried() -> None:
    begun: list[None] = []
    async with ProcessExecutor([worker_id, executor_tools.meet_two], max_workers=2) as executor:
        workers: list[int] = []

        async def meet() -> None:
            workers.append(await executor.run(call("meet_two", path=str(gate)), begin, nobody))

        async with anyio.TemporaryDirectory() as directory, anyio.create_task_group() as group:
            gate = Path(directory, "gate")
            group.start_soon(meet)
            await meet()
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
            await wait_until_gone(worker)
        fresh = await executor.run(call("worker_id"), begin_with(60, partial(begun.append, None)), nobody)
    assert len(set(workers)) == 2
    assert fresh not in workers
    assert len(begun) == 1


async def test_a_worker_that_is_never_ready_is_given_up(tmp_path: Path, monkeypatch: Any) -> None:
    module = tmp_path / "slow_tools.py"
    module.write_text(
        "import os, time\n"
        f"if os.getpid() != {os.getpid()}:\n    time.sleep(600)\n"
        "def work() -> None:\n    '''Work.'''\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    async with ProcessExecutor(["slow_tools:work"], start_timeout_s=1) as executor:
        with pytest.raises(ToolNotStarted, match="no worker for work was ready within 1 s"):
            await executor.run(call("work"), never, nobody)


async def test_an_error_of_the_one_who_takes_reports_comes_out_and_ends_the_work(tmp_path: Path) -> None:
    def refuse(value: Any) -> None:
        raise KeyError(value)

    effects = tmp_path / "effects"
    async with ProcessExecutor([order]) as executor:
        with pytest.raises(KeyError, match="ordered"):
            await executor.run(call("order", path=str(effects)), begin, refuse)
        await wait_until_gone(int(effects.read_text()))


async def test_closing_tells_a_call_that_runs_from_one_that_waits(tmp_path: Path) -> None:
    effects, ends = tmp_path / "effects", dict[str, type[BaseException]]()
    started = anyio.Event()

    async def run(name: str, begins: Any) -> None:
        try:
            await executor.run(call("order", path=str(effects)), begins, lambda value: started.set())
        except (ToolOutcomeUnknown, ToolNotStarted) as error:
            ends[name] = type(error)

    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group, ProcessExecutor([order], max_workers=1) as executor:
            group.start_soon(run, "runs", begin)
            await started.wait()
            group.start_soon(run, "waits", never)
            await anyio.wait_all_tasks_blocked()
    assert ends == {"runs": ToolOutcomeUnknown, "waits": ToolNotStarted}
    assert len(effects.read_text().splitlines()) == 1


# -- time --


async def test_an_answer_that_is_there_when_the_time_is_over_is_the_calls_end(tmp_path: Path) -> None:
    """The loop is busy from before the answer until after the deadline."""
    written = tmp_path / "written"

    def stay_busy(value: Any) -> None:
        until = time.monotonic() + 1
        wait_for(lambda: written.exists() and time.monotonic() > until)

    async with ProcessExecutor([executor_tools.answer_late]) as executor:
        given = call("answer_late", path=str(written))
        assert await executor.run(given, begin_with(1), stay_busy) == "answered"


async def test_an_answer_that_is_there_when_its_worker_is_lost_is_the_calls_end(tmp_path: Path) -> None:
    written = tmp_path / "written"

    def lose(worker: int) -> None:
        wait_for(written.exists)
        os.kill(worker, signal.SIGKILL)
        wait_for(partial(is_gone, worker))

    async with ProcessExecutor([executor_tools.answer_late]) as executor:
        assert await executor.run(call("answer_late", path=str(written)), begin, lose) == "answered"


async def test_a_stepped_clock_changes_no_deadline(tmp_path: Path, monkeypatch: Any) -> None:
    real = time.time

    def step() -> None:
        monkeypatch.setattr(time, "time", lambda: real() + 3600)

    async with ProcessExecutor([executor_tools.answer_late]) as executor:
        given = call("answer_late", path=str(tmp_path / "written"))
        assert await executor.run(given, begin_with(30, step), lambda value: None) == "answered"


async def test_a_call_that_began_without_any_time_left_is_out_of_time() -> None:
    async with ProcessExecutor([worker_id]) as executor:
        with pytest.raises(ToolTimeout):
            await executor.run(call("worker_id"), begin_with(0), nobody)


# -- answers go to their own call --


@pytest.mark.parametrize("how", ["return", "raise"])
async def test_a_forked_child_that_comes_back_through_the_tool_answers_nobody(how: str) -> None:
    async with ProcessExecutor([executor_tools.fork_and_return, executor_tools.plain], max_workers=1) as executor:
        for number in range(3):
            worker = await executor.run(call("fork_and_return", how=how), begin, nobody)
            assert worker > 0
            assert await executor.run(call("plain", number=number), begin, nobody) == number + 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
async def test_a_forked_child_of_a_coroutine_leaves_the_workers_event_loop_whole(backend: Any) -> None:
    tools = [executor_tools.fork_and_return_async, executor_tools.plain]
    async with ProcessExecutor(tools, max_workers=1, backend=backend) as executor:
        for number in range(3):
            assert await executor.run(call("fork_and_return_async"), begin_with(60), nobody) > 0
            assert await executor.run(call("plain", number=number), begin, nobody) == number + 1


async def test_what_a_forked_child_reports_is_not_heard() -> None:
    seen: list[Any] = []
    async with ProcessExecutor([executor_tools.fork_and_report]) as executor:
        assert await executor.run(call("fork_and_report"), begin, seen.append) == "done"
    assert seen == ["from the worker"]


@LINUX
@pytest.mark.parametrize(("number", "who"), [(1, "child"), (2, "worker")], ids=["another_process", "another_call"])
async def test_a_frame_that_is_not_of_the_worker_and_its_call_ends_the_worker(number: int, who: str) -> None:
    async with ProcessExecutor([executor_tools.forge, executor_tools.plain]) as executor:
        with pytest.raises(ToolOutcomeUnknown, match="was lost"):
            await executor.run(call("forge", number=number, who=who), begin, nobody)
        assert await executor.run(call("plain", number=1), begin, nobody) == 2


@LINUX
async def test_an_answer_before_its_call_is_given_to_nobody(tmp_path: Path) -> None:
    """Some frame for the next call is in the pipe; that call goes to another worker, and begins once."""
    begun: list[None] = []
    forged = tmp_path / "forged"
    async with ProcessExecutor([executor_tools.forge, executor_tools.plain]) as executor:
        await executor.run(call("forge", number=2, who="late", path=str(forged)), begin, nobody)
        wait_for(forged.exists)
        counted = begin_with(60, partial(begun.append, None))
        assert await executor.run(call("plain", number=1), counted, nobody) == 2
    assert len(begun) == 1


# -- nothing is left --


async def test_a_child_that_holds_the_pipe_of_a_dead_worker_delays_nobody() -> None:
    children: list[int] = []
    with anyio.fail_after(PATIENCE_S):
        async with ProcessExecutor([executor_tools.fork_and_die]) as executor:
            with pytest.raises(ToolOutcomeUnknown, match="exit code 7"):
                await executor.run(call("fork_and_die"), begin, children.append)
            await wait_until_gone(children[0])


@LINUX
async def test_cancelling_a_call_ends_children_in_sessions_of_their_own() -> None:
    children: list[int] = []
    async with ProcessExecutor([executor_tools.hold_child]) as executor:
        with anyio.CancelScope() as scope:

            def reported(pid: int) -> None:
                children.append(pid)
                scope.cancel()

            await executor.run(call("hold_child"), begin, reported)
        await wait_until_gone(children[0])


@pytest.mark.parametrize("apart", [False, pytest.param(True, marks=LINUX)], ids=["in_its_group", "apart"])
async def test_what_tools_have_left_behind_ends_with_the_executor(apart: bool) -> None:
    async with ProcessExecutor([executor_tools.leave_child]) as executor:
        child = await executor.run(call("leave_child", apart=apart), begin, lambda value: None)
        assert not is_gone(child)
    await wait_until_gone(child)


@pytest.mark.parametrize("apart", [False, pytest.param(True, marks=LINUX)], ids=["in_its_group", "apart"])
async def test_what_a_dead_worker_has_left_behind_ends_when_its_death_is_seen(apart: bool) -> None:
    children: list[int] = []
    async with ProcessExecutor([executor_tools.leave_child]) as executor:
        with pytest.raises(ToolOutcomeUnknown, match="exit code 7"):
            await executor.run(call("leave_child", apart=apart, die=True), begin, children.append)
        await wait_until_gone(children[0])


async def test_a_process_that_has_the_number_of_a_dead_worker_by_now_is_left_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as other:  # noqa: ASYNC220
        worker: Any = SimpleNamespace(pid=other.pid, returncode=0)
        kill_family(worker, new_mark())
        other.communicate(b"\n")
    assert other.returncode == 0


async def test_what_a_worker_that_died_idle_has_left_behind_ends_with_the_executor() -> None:
    async with ProcessExecutor([executor_tools.leave_child, worker_id]) as executor:
        child = await executor.run(call("leave_child", apart=False), begin, lambda value: None)
        worker = await executor.run(call("worker_id"), begin, nobody)
        os.kill(worker, signal.SIGKILL)
        await wait_until_gone(worker)
    await wait_until_gone(child)


# -- kills --


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.1, 0.2, 0.3, 0.5])
async def test_a_call_that_is_cancelled_at_any_time_leaves_no_worker_behind(seconds: float) -> None:
    """While its worker starts, imports, runs; and the executor goes on afterwards."""
    with anyio.fail_after(20):
        async with ProcessExecutor(CONTRACT_TOOLS, max_workers=1) as executor:
            with anyio.move_on_after(seconds):
                await executor.run(call("work", path=os.devnull), begin, lambda value: None)
            assert (await executor.run(call("echo", value=1), begin, nobody))["value"] == 1
    assert not [pid for pid in children() if not is_gone(pid)]


def children() -> list[int]:
    """The processes that this one has started and that are there."""
    listed = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    return [int(pid) for pid in listed.read_text().split()] if listed.exists() else []


async def test_killing_a_worker_in_the_middle_leaves_one_effect_and_a_restart_does_not_guess(tmp_path: Path) -> None:
    effects, ordered = tmp_path / "effects", call("order", "order:7", path=str(tmp_path / "effects"))
    for restart in range(2):
        store = SqliteStore(tmp_path / "calls")
        async with ProcessExecutor([order]) as executor:

            def kill(value: Any) -> None:
                os.kill(int(effects.read_text()), signal.SIGKILL)

            with pytest.raises(ToolOutcomeUnknown, match="begun before" if restart else "signal 9"):
                await run_once(store, executor, ordered, kill)
        store.close()
    assert len(effects.read_text().splitlines()) == 1


async def test_after_a_restart_a_call_that_had_ended_gives_its_recorded_result(tmp_path: Path) -> None:
    given, answers = call("worker_id"), []
    for _ in range(2):
        store = SqliteStore(tmp_path / "calls")
        async with ProcessExecutor([worker_id]) as executor:
            answers.append(await run_once(store, executor, given))
        store.close()
    assert answers[0].value == answers[1].value
    assert [answer.recorded for answer in answers] == [False, True]


PARENT = """
import sys, anyio
from executor_tools import hold_order
from streamtools.dispatch.executors import Invocation, ProcessExecutor, SqliteStore, run_once

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
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PARENT, str(effects), str(calls)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as program:  # noqa: ASYNC220 - it is to be killed
        assert program.stdout is not None
        child = int(program.stdout.readline())
        program.kill()
    await wait_until_gone(int(effects.read_text()))
    await wait_until_gone(child)
    store = SqliteStore(calls)
    claim = await store.claim("order:7", call_fingerprint("hold_order", {"path": str(effects)}))
    store.close()
    assert isinstance(claim, EndUnknown)
    assert len(effects.read_text().splitlines()) == 1


# -- forks of the program ----------------------------------------------------------------------------------------------

FORKING = """
import asyncio, os, sys
from executor_tools import wait_for_file, worker_id
from processes import begin, call, nobody
from streamtools.dispatch.executors import ProcessExecutor
from streamtools.errors import ToolNotStarted

async def use_the_parents(executor):
    try:
        print("ran", await executor.run(call("worker_id"), begin, nobody))
    except ToolNotStarted as error:
        print(str(error).replace(str(os.getppid()), "PARENT"))
    await executor.__aexit__(None, None, None)

def child_that_uses_it():
    loop = asyncio.new_event_loop()
    executor = ProcessExecutor([worker_id])
    loop.run_until_complete(executor.__aenter__())
    before = loop.run_until_complete(executor.run(call("worker_id"), begin, nobody))
    if os.fork() == 0:
        asyncio.set_event_loop(other := asyncio.new_event_loop())
        other.run_until_complete(use_the_parents(executor))
        sys.stdout.flush()
        os._exit(0)
    os.wait()
    after = loop.run_until_complete(executor.run(call("worker_id"), begin, nobody))
    print("the same worker" if after == before else "another worker")
    loop.run_until_complete(executor.__aexit__(None, None, None))

async def child_that_ends_its_loop():
    runs = asyncio.Event()
    async with ProcessExecutor([wait_for_file]) as executor:
        waits = call("wait_for_file", path=sys.argv[1])
        running = asyncio.create_task(executor.run(waits, begin, lambda _: runs.set()))
        await runs.wait()
        if os.fork() == 0:
            sys.stderr = open(os.devnull, "w")
            sys.exit()
        os.wait()
        open(sys.argv[1], "w").close()
        print("its call ended" if await asyncio.wait_for(running, 20) else "")

child_that_uses_it()
asyncio.run(child_that_ends_its_loop())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks on Windows")
def test_a_forked_child_of_the_program_leaves_the_workers_to_its_parent(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FORKING, str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False)
    assert done.stdout.splitlines() == [
        "not run: the workers are those of process PARENT; make an executor in this one",
        "the same worker",
        "its call ended",
    ], done.stderr
