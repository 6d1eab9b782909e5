"""Calls in worker processes: which tools they find, what comes back, how workers are used again."""

from __future__ import annotations

import os
import signal
import sys
from datetime import date
from pathlib import Path
from typing import Any

import anyio
import executor_tools
import pytest
from executor_tools import do, worker_id
from processes import begin, begin_with, call, is_gone, never, nobody, wait_until_gone
from profiles import every

from streamtools import tool
from streamtools.content import Media, Text, ToolResult
from streamtools.errors import (
    LocalProtocolError,
    ToolDefinitionError,
    ToolError,
    ToolFailed,
    ToolNotStarted,
    ToolOutcomeUnknown,
)
from streamtools.executors import ProcessExecutor
from streamtools.exports import export

pytestmark = [pytest.mark.anyio, pytest.mark.costly]


async def test_workers_are_used_again_and_bounded_and_gone_at_the_end() -> None:
    seen: list[int] = []
    async with ProcessExecutor([worker_id], max_workers=2) as executor:

        async def run() -> None:
            seen.append(await executor.run(call("worker_id"), begin, nobody))

        async with anyio.create_task_group() as group:
            for _ in range(12):
                group.start_soon(run)
    assert len(seen) == 12
    assert 1 <= len(set(seen)) <= 2
    assert os.getpid() not in seen
    assert all(is_gone(pid) for pid in seen)


async def test_a_worker_that_ends_leaves_the_outcome_of_its_call_unknown_and_is_replaced() -> None:
    async with ProcessExecutor([do, worker_id]) as executor:
        with pytest.raises(ToolOutcomeUnknown, match=r"ran do was lost \(exit code 7\)"):
            await executor.run(call("do", what="exit"), begin, nobody)
        idle = await executor.run(call("worker_id"), begin, nobody)
        os.kill(idle, signal.SIGKILL)
        await wait_until_gone(idle)
        assert await executor.run(call("worker_id"), begin, nobody) != idle


async def test_a_worker_that_ends_before_it_starts_has_not_run_the_call(tmp_path: Path, monkeypatch: Any) -> None:
    module = tmp_path / "ends_workers.py"
    module.write_text(
        f"import os\nif os.getpid() != {os.getpid()}:\n    os._exit(3)\ndef work() -> None:\n    '''Work.'''\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    async with ProcessExecutor(["ends_workers:work"]) as executor:
        with pytest.raises(ToolNotStarted, match=r"ended before the call began \(exit code 3\)"):
            await executor.run(call("work"), never, nobody)


@every("apart", [False, pytest.param(True, marks=pytest.mark.thorough)])
async def test_cancelling_a_call_ends_the_processes_that_its_tool_has_started(apart: bool) -> None:
    if apart and sys.platform != "linux":
        pytest.skip("elsewhere nothing tells a process's environment")
    children: list[int] = []
    async with ProcessExecutor([executor_tools.start_child]) as executor:
        with anyio.CancelScope() as scope:

            def reported(pid: int) -> None:
                children.append(pid)
                scope.cancel()

            await executor.run(call("start_child", apart=apart, stay=True), begin, reported)
        await wait_until_gone(children[0])


PICTURE = Media(kind="image", data="AAAA", mime_type="image/png")
TOO_MUCH = (ToolFailed, r"\Athe result of the tool do is too large \(max_message_bytes=1000\)")
ENDS: list[tuple[str, Any]] = [
    ("numbers", [0, 1, 2]),
    ("numbers within", {"a": [1], "b": [2, [3]]}),
    ("just fits", ["x" * 90] * 10),
    ("blocks", ToolResult(blocks=[Text("x"), PICTURE], value=1)),
    ("chatter", ""),
    ("large", TOO_MUCH),
    ("quotes", TOO_MUCH),
    ("lock", (ToolFailed, "the tool returned a value of type lock, which cannot be written as JSON")),
    ("report of a lock", (ToolFailed, "progress: a dict|progress: a lock")),
    ("large report", (ToolFailed, r"progress: 1002 bytes|progress: too large \(max_message_bytes=1000\)")),
    ("report without end", (ToolFailed, r"progress: too large \(max_message_bytes=1000\)")),
    ("SystemExit", (ToolFailed, r"\Athe tool do(_async)? raised SystemExit\Z")),
    ("KeyboardInterrupt", (ToolFailed, r"\Athe tool do(_async)? raised KeyboardInterrupt\Z")),
    ("BaseExceptionGroup", (ToolFailed, r"\Athe tool do(_async)? raised BaseExceptionGroup\Z")),
    ("Mute", (ToolFailed, r"\Athe tool do(_async)? raised Mute\Z")),
    ("many words", (ToolFailed, r"\Athe tool do(_async)? raised ToolError\Z")),
    ("half a character", (ToolError, r"\Ahalf a \? character\Z")),
    ("unknown", (ToolOutcomeUnknown, r"\Awho knows\Z")),
    ("not started", (ToolNotStarted, r"\Anot run\Z")),
]


async def test_a_call_ends_by_its_tools_word_and_its_worker_stays(capfd: Any) -> None:
    async with ProcessExecutor([do, executor_tools.do_async, worker_id], max_message_bytes=1000) as executor:
        worker = await executor.run(call("worker_id"), begin, nobody)
        for what, expected in ENDS:
            for name in ("do", "do_async") if what in executor_tools.RAISED else ("do",):
                given = call(name, what=what)
                if isinstance(expected, tuple):
                    with pytest.raises(expected[0], match=expected[1]) as caught:
                        await executor.run(given, begin, nobody)
                    assert type(caught.value) is expected[0]
                    assert what != "not started" or caught.value.by_tool
                else:
                    assert await executor.run(given, begin, nobody) == expected
                assert await executor.run(call("worker_id"), begin, nobody) == worker
    assert capfd.readouterr().err == "to standard output\n"


TOO_LARGE = ["endless", "endless within", "long list", "long text", "large block", "endless value"]


@pytest.mark.thorough
async def test_a_value_that_is_too_large_or_endless_is_refused_before_it_is_written() -> None:
    """The worker may not even have the memory to write it."""
    async with ProcessExecutor([do], max_message_bytes=1 << 20) as executor:
        for what in TOO_LARGE:
            with pytest.raises(ToolFailed, match=r"too large \(max_message_bytes=1048576\)"):
                await executor.run(call("do", what=what), begin_with(60), nobody)


async def test_what_cannot_travel_is_not_started_and_not_told() -> None:
    tools = [worker_id, do, "streamtools.testing.executors:echo"]
    async with ProcessExecutor(tools, max_message_bytes=1000) as executor:
        with pytest.raises(ToolNotStarted, match="max_message_bytes=1000"):
            await executor.run(call("do", what="x" * 1000), never, nobody)
        with pytest.raises(ToolNotStarted, match=r"\Anot run: the arguments of echo are not plain JSON\Z"):
            await executor.run(call("echo", value=date(2024, 1, 1)), never, nobody)


@every("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.thorough)])
async def test_tools_of_every_form_run_on_the_workers_backend(backend: Any) -> None:
    seen: list[Any] = []
    tools = [executor_tools.count, executor_tools.behind_a_wrapper, executor_tools.plain, "executor_tools:Shop.price"]
    async with ProcessExecutor(tools, backend=backend) as executor:
        assert await executor.run(call("count", to=2), begin, seen.append) == "done"
        with pytest.raises(ToolFailed, match="ended without a result"):
            await executor.run(call("count", to=0), begin, seen.append)
        assert await executor.run(call("behind_a_wrapper", number=4), begin, nobody) == 4
        assert await executor.run(call("price", article="book"), begin, nobody) == 4
        assert await executor.run(call("plain", number="4"), begin, nobody) == 5
        with pytest.raises(ToolNotStarted, match="number"):
            await executor.run(call("plain", number="four"), never, nobody)
    assert seen == [0, 1]


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
    (nested(), "define it at the top of a module"),
    (in_main, "cannot import __main__; move the tool into another module"),
    (impostor, "its module has another tool of this name"),
    ("no_such_module:tool", r"cannot be imported \(ModuleNotFoundError\)"),
    ("executor_tools:nothing", r"cannot be imported \(AttributeError\)"),
    ("executor_tools", "define it at the top of a module"),
    ("executor_tools:sys", "not callable"),
]


@every(("given", "text"), UNFINDABLE)
def test_a_tool_that_a_worker_would_not_find_is_refused_at_once(given: Any, text: str) -> None:
    with pytest.raises(ToolDefinitionError, match=text):
        ProcessExecutor([given])


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
        with pytest.raises(ToolNotStarted, match="differs in the worker; restart"):
            await executor.run(call("work", a=1), never, nobody)


async def test_without_a_program_to_start_it_says_so(monkeypatch: Any) -> None:
    executor = ProcessExecutor([worker_id])
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(LocalProtocolError, match=r"sys\.executable"):
        await executor.__aenter__()


async def test_a_worker_that_cannot_be_started_has_not_run_the_call(monkeypatch: Any) -> None:
    async with ProcessExecutor([worker_id]) as executor:
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(ToolNotStarted, match=r"no worker could be started \(FileNotFoundError\)"):
            await executor.run(call("worker_id"), never, nobody)


KEYS = {"BANK_API_KEY": "k1", "AWS_SESSION_TOKEN": "k2", "OTEL_EXPORTER_OTLP_HEADERS": "k3", "HTTPS_PROXY": "k4"}
ENVIRONMENTS: list[Any] = [
    ((), {}),
    (["HTTPS_PROXY", "OTEL_*", "NOT_SET"], {"OTEL_EXPORTER_OTLP_HEADERS": "k3", "HTTPS_PROXY": "k4"}),
    pytest.param(*[{"BANK_API_KEY": "other", "MORE": "m"}] * 2, marks=pytest.mark.thorough),
    pytest.param(os.environ, KEYS, marks=pytest.mark.thorough),
]


@every("env, passed", ENVIRONMENTS)
async def test_a_worker_sees_what_programs_need_and_what_it_is_given_and_no_keys(
    env: Any, passed: Any, monkeypatch: Any
) -> None:
    needed = {"LC_TIME": "C", "PYTHONNODEBUGRANGES": "1", "TZ": "UTC", "TMPDIR": "/tmp"}
    for name, value in (KEYS | needed).items():
        monkeypatch.setenv(name, value)
    async with ProcessExecutor([do], env=env) as executor:
        seen = await executor.run(call("do", what="environment"), begin, nobody)
    assert {name: value for name, value in seen.items() if name in KEYS or name == "MORE"} == passed
    assert needed.items() <= seen.items()
    assert seen["PATH"] == os.environ["PATH"]


def test_an_environment_that_is_none_is_refused() -> None:
    for odd in ("PATH", {"A": 1}, [b"A"]):
        with pytest.raises(TypeError, match="env: expected a mapping of strings, or a list of variable names"):
            ProcessExecutor([do], env=odd)  # type: ignore[arg-type]
