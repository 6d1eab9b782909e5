"""Calls in worker processes: which tools they find, what comes back, how workers are used again."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import anyio
import executor_tools
import pytest
from executor_tools import order, worker_id
from processes import begin, begin_with, call, is_gone, never, nobody, wait_until_gone

from streamtools import tool
from streamtools.content import Media, Text, ToolResult
from streamtools.dispatch.executors import ProcessExecutor
from streamtools.errors import (
    LocalProtocolError,
    ToolDefinitionError,
    ToolError,
    ToolFailed,
    ToolNotStarted,
    ToolOutcomeUnknown,
)
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


async def test_a_worker_that_died_idle_is_replaced_unseen() -> None:
    async with ProcessExecutor([worker_id]) as executor:
        first = await executor.run(call("worker_id"), begin, nobody)
        os.kill(first, signal.SIGKILL)
        await wait_until_gone(first)
        assert await executor.run(call("worker_id"), begin, nobody) != first


async def test_a_tool_that_exits_has_failed_and_its_worker_stays() -> None:
    async with ProcessExecutor([executor_tools.leave, worker_id]) as executor:
        before = await executor.run(call("worker_id"), begin, nobody)
        with pytest.raises(ToolFailed, match="raised SystemExit"):
            await executor.run(call("leave", how="exit"), begin, nobody)
        assert await executor.run(call("worker_id"), begin, nobody) == before


async def test_a_worker_that_ends_in_the_middle_leaves_the_outcome_unknown() -> None:
    async with ProcessExecutor([executor_tools.leave]) as executor:
        with pytest.raises(ToolOutcomeUnknown, match=r"ran leave was lost \(exit code 7\)"):
            await executor.run(call("leave", how="at once"), begin, nobody)


async def test_a_worker_that_ends_before_it_starts_has_not_run_the_call(tmp_path: Path, monkeypatch: Any) -> None:
    module = tmp_path / "ends_workers.py"
    module.write_text(
        f"import os\nif os.getpid() != {os.getpid()}:\n    os._exit(3)\ndef work() -> None:\n    '''Work.'''\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    async with ProcessExecutor(["ends_workers:work"]) as executor:
        with pytest.raises(ToolNotStarted, match=r"ended before it could start \(exit code 3\)"):
            await executor.run(call("work"), never, nobody)


async def test_cancelling_a_call_ends_the_processes_that_its_tool_has_started() -> None:
    children: list[int] = []
    async with ProcessExecutor([executor_tools.start_child]) as executor:
        with anyio.CancelScope() as scope:

            def reported(pid: int) -> None:
                children.append(pid)
                scope.cancel()

            await executor.run(call("start_child"), begin, reported)
        await wait_until_gone(children[0])


async def test_what_a_tool_prints_or_reads_stays_out_of_the_pipes(capfd: Any) -> None:
    async with ProcessExecutor([executor_tools.chatter]) as executor:
        assert await executor.run(call("chatter"), begin, nobody) == ""
    assert capfd.readouterr().err == "to standard output\n"


async def test_blocks_come_back_as_blocks() -> None:
    async with ProcessExecutor([executor_tools.picture]) as executor:
        seen = await executor.run(call("picture"), begin, nobody)
    blocks = [Text("a picture"), Media(kind="image", data="AAAA", mime_type="image/png")]
    assert seen == ToolResult(blocks=blocks, value={"width": 1}, display="shown")


REFUSED_VALUES = [
    (call("large", size=5000), r"the tool large returned more than that \(max_message_bytes=2000\)"),
    (call("opaque"), "the tool returned a value of type lock, which cannot be written as JSON"),
    (call("report", what="lock"), "progress: a dict|progress: a lock"),
]


async def test_what_cannot_travel_back_is_the_tools_failure() -> None:
    tools = [executor_tools.large, executor_tools.opaque, executor_tools.report]
    async with ProcessExecutor(tools, max_message_bytes=2000) as executor:
        for given, text in REFUSED_VALUES:
            with pytest.raises(ToolFailed, match=text):
                await executor.run(given, begin, nobody)
            assert await executor.run(call("large", size=3), begin, nobody) == "xxx"


async def test_a_report_that_is_too_large_is_the_tools_failure() -> None:
    async with ProcessExecutor([executor_tools.report], max_message_bytes=900) as executor:
        with pytest.raises(ToolFailed, match=r"progress: 1002 bytes|progress: too large \(max_message_bytes=900\)"):
            await executor.run(call("report", what="large"), begin, nobody)


async def test_a_call_that_is_too_large_is_not_started() -> None:
    async with ProcessExecutor([order], max_message_bytes=1000) as executor:
        with pytest.raises(ToolNotStarted, match="max_message_bytes=1000"):
            await executor.run(call("order", path="x" * 1000), never, nobody)


async def test_arguments_that_are_no_plain_json_are_not_started_and_not_told() -> None:
    async with ProcessExecutor([executor_tools.Shop.price, "streamtools.testing.executors:echo_sync"]) as executor:
        with pytest.raises(ToolNotStarted, match=r"\Anot run: the arguments of echo are no plain JSON\Z"):
            await executor.run(call("echo", value=date(2024, 1, 1)), never, nobody)


async def test_a_thread_that_a_tool_has_left_behind_is_not_heard_in_the_next_call() -> None:
    async with ProcessExecutor([executor_tools.haunt, worker_id], max_workers=1) as executor:
        await executor.run(call("haunt"), begin, lambda value: None)
        for _ in range(50):
            await executor.run(call("worker_id"), begin, nobody)


async def test_a_tool_in_a_worker_may_say_that_it_has_had_no_effect() -> None:
    async with ProcessExecutor([executor_tools.pretend]) as executor:
        with pytest.raises(ToolNotStarted, match="not run") as raised:
            await executor.run(call("pretend"), begin, nobody)
    assert raised.value.by_tool


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
async def test_an_async_function_behind_a_wrapper_runs_on_the_workers_backend(backend: Any) -> None:
    async with ProcessExecutor([executor_tools.behind_a_wrapper], backend=backend) as executor:
        assert await executor.run(call("behind_a_wrapper", number=4), begin, nobody) == 4


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


async def test_arguments_that_were_validated_here_are_validated_again_in_the_worker() -> None:
    plain = tool(executor_tools.plain)
    async with ProcessExecutor([plain]) as executor:
        validated = replace(call("plain", number="4"), bound=plain.validate({"number": "4"}))
        assert await executor.run(validated, begin, nobody) == 5
        with pytest.raises(ToolNotStarted, match="number"):
            await executor.run(replace(validated, arguments={"number": "four"}), never, nobody)


async def test_functions_and_places_are_tools_too() -> None:
    async with ProcessExecutor([executor_tools.plain, "executor_tools:Shop.price"]) as executor:
        assert await executor.run(call("plain", number=4), begin, nobody) == 5
        assert await executor.run(call("price", article="book"), begin, nobody) == 4


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


# -- odd ends, and values of any size --


async def test_whatever_a_tool_raises_is_its_failure_or_its_own_word_and_the_worker_stays() -> None:
    own = {"ToolError": ToolError, "ToolOutcomeUnknown": ToolOutcomeUnknown}
    words = {"ToolError": "half a ? character", "ToolOutcomeUnknown": "who knows"}
    async with ProcessExecutor([executor_tools.end_oddly, executor_tools.end_oddly_async, worker_id]) as executor:
        before = await executor.run(call("worker_id"), begin, nobody)
        for name in ("end_oddly", "end_oddly_async"):
            for kind in executor_tools.ODD_ENDS:
                with pytest.raises(ToolError) as caught:
                    await executor.run(call(name, kind=kind), begin, nobody)
                assert await executor.run(call("worker_id"), begin, nobody) == before
                assert str(caught.value) == words.get(kind, f"the tool {name} raised {kind}")
                assert type(caught.value) is own.get(kind, ToolFailed)


TOO_LARGE = ["endless", "endless within", "long list", "long text", "large block", "endless value"]


@pytest.mark.thorough
async def test_a_value_that_is_too_large_or_endless_is_refused_before_it_is_written() -> None:
    """The worker may not even have the memory to write it."""
    async with ProcessExecutor([executor_tools.value_of], max_message_bytes=1 << 20) as executor:
        for kind in TOO_LARGE:
            with pytest.raises(ToolFailed, match=r"returned more than that \(max_message_bytes=1048576\)"):
                await executor.run(call("value_of", kind=kind), begin_with(60), nobody)


async def test_iterators_come_back_as_lists_and_what_just_fits_comes_back() -> None:
    async with ProcessExecutor([executor_tools.value_of], max_message_bytes=1000) as executor:
        assert await executor.run(call("value_of", kind="numbers"), begin, nobody) == [0, 1, 2]
        within = await executor.run(call("value_of", kind="numbers within"), begin, nobody)
        assert within.pop("deep")
        assert within == {"a": [1], "b": [2, [3]]}
        assert len(await executor.run(call("value_of", kind="just fits"), begin, nobody)) == 10


async def test_an_error_with_more_words_than_may_travel_tells_its_type() -> None:
    async with ProcessExecutor([executor_tools.talk], max_message_bytes=1000) as executor:
        with pytest.raises(ToolFailed, match=r"\Athe tool talk raised ToolError\Z"):
            await executor.run(call("talk"), begin, nobody)


async def test_a_report_without_end_is_the_tools_failure() -> None:
    async with ProcessExecutor([executor_tools.report], max_message_bytes=900) as executor:
        with pytest.raises(ToolFailed, match=r"progress: too large \(max_message_bytes=900\)"):
            await executor.run(call("report", what="endless"), begin, nobody)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
async def test_what_a_generator_yields_is_progress_and_its_result_is_the_value(backend: Any) -> None:
    seen: list[Any] = []
    tools = [executor_tools.count, executor_tools.endless]
    async with ProcessExecutor(tools, backend=backend) as executor:
        assert await executor.run(call("count", to=2), begin, seen.append) == "done"
        with pytest.raises(ToolFailed, match="ended without a result"):
            await executor.run(call("endless"), begin, seen.append)
    assert seen == [0, 1, "on and on"]


async def test_a_worker_sees_what_programs_need_and_what_it_is_given_and_no_keys(monkeypatch: Any) -> None:
    keys = {"BANK_API_KEY": "k1", "AWS_SESSION_TOKEN": "k2", "OTEL_EXPORTER_OTLP_HEADERS": "k3", "HTTPS_PROXY": "k4"}
    needed = {"LC_TIME": "C", "PYTHONNODEBUGRANGES": "1", "TZ": "UTC", "TMPDIR": "/tmp"}
    for name, value in (keys | needed).items():
        monkeypatch.setenv(name, value)
    for env, passed in (
        ((), {}),
        ({"BANK_API_KEY": "other", "MORE": "m"}, {"BANK_API_KEY": "other", "MORE": "m"}),
        (
            ["HTTPS_PROXY", "OTEL_*", "NOT_SET"],
            {name: keys[name] for name in ("OTEL_EXPORTER_OTLP_HEADERS", "HTTPS_PROXY")},
        ),
        (os.environ, keys),
    ):
        async with ProcessExecutor([executor_tools.environment], env=env) as executor:
            seen = await executor.run(call("environment"), begin, nobody)
        assert {name: value for name, value in seen.items() if name in keys or name == "MORE"} == passed
        assert needed.items() <= seen.items()
        assert seen["PATH"] == os.environ["PATH"]
    for odd in ("PATH", {"A": 1}, [b"A"]):
        with pytest.raises(TypeError, match="env: expected a mapping of texts, or a list of names"):
            ProcessExecutor([executor_tools.environment], env=odd)  # type: ignore[arg-type]


async def test_an_executor_is_entered_once_and_used_inside() -> None:
    executor = ProcessExecutor([worker_id])
    with pytest.raises(ToolNotStarted, match="the executor was not entered; run calls inside `async with executor`"):
        await executor.run(call("worker_id"), never, nobody)
    async with executor:
        pass
    with pytest.raises(LocalProtocolError, match="entered once"):
        await executor.__aenter__()
    with pytest.raises(ToolNotStarted, match="the executor was left"):
        await executor.run(call("worker_id"), never, nobody)
