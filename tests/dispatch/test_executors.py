"""Executors: one contract for all, and what each promises by itself."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import anyio
import executor_tools
import pytest
from executor_tools import order, worker_id
from processes import is_gone, wait_until_gone

from streamtools import ToolContext, tool
from streamtools.content import Media, Text, ToolResult
from streamtools.dispatch.executors import (
    Executor,
    InProcessExecutor,
    Invocation,
    ProcessExecutor,
    SqliteStore,
    ThreadExecutor,
    Unknown,
    call_fingerprint,
    run_once,
)
from streamtools.dispatch.executors.channel import CALL, FAILED, HEADER, REFUSED, REPORT, RESULT, STARTED, frame
from streamtools.dispatch.executors.worker import Server
from streamtools.dispatch.threads import abandoned_threads
from streamtools.errors import (
    LocalProtocolError,
    ToolDefinitionError,
    ToolError,
    ToolFailed,
    ToolNotStarted,
    ToolOutcomeUnknown,
    ToolTimeout,
)
from streamtools.exports import export
from streamtools.testing import check_executor
from streamtools.testing_executors import CHECKS
from streamtools.testing_executors.tools import TOOLS

pytestmark = pytest.mark.anyio

CONTRACT_TOOLS = TOOLS["sync"]

KINDS: list[Any] = [
    pytest.param(InProcessExecutor, "async", False, id="in_process"),
    pytest.param(ThreadExecutor, "sync", False, id="thread"),
    pytest.param(ProcessExecutor, "async", True, id="process-async"),
    pytest.param(ProcessExecutor, "sync", True, id="process-sync"),
]


@pytest.mark.parametrize(("make", "tools", "own_processes"), KINDS)
async def test_it_does_what_executors_do(make: Any, tools: Any, own_processes: bool) -> None:
    checked = await check_executor(make, tools=tools, own_processes=own_processes)
    assert len(checked) == len(CHECKS) + own_processes


# -- each check sees the executor that breaks it --


class Altered:
    """An executor that does one thing otherwise."""

    def __init__(self, alter: Callable[[Executor, Invocation, Any], Any], tools: Any) -> None:
        self.inner = InProcessExecutor(tools)
        self.alter = alter

    async def __aenter__(self) -> Altered:
        await self.inner.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self.inner.__aexit__(*raised)

    async def run(self, call: Invocation, emit: Any, /) -> Any:
        return await self.alter(self.inner, call, emit)


def changed(call: Invocation, **fields: Any) -> Invocation:
    names = ("tool", "arguments", "key", "deadline", "carrier", "attempt")
    return Invocation(**{**{name: getattr(call, name) for name in names}, **fields})


async def text_for_value(inner: Executor, call: Invocation, emit: Any) -> Any:
    value = await inner.run(call, emit)
    return {**value, "value": str(value["value"])} if call.tool == "echo" else value


async def no_attempt(inner: Executor, call: Invocation, emit: Any) -> Any:
    return await inner.run(changed(call, attempt=1), emit)


async def no_carrier(inner: Executor, call: Invocation, emit: Any) -> Any:
    return await inner.run(changed(call, carrier={}), emit)


async def telling(inner: Executor, call: Invocation, emit: Any) -> Any:
    try:
        return await inner.run(call, emit)
    except ToolFailed as error:
        raise ToolFailed(f"{error}: {error.__cause__}") from error


async def wordless(inner: Executor, call: Invocation, emit: Any) -> Any:
    try:
        return await inner.run(call, emit)
    except ToolError as error:
        raise error if isinstance(error, ToolFailed) else ToolFailed("failed") from error


async def unknowing(inner: Executor, call: Invocation, emit: Any) -> Any:
    try:
        return await inner.run(call, emit)
    except ToolNotStarted as error:
        raise ToolOutcomeUnknown("who knows") from error


async def late(inner: Executor, call: Invocation, emit: Any) -> Any:
    return await inner.run(changed(call, deadline=None), emit)


async def silent(inner: Executor, call: Invocation, emit: Any) -> Any:
    return await inner.run(call, lambda value: emit(str(value).upper()))


async def not_timed_out(inner: Executor, call: Invocation, emit: Any) -> Any:
    try:
        return await inner.run(call, emit)
    except ToolTimeout as error:
        raise ToolOutcomeUnknown("late") from error


async def twice(inner: Executor, call: Invocation, emit: Any) -> Any:
    if call.tool == "mark":
        await inner.run(call, emit)
    return await inner.run(call, emit)


async def failing_at_closing(inner: Executor, call: Invocation, emit: Any) -> Any:
    try:
        return await inner.run(call, emit)
    except ToolOutcomeUnknown as error:
        raise ToolFailed("closed") from error


BROKEN = {
    text_for_value: "a_value_comes_back_as_it_is",
    no_attempt: "the_tool_is_told_its_key_and_attempt",
    no_carrier: "the_tools_span_belongs_to_the_callers",
    telling: "an_exception_tells_its_type_and_nothing_more",
    wordless: "a_tool_error_keeps_its_words",
    unknowing: "an_unknown_tool_is_not_started",
    late: "a_deadline_that_is_over_is_not_started",
    not_timed_out: "a_deadline_ends_the_work",
    silent: "progress_comes_while_the_tool_runs",
    twice: "once_means_once",
    failing_at_closing: "closing_ends_what_runs",
}


@pytest.mark.parametrize("alter", BROKEN, ids=lambda alter: alter.__name__)
async def test_a_check_names_the_promise_that_is_broken(alter: Any) -> None:
    with pytest.raises(AssertionError, match=rf"\A{BROKEN[alter]}: "):
        await check_executor(lambda tools: Altered(alter, tools))


# -- processes --


def call(name: str, key: str = "key", /, **arguments: Any) -> Invocation:
    return Invocation(tool=name, arguments=arguments, key=key)


def nobody(value: Any) -> None:
    raise AssertionError("nothing is reported here")


async def test_workers_are_used_again_and_bounded_and_gone_at_the_end() -> None:
    seen: list[int] = []
    async with ProcessExecutor([worker_id], max_workers=2) as executor:

        async def run() -> None:
            seen.append(await executor.run(call("worker_id"), nobody))

        async with anyio.create_task_group() as group:
            for _ in range(12):
                group.start_soon(run)
    assert len(seen) == 12
    assert 1 <= len(set(seen)) <= 2
    assert os.getpid() not in seen
    assert all(is_gone(pid) for pid in seen)


async def test_a_worker_that_died_idle_is_replaced_unseen() -> None:
    async with ProcessExecutor([worker_id]) as executor:
        first = await executor.run(call("worker_id"), nobody)
        os.kill(first, signal.SIGKILL)
        await wait_until_gone(first)
        assert await executor.run(call("worker_id"), nobody) != first


async def test_a_tool_that_exits_has_failed_and_its_worker_stays() -> None:
    async with ProcessExecutor([executor_tools.leave, worker_id]) as executor:
        before = await executor.run(call("worker_id"), nobody)
        with pytest.raises(ToolFailed, match="raised SystemExit"):
            await executor.run(call("leave", how="exit"), nobody)
        assert await executor.run(call("worker_id"), nobody) == before


async def test_a_worker_that_ends_in_the_middle_leaves_the_outcome_unknown() -> None:
    async with ProcessExecutor([executor_tools.leave]) as executor:
        with pytest.raises(ToolOutcomeUnknown, match=r"ran leave was lost \(exit code 7\)"):
            await executor.run(call("leave", how="at once"), nobody)


async def test_a_worker_that_ends_before_it_starts_has_not_run_the_call(tmp_path: Path, monkeypatch: Any) -> None:
    module = tmp_path / "ends_workers.py"
    module.write_text(
        f"import os\nif os.getpid() != {os.getpid()}:\n    os._exit(3)\ndef work() -> None:\n    '''Work.'''\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    async with ProcessExecutor(["ends_workers:work"]) as executor:
        with pytest.raises(ToolNotStarted, match=r"ended before it could start \(exit code 3\)"):
            await executor.run(call("work"), nobody)


async def test_cancelling_a_call_ends_the_processes_that_its_tool_has_started() -> None:
    children: list[int] = []
    async with ProcessExecutor([executor_tools.start_child]) as executor:
        with anyio.CancelScope() as scope:

            def reported(pid: int) -> None:
                children.append(pid)
                scope.cancel()

            await executor.run(call("start_child"), reported)
        await wait_until_gone(children[0])


async def test_what_a_tool_prints_or_reads_stays_out_of_the_pipes(capfd: Any) -> None:
    async with ProcessExecutor([executor_tools.chatter]) as executor:
        assert await executor.run(call("chatter"), nobody) == ""
    assert capfd.readouterr().err == "to standard output\n"


async def test_blocks_come_back_as_blocks() -> None:
    async with ProcessExecutor([executor_tools.picture]) as executor:
        seen = await executor.run(call("picture"), nobody)
    blocks = [Text("a picture"), Media(kind="image", data="AAAA", mime_type="image/png")]
    assert seen == ToolResult(blocks=blocks, value={"width": 1}, display="shown")


REFUSED_VALUES = [
    (call("large", size=5000), r"the tool large returned 5\d+ bytes \(max_message_bytes=2000\)"),
    (call("opaque"), "the tool returned a lock, which cannot be written as JSON"),
    (call("report", what="lock"), "progress: a dict|progress: a lock"),
]


@pytest.mark.parametrize(("given", "text"), REFUSED_VALUES, ids=["large", "opaque", "progress"])
async def test_what_cannot_travel_back_is_the_tools_failure(given: Invocation, text: str) -> None:
    tools = [executor_tools.large, executor_tools.opaque, executor_tools.report]
    async with ProcessExecutor(tools, max_message_bytes=2000) as executor:
        with pytest.raises(ToolFailed, match=text):
            await executor.run(given, nobody)
        assert await executor.run(call("large", size=3), nobody) == "xxx"


async def test_a_report_that_is_too_large_is_the_tools_failure() -> None:
    async with ProcessExecutor([executor_tools.report], max_message_bytes=900) as executor:
        with pytest.raises(ToolFailed, match=r"progress: 1002 bytes \(max_message_bytes=900\)"):
            await executor.run(call("report", what="large"), nobody)


async def test_a_call_that_is_too_large_is_not_started() -> None:
    async with ProcessExecutor([order], max_message_bytes=1000) as executor:
        with pytest.raises(ToolNotStarted, match="max_message_bytes=1000"):
            await executor.run(call("order", path="x" * 1000), nobody)


async def test_arguments_that_are_no_plain_json_are_not_started_and_not_told() -> None:
    async with ProcessExecutor(
        [executor_tools.Shop.price, "streamtools.testing_executors.tools:echo_sync"]
    ) as executor:
        with pytest.raises(ToolNotStarted, match=r"\Anot run: the arguments of echo are no plain JSON\Z"):
            await executor.run(call("echo", value=date(2024, 1, 1)), nobody)


async def test_a_thread_that_a_tool_has_left_behind_is_not_heard_in_the_next_call() -> None:
    async with ProcessExecutor([executor_tools.haunt, worker_id], max_workers=1) as executor:
        await executor.run(call("haunt"), lambda value: None)
        for _ in range(50):
            await executor.run(call("worker_id"), nobody)


async def test_that_a_call_has_not_run_is_not_for_its_tool_to_say() -> None:
    async with ProcessExecutor([executor_tools.pretend]) as executor:
        with pytest.raises(ToolFailed, match="not run"):
            await executor.run(call("pretend"), nobody)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
async def test_an_async_function_behind_a_wrapper_runs_on_the_workers_backend(backend: Any) -> None:
    async with ProcessExecutor([executor_tools.behind_a_wrapper], backend=backend) as executor:
        assert await executor.run(call("behind_a_wrapper", number=4), nobody) == 4


def nested() -> Any:
    @tool(require_hints=False)
    def inner():  # type: ignore[no-untyped-def]
        """Nobody finds it."""

    return inner


@tool(name="worker_id")
def impostor() -> int:
    """Another tool."""
    return 0


def in_main() -> None:
    """As a function of a script."""


in_main.__module__ = "__main__"
impostor.fn.__module__, impostor.fn.__qualname__ = "executor_tools", "worker_id"

UNFINDABLE = [
    (nested(), "define it at a module's top"),
    (in_main, "cannot import __main__; move the tool into a module"),
    (impostor, "its module has another tool there"),
    ("no_such_module:tool", r"cannot be imported \(ModuleNotFoundError\)"),
    ("executor_tools:nothing", r"cannot be imported \(AttributeError\)"),
    ("executor_tools", "define it at a module's top"),
    ("executor_tools:time", "not callable"),
]


@pytest.mark.parametrize(("given", "text"), UNFINDABLE, ids=[text for _, text in UNFINDABLE])
def test_a_tool_that_a_worker_would_not_find_is_refused_at_once(given: Any, text: str) -> None:
    with pytest.raises(ToolDefinitionError, match=text):
        ProcessExecutor([given])


async def test_functions_and_places_are_tools_too() -> None:
    async with ProcessExecutor([executor_tools.plain, "executor_tools:Shop.price"]) as executor:
        assert await executor.run(call("plain", number=4), nobody) == 5
        assert await executor.run(call("price", article="book"), nobody) == 4


def test_an_exported_tool_or_a_name_twice_is_refused() -> None:
    with pytest.raises(TypeError, match="the tool 'worker_id' itself"):
        ProcessExecutor([export(worker_id, "openai.chat_completions")])
    with pytest.raises(ValueError, match="two tools are called 'worker_id'"):
        ProcessExecutor([worker_id, worker_id])


async def test_a_worker_whose_module_has_changed_refuses_the_call(tmp_path: Path, monkeypatch: Any) -> None:
    module = tmp_path / "changing_tools.py"
    module.write_text("def work(a: int) -> int:\n    '''Work.'''\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    async with ProcessExecutor(["changing_tools:work"]) as executor:
        module.write_text("def work(a: int, b: int = 0) -> int:\n    '''Work, in another way.'''\n    return 22\n")
        with pytest.raises(ToolNotStarted, match="another one in the worker; restart"):
            await executor.run(call("work", a=1), nobody)


async def test_without_a_program_to_start_it_says_so(monkeypatch: Any) -> None:
    executor = ProcessExecutor([worker_id])
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(LocalProtocolError, match=r"sys\.executable"):
        await executor.__aenter__()


async def test_a_worker_that_cannot_be_started_has_not_run_the_call(monkeypatch: Any) -> None:
    async with ProcessExecutor([worker_id]) as executor:
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(ToolNotStarted, match=r"no worker could be started \(FileNotFoundError\)"):
            await executor.run(call("worker_id"), nobody)


# -- kills --


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.1, 0.2, 0.3, 0.5])
async def test_a_call_that_is_cancelled_at_any_time_leaves_no_worker_behind(seconds: float) -> None:
    """While its worker starts, imports, runs; and the executor goes on afterwards."""
    with anyio.fail_after(20):
        async with ProcessExecutor(CONTRACT_TOOLS, max_workers=1) as executor:
            with anyio.move_on_after(seconds):
                await executor.run(call("work", path=os.devnull), lambda value: None)
            assert (await executor.run(call("echo", value=1), nobody))["value"] == 1
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
                await run_once(store, ordered, lambda: executor.run(ordered, kill))
        store.close()
    assert len(effects.read_text().splitlines()) == 1


async def test_after_a_restart_a_call_that_had_ended_gives_its_recorded_result(tmp_path: Path) -> None:
    given, answers = call("worker_id"), []
    for _ in range(2):
        store = SqliteStore(tmp_path / "calls")
        async with ProcessExecutor([worker_id]) as executor:
            answers.append(await run_once(store, given, lambda: executor.run(given, nobody)))
        store.close()
    assert answers[0].value == answers[1].value
    assert [answer.recorded for answer in answers] == [False, True]


PARENT = """
import sys, anyio
from executor_tools import order
from streamtools.dispatch.executors import Invocation, ProcessExecutor, SqliteStore, run_once

async def main():
    call = Invocation(tool="order", arguments={"path": sys.argv[1]}, key="order:7")
    async with ProcessExecutor([order]) as executor:
        store = SqliteStore(sys.argv[2])
        await run_once(store, call, lambda: executor.run(call, lambda value: print(value, flush=True)))

anyio.run(main)
"""


async def test_killing_the_whole_program_ends_its_workers_and_leaves_the_claim(tmp_path: Path) -> None:
    effects, calls = tmp_path / "effects", tmp_path / "calls"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PARENT, str(effects), str(calls)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as program:  # noqa: ASYNC220 - it is to be killed
        assert program.stdout is not None
        assert program.stdout.readline() == b"ordered\n"
        program.kill()
    await wait_until_gone(int(effects.read_text()))
    store = SqliteStore(calls)
    claim = await store.claim("order:7", call_fingerprint("order", {"path": str(effects)}))
    store.close()
    assert isinstance(claim, Unknown)
    assert len(effects.read_text().splitlines()) == 1


# -- in this process --


@tool
async def let_out() -> None:
    """Let out a cancellation that nobody has asked of it, as of a cancelled task that it awaited."""
    raise asyncio.CancelledError


@tool
async def crowd() -> None:
    """Run tasks of its own, one of which fails when it is cancelled."""

    async def fail_late() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise KeyError("late")

    async with anyio.create_task_group() as group:
        group.start_soon(fail_late)
        group.start_soon(anyio.sleep_forever)
        await anyio.sleep_forever()


@tool
def stay(gate: Any, ctx: ToolContext) -> None:
    """Stay until it is let go."""
    GATES[gate].wait()


GATES: dict[str, threading.Event] = {}


def test_each_executor_takes_the_tools_that_it_can_run() -> None:
    with pytest.raises(ToolDefinitionError, match="'stay': is sync; give it to a ThreadExecutor or a ProcessExecutor"):
        InProcessExecutor([stay])
    with pytest.raises(ToolDefinitionError, match="is async; give it to an InProcessExecutor"):
        ThreadExecutor([let_out])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_nobody_asked_for_is_the_tools_failure() -> None:
    async with InProcessExecutor([let_out]) as executor:
        with pytest.raises(ToolFailed, match="let_out raised CancelledError"):
            await executor.run(call("let_out"), nobody)


async def test_a_tool_with_tasks_of_its_own_that_fail_on_their_way_out_has_ended() -> None:
    async with InProcessExecutor([crowd]) as executor:
        given = Invocation(tool="crowd", arguments={}, key="k", deadline=time.time() + 0.1)
        with pytest.raises((ToolTimeout, ToolFailed)):
            await executor.run(given, nobody)


@pytest.mark.parametrize("make", [InProcessExecutor, ProcessExecutor])
async def test_what_a_generator_yields_is_progress_and_its_result_is_the_value(make: Any) -> None:
    seen: list[Any] = []
    async with make([executor_tools.count, executor_tools.endless]) as executor:
        assert await executor.run(call("count", to=2), seen.append) == "done"
        with pytest.raises(ToolFailed, match="ended without a result"):
            await executor.run(call("endless"), seen.append)
    assert seen == [0, 1, "on and on"]


async def test_an_executor_is_entered_once_and_used_inside() -> None:
    executor = InProcessExecutor([let_out])
    with pytest.raises(ToolNotStarted, match="the executor was not entered; run calls inside `async with executor`"):
        await executor.run(call("let_out"), nobody)
    async with executor:
        pass
    with pytest.raises(LocalProtocolError, match="entered once"):
        await executor.__aenter__()


async def test_threads_that_were_given_up_are_bounded() -> None:
    wait_for(lambda: not abandoned_threads())  # of other tests
    GATES["bounded"] = threading.Event()
    try:
        async with ThreadExecutor([stay], max_threads=8, max_abandoned_threads=2) as executor:
            ends = []
            for _ in range(4):
                given = Invocation(tool="stay", arguments={"gate": "bounded"}, key="k", deadline=time.time() + 0.05)
                with pytest.raises(ToolError) as caught:
                    await executor.run(given, nobody)
                ends.append(type(caught.value))
        assert ends == [ToolTimeout, ToolTimeout, ToolNotStarted, ToolNotStarted]
    finally:
        GATES["bounded"].set()


async def test_a_call_that_waits_for_its_turn_when_its_deadline_comes_has_not_started() -> None:
    GATES["turn"] = threading.Event()
    ends: list[type[BaseException]] = []

    async def run(seconds: float) -> None:
        try:
            given = Invocation(tool="stay", arguments={"gate": "turn"}, key="k", deadline=time.time() + seconds)
            await executor.run(given, nobody)
        except ToolError as error:
            ends.append(type(error))
            GATES["turn"].set()

    async with ThreadExecutor([stay], max_threads=1) as executor, anyio.create_task_group() as group:
        group.start_soon(run, 20)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(run, 0.05)
    assert ends == [ToolNotStarted]


# -- a worker's own side, in this process --


class Pipes:
    """A worker's server between two pipes, in a thread; `died` is set where a process would have ended itself."""

    def __init__(self) -> None:
        taken, given = os.pipe()
        self.to_worker = os.fdopen(given, "wb", buffering=0)
        self.from_worker = io.BytesIO()
        self.died = threading.Event()
        source = os.fdopen(taken, "rb")
        self.server = Server(source, self.from_worker, self.died.set)
        self.thread = threading.Thread(target=self.server.serve)
        self.thread.start()
        self._source = source

    def send(self, given: Invocation, made: Any, place: str, backend: str = "asyncio") -> None:
        request = {
            "call": asdict(given),
            "reference": place,
            "fingerprint": made.fingerprint,
            "max_message_bytes": 10_000,
            "backend": backend,
        }
        self.to_worker.write(frame(CALL, json.dumps(request).encode()))

    def close(self) -> list[bytes]:
        """End it; the kinds of all that it has said."""
        self.to_worker.close()
        self.thread.join(20)
        self._source.close()
        kinds, self.from_worker = [], io.BytesIO(self.from_worker.getvalue())
        while header := self.from_worker.read(HEADER.size):
            length, kind = HEADER.unpack(header)
            self.from_worker.read(length)
            kinds.append(kind)
        return kinds


HERE = "executor_tools:"


def test_a_worker_keeps_the_deadline_itself_if_its_executor_cannot() -> None:
    pipes, (begin, end) = Pipes(), gate("deadline")
    given = Invocation(tool="wait_at", arguments={"name": "deadline"}, key="k", deadline=time.time() - 5)
    pipes.send(given, executor_tools.wait_at, HERE + "wait_at")
    assert begin.wait(20)
    assert pipes.died.wait(20)
    end.set()
    assert pipes.close() == [STARTED, RESULT]


def test_a_worker_whose_executor_goes_while_a_tool_runs_ends_at_once() -> None:
    pipes, (begin, end) = Pipes(), gate("gone")
    pipes.send(call("wait_at", name="gone"), executor_tools.wait_at, HERE + "wait_at")
    assert begin.wait(20)
    pipes.to_worker.close()
    assert pipes.died.wait(20)
    end.set()
    pipes.close()


def test_a_worker_that_is_idle_ends_by_itself_when_its_executor_goes() -> None:
    pipes = Pipes()
    assert pipes.close() == []
    assert not pipes.died.is_set()


def test_a_worker_answers_each_call_with_one_last_word() -> None:
    pipes = Pipes()
    given = Invocation(tool="plain", arguments={"number": 1}, key="k", deadline=time.time() + 60)
    plain = tool(executor_tools.plain)
    pipes.send(given, plain, HERE + "plain")
    pipes.send(call("plain", wrong=1), plain, HERE + "plain")
    pipes.send(call("plain", number=1), worker_id, HERE + "plain")
    pipes.send(call("large", size=20_000), executor_tools.large, HERE + "large")
    pipes.send(call("leave", how="exit"), executor_tools.leave, HERE + "leave")
    pipes.send(call("behind_a_wrapper", number=1), executor_tools.behind_a_wrapper, HERE + "behind_a_wrapper", "trio")
    pipes.send(call("report", what="lock"), executor_tools.report, HERE + "report")
    pipes.send(call("report", what="large"), executor_tools.report, HERE + "report")
    pipes.send(call("wait_at", name="last"), executor_tools.wait_at, HERE + "wait_at")
    begin, end = gate("last")
    assert begin.wait(20)
    end.set()
    wait_for(lambda: pipes.from_worker.getvalue().count(b'"value"') == 4)
    kinds = pipes.close()
    expected = [STARTED, RESULT, REFUSED, REFUSED, STARTED, FAILED, STARTED, FAILED, STARTED, RESULT]
    assert kinds == [*expected, STARTED, FAILED, STARTED, REPORT, RESULT, STARTED, RESULT]


def gate(name: str) -> Any:
    """Two events: the tool has begun, and it may end."""
    return executor_tools.GATES.setdefault(name, (threading.Event(), threading.Event()))


def wait_for(holds: Callable[[], bool]) -> None:
    pause, until = threading.Event(), time.monotonic() + 20
    while not holds() and time.monotonic() < until:
        pause.wait(0.005)
    assert holds()
