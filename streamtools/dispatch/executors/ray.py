"""Runs calls on a Ray cluster, in actors that never run one twice.

Theory of operation. An actor is asked to prepare a call: it finds the tool and validates the arguments. The answer
shows that it is alive and ready; then the executor awaits ``begin()``, and tells the actor to go. So a call that is
lost before ``begin()`` has run nothing and goes to another actor; a call that is lost after it may have done anything.
Ray is told to retry nothing (``max_task_retries=0``) and to restart nothing (``max_restarts=0``): an actor that comes
up again would not know what its predecessor had prepared, and so the pool starts a new one.

Ray's own awaitables need asyncio. Here each answer is a callback into the event loop, which works under trio, too.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, TypeAlias
from uuid import uuid4

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import EventLoopToken, current_token
from pydantic_core import from_json

from ...errors import (
    InvalidArguments,
    LocalProtocolError,
    StreamToolsError,
    ToolNotStarted,
    ToolOutcomeUnknown,
    ToolTimeout,
)
from ...event_loop import call_soon
from ...extras import missing
from ...limits import checked_bound
from ...parts import WaitReason
from ...telemetry.carrier import carried
from ...telemetry.worker_spans import KeptSpans, SpanKeeper
from ...text import type_name
from ...tools import AnyTools, Bound, Tool
from ..executor import Emit, Invocation, context_of
from ..in_process import BlockExecutor, WorkerRun, awaited
from ..results import decode_error, decode_result
from .codec import encode_call, encode_failure, encode_report, encode_value, reference_of, resolved

__all__ = [
    "Actor",
    "ActorPool",
    "Answer",
    "FAILED",
    "FORGOTTEN",
    "RESULT",
    "RUNNING",
    "RayExecutor",
    "TIMED_OUT",
    "ToolActor",
]

try:
    import ray
    from ray.exceptions import RayError
except ImportError as error:  # pragma: no cover - it is installed where this is measured
    raise ImportError(missing("Ray", "ray")) from error


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
        actor = await _prepared(pool, call, number, request)
        try:
            try:
                seconds = await run.begin()
            except BaseException:
                actor.drop(number)
                raise
            return await _Followed(actor, number, emit).value(call, seconds)
        except RayError as error:
            pool.retire(actor)
            text = f"the actor that ran {call.tool} was lost ({type_name(error)})"
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


async def _prepared(pool: ActorPool, call: Invocation, number: str, request: bytes) -> Actor:
    """Returns an actor that is ready for the call, and has a place for it."""
    lost = ""
    for _ in range(pool.size + TRIES):
        actor = await pool.take(call.waits_for)
        call.waits_for("executor")
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
            lost = type_name(error)
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
                kind, data = await self._end(call, seconds)
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

    async def _end(self, call: Invocation, seconds: float) -> tuple[str, bytes]:
        wanted = call.take_spans is not None
        reports, kind, data, spans = await self.actor.ask("go", self.number, seconds, call.carrier, wanted)
        while True:
            for report in reports:
                self.emit(from_json(report))
            if spans and call.take_spans is not None:
                call.take_spans(spans)
            if kind != RUNNING:
                return kind, data
            reports, kind, data, spans = await self.actor.ask("more", self.number)

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


# -- in the cluster: the actor ---------------------------------------------------------------------------------------

# Runs calls on the cluster, for `RayExecutor`: an async actor that prepares calls, and runs them when told to.
#
#     prepare(number, request)        finds the tool and validates the arguments; none of the tool's code runs
#     go(number, seconds, carrier, spans)  runs the call; answers with its first reports, or with its end, and keeps the
#                                     spans that the tool draws if they are wanted
#     more(number)                    answers with the call's next reports, or with its end
#     cancel(number)                  forgets a call that is only prepared; stops one that runs, and answers at its end
#
# Theory of operation. A call's code runs in a task of its own, so that an answer can be given while it runs. The
# caller asks for each answer: nothing is sent to a caller that is gone, and reports that come faster than they are
# asked for travel together. Only plain values travel: numbers, texts and JSON as bytes.

RUNNING, RESULT, FAILED, TIMED_OUT, FORGOTTEN = "running", "result", "failed", "timed_out", "forgotten"

Answer: TypeAlias = tuple[list[bytes], str, bytes, bytes]
"""The reports since the last answer, one of the words above, the value or failure, and with it the tool's spans."""

PREPARED_S = 600.0  # until a call is forgotten; a claim takes far less, and a living caller cancels what it drops


class ToolActor:
    """Runs calls side by side: async tools in the actor's event loop, sync ones in threads.

    Args:
        max_message_bytes: how large a value or a report may be, as JSON.
        max_threads: how many sync tools may run, including those that nobody waits for any more.
    """

    def __init__(self, max_message_bytes: int, max_threads: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._threads = _Threads(max_threads)
        self._tools: dict[str, Tool[..., Any]] = {}
        self._calls: dict[str, _Call] = {}
        self._keeper = SpanKeeper()

    async def ready(self) -> None:
        """Does nothing: the answer shows that the actor is there."""

    async def prepare(self, number: str, request: bytes) -> str | None:
        """Gets a call ready to run; returns why that cannot be done, or None."""
        message = from_json(request)
        call = Invocation(**message["call"])
        try:
            tool = await self._tool(message["reference"])
            if tool.fingerprint != message["fingerprint"]:
                return f"the tool {call.tool} is another one on the cluster"
            if not tool.is_async and self._threads.are_full:
                return "the actor's threads are busy with sync tools that were given up"
            bound = tool.validate(call.arguments)
        except (StreamToolsError, InvalidArguments) as error:
            return str(error)
        self._calls[number] = _Call(call, tool, bound, self._max_message_bytes)
        asyncio.get_running_loop().call_later(PREPARED_S, self._forget, number)
        return None

    async def go(self, number: str, seconds: float, carrier: dict[str, str], spans: bool) -> Answer:
        """Runs a prepared call, for so many seconds at most."""
        call = self._calls.get(number)
        if call is None or call.task is not None:
            return [], FORGOTTEN, b"", b""
        kept = self._keeper.kept(self._max_message_bytes if spans else 0)
        call.task = asyncio.create_task(call.run(seconds, carrier, kept, self._threads))
        return await self.more(number)

    async def more(self, number: str) -> Answer:
        """Waits for reports of a running call, or for its end, and returns them."""
        if (call := self._calls.get(number)) is None:
            return [], FORGOTTEN, b"", b""
        answer = await call.news()
        if call.kind != RUNNING:
            self._calls.pop(number, None)
        return answer

    async def cancel(self, number: str) -> None:
        """Forgets a prepared call, or stops a running one. A sync tool's thread cannot be stopped: it sees
        ``ctx.cancelled``."""
        call = self._calls.pop(number, None)
        if call is not None and call.task is not None:
            call.scope.cancel()
            await call.ended.wait()

    async def _tool(self, reference: str) -> Tool[..., Any]:
        if (known := self._tools.get(reference)) is None:
            # The tool's module may take seconds to import, and other calls run in this loop.
            known = self._tools[reference] = await to_thread.run_sync(resolved, reference)
        return known

    def _forget(self, number: str) -> None:
        call = self._calls.get(number)
        if call is not None and call.task is None:
            del self._calls[number]


@dataclass(slots=True, eq=False)
class _Call:
    """One call: prepared, then running, then ended."""

    call: Invocation
    tool: Tool[..., Any]
    bound: Bound
    max_message_bytes: int
    task: asyncio.Task[None] | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    thread: int = field(default_factory=threading.get_ident)
    kind: str = RUNNING
    data: bytes = b""
    spans: bytes = b""
    is_news: asyncio.Event = field(default_factory=asyncio.Event)
    reports: list[bytes] = field(default_factory=list)
    reported_bytes: int = 0

    async def news(self) -> Answer:
        """Waits for reports, or for the end, and returns them."""
        await self.is_news.wait()
        self.is_news.clear()
        reports, self.reports, self.reported_bytes = self.reports, [], 0
        return reports, self.kind, self.data, self.spans

    async def run(
        self, seconds: float, carrier: dict[str, str], keeping: AbstractContextManager[KeptSpans], threads: _Threads
    ) -> None:
        """Runs the tool's code to its end, which may be its deadline."""
        try:
            with carried(carrier), keeping as kept:
                kind, self.data = await self._end(seconds, threads)
            self.kind, self.spans = kind, kept.take()
        finally:
            self.ended.set()
            self.is_news.set()

    async def _end(self, seconds: float, threads: _Threads) -> tuple[str, bytes]:
        name = self.tool.name
        try:
            with self.scope:
                self.scope.deadline = anyio.current_time() + seconds
                value = await self._value(threads)
                return RESULT, encode_value(name, value, self.max_message_bytes)
        except BaseException as error:  # SystemExit too: it is the tool's, not the actor's
            if not self.scope.cancel_called:  # else a task group of the tool's made it of its cancellation
                return FAILED, encode_failure(name, error, self.max_message_bytes)
        return TIMED_OUT, b""  # or cancelled, and then nobody asks

    async def _value(self, threads: _Threads) -> Any:
        ctx = context_of(self.call, self._report, lambda: self.scope.cancel_called or self.ended.is_set())
        args, kwargs = self.tool.complete(self.bound, ctx)
        function = partial(self.tool.fn, *args, **kwargs)
        value = function() if self.tool.is_async else await threads.run(function)
        return await awaited(self.tool.name, value, ctx.progress)

    def _report(self, value: Any) -> None:
        data = encode_report(value, self.max_message_bytes)
        if threading.get_ident() == self.thread:  # at once, since the tool may end at once
            self._take(data)
        else:
            self.loop.call_soon_threadsafe(self._take, data)

    def _take(self, data: bytes) -> None:
        if self.ended.is_set() or self.scope.cancel_called:
            return
        self.reports.append(data)
        self.reported_bytes += len(data)
        while self.reported_bytes > self.max_message_bytes:  # nobody asks, or not as fast: the newest matter most
            self.reported_bytes -= len(self.reports.pop(0))
        self.is_news.set()


class _Threads:
    """The threads of sync tools, and how many there are."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._busy = 0
        self._lock = threading.Lock()

    @property
    def are_full(self) -> bool:
        """True if no other thread may begin."""
        return self._busy >= self._most

    async def run(self, function: partial[Any]) -> Any:
        """Runs the function in a thread, which is left to itself if this is cancelled."""
        self._count(1)
        return await to_thread.run_sync(self._body, function, abandon_on_cancel=True, limiter=CapacityLimiter(math.inf))

    def _body(self, function: partial[Any]) -> Any:
        try:
            return function()
        finally:
            self._count(-1)

    def _count(self, by: int) -> None:
        with self._lock:
            self._busy += by


# -- the actors of one resource demand -------------------------------------------------------------------------------

# Keeps the actors of one resource demand: starts them when first needed, replaces dead ones, picks the least busy.

STARTS = 3  # Ray may choose a dying node until it knows of its death


@dataclass(slots=True, eq=False)
class Actor:
    """One actor, as the executor sees it."""

    handle: Any
    open: int = 0
    """The number of calls that have a place on it."""
    is_ready: bool = False
    """True once the actor has answered, so that it came up."""
    is_retired: bool = False
    """True once the actor gets no more calls."""

    async def ask(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the actor's and waits for its answer, on any event loop.

        Raises:
            ray.exceptions.RayError: there will be no answer.
        """
        token, done = current_token(), anyio.Event()
        future = self.tell(method, *arguments).future()
        future.add_done_callback(lambda _: call_soon(token, done.set))
        await done.wait()
        return future.result()

    def tell(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the actor's without waiting, and returns Ray's reference to the answer."""
        return getattr(self.handle, method).remote(*arguments)

    def drop(self, number: str) -> None:
        """Lets the actor forget a call, if it is there."""
        with suppress(RayError):
            self.tell("cancel", number)


@dataclass(slots=True, eq=False)
class _Waiter:
    waits_for: Callable[[WaitReason], object]
    came: anyio.Event = field(default_factory=anyio.Event)
    actor: Actor | None = None
    error: ToolNotStarted | None = None


@dataclass(slots=True, eq=False)
class ActorPool:
    """Places on actors that are alike."""

    start: Callable[[], Any]
    """Starts an actor, and does not wait for it."""
    size: int
    """The number of actors."""
    max_concurrency: int
    """The number of calls that an actor runs at once; more wait, in order."""
    start_timeout_s: float
    """How long a call waits while no actor has come up."""
    _failed_starts: int = 0
    _token: EventLoopToken | None = None
    _actors: list[Actor] = field(default_factory=list)
    _waiting: deque[_Waiter] = field(default_factory=deque)

    async def take(self, waits_for: Callable[[WaitReason], object]) -> Actor:
        """Waits for a place on the least busy actor, and reports why. Give it back in any case.

        Raises:
            ToolNotStarted: no actor came up.
        """
        self._token = self._token or current_token()  # callbacks run in no task, and cannot ask
        self._fill()
        waiter = _Waiter(waits_for)
        self._waiting.append(waiter)
        self._serve()
        try:
            while waiter.actor is None and waiter.error is None:
                with anyio.move_on_after(self.start_timeout_s) as patience:
                    await waiter.came.wait()
                if patience.cancelled_caught and not any(actor.is_ready for actor in self._actors):
                    waiter.error = self._not_there(f"none came up within {self.start_timeout_s:g} s")
        except BaseException:
            if waiter.actor is not None:
                self.give_back(waiter.actor)
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        if waiter.actor is not None:
            return waiter.actor
        assert waiter.error is not None, "one of them ended the loop"
        raise waiter.error

    def give_back(self, actor: Actor) -> None:
        """Gives a place back."""
        actor.open -= 1
        if actor.is_retired and not actor.open:
            _kill(actor)
        self._serve()

    def retire(self, actor: Actor) -> None:
        """Gives no more calls to an actor that is dead or out of reach, and starts another one instead."""
        if actor in self._actors:
            self._actors.remove(actor)
            actor.is_retired = True
            self._fill()

    def kill(self) -> None:
        """Ends all actors."""
        for actor in self._actors:
            _kill(actor)
        self._actors.clear()

    def _fill(self) -> None:
        while len(self._actors) < self.size:
            actor = Actor(self.start())
            self._actors.append(actor)
            future = actor.tell("ready").future()
            future.add_done_callback(partial(self._came_up, actor))

    def _came_up(self, actor: Actor, future: Any) -> None:  # in a thread of Ray's
        assert self._token is not None, "an actor is started for a call"
        call_soon(self._token, partial(self._take_up, actor, future.exception()))

    def _take_up(self, actor: Actor, error: BaseException | None) -> None:
        if actor not in self._actors:
            return
        if error is None:
            actor.is_ready = True
            self._failed_starts = 0
            self._serve()
            return
        self._actors.remove(actor)  # its node has just died, or its environment is not right
        self._failed_starts += 1
        if self._failed_starts < STARTS * self.size:
            self._fill()
            return
        self._failed_starts = 0
        while self._waiting and not self._actors:  # the next call tries again
            waiter = self._waiting.popleft()
            waiter.error = self._not_there(f"none can be started ({type_name(error)})")
            waiter.came.set()

    def _serve(self) -> None:
        while self._waiting and (actor := self._least_busy()) is not None:
            actor.open += 1
            waiter = self._waiting.popleft()
            waiter.actor = actor
            waiter.came.set()
        for waiter in self._waiting:
            waiter.waits_for("worker_busy" if any(actor.is_ready for actor in self._actors) else "worker_start")

    def _least_busy(self) -> Actor | None:
        ready = (actor for actor in self._actors if actor.is_ready)
        found = min(ready, key=lambda actor: actor.open, default=None)
        return found if found is not None and found.open < self.max_concurrency else None

    def _not_there(self, why: str) -> ToolNotStarted:
        return ToolNotStarted(f"not run: there is no Ray actor for it: {why}")


def _kill(actor: Actor) -> None:
    if ray.is_initialized():
        ray.kill(actor.handle)
