"""Runs calls on a Ray cluster, in actors that never run one twice.

Theory of operation. An actor is asked to prepare a call: it finds the tool and validates the arguments. The answer
shows that it is alive and ready; then the executor awaits ``begin()``, and tells the actor to go. So a call that is
lost before ``begin()`` has run nothing and goes to another actor; a call that is lost after it may have done anything.
Ray is told to retry nothing (``max_task_retries=0``) and to restart nothing (``max_restarts=0``): an actor that comes
up again would not know what its predecessor had prepared, and so the pool starts a new one.

Ray's own awaitables need asyncio. Here each answer is a callback into the event loop, which works under trio, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self
from uuid import uuid4

import anyio
from pydantic_core import from_json

from ...errors import LocalProtocolError, ToolNotStarted, ToolOutcomeUnknown, ToolTimeout
from ...limits import checked_bound
from ...tools import AnyTools, Tool
from ..executor import Emit, Invocation
from ..results import decode_error, decode_result
from .local import BlockExecutor, WorkerRun
from .travel import encode_call, reference_of

try:
    import ray
    from ray.exceptions import RayError

    from .ray_actor import FAILED, RESULT, RUNNING, TIMED_OUT, ToolActor
    from .ray_pool import Actor, ActorPool
except ImportError as error:  # pragma: no cover - it is installed where this is measured
    raise ImportError('Ray is not installed: pip install "llm-streamtools[ray]"') from error

__all__ = ["RayExecutor"]

LATE_S = 0.5  # an actor ends a call at its deadline; this is for one that cannot
ACKNOWLEDGED_S = 2.0  # for a cancelled tool to clean up, and its actor to answer
TRIES = 3  # actors that may die before a call begins, beside those that have died unnoticed
LEAST_CPUS = 0.001  # without any demand Ray picks nodes at random, which are often the same (measured with 2.60)

DEMANDS = frozenset({"num_cpus", "num_gpus", "memory", "resources", "accelerator_type", "label_selector"})


class RayExecutor(BlockExecutor):
    """Runs tools in actors on a Ray cluster, spread over its nodes.

    Call ``ray.init()`` before you enter it; leaving it kills its actors. An actor imports the tool by its module's
    name, and is handed the arguments as JSON; nothing is pickled. So streamtools and the tool's module have to be
    installed on the nodes, or come by `runtime_env`. Async tools run side by side in an actor's event loop, under
    asyncio, whichever event loop the caller runs in. Sync tools run in threads, which nothing can stop: they see
    ``ctx.cancelled``.

    Args:
        tools: the tools that may be called: tools and functions that their modules know by their names, or
            ``"module:qualname"``.
        actors: how many actors there are for each demand of resources, started with the first call.
        max_concurrency: how many calls run at once in an actor; more wait.
        resources: the resources that the actors of a tool hold, by the tool's name, in Ray's words:
            ``{"resize": {"num_cpus": 2, "resources": {"scratch": 1}}}``. Actors of other tools hold next to nothing.
        max_message_bytes: how large a call, a value or a report may be, as JSON. Reports that wait to be fetched are
            held up to this size together; beyond it the oldest are dropped.
        start_timeout_s: how long a call waits while no actor for it has come up, and for an actor to get it ready.
        runtime_env: the actors' environment, as Ray takes it.

    Raises:
        ToolDefinitionError: an actor would not find one of the tools.
    """

    def __init__(
        self,
        tools: AnyTools,
        *,
        actors: int = 2,
        max_concurrency: int = 16,
        resources: Mapping[str, Mapping[str, Any]] | None = None,
        max_message_bytes: int = 8 << 20,
        start_timeout_s: float = 60.0,
        runtime_env: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._max_message_bytes = checked_bound("max_message_bytes", max_message_bytes)
        self._max_concurrency = checked_bound("max_concurrency", max_concurrency)
        self._runtime_env = runtime_env
        self._tools: dict[str, tuple[str, Tool[..., Any], ActorPool]] = {}
        pools: dict[str, ActorPool] = {}
        for given in tools:
            reference, tool = reference_of(given)
            if tool.name in self._tools:
                raise ValueError(f"RayExecutor: two tools are called {tool.name!r}")
            demand = _checked_demand(tool.name, (resources or {}).get(tool.name, {}))
            pool = pools.setdefault(
                json.dumps(demand, sort_keys=True),
                ActorPool(
                    partial(self._start, demand),
                    size=checked_bound("actors", actors),
                    max_concurrency=max_concurrency,
                    start_timeout_s=start_timeout_s,
                ),
            )
            self._tools[tool.name] = reference, tool, pool
        if strangers := set(resources or {}) - set(self._tools):
            raise ValueError(f"RayExecutor: resources for {sorted(strangers)}, which are not among its tools")
        self._pools = list(pools.values())

    async def __aenter__(self) -> Self:
        """Takes calls from now on."""
        if not ray.is_initialized():
            raise LocalProtocolError("RayExecutor: call ray.init() first; which cluster it is, is yours to say")
        return await super().__aenter__()

    async def __aexit__(self, *raised: object) -> None:
        """Cancels the running calls, then kills the actors."""
        await super().__aexit__()
        for pool in self._pools:
            pool.kill()

    async def _body(
        self, call: Invocation, known: tuple[str, Tool[..., Any], ActorPool], emit: Emit, run: WorkerRun
    ) -> Any:
        """Runs a call. An actor that is lost before the call begins is replaced by another one."""
        if not ray.is_initialized():
            raise ToolNotStarted("not run: Ray was shut down while the executor was open")
        reference, tool, pool = known
        request = encode_call(call, reference, tool, self._max_message_bytes)
        number = uuid4().hex
        actor = await _prepared(pool, number, request)
        try:
            try:
                seconds = await run.begin()
            except BaseException:
                actor.drop(number)
                raise
            return await _Followed(actor, number, emit).value(call, seconds)
        except RayError as error:
            pool.retire(actor)
            text = f"the actor that ran {call.tool} was lost ({type(error).__name__})"
            raise ToolOutcomeUnknown(f"{text}; the call may have had its effect") from error
        finally:
            pool.give_back(actor)

    def _start(self, demand: dict[str, Any]) -> Any:
        options = {"num_cpus": LEAST_CPUS, "scheduling_strategy": "SPREAD", "runtime_env": self._runtime_env, **demand}
        # A call holds one of Ray's places while it runs, and its cancellation or preparation another one.
        made = ray.remote(ToolActor).options(
            max_concurrency=2 * self._max_concurrency + 16,
            max_restarts=0,
            max_task_retries=0,
            enable_task_events=False,  # spans show the calls; Ray's own records cost a quarter of a call
            **options,
        )
        return made.remote(self._max_message_bytes, 2 * self._max_concurrency)


async def _prepared(pool: ActorPool, number: str, request: bytes) -> Actor:
    """Returns an actor that is ready for the call, and has a place for it."""
    lost = ""
    for _ in range(pool.size + TRIES):
        actor = await pool.take()
        try:
            with anyio.fail_after(pool.start_timeout_s):
                refused = await actor.ask("prepare", number, request)
        except BaseException as error:
            actor.drop(number)
            is_lost = isinstance(error, (RayError, TimeoutError))  # TimeoutError: a tool keeps its event loop busy
            if is_lost:
                pool.retire(actor)
            pool.give_back(actor)
            if not is_lost:
                raise
            lost = type(error).__name__
            continue
        if refused is None:
            return actor
        pool.give_back(actor)
        raise ToolNotStarted(f"not run: {refused}")
    raise ToolNotStarted(f"not run: {pool.size + TRIES} actors were lost before they could begin it ({lost})")


@dataclass(slots=True, eq=False)
class _Followed:
    """A call that has begun, until its end."""

    actor: Actor
    number: str
    emit: Emit

    async def value(self, call: Invocation, seconds: float) -> Any:
        """Tells the actor to go, and returns the call's value."""
        kind, data = TIMED_OUT, b""
        if seconds <= 0:
            self.actor.drop(self.number)
            raise ToolTimeout(0.0)
        try:
            with anyio.move_on_after(None if seconds == math.inf else seconds + LATE_S) as patience:
                kind, data = await self._end(seconds, call.carrier)
        except RayError:
            raise
        except BaseException:  # cancelled; or the caller did not take a report
            await self._cancel()
            raise
        if patience.cancelled_caught:
            self.actor.drop(self.number)
        if kind == RESULT:
            return decode_result(data)
        if kind == FAILED:
            raise decode_error(from_json(data))
        if kind == TIMED_OUT:
            raise ToolTimeout(round(seconds, 3))
        raise ToolOutcomeUnknown(f"the actor that was to run {call.tool} does not know the call")

    async def _end(self, seconds: float, carrier: dict[str, str]) -> tuple[str, bytes]:
        reports, kind, data = await self.actor.ask("go", self.number, seconds, carrier)
        while True:
            for report in reports:
                self.emit(from_json(report))
            if kind != RUNNING:
                return kind, data
            reports, kind, data = await self.actor.ask("more", self.number)

    async def _cancel(self) -> None:
        """Stops the tool's code, and waits a little for the actor to answer that it has ended."""
        with anyio.move_on_after(ACKNOWLEDGED_S, shield=True):
            try:
                await self.actor.ask("cancel", self.number)
            except RayError:  # then nothing runs there any more, or nobody can say
                return


def _checked_demand(tool: str, demand: Mapping[str, Any]) -> dict[str, Any]:
    if strangers := set(demand) - DEMANDS:
        raise ValueError(f"RayExecutor: resources of {tool!r}: {sorted(strangers)}; known are {sorted(DEMANDS)}")
    return dict(demand)
