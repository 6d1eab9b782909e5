"""Runs conversations independently of requests: begins, joins, stops and continues runs.

Theory of operation. A conversation is a chain of runs in one journal (`conversations`). Each run is a task of its own
(`live`), with a log for its readers (`readers`), so the end of a request does not end the run. A run whose calls wait
for people is left; a request with a decision stores it and continues the run. A run that lost its process continues
with the next request that asks for it, in any process on the same records, or by `recover`.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from pathlib import Path
from typing import Any, NotRequired, Self, TypeAlias, TypedDict
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
from anyio import CancelScope, create_task_group

from ..dispatch import Decision, Journal, Suspended, SuspendedCall
from ..dispatch.event_loop import spawn
from ..durable.journal import journal_of
from ..durable.journal_steps import place_of
from ..durable.lease import JournalLease, Waiter
from ..durable.record_store import RecordStore
from ..durable.records import checked_seconds
from ..durable.run_records import is_over
from ..errors import (
    AlreadyDecided,
    AnswerError,
    BadRequest,
    ChatConflict,
    DecisionError,
    JournalError,
    RunStillRunning,
    RunTakenOver,
    StreamError,
)
from ..events import Observation
from ..front import AgentLoop, explained
from ..ground import type_name
from ..parts import RunOutcome
from ..pipelines.messages import STOPPED
from ..policy.offloads import Offloads, remove_files
from ..privacy import Privacy, Redact
from ..tools import Tool
from ..wires import Wire, find
from .approval_ids import read_approval_id
from .client_input import (
    ClientApproval,
    ClientInput,
    ClientResult,
    ClientTool,
    UserFile,
    UserMessage,
    UserText,
    texts_in,
    tools_of,
)
from .conversations import FILE_ERRORS, MAX_ID_CHARS, ChatHead, ChatTurn, Conversations, fault_of
from .folded import folded
from .live import LiveRun
from .log import VISIT, Entry, RunLog, VisitEnd
from .past import Past, history_of
from .readers import RunReader
from .repeats import is_about, repeated, rested_at, steps_asked
from .shown import ShownRun

_logger = logging.getLogger("streamtools")
_MOST_WORDS = 100  # characters of a conversation's first words
_SWEEP_EACH_S = 1.0  # seconds
_SWEPT_AT_ONCE = 5  # conversations


class ChatOptions(TypedDict):
    """The options of `agent_loop` that make a run one of a conversation."""

    journal: Journal
    run_id: str
    conversation_id: str
    privacy: NotRequired[Privacy]


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation with a new message: the argument of the `run` function of `Chats`."""

    id: str
    """The id of the conversation."""
    run_id: str
    """The id of the run to make."""
    message: UserMessage
    """The user's last message."""
    user: str | None
    """The person who began this run, as named by `may`; None if it named nobody. It stays the same when another person
    decides, or continues the run by visiting the page."""
    owner: str | None
    """The person who began the conversation, as named by `may`; None if it named nobody."""
    client_tools: tuple[Tool[..., Any], ...]
    """The tools that the client declared and runs itself: ``tools=[*tools, *chat.client_tools]``. Their names and
    descriptions are the client's."""
    _journal: Journal = field(repr=False)
    _past: Sequence[Past] = field(repr=False)
    _privacy: Privacy | None = field(repr=False)
    _is_new: bool = field(repr=False)

    @property
    def options(self) -> ChatOptions:
        """The loop's options: ``agent_loop(ask, chat.messages(wire), tools=tools, wire=wire, **chat.options)``."""
        options: ChatOptions = {"journal": self._journal, "run_id": self.run_id, "conversation_id": self.id}
        if self._privacy is not None:
            options["privacy"] = self._privacy
        return options

    def messages(self, wire: Wire | str) -> list[Any]:
        """Returns the history for a wire, with the user's message at its end. Runs on another wire are converted.

        A file of an earlier message that the wire cannot carry becomes a placeholder.

        Raises:
            BadRequest: the wire cannot carry a file of the new message; the client gets this error.
            ExportError: the wire is unknown.
        """
        return history_of(self._past, self.message, find(wire), is_new=self._is_new)


@dataclass(frozen=True, slots=True)
class Joined:
    turn: ChatTurn
    after: int  # the number of the last entry of its log that the client has seen; -1 if none


Run = Callable[[Chat], AgentLoop | Awaitable[AgentLoop]]
Records: TypeAlias = str | os.PathLike[str] | RecordStore


class ChatRuns:
    """The conversations of a journal, and the runs in them, for any server. Make them with `Chats`, which has the same
    arguments and serves them over HTTP."""

    @explained("Chats")
    def __init__(
        self,
        *,
        run: Run,
        records: Records | Journal | None = None,
        journal: Records | Journal | None = None,
        keep: float | None = None,
        privacy: Privacy | None = None,
    ) -> None:
        if not callable(run):
            raise TypeError(f"run must be a function that returns an agent_loop(...), not {type(run).__name__}")
        if (records is None) == (journal is None):
            raise TypeError("pass records= (a file's path, a database's address or a store) or journal= (a Journal)")
        self.journal = journal_of(journal if records is None else records).at_once()
        """The runs."""
        self.privacy = privacy
        """What leaves of each conversation."""
        self._keep_s = None if keep is None else checked_seconds("keep", keep)
        self._sweeps_at = 0.0
        self._run = run
        self._store = self.journal.store
        self._log = RunLog(self._store.records)
        self._conversations = Conversations(self._store)
        self._live: dict[str, LiveRun] = {}
        self._scopes: dict[str, CancelScope] = {}
        self._stranded: set[str] = set()  # runs whose lease could not be given back, since their records had failed
        self._locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()

    # -- what clients ask for --

    async def take(self, given: ClientInput, *, by: str | None = None) -> Joined:
        """Begins or continues a run, as the client asks. Repeating a request begins nothing new.

        Args:
            given: the client's request.
            by: the person: `Chat.user` of a run that begins, and the `by` of decisions.

        Raises:
            ChatConflict: a run of the conversation is in progress or waits for people, or an answer fits no call.
            BadRequest: the request cannot be accepted.
        """
        message = given.message
        said = None if given.trigger in ("resume", "regenerate") or message is None else message.id
        head, known = await self._conversations.look(given.chat_id, said)
        if given.trigger == "resume":
            return await self._answered(head, given, by)
        if given.trigger == "regenerate":
            return await self._regenerated(head, given, by)
        if message is None:
            raise ChatConflict("nothing_said", "the request contains neither a user message nor an answer")
        if known is not None and known.message == message:
            if head is not None and known.number == head.number:  # the same request again
                await self._go_on(known)
                return Joined(known, -1)
            if given.trigger != "edit":
                raise ChatConflict("answered", "the message has an answer; regenerate to get another one")
        if known is None and given.earlier and (head is None or head.message.id not in given.earlier):
            text = "the messages before this one are not those of the conversation; reload it, and send it again"
            raise ChatConflict("unknown_history", text)
        await self._check_free(head)
        before = None if head is None else head.number
        return await self._begun(given, known.before if known is not None else before, message, head, by, is_new=True)

    async def join(self, chat_id: str) -> Joined | None:
        """Returns the run in progress in a conversation, or None. Continues a run whose process has died."""
        head = await self._conversations.head(chat_id)
        return Joined(head, -1) if head is not None and await self._go_on(head) else None

    async def joined(self, chat_id: str, number: int, seq: int) -> Joined | None:
        """Returns the place from which a returning client reads; None if nothing is left to read. Raises `ChatConflict`
        if the log of the run has expired."""
        turn = await self._conversations.turn(chat_id, f"{chat_id}/{number}")
        if turn is None:
            raise ChatConflict("expired", "the run no longer exists; reload the conversation")
        joined = Joined(turn, seq)
        if self._here(turn) is not None or await self._store.is_held(turn.run_id):
            return joined
        reader = self.reader(joined)
        reader.seq = seq
        if await reader.past():
            return joined
        if not await self.reader(Joined(turn, -1)).past():
            raise ChatConflict("expired", "the log of this run has expired; reload the conversation")
        return None

    async def stop(self, chat_id: str, run_id: str | None = None) -> bool:
        """Stops the run of a conversation, in any process; returns False if none is in progress, or not this one."""
        head = await self._conversations.head(chat_id)
        if head is None or (run_id is not None and run_id != head.run_id):
            return False
        if head.outcome == "suspended" and await self.refusal(head) is not None:
            await self._end_waiting(head)
            return True
        if not await self._stopped(head.run_id):  # noted for the visit that begins it; it may have begun by now
            is_known = await self.journal.knows(head.run_id)
            noted = None if is_known else await self._conversations.end(head.run_id, "cancelled", begun=False)
            return await self._stopped(head.run_id) or noted is not None
        if head.outcome == "suspended":  # no process runs it that would read the stop
            await self._start(head)
        return True

    async def _end_waiting(self, turn: ChatTurn) -> None:
        """Ends a run whose calls wait, and which cannot be continued."""
        shown, waiting = await self._shown(turn), await self._waiting(turn.run_id)
        seq, words = shown[-1].seq if shown else -1, f"Error: the call was not run: {STOPPED}"
        step, calls = (0, ()) if waiting is None else (waiting.step, waiting.calls)
        for number, call in enumerate(calls, seq + 1):
            end = Observation(call_id=call.call_id, tool_name=call.tool_name, outcome="skipped", model_content=words)
            shown.append(replace(end, seq=number, step=step))
        shown.append(VisitEnd(seq + len(calls) + 1, "cancelled"))
        if (ended := await self._conversations.end(turn.run_id, "cancelled")) is not None:
            await self._conversations.keep(ended, shown, with_log=False)  # it ends with calls that wait

    async def _stopped(self, run_id: str) -> bool:
        try:
            await self.journal.stop(run_id)
        except JournalError:  # it has not begun, or is over
            return False
        return True

    async def history(self, chat_id: str, *, before: str | None = None, limit: int = 10_000) -> list[ChatTurn] | None:
        """Returns the runs of a conversation up to its latest one, or those `before` one, without other branches; None
        if there are none. Returns at most `limit`, and fewer if they have more than 16 MiB. Raises `ChatConflict` if
        the conversation has no run `before`."""
        last = await self._conversations.head(chat_id)
        if last is None:
            return None
        if before is not None:
            known = await self._conversations.turn(chat_id, before)
            if known is None:
                raise ChatConflict("unknown_message", "the conversation has no such run")
            run_id = None if known.before is None else f"{chat_id}/{known.before}"
            last = None if run_id is None else await self._conversations.turn(chat_id, run_id)
        return [] if last is None else await self._conversations.up_to(last, limit)

    async def answers(self, turns: Sequence[ChatTurn]) -> list[Sequence[Entry] | None]:
        """Returns the answer of each run, as its stream showed it; None while it is in progress, or if it showed
        nothing. Raises `JournalError` if one cannot be read."""
        answers = list[Sequence[Entry] | None]()
        for turn, kept in zip(turns, await self._conversations.answers(turns), strict=True):
            if turn.outcome is None or self._here(turn) is not None:
                kept = []
            answer = folded(await self._shown(turn)) if kept is None else kept
            answers.append(answer if any(not isinstance(entry, VisitEnd) for entry in answer) else None)
        return answers

    async def of(self, owner: str, *, before: str | None = None, limit: int = 50) -> tuple[list[ChatHead], str | None]:
        """Returns the conversations that a person began, the latest change first, and the `before` of the next page, if
        there are more."""
        chats, more = await self._conversations.of(owner, before, limit)
        return [replace(one, words=self._words(one.words)) for one in chats], more

    def _words(self, text: str) -> str:
        """Returns the first words of a text, as the policy leaves them; none if it fails."""
        try:
            hidden = text if self.privacy is None or self.privacy.redact is None else _hiding(self.privacy.redact)(text)
        except Exception:  # its run shows nothing, and logs this
            return ""
        return " ".join(hidden.split())[:_MOST_WORDS]

    async def _shown(self, turn: ChatTurn) -> list[Entry]:
        kept = (await self._conversations.answers([turn]))[0] or []
        reader = self.reader(Joined(turn, -1))
        reader.seq = kept[-1].seq if kept else -1
        return [*kept, *await reader.past()]

    def message(self, turn: ChatTurn) -> UserMessage:
        """Returns the user's message, as the policy leaves it. Raises `JournalError` if the policy failed."""
        if self.privacy is None or self.privacy.redact is None:
            return turn.message
        try:
            hide = _hiding(self.privacy.redact)
            return UserMessage(turn.message.id, tuple(_hidden(part, hide) for part in turn.message.parts))
        except Exception as error:
            name = type_name(error)  # its text may quote what the policy hides
        raise JournalError(f"the run {turn.run_id!r} cannot be shown, since its privacy policy failed ({name})")

    async def delete(self, chat_id: str) -> bool:
        """Stops and removes a conversation: its runs, logs and messages, and the records, decisions, answers and files
        of its calls. A call whose end is unknown stays in the store, and the server's log names it. Operations with
        ``scope="forever"`` and all calls of another ``store=`` stay, too. Returns False if there is no such
        conversation.

        Raises:
            RunStillRunning: another process is running one of its runs; stop it first.
            JournalError: the file cannot be used, or a file of a long result cannot be removed.
        """
        erased, left = list[str](), None
        async with self._lock(chat_id):  # no run is continued meanwhile
            while left := await self._conversations.delete(chat_id, erased):  # also those that have begun since
                for run_id in left:
                    self._leave(run_id)
                    while (live := self._live.get(run_id)) is not None:
                        await live.wait()
                await self._remove_files(chat_id)
                if not await self._store.is_held(left[-1]):  # so that no later request continues it
                    with suppress(JournalError):  # or its record is no turn's
                        await self._conversations.end(left[-1], "cancelled")
                await self._erase(chat_id, left)
                erased += left
        return bool(erased) and left is not None

    async def _erase(self, chat_id: str, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            left = await self.journal.erase(run_id, conversation_id=chat_id)
            if left:
                _logger.warning("the store keeps calls with an unknown outcome of the removed run %s: %s", run_id, left)

    async def _remove_files(self, chat_id: str) -> None:
        for run_id, directory in await self._conversations.files(chat_id):
            try:
                await anyio.to_thread.run_sync(remove_files, Path(directory), run_id)
            except OSError as error:
                text = f"a long result of the run {run_id!r} cannot be removed: {error.strerror}"
                raise JournalError(text) from error

    async def recover(self) -> list[str]:
        """Continues every run whose process has died; returns the ids of their conversations."""
        found = []
        for chat_id in await self._conversations.open():
            try:
                head = await self._conversations.head(chat_id)
                if head is not None and head.run_id not in self._live and await self._go_on(head):
                    found.append(chat_id)
            except ChatConflict:  # it was removed
                continue
            except FILE_ERRORS as error:  # the others continue
                _logger.error("the conversation %r does not continue: %s", chat_id, error)
        if self._keep_s is not None:
            await self._sweep(self._keep_s)
        return found

    async def _sweep(self, keep_s: float) -> None:
        """Removes a few conversations that have not changed for `keep_s` seconds. Contains its errors."""
        try:
            for due in await self._conversations.due(time.time() - keep_s, _SWEPT_AT_ONCE):
                try:
                    head = await self._conversations.head(due[-1])
                    run_id = "" if head is None else head.run_id
                    if run_id not in self._live and not await self._store.is_held(run_id):
                        await self.delete(due[-1])
                except (JournalError, RunStillRunning, ChatConflict) as error:
                    _logger.error("the conversation %r is due, but could not be removed: %s", due[-1], error)
                await self._conversations.put_off(due)
        except Exception:  # of the records; the next request looks again
            _logger.exception("conversations that are due could not be removed")

    def reader(self, joined: Joined) -> RunReader:
        """Returns the place of a client in a run, from its beginning."""

        async def find_kept() -> Sequence[Entry] | None:
            return (await self._conversations.answers([joined.turn]))[0]

        async def go_on() -> bool:
            turn = await self._conversations.turn(joined.turn.chat_id, joined.turn.run_id)
            try:
                return turn is not None and await self._go_on(turn)
            except ChatConflict:  # the conversation was removed
                return False

        asked = self._shows, self._store.is_held, self._has_news, find_kept, go_on
        reader = RunReader(joined.turn.run_id, self._log, *asked)
        reader.seen = joined.after
        return reader

    async def aclose(self) -> None:
        """Leaves the runs in progress here; they continue with the next request, or by `recover`."""
        left = list(self._scopes)
        for run_id in left:
            self._leave(run_id)
        while self._live:
            await next(iter(self._live.values())).wait()
        with suppress(*FILE_ERRORS):
            if left:  # a read after all that was handed over: the leases are given back by then
                await self._store.is_held(left[-1])

    def _leave(self, run_id: str) -> None:
        if run_id in self._live:
            self._live[run_id].is_leaving = True
            self._scopes[run_id].cancel()

    async def __aenter__(self) -> Self:
        try:
            await self._store.is_held("")
        except FILE_ERRORS as error:  # it may start later than this program
            _logger.error("the conversations cannot be read, so requests are refused until they can: %s", error)
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    # -- runs --

    async def _begun(
        self,
        given: ClientInput,
        before: int | None,
        message: UserMessage,
        head: ChatTurn | None,
        by: str | None,
        *,
        is_new: bool = False,
    ) -> Joined:
        chat_id, tools = given.chat_id, given.client_tools
        if not 0 < len(chat_id) <= MAX_ID_CHARS:
            raise ChatConflict("bad_id", f"the id of a conversation has 1 to {MAX_ID_CHARS} characters")
        await _tools_of(tools)  # refused before anything begins
        turn = ChatTurn(chat_id, 1 if head is None else head.number + 1, before, message, by, tools)
        if is_new and any(isinstance(part, UserFile) for part in message.parts):
            await self._check_files(turn)
        words = next((part.text for part in message.parts if isinstance(part, UserText)), "")
        begun = await self._conversations.begin(turn, head, self._words(words))
        if begun is None:
            now = await self._conversations.head(chat_id)
            if now is None or (now.before, now.message) != (before, message):
                raise ChatConflict("running", "another request has just begun a run in this conversation")
            await self._go_on(now)  # the same request, at the same moment
            return Joined(now, -1)
        await self._start(begun)
        if self._keep_s is not None and time.monotonic() > self._sweeps_at:
            self._sweeps_at = time.monotonic() + _SWEEP_EACH_S
            spawn(self._sweep, self._keep_s)
        return Joined(begun, -1)

    async def _check_files(self, turn: ChatTurn) -> None:
        try:
            await self._made(turn, is_new=True)
        except (BadRequest, ChatConflict):
            raise
        except Exception:  # the run itself fails with it, and says so
            return

    async def _regenerated(self, head: ChatTurn | None, given: ClientInput, by: str | None) -> Joined:
        turn = head
        if given.message_id is not None:
            turn = await self._conversations.turn(given.chat_id, given.message_id)
            turn = turn or (await self._conversations.look(given.chat_id, given.message_id))[1]
        if head is None or turn is None:
            raise ChatConflict("unknown_message", "the conversation has no such message")
        await self._check_free(head)
        return await self._begun(given, turn.before, turn.message, head, by)

    async def _answered(self, head: ChatTurn | None, given: ClientInput, by: str | None) -> Joined:
        if head is None:
            raise ChatConflict("nothing_waits", "no call waits for an answer in this conversation")
        if head.outcome == "suspended" and (reason := await self.refusal(head)) is not None:
            raise ChatConflict("waiting", reason)
        seen = await self._shown(head)
        waiting = await self._waiting(head.run_id)
        calls = () if waiting is None else waiting.calls
        decisions = list[Decision]()
        if waiting is not None and not is_over(head.outcome):
            decisions = [
                found for one in given.approvals if (found := _decision(waiting, one, by, self.privacy)) is not None
            ]
        results = _results(head.run_id, given, calls, seen) if head.is_open else []
        if not decisions and not results:
            if (place := await repeated(self.journal, head.run_id, given, seen)) is not None:
                await self._go_on(head, resumes=head.outcome == "suspended")  # its process may have died after them
                return Joined(head, place)
            raise ChatConflict("nothing_waits", "no call waits for any of these answers")
        refused: Exception | None = None
        try:
            assert waiting is not None, "has the calls"
            await self._record(waiting, decisions, results)
        except (DecisionError, AnswerError, JournalError) as error:
            refused = error
        await self._go_on(head, resumes=True)  # also where what was decided before was not acted on
        if refused is not None:
            code = "edited" if isinstance(refused, DecisionError) and refused.code == "edited" else "decided"
            raise ChatConflict(code, str(refused)) from refused
        answered = {decision.call_id for decision in decisions} | {call.call_id for call, _ in results}
        end = rested_at(seen, answered)  # the run may have continued already, if this is the same request again
        return Joined(head, end.seq if end is not None else seen[-1].seq if seen else -1)

    async def _waiting(self, run_id: str) -> Suspended | None:
        """Returns the calls that wait in a run; None also if its journal has forgotten the run."""
        try:
            return await self.journal.suspended(run_id, unread=True)
        except JournalError:
            if await self.journal.knows(run_id):
                raise
            return None

    async def _record(
        self, waiting: Suspended, decisions: Sequence[Decision], results: Sequence[tuple[SuspendedCall, ClientResult]]
    ) -> None:
        """Stores the decisions, except those already on record with the same content, and the results."""
        left = {one.call_id: one for one in decisions}
        while left:
            try:
                await self.journal.decide(waiting, *left.values())
                break
            except AlreadyDecided as error:
                known = left.pop(error.call_id, None)
                if known is None or (known.verdict, known.arguments) != (error.first.verdict, error.first.arguments):
                    raise
        refused: AnswerError | None = None
        for call, one in results:  # each counts, whatever becomes of the others
            try:
                await self.journal.answer(waiting.run_id, call.call_id, one.value, is_error=one.is_error)
            except AnswerError as error:
                refused = refused or error
        if refused is not None:
            raise refused

    async def _check_free(self, head: ChatTurn | None) -> None:
        if head is None:
            return
        if await self._go_on(head):
            if await self.journal.news(head.run_id, kind="stop"):
                text = "the run was stopped, and is finishing a call that must not be interrupted; try again soon"
                raise ChatConflict("stopping", text)
            raise ChatConflict("running", "a run is in progress in this conversation; stop it, or wait for its end")
        if head.outcome == "suspended" and await self.journal.knows(head.run_id):
            text = "calls in this conversation wait for a decision, an answer, or to be settled; do that first"
            raise ChatConflict("waiting", await self.refusal(head) or text)

    async def _go_on(self, turn: ChatTurn, *, resumes: bool = False) -> bool:
        """Returns whether a run is in progress; continues it here if it should be and is not."""
        if turn.run_id in self._stranded and turn.run_id not in self._live:
            await self._store.let_go(turn.run_id)
            self._stranded.discard(turn.run_id)
        if self._here(turn) is not None or await self._store.is_held(turn.run_id):
            return True
        if not (resumes or turn.outcome in (None, "left") or await self._may_go_on(turn)):
            return False
        if turn.visits and not resumes and await self.refusal(turn) is not None:
            # It cannot continue now. Unless its calls wait for people, it ends.
            if turn.outcome != "suspended" and not await self._store.is_held(turn.run_id):
                await self._ended(turn, "interrupted")
            return False
        await self._start(turn)
        return True

    def _shows(self, run_id: str) -> LiveRun | None:
        live = self._live.get(run_id)
        return None if live is None or live.has_moved else live

    def _here(self, turn: ChatTurn) -> LiveRun | None:
        """Returns the visit to a run here; None if another process has begun a later one: this one was paused."""
        live = self._live.get(turn.run_id)
        if live is not None and live.has_begun and turn.visits * VISIT > live.first + VISIT:
            live.move()
        return self._shows(turn.run_id)

    async def _ended(self, turn: ChatTurn, outcome: RunOutcome) -> None:
        """Notes that a run must not continue, and what it has shown so far."""
        if (ended := await self._conversations.end(turn.run_id, outcome)) is not None:
            await self._conversations.keep(ended, await self._shown(ended))

    async def refusal(self, turn: ChatTurn) -> str | None:
        """Returns why a run cannot be continued now, for people: the program makes another run of it, for example over
        another wire. None if it can be, or is in progress."""
        if turn.run_id in self._live or not await self.journal.knows(turn.run_id):
            return None
        try:
            made = await self._made(turn)
        except Exception as error:
            if fault_of(error) == "passing":  # nothing is said about the run
                raise
            _logger.exception("the run %s does not continue, since making it failed", turn.run_id)
            return "the run cannot continue now, since making it again failed"
        place = place_of(made.sources)
        assert place is not None, "checked"
        if await self.journal.began_with(turn.run_id, place.first):
            return None
        if turn.wire not in (None, made.wire.name):
            return (
                f"the run began over {turn.wire}, and cannot continue over {made.wire.name}: change it back, or "
                "stop the run"
            )
        return "the run began with other messages than the program makes now: change it back, or stop the run"

    async def _may_go_on(self, turn: ChatTurn) -> bool:
        if turn.outcome != "suspended":
            return False
        if await self.journal.news(turn.run_id):
            return True
        settled = await self._conversations.has_settled(turn)
        if settled is not None:
            return settled
        return await self._waiting(turn.run_id) is None and await self.journal.knows(turn.run_id)

    def _lock(self, chat_id: str) -> anyio.Lock:
        """Returns the lock to hold while a run of a conversation is started, or the conversation removed."""
        found = self._locks.get(chat_id)
        if found is None:
            self._locks[chat_id] = found = anyio.Lock()
        return found

    async def _start(self, turn: ChatTurn) -> None:
        async with self._lock(turn.chat_id):
            if self._here(turn) is not None:
                return
            while (moved := self._live.get(turn.run_id)) is not None:
                self._leave(turn.run_id)
                await moved.wait()
            now = await self._conversations.turn(turn.chat_id, turn.run_id)
            if now is None:
                raise ChatConflict("expired", "the conversation was removed")
            if now.visits != turn.visits and not (now.outcome in (None, "left") or await self._may_go_on(now)):
                return  # another request has continued it since
            live = LiveRun(turn.run_id, now.visits, self._log, self._finish)
            self._live[turn.run_id] = live
            self._scopes[turn.run_id] = CancelScope()
        spawn(self._drive, (turn, live))

    async def _drive(self, given: tuple[ChatTurn, LiveRun]) -> None:
        """Runs a run until it ends or is left. Contains its errors."""
        turn, live = given
        failure: Exception | None = None
        known: frozenset[str] = frozenset()
        try:
            known = await self.journal.news(turn.run_id)
            with self._scopes[turn.run_id]:
                failure = await self._visit(turn, live)
        except Exception as error:
            failure = error
        finally:
            with CancelScope(shield=True):
                failure = await self._end(turn, live, failure)
            del self._live[turn.run_id], self._scopes[turn.run_id]
        if failure is not None and not isinstance(failure, (ChatConflict, StreamError, RunStillRunning, RunTakenOver)):
            _logger.error("run %s ended with an error", turn.run_id, exc_info=failure)
        if live.ended is not None and live.ended.outcome == "suspended":
            await self._look_again(turn, known)

    async def _end(self, turn: ChatTurn, live: LiveRun, failure: Exception | None) -> Exception | None:
        try:
            is_lost = isinstance(failure, (RunStillRunning, RunTakenOver))
            if fault_of(failure):
                is_lost = True
                self._stranded.add(turn.run_id)
            if failure is not None and not is_lost and not live.has_finished:  # or each request would try once more
                await self._ended(turn, "error")
            if live.is_removed:
                await self._erase(turn.chat_id, [turn.run_id])
        except Exception as error:  # the file is gone, too
            error.__context__ = failure
            failure = error
        await live.finish(failure)
        return failure

    async def _has_news(self, run_id: str) -> bool:
        return bool(await self.journal.news(run_id))

    async def _look_again(self, turn: ChatTurn, known: frozenset[str]) -> None:
        """Continues a run if a decision arrived while it was being left."""
        try:
            if await self.journal.news(turn.run_id) - known:
                await self._start(turn)
        except ChatConflict:  # it was removed
            return
        except Exception:  # of the file; the next request looks again
            _logger.exception("run %s does not continue by itself", turn.run_id)

    async def _made(self, turn: ChatTurn, *, is_new: bool = False) -> AgentLoop:
        head = await self._conversations.chat(turn.chat_id)
        owner = turn.user if head is None else head.owner
        past, tools = await self._conversations.past(turn), await _tools_of(turn.tools)
        made_of = turn.chat_id, turn.run_id, turn.message, turn.user, owner, tools, self.journal
        chat = Chat(*made_of, past, self.privacy, is_new)
        made = self._run(chat)
        loop = await made if isawaitable(made) and not isinstance(made, AgentLoop) else made
        self._check(loop, chat)
        if past and past[-1].wire == loop.wire.name:
            loop._carrying.go_on(past[-1].carry)
        return loop

    async def _visit(self, turn: ChatTurn, live: LiveRun) -> Exception | None:
        loop = await self._made(turn)
        live.attach(loop)
        failure: Exception | None = None
        async with create_task_group() as tasks:
            tasks.start_soon(live.keep_writing)
            tasks.start_soon(live.keep_waking)
            try:  # not raised here: the group would wrap it
                async with loop:
                    await self._begin_visit(turn, live, loop)
                    async for _ in loop:
                        continue
            except Exception as error:
                failure = error
            tasks.cancel_scope.cancel()
        return failure

    async def _begin_visit(self, turn: ChatTurn, live: LiveRun, loop: AgentLoop) -> None:
        """Counts a visit, now that no other process runs the run, and finds out what its readers were shown."""
        place = place_of(loop.sources)
        assert place is not None, "checked"
        assert place.held is not None, "the run was entered"
        offloads: Offloads | None = loop.trajectory.kept.get(Offloads)
        long = None if offloads is None or offloads.directory is None else str(offloads.directory.absolute())
        found = await self._conversations.visit(turn.run_id, place.held, long)
        live.is_removed = found is None
        if found is None or found.outcome == "cancelled":  # before it had begun
            loop.stop()
        number = 0 if found is None else found.visits - 1
        seen = await self.reader(Joined(turn, -1)).past() if number else []
        kept = ((await self._conversations.answers([turn]))[0] or []) if number else []
        last = kept[-1].seq if kept else -1
        shown = [*kept, *(entry for entry in seen if entry.seq > last)]
        is_whole = bool(seen) and seen[-1].seq >= last  # else the log has expired
        if kept and not is_whole:
            await self._log.append(turn.run_id, kept, place.held)()
        live.begin(found, number, ShownRun(seen if is_whole else shown, number), shown)

    def _check(self, loop: Any, chat: Chat) -> None:
        if not isinstance(loop, AgentLoop):
            raise TypeError(f"run must return an agent_loop(...), not {type_name(loop)}")
        place = place_of(loop.sources)
        if place is None or place.journal is not self.journal or place.run_id != chat.run_id:
            raise TypeError("run must make the run of this conversation: agent_loop(..., **chat.options)")
        if loop.trajectory.guard is not self.privacy:  # or what is read later would show what the stream has not
            raise TypeError("pass the privacy policy of a conversation's runs to its readers, too: Chats(privacy=...)")

    def _finish(
        self, loop: AgentLoop, lease: JournalLease, turn: ChatTurn, outcome: str | None, entries: Sequence[Entry]
    ) -> Waiter:
        unsettled = tuple(seen.idempotency_key for seen in loop.unsettled if seen.idempotency_key is not None)
        turn = replace(turn, wire=loop.wire.name, outcome=outcome, unsettled=unsettled)
        return self._conversations.finish(turn, lease, loop.added, loop.carry, entries)


async def _tools_of(declared: tuple[ClientTool, ...]) -> tuple[Tool[..., Any], ...]:
    return await anyio.to_thread.run_sync(tools_of, declared) if declared else ()  # large schemas take a second


def _hiding(redact: Redact) -> Callable[[Any], Any]:
    from ..privacy.values import Values  # only a run with a policy needs it

    return Values(redact).of


def _hidden(part: UserText | UserFile, hide: Callable[[Any], Any]) -> UserText | UserFile:
    """Returns a part of the user's message as the policy leaves it: a file whole, or only its kind."""
    if isinstance(part, UserText):
        return UserText(hide(part.text))
    media = part.media()
    return part if hide(media) == media else UserText(replace(media, filename=None).placeholder())


def _decision(waiting: Suspended, given: ClientApproval, by: str | None, privacy: Privacy | None) -> Decision | None:
    """Returns a person's decision, if it is about a waiting call, as it was shown. A later step may have asked for the
    same call again."""
    named = read_approval_id(given.id)
    if named is None or (named.run_id, named.step) != (waiting.run_id, waiting.step):
        return None
    for call in waiting.calls:
        if (call.call_id, call.fingerprint, call.waits_for) == (named.call_id, named.fingerprint, "approval"):
            edited = given.arguments if given.approved else None
            redact = None if edited is None or privacy is None else privacy.redact
            if redact is not None and not set(texts_in(edited)).isdisjoint(_masks(call, redact)):
                raise ChatConflict("edited", "expected complete arguments, got one that the privacy policy has masked")
            try:
                return Decision.on(call, given.approved, by=by, reason=given.reason, arguments=edited)
            except ValueError as error:
                raise ChatConflict("edited", str(error)) from error
    return None


def _masks(call: SuspendedCall, redact: Redact) -> set[str]:
    """Returns the texts that a policy shows in place of those of a call's arguments."""
    try:
        return {*texts_in(_hiding(redact)(call.arguments))} - {*texts_in(call.arguments)}
    except Exception as error:  # its text may quote what the policy hides
        name = type_name(error)
    raise ChatConflict("edited", f"the arguments cannot be edited, since the privacy policy failed ({name})")


def _results(
    run_id: str, given: ClientInput, calls: Sequence[SuspendedCall], seen: Sequence[Entry]
) -> list[tuple[SuspendedCall, ClientResult]]:
    steps = steps_asked(seen)
    return [
        (call, one)
        for call in calls
        if call.waits_for == "answer"
        for one in given.results
        if is_about(one, run_id, call.call_id, steps.get(call.call_id, ()))
    ]
