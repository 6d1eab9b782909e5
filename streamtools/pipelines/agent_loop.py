"""Runs many steps as one run: opens each step that its source has next, and decides by its turn whether it goes on.

The sources of steps (`StepSource`) are asked in order, and the last one is the model. The steps live in one task group,
which the block holds: a step is opened in it, read to its end, and closed, and no scope is entered or left while the
consumer's code runs. Each step adds its turn to the history, one that was cut off in its middle, too, with one result
for every call.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from anyio import CancelScope, create_task_group
from anyio.abc import TaskGroup

from ..dispatch.endings import recount
from ..dispatch.event_loop import is_cancellation, is_in_generator, spawn
from ..dispatch.states import Mention
from ..errors import LocalProtocolError
from ..events import Event, Observation, ToolCallValidated
from ..ground.own import MESSAGES, own
from ..ground.text import described, type_name
from ..parts import FINISHES, RUN_OUTCOMES, RunOutcome, ToolCall, Usage
from ..turn import Turn
from ..wires import Wire
from .hosted import HostedBlock, OpenPipeline, PassesOn, open_in
from .messages import INTERRUPTED, STOPPED, Conversation, Inbox, RunHistory, When
from .refusals import asynchronous_only, turned_to
from .runner import runner_of
from .trajectory import Trajectory

if TYPE_CHECKING:
    from ..dispatch import Suspended
    from ..seams import StepPlan, StepRequest, StepSource
    from .blocking import SyncAgentLoop

CallModel: TypeAlias = Callable[[list[Any], Any], Any]
"""Makes the request for one step: takes the messages and the tools as the provider wants them (Gemini's go into
``functionDeclarations``), both its own to change; returns the stream or an awaitable of it. With ``mode=``, it takes
the mode's fields of the request in place of the tools: a dict for ``create(messages=messages, **fields)``."""


class Steps(Protocol):
    asks_again: bool  # it may ask the model again in a step

    def make(self, plan: StepPlan, asked: tuple[list[Any], Any] | None) -> HostedBlock: ...

    def block_in_threads(self) -> None: ...


class AgentLoop(PassesOn):
    """A run as it goes on. Enter it with ``async with``, iterate over its events, then look at its outcome."""

    def __init__(
        self,
        messages: Sequence[Any],
        *,
        conversation: Conversation,
        wire: Wire | str,
        sources: Sequence[StepSource],
        steps: Steps,
        stop: Callable[[Turn], bool] | None,
        trajectory: Trajectory,
        drafts: bool,
        suspended: Suspended | None,
    ) -> None:
        self.trajectory = trajectory
        """The run that the steps share: id, numbering, observers."""
        self.outcome: RunOutcome | None = None
        """The way in which the run ended; None while it goes on."""
        self.turns: tuple[Turn, ...] = ()
        """The turns of the steps that are over, in order."""
        self.sources = tuple(sources)
        """Where its steps come from, in order; the model is the last."""
        self._history = RunHistory(messages, conversation, wire, drafts=drafts)
        self._inbox = Inbox(wire)
        self._stop = stop
        self._steps = steps
        self._step: _OpenStep | None = None
        self._left_suspended = suspended  # the calls that the latest step has left
        self._tasks = _Tasks()
        self._is_ours = False  # the trajectory was entered here
        self._state: Literal["new", "open", "left"] = "new"
        self._iterated = False  # somebody waits for the next event

    def __repr__(self) -> str:
        return f"{type(self).__name__}(outcome={self.outcome!r}, turns=<{described(self.turns)}>)"

    @property
    def turn(self) -> Turn:
        """The turn of the current step, else of the last one; `turns` has those that are over.

        Raises:
            LocalProtocolError: the model has not been asked yet.
        """
        if self._step is not None:
            return self._step.events.turn
        if not self.turns:
            if self.outcome is None:
                raise LocalProtocolError("the run has no turn: the model has not been asked yet; iterate first")
            why = "its tokens were spent" if self.outcome == "budget" else f"it ended ({self.outcome})"
            raise LocalProtocolError(f"the run has no turn: {why} before it began")
        return self.turns[-1]

    @property
    def usage(self) -> Usage:
        """The token counts of all turns up to here, summed field by field; None where no turn has counted. A turn
        without counts (`Turn.usage` is None) adds nothing, so that the sum is then less than what was used. Discarded
        attempts count, too."""
        counted = (turn.usage for turn in self._all_turns if turn.usage is not None)
        return sum(counted, self.trajectory.discarded)

    @property
    def begun_with(self) -> list[Any]:
        """The messages that it began with: copies, as of `messages`."""
        return list(own(self._history.begun_with, MESSAGES))

    @property
    def wire(self) -> Wire:
        """The wire of its messages."""
        return self._history.wire

    @property
    def _all_turns(self) -> tuple[Turn, ...]:
        return self.turns if self._step is None else (*self.turns, self._step.events.turn)

    @property
    def messages(self) -> list[Any]:
        """The history up to here, in the wire's shape: the messages it began with, and each turn with its results, but
        no `drafts`, unless they were asked for: those are in `turns` alone.

        A fresh list, with messages and blocks of its own. It can be sent at any moment after the block, and between two
        steps within it. In the middle of a step, running calls have a result that says that they were interrupted.
        """
        current = None if self._step is None else self._step.events.turn
        return list(own(self._history.messages(current), MESSAGES))

    @property
    def suspended(self) -> Suspended | None:
        """The calls that wait for an approval or an answer, also after the block; see `Pipeline.suspended`. To go on
        with these calls, keep `messages` beside them, and give both to another `agent_loop`."""
        suspended = self._left_suspended if self._step is None else self._step.events.suspended
        for ticket in _each(self.sources, "ticket"):
            suspended = None if suspended is None else ticket(suspended)
        return suspended

    @property
    def unsettled(self) -> tuple[Observation, ...]:
        """The calls of the last step whose end is not known. A run with a journal is ``suspended`` by them: find out
        what happened, settle each under its `idempotency_key` (`SqliteStore.settle`, or ``streamtools store``), and run
        the same line again."""
        turn = self._all_turns[-1:]
        return tuple(seen for one in turn for seen in one.observations if seen.outcome == "unknown")

    def _passed(self, act: Callable[[OpenPipeline], bool]) -> bool:
        return act(self._goes_on())

    async def run_call(self, call: ToolCall | ToolCallValidated | str) -> Observation:
        """Runs a ready call, with ``start="manual"``; see `Pipeline.run_call`. Then iterate on. Returns the end on
        record of a call in a step that is replayed."""
        known = None if self._step is None else self._step.end_of(call)
        return known or await self._goes_on().run_call(call)

    def say(self, message: str | Mapping[str, Any], *, when: When = "next") -> str:
        """Adds a message of the user's to the run that goes on; returns its id. `MessageAdded` shows when it enters the
        history. It never stands between a call and its result; where the run would end with an answer, the model is
        asked once more. While a call waits for an approval or an answer, the message waits, too, and decides nothing.

        Args:
            message: text, or a user's message as the wire has it, which is copied.
            when: ``"next"``: after the results of the current step. ``"now"``: its response is cut, calls that have not
                begun are ``skipped``, and the others go on to their end.

        Raises:
            LocalProtocolError: the run has not begun, or is over; or this is another thread.
            TypeError: it is neither text nor a message; with a journal, or it is no JSON.
            ValueError: it is no message of a user's, or `when` is not known; with a journal, or it is larger than 1 MB.
        """
        self._inbox.check("say", is_over=self._state == "left" or self.outcome is not None)
        entry = self._inbox.say(message, when, keep=self._put)
        self._cut_for(entry)
        return str(entry["id"])

    def _put(self, entry: Mapping[str, Any]) -> None:
        for put in _each(self.sources, "put"):
            put(entry)

    def _cut_for(self, entry: Mapping[str, Any]) -> None:
        if entry["when"] == "now" and self._cut(INTERRUPTED, spares_approvals=True):
            self._history.is_cut = True
        elif entry["when"] == "now" and self._step is not None:
            self._put({**entry, "when": "next"})  # a call waits for people: nor is it cut in the next visit

    @property
    def unread(self) -> tuple[dict[str, Any], ...]:
        """What was said and is in no request yet: each with its ``id`` and its ``messages``. If the run has ended
        before, as at `max_steps`, they are not among `messages`."""
        return self._inbox.waiting

    def stop(self) -> bool:
        """Ends the run in good order, as ``cancelled``: the response is cut, calls that have not begun are ``skipped``,
        those that may run again (``pure`` and ``idempotent``) are ``cancelled``, and those of the effect ``once`` go on
        to their end. Returns False if that changes nothing. Iterate on for the last events.

        Raises:
            LocalProtocolError: the run has not begun; or this is another thread.
        """
        self._inbox.check("stop", is_over=False)
        changes = self._state == "open" and self.outcome is None and not self._inbox.is_stopped
        if changes:
            self._put({"id": uuid.uuid4().hex, "kind": "stop"})
            self._stop_now()
        return changes

    def _stop_now(self) -> None:
        self._inbox.is_stopped = True
        self._cut(STOPPED, spares_approvals=False)

    def _cut(self, reason: str, *, spares_approvals: bool) -> bool:
        return self._step is not None and runner_of(self._step.events).cut(reason, spares_approvals=spares_approvals)

    def _goes_on(self) -> OpenPipeline:
        if self._step is None:
            raise LocalProtocolError("no step goes on; decide about a call after its ApprovalRequested")
        return self._step.events

    async def __aenter__(self) -> AgentLoop:
        if self._state != "new":
            raise LocalProtocolError("an agent_loop is entered once; make a new one for the next run")
        self._state = "left"  # if a source cannot begin
        await self._tasks.enter()
        try:
            await self._begin_sources()
        except BaseException as error:  # nobody else leaves a block that was not entered
            self.outcome = "error" if isinstance(error, Exception) else None
            await self._tasks.leave(type(error), None)
            raise
        self._state = "open"
        self._inbox.open()
        self._is_ours = self.trajectory.enter()
        return self

    async def _begin_sources(self) -> None:
        begun: list[StepSource] = []
        try:
            for source in self.sources:
                await source.begin(_View(self))
                begun.append(source)
        except BaseException:
            with CancelScope(shield=True):
                for source in begun:
                    await source.leave("error")
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self._state = "left"
        try:
            await self._tasks.leave(kind, None if self._step is None else self._step.events)
        finally:
            self._keep()
            if self.outcome is None and self._inbox.is_stopped:
                self.outcome = "cancelled"
            elif self.outcome is None:
                self.outcome = "left" if self.suspended is None else "suspended"
            if self._is_ours:
                self.trajectory.leave(self.outcome, error)
            await self._leave_sources(self.outcome, error)
        return None

    async def _leave_sources(self, outcome: RunOutcome, error: BaseException | None) -> None:
        failed: BaseException | None = None
        for source in self.sources:
            try:
                await source.leave(outcome)
            except BaseException as failure:  # a cancellation, too: the others are to give back what they hold
                failed = failed or failure
        if failed is not None and (error is None or not isinstance(failed, Exception)):
            raise failed
        if failed is not None and error is not None:
            error.add_note(str(failed))

    if not TYPE_CHECKING:  # type checkers see the mistake themselves
        __iter__ = __enter__ = __exit__ = asynchronous_only("a run", "agent_loop(...) as run")
        __getattr__ = turned_to("run.turn")

    def __aiter__(self) -> AgentLoop:
        return self

    async def __anext__(self) -> Event:
        if self._state != "open":
            raise TypeError("a run is iterated inside its block; write:  async with agent_loop(...) as run:  ...")
        if self._iterated:  # else both would ask the model
            raise LocalProtocolError("another task waits for the run's next event; iterate over a run in one task")
        self._iterated = True
        try:
            return await self._next()
        finally:
            self._iterated = False

    async def _next(self) -> Event:
        while self.outcome is None:
            if (step := self._step) is None:
                await self._begin()
                continue
            try:
                return await step.read()
            except StopAsyncIteration:
                if step.events.resting:
                    raise
            except Exception:
                is_shown = self._steps.asks_again and bool(step.events.turn.parts)
                self.outcome = "interrupted" if is_shown else "error"
                raise
            await self._end_step()
        raise StopAsyncIteration

    def sync(self, backend: str = "asyncio") -> SyncAgentLoop:
        """Returns the run for a program without an event loop; see `Pipeline.sync`. `call_model` may block."""
        from .blocking import SyncAgentLoop  # most programs have an event loop

        self._steps.block_in_threads()
        return SyncAgentLoop(self, backend)

    async def finish(self) -> Turn:
        """Runs to the end, or until calls wait for an approval, ignoring the events; returns the last turn. Awaiting
        the run does the same. Inside the block this runs the rest.

            run = agent_loop(ask, messages, tools=[get_weather], wire="anthropic.messages")
            turn = await run
            messages = run.messages

        Raises:
            StreamError: a stream failed.
            LocalProtocolError: the run is over, and has no turn: no tokens were left for a request.
        """
        if self._state == "new":
            async with self:
                await self.finish()
        else:
            async for _ in self:
                pass
        return self.turn

    def __await__(self) -> Generator[Any, Any, Turn]:
        return self.finish().__await__()

    async def _begin(self) -> None:
        try:
            from ..seams import StepPlan, StepRequest  # loaded when a run begins

            said = self._inbox.waiting
            request = StepRequest(len(self.turns), said, lambda: self._request(said))
            plan = await self._planned(request)
            if isinstance(plan, StepPlan):
                self._step = self._opened(plan, request)
            else:
                self.outcome = _outcome(plan)
        except Exception:
            self.outcome = "error"
            raise

    async def _planned(self, request: StepRequest) -> StepPlan | RunOutcome:
        for source in self.sources:
            if self._is_stopped:  # perhaps while the source before it was asked
                return "cancelled"
            if (plan := await source.next(request)) is not None:
                return plan
        raise AssertionError("the model is the last source")

    def _request(self, said: Sequence[Mapping[str, Any]]) -> tuple[list[Any], Any]:
        messages, tools = self._history.request(said)
        return own(messages, MESSAGES), own(tools, MESSAGES)

    def _opened(self, plan: StepPlan, request: StepRequest) -> _OpenStep:
        if plan.waited:
            asked, added = None, []
            self._history.begin_resumed(plan.waited)
        else:
            said = self._inbox.take(len(request.said)) if plan.said is None else plan.said
            added = self._history.begin_step(said)
            self._history.is_cut = plan.record is not None and plan.record.is_broken
            asked = self._history.request()
        block = self._steps.make(plan, asked)
        runner = runner_of(block)
        runner.attempt.calls.withheld = self._inbox.withholds
        runner.go_on_when_cut()
        runner.begin_with(added)
        events = open_in(self._tasks.group, block)
        return _OpenStep(events, plan.ends, _each(self.sources, "read"))

    async def _end_step(self) -> None:
        ends = None if self._step is None else self._step.ends
        self._keep()
        turn = self.turns[-1]
        try:
            if ends is not None:
                recount(turn.calls, ends, self.trajectory.counts)
            ended: list[RunOutcome | None] = [await source.ended(turn) for source in self.sources]
            *ours, by_model = ended
            self.outcome = next((_outcome(one) for one in ours if one), None)
            if self.outcome is None and not self._has_next:
                self.outcome = self._decided(turn) or by_model
        except Exception:
            self.outcome = "error"
            raise
        if self.outcome == "answered":
            self._history.keep_answer(turn)

    def _decided(self, turn: Turn) -> RunOutcome | None:
        ours = any(call.kind != "server" for call in turn.calls)
        finish = None if turn.finish is None else FINISHES[turn.finish]
        if self._is_stopped:
            return "cancelled"
        if finish is not None and not finish.is_over:
            return "pending"
        if not (ours or (finish and finish.goes_on) or self._inbox.waiting or self._history.only_thinks(turn)):
            return "answered"
        if turn.unanswered:
            return "unanswered"
        return "stopped" if self._stop is not None and self._stop(turn) else None

    @property
    def _has_next(self) -> bool:
        return any(source.peek() for source in self.sources)

    @property
    def _is_stopped(self) -> bool:
        """True if the run is to end now: steps that need no model come first."""
        return self._inbox.is_stopped and not self._has_next

    @property
    def _standing(self) -> Turn | None:
        """The last turn, whether or not its response is whole; None if the next visit is to ask for it again."""
        if not self.turns or (self.outcome == "left" and not self._history.is_cut):
            return None
        stands = self._history.stands(self.turns[-1], is_stopped=self._inbox.is_stopped)
        return self.turns[-1] if stands or self.outcome == "answered" else None

    def _keep(self) -> None:
        if self._step is None:
            return
        events, self._step = self._step.events, None
        self._left_suspended = events.suspended
        self.turns = (*self.turns, events.turn)
        self._history.end_step(events.turn)


def _outcome(found: RunOutcome) -> RunOutcome:
    if found not in tuple(RUN_OUTCOMES):  # a source of the user's
        name = found if isinstance(found, str) else type_name(found)
        raise TypeError(f"StepSource: expected a StepPlan, an outcome of a run or None, got {name}")
    return found


def _each(sources: Sequence[StepSource], method: str) -> list[Any]:
    return [getattr(source, method) for source in sources if hasattr(source, method)]


class _OpenStep:
    def __init__(self, events: OpenPipeline, ends: Sequence[Observation] | None, readers: Sequence[Any]) -> None:
        self.events = events
        self.ends = ends  # of its calls, if they are known
        self.read: Callable[[], Awaitable[Event]] = events.__anext__
        for read in readers:
            self.read = partial(read, self.read)

    def end_of(self, call: Mention | str) -> Observation | None:
        call_id = call if isinstance(call, str) else call.call_id
        return next((seen for seen in self.ends or () if seen.call_id == call_id), None)


class _Tasks:
    def __init__(self) -> None:
        self.group: TaskGroup | None = None  # None in a generator, where the event loop holds them
        self._beside: list[CancelScope] = []

    async def enter(self) -> None:
        if not is_in_generator():
            self.group = await create_task_group().__aenter__()

    def start(self, task: Callable[[], Awaitable[None]]) -> None:
        scope = CancelScope()  # made before the task begins: the run may be left by then
        self._beside.append(scope)

        async def run(scope: CancelScope) -> None:
            with scope:
                await task()

        spawn(run, scope) if self.group is None else self.group.start_soon(run, scope)

    async def leave(self, kind: type[BaseException] | None, events: OpenPipeline | None) -> None:
        """Ends them; `kind`: of the error that the block is left with, `events`: the step that goes on."""
        for scope in self._beside:
            scope.cancel()
        if self.group is None:
            if events is not None:
                await events.leave(cancelled=is_cancellation(kind))
            return
        if events is not None and kind is None and events.resting:
            self.group.start_soon(events.aclose)  # the turn is whole; the calls that wait are suspended
        elif events is not None:
            # Left in the middle. The body's error is not passed to the group, which would wrap it.
            self.group.cancel_scope.cancel()
        await self.group.__aexit__(None, None, None)


class _View:
    def __init__(self, loop: AgentLoop) -> None:
        self._loop = loop

    @property
    def run_id(self) -> str:
        return self._loop.trajectory.run_id

    @property
    def name(self) -> str | None:
        return self._loop.trajectory.name

    @property
    def conversation_id(self) -> str | None:
        return self._loop.trajectory.conversation_id

    @property
    def begun_with(self) -> list[Any]:
        return self._loop.begun_with

    @property
    def said(self) -> Sequence[Mapping[str, Any]]:
        return self._loop._history.said

    @property
    def is_stopped(self) -> bool:
        return self._loop._inbox.is_stopped

    @property
    def is_iterated(self) -> bool:
        return self._loop._iterated

    @property
    def step(self) -> OpenPipeline | None:
        return None if self._loop._step is None else self._loop._step.events

    @property
    def standing(self) -> Turn | None:
        return self._loop._standing

    def say(self, message: Any, when: When = "next", entry_id: str | None = None) -> None:
        if self._loop.outcome is None:
            self._loop._cut_for(self._loop._inbox.say(message, when, entry_id))

    def stop(self) -> None:
        if self._loop.outcome is None:
            self._loop._stop_now()

    def watch(self, task: Callable[[], Awaitable[None]]) -> None:
        self._loop._tasks.start(task)
