"""What `RayExecutor` promises beyond the contract of every executor: nodes that die, places, reports, spans, times."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("ray.cluster_utils", reason="ray is not installed: RayExecutor was not tested")

import cluster_tools
import ray
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from ray_cluster import TwoNodes
from streams import anthropic, stream

from streamtools import Trajectory, pipeline
from streamtools.dispatch.executors import Invocation, MemoryStore, SqliteStore, run_once
from streamtools.dispatch.executors.ray import RayExecutor
from streamtools.errors import (
    BeginRefused,
    LocalProtocolError,
    ToolError,
    ToolFailed,
    ToolNotStarted,
    ToolOutcomeUnknown,
    ToolTimeout,
)
from streamtools.events import StreamWarning
from streamtools.telemetry import Tracing

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::FutureWarning")]

PATIENCE_S = 90.0  # for anything; a loaded machine starts an actor in seconds
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ON_SECOND = {"resources": {"second": 1}}


def call(tool: str, *, key: str = "key", **arguments: Any) -> Invocation:
    return Invocation(tool=tool, arguments=arguments, key=key)


async def at_once() -> float:
    return math.inf


class Reports:
    """What a call reports, and an event for the first of it."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.came = anyio.Event()

    def __call__(self, value: Any) -> None:
        self.seen.append(value)
        self.came.set()


@asynccontextmanager
async def executor(*tools: Any, **options: Any) -> AsyncIterator[RayExecutor]:
    with anyio.fail_after(PATIENCE_S):
        async with RayExecutor(tools, **options) as made:
            yield made


async def error_of(run: Callable[[], Any]) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await run()
    return caught.value


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


async def line_that_starts(path: Path, start: str) -> str:
    while not (found := [line for line in lines(path) if line.startswith(start)]):  # noqa: ASYNC110
        await anyio.sleep(0.005)  # another process writes it
    return found[0]


# -- what a lost node leaves behind --


async def test_a_node_killed_in_mid_call_leaves_one_effect_and_an_unknown_outcome(
    cluster: TwoNodes, tmp_path: Path
) -> None:
    path, reports, ended = tmp_path / "marks", Reports(), []
    with SqliteStore(tmp_path / "calls.db") as store:
        async with executor(cluster_tools.hold, cluster_tools.effect, resources={"hold": ON_SECOND}) as on_ray:
            before = call("effect", key="before", path=str(tmp_path / "effects"))
            assert (await run_once(store, on_ray, before)).value == "done"

            async def run() -> None:
                ended.append(await error_of(partial(run_once, store, on_ray, call("hold", path=str(path)), reports)))

            async with anyio.create_task_group() as group:
                group.start_soon(run)
                await reports.came.wait()
                await anyio.to_thread.run_sync(cluster.kill_second)
            cluster.restore_second()
            await run()  # a second dispatch, which an actor is ready for again
            answer = await run_once(store, on_ray, before)
    assert [type(error) for error in ended] == [ToolOutcomeUnknown, ToolOutcomeUnknown]
    assert lines(path) == ["begun"]
    assert (answer.value, answer.recorded, lines(tmp_path / "effects")) == ("done", True, ["effect"])


async def test_a_call_whose_node_is_gone_runs_once_there_is_another(cluster: TwoNodes) -> None:
    async with executor(cluster_tools.where, resources={"where": ON_SECOND}) as on_ray:
        first = await on_ray.run(call("where"), at_once, print)
        actors = list(on_ray._pools[0]._actors)
        await anyio.to_thread.run_sync(cluster.kill_second)
        for actor in actors:  # a process may outlive its node a little
            with pytest.raises(ray.exceptions.RayActorError):
                while True:
                    await actor.ask("ready")
        seen: list[dict[str, Any]] = []

        async def run() -> None:
            seen.append(await on_ray.run(call("where"), at_once, print))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            cluster.restore_second()
    assert first["node"] != seen[0]["node"]


async def test_an_actor_killed_before_go_has_started_nothing_and_the_call_runs_elsewhere(
    cluster: TwoNodes, tmp_path: Path
) -> None:
    begun = 0

    async def begin() -> float:
        nonlocal begun
        begun += 1
        return math.inf

    async with executor(cluster_tools.where, cluster_tools.effect, actors=1) as on_ray:
        pid = (await on_ray.run(call("where"), at_once, print))["pid"]
        ray.kill(next(iter(on_ray._pools))._actors[0].handle)
        path = tmp_path / "effects"
        assert await on_ray.run(call("effect", path=str(path)), begin, print) == "done"
        assert (await on_ray.run(call("where"), at_once, print))["pid"] != pid
    assert (begun, lines(path)) == (1, ["effect"])


async def test_an_actor_lost_while_begin_is_awaited_makes_the_call_unknown(cluster: TwoNodes, tmp_path: Path) -> None:
    """Its host cannot know that GO did not arrive, and begun is begun."""
    async with executor(cluster_tools.effect, actors=1) as on_ray:

        async def begin() -> float:
            ray.kill(next(iter(on_ray._pools))._actors[0].handle)
            return math.inf

        error = await error_of(partial(on_ray.run, call("effect", path=str(tmp_path / "effects")), begin, print))
    assert type(error) is ToolOutcomeUnknown
    assert lines(tmp_path / "effects") == []


# -- begin --


async def test_begin_is_awaited_once_behind_all_that_can_fail_without_effect(cluster: TwoNodes, tmp_path: Path) -> None:
    begun = 0

    async def begin() -> float:
        nonlocal begun
        begun += 1
        return math.inf

    path = tmp_path / "effects"
    async with executor(cluster_tools.effect) as on_ray:
        for wrong in (call("effect", to="nobody"), call("nothing"), call("effect", path=math.nan)):
            assert type(await error_of(partial(on_ray.run, wrong, begin, print))) is ToolNotStarted
        assert begun == 0
        await on_ray.run(call("effect", path=str(path)), begin, print)
    assert (begun, lines(path)) == (1, ["effect"])


async def test_a_begin_that_refuses_runs_nothing_and_is_let_out(cluster: TwoNodes, tmp_path: Path) -> None:
    refusal = BeginRefused("not run: its end is on record")

    async def begin() -> float:
        raise refusal

    path = tmp_path / "effects"
    async with executor(cluster_tools.effect, actors=1) as on_ray:
        assert await error_of(partial(on_ray.run, call("effect", path=str(path)), begin, print)) is refusal
        await on_ray.run(call("effect", path=str(path)), at_once, print)
    assert lines(path) == ["effect"]


async def test_a_call_that_is_cancelled_while_it_begins_runs_nothing(cluster: TwoNodes, tmp_path: Path) -> None:
    path = tmp_path / "effects"
    async with executor(cluster_tools.effect, actors=1) as on_ray:
        with anyio.CancelScope() as scope:

            async def begin() -> float:
                scope.cancel()
                await anyio.sleep_forever()
                return math.inf

            await on_ray.run(call("effect", path=str(path)), begin, print)
        await on_ray.run(call("effect", path=str(path)), at_once, print)
    assert lines(path) == ["effect"]


# -- cancellation and deadlines --


async def test_cancellation_reaches_a_coroutine_and_is_acknowledged(cluster: TwoNodes, tmp_path: Path) -> None:
    path, reports = tmp_path / "marks", Reports()
    async with executor(cluster_tools.hold, actors=1) as on_ray:
        async with anyio.create_task_group() as group:
            group.start_soon(on_ray.run, call("hold", path=str(path)), at_once, reports)
            await reports.came.wait()
            asked = time.time()
            group.cancel_scope.cancel()
        assert len(lines(path)) == 2, "when run() has ended, the coroutine has"
    assert float(lines(path)[1].split()[1]) - asked < 2.0


async def test_a_coroutine_that_swallows_its_cancellation_is_cancelled_again(cluster: TwoNodes, tmp_path: Path) -> None:
    reports = Reports()
    async with (
        executor(cluster_tools.stubborn, actors=1) as on_ray,
        anyio.create_task_group() as group,
    ):
        group.start_soon(on_ray.run, call("stubborn", path=str(tmp_path / "marks")), at_once, reports)
        await reports.came.wait()
        group.cancel_scope.cancel()
    assert lines(tmp_path / "marks") == ["swallowed"]


async def test_a_cancelled_sync_tool_sees_it_in_its_context(cluster: TwoNodes, tmp_path: Path) -> None:
    path, reports = tmp_path / "marks", Reports()
    async with executor(cluster_tools.hold_thread, actors=1) as on_ray:
        async with anyio.create_task_group() as group:
            group.start_soon(on_ray.run, call("hold_thread", path=str(path)), at_once, reports)
            await reports.came.wait()
            group.cancel_scope.cancel()
        await line_that_starts(path, "seen")


@pytest.mark.parametrize("tool", ["hold", "hold_thread"])
async def test_a_deadline_is_kept_by_the_actor(tool: str, cluster: TwoNodes, tmp_path: Path) -> None:
    async def begin() -> float:
        return 0.3

    path = tmp_path / "marks"
    async with executor(cluster_tools.hold, cluster_tools.hold_thread, actors=1) as on_ray:
        error = await error_of(partial(on_ray.run, call(tool, path=str(path)), begin, Reports()))
        assert type(error) is ToolTimeout
        await line_that_starts(path, "cancelled" if tool == "hold" else "seen")


async def test_a_call_that_begins_with_no_time_left_runs_nothing(cluster: TwoNodes, tmp_path: Path) -> None:
    async def begin() -> float:
        return 0.0

    async with executor(cluster_tools.effect, actors=1) as on_ray:
        path = tmp_path / "effects"
        assert type(await error_of(partial(on_ray.run, call("effect", path=str(path)), begin, print))) is ToolTimeout
    assert lines(path) == []


async def test_an_async_tool_that_keeps_the_actors_loop_busy_times_out_on_the_host(
    cluster: TwoNodes, tmp_path: Path
) -> None:
    async def begin() -> float:
        return 0.3

    async with executor(cluster_tools.busy, actors=1) as on_ray:
        began = anyio.current_time()
        error = await error_of(partial(on_ray.run, call("busy", path=str(tmp_path / "marks")), begin, Reports()))
        assert anyio.current_time() - began < 4.0, "the actor is busy for as long"
    assert type(error) is ToolTimeout


# -- places --


async def test_a_tool_runs_on_the_node_that_has_what_it_demands(cluster: TwoNodes) -> None:
    async with executor(
        cluster_tools.where,
        cluster_tools.spot,
        resources={"where": {"resources": {"first": 1}}, "spot": {"num_cpus": 1, "resources": {"second": 1}}},
        actors=1,
    ) as on_ray:
        first, second = [(await on_ray.run(call(tool), at_once, print))["node"] for tool in ("where", "spot")]
    assert first == ray.get_runtime_context().get_node_id() != second


async def test_actors_are_spread_over_the_nodes_and_the_least_busy_one_gets_the_call(
    cluster: TwoNodes, tmp_path: Path
) -> None:
    async with executor(cluster_tools.hold, cluster_tools.where, actors=2) as on_ray:
        await on_ray.run(call("where"), at_once, print)
        while sum(actor.is_ready for actor in on_ray._pools[0]._actors) < 2:  # noqa: ASYNC110 - Ray starts them
            await anyio.sleep(0.01)
        free = (await on_ray.run(call("where"), at_once, print))["node"]
        reports = Reports()
        async with anyio.create_task_group() as group:
            group.start_soon(on_ray.run, call("hold", path=str(tmp_path / "marks")), at_once, reports)
            await reports.came.wait()
            other = (await on_ray.run(call("where"), at_once, print))["node"]
            group.cancel_scope.cancel()
    assert other != free


async def test_a_call_that_no_node_can_take_is_not_started(cluster: TwoNodes) -> None:
    async with executor(
        cluster_tools.where, resources={"where": {"resources": {"nowhere": 1}}}, start_timeout_s=0.5
    ) as on_ray:
        error = await error_of(partial(on_ray.run, call("where"), at_once, print))
    assert type(error) is ToolNotStarted


# -- what travels --


@pytest.mark.parametrize("tool", ["report", "report_thread"])
async def test_reports_arrive_in_order_and_before_the_end(tool: str, cluster: TwoNodes) -> None:
    reports = Reports()
    async with executor(cluster_tools.report, cluster_tools.report_thread, actors=1) as on_ray:
        assert await on_ray.run(call(tool, count=300), at_once, reports) == 300
    assert reports.seen == list(range(300))


@pytest.mark.parametrize("tool", ["carrier", "carrier_thread"])
async def test_the_span_that_begins_with_the_call_is_the_tools_current_one(tool: str, cluster: TwoNodes) -> None:
    wanted = call(tool)

    async def begin() -> float:
        wanted.carrier["traceparent"] = TRACEPARENT  # the dispatcher's span begins now
        return math.inf

    async with executor(cluster_tools.carrier, cluster_tools.carrier_thread, actors=1) as on_ray:
        assert (await on_ray.run(wanted, begin, print))["traceparent"] == TRACEPARENT


async def test_the_spans_of_tools_in_an_actor_reach_the_programs_processors_below_their_own_calls(
    cluster: TwoNodes,
) -> None:
    for keeps in (True, False):
        exporter, provider = InMemorySpanExporter(), TracerProvider(sampler=ALWAYS_ON if keeps else ALWAYS_OFF)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tools = [cluster_tools.draws, cluster_tools.draws_in_thread]
        calls = [(at, "draws", json.dumps({"text": at})) for at in "abc"]
        calls.append(("d", "draws_in_thread", '{"text": "d"}'))
        async with executor(*tools, actors=1) as on_ray:
            traced = Trajectory(observers=[Tracing(provider)])
            body = anthropic([], calls)
            async with pipeline(stream(body), tools=tools, executor=on_ray, trajectory=traced) as events:
                warned = [event.detail async for event in events if isinstance(event, StreamWarning)]
        pids = {seen.value for seen in events.turn.observations}
        assert len(pids) == 1
        assert os.getpid() not in pids
        spans = {span.name: span for span in exporter.get_finished_spans() if span.name.count(" ") == 1}
        own = {
            (span.attributes or {}).get("gen_ai.tool.call.id"): span.context for span in exporter.get_finished_spans()
        }
        if not keeps:
            assert (spans, warned) == ({}, [])
            continue
        for at in "abc":
            order, pack, item = (spans[f"{name} {at}"] for name in ("order", "pack", "item"))
            assert order.parent is not None
            assert order.parent[:2] == own[at][:2]
            assert (pack.parent, item.parent) == (order.context, pack.context)
            assert order.resource.attributes["process.pid"] in pids
        assert sum(name.endswith(" d") for name in spans) == 1000
        assert warned == ["draws_in_thread, call d: 5 spans are missing (at most 1000, and 1048576 bytes)"]


async def test_what_is_too_large_to_travel_is_refused_and_named(cluster: TwoNodes) -> None:
    async with executor(cluster_tools.large, cluster_tools.effect, actors=1, max_message_bytes=10_000) as on_ray:
        refused = await error_of(partial(on_ray.run, call("effect", path="x" * 20_000), at_once, print))
        failed = await error_of(partial(on_ray.run, call("large", size=20_000), at_once, print))
        assert len(await on_ray.run(call("large", size=9_000), at_once, print)) == 9_000
    assert (type(refused), type(failed)) == (ToolNotStarted, ToolFailed)
    assert "max_message_bytes" in str(refused)
    assert "max_message_bytes" in str(failed)


# -- the executor itself --


async def test_leaving_the_executor_ends_its_actors(cluster: TwoNodes) -> None:
    async with executor(cluster_tools.where, actors=1) as on_ray:
        await on_ray.run(call("where"), at_once, print)
        handle = on_ray._pools[0]._actors[0].handle
    with anyio.fail_after(PATIENCE_S), pytest.raises(ray.exceptions.RayActorError):
        await anyio.to_thread.run_sync(ray.get, handle.ready.remote())


async def test_two_calls_of_one_key_at_once_have_one_effect(cluster: TwoNodes, tmp_path: Path) -> None:
    store, path, ended = MemoryStore(), tmp_path / "effects", []

    async def run() -> None:
        try:
            ended.append((await run_once(store, on_ray, call("effect", path=str(path)))).value)
        except ToolOutcomeUnknown as error:
            ended.append(type(error).__name__)

    async with executor(cluster_tools.effect, actors=2) as on_ray, anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(run)
    assert lines(path) == ["effect"]
    assert set(ended) <= {"done", "CallStillRunning"}


def test_resources_are_those_of_known_tools_in_rays_words() -> None:
    with pytest.raises(ValueError, match="max_retries"):
        RayExecutor([cluster_tools.where], resources={"where": {"max_retries": 3}})
    with pytest.raises(ValueError, match="nobody"):
        RayExecutor([cluster_tools.where], resources={"nobody": {"num_cpus": 1}})
    with pytest.raises(ValueError, match="two tools"):
        RayExecutor([cluster_tools.where, cluster_tools.where])


async def test_it_is_entered_once(cluster: TwoNodes) -> None:
    made = RayExecutor([cluster_tools.where])
    async with made:
        with pytest.raises(LocalProtocolError):
            await made.__aenter__()
    assert type(await error_of(partial(made.run, call("where"), at_once, print))) is ToolNotStarted


WITHOUT_INIT = """
import anyio, cluster_tools
from streamtools.dispatch.executors.ray import RayExecutor
async def main():
    async with RayExecutor([cluster_tools.where]):
        pass
anyio.run(main)
"""


def test_without_ray_init_it_says_what_to_call() -> None:
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_INIT],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(here), str(here.parents[1])])},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert "LocalProtocolError: RayExecutor: call ray.init() first" in done.stderr
