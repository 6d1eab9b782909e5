"""What `RayExecutor` costs and carries, on two nodes of this machine: `make test-ray` installs what it needs.

.venv-ray/bin/python -m benchmarks.bench_ray
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "ray"))

from ray_cluster import two_nodes  # before anything imports Ray, whose environment it sets

# isort: split
import cluster_tools
import ray

from streamtools.dispatch.executors import Invocation
from streamtools.dispatch.executors.ray import RayExecutor

CALLS, SECONDS, AT_ONCE = 1_000, 0.05, 8
ROUNDS = 300


async def at_once() -> float:
    return math.inf


def nothing(report: Any) -> None:
    return None


async def throughput() -> str:
    """Calls of 50 ms, four at once on each of two nodes."""
    async with RayExecutor([cluster_tools.nap], actors=2, max_concurrency=AT_ONCE // 2) as executor:
        call = Invocation(tool="nap", arguments={"seconds": SECONDS}, key="key")
        await warm(executor, call)
        began = time.perf_counter()
        async with anyio.create_task_group() as group:
            for _ in range(CALLS):
                group.start_soon(executor.run, call, at_once, nothing)
        took = time.perf_counter() - began
    ideal = CALLS * SECONDS / AT_ONCE
    bare = await bare_throughput()
    figure = f"{took:.2f} s, {100 * ideal / took:.0f} % of ideal (>= 85 %)"
    return f"throughput: {CALLS} calls of 50 ms, 8 at once: {figure}; bare actors {100 * ideal / bare:.0f} %"


class Bare:
    """An actor without anything of ours."""

    async def nap(self) -> None:
        """Wait."""
        await anyio.sleep(SECONDS)


async def bare_throughput() -> float:
    """The same calls without an executor."""
    actors = [ray.remote(Bare).options(num_cpus=0.001, scheduling_strategy="SPREAD").remote() for _ in range(2)]
    left = iter(range(CALLS))

    async def work(actor: Any) -> None:
        for _ in left:
            await actor.nap.remote()

    for actor in actors:
        await actor.nap.remote()
    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        for number in range(AT_ONCE):
            group.start_soon(work, actors[number % 2])
    return time.perf_counter() - began


async def warm(executor: RayExecutor, call: Invocation) -> None:
    """Wait until every actor is there."""
    await executor.run(call, at_once, nothing)
    while not all(actor.is_ready for pool in executor._pools for actor in pool._actors):  # noqa: ASYNC110
        await anyio.sleep(0.01)
    async with anyio.create_task_group() as group:
        for _ in range(AT_ONCE):
            group.start_soon(executor.run, call, at_once, nothing)


async def cost() -> str:
    """A call beside a bare one to the same actor, in turns."""
    async with RayExecutor([cluster_tools.nap], actors=1) as executor:
        call = Invocation(tool="nap", arguments={"seconds": 0}, key="key")
        await warm(executor, call)
        actor = executor._pools[0]._actors[0]
        ours, bare = [], []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            await executor.run(call, at_once, nothing)
            between = time.perf_counter()
            await actor.handle.ready.remote()
            ours.append(between - began)
            bare.append(time.perf_counter() - between)
    run, alone = 1e3 * statistics.median(ours), 1e3 * statistics.median(bare)
    more = 1e3 * statistics.median(one - other for one, other in zip(ours, bare, strict=True))
    return f"cost: {run:.2f} ms a call, a bare actor call {alone:.2f} ms, {more:.2f} ms more (<= 5 ms)"


async def cancellation() -> str:
    """From the caller's cancellation to the first line of the tool's cleanup, by the clock that they share."""
    delays = []
    with tempfile.TemporaryDirectory() as directory:
        async with RayExecutor([cluster_tools.hold, cluster_tools.nap], actors=1) as executor:
            await warm(executor, Invocation(tool="nap", arguments={"seconds": 0}, key="key"))
            for number in range(50):
                path, begun = Path(directory, str(number)), anyio.Event()
                call = Invocation(tool="hold", arguments={"path": str(path)}, key="key")
                async with anyio.create_task_group() as group:
                    group.start_soon(executor.run, call, at_once, lambda _, begun=begun: begun.set())
                    await begun.wait()
                    asked = time.time()
                    group.cancel_scope.cancel()
                delays.append(1e3 * (_cancelled_at(path) - asked))
    return (
        f"cancellation: {statistics.median(delays):.1f} ms to the coroutine, at most {max(delays):.1f} ms (<= 100 ms)"
    )


def _cancelled_at(path: Path) -> float:
    return float(path.read_text(encoding="utf-8").split()[-1])


async def main() -> None:
    for figure in (cost, cancellation, throughput):
        print(await figure(), flush=True)


if __name__ == "__main__":
    with two_nodes():
        anyio.run(main)
