"""Calls as the adapters of frameworks run them: from threads without an event loop, in one pool, in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from promised import Seen

from streamtools import Limits, Tool
from streamtools.integrations.hosting import CallHost, CallPlace
from streamtools.tools import Toolset


def host_of(**options: Any) -> CallHost:
    return CallHost("Test", Toolset(), store=None, observers=None, options=options)


def tool_of(run: Any, **options: Any) -> Tool[..., Any]:
    return Tool.from_schema(run, {"type": "object"}, name="t", description="", pass_as="mapping", **options)


def loops() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "portal" in thread.name]


def test_calls_from_racing_threads_enter_in_the_order_of_their_numbers_and_the_loop_ends_with_the_last() -> None:
    host, order, answer = host_of(limits=Limits(max_concurrency=1)), [], object()

    def call(number: int) -> str:
        time.sleep((5 - number) * 0.01)  # the last one comes first
        made = tool_of(lambda arguments: order.append(arguments["n"]))
        seen = host.run_sync(("c", "t", {"n": number}), made, identity=None, place=CallPlace(answer, number))
        return seen.outcome

    with ThreadPoolExecutor(5) as threads:
        assert list(threads.map(call, range(5))) == ["ok"] * 5
    assert (order, loops()) == ([0, 1, 2, 3, 4], [])


def test_a_call_that_the_framework_keeps_back_delays_those_behind_it_for_a_moment_only() -> None:
    host, began = host_of(), time.monotonic()
    made = tool_of(lambda arguments: "done")
    seen = host.run_sync(("c", "t", {}), made, identity=None, place=CallPlace("answer", 3))
    assert (seen.value, 0.2 < time.monotonic() - began < 5) == ("done", True)


def test_an_exclusive_call_from_a_thread_waits_for_one_of_an_event_loop() -> None:
    host, begun, inside = host_of(), threading.Event(), []

    async def long(arguments: Any) -> str:
        inside.append("loop")
        begun.set()
        await anyio.sleep(0.05)
        inside.append("left")
        return "done"

    def alone(arguments: Any) -> str:
        inside.append("thread")
        return "done"

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, from_thread)
            await host.run(("a", "t", {}), tool_of(long), identity=None, place=None)

    def from_thread() -> None:
        begun.wait(10)
        host.run_sync(("b", "t", {}), tool_of(alone, exclusive=True), identity=None, place=None)

    anyio.run(main)
    assert inside == ["loop", "left", "thread"]


def test_an_interrupt_ends_the_call_that_is_waited_for() -> None:
    seen, begun = Seen(), threading.Event()
    host = CallHost("Test", Toolset(), store=None, observers=lambda: [seen], options={})

    async def stay(arguments: Any) -> None:
        begun.set()
        await anyio.sleep_forever()

    def interrupt() -> None:
        begun.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            host.run_sync(("c", "t", {}), tool_of(stay), identity=None, place=None)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (seen.outcomes, loops()) == ({"cancelled": 1}, [])


def test_a_cancelled_caller_cancels_the_call_that_runs_and_none_that_waits_for_it_begins() -> None:
    seen, inside = Seen(), list[str]()
    host = CallHost("Test", Toolset(), store=None, observers=lambda: [seen], options={})

    async def main() -> None:
        begun = anyio.Event()

        async def stay(arguments: Any) -> None:
            inside.append(arguments["n"])
            begun.set()
            await anyio.sleep_forever()

        async def call(n: str) -> None:
            await host.run((n, "t", {"n": n}), made, identity=None, place=None)

        made = tool_of(stay, exclusive=True)
        async with anyio.create_task_group() as group:
            group.start_soon(call, "first")
            await begun.wait()
            group.start_soon(call, "second")
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()

    anyio.run(main)
    assert (inside, set(seen.outcomes), loops()) == (["first"], {"cancelled"}, [])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_begins_anew_while_a_call_of_its_parent_holds_the_only_place() -> None:
    host, begun, done = host_of(limits=Limits(max_concurrency=1)), threading.Event(), threading.Event()

    def hold(arguments: Any) -> str:
        begun.set()
        done.wait(30)
        return "held"

    parent = threading.Thread(
        target=host.run_sync, args=(("a", "t", {}), tool_of(hold)), kwargs={"identity": None, "place": None}
    )
    parent.start()
    begun.wait(10)

    def child() -> None:
        seen = host.run_sync(("b", "t", {}), tool_of(lambda arguments: "child"), identity=None, place=None)
        os._exit(0 if seen.value == "child" else 1)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(20)
    done.set()
    parent.join()
    assert process.exitcode == 0


def test_what_a_call_that_is_run_by_itself_cannot_keep_is_refused() -> None:
    with pytest.raises(TypeError, match=r'Test: on_tool_error="cancel" cannot be enforced.*agent_loop'):
        host_of(on_tool_error="cancel")
