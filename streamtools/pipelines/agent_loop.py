"""Runs many steps as one run: opens the next step of its sources, and decides by its turn whether the run continues.

The sources of steps (`StepSource`) are asked in order, and the last one is the model. The steps live in one task group,
which the block holds: each step is opened in it, read to its end, and closed. No scope is entered or left while the
consumer's code runs. Each step adds its turn to the history, even a turn that was cut off in the middle, with one
result for every call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import anyio
from anyio import CancelScope, create_task_group
from anyio.abc import TaskGroup

from ..dispatch.endings import recount
from ..dispatch.event_loop import is_cancellation, is_in_generator, ring, spawn
from ..dispatch.states import Mention
from ..errors import LocalProtocolError
from ..events import Event, Observation, ToolCallValidated
from ..ground.own import MESSAGES, own
from ..ground.text import type_name
from ..parts import FINISHES, RUN_OUTCOMES, RunOutcome, ToolCall
from ..turn import Turn
from .messages import INTERRUPTED, STOPPED, RunHistory
from .runner import Runner
from .trajectory import Trajectory

if TYPE_CHECKING:
    from ..dispatch import Suspended
    from ..seams import RunView, StepPlan, StepRequest, StepSource

CallModel: TypeAlias = Callable[[list[Any], Any], Any] | Callable[[list[Any], Any, dict[str, Any]], Any]
"""Makes the request for one step. Takes the messages and the tools as the provider wants them (Gemini's go into
``functionDeclarations``), and may change both. Returns the stream or an awaitable of it. With ``mode=``, it takes the
mode's request fields in place of the tools: a dict for ``create(messages=messages, **fields)``. A third parameter named
``carry`` receives a dict of what the provider wants beside these, for ``create(..., **carry)``; see `Turn.carry`."""


class Block(Protocol):
    """A step, which is opened and then read."""

    _runner: Runner

    @property
    def turn(self) -> Turn: ...
    @property
    def suspended(self) -> Suspended | None: ...
    @property
    def resting(self) -> bool: ...
    async def __anext__(self) -> Event: ...
    async def run_call(self, call: ToolCall | ToolCallValidated | str) -> Observation: ...
    def _open_in(self, task_group: TaskGroup | None) -> BlockHandle: ...


class BlockHandle(Protocol):
    async def leave(self, *, cancelled: bool = False) -> None: ...


class StepMaker(Protocol):
    asks_again: bool  # it may ask the model again in a step

    def make(self, plan: StepPlan, asked: tuple[list[Any], Any] | None) -> Block: ...

    def block_in_threads(self) -> None: ...


class Loop:
    """A run in progress."""

    def __init__(
        self,
        history: RunHistory,
        *,
        sources: Sequence[StepSource],
        maker: StepMaker,
        stop: Callable[[Turn], bool] | None,
        trajectory: Trajectory,
        suspended: Suspended | None,
    ) -> None:
        self.trajectory = trajectory
        self.outcome: RunOutcome | None = None
        self.turns: tuple[Turn, ...] = ()  # of the steps that are over
        self.sources = tuple(sources)
        self.history = history
        self.maker = maker
        self.state: Literal["new", "open", "left"] = "new"
        self.is_stopped = False  # a stop was requested
        self.is_iterated = False  # a task waits for the next event
        self._stop = stop
        self._step: _OpenStep | None = None
        self._left_suspended = suspended  # the calls that the latest step has left
        self._tasks = _Tasks()
        self._ending: _Ending | None = None
        self._is_ours = False  # the trajectory was entered here

    @property
    def step(self) -> Block | None:
        return None if self._step is None else self._step.block

    def stop(self) -> None:
        self.is_stopped = True
        self._cut(STOPPED, spares_approvals=False)
        self.tell()

    def watch(self, task: Callable[[], Awaitable[None]]) -> None:
        self._tasks.start(task)

    @property
    def all_turns(self) -> tuple[Turn, ...]:
        return self.turns if self._step is None else (*self.turns, self._step.block.turn)

    @property
    def suspended(self) -> Suspended | None:
        suspended = self._left_suspended if self._step is None else self._step.block.suspended
        for ticket in _each(self.sources, "ticket"):
            suspended = None if suspended is None else ticket(suspended)
        return suspended

    def known_end(self, call: Mention | str) -> Observation | None:
        return None if self._step is None else self._step.end_of(call)

    def take(self, entry: Mapping[str, Any]) -> None:
        """Takes a message to the run; cuts the response if the message says so, unless a call waits for a person."""
        self.history.waiting.append(entry)
        if entry["when"] == "now" and self._cut(INTERRUPTED, spares_approvals=True):
            self.history.is_cut = True
        elif entry["when"] == "now" and self._step is not None:
            self.put({**entry, "when": "next"})  # nor is it cut in the next visit
        self.tell()

    def tell(self) -> None:
        """Checks again whether the run ends or rests."""
        if self._ending is not None:
            ring(self._ending.told)
        elif self._step is not None:
            self._step.block._runner.attempt.calls.tell()

    def _holds(self, outcome: RunOutcome | None) -> bool:
        return any(holds(outcome) for holds in _each(self.sources, "holds"))

    def put(self, entry: Mapping[str, Any]) -> None:
        """Tells the run's sources what was said to the run, or asked of it."""
        for put in _each(self.sources, "put"):
            put(entry)

    def _cut(self, reason: str, *, spares_approvals: bool) -> bool:
        return self._step is not None and self._step.block._runner.cut(reason, spares_approvals=spares_approvals)

    async def enter(self, view: RunView) -> None:
        """Begins the run; `view` is what its sources see of it."""
        if self.state != "new":
            raise LocalProtocolError("an agent_loop is entered once; make a new one for the next run")
        self.state = "left"  # if a source cannot begin
        await self._tasks.enter()
        try:
            await self._begin_sources(view)
        except BaseException as error:  # Python does not leave a block that was not entered
            self.outcome = "error" if isinstance(error, Exception) else None
            await self._tasks.leave(type(error), None)
            raise
        self.state = "open"
        self._is_ours = self.trajectory.enter()

    async def _begin_sources(self, view: RunView) -> None:
        begun: list[StepSource] = []
        try:
            for source in self.sources:
                await source.begin(view)
                begun.append(source)
        except BaseException:
            with CancelScope(shield=True):
                for source in begun:
                    await source.leave("error")
            raise

    async def leave(self, kind: type[BaseException] | None, error: BaseException | None) -> None:
        self.state = "left"
        try:
            await self._tasks.leave(kind, self._step)
        finally:
            self._keep()
            if self.outcome is None and self.is_stopped:
                self.outcome = "cancelled"
            elif self.outcome is None:
                self.outcome = "left" if self.suspended is None else "suspended"
            if self._is_ours:
                self.trajectory.leave(self.outcome, error)
            await self._leave_sources(self.outcome, error)

    async def _leave_sources(self, outcome: RunOutcome, error: BaseException | None) -> None:
        failed: BaseException | None = None
        for source in self.sources:
            try:
                await source.leave(outcome)
            except BaseException as failure:  # a cancellation, too: the others must still release what they hold
                failed = failed or failure
        if failed is not None and (error is None or not isinstance(failed, Exception)):
            raise failed
        if failed is not None and error is not None:
            error.add_note(str(failed))

    async def next(self) -> Event:
        if self.state != "open":
            raise TypeError("iterate over a run once, in its block; write:  async with agent_loop(...) as run:  ...")
        if self.is_iterated:  # else both would ask the model
            raise LocalProtocolError("another task waits for the run's next event; iterate over a run in one task")
        self.is_iterated = True
        try:
            return await self._next()
        finally:
            self.is_iterated = False

    async def _next(self) -> Event:
        while self.outcome is None:
            if self._ending is not None:
                await self._end(self._ending)
                continue
            if (step := self._step) is None:
                await self._begin()
                continue
            try:
                return await step.read()
            except StopAsyncIteration:
                if step.block.resting:
                    raise
            except Exception:
                is_shown = self.maker.asks_again and bool(step.block.turn.parts)
                self.outcome = "interrupted" if is_shown else "error"
                raise
            await self._end_step()
        raise StopAsyncIteration

    # -- one step after the other --

    async def _begin(self) -> None:
        try:
            from ..seams import StepPlan, StepRequest  # loaded when a run begins

            said = () if self.history.takes_results_alone else tuple(map(own, self.history.waiting))
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
            if self._is_to_end:  # perhaps while the source before it was asked
                return "cancelled"
            if (plan := await source.next(request)) is not None:
                return plan
        raise AssertionError("the model is the last source")

    def _request(self, said: Sequence[Mapping[str, Any]]) -> tuple[list[Any], Any]:
        messages, tools = self.history.request(said)
        return own(messages, MESSAGES), own(tools, MESSAGES)

    def _opened(self, plan: StepPlan, request: StepRequest) -> _OpenStep:
        if plan.waited:
            asked, added = None, []
            self.history.begin_resumed(plan.waited)
        else:
            added = self.history.begin_step(len(request.said), plan.said)
            self.history.is_cut = plan.record is not None and plan.record.is_broken
            asked = self.history.request()
        block = self.maker.make(plan, asked)
        runner = block._runner
        runner.attempt.calls.withheld = self._withholds
        runner.rests = lambda: not self._holds(None)
        runner.begin_with(added)
        opened = block._open_in(self._tasks.group)
        return _OpenStep(block, opened, plan.ends, _each(self.sources, "read"))

    @property
    def _withholds(self) -> tuple[str, bool] | None:
        """Why calls of the new step must not begin, and whether calls that wait for an approval are spared: the run has
        to stop, or a message should have cut the previous step. None if neither."""
        if self.is_stopped:
            return STOPPED, False
        return (INTERRUPTED, True) if any(entry["when"] == "now" for entry in self.history.waiting) else None

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
            if self.outcome is None and not self._has_next and (found := self._decided(turn) or by_model):
                self._ending = _Ending(turn, found, by_model)
        except Exception:
            self.outcome = "error"
            raise

    async def _end(self, ending: _Ending) -> None:
        """Ends the run once nothing holds it; continues if it would end with an answer and a message has come."""
        while self._holds(ending.outcome):
            ending.told = anyio.Event()
            await ending.told.wait()
            if self._is_to_end:
                ending.outcome = "cancelled"
            elif ending.outcome == "answered" and self.history.waiting:
                if ending.by_model is None:
                    self._ending = None
                    return
                ending.outcome = ending.by_model
        self._ending, self.outcome = None, ending.outcome
        if self.outcome == "answered":
            self.history.keep_answer(ending.turn)

    def _decided(self, turn: Turn) -> RunOutcome | None:
        ours = any(call.kind != "server" for call in turn.calls)
        finish = None if turn.finish is None else FINISHES[turn.finish]
        if self._is_to_end:
            return "cancelled"
        if finish is not None and not finish.is_over:
            return "pending"
        if not (ours or (finish and finish.goes_on) or self.history.waiting or self.history.only_thinks(turn)):
            return "answered"
        if turn.unanswered:
            return "unanswered"
        return "stopped" if self._stop is not None and self._stop(turn) else None

    @property
    def _has_next(self) -> bool:
        return any(source.peek() for source in self.sources)

    @property
    def _is_to_end(self) -> bool:
        """True if the run has to end now: steps that need no model come first."""
        return self.is_stopped and not self._has_next

    def _keep(self) -> None:
        if self._step is None:
            return
        block, self._step = self._step.block, None
        self._left_suspended = block.suspended
        self.turns = (*self.turns, block.turn)
        self.history.end_step(block.turn)


@dataclass(slots=True, eq=False)
class _Ending:
    turn: Turn
    outcome: RunOutcome
    by_model: RunOutcome | None  # for which the model is not asked again
    told: anyio.Event = field(default_factory=anyio.Event)


def _outcome(found: RunOutcome) -> RunOutcome:
    if found not in tuple(RUN_OUTCOMES):  # a user's source
        name = found if isinstance(found, str) else type_name(found)
        raise TypeError(f"StepSource: expected a StepPlan, an outcome of a run or None, got {name}")
    return found


def _each(sources: Sequence[StepSource], method: str) -> list[Any]:
    return [getattr(source, method) for source in sources if hasattr(source, method)]


class _OpenStep:
    def __init__(
        self, block: Block, opened: BlockHandle, ends: Sequence[Observation] | None, readers: Sequence[Any]
    ) -> None:
        self.block = block
        self.opened = opened
        self.ends = ends  # of its calls, if they are known
        self.read: Callable[[], Awaitable[Event]] = block.__anext__
        for read in readers:
            self.read = partial(read, self.read)

    def end_of(self, call: Mention | str) -> Observation | None:
        call_id = call if isinstance(call, str) else call.call_id
        return next((seen for seen in self.ends or () if seen.call_id == call_id), None)


class _Tasks:
    def __init__(self) -> None:
        self.group: TaskGroup | None = None  # None in a generator, where the event loop holds them
        self._beside: list[CancelScope] = []
        self._are_over: anyio.Event | None = None

    async def enter(self) -> None:
        if not is_in_generator():
            self.group = await create_task_group().__aenter__()

    def start(self, task: Callable[[], Awaitable[None]]) -> None:
        scope = CancelScope()  # made before the task begins: the run may be left by then
        self._beside.append(scope)

        async def run(scope: CancelScope) -> None:
            try:
                with scope:
                    await task()
            finally:
                self._beside.remove(scope)
                if self._are_over is not None and not self._beside:
                    ring(self._are_over)

        spawn(run, scope) if self.group is None else self.group.start_soon(run, scope)

    async def leave(self, kind: type[BaseException] | None, step: _OpenStep | None) -> None:
        """Ends the tasks. `kind`: type of the error that the block is left with; `step`: the one still in progress."""
        for scope in self._beside:
            scope.cancel()
        if self.group is None:
            if step is not None:
                await step.opened.leave(cancelled=is_cancellation(kind))
            if self._beside and kind is not GeneratorExit:  # for which the loop may be closed
                self._are_over = anyio.Event()
                with CancelScope(shield=True):
                    await self._are_over.wait()
            return
        if step is not None and kind is None and step.block.resting:
            self.group.start_soon(step.opened.leave)  # the turn is whole; the calls that wait are suspended
        elif step is not None:
            # Left in the middle. The body's error is not passed to the group, which would wrap it.
            self.group.cancel_scope.cancel()
        await self.group.__aexit__(None, None, None)
