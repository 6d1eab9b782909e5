"""Answers calls of ``background=True`` tools at once, runs them beside the steps of a run, and reports their results.

Theory of operation. To its step, such a call is one of an executor, which answers with a handle in words. It begins a
*job*: the same call under the same key, as `run_calls` runs it, in a task beside the steps. So the job, and not the
call, enters the run's gate and is filtered, retried and timed. Its end is said to the run, as `AgentLoop.say` says
something, under an id that is made of the call's key. A run that goes on finds in its history which jobs were begun,
and among what was said which of these have ended; the others are begun again, and the gate knows those of the effect
``once``: that they have ended, or that nobody knows.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import anyio

from ..content import Text
from ..dispatch import CallPool
from ..dispatch.executor import Begin, Emit, Invocation
from ..dispatch.options import KnownCalls
from ..errors import StreamError, StreamToolsError, ToolFailed, ToolOutcomeUnknown
from ..events import AnswerRequested, Observation, StepStart
from ..exports import Exports
from ..ground.own import own
from ..ground.text import one_line, type_name
from ..limits import Limits
from ..parts import RUN_OUTCOMES, RunOutcome, ToolCall
from ..pipelines.messages import STOPPED
from ..pipelines.trajectory import Trajectory
from ..seams import CallEnd, Entered, Gate, GateView, RunView, Seams, StepPlan, StepRequest
from ..tools import Tool, Toolset, tool
from ..turn import Turn
from ..wires import Wire
from ..wires.transcript import Prompt
from .at_hand import step_at_hand
from .checked import CheckedOptions, checked_options
from .face import Pipeline
from .given_calls import CallsDecoder, GivenCall

if TYPE_CHECKING:
    from ..tools.options import Middleware, RunCall, ToolCallRequest

WaitFor: TypeAlias = Literal["all"] | float | None
"""The wait of a run before it ends: for ``"all"`` jobs, for a number of seconds, or None."""

TOOL_NAME = "background_jobs"
_LONGEST_WAIT_S = 60.0  # of the tool, and less than tools may run by default
_MOST_CHARS = 100_000  # of a result that is too long for an entry of the journal
_IS_CUT = "\n[The result was too long, and is cut here.]"
_NOTHING = "(no text)"
_NOBODY_KNOWS = "Nobody knows how it ended."
_UNASKED = "a call in the background cannot ask anybody"
_logger = logging.getLogger("streamtools")


@dataclass(slots=True, eq=False)
class _Job:
    id: str
    tool: str
    call_id: str
    key: str  # the call's idempotency key
    step: int
    arguments: Mapping[str, Any] = field(repr=False)
    events: Pipeline | None = None  # once it runs in this process
    seen: Observation | None = None  # how it has ended here

    @property
    def label(self) -> str:
        return f"job {self.id} ({one_line(self.tool)})"


class Background:
    """The jobs of one run: the executor of their calls, and a source of steps that holds the run until they end."""

    carries_context = True
    _view: RunView  # once the run has begun

    def __init__(self, tools: Mapping[str, Tool[..., Any]], wait: WaitFor, options: Mapping[str, Any]) -> None:
        self._tools = tools  # as jobs run them
        self._options = options  # of the jobs
        self._wait = wait
        self._until: float | None = None  # so long the run waits at its end
        self._jobs: dict[str, _Job] = {}  # that were begun, by their ids
        self._open: set[str] = set()  # those that go on here
        self._ended = anyio.Event()  # the next one has
        self.tool = self._made_tool()

    def gate(
        self, within: Gate | None, ready: Callable[[], Awaitable[None]] | None, beside: Gate | None
    ) -> Gate | None:
        """Returns the gate of the run's calls. Its jobs enter the one `beside` the steps; `ready` waits until the
        response of the current step is on record."""
        self._gate, self._ready = beside, ready
        return None if within is None else _GateOfCalls(within, self._tools)

    def begin_with(self, run: Trajectory, wire: Wire, of_run: CheckedOptions) -> None:
        """Takes what its jobs run with."""
        self._run, self._wire, self._decode = run, wire, of_run.tools.decode
        self._limits, self._observers = of_run.limits, run.observers
        limits = replace(of_run.limits, step_timeout=None, max_repeated_calls=None, token_budget=None)
        checked = checked_options(
            list(self._tools.values()),
            trajectory=run,
            seams=Seams(filters=of_run.dispatch.seams.filters),
            limits=limits,
            pool=of_run.step.pool,
            **self._options,
        )
        self._checked = replace(checked, dispatch=replace(checked.dispatch, known=KnownCalls(any_value=True)))

    def _made_tool(self) -> Tool[..., Any]:
        async def background_jobs(wait_seconds: float = 0) -> str:
            """Look which background jobs go on. Results need not be fetched: each comes in a message by itself.

            Args:
                wait_seconds: Wait until a job ends, for so many seconds at most; up to 60.
            """
            if self._open and wait_seconds > 0:
                with anyio.move_on_after(min(wait_seconds, _LONGEST_WAIT_S)):
                    await self._ended.wait()
            return "\n".join(map(self._state, self._jobs.values())) or "No job was started in the background."

        return tool(background_jobs, name=TOOL_NAME, effect="idempotent")

    def _state(self, job: _Job) -> str:
        said = self._said()
        return f"{job.label}: {'is running' if job.id not in said else 'has ended; a message has its result'}"

    def _said(self) -> set[str]:
        return {str(one["id"]).removeprefix("job-") for one in (*self._view.said, *self._view.unread)}

    # -- as an executor: the calls of the steps --

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        if self._ready is not None:
            await self._ready()
        await begin()
        job = _Job(_id_of(call.key), call.tool, call.call_id, call.key, call.step, own(call.arguments))
        if call.caller != "direct":  # code reads a result, and no messages
            await self._read(job)
            return _NOBODY_KNOWS if job.seen is None else job.seen.unwrap()
        if job.id not in self._jobs and job.id not in self._said():
            if len(self._open) >= (most := self._limits.max_background_jobs):
                text = f"not started: {most} background jobs are running (max_background_jobs)"
                raise ToolFailed(f"{text}; call again when one of them has ended")
            self._start(job)
        return _handle(call.key)

    # -- as a source of steps --

    async def begin(self, run: RunView) -> None:
        self._view = run
        self._ended = anyio.Event()

    def peek(self) -> bool:
        return False

    async def next(self, request: StepRequest) -> StepPlan | RunOutcome | None:
        self._go_on()
        return None

    async def ended(self, turn: Turn) -> RunOutcome | None:
        """Notes the jobs of a step that is on record."""
        calls = {call.call_id: call for call in turn.calls}
        for seen in turn.observations:
            job_id = _id_of(seen.idempotency_key or "")
            is_job = seen.tool_name in self._tools and calls[seen.call_id].caller == "direct"
            if is_job and seen.outcome == "ok" and job_id not in self._jobs:
                arguments = seen.edited or self._arguments(calls[seen.call_id])
                key = seen.idempotency_key or ""
                self._jobs[job_id] = _Job(job_id, seen.tool_name, seen.call_id, key, seen.step, arguments)
        return None

    def holds(self, outcome: RunOutcome | None) -> bool:
        """Returns whether the run waits for jobs, instead of ending so, or resting (None)."""
        if self._wait is None:
            return False
        if outcome == "cancelled":
            for job in self._jobs.values():
                if job.events is not None:
                    job.events._runner.cut(STOPPED, spares_approvals=False)
        else:
            self._go_on()
        if self._open and not isinstance(self._wait, str) and self._until is None:
            self._until = anyio.current_time() + self._wait
            self._view.watch(self._tell_late)
        return bool(self._open) and (self._until is None or anyio.current_time() < self._until)

    async def _tell_late(self) -> None:
        assert self._until is not None, "set before"
        await anyio.sleep_until(self._until)
        self._view.tell()

    async def leave(self, outcome: RunOutcome) -> None:
        """Says how those were ended that the run has not waited for, if it is over; else it may begin them again."""
        if RUN_OUTCOMES[outcome].goes_on:
            return
        for job in self._jobs.values():
            if job.id in self._open and job.seen is not None:
                self._say(job, job.seen.outcome, job.seen.model_content)
        self._open.clear()

    def _go_on(self) -> None:
        """Begins the jobs anew that another process has begun, and whose ends are not on record."""
        said = self._said()
        for job in [one for one in self._jobs.values() if one.id not in said and one.id not in self._open]:
            self._start(job)

    def _arguments(self, call: ToolCall) -> Mapping[str, Any]:
        return self._decode(call.name, call.arguments or {})

    # -- jobs --

    def cancel(self, call_id: str) -> bool:
        """Cancels the job of a call; returns False if there is none that goes on."""
        of_call = (job for job in reversed(self._jobs.values()) if job.call_id == call_id and job.id in self._open)
        job = next(of_call, None)
        return job is not None and job.events is not None and job.events.cancel(call_id)

    def _start(self, job: _Job) -> None:
        self._jobs[job.id] = job
        self._open.add(job.id)
        self._view.watch(partial(self._work, job))

    async def _work(self, job: _Job) -> None:
        outcome, text = "unknown", _NOBODY_KNOWS
        try:
            await self._read(job)
        except Exception as error:  # neither the tool's nor the stream's, which are told
            _logger.warning("%s: %s", job.label, type_name(error))
        if job.seen is not None:
            outcome, text = job.seen.outcome, job.seen.model_content
        self._open.discard(job.id)
        try:
            self._say(job, outcome, text)
        except StreamToolsError as error:  # the journal is gone, and the run's next commit raises
            _logger.warning("%s: its result was not kept (%s)", job.label, type_name(error))
            self._view.tell()
        ended, self._ended = self._ended, anyio.Event()
        ended.set()

    async def _read(self, job: _Job) -> None:
        job.events = events = self._made(job)
        try:
            async with events:
                async for event in events:
                    if isinstance(event, AnswerRequested):
                        events.answer(event, _UNASKED, is_error=True)
        except StreamError:  # the run's time is over, and the call was cancelled
            pass
        finally:
            job.seen = next(iter(events.turn.observations), None)

    def _made(self, job: _Job) -> Pipeline:
        """Returns the call as a step of its own, with the name and the number of that which has made it."""
        kept, checked = self._run, self._checked
        beside = [made() for one in self._observers if (made := getattr(one, "beside", None)) is not None]
        run = Trajectory(conversation_id=kept.conversation_id, run_id=kept.run_id, observers=beside, privacy=kept.guard)
        run.steps, run.began_at = job.step, kept.began_at
        dispatch = checked.dispatch
        if self._gate is not None:
            checked = replace(
                checked, dispatch=replace(dispatch, seams=replace(dispatch.seams, gate=_GateOfJob(self._gate, job)))
            )
        is_raw = self._tools[job.tool].kind == "custom"
        text = str(job.arguments.get("input", "")) if is_raw else json.dumps(dict(job.arguments))
        given = GivenCall(call_id=job.call_id, name=job.tool, text=text, kind="custom" if is_raw else "function")
        decoder = CallsDecoder([given], checked.tools, checked.stages, checked.limits)
        return step_at_hand(checked, run, decoder, checked.dispatch, StepStart(run.run_id, asks_model=False))

    def _say(self, job: _Job, outcome: str, text: str) -> None:
        """Says a result to the run, marked as no text of the user's, unless its tool is trusted."""
        from ..provenance.history import Untrusted, marked_in

        is_trusted = self._tools[job.tool].trusted
        blocks = (
            Text(f"[Not written by the user: the result of background {job.label}, {outcome}]"),
            Text((text or _NOTHING) if is_trusted else Untrusted(text or _NOTHING)),
        )
        messages = self._rendered(*blocks)
        if not is_trusted and not any(marked_in(messages)):  # a wire that joins texts
            messages = [one for block in blocks for one in self._rendered(block)]
        try:
            self._view.add(messages, f"job-{job.id}")
        except ValueError:
            if len(text) <= _MOST_CHARS:
                raise
            self._say(job, outcome, text[:_MOST_CHARS] + _IS_CUT)

    def _rendered(self, *blocks: Text) -> list[dict[str, Any]]:
        return self._wire.render_prompt(Prompt(role="user", blocks=blocks))


def _id_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _handle(key: str) -> str:
    return f"Started as background job {_id_of(key)}. Its result will come in a separate message; continue meanwhile."


# -- the gates of calls and of jobs --


class _Unclaimed:
    async def kept(self, end: CallEnd, /) -> None: ...

    async def free(self) -> None: ...

    async def lost(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _GateOfCalls:
    """Claims no call whose job does that, under the same key; one of which the job has begun was answered."""

    within: Gate
    names: Collection[str]

    def key(self, call: GateView, /) -> str:
        name = getattr(self.within, "key", None)
        key: str = call.key if name is None or call.tool_name in self.names else name(call)
        return key

    async def look(self, call: GateView, /) -> CallEnd | None:
        if call.tool_name not in self.names:
            return await self.within.look(call)
        try:
            has_begun = await self.within.look(replace(call, known_as=call.key)) is not None
        except ToolOutcomeUnknown:
            has_begun = True
        return CallEnd(value=_handle(call.key)) if has_begun else None

    async def enter(self, call: GateView, /) -> Entered | CallEnd:
        return _Unclaimed() if call.tool_name in self.names else await self.within.enter(call)


@dataclass(frozen=True, slots=True)
class _GateOfJob:
    """Knows a job by its call's key alone, since its arguments may have been edited."""

    within: Gate
    job: _Job

    def key(self, call: GateView, /) -> str:
        return self.job.key

    async def look(self, call: GateView, /) -> CallEnd | None:
        raise AssertionError("a job is no call of a step that is read again")

    async def enter(self, call: GateView, /) -> Entered | CallEnd:
        return await self.within.enter(replace(call, key=self.job.key, known_as=self.job.key))


# -- the words of `agent_loop` --


def background_of(
    tools: Sequence[Any], options: Mapping[str, Any], wait: WaitFor
) -> tuple[Background, list[Any], dict[str, Any]]:
    """Returns the jobs of a run, its tools with the one that looks at jobs, and its options for that.

    Raises:
        TypeError: the tools were exported already.
        ValueError: `wait` is none of the words, or a tool has the name of that one.
    """
    is_seconds = isinstance(wait, (int, float)) and not isinstance(wait, bool) and 0 < wait < math.inf
    if not (wait is None or wait == "all" or is_seconds):
        raise ValueError('wait_for_background must be "all", a number of seconds greater than 0, or None')
    if isinstance(tools, Exports):
        raise TypeError("background=True adds a tool, so pass the tools themselves, not their exports")
    made = [one for one in Toolset(tools).values() if one is not None]
    names = {one.name for one in made if one.background}
    if any(one.name == TOOL_NAME for one in made):
        raise ValueError(f"the name {TOOL_NAME!r} is taken by the tool that background=True adds; rename yours")
    run_elsewhere, changed = options.get("executor"), dict(options)
    if run_elsewhere is not None and not isinstance(run_elsewhere, Mapping):
        run_elsewhere = {one.name: run_elsewhere for one in made}
    of_jobs: dict[str, Any] = {name: options[name] for name in ("context", "middleware") if name in options}
    of_jobs["executor"] = {name: one for name, one in (run_elsewhere or {}).items() if name in names} or None
    background = Background({one.name: _of_job(one) for one in made if one.name in names}, wait, of_jobs)
    changed["executor"] = {**(run_elsewhere or {}), **dict.fromkeys(names, background)}
    changed["middleware"] = [_around_others(one, names) for one in _several(options.get("middleware"))]
    changed["pool"] = options.get("pool") or CallPool(options.get("limits", Limits()))
    return background, [*(_of_call(one) if one.background else one for one in made), background.tool], changed


def _of_job(given: Tool[..., Any]) -> Tool[..., Any]:
    return replace(given, background=False, needs_approval=False, approvals=1, policy=None, hints=None)


def _of_call(given: Tool[..., Any]) -> Tool[..., Any]:
    """Returns the tool without what is about its run. A store is asked for by its idempotency key."""
    return replace(
        given,
        max_concurrency=None,
        conflict_key=None,
        exclusive=False,
        trial=False,
        middleware=None,
        retries=0,
        _judge=None,
    )


def _several(middleware: Middleware | Sequence[Middleware] | None) -> Sequence[Middleware]:
    if middleware is None:
        return ()
    return middleware if isinstance(middleware, Sequence) else (middleware,)


def _around_others(middleware: Middleware, names: Collection[str]) -> Middleware:
    async def around(call: ToolCallRequest, run: RunCall) -> Any:
        return await (run() if call.tool_name in names else middleware(call, run))

    return around
