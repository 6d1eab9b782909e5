"""Keeps the runs of calls that were started before a framework asked for them, until it does.

Input: the events of tapped responses, and the calls of functions that `EarlyRuns.wrapped` made. Output: each such call
gets the result of the run whose name and arguments are its own, or, where there is none, calls the function itself. A
run is given to one call only, and only to a call of its own scope: conversations over one client share nothing. Runs
that nobody asks for are forgotten with time, with number, and when their response was cut.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import anyio
from anyio.lowlevel import EventLoopToken, current_token
from pydantic_core import to_jsonable_python

from ..errors import LocalProtocolError
from ..event_loop import call_soon
from ..events import Event, Observation, StreamEnd, ToolCallValidated
from ..limits import Limits
from ..tools import Tool, Toolset
from ..tools.callables import refuse

__all__ = ["EarlyRun", "EarlyRuns", "ResponseRuns", "until_done"]

_KEPT_S = 300.0  # a framework that asks a person first may take minutes; a value that was looked up ages
_MOST_RUNS = 1024  # of all responses of a tap together: eight responses with as many calls as they may have

_Key: TypeAlias = tuple[Hashable, str, str]

Note: TypeAlias = Callable[[str, BaseException | None], None]
"""Takes note of a failure of ours: its code, and the exception if there was one."""


@dataclass(slots=True, eq=False)
class EarlyRun:
    """One run of a call, started or about to start."""

    call_id: str
    key: _Key
    arguments: Mapping[str, Any]
    """By parameter name, as the function gets them."""
    response: ResponseRuns
    began_at: float
    is_over: Future[None] = field(default_factory=Future)
    returned: tuple[Any, ...] = ()
    """The function's value, once it has one."""
    raised: Exception | None = None
    """The function's exception, once it has raised one."""

    @contextmanager
    def noting(self) -> Iterator[Callable[[Any], Any]]:
        """Notes how the function ends: call what this gives with its value. A retry replaces what was noted."""
        self.returned, self.raised = (), None
        try:
            yield self._note
        except Exception as error:
            self.raised = error
            raise

    def _note(self, value: Any) -> Any:
        # A plain function around an async one returns an awaitable, which can be awaited only once: not by two.
        if not inspect.isawaitable(value):
            self.returned = (value,)
        return value

    @property
    def has_end(self) -> bool:
        """True if the function has ended by itself."""
        return bool(self.returned) or self.raised is not None

    def unwrap(self) -> Any:
        """Returns the function's value, or raises its exception; only if it `has_end`."""
        if self.raised is not None:
            raise self.raised
        return self.returned[0]

    def cancel(self) -> None:
        """Cancels the run, if it goes on; from any thread."""
        if not self.is_over.done():
            call_soon(self.response.token, functools.partial(self.response.cancel, self.call_id))


_running: ContextVar[EarlyRun | None] = ContextVar("streamtools_early_run", default=None)
"""The run that the code is part of."""

# Context variables are inherited by the tasks that a conversation starts, and by no others. Comparing all variables of
# two contexts was considered, but instrumentations change these in between.
_request: ContextVar[object] = ContextVar("streamtools_request")
"""The latest request of this context, or of the one from which it was copied."""


class EarlyRuns:
    """The tools that may start early, and their unclaimed runs.

    Args:
        note: takes note of calls that could not be compared with runs.
        scope: returns the one that a run is for, or a call comes from; a call gets runs of its own scope only. By
            default it is the latest request of the context.
        limits: how long a call may wait for its run.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        note: Note,
        *,
        scope: Callable[[], Hashable] | None = None,
        limits: Limits = Limits(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tools = Toolset()
        """The tools, for a pipeline that starts their calls."""
        self.scope = scope or functools.partial(_request.get, None)
        """Returns the one that a run is for, or a call comes from; None of a call outside every request."""
        self.note = note
        """Takes note of a failure of ours."""
        self.clock = clock
        """Monotonic seconds."""
        self._limits = limits
        self._signatures: dict[str, inspect.Signature] = {}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._lock = threading.RLock()  # values are compared by code of theirs
        self._by_key: dict[_Key, list[EarlyRun]] = {}
        self._in_order: dict[EarlyRun, None] = {}

    def wrapped(self, tool: Tool[..., Any]) -> Callable[..., Any]:
        """Registers a tool; returns the function to give to the framework in the tool's place.

        Raises:
            ToolDefinitionError: the tool may not start before the framework asks for it, or another one has its name.
        """
        _check(tool)
        if self._functions.get(tool.name) != tool.fn:
            self.tools = Toolset([*(known for known in self.tools.values() if known is not None), _recorded(tool)])
            self._functions[tool.name] = tool.fn
            self._signatures[tool.name] = inspect.signature(tool.fn)
        wrapper = (_awaiting if tool.is_async else _waiting)(tool, self)
        functools.update_wrapper(wrapper, tool.fn)
        wrapper.__name__ = tool.name  # frameworks take the tool's name from it, and calls are known by that
        return wrapper

    def arguments(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns a call's arguments by parameter name, defaults included.

        Raises:
            TypeError: the function does not take them.
        """
        bound = self._signatures[name].bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    def begin_request(self) -> None:
        """Notes in the current context that a request is made. Tasks that it starts from now on are of this request."""
        _request.set(object())

    def patience_s(self, tool: Tool[..., Any]) -> float | None:
        """Returns how long a thread waits for a run: the run's own time, and that of its end."""
        seconds = self._limits.tool_timeout if tool.timeout is None else tool.timeout
        return None if seconds is None else seconds + self._limits.cancel_grace

    def add(self, run: EarlyRun) -> None:
        """Keeps a run until it is claimed or forgotten."""
        with self._lock:
            self._by_key.setdefault(run.key, []).append(run)
            self._in_order[run] = None
            surplus = itertools.islice(self._in_order, max(0, len(self._in_order) - _MOST_RUNS))
            old = {**dict.fromkeys(self._aged()), **dict.fromkeys(surplus)}
        self._forget_these(old)

    def claim(self, name: str, arguments: Mapping[str, Any]) -> EarlyRun | None:
        """Returns the run of a call, which is then nobody else's; None if there is none."""
        if (scope := self.scope()) is None:
            return None
        key = (scope, name, canonical(arguments))
        # Equal calls of several responses: the framework asks for those of the latest, in their order. Two values may
        # have the same JSON, a date and its text say, so that the values are compared, too.
        with self._lock:
            old = self._aged()
            runs = [run for run in self._by_key.get(key, ()) if run not in old]
            latest = [run for run in runs if run.response is runs[-1].response]
            found = next((run for run in latest if run.arguments == arguments), None)
            if found is not None:
                self._remove(found)
        self._forget_these(old)
        return found

    def forget(self, run: EarlyRun) -> None:
        """Cancels a run and drops its result, unless it was claimed."""
        with self._lock:
            is_kept = run in self._in_order
            if is_kept:
                self._remove(run)
        if is_kept:
            run.cancel()

    def forget_all(self, response: ResponseRuns | None = None) -> None:
        """Forgets every run that was not claimed; of one response, if one is given."""
        with self._lock:
            kept = list(self._in_order)
        self._forget_these(run for run in kept if response in (None, run.response))

    def _forget_these(self, runs: Iterable[EarlyRun]) -> None:
        for run in runs:
            self.forget(run)

    def _aged(self) -> list[EarlyRun]:
        """Returns the runs that are too old; they were kept in the order of their begin."""
        now = self.clock()
        return list(itertools.takewhile(lambda run: now - run.began_at >= _KEPT_S, self._in_order))

    def _remove(self, run: EarlyRun) -> None:
        del self._in_order[run]
        runs = self._by_key[run.key]
        runs.remove(run)
        if not runs:
            del self._by_key[run.key]


class ResponseRuns:
    """The runs of one response: an observer of its pipeline.

    Args:
        kept: where the runs wait for those who ask for them.
        token: the event loop of the pipeline.
    """

    event_types = (ToolCallValidated, Observation, StreamEnd)
    """The events at the begin and at the end of a run, and at that of the stream."""

    def __init__(self, kept: EarlyRuns, token: EventLoopToken) -> None:
        self.token = token
        """The event loop of the pipeline."""
        self.thread = threading.get_ident()
        """The thread of that event loop."""
        self.cancel_call: Callable[[str], object] = _nothing
        """Cancels a call of the pipeline; to be set."""
        self._kept = kept
        self._scope = kept.scope()
        self._runs: dict[str, EarlyRun] = {}

    def on_event(self, event: Event) -> None:
        """Keeps the run of a call that may start now, or ends it; forgets the unclaimed runs of a response that was
        cut."""
        # A framework makes such a response anew, if at all, and asks for the calls of the new one.
        if isinstance(event, ToolCallValidated):
            self._add(event)
        elif isinstance(event, Observation) and (run := self._runs.pop(event.call_id, None)) is not None:
            self._end(run)
        elif isinstance(event, StreamEnd) and not event.ended_well:
            self._kept.forget_all(self)

    def around_tool(self, call_id: str) -> AbstractContextManager[object] | None:
        """Names the run to the code that is run."""
        run = self._runs.get(call_id)
        return None if run is None else _named(run)

    def cancel(self, call_id: str) -> None:
        """Cancels a call, if the pipeline still has it."""
        try:
            self.cancel_call(call_id)
        except LocalProtocolError:  # the block was left, which has cancelled it
            return

    def settle(self) -> None:
        """Ends the runs of calls that were never observed. Call it when the pipeline has ended, however it did: nobody
        may wait for a run that is not there."""
        while self._runs:
            self._end(self._runs.popitem()[1])
        # Results may be kept for minutes, and are not to keep the pipeline.
        self.cancel_call = _nothing

    def _end(self, run: EarlyRun) -> None:
        run.is_over.set_result(None)
        if not run.has_end:
            self._kept.forget(run)

    def _add(self, event: ToolCallValidated) -> None:
        kept, tool = self._kept, self._kept.tools.called(event.call)
        if tool is None:
            return
        try:
            arguments = kept.arguments(tool.name, event.invocation.args, event.invocation.kwargs)
            key = (self._scope, tool.name, canonical(arguments))
            hash(key)
        except Exception as error:  # of an argument's own code: the call cannot be found again
            kept.note("call_not_compared", error)
            return
        self._runs[event.call_id] = run = EarlyRun(event.call_id, key, arguments, self, kept.clock())
        kept.add(run)


def _nothing(call_id: str) -> None:
    """Cancels no call: there is none."""


async def until_done(future: Future[None]) -> None:
    """Waits for a future of any thread or event loop."""
    done, token = anyio.Event(), current_token()
    future.add_done_callback(lambda _: call_soon(token, done.set))
    await done.wait()


def canonical(arguments: Mapping[str, Any]) -> str:
    """Returns arguments as JSON text, the same for equal ones in whatever order they come."""
    return json.dumps(to_jsonable_python(arguments), sort_keys=True, separators=(",", ":"))


# -- the functions for the framework, and those for the pipeline -------------------------------------------------------


def _check(tool: Tool[..., Any]) -> None:
    """Refuses a tool whose calls only the framework may start."""
    # A guardrail, a hook or an approval of the framework comes too late for a run that has begun; so only what has no
    # effect may begin before them.
    if tool.effect != "pure":
        why = (
            f"its effect is {tool.effect!r}; only a tool with effect='pure' may start before the framework asks for it"
        )
    elif tool.needs_approval is not False:
        why = "it needs an approval, which the framework asks for; give the framework the function itself"
    elif tool.wants_context:
        why = "it has a parameter that is filled when it is called; give the framework the function itself"
    elif inspect.isasyncgenfunction(tool.fn):
        why = "it is an async generator, whose progress the framework would not see; write a function that returns"
    else:
        return
    raise refuse(tool.name, why)


def _awaiting(tool: Tool[..., Any], runs: EarlyRuns) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        run = _claimed(tool, runs, args, kwargs)
        if run is None:
            return await tool.fn(*args, **kwargs)
        try:
            await until_done(run.is_over)
        finally:
            run.cancel()
        # Any end that is not the function's own (a timeout, a refusal, a failure of ours) leads to a plain call, as if
        # nothing had been started.
        return run.unwrap() if run.has_end else await tool.fn(*args, **kwargs)

    return wrapper


def _waiting(tool: Tool[..., Any], runs: EarlyRuns) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        run = _claimed(tool, runs, args, kwargs)
        if run is None:
            return tool.fn(*args, **kwargs)
        # In the loop's own thread nothing would run while this waits: there, only a result that is there is taken.
        is_over = run.is_over.done() if threading.get_ident() == run.response.thread else _waited(run, tool, runs)
        run.cancel()
        return run.unwrap() if is_over and run.has_end else tool.fn(*args, **kwargs)

    return wrapper


def _waited(run: EarlyRun, tool: Tool[..., Any], runs: EarlyRuns) -> bool:
    try:
        run.is_over.result(runs.patience_s(tool))
    except TimeoutError:
        return False
    return True


def _claimed(tool: Tool[..., Any], runs: EarlyRuns, args: Any, kwargs: Any) -> EarlyRun | None:
    """Returns the run of this call, if there is one; None, too, where its arguments cannot be compared."""
    try:
        return runs.claim(tool.name, runs.arguments(tool.name, args, kwargs))
    except TypeError:  # the function does not take these arguments, or they have no JSON: the plain call shows which
        return None
    except Exception as error:  # of an argument's own code
        runs.note("call_not_compared", error)
        return None


def _recorded(tool: Tool[..., Any]) -> Tool[..., Any]:
    """Returns the tool for the pipeline, which notes how each run of its function ends."""

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
