"""Handles answers to calls that are done outside: how a call is handed out, which answer counts, and its result.

Input: a call of an external tool whose turn has come, and the results that somebody hands in. Output: for each such
call an `AnswerRequested`, and its first answer, with which it goes on as any other: its place, its begin, its end.

Theory of operation. An answer is bytes from the moment it is handed in, so that all that holds for one from another
process holds for one from here. With a store that keeps decisions, it counts if it is the first on record under a key
made of the call's idempotency key and of the fingerprint that was shown. A call looks for its record before it is
handed out: so a run that goes on after a crash hands out nothing that was answered meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio import CancelScope

from ..content import AnsweredLater, Text, ToolResult
from ..errors import AnswerError, LocalProtocolError, ToolError, ToolFailed, ToolTimeout
from ..events import AnswerRequested, StreamWarning
from ..text import type_name
from .decisions import Waiting, decides
from .results import decode_result, encode_result, value_content
from .states import Call, Ending, Host, Input, Outside, begin_wait, end_wait

if TYPE_CHECKING:
    from .approval import Shown
    from .store import DecidingStore

MOST_BYTES = 32 << 20  # of one answer as JSON: more than any result may have that a model reads


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """The result of a call that was done outside, bound to the arguments that were shown.

    Pass it to `resume` or `Suspended.answer`. From a page, id and fingerprint come back in the request:

        CallAnswer(call_id=body["call_id"], fingerprint=body["fingerprint"], result=body["result"])
    """

    call_id: str
    fingerprint: str
    """That of the event or record that was shown."""
    result: Any = field(repr=False)
    """The call's result: text, JSON, or a `ToolResult`. It is bounded and checked as any tool's."""
    is_error: bool = False
    """True: the call has failed, and the result says why."""

    def __post_init__(self) -> None:
        for name in ("call_id", "fingerprint"):
            if not isinstance(value := getattr(self, name), str):
                raise TypeError(f"CallAnswer: expected {name} as a str, got {type(value).__name__}")
        if not isinstance(self.is_error, bool):
            raise TypeError(f"CallAnswer: expected True or False as is_error, got {type(self.is_error).__name__}")

    @classmethod
    def to(cls, shown: Shown, result: Any, *, is_error: bool = False) -> CallAnswer:
        """Returns the answer to a call, given by the event or record that was shown."""
        return cls(call_id=shown.call_id, fingerprint=shown.fingerprint, result=result, is_error=is_error)


def written_answer(result: Any, *, is_error: bool) -> bytes:
    """Returns an answer as bytes; raises a `TypeError` if the result is no JSON, a `ValueError` if it is too large."""
    try:
        if isinstance(result, AnsweredLater):
            raise ToolFailed("it is no result")
        written = encode_result(result)
    except ToolFailed as error:
        raise TypeError(f"answer: expected text, JSON or a ToolResult, got a {type(result).__name__}") from error
    if len(written) > MOST_BYTES:
        raise ValueError(f"answer: expected a result of at most {MOST_BYTES} bytes of JSON, got {len(written)}")
    return b"1" + written if is_error else b"0" + written


def _read(record: bytes) -> Any:
    """Returns the value that an answer stands for, as a tool would have returned it."""
    value = decode_result(record[1:])
    if record[:1] == b"0":
        return value
    if isinstance(value, ToolResult):
        return replace(value, is_error=True)
    return ToolResult(blocks=[Text(value_content(value, MOST_BYTES)[0])], is_error=True)


def answer_key(call: Waiting) -> str:
    """Returns the key under which a call's answer is on record."""
    return _key(call.idempotency_key, call.fingerprint)


def _key(call_key: str, fingerprint: str) -> str:
    return f"answer:{hashlib.sha256(json.dumps([call_key, fingerprint]).encode()).hexdigest()}"


async def put_answer(store: DecidingStore, call: Waiting, record: bytes) -> None:
    """Puts an answer on record. The same one again changes nothing; another one raises an `AnswerError`."""
    if await store.decide(answer_key(call), record) != record:
        raise already_answered(call.call_id)


def already_answered(call_id: str) -> AnswerError:
    """Returns the error for an answer that comes after another one."""
    return AnswerError(call_id, "already_answered", "had another answer before, which holds")


@dataclass(slots=True, eq=False)
class HandedOut:
    """A call while it is done outside, or while it waits for what it has asked."""

    fingerprint: str
    """A hash of what is shown to those who answer."""
    key: str
    """Under which the answer is on record."""
    record: bytes | None = None
    """The answer, once there is one."""
    question: Any = None
    """What a running call has asked."""
    answered: anyio.Event | None = None
    """Is set at the answer to that."""
    number: int = 0
    """The number of the question, from 1."""

    @classmethod
    def of(cls, call: Call) -> HandedOut:
        """Returns a call that is handed out."""
        return cls(call.fingerprint, answer_key(call))

    @classmethod
    def asking(cls, call: Call, question: Any) -> HandedOut:
        """Returns the next question of a call that runs; raises a `TypeError` if it is no JSON."""
        number = 1 if call.question is None else call.question.number + 1
        try:
            text = json.dumps([call.fingerprint, number, question], sort_keys=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError):  # the error's text quotes the value
            raise TypeError(f"ask: expected text or JSON, got a {type(question).__name__}") from None
        fingerprint = hashlib.sha256(text.encode()).hexdigest()
        key = _key(call.idempotency_key, fingerprint)
        return cls(fingerprint, key, question=question, answered=anyio.Event(), number=number)

    def is_open(self, call: Call) -> bool:
        """Returns whether the call still waits for the answer."""
        return self.record is None and call.state == ("handed_out" if self.answered is None else "running")

    async def body(self, begin: Callable[[], Awaitable[float]]) -> Any:
        """Begins the call, and returns the value that it was answered with."""
        assert self.record is not None, "a call is run when it was answered"
        await begin()
        return _read(self.record)


@dataclass(slots=True, eq=False)
class Answers:
    """The answers to the calls of one turn.

    Args:
        host: the step.
        store: where answers are on record; None keeps them in this process alone.
        note: notes that a call of this id is handed out, and the key of its answer, for those who answer elsewhere.
        seconds: those that a call may wait, by its tool.
        move: moves a call along the table of states.
        work: does work for a call in a task.
        ended: returns the ending of a call that has this value.
    """

    host: Host
    store: Any
    note: Callable[[str, str], Awaitable[None]] | None
    seconds: float | None
    move: Callable[[Call, Input, Ending | None], None]
    work: Callable[[Call, Callable[[], Coroutine[Any, Any, None]]], None]
    ended: Callable[[Call, Any], Awaitable[Ending]]

    def hand_out(self, call: Call, *, rests: bool) -> None:
        """Hands a call out, unless its answer is on record, and waits for it, unless it rests."""
        call.out = HandedOut.of(call)
        self.work(call, partial(self._wait, call, call.out, rests))

    async def _wait(self, call: Call, out: Outside, rests: bool) -> None:
        with CancelScope() as call.asking:
            await self._note(call, out)
            if await self._is_on_record(call, out) or call.state != "handed_out":
                return
            self._request(call, out, rests)
            if rests:
                return
            timeout = call.ready[0].timeout
            seconds = self.seconds if timeout is None else timeout
            with anyio.move_on_after(math.inf if seconds is None else seconds) as scope:
                await anyio.sleep_forever()
            if scope.cancelled_caught and out.is_open(call):
                self.move(call, "refused", Ending("timed_out", ToolTimeout(seconds or 0.0)))

    async def ask(self, call: Call, question: Any) -> Any:
        """Asks those outside for what a running call needs, and returns their answer, or raises it if it is a
        `ToolError`. Raises a `LocalProtocolError` if the call asks for something else already, a `TypeError` if the
        question is no JSON."""
        if call.question is not None and call.question.is_open(call):
            raise LocalProtocolError(f"{call.label}: it asks for something already; ask one thing at a time")
        out = call.question = HandedOut.asking(call, question)
        assert out.answered is not None, "made with it"
        await self._note(call, out)
        begin_wait(call, "answer")
        try:
            if not await self._is_on_record(call, out):
                self._request(call, out, rests=False)
                await out.answered.wait()
        finally:
            end_wait(call, time.monotonic())
        assert out.record is not None, "it was answered"
        value = _read(out.record)
        if isinstance(value, ToolResult) and value.is_error:
            raise ToolError("\n".join(one.text for one in value.blocks if isinstance(one, Text)))
        return value

    async def _note(self, call: Call, out: Outside) -> None:
        try:
            if self.note is not None:
                await self.note(call.call_id, out.key)
        except Exception as error:
            self._not_kept(call, error)

    def _request(self, call: Call, out: Outside, rests: bool) -> None:
        tool, bound = call.ready
        event = AnswerRequested(
            call.call_id,
            tool.name,
            dict(bound.by_name),
            fingerprint=out.fingerprint,
            question=out.question,
            rests=rests,
            index=call.call.index,
            caller=call.call.caller,
        )
        self.host.emit(event)

    def look(self, call: Call) -> None:
        """Looks for an answer that somebody elsewhere has put on record."""
        out = call.out or call.question
        if out is not None and out.is_open(call):
            self.work(call, partial(self._look, call, out))

    async def _look(self, call: Call, out: Outside) -> None:
        await self._is_on_record(call, out)

    async def _is_on_record(self, call: Call, out: Outside) -> bool:
        await anyio.lowlevel.checkpoint()
        if not decides(self.store):
            return False
        try:
            found = await self.store.decide(out.key, None)
        except Exception as error:
            self._not_kept(call, error)
            return False
        if found is not None:
            self._take(call, out, found)
        return found is not None

    def give(self, call: Call, record: bytes, fingerprint: str | None) -> bool:
        """Takes an answer; returns False if it is the one that the call has. With a store it counts once it is on
        record, and only if it is the first there. Raises an `AnswerError` if the call has another answer, or waits for
        none."""
        out = call.out or call.question
        if out is None:
            raise AnswerError(call.call_id, "unknown_call", "waits for no answer; answer after its AnswerRequested")
        if fingerprint is not None and fingerprint != out.fingerprint:
            raise AnswerError(call.call_id, "changed_call", "waits for another answer than to what was shown")
        if out.record is not None and out.record != record:
            raise already_answered(call.call_id)
        if out.record is None and not out.is_open(call):
            raise AnswerError(call.call_id, "over", "waits for its answer no longer")
        if out.record is not None:
            return False
        if decides(self.store):
            out.record = record
            self.work(call, partial(self._keep, call, out, record))
        else:
            self._take(call, out, record)
        return True

    async def _keep(self, call: Call, out: Outside, record: bytes) -> None:
        try:
            first = await self.store.decide(out.key, record)
        except Exception as error:
            out.record = None
            self._not_kept(call, error)
            return
        if first != record:
            text = f"{call.label}: it had another answer before"
            self.host.emit(StreamWarning("already_answered", text))
        self._take(call, out, first)

    def _take(self, call: Call, out: Outside, record: bytes) -> None:
        if call.state == "handed_out":
            out.record = record
            if call.job is None:
                self.move(call, "answered", None)
            else:  # it has had its place, and begun
                self.work(call, partial(self._end, call, record))
        elif out.answered is not None:
            out.record = record
            out.answered.set()

    async def _end(self, call: Call, record: bytes) -> None:
        self.move(call, "done", await self.ended(call, _read(record)))

    def _not_kept(self, call: Call, error: Exception) -> None:
        self.host.emit(StreamWarning("answer_not_kept", f"{call.label}: the store raised {type_name(error)}"))
