"""Puts a run on record in its journal, and goes on from what is there.

    StreamEnd           the response is stored; calls that claim wait for that
    the step is over    its observations are kept, and stored with the next response, or at the end
    the run is left     what is left is stored, and the lease is given back

Theory of operation. `JournaledRun` is an observer of the run, which sees each body as it is read, and the store of its
calls, which lets no call be claimed whose response is not stored. So a call that must not run twice has begun only if
the response that it stands in is on record: a run that goes on decodes that response again, with the same ids, and the
store knows which of its calls have begun. A step that is on record with its observations runs nothing: its events are
replayed for the consumer alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import sqlite3
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup
from pydantic_core import PydanticSerializationError, to_json

from ..codec import read_event, read_value, written_event, written_value
from ..dispatch.endings import recount
from ..dispatch.journal import (
    Journal,
    JournaledResponse,
    JournalLease,
    Waiter,
    marked,
    read_entry,
    read_put,
)
from ..dispatch.states import Mention
from ..dispatch.store import Claim, IdempotencyStore
from ..errors import JournalError, LocalProtocolError, RunTakenOver, StreamError, ToolNotStarted
from ..event_loop import spawn
from ..events import AttemptBegan, Event, Observation, StepEnd, StepStart, StreamEnd
from ..fields import Range, read_object
from ..limits import Limits
from ..observers import Observer, StreamFacts
from ..parts import FINISHES
from ..stages import DEFAULT
from ..text import type_name
from ..tools import AnyTools
from ..turn import Turn
from ..wires import Wire, find
from .block import Pipeline
from .entry import PipelineKeywords, pipeline, reads_text, toolset_of
from .inbox import Inbox
from .trajectory import KeptResults, Trajectory

if TYPE_CHECKING:
    from ..dispatch import CallAnswer, Decision, Suspended
    from ..dispatch.origins import Origins

_PLACE = ("seq", "step", "time", "causes")  # in the run: replayed events get these anew
_LOOKS_EVERY_S = 0.2
_logger = logging.getLogger("streamtools")
T = TypeVar("T")
_DECODING = ("stages", "transforms", "output", "limits")
"""The options of a step whose calls do not run."""


class JournaledRun:
    """The journal of one run, and the store of its calls: an observer that sees all and shows nothing.

    Args:
        journal: the file.
        run: the run, whose id was given.
        wire: the wire of its messages.
        messages: those that it begins with.
        store: keeps its calls; by default the journal's own.
        starts_by_hand: calls run by ``run_call``.

    Raises:
        TypeError: the run has no id of the caller's, a message is no JSON, or DBOS keeps this run already.
    """

    sees_originals = True
    event_types: Collection[type[Event]] | None = frozenset({StepStart, AttemptBegan, StreamEnd, StepEnd})

    def __init__(
        self,
        journal: Journal,
        run: Trajectory,
        *,
        wire: Wire | str,
        messages: Sequence[Any],
        store: IdempotencyStore | None,
        starts_by_hand: bool,
    ) -> None:
        if not run.is_named:
            raise TypeError('journal= needs a run_id by which the same line finds its run again, say run_id="order-7"')
        if "dbos" in sys.modules and sys.modules["dbos"].DBOS.workflow_id is not None:
            raise TypeError("journal=: this is a workflow of DBOS, which keeps the run already; leave the journal out")
        self._journal = journal
        self._run = run
        self._wire = wire
        self._first = _digest(wire, messages)
        self._store = journal.store if store is None else store
        self._by_hand = starts_by_hand
        self._lease: JournalLease | None = None
        self._on_record: deque[JournaledResponse] = deque()
        self._inbox: Inbox | None = None
        self._observers: tuple[Observer, ...] = ()
        self._marker = ""
        self._said = 0  # how many entries were in the history of the latest response on record
        self._known_entries: set[str] = set()
        self._putting: list[Waiter] = []
        self._noting: list[Waiter] = []  # which calls wait
        self._read_elsewhere: list[str] = []  # entries that no response shows as read
        self._watching: CancelScope | None = None
        self._ends: list[tuple[int, bytes]] = []  # of steps that are over, to be stored
        self._step = -1
        self._items: list[bytes | dict[str, Any]] = []
        self._salt = 0
        self._attempt = 1  # at the answer of the step; part of its calls' keys
        self._has_ended: anyio.Event | None = None  # the response of the step; a run is made outside a loop, too
        self._is_stored: Waiter | None = None
        self._known: tuple[Observation, ...] | None = None  # of the step that is replayed
        self._lost: RunTakenOver | None = None  # as a claim has shown
        self._spent = (0, 0)

    # -- for the run --

    @property
    def lease(self) -> JournalLease | None:
        """The right to go on with the run, while it is held here."""
        return self._lease

    @property
    def journal(self) -> Journal:
        """The file."""
        return self._journal

    @property
    def is_replaying(self) -> bool:
        """True while the current step is on record with its ends."""
        return self._known is not None

    def end_of(self, call: Mention | str) -> Observation | None:
        """Returns the end of a call of the step that is replayed."""
        call_id = call if isinstance(call, str) else call.call_id
        return next((seen for seen in self._known or () if seen.call_id == call_id), None)

    async def begin(self, inbox: Inbox, *observers: Observer) -> None:
        """Takes the lease of the run, and reads what is on record. `observers` belong to the journal, too. Raises
        `RunStillRunning` if somebody else runs it, a `JournalError` if another run has this id."""
        self._lease, found = await self._journal.begin(self._run.run_id, self._first, self._run.name)
        self._on_record.extend(found)
        self._inbox, self._marker = inbox, self._lease.marker
        self._observers = observers
        self._run.observers += (self, *observers)

    @property
    def has_next(self) -> bool:
        """True if the response of the next step is on record, so that nobody is asked."""
        return bool(self._on_record)

    def said_before_next(self) -> list[dict[str, Any]]:
        """Returns the entries that entered the history right before the next step on record."""
        return self._read(self._on_record[0], lambda response: list(_said(_read_facts(response).said)))

    def _read(self, response: JournaledResponse, read: Callable[[JournaledResponse], T]) -> T:
        try:
            return read(response)
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            text = f"step {response.step} of the run {self._run.run_id!r} cannot be read from its journal"
            raise JournalError(text) from error

    def next_block(
        self, tools: AnyTools | Any, request: Mapping[str, Any], options: PipelineKeywords
    ) -> Pipeline | None:
        """Returns the next step, if its response is on record; raises a `JournalError` if that cannot be read."""
        self._known = None
        if not self._on_record:
            return None
        response = self._on_record.popleft()
        facts, items = self._read(response, self._go_back_to)
        given: dict[str, Any] = dict(options)
        origins = None
        if self._known is not None:
            origins = self._origins(tools, given)
            if reads_text(given.get("stages", DEFAULT)):
                self._run.results = self._run.results or KeptResults()
            given = {name: value for name, value in given.items() if name in _DECODING}
            given |= {"start": "off", "transforms": (*given.get("transforms", ()), _then(self._known))}
        else:
            given["request"] = request
        block = pipeline(_each(items), tools=tools, wire=self._wire, trajectory=self._run, **given)
        self._step, self._is_stored = self._run.steps, _at_once
        return block.with_response_on_record(
            facts.traceparent,
            proposed_by=facts.proposed_by,
            replayed=self._known is not None,
            origins=origins,
            attempt=self._attempt,
            withheld=None if self._inbox is None else self._inbox.withholds,
        )

    def _go_back_to(self, response: JournaledResponse) -> tuple[_Facts, list[Any]]:
        facts = _read_facts(response)
        items = list(_read_items(facts.kind, response.body))
        if response.ends is not None:
            ends: _Ends = read_object(_Ends, json.loads(response.ends), label="ends")
            self._known = tuple(_read_observation(one) for one in ends.observations)
            self._spent = (ends.calls, ends.tokens)
        self._run.steps, self._run.salts = response.step, facts.salt - 1
        self._said += len(facts.said)
        self._attempt = facts.attempt
        return facts, items

    def _origins(self, tools: Any, options: Mapping[str, Any]) -> Origins | None:
        """Returns what adds the texts of a step that is replayed to those of the run, if a policy needs them."""
        if self._run.origins is None:
            return None
        from ..dispatch.origins import origins_of  # few tools have a policy

        limits = options.get("limits", Limits())
        return origins_of(options.get("policy"), toolset_of(tools), self._run.origins, limits)[1]

    async def end_step(self, turn: Turn) -> None:
        """Keeps the ends of a step that is over. Raises a `JournalError` if its response could not be stored, or the
        run was taken over before a call of it began."""
        if self._lost is not None:
            raise self._lost
        if self._known is not None:
            self._recount(turn, self._known)
        elif self._is_stored is not None:
            await self._stored(self._is_stored, f"the response of step {self._step}")
            if not any(seen.outcome == "unknown" for seen in turn.observations):
                spent = self._run.spent
                seen = [_written_observation(one) for one in turn.observations]
                ends = {"observations": seen, "calls": spent.calls, "tokens": spent.tokens}
                self._ends.append((self._step, _json(ends)))

    async def leave(self, outcome: str | None) -> None:
        """Stores the end of this visit to the run, and gives the lease back. Done, too, if the wait is cancelled.
        Raises a `JournalError` if the run was taken over, or its file failed."""
        if self._lease is not None:
            end, self._lease = partial(self._lease.end, outcome, self._ends, self._read_elsewhere), None
            ours = (self, *self._observers)
            self._run.observers = tuple(one for one in self._run.observers if one not in ours)
            await self._stored(lambda: end()(), "its end")  # it may be refused at once
            for putting in self._putting:
                await self._stored(putting, "what was said")
            await self.noted()

    # -- the inbox --

    def put(self, entry: Mapping[str, Any]) -> None:
        """Stores what is put into the run here, until the model has read it. Raises a `TypeError` or `ValueError` if it
        is no JSON, or too large; a `LocalProtocolError` if the store is closed."""
        if self._lease is not None:
            written = {"kind": entry["kind"], "message": entry.get("messages"), "when": entry.get("when")}
            self._putting.append(self._lease.put(entry["id"], written))
            self._known_entries.add(entry["id"])

    def take_out(self, entry_id: str) -> None:
        """Takes an entry out of the inbox, with the next response."""
        self._read_elsewhere.append(entry_id)

    # -- calls that wait for people --

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._run.run_id

    async def redeem(self, ticket: Suspended, decisions: Sequence[Decision], answers: Sequence[CallAnswer]) -> None:
        """Puts decisions about the calls of a ticket, and answers, on record. Without any, the calls have to wait yet.

        Raises:
            JournalError, DecisionError, AnswerError: see `Journal.suspended`, `Journal.decide` and `Journal.answer`.
        """
        ticket.checked_answers(answers)
        await self._journal.decide(ticket, *decisions)
        if answers or not decisions:
            await self._journal.suspended(ticket)
        for one in answers:
            await self._journal.answer(ticket.run_id, one.call_id, one.result, is_error=one.is_error)

    def named(self, suspended: Suspended | None) -> Suspended | None:
        """Returns suspended calls with the name of the run in its journal."""
        return None if suspended is None else replace(suspended, journal=self._marker)

    def note_waiting(self, waiting: Suspended) -> None:
        """Notes in the journal that calls wait."""
        self._note(lambda lease: lease.note_waiting(waiting))

    def note_over(self, key: str) -> None:
        """Notes in the journal that the call of this key waits no longer."""
        self._note(lambda lease: lease.note_over(key))

    def _note(self, write: Callable[[JournalLease], Waiter]) -> None:
        if self._lease is None:
            return
        try:
            waiter = write(self._lease)
        except Exception as error:  # the store is closed; the run raises it as it is left
            waiter = partial(_fail, error)
        self._noting.append(waiter)

    async def noted(self) -> None:
        """Waits until it is in the journal which calls wait; raises a `JournalError` if it could not be stored."""
        while self._noting:
            await self._stored(self._noting[0], "which calls wait")
            del self._noting[0]

    async def watch(self, take: Callable[[Mapping[str, Any]], None], group: TaskGroup | None) -> None:
        """Takes what earlier processes have left in the inbox; from then on what others put there, in a task of the
        group, or of the event loop's."""
        await self._look(take)
        self._watching = CancelScope()
        if group is not None:
            group.start_soon(self._watch, take)
        else:
            spawn(self._watch, take)

    def stop_watching(self) -> None:
        """Ends the task that looks into the inbox."""
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self, take: Callable[[Mapping[str, Any]], None]) -> None:
        assert self._watching is not None, "made before the task"
        with self._watching:
            while self._lease is not None:
                await anyio.sleep(_LOOKS_EVERY_S)
                try:
                    await self._look(take)
                except (RunTakenOver, LocalProtocolError):  # or the file is gone: the next response shows it
                    return
                except (OSError, sqlite3.Error):  # there is time for another try
                    continue

    async def _look(self, take: Callable[[Mapping[str, Any]], None]) -> None:
        if self._lease is None:
            return
        for entry_id, entry in await self._lease.inbox():
            if entry_id not in self._known_entries:
                self._known_entries.add(entry_id)
                try:
                    put = read_put(entry_id, entry)
                    if put["kind"] == "answer":
                        self._read_elsewhere.append(entry_id)
                    take(put)
                except (TypeError, ValueError, LookupError) as error:
                    words = "run %s: an entry of its inbox is no message of a user's on this wire (%s)"
                    _logger.warning(words, self._run.run_id, type_name(error))

    async def _stored(self, waiter: Waiter, what: str) -> None:
        try:
            await waiter()
        except JournalError:
            raise
        except Exception as error:
            text = f"{what} could not be stored ({_words(error)})"
            raise JournalError(f"the run {self._run.run_id!r} ends here: {text}") from error

    def _recount(self, turn: Turn, ends: Sequence[Observation]) -> None:
        run = self._run
        if not {seen.call_id for seen in ends} <= {call.call_id for call in turn.calls}:
            text = "its response reads as other calls than those whose ends are on record"
            raise JournalError(f"step {self._step} of the run {run.run_id!r} cannot be read from its journal: {text}")
        recount(turn.calls, ends, run.counts)
        run.spent.calls, run.spent.tokens = self._spent
        if run.results is not None:
            for seen in ends:
                run.results.add(self._step, seen.model_content)
        if run.offloads is not None:
            for seen in ends:
                run.offloads.restore(seen, self._step)

    # -- as an observer --

    def begin_stream(self, stream: StreamFacts, /) -> None:
        """Begins with the body of an attempt; notes by which made-up ids it is decoded."""
        self._items, self._salt = [], self._run.salts

    def on_item(self, item: Any, /) -> None:
        """Keeps a piece of the body."""
        self._items.append(item if isinstance(item, bytes) else {"is": written_value(item)})

    def end_stream(self, error: StreamError | None, /) -> None:
        """Does nothing: `StreamEnd` follows."""

    def around_tool(self, call_id: str) -> AbstractContextManager[object] | None:
        """Returns None: nothing is to be held."""
        return None

    def on_event(self, event: Event) -> None:
        """Stores the response when it has come to its end."""
        if self._has_ended is None or isinstance(event, StepStart):
            self._has_ended, self._items, self._attempt = anyio.Event(), [], 1
            if event.step != self._step:
                self._step, self._is_stored = event.step, None
            return
        if isinstance(event, AttemptBegan):  # what came before it is discarded
            self._attempt, self._items = event.attempt, []
            return
        if isinstance(event, StreamEnd):
            if self._is_stored is None and _is_whole(event):
                try:
                    self._is_stored = self._keep()
                except Exception as error:  # of anything in the response, or the store is closed; the step raises it
                    self._is_stored = partial(_fail, error)
            self._items = []
        self._has_ended.set()

    def _keep(self) -> Waiter:
        if self._lease is None:
            return _no_lease
        kind, body = _written_items(self._items)
        assert self._inbox is not None, "known since the run began"
        said = self._inbox.taken[self._said :]
        self._said += len(said)
        facts = {
            "kind": kind,
            "salt": self._salt,
            "attempt": self._attempt,
            "traceparent": self._run.traceparent(),
            "proposed_by": self._run.proposed_by(),
            "said": [marked(one) for one in said],
        }
        ends, self._ends = self._ends, []
        read, self._read_elsewhere = [*(str(one["id"]) for one in said), *self._read_elsewhere], []
        return self._lease.keep(JournaledResponse(self._step, _json(facts), body), ends, read)

    # -- as the store of the run's calls --

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        """Claims a call whose response is stored, if the run is still held here; waits for the response."""
        assert self._has_ended is not None, "calls are made in a step"
        if not self._has_ended.is_set():
            if self._by_hand:
                raise ToolNotStarted("not run: the response is stored first, so run the call after StreamEnd")
            await self._has_ended.wait()
        if self._is_stored is None:
            raise ToolNotStarted("not run: the response broke off, so that it is not in the journal")
        try:
            await self._is_stored()
        except Exception as error:
            raise ToolNotStarted(f"not run: the response could not be stored ({_words(error)})") from error
        if self._lease is None:
            raise ToolNotStarted("not run: the run was left")
        try:
            return await self._lease.claim(self._store, key, fingerprint)
        except RunTakenOver as error:
            self._lost = error
            raise ToolNotStarted(f"not run: {error}") from error

    async def complete(self, key: str, result: bytes, /) -> None:
        """See `IdempotencyStore`."""
        await self._store.complete(key, result)

    async def release(self, key: str, /) -> None:
        """See `IdempotencyStore`."""
        await self._store.release(key)

    async def abandon(self, key: str, /) -> None:
        """See `IdempotencyStore`."""
        await self._store.abandon(key)

    async def decide(self, key: str, record: bytes | None, /) -> bytes | None:
        """Keeps a decision in the journal's file, whatever the store: that is where others decide; see
        `DecidingStore`."""
        return await self._journal.store.decide(key, record)

    @property
    def answers(self) -> IdempotencyStore:
        """Where answers to calls are on record: in the journal's file, so that it knows which one is the first."""
        return self._journal.store

    async def note_handed_out(self, call_id: str, key: str, /) -> None:
        """Notes that a call of the current step is done outside, and where its answer will be on record."""
        if self._lease is not None:
            await self._lease.note_handed_out(self._step, call_id, key)()

    def __getattr__(self, name: str) -> Any:
        if name in ("lease", "renew", "changed"):  # what the store may have besides
            return getattr(self._store, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}", name=name, obj=self)


# -- what is written ---------------------------------------------------------------------------------------------------


def _digest(wire: Wire | str, messages: Sequence[Any]) -> str:
    try:
        written = to_json([find(wire).name, list(messages)])
    except PydanticSerializationError as error:
        raise TypeError("journal= knows a run again by its messages, one of which is no JSON") from error
    return hashlib.sha256(written).hexdigest()


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is needed to read a response again."""

    kind: Literal["bytes", "items"]
    salt: Annotated[int, Range(0, 1 << 53)]
    attempt: Annotated[int, Range(1, 1 << 53)]
    said: tuple[dict[str, Any], ...]
    traceparent: str | None
    proposed_by: str | None


@dataclass(frozen=True, slots=True)
class _Ends:
    """The ends of a step's calls, and what its run had used by then."""

    observations: tuple[dict[str, Any], ...]
    calls: Annotated[int, Range(0, 1 << 53)]
    tokens: Annotated[int, Range(0, 1 << 53)]


def _read_facts(response: JournaledResponse) -> _Facts:
    facts: _Facts = read_object(_Facts, json.loads(response.facts), label="facts")
    return facts


def _said(said: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in map(read_entry, said):
        messages = one["messages"]
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            raise ValueError("messages were expected")
        yield {"id": str(one["id"]), "kind": "say", "when": str(one["when"]), "messages": messages}


def _json(value: Any) -> bytes:
    try:
        return to_json(value)
    except PydanticSerializationError:  # half a surrogate pair
        return json.dumps(value).encode()


def _is_whole(end: StreamEnd) -> bool:
    return end.complete and end.error is None and (end.finish is None or FINISHES[end.finish].is_over)


def _written_items(items: Sequence[bytes | dict[str, Any]]) -> tuple[str, bytes]:
    """Returns a body and the kind of it: bytes as they are, since any cut of them reads the same; else each item."""
    if all(isinstance(item, bytes) for item in items):
        return "bytes", b"".join(item for item in items if isinstance(item, bytes))
    written = ({"bytes": base64.b64encode(one).decode()} if isinstance(one, bytes) else one for one in items)
    return "items", _json(list(written))


def _read_items(kind: str, body: bytes) -> Iterator[Any]:
    if kind == "bytes":
        yield body
        return
    for one in json.loads(body):  # exact also in integers of any size
        item = base64.b64decode(one["bytes"]) if "bytes" in one else read_value(one["is"])
        if not isinstance(item, (bytes, str, dict)):
            raise ValueError("a piece of a response was expected")
        yield item


def _written_observation(seen: Observation) -> dict[str, Any]:
    return {name: value for name, value in written_event(seen).items() if name not in _PLACE}


def _read_observation(written: Mapping[str, Any]) -> Observation:
    event = read_event(written)
    if not isinstance(event, Observation):
        raise ValueError("an observation was expected")
    return event


async def _each(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


def _then(ends: Sequence[Observation]) -> Callable[[AsyncIterator[Event]], AsyncIterator[Event]]:
    """Returns a transform that adds the observations on record behind the response."""

    async def add(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            yield event
            if isinstance(event, StreamEnd):
                for seen in ends:
                    yield seen

    return add


def _words(error: Exception) -> str:
    """Returns SQLite's own words, which quote no value, else the type alone."""
    return str(error) if isinstance(error, sqlite3.Error) else type_name(error)


async def _at_once() -> None:
    return


async def _no_lease() -> None:
    raise JournalError("the run was left")


async def _fail(error: Exception) -> None:
    raise error
