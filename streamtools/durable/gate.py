"""Keeps calls from running twice, by claims in a store: the gate of ``store=``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from ..dispatch.results import AsRead
from ..errors import ModelRetry, ToolError, ToolFailed, ToolOutcomeUnknown, contained
from ..ground import type_name
from ..seams import CallEnd, Entered, GateView
from .claims import CallClaim, recorded_value
from .record_store import operation_prefix
from .store import Claim, IdempotencyStore, Recorded

_DIGEST_CHARS = 32  # characters at the end of an operation's key


class StoreGate:
    """Admits a call once it has claimed it. A call of a tool with ``idempotency_key=`` is claimed under that key.

    Args:
        store: keeps the claims and the ends of calls.
        identity: names the answer that the calls passed to `run_calls` belong to.
        claim: makes a claim in the store, in place of the store's own method.
    """

    def __init__(
        self,
        store: IdempotencyStore,
        identity: str | None = None,
        *,
        claim: Callable[[str, str], Awaitable[Claim]] | None = None,
    ) -> None:
        self._store = store
        self._identity = identity
        self._claim = claim
        self._operations: WeakKeyDictionary[GateView, _Operation] = WeakKeyDictionary()

    def claiming(self, make: Callable[[IdempotencyStore, str, str], Awaitable[Claim]]) -> StoreGate:
        return StoreGate(self._store, self._identity, claim=partial(make, self._store))

    def key(self, call: GateView, /) -> str:
        operation = self._operation(call)
        return call.key if operation is None else operation.key

    async def look(self, call: GateView, /) -> CallEnd | None:
        """Claims the call and releases it at once: there is no other way to ask a store."""
        operation, claim, fingerprint = self._found(call)
        found = await claim.make(fingerprint, call.seconds)
        if found is None:
            await claim.release()
            if claim.noted is not None:
                unfinished = ToolOutcomeUnknown("not run again: the call was begun before, and is still running")
                unfinished.goes_on = True
                raise unfinished
        if found is None or (operation is not None and not operation.has_made(found.result)):
            return None
        return _end(call, operation, found)

    async def enter(self, call: GateView, /) -> Entered | CallEnd:
        operation, claim, fingerprint = self._found(call)
        found = await claim.make(fingerprint, call.seconds, partial(call.waits_for, "elsewhere"))
        return _Claimed(claim, operation) if found is None else _end(call, operation, found)

    def _found(self, call: GateView) -> tuple[_Operation | None, CallClaim, str]:
        operation = self._operation(call)
        if operation is None:
            made = CallClaim(self._store, call.key, call.tool_name, claim=self._claim, goes_on=call.goes_on)
            return None, made, call.fingerprint
        claim = CallClaim(self._store, operation.key, call.tool_name, operation.noted, self._claim, call.goes_on)
        return operation, claim, operation.fingerprint

    def _operation(self, call: GateView) -> _Operation | None:
        if call.operation is None:
            return None
        known = self._operations.get(call)
        if known is not None:
            return known
        conversation = call.conversation_id or ""
        # Calls of `run_calls` that have a name have no run that continues; their conversation does.
        run = call.run_id if self._identity is None else conversation or self._identity
        scope_id = {"run": run, "conversation": conversation, "forever": ""}[call.scope]
        try:
            operation = self._operations[call] = _Operation.of(call, scope_id)
        except BaseException as error:
            text = f"not run: the idempotency key of {call.tool_name} raised {type_name(error)}"
            raise ToolFailed(text) from contained(error)
        return operation


class _Claimed:
    def __init__(self, claim: CallClaim, operation: _Operation | None) -> None:
        self._claim = claim
        self._operation = operation
        self.noted, self.note = claim.noted, claim.note

    @property
    def outlives(self) -> bool:
        return self._claim.claim is not None and self._claim.noted is not None  # a journal's

    async def kept(self, end: CallEnd, /) -> None:
        # A call that is repeated with other arguments is another call, but may be the same operation.
        if self._operation is not None and isinstance(end.error, ModelRetry):
            await self.free()
        elif end.error is not None:
            _told(await self._claim.fail(end.error))
        else:
            value = end.value if end.content is None else AsRead(end.value, end.content)
            _told(await self._claim.complete(value, end.notes))

    async def free(self) -> None:
        _told(await self._claim.release())

    async def lost(self) -> None:
        _told(await self._claim.abandon())


def _told(failure: Exception | None) -> None:
    if failure is not None:
        raise failure


def _end(call: GateView, operation: _Operation | None, found: Recorded) -> CallEnd:
    by_another = operation is not None and not operation.has_made(found.result)
    try:
        value = recorded_value(call.tool_name, found)
    except ToolError as error:
        return CallEnd(error=error, by_another=by_another)
    is_noted = not by_another and found.result is not None and b'"notes"' in found.result  # few are
    notes = from_json(found.result or b"").get("notes") if is_noted else None
    if isinstance(value, AsRead):
        return CallEnd(value=value.value, content=value.content, by_another=by_another, notes=notes)
    return CallEnd(value=value, by_another=by_another, notes=notes)


# -- operations --


@dataclass(frozen=True, slots=True)
class _Operation:
    """What a call of a tool with ``idempotency_key=`` asks for, whatever its id.

    The record names the call that had the effect, so any other call that it answers says that this was done before.
    """

    key: str  # the key in the store, the same for all calls for it in its scope
    fingerprint: str  # a hash of the tool's name and of what is done
    call_key: str

    @classmethod
    def of(cls, call: GateView, scope_id: str) -> _Operation:
        """`scope_id` is the run or the conversation; empty if the operation is for ever. Raises what `call.operation`
        raises, or an error if its value is not plain."""
        assert call.operation is not None, "else it has no operation"
        text = json.dumps([call.tool_name, _plain(call.operation())], sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return cls(f"{operation_prefix(call.scope, scope_id)}{digest[:_DIGEST_CHARS]}", digest, call.key)

    def noted(self, record: bytes) -> bytes:
        return record[:-1] + b',"call":' + to_json(self.call_key) + b"}"

    def has_made(self, record: bytes | None) -> bool:
        try:
            return record is not None and bool(from_json(record).get("call") == self.call_key)
        except (ValueError, AttributeError):  # a person has settled it
            return False


def _plain(value: Any) -> Any:
    """Returns a value as JSON, the same in every process: a set, which has no order, as a sorted list."""
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(one) for one in value), key=lambda one: json.dumps(one, sort_keys=True))
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, BaseModel):
        return {name: _plain(one) for name, one in value}
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    return from_json(to_json(value))
