"""Asks a person about a call by pydantic-ai's deferred approvals, and reads the answer that an agent is run with.

pydantic-ai gives an approval to whatever call has that id in the history. So what is shown is noted in the store, under
the arguments that the history has; an approval of others decides nothing, and the call is shown again. Edited arguments
(``override_args``) are another fingerprint, noted beside it, so that a denial on record of the call that was shown
holds for them, and a later denial of it meets their approval.

pydantic-ai answers a denied call itself, and asks no toolset. So `settled` looks at the answers before an agent is run.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.tools import ToolApproved, ToolDenied

from ..dispatch import Approver, DecidingStore, Decision, Verdict
from ..durable.desk import look_up, put_on_record
from ..errors import AlreadyDecided
from ..events import ApprovalRequested
from ..seams import Pending
from ..tools.context import key_prefix
from ..waiting.approval import verdict_of
from .identity import AnswerName

__all__ = ["DeferredApproval", "settled"]


@dataclass(frozen=True, slots=True)
class _Shown:
    call_id: str
    fingerprint: str
    idempotency_key: str
    approvals: int

    @property
    def pending(self) -> Pending:
        key, shown = self.idempotency_key, self.fingerprint
        return Pending(key=key, fingerprint=shown, kind="approval", call_id=self.call_id, approvals=self.approvals)


class DeferredApproval:
    """Asks for the approval of one call by its agent, unless `approve`, which is asked first, has decided."""

    def __init__(self, store: DecidingStore, ctx: Any, part: Any, name: AnswerName, approve: Approver | None) -> None:
        self._store = store
        self._ctx = ctx
        self._part = part
        self._name = name
        self._first = approve
        self._asked: ApprovalRequested | None = None
        self._error: Exception | None = None

    async def approve(self, event: ApprovalRequested) -> Verdict:
        if (verdict := await verdict_of(self._first, event)) is not None:
            return verdict
        self._asked = event
        try:
            return await self._answer(event)
        except Exception as error:
            self._error = error  # an approver that raises would deny the call, for good
            return None

    async def _answer(self, event: ApprovalRequested) -> Decision | None:
        shown = await _noted(self._store, "shown", self._name, self._part) if self._ctx.tool_call_approved else None
        if shown is None:
            return None
        decision = _decision_by(event, True, self._ctx.tool_call_metadata)
        if event.fingerprint == shown.fingerprint:
            return decision
        known = await look_up(self._store, shown.pending)
        if known and not known[-1].verdict:
            return Decision.on(event, False, by=known[-1].by, at=known[-1].at, reason=known[-1].reason)
        ours = _Shown(event.call_id, event.fingerprint, shown.idempotency_key, shown.approvals)
        await self._store.decide(_key_of("edited", self._name, self._part), _written(ours))
        edited = await _noted(self._store, "edited", self._name, self._part)
        holds = edited == ours or (edited and edited.pending.is_settled(await look_up(self._store, edited.pending)))
        return decision if holds else None  # several people have to approve the same arguments

    async def leave(self) -> None:
        """Shows the call by an `ApprovalRequired`, if it waits; raises a TypeError if the approver is unnamed."""
        if self._error is not None:
            raise self._error
        if self._asked is None:
            return
        event = self._asked
        key = key_prefix(self._name.answer, 0, None) + event.call_id
        shown = _Shown(event.call_id, event.fingerprint, key, event.approvals)
        await self._store.decide(_key_of("shown", self._name, self._part), _written(shown))
        raise ApprovalRequired({"type": "approval", "fingerprint": event.fingerprint, "approvals": event.approvals})


async def settled(store: DecidingStore, name: AnswerName, part: Any, answer: Any, metadata: Any) -> Any:
    """Puts the answer to a call on record, if it was shown; returns the answer that holds, the first one."""
    shown = await _noted(store, "shown", name, part)
    if shown is None:
        return answer
    known = await look_up(store, shown.pending)
    is_denial = answer is False or isinstance(answer, ToolDenied)
    if is_denial and not shown.pending.is_settled(known):
        edited = await _noted(store, "edited", name, part)
        if edited is not None and edited.pending.is_settled(others := await look_up(store, edited.pending)):
            raise AlreadyDecided(shown.call_id, others[-1])
        reason = answer.message if isinstance(answer, ToolDenied) else None
        try:
            known = await put_on_record(store, shown.pending, _decision_by(shown, False, metadata, reason))
        except AlreadyDecided:  # a moment ago
            known = await look_up(store, shown.pending)
    if not shown.pending.is_settled(known):
        return answer
    last = known[-1]
    if not last.verdict:
        return ToolDenied() if last.reason is None else ToolDenied(last.reason)
    return ToolApproved() if is_denial else answer


def _decision_by(
    shown: ApprovalRequested | _Shown, verdict: bool, metadata: Any, reason: str | None = None
) -> Decision:
    """Returns a decision by the person whom the metadata names; raises a TypeError if it names nobody."""
    given = metadata if isinstance(metadata, dict) else {}
    by, reason = given.get("by"), given.get("reason", reason)
    if shown.approvals > 1 and by is None:
        who = f"one of the {shown.approvals} people that the call requires"
        raise TypeError(
            f"CallsToolset: name in DeferredToolResults(metadata={{id: {{'by': ...}}}}) which {who} decides"
        )
    try:
        Decision.on(shown, verdict, by=by, reason=reason)
        return Decision.on(shown, verdict, by="pydantic-ai" if by is None else f"pydantic-ai:{by}", reason=reason)
    except (TypeError, ValueError) as error:
        raise TypeError(f"CallsToolset: the metadata of an approval is not a valid answer: {error}") from None


async def _noted(store: DecidingStore, what: str, name: AnswerName, part: Any) -> _Shown | None:
    """Returns a call of the history as it was shown, or edited; None if it was not, with the arguments it has there."""
    record = await store.decide(_key_of(what, name, part), None)
    return None if record is None else _Shown(**json.loads(record))


def _written(shown: _Shown) -> bytes:
    return json.dumps(asdict(shown)).encode()


def _key_of(what: str, name: AnswerName, part: Any) -> str:
    arguments = part.args_as_json_str()
    with suppress(ValueError):  # else as the model wrote it
        arguments = json.dumps(json.loads(arguments), sort_keys=True)
    text = json.dumps([name.answer, part.tool_call_id, part.tool_name, arguments])
    return f"{what}:{hashlib.sha256(text.encode()).hexdigest()}"
