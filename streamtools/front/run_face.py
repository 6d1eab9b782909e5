"""Defines `AgentLoop`, a run of steps for the program: to enter, iterate, talk to, decide and leave."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from anyio.lowlevel import EventLoopToken, current_token

from ..dispatch.event_loop import is_in_loop
from ..dispatch.states import Mention
from ..errors import LocalProtocolError
from ..events import Event, Observation, ToolCallValidated
from ..ground.own import MESSAGES, own
from ..ground.text import described
from ..parts import Carry, RunOutcome, ToolCall, Usage
from ..pipelines.agent_loop import Block, Loop
from ..pipelines.runner import Runner
from ..pipelines.trajectory import Trajectory
from ..seams import StepSource
from ..turn import Turn
from ..wires import Wire
from .calls_face import CallsFace, When, asynchronous_only, entry_of, turned_to
from .carrying import Carrying

if TYPE_CHECKING:
    from ..dispatch import Suspended
    from .blocking import SyncAgentLoop


class AgentLoop(CallsFace):
    """A run of several steps. Enter it with ``async with``, iterate over its events, then look at its `outcome`."""

    def __init__(self, loop: Loop, carrying: Carrying, added_tools: Iterable[str] = ()) -> None:
        self._loop = loop
        self._carrying = carrying
        self._added_tools = added_tools  # as they become more
        self._runs_in: EventLoopToken | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(outcome={self.outcome!r}, turns=<{described(self.turns)}>)"

    @property
    def trajectory(self) -> Trajectory:
        """The run that its steps share: id, numbering, observers."""
        return self._loop.trajectory

    @property
    def outcome(self) -> RunOutcome | None:
        """How the run ended; None while it is in progress."""
        return self._loop.outcome

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns of the steps that have ended, in order."""
        return self._loop.turns

    @property
    def sources(self) -> tuple[StepSource, ...]:
        """The sources of its steps, in order; the model is the last."""
        return self._loop.sources

    @property
    def turn(self) -> Turn:
        """The turn of the current or last step; `turns` has those that have ended.

        Raises:
            LocalProtocolError: the model has not been asked yet.
        """
        if turns := self._loop.all_turns:
            return turns[-1]
        if self.outcome is None:
            why = "the model has not been asked yet; iterate over the run first, or `await run`"
            raise LocalProtocolError(f"the run has no turn: {why}")
        why = "its tokens were spent" if self.outcome == "budget" else f"it ended ({self.outcome})"
        raise LocalProtocolError(f"the run has no turn: {why} before it began")

    @property
    def usage(self) -> Usage:
        """The token counts of all turns so far, summed field by field; None where no turn has a count. A turn without
        counts (`Turn.usage` is None) adds nothing, so the sum is then too low. Discarded attempts count, too."""
        counted = (turn.usage for turn in self._loop.all_turns if turn.usage is not None)
        return sum(counted, self.trajectory.discarded)

    @property
    def added(self) -> list[Any]:
        """Copies of the messages that the run added to those it began with; all messages, if the history had to be
        repaired."""
        step, begun = self._loop.step, self._loop.history.begun_with
        messages = self._loop.history.messages(None if step is None else step.turn)
        return list(own(messages[len(begun) :] if messages[: len(begun)] == begun else messages, MESSAGES))

    @property
    def wire(self) -> Wire:
        """The wire of its messages."""
        return self._loop.history.wire

    @property
    def messages(self) -> list[Any]:
        """The history up to here, in the wire's format: the messages it began with, and each turn with its results.
        Drafts are only in `turns`, unless you passed ``drafts=True``.

        A new list with copies of the messages and blocks. You can send it at any time after the block, and between two
        steps within it. In the middle of a step, running calls have a result that says that they were interrupted.
        """
        step = self._loop.step
        return list(own(self._loop.history.messages(None if step is None else step.turn), MESSAGES))

    @property
    def carry(self) -> Carry:
        """The fields that the next request needs besides `messages`, for the ``carry=`` of another `agent_loop`; see
        `Turn.carry`."""
        return self._carrying.behind(self._loop.all_turns, self.messages)

    @property
    def added_tools(self) -> tuple[str, ...]:
        """The names of the tools that its calls have added (`ToolContext.add_tools`), in order, including those from
        before it was suspended or continued from its journal."""
        return tuple(self._added_tools)

    @property
    def suspended(self) -> Suspended | None:
        """The calls that wait for an approval or an answer, even after the block; see `Pipeline.suspended`. To continue
        them, keep `messages` with them, and pass both to another `agent_loop`."""
        suspended = self._loop.suspended
        return None if suspended is None else replace(suspended, carry=self.carry or None)

    @property
    def unsettled(self) -> tuple[Observation, ...]:
        """The calls of the last step whose outcome is unknown. They leave a run with a journal ``suspended``: find out
        what happened, settle each under its `idempotency_key` (`SqliteStore.settle`, or ``streamtools store``), and run
        the same line again."""
        turn = self._loop.all_turns[-1:]
        return tuple(seen for one in turn for seen in one.observations if seen.outcome == "unknown")

    def _in_step(self, act: Callable[[Runner], bool]) -> bool:
        return act(self._goes_on()._runner)

    def cancel(self, call: Mention | str, reason: str | None = None) -> bool:
        """Stops one call, as `Pipeline.cancel` does, or the background job that it started."""
        call_id = call if isinstance(call, str) else call.call_id
        beside = (cancel for one in self.sources if (cancel := getattr(one, "cancel", None)) is not None)
        return any(cancel(call_id) for cancel in beside) or super().cancel(call, reason)

    async def run_call(self, call: ToolCall | ToolCallValidated | str) -> Observation:
        """Runs a ready call, with ``start="manual"``; see `Pipeline.run_call`. Then continue iterating. For a call in a
        replayed step, returns the recorded observation."""
        return self._loop.known_end(call) or await self._goes_on().run_call(call)

    def say(self, message: str | Mapping[str, Any], *, when: When = "next") -> str:
        """Adds a user message to the run in progress; returns its id. `MessageAdded` shows when it enters the history.
        It never stands between a call and its result. If the run would otherwise end with an answer, the model is asked
        again. While a call waits for an approval or an answer, the message waits, too, and decides nothing.

        Args:
            message: text, or a user message in the wire's own format, which is copied.
            when: ``"next"``: after the results of the current step. ``"now"``: its response is cut, calls that have not
                begun are ``skipped``, and the others finish.

        Raises:
            LocalProtocolError: the run has not begun, or is over; or this is another thread.
            TypeError: it is neither text nor a message, or, with a journal, not JSON.
            ValueError: it is not a user message, or `when` is unknown; or, with a journal, it is larger than 1 MB.
        """
        self._check_here("say", is_over=self._loop.state == "left" or self.outcome is not None)
        entry = entry_of(message, when, self.wire)
        self._loop.put(entry)
        self._loop.take(entry)
        return str(entry["id"])

    @property
    def unread(self) -> tuple[dict[str, Any], ...]:
        """The messages that no request contains yet, each with its ``id`` and its ``messages``. If the run ends first,
        for example at `max_steps`, they are not in `messages`."""
        return tuple(map(own, self._loop.history.waiting))

    def stop(self) -> bool:
        """Ends the run in an orderly way, as ``cancelled``: the response is cut, calls that have not begun are
        ``skipped``, those that may run again (``pure`` and ``idempotent``) are ``cancelled``, and ``once`` calls
        finish. Returns False if there is nothing to stop. Keep iterating to get the last events.

        Raises:
            LocalProtocolError: the run has not begun; or this is another thread.
        """
        self._check_here("stop", is_over=False)
        changes = self._loop.state == "open" and self.outcome is None and not self._loop.is_stopped
        if changes:
            self._loop.put({"id": uuid.uuid4().hex, "kind": "stop"})
            self._loop.stop()
        return changes

    def _check_here(self, act: str, *, is_over: bool) -> None:
        if self._runs_in is None:
            raise LocalProtocolError(f"{act}: the run has not begun; enter its block first")
        if is_over:
            raise LocalProtocolError(f"{act}: the run is over; begin another run with its messages")
        if not is_in_loop(self._runs_in):
            raise LocalProtocolError(
                f"{act} calls in the run's event loop; from another thread "
                f"anyio.from_thread.run_sync(run.{act}, ..., token=...), with its anyio.lowlevel.current_token()"
            )

    def _goes_on(self) -> Block:
        if (step := self._loop.step) is None:
            raise LocalProtocolError("no step is in progress; decide in its block, or pass decisions= when you resume")
        return step

    async def __aenter__(self) -> AgentLoop:
        await self._loop.enter(_View(self._loop))
        self._runs_in = current_token()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._loop.leave(kind, error)

    if not TYPE_CHECKING:  # type checkers see the mistake themselves
        __iter__ = __enter__ = __exit__ = asynchronous_only("a run", "agent_loop(...) as run")
        __getattr__ = turned_to("run.turn")

    def __aiter__(self) -> AgentLoop:
        return self

    def __anext__(self) -> Awaitable[Event]:
        return self._loop.next()

    def sync(self, backend: str = "asyncio") -> SyncAgentLoop:
        """Returns the run for a program without an event loop; see `Pipeline.sync`. `call_model` may block."""
        from .blocking import SyncAgentLoop  # most programs have an event loop

        self._loop.maker.block_in_threads()
        return SyncAgentLoop(self, backend)

    async def finish(self) -> Turn:
        """Runs to the end, or until calls wait for an approval, ignores the events, and returns the last turn. Awaiting
        the run does the same. Inside the block this runs the rest.

            run = agent_loop(ask, messages, tools=[get_weather], wire="anthropic.messages")
            turn = await run
            messages = run.messages

        Raises:
            StreamError: a stream failed.
            LocalProtocolError: the run is over, and has no turn: no tokens were left for a request.
        """
        if self._loop.state == "new":
            async with self:
                await self.finish()
        else:
            async for _ in self:
                pass
        return self.turn

    def __await__(self) -> Generator[Any, Any, Turn]:
        return self.finish().__await__()


class _View:
    """A run as its sources see it (`streamtools.seams.RunView`)."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.run_id = loop.trajectory.run_id
        self.name = loop.trajectory.name
        self.conversation_id = loop.trajectory.conversation_id

    @property
    def begun_with(self) -> list[Any]:
        return list(own(self._loop.history.begun_with, MESSAGES))

    @property
    def said(self) -> Sequence[Mapping[str, Any]]:
        return self._loop.history.said

    @property
    def unread(self) -> Sequence[Mapping[str, Any]]:
        return self._loop.history.waiting

    @property
    def is_stopped(self) -> bool:
        return self._loop.is_stopped

    @property
    def is_iterated(self) -> bool:
        return self._loop.is_iterated

    @property
    def step(self) -> Block | None:
        return self._loop.step

    @property
    def standing(self) -> Turn | None:
        loop = self._loop
        if not loop.turns or (loop.outcome == "left" and not loop.history.is_cut):
            return None
        stands = loop.history.stands(loop.turns[-1], is_stopped=loop.is_stopped)
        return loop.turns[-1] if stands or loop.outcome == "answered" else None

    def say(self, message: Any, when: When = "next", entry_id: str | None = None) -> None:
        if self._loop.outcome is None:
            self._loop.take(entry_of(message, when, self._loop.history.wire, entry_id))

    def add(self, message: Any, entry_id: str) -> None:
        entry = entry_of(message, "next", self._loop.history.wire, entry_id)
        self._loop.put(entry)
        self._loop.take(entry)

    def tell(self) -> None:
        self._loop.tell()

    def stop(self) -> None:
        if self._loop.outcome is None:
            self._loop.stop()

    def watch(self, task: Callable[[], Awaitable[None]]) -> None:
        self._loop.watch(task)
