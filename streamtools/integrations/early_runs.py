"""Keeps the runs of calls that were started before a framework asked for them, until it does.

A call gets the result of the run whose tool and validated arguments are its own, or calls the function itself, and is
counted as missed. Nothing is handed from one conversation to another: a call belongs to the request that its context
variables lead to, the latest of its own task or thread or of the one from which these were copied, and gets runs of
that request's response alone, if the context variables are still those of the request. A `scope` replaces them;
`shared` gives up both.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias
from weakref import WeakValueDictionary

import anyio
from anyio.lowlevel import EventLoopToken, current_token

from ..dispatch.event_loop import call_soon
from ..errors import LocalProtocolError, ToolDefinitionError
from ..events import Event, Observation, StreamEnd, ToolCallValidated, ToolStarted
from ..limits import Limits
from ..observers import EarlyEnd, Observer
from ..tools import Tool, Toolset
from .lineage import Request
from .same_arguments import Signature

_KEPT_S = 300.0  # a framework that asks a person first may take minutes; a value that was looked up ages
_BEHIND_S = 1.0  # how long a call waits until what the framework has read is decoded: validation may take 0.5 s
_BUSY_S = 0.001  # of that, without sleeping between two looks
_MOST_RUNS = 1024  # of all responses of a tap together: eight responses with as many calls as they may have

_logger = logging.getLogger("streamtools")

Note: TypeAlias = Callable[[str, BaseException | None], None]

MISSES: Mapping[str, str] = {
    "no_run": "no call of this tool was waiting: its response was not streamed or not tapped",
    "no_request": "it comes from a task or thread unrelated to any request; pass scope=",
    "no_scope": "scope= returned no name for it",
    "other_request": "the waiting calls of this tool belong to other requests or scopes; pass scope=",
    "context_changed": "a context variable has changed since the request; pass scope=",
    "other_arguments": "its arguments match none of the waiting calls",
    "not_compared": "its arguments could not be compared",
    "not_over": "it was made in the event loop's thread, which cannot wait for the run",
    "no_result": "the run ended without a result: it was cancelled or timed out",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlySummary:
    claimed: int  # calls that were answered from an early run
    missed: Mapping[str, int]  # calls that ran again, by the reason: a code of `MISSES`
    never_asked: int  # early runs that no call has asked for, and no call can any more
    waiting: int  # early runs that a call may still ask for
    seconds_won: float
    """How long the runs that were claimed had run when the framework asked. Of runs that go on side by side each counts
    in full."""

    def __str__(self) -> str:
        missed = f"{sum(self.missed.values())} missed"
        if self.missed:
            missed += f" ({', '.join(f'{code} {count}' for code, count in self.missed.items())})"
        rest = f"{self.never_asked} never asked for, {self.waiting} waiting, {self.seconds_won:.2f} s won"
        return f"{self.claimed} claimed, {missed}, {rest}"


@dataclass(slots=True, eq=False)
class EarlyRun:
    call_id: str
    tool_name: str
    sent: Mapping[str, Any]  # the arguments as the model sent them
    response: ResponseRuns
    added_at: float
    started_at: float | None = None
    ended_at: float | None = None
    valid: Mapping[str, Any] | None = None
    """The arguments as the function gets them, by parameter name; None until a call may be for this run."""
    is_over: Future[None] = field(default_factory=Future)
    returned: tuple[Any, ...] = ()
    raised: Exception | None = None
    tried: EarlyRun | None = None
    """The trial that was taken up, of which all this is noted instead."""

    def take_tried(self) -> None:
        """Takes what a trial has noted so far, unless the function has run again since."""
        if self.tried is not None:
            self.started_at, self.ended_at = self.tried.started_at, self.tried.ended_at
            self.returned, self.raised = self.tried.returned, self.tried.raised

    @contextmanager
    def noting(self) -> Iterator[Callable[[Any], Any]]:
        """Notes how the function ends: call what this gives with its value. A retry replaces what was noted."""
        self.returned, self.raised, self.tried = (), None, None
        if self.started_at is None:
            self.started_at = self.response.clock()
        try:
            yield self._note
        except Exception as error:
            self.raised = error
            raise
        finally:
            self.ended_at = self.response.clock()

    def _note(self, value: Any) -> Any:
        # A plain function around an async one returns an awaitable, which can be awaited only once: not by two.
        if not inspect.isawaitable(value):
            self.returned = (value,)
        return value

    @property
    def has_end(self) -> bool:
        return bool(self.returned) or self.raised is not None

    def unwrap(self) -> Any:
        if self.raised is not None:
            raise self.raised
        return self.returned[0]

    def cancel(self) -> None:
        if not self.is_over.done():
            call_soon(self.response.token, functools.partial(self.response.cancel, self.call_id))

    def won_s(self, at: float) -> float:
        if self.started_at is None:
            return 0.0
        return max(0.0, (at if self.ended_at is None else min(at, self.ended_at)) - self.started_at)

    def end(self, fate: Literal["claimed", "never_asked"], at: float, won_s: float = 0.0) -> EarlyEnd:
        began = self.added_at if self.started_at is None else self.started_at
        return EarlyEnd(
            tool_name=self.tool_name, call_id=self.call_id, fate=fate, began=began, ended=at, seconds_won=won_s
        )


_running: ContextVar[EarlyRun | None] = ContextVar("streamtools_early_run", default=None)


class EarlyRuns:
    """The tools that may start early, and their unclaimed runs. `note` takes note of calls that could not be compared
    with runs. `scope` returns the one that a run is for, or a call comes from: by default the request itself. A call
    gets runs of its own scope: those of its own request's response, or else of the latest response; if `shared`, runs
    of any response."""

    def __init__(
        self,
        note: Note,
        *,
        scope: Callable[[], Hashable] | None = None,
        shared: bool = False,
        limits: Limits = Limits(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tools = Toolset()
        self.note = note
        self.clock = clock  # monotonic seconds
        self._scope = scope
        self._shared = shared
        self._limits = limits
        self._signatures: dict[str, Signature] = {}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._lock = threading.Lock()
        self._in_order: dict[EarlyRun, None] = {}
        self._latest: WeakValueDictionary[Hashable, ResponseRuns] = WeakValueDictionary()  # by scope
        self._numbers = itertools.count(1)
        self._claimed = self._never_asked = 0
        self._missed: Counter[str] = Counter()
        self._won_s = 0.0

    def wrapped(self, tool: Tool[..., Any]) -> Callable[..., Any]:
        _check(tool)
        if self._functions.get(tool.name) != tool.fn:
            self.tools = Toolset([*(known for known in self.tools.values() if known is not None), _recorded(tool)])
            self._functions[tool.name] = tool.fn
            self._signatures[tool.name] = Signature(tool)
        wrapper = (_awaiting if tool.is_async else _waiting)(tool, self)
        functools.update_wrapper(wrapper, tool.fn)
        wrapper.__name__ = tool.name  # frameworks take the tool's name from it, and calls are known by that
        return wrapper

    def summary(self) -> EarlySummary:
        self._forget_these(self._aged())
        with self._lock:
            return EarlySummary(
                claimed=self._claimed,
                missed=dict(self._missed),
                never_asked=self._never_asked,
                waiting=len(self._in_order),
                seconds_won=self._won_s,
            )

    def patience_s(self, tool: Tool[..., Any]) -> float | None:
        """Returns how long a thread waits for a run: the run's own time, and that of its end."""
        seconds = self._limits.tool_timeout if tool.timeout is None else tool.timeout
        return None if seconds is None else seconds + self._limits.cancel_grace

    def begin(self, response: ResponseRuns) -> tuple[Hashable, int]:
        """Notes that a response begins; returns its scope, None if it shares with nobody, and its number."""
        scope = None if self._scope is None else self._scope()
        with self._lock:
            if (before := self._latest.get(scope)) is not None:
                before.is_latest = False
            self._latest[scope] = response
            return scope, next(self._numbers)

    def add(self, run: EarlyRun) -> None:
        with self._lock:
            self._in_order[run] = None
            surplus = itertools.islice(self._in_order, max(0, len(self._in_order) - _MOST_RUNS))
            old = {**dict.fromkeys(self._aged()), **dict.fromkeys(surplus)}
        self._forget_these(old)

    def claim(self, tool: Tool[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> EarlyRun | None:
        """Returns the run of a call, which is then nobody else's; None if there is none, which is counted."""
        try:
            found = self._found(tool, args, kwargs)
        except TypeError:  # the function does not take these arguments: the plain call shows which
            found = "other_arguments"
        except Exception as error:  # of an argument's own code, or of `scope`
            self.note("call_not_compared", error)
            found = "not_compared"
        if isinstance(found, str):
            self.miss(tool, found)
            return None
        return found

    def is_behind(self) -> bool:
        """Returns whether a response that may have the run of a call which is made now is still being decoded."""
        asked = [Request.of_this_context()]
        if self._shared or self._scope is not None:
            try:
                latest = self._latest.get(None if self._scope is None else self._scope())
            except Exception:  # of `scope`: `claim` takes note of it
                return False
            asked.append(None if latest is None else latest.request)
        return any(request is not None and request.is_behind() for request in asked)

    def _found(self, tool: Tool[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> EarlyRun | str:
        self._forget_these(self._aged())
        runs = [run for run in list(self._in_order) if run.tool_name == tool.name]
        near = self._of_this_response(runs) if runs else "no_run"
        if isinstance(near, str):
            return near
        signature = self._signatures[tool.name]
        asked = signature.asked(args, kwargs)
        for run in near:
            # Made anew of what was sent, since a function may change the values that it has got.
            run.valid = signature.validated(run.sent) if run.valid is None else run.valid
            if asked.are(run.valid) and self._taken(run):
                return run
        return "other_arguments"

    def _of_this_response(self, runs: list[EarlyRun]) -> list[EarlyRun] | str:
        if self._shared:
            return sorted(runs, key=lambda run: -run.response.number)
        request = Request.of_this_context()
        own = [run for run in runs if run.response.request is request]
        if self._scope is not None:
            if (scope := self._scope()) is None:
                return "no_scope"
            in_scope = [run for run in runs if run.response.scope == scope]
            latest = [run for run in in_scope if run.response.is_latest and run not in own]
            return [*(run for run in own if run in in_scope), *latest] or "other_request"
        if request is None:
            return "no_request"
        if not own:
            return "other_request"
        return own if request.changed() is None else "context_changed"

    def _taken(self, run: EarlyRun) -> bool:
        with self._lock:
            if run not in self._in_order:
                return False
            del self._in_order[run]
        return True

    def claimed(self, run: EarlyRun, at: float) -> None:
        won = run.won_s(at)
        with self._lock:
            self._claimed += 1
            self._won_s += won
        run.response.see_early(run.end("claimed", max(at, run.ended_at or at), won))

    def miss(self, tool: Tool[..., Any], why: str) -> None:
        with self._lock:
            self._missed[why] += 1
            is_first = self._missed[why] == 1
        if (request := Request.of_this_context()) is not None:
            now = self.clock()
            request.see_early(
                EarlyEnd(tool_name=tool.name, call_id=None, fate="missed", reason=why, began=now, ended=now)
            )
        if is_first:
            _logger.warning(
                "tap: a call of %r was not answered from an early run: %s (%s)", tool.name, MISSES[why], why
            )

    def forget(self, run: EarlyRun) -> None:
        if self._taken(run):
            with self._lock:
                self._never_asked += 1
            run.cancel()
            run.response.see_early(run.end("never_asked", self.clock()))

    def forget_all(self, response: ResponseRuns | None = None) -> None:
        self._forget_these(run for run in list(self._in_order) if response in (None, run.response))

    def _forget_these(self, runs: Iterable[EarlyRun]) -> None:
        for run in runs:
            self.forget(run)

    def _aged(self) -> list[EarlyRun]:
        now = self.clock()
        return list(itertools.takewhile(lambda run: now - run.added_at >= _KEPT_S, list(self._in_order)))


class ResponseRuns:
    """The runs of one response: an observer of its pipeline, whose event loop is `token`."""

    event_types = (ToolCallValidated, ToolStarted, Observation, StreamEnd)

    sees_originals = True  # it starts the calls

    def __init__(self, kept: EarlyRuns, token: EventLoopToken) -> None:
        self.token = token
        self.thread = threading.get_ident()
        self.cancel_call: Callable[[str], object] = _nothing  # cancels a call of the pipeline; to be set
        self.request = Request.of_this_context()
        self.is_latest = True  # no response of its scope has begun after it
        self.scope, self.number = kept.begin(self)
        self.clock = kept.clock
        self.observers: list[Observer] = []  # the observers of the pipeline; to be set
        if self.request is not None:
            self.request.see_early = self.see_early
        self._kept = kept
        self._runs: dict[str, EarlyRun] = {}
        self._tried: dict[str, EarlyRun] = {}  # of calls that had not ended, by their ids

    def on_event(self, event: Event) -> None:
        # A framework makes such a response anew, if at all, and asks for the calls of the new one.
        if isinstance(event, ToolCallValidated):
            self._add(event)
        elif isinstance(event, ToolStarted):
            if event.tried and (tried := self._runs.get(event.call_id)) is not None:
                tried.tried = self._tried.pop(event.call_id)
                tried.take_tried()
        elif isinstance(event, Observation) and (run := self._runs.pop(event.call_id, None)) is not None:
            self._end(run)
        elif isinstance(event, StreamEnd) and not event.ended_well:
            self._kept.forget_all(self)

    def around_tool(self, call_id: str) -> AbstractContextManager[object] | None:
        run = self._runs.get(call_id)
        if run is None:
            run = self._tried[call_id] = EarlyRun(call_id, "", {}, self, self.clock())
        return _named(run)

    def see_early(self, end: EarlyEnd) -> None:
        """Shows the observers what has become of a call. One that raises does not see the next."""
        for observer in list(self.observers):
            see: Callable[[EarlyEnd], object] | None = getattr(observer, "see_early", None)
            if see is not None:
                try:
                    see(end)
                except Exception as error:
                    self.observers.remove(observer)
                    self._kept.note("observer_failed", error)

    def cancel(self, call_id: str) -> None:
        try:
            self.cancel_call(call_id)
        except LocalProtocolError:  # the block was left, which has cancelled it
            return

    def settle(self) -> None:
        """Ends the runs of calls that were never observed: call it when the pipeline has ended, however it did."""
        while self._runs:
            self._end(self._runs.popitem()[1])
        # Results may be kept for minutes, and are not to keep the pipeline.
        self.cancel_call = _nothing

    def _end(self, run: EarlyRun) -> None:
        run.take_tried()
        run.is_over.set_result(None)

    def _add(self, event: ToolCallValidated) -> None:
        kept, tool = self._kept, self._kept.tools.called(event.call)
        if tool is not None and event.call.arguments is not None:
            run = EarlyRun(event.call_id, tool.name, event.call.arguments, self, kept.clock())
            self._runs[event.call_id] = run
            kept.add(run)


def _nothing(call_id: str) -> None:
    """Cancels no call: there is none."""


async def until_done(future: Future[None]) -> None:
    done, token = anyio.Event(), current_token()
    future.add_done_callback(lambda _: call_soon(token, done.set))
    await done.wait()


# -- the functions for the framework, and those for the pipeline --


def _check(tool: Tool[..., Any]) -> None:
    # A guardrail, a hook or an approval of the framework comes too late for a run that has begun; so only what has no
    # effect may begin before them.
    if tool.effect != "pure":
        why = (
            f"its effect is {tool.effect!r}; only a tool with effect='pure' may start before the framework asks for it"
        )
    elif tool.policy is not None:
        why = "it has a policy, which needs the messages that the model has read"
    elif tool.needs_approval is not False:
        why = "it needs an approval, which the framework asks for; pass the function itself to the framework"
    elif tool.wants_context:
        why = "it has a parameter that is filled at the call; pass the function itself to the framework"
    elif inspect.isasyncgenfunction(tool.fn):
        why = "it is an async generator, whose progress the framework would not see; write a function that returns"
    else:
        return
    raise ToolDefinitionError(f"tool {tool.name!r}: {why}", tool=tool.name)


def _awaiting(tool: Tool[..., Any], runs: EarlyRuns) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        asked_at = runs.clock()
        # A framework may ask as soon as it has read the call: in the same turn of the event loop, say.
        while runs.is_behind() and runs.clock() - asked_at < _BEHIND_S:  # noqa: ASYNC110  # of any thread's reader
            await anyio.sleep(0 if runs.clock() - asked_at < _BUSY_S else _BUSY_S)
        run = runs.claim(tool, args, kwargs)
        if run is None:
            return await tool.fn(*args, **kwargs)
        try:
            await until_done(run.is_over)
        finally:
            run.cancel()
        # Any end that is not the function's own (a timeout, a refusal, a failure of ours) leads to a plain call, as if
        # nothing had been started.
        if run.has_end:
            runs.claimed(run, asked_at)
            return run.unwrap()
        runs.miss(tool, "no_result")
        return await tool.fn(*args, **kwargs)

    return wrapper


def _waiting(tool: Tool[..., Any], runs: EarlyRuns) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        asked_at = runs.clock()
        while runs.is_behind() and runs.clock() - asked_at < _BEHIND_S and not _is_in_a_loop():
            time.sleep(_BUSY_S)
        run = runs.claim(tool, args, kwargs)
        if run is None:
            return tool.fn(*args, **kwargs)
        # In the loop's own thread nothing would run while this waits: there, only a result that is there is taken.
        in_loop = threading.get_ident() == run.response.thread
        is_over = run.is_over.done() if in_loop else _waited(run, tool, runs)
        run.cancel()
        if is_over and run.has_end:
            runs.claimed(run, asked_at)
            return run.unwrap()
        runs.miss(tool, "not_over" if in_loop and not is_over else "no_result")
        return tool.fn(*args, **kwargs)

    return wrapper


def _is_in_a_loop() -> bool:
    try:
        current_token()
    except RuntimeError:
        return False
    return True


def _waited(run: EarlyRun, tool: Tool[..., Any], runs: EarlyRuns) -> bool:
    try:
        run.is_over.result(runs.patience_s(tool))
    except TimeoutError:
        return False
    return True


def _recorded(tool: Tool[..., Any]) -> Tool[..., Any]:
    async def run_async(*args: Any, **kwargs: Any) -> Any:
        with _noted() as note:
            return note(await tool.fn(*args, **kwargs))

    def run_in_thread(*args: Any, **kwargs: Any) -> Any:
        with _noted() as note:
            return note(tool.fn(*args, **kwargs))

    return replace(tool, fn=run_async if tool.is_async else run_in_thread)


def _noted() -> AbstractContextManager[Callable[[Any], Any]]:
    run = _running.get()
    return nullcontext(lambda value: value) if run is None else run.noting()


@contextmanager
def _named(run: EarlyRun) -> Iterator[None]:
    before = _running.set(run)
    try:
        yield
    finally:
        _running.reset(before)
