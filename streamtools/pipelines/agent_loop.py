"""Runs many steps as one run: asks the model, runs its calls, sends the results, until it answers.

    async with agent_loop(ask, messages, tools=[get_weather], target="openai.chat_completions") as run:
        async for event in run:
            ...
    messages = run.messages

The request stays yours: `ask(messages, tools)` makes it and returns the stream. Each step is a `pipeline`, so all that
holds for one holds here; the events of all steps come as one numbered run.

Theory of operation. The steps live in one task group, which the block holds: a step is opened in it, read to its end,
and closed, and no scope is entered or left while the consumer's code runs. `messages` is made of the turns that the
steps have left behind, at any moment: also a step that was cut off in its middle gives a turn with one result for every
call. A step whose calls wait for an approval pauses the run: its iteration ends, and goes on when they are decided.
Leaving the block instead suspends them; another run begins with them, and puts their results where the history has
them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeAlias, Unpack

from anyio import create_task_group, move_on_after
from anyio.abc import TaskGroup

from ..dispatch import Suspended, Verdict
from ..dispatch.call import Mention
from ..dispatch.store import checked_bound
from ..dispatch.suspended import Asked
from ..errors import DeadlineExceeded, LocalProtocolError
from ..events import Event, Observation, ToolCallValidated
from ..exports import Exports, export_all
from ..history import with_results
from ..limits import Limits
from ..parts import FINISHES, ToolCall
from ..tools import Tool
from ..turn import Turn
from ..wires import Wire
from .entry import Pipeline, PipelineKeywords, StepKeywords, pipeline, resume
from .hosted import OpenPipeline
from .trajectory import Trajectory

__all__ = ["AgentLoop", "CallModel", "RunOutcome", "agent_loop"]

CallModel: TypeAlias = Callable[[list[Any], list[Any]], Any]
"""Makes the request for one step: takes the messages and the tools as the provider wants them (Gemini's go into
``functionDeclarations``), returns the stream or an awaitable of it."""

RunOutcome: TypeAlias = Literal["answered", "unanswered", "stopped", "max_steps", "error", "suspended", "left"]
"""``answered``: the model called nothing more. ``unanswered``: it called a tool of the provider's for which none was
given (`Turn.unanswered`), so that the provider would refuse the next request. ``stopped``: `stop` returned True.
``max_steps``: the run would have gone on. ``error``: a stream failed, or a request, or `stop`. ``suspended``: the run
was left while calls waited for an approval; see `AgentLoop.suspended`. ``left``: the block was left or cancelled before
the run's end."""


def agent_loop(
    call_model: CallModel,
    messages: Sequence[Any],
    *,
    tools: Iterable[Tool[..., Any] | Callable[..., Any]] | Exports = (),
    wire: Wire | str,
    max_steps: int = 16,
    stop: Callable[[Turn], bool] | None = None,
    strict: bool | Literal["where_possible"] = False,
    trajectory: Trajectory | None = None,
    suspended: Suspended | None = None,
    decisions: Mapping[str, Verdict] | None = None,
    **options: Unpack[PipelineKeywords],
) -> AgentLoop:
    """Asks a model until it answers, running the calls that it makes on the way.

    Args:
        call_model: makes the request of each step; see `CallModel`. Its exceptions come out of ``async for``.
        messages: the history to begin with, in the wire's own shape. It is not changed: see `AgentLoop.messages`.
        tools: the tools that the model may call; they are exported for `wire` once, and names and arguments that the
            export has changed are turned back. Exports that were made already are taken as they are.
        wire: the wire of the requests and the streams, or its name.
        max_steps: how often the model is asked at most.
        stop: is given each turn that made calls, results included; True ends the run before the model is asked again.
        strict: export the tools in their strict form.
        trajectory: the run that the steps belong to, with its observers; by default a new one.
        suspended: calls that another run has left, which are in `messages`: they are decided and run first. That needs
            a ``store=``; see `resume`.
        decisions: the decisions about these calls.
        options: for each step's `pipeline`: ``limits``, ``start``, ``approve``, ``executor``, ``store``, ``stages``,
            ``transforms``, ``pool``, ``on_tool_error``, ``on_source_error``.

    Raises:
        ExportError: the wire is unknown, or cannot carry a tool.
        TypeError: an option is none of `pipeline`'s, or is the run's own, or has a value that `pipeline` does not take.
        ValueError: `max_steps` is less than 1, a decision is about no suspended call, or an option is not known.
    """
    checked_bound("max_steps", max_steps)
    if not callable(call_model):
        raise TypeError(f"call_model is a function of messages and tools, not {type(call_model).__name__}")
    if stop is not None and not callable(stop):
        raise TypeError(f"stop is a function of a turn, not {type(stop).__name__}")
    known = PipelineKeywords.__required_keys__ | PipelineKeywords.__optional_keys__
    if unknown := sorted(options.keys() - known):
        raise TypeError(f"agent_loop has no option {unknown[0]!r}; the pipeline's are {', '.join(sorted(known))}")
    if suspended is not None and options.get("store") is None:
        raise TypeError("to resume suspended calls, pass store=: it keeps them from running twice")
    if suspended is None and decisions:
        raise ValueError("decisions are about suspended calls; pass suspended=, too")
    if suspended is not None:  # fails now, if at all, and not when the calls have run
        with_results(list(messages), suspended.placeholders(), wire)
    exports = tools if isinstance(tools, Exports) else export_all(tools, wire, strict=strict)
    pipeline(b"", tools=exports, wire=wire, observers=(), **options)  # refuse now, before the model is asked
    if suspended is not None:
        resume(suspended, tools=exports, decisions=decisions, observers=(), **_of_resume(options))
    return AgentLoop(
        call_model,
        messages,
        exports=exports,
        wire=wire,
        max_steps=max_steps,
        stop=stop,
        trajectory=trajectory or (Trajectory() if suspended is None else Trajectory.resumed(suspended)),
        options=options,
        resuming=None if suspended is None else (suspended, decisions or {}),
    )


class AgentLoop:
    """A run as it goes on. Enter it with ``async with``, iterate over its events, then look at its outcome."""

    def __init__(
        self,
        call_model: CallModel,
        messages: Sequence[Any],
        *,
        exports: Exports,
        wire: Wire | str,
        max_steps: int,
        stop: Callable[[Turn], bool] | None,
        trajectory: Trajectory,
        options: PipelineKeywords,
        resuming: tuple[Suspended, Mapping[str, Verdict]] | None,
    ) -> None:
        self.trajectory = trajectory
        """The run that the steps share: id, numbering, observers."""
        self.outcome: RunOutcome | None = None
        """The way in which the run ended; None while it goes on."""
        self.turns: tuple[Turn, ...] = ()
        """The turns of the steps that are over, in order."""
        self._call_model = call_model
        self._begun_with = list(messages)
        self._exports = exports
        self._wire = wire
        self._max_steps = max_steps
        self._stop = stop
        self._options = options
        self._resuming = resuming
        self._left_suspended = None if resuming is None else resuming[0]
        self._asked = 0  # how often the model was asked
        self._group: TaskGroup | None = None
        self._entered = False
        self._events: OpenPipeline | None = None
        self._iterated = False  # somebody waits for the next event

    @property
    def turn(self) -> Turn | None:
        """The turn of the current step, else of the last one; None before the first."""
        if self._events is not None:
            return self._events.turn
        return self.turns[-1] if self.turns else None

    @property
    def messages(self) -> list[Any]:
        """The history up to here, in the wire's shape: the messages it began with, and each turn with its results.

        A fresh list, which can be sent at any moment after the block, and between two steps within it. In the middle of
        a step, its running calls have a result that says that they were interrupted.
        """
        turns = list(self.turns if self._events is None else (*self.turns, self._events.turn))
        begun_with = list(self._begun_with)
        if self._resuming is not None and turns:
            begun_with = with_results(begun_with, turns.pop(0).observations, self._wire)
        return [*begun_with, *(message for turn in turns for message in turn.messages(self._wire))]

    @property
    def suspended(self) -> Suspended | None:
        """The calls that wait for an approval, also after the block; see `Pipeline.suspended`. To go on with these
        calls, keep `messages` beside them, and give both to another `agent_loop`."""
        return self._left_suspended if self._events is None else self._events.suspended

    def approve(self, call: Asked, *, fingerprint: str | None = None) -> bool:
        """Approves a call that waits for it; see `Pipeline.approve`. Then iterate on."""
        return self._step().approve(call, fingerprint=fingerprint)

    def deny(self, call: Asked, reason: str | None = None, *, fingerprint: str | None = None) -> bool:
        """Denies a call that waits for an approval; see `Pipeline.deny`. Then iterate on."""
        return self._step().deny(call, reason, fingerprint=fingerprint)

    def cancel(self, call: Mention | str, reason: str | None = None) -> bool:
        """Stops one call of the current step, and no other; see `Pipeline.cancel`."""
        return self._step().cancel(call, reason)

    async def run_call(self, call: ToolCall | ToolCallValidated | str) -> Observation:
        """Runs a ready call, with ``start="manual"``; see `Pipeline.run_call`. Then iterate on."""
        return await self._step().run_call(call)

    def _step(self) -> OpenPipeline:
        if self._events is None:
            raise LocalProtocolError("no step goes on; decide about a call after its ApprovalRequested")
        return self._events

    async def __aenter__(self) -> AgentLoop:
        if self._entered:
            raise LocalProtocolError("an agent_loop is entered once; make a new one for the next run")
        self._entered = True
        self._group = await create_task_group().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        group, self._group = self._group, None
        assert group is not None, "entered"
        if self._events is not None and kind is None and self._events.resting:
            group.start_soon(self._events.aclose)  # the turn is whole; the calls that wait are suspended
        elif self._events is not None:
            # Left in the middle. The body's error is not passed to the group, which would wrap it.
            group.cancel_scope.cancel()
        try:
            await group.__aexit__(None, None, None)
        finally:
            self._keep()
            if self.outcome is None:
                self.outcome = "left" if self.suspended is None else "suspended"
        return None

    def __aiter__(self) -> AgentLoop:
        return self

    async def __anext__(self) -> Event:
        if self._group is None:
            raise TypeError(
                "an agent_loop is iterated inside its block; write:  async with agent_loop(...) as run:  ..."
            )
        if self._iterated:  # else both would ask the model
            raise LocalProtocolError("another task waits for the run's next event; iterate over a run in one task")
        self._iterated = True
        try:
            return await self._next(self._group)
        finally:
            self._iterated = False

    async def _next(self, group: TaskGroup) -> Event:
        while self.outcome is None:
            if self._events is None:
                self._events = await self._begin(group)
            try:
                return await self._events.__anext__()
            except StopAsyncIteration:
                if self._events.resting:
                    raise
                self._keep()
            except Exception:
                self.outcome = "error"
                raise
            self._decide(self.turns[-1])
        raise StopAsyncIteration

    async def finish(self) -> Turn:
        """Runs to the end, or until calls wait for an approval, ignoring the events; returns the last turn.

        Raises:
            StreamError: a stream failed.
            LocalProtocolError: the run is over, and has no turn: its first request failed.
        """
        async for _ in self:
            pass
        if self.turn is None:
            raise LocalProtocolError("the run is over, and has no turn: its first request failed")
        return self.turn

    async def _begin(self, group: TaskGroup) -> OpenPipeline:
        try:
            if self._resuming is not None and not self.turns:
                return self._resume(*self._resuming).open(group)
            self._asked += 1
            requested_at = time.monotonic()
            self.trajectory.began_at = self.trajectory.began_at or requested_at
            stream = self._call_model(self.messages, list(self._exports.payloads))
            if isinstance(stream, Awaitable) and not hasattr(stream, "__aiter__"):
                stream = await self._in_time(stream, requested_at)
            block = pipeline(
                stream,
                tools=self._exports,
                wire=self._wire,
                trajectory=self.trajectory,
                requested_at=requested_at,
                **self._options,
            )
        except Exception:
            self.outcome = "error"
            raise
        return block.open(group)

    async def _in_time(self, request: Awaitable[Any], requested_at: float) -> Any:
        """Awaits a request, within the times for the first chunk and the run."""
        limits = self._options.get("limits", Limits())
        ends = [
            (began + seconds, name, seconds)
            for name, seconds, began in (
                ("first_chunk_timeout", limits.first_chunk_timeout, requested_at),
                ("run_timeout", limits.run_timeout, self.trajectory.began_at),
            )
            if seconds is not None
        ]
        if not ends:
            return await request
        end, name, seconds = min(ends)
        with move_on_after(end - time.monotonic()):
            return await request
        raise DeadlineExceeded(name, seconds, "the request was not answered")

    def _resume(self, suspended: Suspended, decisions: Mapping[str, Verdict]) -> Pipeline:
        """Returns the step that was left: its calls are decided, and the model is not asked."""
        taken = _of_resume(self._options)
        return resume(suspended, tools=self._exports, decisions=decisions, trajectory=self.trajectory, **taken)

    def _decide(self, turn: Turn) -> None:
        """Sets the outcome if the model is not to be asked again."""
        ours = any(call.kind != "server" for call in turn.calls)
        if not ours and not (turn.finish is not None and FINISHES[turn.finish].goes_on):
            self.outcome = "answered"
        elif turn.unanswered:
            self.outcome = "unanswered"
        elif self._stopped_by(turn):
            self.outcome = "stopped"
        elif self._asked >= self._max_steps:
            self.outcome = "max_steps"

    def _stopped_by(self, turn: Turn) -> bool:
        try:
            return self._stop is not None and self._stop(turn)
        except Exception:
            self.outcome = "error"
            raise

    def _keep(self) -> None:
        """Keeps the turn and the suspended calls of a step that is over."""
        if self._events is not None:
            self._left_suspended = self._events.suspended
            self.turns, self._events = (*self.turns, self._events.turn), None


def _of_resume(options: PipelineKeywords) -> Any:
    """Returns those of a pipeline's options that a resumed step has, too, and the store."""
    wanted = {*StepKeywords.__optional_keys__, "store"}
    return {name: value for name, value in options.items() if name in wanted}
