"""Asks a person about a call by an interrupt of its graph, and reads the answer with which the graph is resumed.

Theory of operation. LangGraph resumes a task from its beginning, and gives its interrupts the answers by their number:
neither says which arguments a person has read. So the id of an interrupt here is a hash of the call's name in the store
and of its fingerprint, and an answer counts

* by that id: ``Command(resume={interrupt.id: True})``;
* without one, ``Command(resume=True)``, if the checkpoint says that this interrupt is what the task was left with.

Any other answer decides nothing, and the call is shown again. An answer takes no number among those of the task, so
that interrupts in a tool's body keep theirs. LangGraph keeps an answer without an id in the checkpoint, where the next
interrupt of the task would find it again; it is taken out there.

The first interrupt ends an awaited node, whatever its other calls do. So it leaves the node when those have ended, or
wait as well (`Siblings`); in threads LangGraph waits for them itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import anyio
from anyio.lowlevel import current_token
from langgraph.checkpoint.serde.types import INTERRUPT, RESUME
from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt

from ..dispatch import Approver, Decision, Verdict
from ..events import ApprovalRequested
from ..waiting.approval import verdict_of
from .identity import AnswerName

__all__ = ["InterruptApproval", "Siblings"]

_NO_TASK = "00000000-0000-0000-0000-000000000000"
_FIELDS = {"approved", "by", "reason", "fingerprint", "arguments"}


class InterruptApproval:
    """Asks for the approval of one call in its graph, unless `approve`, which is asked first, has decided."""

    def __init__(
        self, config: dict[str, Any], arguments: dict[str, Any], name: AnswerName, approve: Approver | None
    ) -> None:
        self._config = config
        self._arguments = arguments
        self._name = name
        self._first = approve
        self._shown: set[str] = set()  # the ids of the interrupts that the task was left with
        self._asked: ApprovalRequested | None = None
        self._took_bare = False
        self._error: TypeError | None = None

    async def read(self) -> None:
        self._take_in(await self._config["__pregel_checkpointer"].aget_tuple(self._place(self._namespace())))

    def read_sync(self) -> None:
        self._take_in(self._config["__pregel_checkpointer"].get_tuple(self._place(self._namespace())))

    async def approve(self, event: ApprovalRequested) -> Verdict:
        if (verdict := await verdict_of(self._first, event)) is not None:
            return verdict
        self._asked = event
        try:
            return _decision(event, self._answer(self._id_of(event)))
        except TypeError as error:
            self._error = error  # an approver that raises would deny the call, for good
            return None

    async def leave(self, *, is_open: bool) -> None:
        """Raises the interrupt that shows the call, if it waits; a TypeError if the answer is none."""
        if self._is_spent(is_open):
            await self._config["__pregel_checkpointer"].aput_writes(self._place(""), [(RESUME, None)], _NO_TASK)
        self._raise(is_open)

    def leave_sync(self, *, is_open: bool) -> None:
        if self._is_spent(is_open):
            self._config["__pregel_checkpointer"].put_writes(self._place(""), [(RESUME, None)], _NO_TASK)
        self._raise(is_open)

    def _is_spent(self, is_open: bool) -> bool:
        return self._took_bare or (is_open and self._asked is not None)

    def _raise(self, is_open: bool) -> None:
        if self._error is not None:
            raise self._error
        if is_open and self._asked is not None:
            raise GraphInterrupt((Interrupt(value=self._question(self._asked), id=self._id_of(self._asked)),))

    def _question(self, event: ApprovalRequested) -> dict[str, Any]:
        return {
            "type": "approval",
            "call_id": event.call_id,
            "tool_name": event.tool_name,
            "arguments": self._arguments,
            "fingerprint": event.fingerprint,
            "approvals": event.approvals,
        }

    def _id_of(self, event: ApprovalRequested) -> str:
        text = json.dumps([self._name.answer, event.call_id, event.fingerprint])
        return hashlib.sha256(text.encode()).hexdigest()[:32]  # LangGraph knows ids by their 32 hex digits

    def _answer(self, shown: str) -> Any:
        known: dict[str, Any] = self._config.get("__pregel_resume_map") or {}
        if shown in known:
            return known[shown]
        if shown not in self._shown:
            return None
        answer = self._config["__pregel_scratchpad"].get_null_resume(True)
        self._took_bare = answer is not None
        return answer

    def _take_in(self, saved: Any) -> None:
        task = self._config["__pregel_task_id"]
        for one, channel, value in (saved and saved.pending_writes) or ():
            if one == task and channel == INTERRUPT:
                self._shown.update(interrupt.id for interrupt in value)

    def _namespace(self) -> str:
        return str(self._config["checkpoint_ns"]).rpartition("|")[0]

    def _place(self, namespace: str) -> Any:
        known = {"thread_id": self._config["thread_id"], "checkpoint_ns": namespace}
        return {"configurable": {**known, "checkpoint_id": self._config["checkpoint_map"][namespace]}}


class Siblings:
    def __init__(self) -> None:
        self._running: dict[Hashable, int] = {}  # by event loop and node
        self._ended: dict[Hashable, list[anyio.Event]] = {}

    @contextmanager
    def running(self, node: Hashable) -> Iterator[None]:
        node = (current_token(), node)
        self._running[node] = self._running.get(node, 0) + 1
        try:
            yield
        finally:
            self._running[node] -= 1
            if not self._running[node]:
                del self._running[node]
                for ended in self._ended.pop(node, ()):
                    ended.set()

    async def wait(self, node: Hashable) -> None:
        node = (current_token(), node)
        while node in self._running:
            ended = anyio.Event()
            self._ended.setdefault(node, []).append(ended)
            await ended.wait()


def _decision(event: ApprovalRequested, answer: Any) -> Decision | None:
    """Returns an answer's decision; None without one about these arguments. Raises a TypeError for a bad one."""
    if answer is None:
        return None
    given = answer if isinstance(answer, dict) else {"approved": answer}
    if not given.keys() <= _FIELDS or not isinstance(given.get("approved"), bool):
        raise TypeError(
            f"RunCalls: resume an approval with True, False or {{'approved': True or False}}, optionally with by, "
            f"reason, arguments and fingerprint; got {'another dict' if given is answer else type(answer).__name__}"
        )
    if given.get("fingerprint", event.fingerprint) != event.fingerprint:
        return None
    by, reason = given.get("by"), given.get("reason")
    if event.approvals > 1 and by is None:
        who = f"one of the {event.approvals} people that the call requires"
        raise TypeError(f"RunCalls: resume the approval with {{'approved': ..., 'by': ...}}, where by names {who}")
    try:
        decision = Decision.on(event, given["approved"], by=by, reason=reason, arguments=given.get("arguments"))
        return replace(decision, by="langgraph" if by is None else f"langgraph:{by}")
    except (TypeError, ValueError) as error:
        raise TypeError(f"RunCalls: this answer cannot resume an approval: {error}") from None
