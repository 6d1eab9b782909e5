"""Runs many steps as one run: asks the model, runs its calls, sends the results, until it answers.

    async with agent_loop(ask, messages, tools=[get_weather], wire="openai.chat_completions") as run:
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

import os
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Unpack

from anyio import create_task_group
from anyio.abc import TaskGroup

from ..dispatch import Decision, Suspended
from ..dispatch.budgets import Budgets
from ..dispatch.endings import is_exhausted
from ..dispatch.options import has_policy
from ..dispatch.states import Mention
from ..dispatch.suspended import Asked
from ..errors import JournalError, LocalProtocolError
from ..event_loop import is_cancellation, is_in_generator
from ..events import AnswerRequested, ApprovalRequested, Event, Observation, ToolCallValidated
from ..exports import Exports, export_all
from ..history import with_results
from ..limits import Limits, checked_bound
from ..modes import NativeToolAdapter, StreamingAdapter, ToolCallingAdapter
from ..parts import FINISHES, RunOutcome, ToolCall, Usage
from ..text import described
from ..tools import AnyTool, AnyTools
from ..tools.toolset import checked_list
from ..turn import Turn
from ..wires import Wire, find
from .entry import Pipeline, PipelineKeywords, of_resume, pipeline, toolset_of
from .hosted import OpenPipeline, SyncAgentLoop, in_threads
from .inbox import INTERRUPTED, STOPPED, Inbox, When
from .modelless import resume
from .refusals import asynchronous_only, check_run, turned_to
from .retry import ModelRequest, Retry
from .trajectory import Trajectory

if TYPE_CHECKING:
    from ..dispatch import SqliteStore
    from ..dispatch.answers import CallAnswer
    from ..dispatch.journal import Journal
    from .decided_elsewhere import DecidedElsewhere
    from .journaled import JournaledRun
    from .offloads import Offloading

CallModel: TypeAlias = Callable[[list[Any], Any], Any]
"""Makes the request for one step: takes the messages and the tools as the provider wants them (Gemini's go into
``functionDeclarations``), returns the stream or an awaitable of it. With ``mode=``, it takes the mode's fields of the
request in place of the tools: a dict for ``create(messages=messages, **fields)``."""


def agent_loop(
    call_model: CallModel,
    messages: Sequence[Any],
    *,
    tools: AnyTools | Exports = (),
    wire: Wire | str,
    mode: StreamingAdapter | None = None,
    max_steps: int = 16,
    stop: Callable[[Turn], bool] | None = None,
    strict: bool | Literal["where_possible"] = False,
    trajectory: Trajectory | None = None,
    drafts: bool = False,
    retry: Retry | None = None,
    fallback: Sequence[CallModel] = (),
    offload_above: int | Offloading | None = None,
    name: str | None = None,
    conversation_id: str | None = None,
    run_id: str | None = None,
    journal: str | os.PathLike[str] | SqliteStore | Journal | None = None,
    skip_replayed: bool = False,
    suspended: Suspended | None = None,
    decisions: Iterable[Decision] = (),
    answers: Iterable[CallAnswer] = (),
    **options: Unpack[PipelineKeywords],
) -> AgentLoop:
    """Asks a model until it answers, running the calls that it makes on the way.

    Args:
        call_model: makes the request of each step; see `CallModel`. Its exceptions come out of ``async for``.
        messages: the history to begin with, in the wire's own shape. It is not changed: see `AgentLoop.messages`.
        tools: the tools that the model may call; they are exported for `wire` once, and names and arguments that the
            export has changed are turned back. Exports that were made already are taken as they are.
        wire: the wire of the requests and the streams, or its name.
        mode: an adapter of `streamtools.modes`, for a model without tool calling: requests and history are in its
            words, and a turn that only thinks does not end the run. `stages` are the adapter's by default.
        max_steps: how often the model is asked at most.
        stop: is given each turn that is not the answer, results included; True ends the run before the model is asked
            again.
        strict: export the tools in their strict form.
        trajectory: the run that the steps belong to, with its observers; by default a new one.
        drafts: keep answers that broke off in `AgentLoop.messages`, as for a person who has stopped the model and is to
            see how far it got; see `Turn.is_draft`. `lint` knows which models take such a history.
        offload_above: how many characters of a result the model reads at once. A longer one is kept by the run: the
            model reads its beginning, and the rest by a tool that is added, ``read_result``. `Offloading` sets more.
        retry: how often a step asks again when the request fails or its stream breaks off. By default it does so only
            before any output; ``Retry(after_output=True)`` is for readers who honour `AttemptDiscarded`.
        fallback: other functions like `call_model`, of the same wire, which are asked one after the other when the
            retries of the one before are used up.
        name, conversation_id, run_id: of such a new run; see `Trajectory`.
        journal: a file that keeps the run, so that after a crash the same line with the same `run_id` goes on with it:
            no response on record is asked for again, and the calls are kept in the same file, unless there is a
            ``store=``. A call whose end is not known suspends the run; see `AgentLoop.unsettled`.
        skip_replayed: leave the events of steps that are on record out of the iteration; they are marked by
            `StepStart.replayed`.
        suspended: calls that another run has left, which are in `messages`: they are decided and run first. That needs
            a ``store=``; see `resume`. With a journal it is a ticket of this run, and the line is otherwise the same.
        decisions: those about these calls; see `resume`, or `Journal.decide`.
        answers: those to these calls; see `resume`.
        options: for each step's `pipeline`: ``limits``, ``start``, ``context``, ``approve``, ``policy``,
            ``executor``, ``middleware``, ``store``, ``stages``, ``transforms``, ``pool``, ``on_tool_error``,
            ``on_source_error``; and ``privacy``, of the new run.

    Raises:
        ExportError: the wire is unknown, or cannot carry a tool, or the messages are those of another wire.
        TypeError: an option is none of `pipeline`'s, or is the run's own, or has a value that `pipeline` does not take.
            With a journal: there is no `run_id`, or calls are `suspended` of a run without one.
            Tools that were exported already, with `offload_above`.
        DecisionError: a decision is about no suspended call, or about another one than was shown.
        ValueError: `max_steps` is less than 1, or an option is not known.
    """
    checked_bound("max_steps", max_steps)
    decisions = tuple(decisions)  # they are read twice
    known = {*PipelineKeywords.__optional_keys__, *(agent_loop.__kwdefaults__ or ())}
    check_run(call_model, messages, wire, stop=stop, trajectory=trajectory, options=options, known=known)
    if suspended is not None and journal is None and suspended.journal is not None:
        raise TypeError(f"the calls wait in the journal of the run {suspended.run_id!r}; pass journal=, too")
    if suspended is not None and journal is None and options.get("store") is None:
        raise TypeError("to resume suspended calls, pass store=: it keeps them from running twice")
    if suspended is None and decisions:
        raise ValueError("decisions are about suspended calls; pass suspended=, too")
    offloads = None
    if offload_above is not None:
        from .offloads import offloads_of  # most runs keep no results

        offloads, tools, options = offloads_of(offload_above, tools, options)
    conversation = conversation_of(tools, wire, mode, strict=strict)
    conversation.request(list(messages))  # fails now, if at all, and not when calls have run; so do the next three
    if mode is not None:
        options = {"stages": mode.stages(), **options}
    ticket = None
    if journal is not None and suspended is not None:
        ticket, run_id = (suspended, decisions, tuple(answers)), _id_of(suspended, run_id, trajectory)
        suspended, decisions, answers = None, (), ()
    run = Trajectory.of_loop(trajectory, suspended, name, conversation_id, run_id, options.pop("privacy", None))
    journaled = None
    if journal is not None:
        from ..dispatch.journal import journal_of  # most runs have none
        from .journaled import JournaledRun

        options["store"] = journaled = JournaledRun(
            journal_of(journal),
            run,
            wire=wire,
            messages=messages,
            store=options.get("store"),
            starts_by_hand=options.get("start") == "manual",
        )
    if offloads is not None:
        offloads.begin(run)
    tried = Trajectory(conversation_id=run.conversation_id, default_observers=False)
    _know(run, messages, conversation.tools, wire, options)
    tried.origins = run.origins
    if retry is not None or fallback:
        if callable(fallback):
            raise TypeError("fallback is a list of functions that make the request; write fallback=[...]")
        unasked: list[Callable[[], Any]] = [partial(ask, [], None) if callable(ask) else ask for ask in fallback]
        pipeline(
            lambda: b"",
            tools=conversation.tools,
            wire=wire,
            trajectory=tried,
            retry=retry,
            fallback=unasked,
            **options,
        )
    pipeline(b"", tools=conversation.tools, wire=wire, trajectory=tried, **options)
    if suspended is not None:
        conversation.with_results(list(messages), suspended.placeholders())
        answers = tuple(answers)
        given = {"decisions": decisions, "answers": answers}
        resume(suspended, tools=conversation.tools, trajectory=tried, **given, **of_resume(options))  # type: ignore[arg-type]
    return AgentLoop(
        call_model,
        messages,
        conversation=conversation,
        wire=wire,
        max_steps=max_steps,
        stop=stop,
        trajectory=run,
        drafts=drafts,
        attempts=None if retry is None and not fallback else (retry, tuple(fallback)),
        options=options,
        resuming=None if suspended is None else (suspended, decisions, tuple(answers)),
        journaled=journaled,
        ticket=ticket,
        skip_replayed=skip_replayed,
    )


def _id_of(ticket: Suspended, run_id: str | None, trajectory: Trajectory | None) -> str | None:
    """Returns the `run_id` of a run that is gone on with by a ticket."""
    if ticket.journal is None:
        raise TypeError("the calls are those of a run without a journal: leave journal= out, and pass store=")
    if ticket.run_id != (run_id or (ticket.run_id if trajectory is None else trajectory.run_id)):
        raise ValueError("the calls were suspended in another run than run_id names; leave it out")
    return ticket.run_id if trajectory is None else run_id


def _know(
    run: Trajectory, messages: Sequence[Any], tools: Sequence[AnyTool], wire: Wire | str, options: PipelineKeywords
) -> None:
    """Has the run know its history by origin, if a policy needs that. The run adds its steps itself."""
    toolset = toolset_of(tools)
    if not has_policy(options.get("policy"), toolset):
        return
    from ..dispatch.origins import trusts  # few tools have a policy
    from ..provenance.history import add_request
    from ..provenance.index import Index

    run.origins = run.origins or Index(options.get("limits", Limits()).max_indexed_bytes)
    run.origins.reads_requests = False
    add_request(run.origins, {"messages": messages}, wire, trusts(toolset))


class AgentLoop:
    """A run as it goes on. Enter it with ``async with``, iterate over its events, then look at its outcome."""

    def __init__(
        self,
        call_model: CallModel,
        messages: Sequence[Any],
        *,
        conversation: Conversation,
        wire: Wire | str,
        max_steps: int,
        stop: Callable[[Turn], bool] | None,
        trajectory: Trajectory,
        drafts: bool,
        attempts: tuple[Retry | None, tuple[CallModel, ...]] | None,
        options: PipelineKeywords,
        resuming: tuple[Suspended, tuple[Decision, ...], tuple[CallAnswer, ...]] | None,
        journaled: JournaledRun | None,
        ticket: tuple[Suspended, tuple[Decision, ...], tuple[CallAnswer, ...]] | None,
        skip_replayed: bool,
    ) -> None:
        self.trajectory = trajectory
        """The run that the steps share: id, numbering, observers."""
        self.outcome: RunOutcome | None = None
        """The way in which the run ended; None while it goes on."""
        self.turns: tuple[Turn, ...] = ()
        """The turns of the steps that are over, in order."""
        self._call_model = call_model
        self._begun_with = list(messages)
        self._conversation = conversation
        self._wire = wire
        self._max_steps = max_steps
        self._stop = stop
        self._drafts = drafts
        self._attempts = attempts
        self._options = options
        self._resuming = resuming
        self._left_suspended = None if resuming is None else resuming[0]
        self._journaled = journaled
        self._ticket = ticket
        self._elsewhere: DecidedElsewhere | None = None  # of a run with a journal
        self._skip_replayed = skip_replayed
        self._inbox = Inbox(wire)
        self._asked = 0  # how often the model was asked
        self._exhausted = False  # the model has read of all calls of the latest turn that they are not wanted again
        self._is_ours = False  # the trajectory was entered here
        self._group: TaskGroup | None = None  # of the steps; None in a generator, where the event loop holds them
        self._state: Literal["new", "open", "left"] = "new"
        self._events: OpenPipeline | None = None
        self._iterated = False  # somebody waits for the next event
        self._unshown: Event | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(outcome={self.outcome!r}, turns=<{described(self.turns)}>)"

    @property
    def turn(self) -> Turn:
        """The turn of the current step, else of the last one; `turns` has those that are over.

        Raises:
            LocalProtocolError: the model has not been asked yet.
        """
        if self._events is not None:
            return self._events.turn
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
        """The messages that it began with."""
        return list(self._begun_with)

    @property
    def wire(self) -> Wire:
        """The wire of its messages."""
        return find(self._wire)

    @property
    def journaled(self) -> JournaledRun | None:
        """The run's place in its journal, for those who keep more of it there; None without a journal."""
        return self._journaled

    @property
    def _all_turns(self) -> tuple[Turn, ...]:
        return self.turns if self._events is None else (*self.turns, self._events.turn)

    @property
    def messages(self) -> list[Any]:
        """The history up to here, in the wire's shape: the messages it began with, and each turn with its results, but
        no `drafts`, unless they were asked for: those are in `turns` alone.

        A fresh list, which can be sent at any moment after the block, and between two steps within it. In the middle of
        a step, its running calls have a result that says that they were interrupted.
        """
        turns = list(self._all_turns)
        current = None if self._events is None else turns[-1]
        begun_with, resumed = list(self._begun_with), None
        if self._resuming is not None and turns:
            resumed = turns[0]
            seen = {observation.call_id: observation for observation in resumed.observations}
            waited = (seen.get(call.call_id, call) for call in self._resuming[0].placeholders())
            begun_with = self._conversation.with_results(begun_with, waited)
        # A call of the current turn may run, and has no observation yet. An answer that its provider ended as an error
        # is all that the run has, if nothing was to be asked again.
        answer = self.turns[-1] if self.outcome == "answered" else None
        kept = (
            self._conversation.messages(turn)
            if turn is not resumed
            and (
                self._drafts
                or not turn.is_draft
                or turn is answer
                or (turn is current and turn.calls)
                or self._inbox.has_cut(number)
            )
            else ()
            for number, turn in enumerate(turns)
        )
        return self._inbox.history(begun_with, kept)

    @property
    def suspended(self) -> Suspended | None:
        """The calls that wait for an approval or an answer, also after the block; see `Pipeline.suspended`. To go on
        with these calls, keep `messages` beside them, and give both to another `agent_loop`."""
        suspended = self._left_suspended if self._events is None else self._events.suspended
        return suspended if self._journaled is None else self._journaled.named(suspended)

    @property
    def unsettled(self) -> tuple[Observation, ...]:
        """The calls of the last step whose end is not known. A run with a journal is ``suspended`` by them: find out
        what happened, settle each under its `idempotency_key` (`SqliteStore.settle`, or ``streamtools store``), and run
        the same line again."""
        turn = self._all_turns[-1:]
        return tuple(seen for one in turn for seen in one.observations if seen.outcome == "unknown")

    def approve(
        self,
        call: Asked,
        *,
        fingerprint: str | None = None,
        by: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> bool:
        """Approves a call that waits for it; see `Pipeline.approve`. Then iterate on."""
        return self._step().approve(call, fingerprint=fingerprint, by=by, arguments=arguments)

    def deny(
        self, call: Asked, reason: str | None = None, *, fingerprint: str | None = None, by: str | None = None
    ) -> bool:
        """Denies a call that waits for an approval; see `Pipeline.deny`. Then iterate on."""
        return self._step().deny(call, reason, fingerprint=fingerprint, by=by)

    def answer(
        self, call: Asked | AnswerRequested, result: Any, *, is_error: bool = False, fingerprint: str | None = None
    ) -> bool:
        """Hands in the result of a call that is done outside; see `Pipeline.answer`. If the run rests, iterate on."""
        return self._step().answer(call, result, is_error=is_error, fingerprint=fingerprint)

    def cancel(self, call: Mention | str, reason: str | None = None) -> bool:
        """Stops one call of the current step, and no other; see `Pipeline.cancel`."""
        return self._step().cancel(call, reason)

    async def run_call(self, call: ToolCall | ToolCallValidated | str) -> Observation:
        """Runs a ready call, with ``start="manual"``; see `Pipeline.run_call`. Then iterate on. Returns the end on
        record of a call in a step that is replayed."""
        known = None if self._journaled is None else self._journaled.end_of(call)
        if known is not None:
            return known
        return await self._step().run_call(call)

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
        entry = self._inbox.say(message, when, keep=None if self._journaled is None else self._journaled.put)
        self._cut_for(when)
        return str(entry["id"])

    def _cut_for(self, when: When) -> None:
        if when == "now" and self._cut(INTERRUPTED, spares_approvals=True):
            self._inbox.note_cut(len(self.turns))

    @property
    def unread(self) -> tuple[dict[str, Any], ...]:
        """What was said and is in no request yet: each with its ``id`` and its ``messages``. If the run has ended
        before, as at `max_steps`, they are not among `messages`."""
        return self._inbox.waiting

    def stop(self) -> bool:
        """Ends the run in good order, as ``cancelled``: the response is cut, calls that have not begun are ``skipped``,
        and the others go on to their end. Returns False if that changes nothing. Iterate on for the last events.

        Raises:
            LocalProtocolError: the run has not begun; or this is another thread.
        """
        self._inbox.check("stop", is_over=False)
        changes = self._state == "open" and self.outcome is None and not self._inbox.is_stopped
        if changes:
            if self._journaled is not None:
                self._journaled.put({"id": uuid.uuid4().hex, "kind": "stop"})
            self._stop_now()
        return changes

    def _stop_now(self) -> None:
        self._inbox.is_stopped = True
        self._cut(STOPPED, spares_approvals=False)

    def _cut(self, reason: str, *, spares_approvals: bool) -> bool:
        return self._events is not None and self._events.cut(reason, spares_approvals=spares_approvals)

    def _take_entry(self, entry: Mapping[str, Any]) -> None:
        """Takes what somebody elsewhere, or an earlier process, has put into the run."""
        if self.outcome is not None:
            return
        if entry["kind"] == "stop":
            self._stop_now()
        elif entry["kind"] == "decision":
            assert self._elsewhere is not None, "made when the run began"
            self._elsewhere.take(entry, is_iterated=self._iterated)
        elif entry["kind"] == "answer":
            if self._events is not None:  # a step that begins looks for its answers itself
                self._events.look_for_answer(entry["call_id"])
        else:
            self._inbox.say(entry["message"], entry["when"], entry["id"])
            self._cut_for(entry["when"])

    def _step(self) -> OpenPipeline:
        if self._events is None:
            raise LocalProtocolError("no step goes on; decide about a call after its ApprovalRequested")
        return self._events

    async def __aenter__(self) -> AgentLoop:
        if self._state != "new":
            raise LocalProtocolError("an agent_loop is entered once; make a new one for the next run")
        self._state = "left"  # if the decisions cannot be put on record
        if self._resuming is not None and (store := self._options.get("store")) is not None:
            suspended, decisions, answers = self._resuming
            await suspended.decide(decisions, store)
            await suspended.answer(answers, store)
        if self._journaled is not None:
            from .decided_elsewhere import DecidedElsewhere  # most runs have no journal

            if self._ticket is not None:
                await self._journaled.redeem(*self._ticket)
            self._elsewhere = DecidedElsewhere(self._journaled, lambda: self._events)
            await self._journaled.begin(self._inbox, self._elsewhere)
        self._state = "open"
        self._inbox.open()
        self._is_ours = self.trajectory.enter()
        if not is_in_generator():
            self._group = await create_task_group().__aenter__()
        if self._journaled is not None:
            try:
                await self._journaled.watch(self._take_entry, self._group)
            except BaseException as error:  # nobody else leaves a block that was not entered
                self.outcome = "error" if isinstance(error, Exception) else None
                await self.__aexit__(type(error), error, error.__traceback__)
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self._state = "left"
        if self._journaled is not None:
            self._journaled.stop_watching()
        try:
            if self._group is not None:
                await self._leave(self._group, kind)
            elif self._events is not None:
                await self._events.leave(cancelled=is_cancellation(kind))
        finally:
            self._keep()
            if self.outcome is None and self._inbox.is_stopped:
                self.outcome = "cancelled"
            elif self.outcome is None:
                self.outcome = "left" if self.suspended is None else "suspended"
            if self._is_ours:
                self.trajectory.leave(self.outcome, error)
            if self._journaled is not None:
                try:
                    await self._journaled.leave(self.outcome)
                except JournalError as failure:
                    if error is None:
                        raise
                    error.add_note(str(failure))
        return None

    async def _leave(self, group: TaskGroup, kind: type[BaseException] | None) -> None:
        """Closes the step that goes on, and leaves the group of the steps."""
        if self._events is not None and kind is None and self._events.resting:
            group.start_soon(self._events.aclose)  # the turn is whole; the calls that wait are suspended
        elif self._events is not None:
            # Left in the middle. The body's error is not passed to the group, which would wrap it.
            group.cancel_scope.cancel()
        await group.__aexit__(None, None, None)

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
        if self._elsewhere is not None:
            self._elsewhere.apply()
        while self.outcome is None:
            if self._events is None:
                if self._is_stopped:
                    self.outcome = "cancelled"
                elif self._are_tokens_spent():
                    self.outcome = "budget"
                if self.outcome is not None:
                    break
                self._events = self._begin()
            try:
                event = self._unshown or await self._events.__anext__()
                if self._journaled is not None and isinstance(event, (ApprovalRequested, AnswerRequested)):
                    self._unshown = event  # if this wait is cancelled
                    await self._journaled.noted()  # so that whoever is shown the call can decide about it elsewhere
                    self._unshown = None
                if not (self._skip_replayed and self._journaled is not None and self._journaled.is_replaying):
                    return event
                continue
            except StopAsyncIteration:
                if self._events.resting:
                    raise
                self._keep()
            except Exception:
                is_shown = self._attempts is not None and bool(self._events.turn.parts)
                self.outcome = "interrupted" if is_shown else "error"
                raise
            if self._journaled is not None:
                await self._put_on_record(self._journaled)
            if self.outcome is None:
                self._decide(self.turns[-1])
        raise StopAsyncIteration

    def sync(self, backend: str = "asyncio") -> SyncAgentLoop:
        """Returns the run for a program without an event loop; see `Pipeline.sync`. `call_model` may block."""
        self._call_model = in_threads(self._call_model)
        if self._attempts is not None:
            retry, fallback = self._attempts
            if retry is not None and retry.resume is not None:
                retry = replace(retry, resume=in_threads(retry.resume))
            self._attempts = (retry, tuple(map(in_threads, fallback)))
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

    def _begin(self) -> OpenPipeline:
        try:
            if self._resuming is not None and not self.turns:
                return self._resume(self._resuming[0]).open_in(self._group)
            turn, origins, journaled = len(self.turns), self.trajectory.origins, self._journaled
            if journaled is not None and journaled.has_next:
                self._inbox.put_back(journaled.said_before_next(), turn, origins)
            else:
                self._inbox.take(turn, origins)
            self._asked += 1
            requested_at = time.monotonic()
            self.trajectory.began_at = self.trajectory.began_at or requested_at
            asked = self._conversation.request(self.messages)
            ask, again = partial(self._call_model, *asked), dict[str, Any]()
            if self._attempts is not None:
                retry, fallback = self._attempts
                again = {"retry": retry or Retry(attempts=1), "fallback": [partial(one, *asked) for one in fallback]}
            request = {"messages": asked[0]}
            block = journaled and journaled.next_block(self._conversation.tools, request, self._options)
            block = block or pipeline(
                ask if again else ModelRequest(ask, self._wire),
                tools=self._conversation.tools,
                wire=self._wire,
                trajectory=self.trajectory,
                requested_at=requested_at,
                request=request,
                **again,
                **self._options,
            )
            block.go_on_when_cut()
        except Exception:
            self.outcome = "error"
            raise
        return block.beginning_with(self._inbox.events()).open_in(self._group)

    def _resume(self, suspended: Suspended) -> Pipeline:
        """Returns the step that was left: the decisions about its calls are on record, and the model is not asked."""
        resumed_options = of_resume(self._options)
        return resume(
            suspended,
            tools=self._conversation.tools,
            trajectory=self.trajectory,
            **resumed_options,
        )

    async def _put_on_record(self, journaled: JournaledRun) -> None:
        try:
            await journaled.end_step(self.turns[-1])
        except Exception:
            self.outcome = "error"
            raise
        if self.unsettled and not self._is_stopped:
            self.outcome = "suspended"

    @property
    def _is_stopped(self) -> bool:
        """True if the run is to end now: steps on record come first."""
        return self._inbox.is_stopped and not (self._journaled is not None and self._journaled.has_next)

    def _decide(self, turn: Turn) -> None:
        """Sets the outcome if the model is not to be asked again."""
        ours = any(call.kind != "server" for call in turn.calls)
        exhausted = self._has_exhausted(turn)
        finish = None if turn.finish is None else FINISHES[turn.finish]
        goes_on = finish is not None and finish.goes_on
        if self._journaled is not None and self._journaled.has_next:
            pass  # it went on, as is on record: with something that was said, or since another `stop` was given then
        elif self._is_stopped:
            self.outcome = "cancelled"
        elif finish is not None and not finish.is_over:
            self.outcome = "pending"
        elif not (ours or goes_on or self._inbox.waiting or self._conversation.only_thinks(turn)):
            self.outcome = "answered"
        elif turn.unanswered:
            self.outcome = "unanswered"
        elif self._stopped_by(turn):
            self.outcome = "stopped"
        elif len(self.turns) > 1 and all(map(_has_exceeded, self.turns[-2:])):
            self.outcome = "budget"  # the model had read that it was to call nothing more
        elif exhausted and self._exhausted:
            self.outcome = "retries_exhausted"  # likewise
        elif self._asked >= self._max_steps:
            self.outcome = "max_steps"
        self._exhausted = exhausted

    def _has_exhausted(self, turn: Turn) -> bool:
        limits = self._options.get("limits", Limits())
        ended = [is_exhausted(seen, self.trajectory.counts, limits) for seen in turn.observations]
        return bool(ended) and all(ended)

    def _are_tokens_spent(self) -> bool:
        """Returns whether the model may not be asked, since the tokens of its run or of its pool are spent."""
        if self._resuming is not None and not self.turns:
            return False  # the step begins with calls, and does not ask
        if self._journaled is not None and self._journaled.has_next:
            return False
        limits, pool = self._options.get("limits", Limits()), self._options.get("pool")
        budgets = Budgets(limits, self.trajectory.spent, None if pool is None else pool.budget)
        return budgets.tokens_exceeded() is not None

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
            if (origins := self.trajectory.origins) is not None:
                from ..provenance.history import add_said  # as loaded by now

                add_said(origins, self.turns[-1].parts)


def _has_exceeded(turn: Turn) -> bool:
    return any(seen.outcome == "over_budget" for seen in turn.observations)


# -- the conversation of a run ---------------------------------------------------------------------------------------

# Puts a run's conversation into the model's words: the requests, the history, and the results of calls that waited.
#
# Without a mode these are the wire's own, with the tools exported for it. A mode (`streamtools.modes`) has words of
# its own: fields of the request instead of a list of tools, payloads and results as text, and turns that only think.


class Conversation(Protocol):
    """Writes all that the model reads."""

    @property
    def tools(self) -> Sequence[AnyTool]:
        """The tools for each step's pipeline."""
        ...

    def request(self, messages: list[Any]) -> tuple[list[Any], Any]:
        """Returns the messages of a request, and the tools or fields to send with them; raises an `ExportError` if a
        tool cannot be expressed."""
        ...

    def messages(self, turn: Turn) -> list[Any]:
        """Returns the messages to append after a turn."""
        ...

    def with_results(self, messages: list[Any], results: Iterable[Observation]) -> list[Any]:
        """Returns a history with the results of calls that waited; raises a `ValueError` if they are not in it."""
        ...

    def only_thinks(self, turn: Turn) -> bool:
        """Returns whether a turn neither calls nor answers, so that the model is to be asked again."""
        ...


def conversation_of(
    tools: AnyTools | Exports,
    wire: Wire | str,
    mode: StreamingAdapter | None,
    *,
    strict: bool | Literal["where_possible"],
) -> Conversation:
    """Returns the conversation of a run; the arguments are those of `agent_loop`."""
    if mode is None:
        exports = tools if isinstance(tools, Exports) else export_all(checked_list(tools), wire, strict=strict)
        return _WireConversation(exports, wire)
    _check(mode, wire)
    if strict is not False:
        raise TypeError("strict= is for the export to a wire; with mode=, it is an option of the adapter")
    return _ModeConversation(tools if isinstance(tools, Exports) else list(tools), mode)


def _check(mode: Any, wire: Wire | str) -> None:
    """Refuses a mode that cannot hold a conversation on the wire."""
    if not isinstance(mode, StreamingAdapter):
        hint = "ValidatedAdapter(yours)" if isinstance(mode, ToolCallingAdapter) else "get_adapter('mistral-7b')"
        raise TypeError(f"mode is an adapter of streamtools.modes, say {hint}, not {type(mode).__name__}")
    inner = getattr(mode, "base", mode)
    if isinstance(inner, NativeToolAdapter) and inner.wire != (name := find(wire).name):
        raise ValueError(f"mode {inner!r} writes for another wire than wire={name!r}; pass NativeToolAdapter({name!r})")


class _WireConversation:
    """A conversation in the wire's own words."""

    def __init__(self, exports: Exports, wire: Wire | str) -> None:
        self.tools: Sequence[AnyTool] = exports
        self._exports = exports
        self._wire = wire

    def request(self, messages: list[Any]) -> tuple[list[Any], Any]:
        return messages, list(self._exports.payloads)

    def messages(self, turn: Turn) -> list[Any]:
        return turn.messages(self._wire)

    def with_results(self, messages: list[Any], results: Iterable[Observation]) -> list[Any]:
        return with_results(messages, results, self._wire)

    def only_thinks(self, turn: Turn) -> bool:
        return False


class _ModeConversation:
    """A conversation in the words of a mode."""

    def __init__(self, tools: Sequence[AnyTool], mode: StreamingAdapter) -> None:
        self.tools = tools
        self._mode = mode

    def request(self, messages: list[Any]) -> tuple[list[Any], Any]:
        fields = dict(self._mode.format_request(self.tools, messages))
        return fields.pop("messages", messages), fields

    def messages(self, turn: Turn) -> list[Any]:
        return self._mode.messages(turn)

    def with_results(self, messages: list[Any], results: Iterable[Observation]) -> list[Any]:
        return self._mode.with_results(messages, results)

    def only_thinks(self, turn: Turn) -> bool:
        return self._mode.only_thinks(turn)
